//! The Lease of the database: read, written and watched. An instance never makes one.

mod follow;
mod seen;
mod view;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::api::database::agent::{Record, Timing};
use crate::runtime::client::{is_conflict, is_not_found};

pub use seen::Seen;
pub use view::{Kind, LeaseView, view};

/// Reads and writes one Lease, and tells what was seen of it. Clones share that.
#[derive(Clone)]
pub struct LeaseClient {
    api: Api<Lease>,
    name: String,
    limit: Duration,
    seen: Arc<watch::Sender<Seen>>,
}

impl fmt::Debug for LeaseClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseClient")
            .field("name", &self.name)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

/// What came of a write.
#[derive(Clone, Debug, PartialEq)]
pub enum Written {
    /// It is so now.
    Written(Box<Lease>),
    /// The Lease is not as it was seen any more. Nothing was written.
    Conflict,
    /// There is no Lease any more. Nothing was written.
    Gone,
}

/// A request brought nothing. Whether a write took effect is not known.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// The API server refused, or cannot be reached.
    #[error(transparent)]
    Api(#[from] kube::Error),
    /// It did not answer in time.
    #[error("the API server did not answer within {} ms", .0.as_millis())]
    Late(Duration),
    /// What was to be written cannot be, and was not.
    #[error("cannot write the Lease: {0}")]
    Unfit(String),
}

impl LeaseClient {
    /// The Lease of this name. Each call takes at most `limit`. `client` should carry little else, so that nothing can delay a renewal, and must not send
    /// requests again by itself.
    pub fn new(client: Client, namespace: &str, name: &str, limit: Duration) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            name: name.to_owned(),
            limit,
            seen: Arc::new(watch::Sender::new(Seen::default())),
        }
    }

    /// What is seen of the Lease, by whatever is read, written or watched here.
    pub fn subscribe(&self) -> watch::Receiver<Seen> {
        self.seen.subscribe()
    }

    /// The Lease as it is now; `None` when there is none.
    ///
    /// # Errors
    /// When there is no answer in time, or a refusal.
    pub async fn read(&self) -> Result<Option<Lease>, LeaseError> {
        self.get(Instant::now() + self.limit).await
    }

    /// Replaces the Lease, if it still is what was `seen`. A holder counts its time from before it called this.
    ///
    /// # Errors
    /// When there is no answer in time, or a refusal other than that the Lease has changed or is gone.
    pub async fn write(
        &self,
        seen: &Lease,
        holder: &str,
        record: &Record,
        timing: Timing,
        now: Timestamp,
        kind: Kind,
    ) -> Result<Written, LeaseError> {
        let deadline = Instant::now() + self.limit;
        // Without a version the write would not be guarded, and without a UID the API server would make a Lease that was deleted.
        if seen.metadata.resource_version.is_none() || seen.metadata.uid.is_none() {
            return Err(LeaseError::Unfit(
                "what was seen of it has no version or no UID".to_owned(),
            ));
        }
        let lease = view::changed(seen, holder, record, timing, now, kind)
            .map_err(|error| LeaseError::Unfit(error.to_string()))?;
        let params = PostParams::default();
        let replaced = self.api.replace(&self.name, &params, &lease);
        match self.within(deadline, replaced).await {
            Ok(lease) => {
                self.note(|seen, now| seen.lease(lease.clone(), now));
                Ok(Written::Written(Box::new(lease)))
            }
            Err(LeaseError::Api(error)) if is_not_found(&error) => {
                self.note(|seen, now| seen.gone(None, now));
                Ok(Written::Gone)
            }
            // The API server says so of one that was deleted, too.
            Err(LeaseError::Api(error)) if is_conflict(&error) => match self.get(deadline).await {
                Ok(None) => Ok(Written::Gone),
                _ => Ok(Written::Conflict),
            },
            Err(error) => Err(error),
        }
    }

    async fn get(&self, deadline: Instant) -> Result<Option<Lease>, LeaseError> {
        match self.within(deadline, self.api.get(&self.name)).await {
            Ok(lease) => {
                self.note(|seen, now| seen.lease(lease.clone(), now));
                Ok(Some(lease))
            }
            Err(LeaseError::Api(error)) if is_not_found(&error) => {
                self.note(|seen, now| seen.gone(None, now));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The outcome of a request; where there is none, that is noted.
    async fn within<T>(
        &self,
        deadline: Instant,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, LeaseError> {
        let outcome = match timeout_at(deadline, request).await {
            Ok(outcome) => outcome.map_err(LeaseError::Api),
            Err(_) => Err(LeaseError::Late(self.limit)),
        };
        match &outcome {
            Ok(_) => {}
            Err(LeaseError::Api(error)) if is_conflict(error) || is_not_found(error) => {
                self.note(Seen::well);
            }
            Err(LeaseError::Api(error @ kube::Error::Api(_))) => {
                self.note(|seen, now| seen.refused(error.to_string(), now));
            }
            Err(error) => self.note(|seen, _| seen.failed(error.to_string())),
        }
        outcome
    }

    fn note(&self, change: impl FnOnce(&mut Seen, Instant)) {
        let now = Instant::now();
        self.seen.send_modify(|seen| change(seen, now));
    }
}
