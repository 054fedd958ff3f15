//! Reaping, which the first process of a container owes to the kernel.
//!
//! A process whose parent has died (one left behind by `kubectl exec`, say) becomes a child of process 1 and, once it ends, a
//! zombie until process 1 asks for its exit code. Children that this program started itself are left to those who wait for them:
//! only a zombie that was there at the sweep before is taken.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use rustix::process::{Pid, WaitOptions, getpid, waitpid};
use tokio::time::interval;

/// Between two sweeps.
const SWEEP: Duration = Duration::from_secs(1);

/// Does what the first process of a container owes to the kernel, if this is it.
pub async fn reap_orphans() {
    if !getpid().is_init() {
        return;
    }
    let mut orphans = Orphans::default();
    let mut ticks = interval(SWEEP);
    loop {
        ticks.tick().await;
        orphans.sweep();
    }
}

/// Remembers the zombies of the last sweep.
#[derive(Debug, Default)]
pub struct Orphans {
    seen: BTreeSet<i32>,
}

impl Orphans {
    /// Reaps the zombies that were there at the last sweep too. Cheap; to be called every few seconds.
    pub fn sweep(&mut self) {
        let zombies = zombie_children();
        for pid in zombies
            .intersection(&self.seen)
            .filter_map(|pid| Pid::from_raw(*pid))
        {
            // Somebody else may have waited for it in between, which is as good.
            let _ = waitpid(Some(pid), WaitOptions::NOHANG);
        }
        self.seen = zombies;
    }
}

fn zombie_children() -> BTreeSet<i32> {
    let own = getpid().as_raw_nonzero().get();
    let Ok(entries) = fs::read_dir("/proc") else {
        return BTreeSet::new();
    };
    let pids = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| {
        fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| is_zombie_of(&stat, own))
    })
    .collect()
}

/// `stat` is `PID (NAME) STATE PARENT ...`, where NAME may hold anything.
fn is_zombie_of(stat: &str, parent: i32) -> bool {
    let Some((_, rest)) = stat.rsplit_once(") ") else {
        return false;
    };
    let mut fields = rest.split(' ');
    fields.next() == Some("Z") && fields.next().and_then(|field| field.parse().ok()) == Some(parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_cannot_pretend_to_be_a_zombie() {
        assert!(is_zombie_of("7 (nginx) Z 1 7 7", 1));
        assert!(!is_zombie_of("7 (nginx) S 1 7 7", 1));
        assert!(!is_zombie_of("7 (x) Z 1) S 9 7 7", 1));
    }

    #[test]
    #[allow(clippy::zombie_processes)] // which is the point
    fn a_zombie_is_taken_at_the_second_sweep() {
        let child = std::process::Command::new("true").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        while !zombie_children().contains(&pid) {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let mut orphans = Orphans::default();
        orphans.sweep();
        assert!(zombie_children().contains(&pid));
        orphans.sweep();
        assert!(!zombie_children().contains(&pid));
    }
}
