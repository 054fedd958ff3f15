//! One line of the log for what may happen very often.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// One line in this time.
const INTERVAL: Duration = Duration::from_secs(60);

/// Admits one line a minute, and counts what happens meanwhile.
#[derive(Debug, Default)]
pub struct Sparing {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    last: Option<Instant>,
    untold: u64,
}

impl Sparing {
    /// To be called each time that it happens. `None` when nothing is to be logged now, else how often it has happened since the last
    /// line, this time included.
    pub fn admit(&self, now: Instant) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.untold = state.untold.saturating_add(1);
        if state
            .last
            .is_some_and(|last| now.saturating_duration_since(last) < INTERVAL)
        {
            return None;
        }
        state.last = Some(now);
        Some(std::mem::take(&mut state.untold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_first_is_told_at_once_and_then_one_line_a_minute_tells_how_many() {
        let (sparing, start) = (Sparing::default(), Instant::now());
        let told: Vec<_> = (0..=120)
            .filter_map(|second| sparing.admit(start + Duration::from_secs(second)))
            .collect();
        assert_eq!(told, [1, 60, 60]);
    }
}
