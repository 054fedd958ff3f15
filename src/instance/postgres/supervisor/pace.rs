//! How long requests to the API server may take, and how often it is asked: as the settings say at the moment.

use std::time::Duration;

use tokio::sync::watch;

use super::super::bounded::Limit;
use crate::api::database::agent::Timing;

/// What [`Timing`] means for requests.
pub(super) struct Pace {
    limit: watch::Sender<Duration>,
    retry: watch::Sender<Duration>,
}

impl Pace {
    pub(super) fn of(timing: Timing) -> Self {
        Self {
            limit: watch::Sender::new(limit(timing)),
            retry: watch::Sender::new(timing.retry()),
        }
    }

    /// Goes by other settings from the next request on.
    pub(super) fn keep(&self, timing: Timing) {
        self.limit.send_replace(limit(timing));
        self.retry.send_replace(timing.retry());
    }

    /// How long a request may take.
    pub(super) fn limit(&self) -> Limit {
        Limit::changing(self.limit.subscribe())
    }

    /// How long the API server may say nothing before it is asked.
    pub(super) fn retry(&self) -> Limit {
        Limit::changing(self.retry.subscribe())
    }
}

/// A second attempt has to be possible before the holder of the Lease has to stop.
fn limit(timing: Timing) -> Duration {
    timing.renew_deadline() / 2
}
