//! What the webhook serves with, and what has to trust it.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`Certificates`] | what is served at the moment; replaced without a connection noticing |
//! | [`folder`] | under OLM: the files that it mounts, looked at every few seconds |
//! | [`secret`] | without OLM: an [authority](crate::pki::authority) of our own, in a Secret |
//! | [`injection`] | the conversion of our CRDs and the bundles of our webhook configurations, put right |
//!
//! All replicas run all of this, not only the leader: any of them answers the API server. No fence is needed for that. Every write
//! carries the `resourceVersion` of what it was decided on and follows from that alone, so of two replicas one gets a conflict, looks again
//! and finds that nothing is left to do. The client may therefore be a plain one; each request here has a deadline of its own.
//!
//! # Whose clock
//!
//! The API server judges certificates by its clock, so the clock that is handed in should show the API server's time
//! ([`crate::runtime::client::ServerTime::clock`]). What is issued is valid from an hour earlier, for servers that differ.

pub mod folder;
pub mod injection;
pub mod secret;
mod served;

use std::collections::BTreeSet;
use std::time::Duration;

use crate::pki::authority::Subject;
pub use crate::pki::{Pair, PairError, Validity};
pub use served::{Certificates, Served, Trust};

/// What a certificate of an authority of our own says.
pub const SUBJECT: Subject = Subject {
    authority: "roadstead webhook authority",
    common_name: "roadstead webhook",
    unit: None,
    is_client: false,
};
/// How long one request of the API server may take.
const REQUEST_DEADLINE: Duration = Duration::from_secs(10);
/// A conflict is answered by looking again, so often at once; then the next round comes.
const ATTEMPTS: u32 = 4;

/// The Service behind which the webhook is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookService {
    /// Its namespace.
    pub namespace: String,
    /// Its name. Under OLM: the Deployment's, followed by `-service`.
    pub name: String,
    /// Its port, not the container's.
    pub port: u16,
}

impl WebhookService {
    /// By which name the API server knows it: `NAME.NAMESPACE.svc`.
    pub fn host(&self) -> String {
        format!("{}.{}.svc", self.name, self.namespace)
    }

    /// What a certificate for it must name.
    pub fn dns_names(&self, cluster_domain: &str) -> BTreeSet<String> {
        let host = self.host();
        [format!("{host}.{cluster_domain}"), host].into()
    }
}

/// The result of a request, or why there is none; `what` says what was waited for.
async fn within_deadline<T>(
    what: &str,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, RequestFailed> {
    match tokio::time::timeout(REQUEST_DEADLINE, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(RequestFailed::Refused {
            what: what.to_owned(),
            error: Box::new(error),
        }),
        Err(_) => Err(RequestFailed::Late {
            what: what.to_owned(),
        }),
    }
}

/// A request that brought nothing.
#[derive(Debug, thiserror::Error)]
enum RequestFailed {
    #[error("cannot {what}: {error}")]
    Refused {
        what: String,
        #[source]
        error: Box<kube::Error>,
    },
    #[error("cannot {what}: no answer within {} s", REQUEST_DEADLINE.as_secs())]
    Late { what: String },
}

impl RequestFailed {
    fn is_conflict(&self) -> bool {
        matches!(self, Self::Refused { error, .. } if crate::runtime::client::is_conflict(error))
    }
}
