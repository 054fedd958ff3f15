//! Requests to the API server, each with a limit of time, which may become another while the process runs.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// How long a request may take, or nothing may come. Clones change with it.
#[derive(Clone, Debug)]
pub struct Limit(watch::Receiver<Duration>);

impl Limit {
    /// What was sent last.
    pub fn changing(limit: watch::Receiver<Duration>) -> Self {
        Self(limit)
    }

    /// Until when what begins now may take, and how long that is.
    pub(super) fn begin(&self) -> Deadline {
        let limit = *self.0.borrow();
        Deadline {
            at: Instant::now() + limit,
            limit,
        }
    }
}

impl From<Duration> for Limit {
    /// This one, for ever.
    fn from(limit: Duration) -> Self {
        Self(watch::channel(limit).1)
    }
}

/// Until when all requests of one call have to be answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline {
    pub(super) at: Instant,
    limit: Duration,
}

/// A request brought nothing. Whether a write took effect is not known.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The API server refused, or cannot be reached.
    #[error(transparent)]
    Api(#[from] kube::Error),
    /// It did not answer in time.
    #[error("the API server did not answer within {} ms", .0.as_millis())]
    Late(Duration),
}

impl Deadline {
    /// The outcome of a request.
    pub(super) async fn within<T>(
        self,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, RequestError> {
        match timeout_at(self.at, request).await {
            Ok(outcome) => Ok(outcome?),
            Err(_) => Err(RequestError::Late(self.limit)),
        }
    }
}
