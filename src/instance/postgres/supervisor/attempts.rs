//! How often data is made: a copy costs the primary a checkpoint and all its data once over the network, so what fails is tried more and more seldom.

use std::time::Duration;

use tokio::time::Instant;

/// After the first failure, and twice as long after each that follows.
const FIRST: Duration = Duration::from_secs(1);
/// No longer than that.
const LONGEST: Duration = Duration::from_secs(5 * 60);
/// Nor than that where the other instance was not even reached, which costs it nothing.
const UNREACHED: Duration = Duration::from_secs(10);
/// How many characters of a reason are told.
const TOLD: usize = 600;

/// What became of the attempts to make data from the same source, since the last that was of use.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    from: Option<String>,
    count: u32,
    again: Option<Instant>,
    why: Option<String>,
}

impl Attempts {
    /// Whether to try now. What failed with another source says nothing of this one.
    pub(super) fn may_begin(&mut self, from: Option<&str>, now: Instant) -> bool {
        if self.from.as_deref() != from {
            *self = Self {
                from: from.map(str::to_owned),
                ..Self::default()
            };
        }
        self.again.is_none_or(|again| again <= now)
    }

    /// One has come to an end, which `why` tells if it brought nothing. One that brought data counts as well, until that is known to be of use.
    pub(super) fn ended(&mut self, why: Option<String>, reached: bool, now: Instant) {
        let pause = FIRST * 2_u32.saturating_pow(self.count.min(16));
        let longest = if reached { LONGEST } else { UNREACHED };
        self.count = self.count.saturating_add(1);
        self.again = Some(now + pause.min(longest));
        self.why = why.map(|why| reason(&why));
    }

    /// The data is of use.
    pub(super) fn succeeded(&mut self) {
        if self.count > 0 {
            *self = Self::default();
        }
    }

    /// For people: why the last one brought nothing.
    pub(super) fn told(&self) -> Option<String> {
        let why = self.why.as_ref()?;
        Some(match &self.from {
            Some(from) => format!("its data could not be made from {from}'s, and will be tried again: {why}"),
            None => format!("the first data could not be made, and will be tried again: {why}"),
        })
    }
}

/// What a program complains about, in one line, without what it says of its progress.
fn reason(said: &str) -> String {
    let complains = |line: &&str| {
        ["error:", "fatal:", "FATAL:"]
            .iter()
            .any(|word| line.contains(word))
    };
    let mut lines: Vec<&str> = said.lines().map(str::trim).filter(complains).collect();
    if lines.is_empty() {
        lines = said.lines().map(str::trim).collect();
    }
    lines.join("; ").chars().take(TOLD).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For how long nothing is tried after each of so many failures.
    fn pauses(attempts: &mut Attempts, count: usize, reached: bool) -> Vec<u64> {
        let mut now = Instant::now();
        let mut pauses = Vec::new();
        for _ in 0..count {
            assert!(attempts.may_begin(Some("a-0"), now));
            attempts.ended(Some("no".to_owned()), reached, now);
            let mut seconds = 0;
            while !attempts.may_begin(Some("a-0"), now) {
                now += Duration::from_secs(1);
                seconds += 1;
            }
            pauses.push(seconds);
        }
        pauses
    }

    #[tokio::test]
    async fn what_fails_is_tried_more_and_more_seldom() {
        let copies = pauses(&mut Attempts::default(), 11, true);
        assert_eq!(copies, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        let unreached = pauses(&mut Attempts::default(), 6, false);
        assert_eq!(unreached, [1, 2, 4, 8, 10, 10]);
    }

    #[tokio::test]
    async fn success_and_another_source_begin_anew_and_a_copy_that_is_never_of_use_does_not() {
        let now = Instant::now();
        let mut attempts = Attempts::default();
        pauses(&mut attempts, 5, true);
        assert!(attempts.told().is_some_and(|told| told.contains("a-0")));
        attempts.ended(None, true, now);
        assert_eq!(attempts.told(), None);
        assert!(!attempts.may_begin(Some("a-0"), now + Duration::from_secs(31)));
        assert!(
            attempts.may_begin(Some("a-1"), now),
            "nothing is known against it"
        );
        pauses(&mut attempts, 5, true);
        attempts.succeeded();
        assert_eq!(pauses(&mut attempts, 2, true), [1, 2]);
    }

    #[test]
    fn what_is_told_is_the_complaint_and_not_the_progress() {
        let said = "exit status: 1: pg_basebackup: initiating base backup\npg_basebackup: error: could not write: No space left on device\npg_basebackup: removing data directory";
        let reason = reason(said);
        assert_eq!(
            reason,
            "pg_basebackup: error: could not write: No space left on device"
        );
    }
}
