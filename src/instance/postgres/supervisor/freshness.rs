//! Whether what a replica has is recent enough for whoever asks for one.
//!
//! A replica that receives nothing while its primary works falls behind without end, and clients are led to others. While nobody works as the primary all replicas are
//! equally old, and none is taken away: what they have is the newest that there is. That they do not receive proves neither; that the primary works does.

use std::time::Duration;

use tokio::time::Instant;

use crate::api::database::agent::Lsn;

/// For so long a replica is good enough that receives nothing.
const OLD: Duration = Duration::from_secs(30);
/// A primary whose position in the Lease changed so long ago, which it does every second or so, is not known to work.
const MOVED: Duration = Duration::from_secs(10);
/// The record may tell a moment later of what was written before.
const LATE: Duration = Duration::from_secs(5);

/// What is known of how old a replica is.
#[derive(Debug, Default)]
pub(super) struct Freshness {
    /// When it last received.
    streamed: Option<Instant>,
    /// How far the Lease says that the primary has written, and when that was last another.
    flushed: Option<(Lsn, Instant)>,
}

impl Freshness {
    pub(super) fn note(&mut self, streaming: bool, flushed: Option<Lsn>, now: Instant) {
        if streaming {
            self.streamed = Some(now);
        }
        self.flushed = match (self.flushed, flushed) {
            (Some((before, since)), Some(flushed)) if before == flushed => Some((before, since)),
            (Some(_), Some(flushed)) => Some((flushed, now)),
            // As it is seen first it may be of long ago.
            (None, Some(flushed)) => Some((flushed, now.checked_sub(MOVED).unwrap_or(now))),
            (known, None) => known,
        };
    }

    /// Whether a primary has gone on without this replica for too long. `serves` says that one is known to serve, by itself or by another that receives.
    pub(super) fn is_old(&self, serves: bool, now: Instant) -> bool {
        let within = |at: Instant, time: Duration| now.saturating_duration_since(at) < time;
        if self.streamed.is_some_and(|streamed| within(streamed, OLD)) {
            return false;
        }
        let writes = self.flushed.is_some_and(|(_, moved)| {
            let since = self.streamed.is_none_or(|streamed| moved > streamed + LATE);
            since && within(moved, MOVED)
        });
        serves || writes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// A replica that received until then.
    fn until_now() -> (Freshness, Instant) {
        let now = Instant::now() + secs(3600);
        let mut freshness = Freshness::default();
        freshness.note(true, Some(Lsn(100)), now);
        (freshness, now)
    }

    #[tokio::test]
    async fn a_replica_that_received_nothing_for_half_a_minute_is_old_where_somebody_serves() {
        let (freshness, now) = until_now();
        assert!(!freshness.is_old(true, now + secs(29)));
        assert!(freshness.is_old(true, now + secs(31)));
    }

    #[tokio::test]
    async fn while_nobody_writes_none_is_old_however_long_that_is() {
        let (mut freshness, now) = until_now();
        // The last that the primary wrote into the Lease.
        freshness.note(false, Some(Lsn(120)), now + secs(2));
        for later in [31, 300, 100_000] {
            freshness.note(false, Some(Lsn(120)), now + secs(later));
            assert!(!freshness.is_old(false, now + secs(later)), "{later}");
        }
    }

    #[tokio::test]
    async fn a_replica_that_reaches_no_other_sees_by_the_lease_that_somebody_writes() {
        let (mut freshness, now) = until_now();
        for second in 1..=40 {
            freshness.note(false, Some(Lsn(100 + second)), now + secs(second));
        }
        assert!(freshness.is_old(false, now + secs(40)));
        assert!(
            !freshness.is_old(false, now + secs(60)),
            "that one may be down now"
        );
        freshness.note(true, Some(Lsn(200)), now + secs(61));
        assert!(!freshness.is_old(true, now + secs(62)), "it receives again");
    }

    #[tokio::test]
    async fn one_that_has_just_begun_is_old_if_somebody_serves_and_as_good_as_any_if_nobody_does() {
        let now = Instant::now() + secs(3600);
        let mut freshness = Freshness::default();
        freshness.note(false, Some(Lsn(100)), now);
        assert!(freshness.is_old(true, now));
        assert!(!freshness.is_old(false, now));
        freshness.note(false, Some(Lsn(101)), now + secs(1));
        assert!(freshness.is_old(false, now + secs(1)));
    }
}
