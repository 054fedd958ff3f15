//! PostgreSQL's server: its start, its end, and what is left of it.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Child;
use tokio::time::{Instant, sleep};

use super::lines::each_line;
use super::options::Options;
use super::program::ProgramError;
use super::programs::Programs;
use super::volume::Volume;

/// Between two looks at what is left.
const LOOK: Duration = Duration::from_millis(20);
/// How many characters of its last words are told.
const TOLD: usize = 300;

/// The running server.
///
/// Its first process is in a process group of its own, so that nothing but this signals it, and has the lock of the volume as standard input, as have all
/// its children, each of which is in a session of its own. It is killed when this is dropped.
#[derive(Debug)]
pub struct Postmaster {
    child: Child,
    pid: Pid,
    ended: bool,
    last_words: LastWords,
}

/// Why PostgreSQL ends, in its own words: the last thing that it called fatal. It may be told a moment after the end.
#[derive(Clone, Debug, Default)]
pub struct LastWords(Arc<Mutex<String>>);

impl LastWords {
    /// Empty if there were none.
    pub fn get(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn hear(&self, line: &str) {
        let words = ["PANIC:  ", "FATAL:  "]
            .into_iter()
            .find_map(|level| line.find(level));
        // Of these each client is told that asks too early, and we ask all the time.
        let told = |words: &&str| words.starts_with("FATAL:  the database system is ");
        if let Some(words) = words.and_then(|at| line.get(at..)).filter(|words| !told(words)) {
            let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // A panic is the reason, and what others call fatal follows from it.
            if words.starts_with("PANIC") || !last.starts_with("PANIC") {
                *last = words.chars().take(TOLD).collect();
            }
        }
    }
}

impl Postmaster {
    /// Starts PostgreSQL on the data with the files of the run folder. What it prints becomes this program's log.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(programs: &Programs, options: &Options, volume: &Volume) -> Result<Self, ProgramError> {
        let mut command = programs.command("postgres", options, volume)?;
        command.arg("-D").arg(options.data());
        for (name, path) in [
            ("config_file", options.postgresql_conf()),
            ("hba_file", options.pg_hba()),
            ("ident_file", options.pg_ident()),
        ] {
            let mut setting = std::ffi::OsString::from(name);
            setting.push("=");
            setting.push(path);
            command.arg("-c").arg(setting);
        }
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let failed = |source| ProgramError::Run {
            program: "postgres".to_owned(),
            source,
        };
        let mut child = command.spawn().map_err(failed)?;
        let pid = child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        let pid = pid.ok_or_else(|| failed(io::Error::other("it ended at once")))?;
        // They end with the last process that has the pipe.
        if let Some(out) = child.stdout.take() {
            tokio::spawn(each_line(out, |line: &str| tracing::info!("{line}")));
        }
        let last_words = LastWords::default();
        if let Some(err) = child.stderr.take() {
            let last_words = last_words.clone();
            tokio::spawn(each_line(err, move |line: &str| {
                tracing::info!("{line}");
                last_words.hear(line);
            }));
        }
        Ok(Self {
            child,
            pid,
            ended: false,
            last_words,
        })
    }

    /// What it says in the end; good for longer than this.
    pub fn last_words(&self) -> LastWords {
        self.last_words.clone()
    }

    /// The first process.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Waits for the first process to end; the others may still be there. May be cancelled and called again.
    ///
    /// # Errors
    /// When the kernel cannot tell.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await?;
        self.ended = true;
        Ok(status)
    }

    /// Ends all connections, writes a checkpoint, sends it to those that stream, and ends.
    pub fn stop_fast(&self) {
        self.signal(Signal::INT);
    }

    /// Ends at once, to recover at the next start. It kills its children itself where they do not end within 5 s, unless it is stopped.
    pub fn stop_immediately(&self) {
        self.signal(Signal::QUIT);
    }

    /// Reads the files of configuration again, and the certificates.
    pub fn reload(&self) {
        self.signal(Signal::HUP);
    }

    fn signal(&self, signal: Signal) {
        if !self.ended {
            let _ = kill_process(self.pid, signal);
        }
    }
}

impl Drop for Postmaster {
    fn drop(&mut self) {
        // Its children end by themselves when they see that it is gone; whoever must not rely on that has called `kill_all`.
        self.signal(Signal::KILL);
    }
}

/// Kills every process that holds the lock of the volume, stopped ones included, and those that they start meanwhile; true once none is left, false if one
/// is after `bound`: the kernel keeps a process that waits for a disk.
///
/// # Errors
/// When the kernel cannot tell what there is.
pub async fn kill_all(volume: &Volume, bound: Duration) -> io::Result<bool> {
    let deadline = Instant::now() + bound;
    loop {
        let left = volume.holders()?;
        if left.is_empty() {
            return Ok(true);
        }
        for pid in left {
            let _ = kill_process(pid, Signal::KILL);
        }
        if Instant::now() >= deadline {
            return Ok(false);
        }
        sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_says_to_those_who_ask_too_early_is_no_reason() {
        let words = LastWords::default();
        words.hear("2026-11-22 12:00:00 UTC [7] FATAL:  requested WAL segment 000000010000000000000003 has already been removed");
        words
            .hear("2026-11-22 12:00:01 UTC [8] FATAL:  the database system is not yet accepting connections");
        assert!(words.get().ends_with("has already been removed"));
    }

    #[test]
    fn its_last_words_are_why_it_ended_and_not_what_followed_from_that() {
        let words = LastWords::default();
        for line in [
            "2026-11-22 12:00:00 UTC [7] FATAL:  the database system is starting up",
            "2026-11-22 12:00:01 UTC [9] LOG:  invalid checkpoint record",
            "2026-11-22 12:00:01 UTC [9] PANIC:  could not locate a valid checkpoint record",
            "2026-11-22 12:00:01 UTC [7] FATAL:  the database system is shutting down",
        ] {
            words.hear(line);
        }
        assert_eq!(words.get(), "PANIC:  could not locate a valid checkpoint record");
    }
}
