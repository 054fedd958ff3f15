//! The wall clock, which only ever ends up in what people read (conditions, Events, the lease's timestamps).
//!
//! Decisions (deadlines, expiry, back-off) use tokio's monotonic clock, which a test can pause.

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Tells the time of day.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    epoch: Option<(Timestamp, Instant)>,
}

impl Clock {
    /// The machine's clock.
    pub fn system() -> Self {
        Self { epoch: None }
    }

    /// A clock that shows `start` now and goes on with tokio's clock: paused when that one is, and so repeatable.
    pub fn starting_at(start: Timestamp) -> Self {
        Self {
            epoch: Some((start, Instant::now())),
        }
    }

    /// The time now.
    pub fn now(&self) -> Timestamp {
        let Some((start, since)) = self.epoch else {
            return Timestamp::now();
        };
        let elapsed = SignedDuration::try_from(since.elapsed()).unwrap_or(SignedDuration::MAX);
        start.saturating_add(elapsed).unwrap_or(Timestamp::MAX)
    }
}
