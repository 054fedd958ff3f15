//! Ends PostgreSQL where the loop does not turn any more, and so cannot do it itself.
//!
//! What the loop reads in each second are files that the kubelet brings, and the run folder; a disk of the node that hangs may keep it there, or a fault of this
//! program. Others take the Lease as if this process were gone. So a thread of its own, which touches no file but those of the kernel, holds the instance to what
//! it has promised: once the time has come until which it may be primary, and the loop has not turned since, whoever holds the volume's lock is killed.
//!
//! * A loop that turns does all of this by itself, and sooner. One that goes on without the API server, since all others promised, or since there are none, says so
//!   with each turn.
//! * A machine that is slow for less than the time that is left has no consequence: that is some seconds, as the Lease is renewed each second.
//! * Somebody who stops the whole process stops this thread as well. Nothing is left then but the liveness probe.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::super::volume::Holders;
use super::Supervisor;

/// Between two looks.
const LOOK: Duration = Duration::from_millis(50);

/// What the loop says of itself.
#[derive(Clone, Copy, Debug)]
struct Said {
    turned: Instant,
    leads: Option<Leads>,
}

/// PostgreSQL may run as a primary.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leads {
    /// Until then.
    until: Instant,
    /// How long the loop may stand still once that time has come: others wait longer.
    slack: Duration,
    /// Its first process.
    first: Pid,
}

/// Watches for as long as it lives.
#[derive(Debug)]
pub(super) struct Watchdog(Arc<Mutex<Said>>);

impl Watchdog {
    /// Begins to watch.
    ///
    /// # Errors
    /// When there can be no more threads.
    pub(super) fn begin(holders: Holders) -> std::io::Result<Self> {
        let said = Arc::new(Mutex::new(Said {
            turned: Instant::now(),
            leads: None,
        }));
        let watched = Arc::downgrade(&said);
        std::thread::Builder::new()
            .name("watchdog".to_owned())
            .spawn(move || {
                let mut fired = false;
                while let Some(said) = watched.upgrade() {
                    let now = *said.lock().unwrap_or_else(PoisonError::into_inner);
                    drop(said);
                    let overdue = is_overdue(&now, Instant::now());
                    if let Some(first) = overdue {
                        end(first, &holders, fired);
                    }
                    fired = overdue.is_some();
                    std::thread::sleep(LOOK);
                }
            })?;
        Ok(Self(said))
    }

    /// The loop turns.
    pub(super) fn turned(&self, leads: Option<Leads>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Said {
            turned: Instant::now(),
            leads,
        };
    }
}

impl Supervisor {
    /// Tells the watchdog that the loop turns, and until when PostgreSQL may run as a primary.
    pub(super) fn show_a_turn(&self) {
        let leads = self.process.postmaster.as_ref().zip(self.protocol.until());
        let leads = leads.map(|(postmaster, (until, longer))| Leads {
            until: (self.began + until).into_std(),
            // Half of what others wait for longer is left for PostgreSQL to end.
            slack: longer / 2,
            first: postmaster.pid(),
        });
        self.watchdog.turned(leads);
    }
}

/// Whom to end first, if the loop should have done so and has not turned since.
fn is_overdue(said: &Said, now: Instant) -> Option<Pid> {
    let Leads { until, slack, first } = said.leads?;
    let stands_still = now.saturating_duration_since(said.turned) >= slack;
    (now >= until && stands_still).then_some(first)
}

/// By its number first, which needs no file of the volume. Later on it may be another's. What is said comes last: the loop may be waiting for whoever reads the log.
fn end(first: Pid, holders: &Holders, again: bool) {
    if !again {
        let _ = kill_process(first, Signal::KILL);
    }
    for pid in holders.find().unwrap_or_default() {
        let _ = kill_process(pid, Signal::KILL);
    }
    if !again {
        tracing::error!(
            "the instance manager does not turn, and others may take the Lease: PostgreSQL is killed"
        );
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::super::super::options::Options;
    use super::super::super::volume::Volume;
    use super::*;

    const SLACK: Duration = Duration::from_millis(200);

    fn volume() -> (tempfile::TempDir, Volume) {
        let folder = tempfile::tempdir().unwrap();
        let options = Options {
            volume: folder.path().to_owned(),
            ..Options::default()
        };
        let volume = Volume::lock(&options).unwrap();
        (folder, volume)
    }

    /// As PostgreSQL is started; it has a child, which outlives it.
    fn postgres(volume: &Volume) -> (Child, Pid) {
        let mut command = Command::new("sh");
        command.args(["-c", "exec 3<&0; sleep 60 <&3 & wait"]);
        let child = command.stdin(volume.hold().unwrap()).spawn().unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        let begun = Instant::now();
        while volume.holders().unwrap().len() < 2 {
            assert!(begun.elapsed() < Duration::from_secs(10));
            std::thread::sleep(Duration::from_millis(5));
        }
        (child, pid)
    }

    fn leads(until: Instant, slack: Duration, first: Pid) -> Leads {
        Leads { until, slack, first }
    }

    #[test]
    fn a_loop_that_stands_still_costs_postgresql_its_life_once_the_time_is_up_and_not_before() {
        let (_folder, volume) = volume();
        let (mut child, pid) = postgres(&volume);
        let watchdog = Watchdog::begin(volume.holders_of_lock()).unwrap();
        let until = Instant::now() + Duration::from_secs(1);
        watchdog.turned(Some(leads(until, SLACK, pid)));
        while Instant::now() + Duration::from_millis(100) < until {
            assert_eq!(volume.holders().unwrap().len(), 2, "it may be primary");
            std::thread::sleep(Duration::from_millis(20));
        }
        child.wait().unwrap();
        assert!(Instant::now() >= until);
        while !volume.holders().unwrap().is_empty() {
            assert!(until.elapsed() < Duration::from_secs(10), "its children are left");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_loop_that_turns_is_left_alone_whatever_it_says() {
        let (_folder, volume) = volume();
        let (mut child, pid) = postgres(&volume);
        let watchdog = Watchdog::begin(volume.holders_of_lock()).unwrap();
        let begun = Instant::now();
        while begun.elapsed() < SLACK * 15 {
            // Its time was up long ago: it is about to see that itself.
            watchdog.turned(Some(leads(begun, SLACK * 5, pid)));
            std::thread::sleep(Duration::from_millis(20));
        }
        // A replica's loop may stand still.
        watchdog.turned(None);
        std::thread::sleep(SLACK * 10);
        assert!(child.try_wait().unwrap().is_none());
        for pid in volume.holders().unwrap() {
            let _ = kill_process(pid, Signal::KILL);
        }
        child.wait().unwrap();
    }
}
