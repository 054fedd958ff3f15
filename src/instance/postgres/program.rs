//! One run of a program that comes to an end by itself.

use std::collections::VecDeque;
use std::io;
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Command;
use tokio::time::timeout;

use super::lines::each_line;

/// How many of the last lines an error tells.
const TOLD: usize = 10;
/// How long what a program has printed may still be read after its end: another process may keep the pipe open.
const REST: Duration = Duration::from_secs(1);

/// How what is told of a program begins that the dynamic linker could not load.
const NOT_LOADED: &str = "exit status: 127:";

/// Why a program was of no use.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// There is none for the major version that is wanted.
    #[error("found no PostgreSQL {major}; looked at {looked}")]
    Missing {
        /// The version.
        major: u32,
        /// Where was looked, and what was found there.
        looked: String,
    },
    /// It could not be run.
    #[error("cannot run {program}: {source}")]
    Run {
        /// The program.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// It failed; the text is its own.
    #[error("{program} failed: {said}")]
    Failed {
        /// The program.
        program: String,
        /// The last lines that it printed.
        said: String,
    },
    /// It did not come to an end.
    #[error("{program} did not end within {seconds} s; it last said: {said}")]
    Slow {
        /// The program.
        program: String,
        /// The bound.
        seconds: u64,
        /// The last lines that it printed.
        said: String,
    },
    /// What comes before or after it could not be read or written.
    #[error(transparent)]
    Files(#[from] io::Error),
}

impl ProgramError {
    /// Whether the image does not have the program, or not what it is linked to: no other attempt ends otherwise.
    pub fn is_of_the_image(&self) -> bool {
        match self {
            Self::Run { source, .. } => source.kind() == io::ErrorKind::NotFound,
            Self::Failed { said, .. } => said.starts_with(NOT_LOADED),
            _ => false,
        }
    }
}

/// Ends a whole process group, unless it is called off. A process group keeps its number as long as one of its processes is there.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(pid) = self.0 {
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

/// The last lines of what a program prints.
#[derive(Default)]
struct Last(Mutex<VecDeque<String>>);

impl Last {
    fn tell(&self, program: &str, line: &str) {
        tracing::info!(program, "{line}");
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == TOLD {
            lines.pop_front();
        }
        lines.push_back(line.to_owned());
    }

    /// None if it has printed nothing.
    fn lines(&self) -> Option<String> {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (!lines.is_empty()).then(|| Vec::from(lines.clone()).join("\n"))
    }
}

/// Runs a program in a process group of its own, and logs what it prints. Whoever stops waiting ends it, and all that it has started.
pub(super) async fn run(program: &str, mut command: Command, bound: Duration) -> Result<(), ProgramError> {
    let failed = |source| ProgramError::Run {
        program: program.to_owned(),
        source,
    };
    command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    let mut child = command.spawn().map_err(failed)?;
    let pid = child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
    let mut group = Group(pid);
    let (printed, complained) = (Last::default(), Last::default());
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let outcome = {
        let mut reading = std::pin::pin!(async {
            let out = async {
                if let Some(out) = out {
                    each_line(out, |line| printed.tell(program, line)).await;
                }
            };
            let err = async {
                if let Some(err) = err {
                    each_line(err, |line| complained.tell(program, line)).await;
                }
            };
            tokio::join!(out, err);
        });
        let ended = timeout(bound, async {
            tokio::select! {
                status = child.wait() => (status, false),
                () = &mut reading => (child.wait().await, true),
            }
        });
        match ended.await {
            Ok((status, read_all)) => {
                if !read_all {
                    let _ = timeout(REST, &mut reading).await;
                }
                Some(status)
            }
            Err(_) => None,
        }
    };
    let said = || complained.lines().or_else(|| printed.lines()).unwrap_or_default();
    match outcome {
        None => Err(ProgramError::Slow {
            program: program.to_owned(),
            seconds: bound.as_secs(),
            said: said(),
        }),
        Some(Err(source)) => Err(failed(source)),
        Some(Ok(status)) if status.success() => {
            group.0 = None;
            Ok(())
        }
        // Whatever it has started goes with it.
        Some(Ok(status)) => Err(ProgramError::Failed {
            program: program.to_owned(),
            said: format!("{status}: {}", said()),
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null());
        command
    }

    #[tokio::test]
    async fn a_failure_is_told_in_the_programs_own_words() {
        let script =
            shell("echo progress; for i in 1 2 3 4 5 6 7 8 9 10 11; do echo line $i >&2; done; exit 3");
        let error = run("x", script, Duration::from_secs(5)).await.unwrap_err();
        let error = error.to_string();
        assert!(error.contains("exit status: 3"), "{error}");
        assert!(
            error.contains("line 2\n") && error.ends_with("line 11"),
            "{error}"
        );
        assert!(
            !error.contains("line 1\n") && !error.contains("progress"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn what_the_image_lacks_is_told_from_what_fails() {
        let run = |command| run("x", command, Duration::from_secs(5));
        let missing = run(Command::new("/no/such/program")).await.unwrap_err();
        assert!(missing.is_of_the_image(), "{missing}");
        let library = run(shell("echo 'error while loading shared libraries' >&2; exit 127")).await;
        assert!(library.unwrap_err().is_of_the_image());
        let failed = run(shell(
            "echo 'could not read file: Input/output error' >&2; exit 1",
        ))
        .await;
        assert!(!failed.unwrap_err().is_of_the_image());
        let killed = run(shell("kill -9 $$")).await;
        assert!(!killed.unwrap_err().is_of_the_image());
    }

    #[tokio::test]
    async fn what_does_not_end_is_ended_with_all_that_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pids");
        let script = shell(&format!("sleep 60 & echo $! > {}; wait", path.display()));
        let began = Instant::now();
        let error = run("x", script, Duration::from_millis(300)).await.unwrap_err();
        assert!(matches!(error, ProgramError::Slow { .. }), "{error}");
        assert!(began.elapsed() < Duration::from_secs(5));
        let pid = std::fs::read_to_string(path).unwrap();
        let status = format!("/proc/{}/stat", pid.trim());
        // Gone, or ended and not yet reaped by whoever reaps.
        for _ in 0..100 {
            if std::fs::read_to_string(&status).map_or(true, |text| text.contains(") Z ")) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{pid} is left");
    }
}
