//! Who may write, and until when.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::time::Instant;

/// Whether this process leads, shared by the elector, which sets it, and the client, which refuses writes without it.
#[derive(Clone, Debug)]
pub struct Leadership {
    state: Arc<RwLock<State>>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// There is no election: this process may always write.
    Unneeded,
    /// Another process leads, or none does.
    Standby,
    /// This process leads until the given time, if it does not renew before.
    Leading { until: Instant },
}

/// A write was refused because this process does not lead (any more).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fenced {
    /// It never led, or gave the lease back.
    #[error("refused to write: this process does not hold the leader election lease")]
    Standby,
    /// It led, and could not renew in time; another process may lead by now.
    #[error("refused to write: the leader election lease was last renewed too long ago (deadline passed {} ms ago)", .ago.as_millis())]
    DeadlinePassed {
        /// How long ago the renew deadline passed.
        ago: Duration,
    },
}

impl Leadership {
    /// For a process that takes part in no election.
    pub fn unneeded() -> Self {
        Self {
            state: Arc::new(RwLock::new(State::Unneeded)),
        }
    }

    /// For a process that does, and has not won yet.
    pub fn standby() -> Self {
        Self {
            state: Arc::new(RwLock::new(State::Standby)),
        }
    }

    /// Whether this process may write now.
    pub fn is_leader(&self) -> bool {
        self.permit().is_ok()
    }

    /// Until when this process leads if it does not renew; `None` when it does not lead or needs no lease.
    pub fn valid_until(&self) -> Option<Instant> {
        match self.get() {
            State::Leading { until } => Some(until),
            State::Unneeded | State::Standby => None,
        }
    }

    /// Whether a write may be sent at this very moment.
    ///
    /// # Errors
    /// When this process does not lead.
    pub fn permit(&self) -> Result<(), Fenced> {
        match self.get() {
            State::Unneeded => Ok(()),
            State::Standby => Err(Fenced::Standby),
            State::Leading { until } => {
                let now = Instant::now();
                if now < until {
                    Ok(())
                } else {
                    Err(Fenced::DeadlinePassed {
                        ago: now.duration_since(until),
                    })
                }
            }
        }
    }

    pub(in crate::runtime) fn lead_until(&self, until: Instant) {
        self.set(State::Leading { until });
    }

    pub(super) fn end(&self) {
        self.set(State::Standby);
    }

    fn get(&self) -> State {
        *self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, state: State) {
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = state;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_leader_may_write_until_its_deadline_and_not_a_moment_longer() {
        let leadership = Leadership::standby();
        assert_eq!(leadership.permit(), Err(Fenced::Standby));
        leadership.lead_until(Instant::now() + Duration::from_secs(10));
        tokio::time::advance(Duration::from_millis(9_999)).await;
        assert!(leadership.is_leader());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(
            leadership.permit(),
            Err(Fenced::DeadlinePassed { ago: Duration::ZERO })
        );
    }

    #[test]
    fn without_an_election_everybody_may_write() {
        assert!(Leadership::unneeded().is_leader());
    }
}
