//! The nginx process, and questions to it over its own socket.

use std::fs;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

use super::Options;

/// How long nginx may take to answer a question about itself; less than a probe may.
const ANSWER: Duration = Duration::from_secs(2);
/// The longest answer that is read, in bytes.
const MAX_ANSWER: u64 = 16 * 1024;

/// The running nginx master.
#[derive(Debug)]
pub struct Nginx {
    child: Child,
    pid: Pid,
}

impl Nginx {
    /// Starts nginx on the active generation, in a process group of its own, so that nothing but this agent signals it and its
    /// workers can be ended with it.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(options: &Options) -> io::Result<Self> {
        // What a killed nginx leaves behind would keep the next from listening.
        match fs::remove_file(options.socket()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut command = Command::new(&options.nginx);
        command.args(["-e", "stderr", "-p"]).arg(&options.run);
        command.arg("-c").arg(options.active().join("nginx.conf"));
        let child = command.stdin(Stdio::null()).process_group(0).spawn()?;
        let pid = child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        let pid = pid.ok_or_else(|| io::Error::other("nginx ended at once"))?;
        Ok(Self { child, pid })
    }

    /// The master's process id.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Waits for the master to end.
    ///
    /// # Errors
    /// When the kernel cannot tell.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Waits for the master to end, for at most `bound`; true if it did.
    pub async fn ended_within(&mut self, bound: Duration) -> bool {
        timeout(bound, self.child.wait()).await.is_ok()
    }

    /// Sends a signal to the master, which may already be gone.
    pub fn signal(&self, signal: Signal) {
        let _ = kill_process(self.pid, signal);
    }

    /// Ends whatever is left of it, the master and its workers.
    pub fn kill_all(&self) {
        let _ = kill_process_group(self.pid, Signal::KILL);
    }
}

/// Asks nginx over its own socket, and gives the body of its answer.
///
/// # Errors
/// When there is no answer within two seconds, or one other than 200.
pub async fn ask(options: &Options, path: &str) -> io::Result<String> {
    let question = async {
        let mut stream = UnixStream::connect(options.socket()).await?;
        stream
            .write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes())
            .await?;
        let mut answer = String::new();
        stream.take(MAX_ANSWER).read_to_string(&mut answer).await?;
        Ok::<_, io::Error>(answer)
    };
    let answer = timeout(ANSWER, question)
        .await
        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    if head.split(' ').nth(1) == Some("200") {
        Ok(body.to_owned())
    } else {
        Err(io::Error::other(format!(
            "nginx answers {:?}",
            head.lines().next().unwrap_or_default()
        )))
    }
}

/// Waits until nginx's workers answer with a generation, for at most `bound`; true if they do.
pub async fn serves(options: &Options, generation: &str, bound: Duration) -> bool {
    let deadline = Instant::now() + bound;
    loop {
        if ask(options, "/generation")
            .await
            .is_ok_and(|answer| answer == generation)
        {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        sleep(Duration::from_millis(50)).await;
    }
}
