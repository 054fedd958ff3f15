//! The wall clock: for what people read (conditions, Events, the lease's timestamps), and to be compared with times in objects, for which
//! it is the API server's ([`super::client::ServerTime`]).
//!
//! All other decisions (deadlines, expiry, back-off) use tokio's monotonic clock, which a test can pause.

use std::fmt;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Tells the time of day. Clones tell the same.
#[derive(Clone)]
pub struct Clock {
    tell: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").field(&self.now()).finish()
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::system()
    }
}

impl Clock {
    /// The machine's clock.
    pub fn system() -> Self {
        Self::telling(Timestamp::now)
    }

    /// A clock that shows what `tell` says.
    pub fn telling(tell: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self { tell: Arc::new(tell) }
    }

    /// A clock that shows `start` now and goes on with tokio's clock: paused when that one is, and so repeatable.
    pub fn starting_at(start: Timestamp) -> Self {
        let since = Instant::now();
        Self::telling(move || {
            let elapsed = SignedDuration::try_from(since.elapsed()).unwrap_or(SignedDuration::MAX);
            start.saturating_add(elapsed).unwrap_or(Timestamp::MAX)
        })
    }

    /// The time now.
    pub fn now(&self) -> Timestamp {
        (self.tell)()
    }
}
