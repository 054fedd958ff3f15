//! The Lease of the database: read, written and watched. An instance never makes one.

mod follow;
mod seen;
mod view;

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::Instant;

use super::bounded::{Deadline, Limit, RequestError};
use super::protocol::Write;
use crate::api::database::agent::{Record, Timing};
use crate::runtime::client::{is_conflict, is_not_found};

pub use seen::Seen;
pub use view::{LeaseView, view};

/// Reads and writes one Lease, and tells what was seen of it. Clones share that.
#[derive(Clone)]
pub struct LeaseClient {
    api: Api<Lease>,
    name: String,
    limit: Limit,
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
    /// There was a refusal, or no answer.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// What was to be written cannot be, and was not.
    #[error("cannot write the Lease: {0}")]
    Unfit(String),
}

impl LeaseClient {
    /// The Lease of this name. Each call takes at most `limit`. `client` should carry little else, so that nothing can delay a renewal, and must not send
    /// requests again by itself.
    pub fn new(client: Client, namespace: &str, name: &str, limit: impl Into<Limit>) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            name: name.to_owned(),
            limit: limit.into(),
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
        Ok(self.get(self.limit.begin()).await?)
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
        why: Write,
    ) -> Result<Written, LeaseError> {
        let deadline = self.limit.begin();
        // Without a version the write would not be guarded, and without a UID the API server would make a Lease that was deleted.
        if seen.metadata.resource_version.is_none() || seen.metadata.uid.is_none() {
            return Err(LeaseError::Unfit(
                "what was seen of it has no version or no UID".to_owned(),
            ));
        }
        let lease = view::changed(seen, holder, record, timing, now, why)
            .map_err(|error| LeaseError::Unfit(error.to_string()))?;
        let params = PostParams::default();
        let replaced = self.api.replace(&self.name, &params, &lease);
        match self.within(deadline, replaced).await {
            Ok(lease) => {
                self.note(|seen, now| seen.lease(lease.clone(), now));
                Ok(Written::Written(Box::new(lease)))
            }
            Err(RequestError::Api(error)) if is_not_found(&error) => {
                self.note(|seen, now| seen.gone(None, now));
                Ok(Written::Gone)
            }
            // The API server says so of one that was deleted, too.
            Err(RequestError::Api(error)) if is_conflict(&error) => match self.get(deadline).await {
                Ok(None) => Ok(Written::Gone),
                _ => Ok(Written::Conflict),
            },
            Err(error) => Err(error.into()),
        }
    }

    async fn get(&self, deadline: Deadline) -> Result<Option<Lease>, RequestError> {
        match self.within(deadline, self.api.get(&self.name)).await {
            Ok(lease) => {
                self.note(|seen, now| seen.read(lease.clone(), now));
                Ok(Some(lease))
            }
            Err(RequestError::Api(error)) if is_not_found(&error) => {
                self.note(|seen, now| seen.gone(None, now));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The outcome of a request; where there is none, that is noted.
    async fn within<T>(
        &self,
        deadline: Deadline,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, RequestError> {
        let outcome = deadline.within(request).await;
        match &outcome {
            Ok(_) => {}
            Err(RequestError::Api(error)) if is_conflict(error) || is_not_found(error) => {
                self.note(Seen::well);
            }
            Err(RequestError::Api(error @ kube::Error::Api(_))) => {
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
