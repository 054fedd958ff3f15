//! The clients of the API server.
//!
//! They share nothing: one for everything, whose writes are refused once the lease is not renewed in time; one for the lease alone, so that
//! no backlog of the first can ever delay a renewal; and one for the little that every replica does.
//!
//! kube's own retry is off: a write sent again behind the caller's back could pass a deadline that the caller has checked.
//!
//! # What the fence can promise
//!
//! A write is not handed to the connection once the renew deadline has passed, and a standby takes over no earlier than
//! `lease duration - renew deadline` (5 s by default) later. A request that is already on its way when the deadline passes can
//! still take effect: that is why whatever must not be done twice carries a `uid` or a `resourceVersion` too.

mod guard;
mod server_time;

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use kube::Client;
use kube::client::{Body, ClientBuilder};
use tower::{BoxError, Service};

pub use guard::{Guard, GuardLayer, RequestTimedOut};
pub use server_time::ServerTime;

use super::lease::{Fenced, Leadership};
use super::metrics::RuntimeMetrics;

/// How long a request may take if nothing else is said. Watches are exempt once they have begun.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// A server that cannot be reached is noticed after this time; kube waits 30 s.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The clients of one operator.
#[derive(Clone)]
pub struct Clients {
    /// For everything but the lease. Writes only while [`Self::leadership`] permits.
    pub fenced: Client,
    /// For the lease alone.
    pub lease: Client,
    /// For what every replica does, whoever leads: only for writes that follow from the very version of an object that they name.
    pub unfenced: Client,
    /// What the fence goes by.
    pub leadership: Leadership,
    /// What time it is at the API server, by its answers.
    pub time: ServerTime,
}

impl std::fmt::Debug for Clients {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clients")
            .field("leadership", &self.leadership)
            .finish_non_exhaustive()
    }
}

impl Clients {
    /// Clients of the API server that `config` names. Each request takes at most `limit`.
    ///
    /// # Errors
    /// When the configuration cannot be used (certificates, credentials, proxy).
    pub fn connect(
        mut config: kube::Config,
        leadership: Leadership,
        limit: Duration,
        metrics: &RuntimeMetrics,
    ) -> Result<Self, kube::Error> {
        config.default_retry = false;
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        let host = config
            .cluster_url
            .authority()
            .map_or(String::new(), ToString::to_string);
        let time = ServerTime::default();
        let build = |fence: Option<Leadership>| -> Result<Client, kube::Error> {
            let layer = GuardLayer::new(fence, limit, metrics.clone(), host.clone(), time.clone());
            Ok(ClientBuilder::try_from(config.clone())?
                .with_layer(&layer)
                .build())
        };
        Ok(Self {
            fenced: build(Some(leadership.clone()))?,
            lease: build(None)?,
            unfenced: build(None)?,
            leadership,
            time,
        })
    }

    /// Clients of whatever `service` answers with: an API server in memory.
    pub fn over<S, B>(service: S, leadership: Leadership, limit: Duration, metrics: &RuntimeMetrics) -> Self
    where
        S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let time = ServerTime::default();
        let build = |fence: Option<Leadership>| {
            let layer = GuardLayer::new(fence, limit, metrics.clone(), "memory".to_owned(), time.clone());
            ClientBuilder::new(service.clone(), "default")
                .with_layer(&layer)
                .build()
        };
        Self {
            fenced: build(Some(leadership.clone())),
            lease: build(None),
            unfenced: build(None),
            leadership,
            time,
        }
    }
}

/// Whether `error` means that a write was refused because this process does not lead.
pub fn is_fenced(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Service(inner) if inner.is::<Fenced>())
}

/// Whether the API server refused because the object is not as the caller thought (409).
pub fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

/// Whether the API server knows no such object (404).
pub fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}
