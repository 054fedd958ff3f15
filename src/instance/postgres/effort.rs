//! What the process of PostgreSQL that recovers has done so far, as the kernel counts it: PostgreSQL itself says nothing before it answers.

use std::fs;

use rustix::process::Pid;

/// One that only waits looks at its log every five seconds, and that costs less than this in ten minutes: bytes read, seconds of a processor.
const READ: u64 = 16 << 20;
const SECONDS: u64 = 5;
/// In which the kernel counts, on every machine.
const TICKS_PER_SECOND: u64 = 100;

/// What one process has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Effort {
    pid: i32,
    /// From files, whether or not they were in memory.
    bytes: u64,
    /// Of a processor.
    seconds: u64,
}

impl Effort {
    /// Of the process that recovers, if it is among these; none as well if the kernel does not tell.
    pub(super) fn find(holders: &[Pid]) -> Option<Self> {
        holders
            .iter()
            .find_map(|pid| Self::of(pid.as_raw_nonzero().get()))
    }

    fn of(pid: i32) -> Option<Self> {
        let about = |what: &str| fs::read_to_string(format!("/proc/{pid}/{what}")).ok();
        is_recovery(&about("cmdline")?).then_some(())?;
        Some(Self {
            pid,
            bytes: bytes(&about("io")?)?,
            seconds: ticks(&about("stat")?)? / TICKS_PER_SECOND,
        })
    }

    /// Whether more was done since then than waiting takes.
    pub(super) fn is_more_than(&self, before: &Self) -> bool {
        self.pid != before.pid
            || self.bytes.saturating_sub(before.bytes) >= READ
            || self.seconds.saturating_sub(before.seconds) >= SECONDS
    }
}

/// `postgres: startup recovering 000000010000000000000003`, with the name of the cluster before it if there is one.
fn is_recovery(command: &str) -> bool {
    let title = command.trim_end_matches(['\0', ' ']);
    let title = title.split(" recovering ").next().unwrap_or_default();
    let title = title.split(" waiting for ").next().unwrap_or_default();
    title.starts_with("postgres: ") && title.trim_end().ends_with(" startup")
}

fn bytes(io: &str) -> Option<u64> {
    let line = io.lines().find_map(|line| line.strip_prefix("rchar:"));
    line?.trim().parse().ok()
}

/// For itself and in the kernel. What comes before them ends with a name that may hold anything.
fn ticks(stat: &str) -> Option<u64> {
    let (_, values) = stat.rsplit_once(')')?;
    let mut values = values.split_whitespace().skip(11).map(str::parse::<u64>);
    Some(values.next()?.ok()? + values.next()?.ok()?)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("postgres: startup recovering 000000010000000000000003\0\0\0", true)]
    #[case("postgres: startup waiting for 000000010000000000000003", true)]
    #[case("postgres: startup \0", true)]
    #[case("postgres: orders: startup recovering 000000010000000000000003", true)]
    #[case("postgres: checkpointer ", false)]
    #[case("postgres: postgres startup [local] idle", false)]
    #[case("postgres\0-D\0/data", false)]
    fn the_process_that_recovers_is_known_by_its_title(#[case] command: &str, #[case] recovers: bool) {
        assert_eq!(is_recovery(command), recovers);
    }

    #[test]
    fn what_the_kernel_counts_is_read() {
        let stat = "77 (post) gres) S 1 77 77 0 -1 4194560 1 0 0 0 250 150 0 0 20 0 1 0 1 2 3";
        assert_eq!(ticks(stat), Some(400));
        assert_eq!(bytes("rchar: 4096\nwchar: 1\n"), Some(4096));
        assert_eq!(ticks("77"), None);
        let own = fs::read_to_string("/proc/self/stat").unwrap();
        assert!(ticks(&own).is_some());
    }

    #[rstest]
    #[case::it_waits(7, 1 << 20, 1, false)]
    #[case::it_reads(7, 20 << 20, 1, true)]
    #[case::it_works(7, 0, 6, true)]
    #[case::another_one(8, 0, 0, true)]
    fn waiting_is_no_effort(#[case] pid: i32, #[case] bytes: u64, #[case] seconds: u64, #[case] more: bool) {
        let before = Effort {
            pid: 7,
            bytes: 0,
            seconds: 0,
        };
        assert_eq!(Effort { pid, bytes, seconds }.is_more_than(&before), more);
    }
}
