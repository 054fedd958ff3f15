//! `/healthz`, `/readyz` and `/metrics`.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};

use crate::telemetry::metrics::{CONTENT_TYPE, Metrics};

/// How often the main loop shows that it runs.
const BEAT: Duration = Duration::from_secs(1);
/// A main loop that has not shown it for this long is stuck.
const STUCK: Duration = Duration::from_secs(30);

type Check = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// What the probes are answered by. Clones share it.
#[derive(Clone)]
pub struct Health {
    last_beat: Arc<Mutex<Instant>>,
    ready: Check,
}

impl std::fmt::Debug for Health {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Health")
    }
}

impl Health {
    /// Ready when `ready` says so, and else not, for the reason that it gives.
    pub fn new(ready: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> Self {
        Self {
            last_beat: Arc::new(Mutex::new(Instant::now())),
            ready: Arc::new(ready),
        }
    }

    /// Ready only when `also` says so, too.
    #[must_use]
    pub fn and(self, also: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> Self {
        let first = self.ready;
        Self {
            ready: Arc::new(move || first().and_then(|()| also())),
            ..self
        }
    }

    /// Shows again and again that the task in which this is polled runs; never returns.
    pub async fn beat(&self) -> std::convert::Infallible {
        loop {
            *self.last_beat.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
            sleep(BEAT).await;
        }
    }

    /// Whether the main loop runs.
    ///
    /// # Errors
    /// For how long it has not.
    pub fn live(&self) -> Result<(), String> {
        let silent = self
            .last_beat
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .elapsed();
        if silent < STUCK {
            Ok(())
        } else {
            Err(format!("the main loop has not run for {silent:?}"))
        }
    }

    /// Whether the caches are filled and the lease can be had. A standby is ready too: it could lead at once.
    ///
    /// # Errors
    /// What is missing.
    pub fn ready(&self) -> Result<(), String> {
        (self.ready)()
    }

    /// The routes of the probes.
    pub fn routes(&self) -> Router {
        Router::new()
            .route(
                "/healthz",
                get(|State(health): State<Self>| async move { answer(health.live()) }),
            )
            .route(
                "/readyz",
                get(|State(health): State<Self>| async move { answer(health.ready()) }),
            )
            .with_state(self.clone())
    }
}

/// The route of the metrics.
pub fn metrics_routes(metrics: Arc<Metrics>) -> Router {
    let expose = |State(metrics): State<Arc<Metrics>>| async move {
        match metrics.encode() {
            Ok(text) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response(),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
        }
    };
    Router::new().route("/metrics", get(expose)).with_state(metrics)
}

fn answer(check: Result<(), String>) -> (StatusCode, String) {
    match check {
        Ok(()) => (StatusCode::OK, "ok\n".to_owned()),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")),
    }
}

/// An address could not be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} for {purpose}: {source}")]
pub struct BindError {
    address: SocketAddr,
    purpose: &'static str,
    #[source]
    source: io::Error,
}

/// Listens on `address`; `purpose` is for people. `[::]` is every address, of IPv6 and of IPv4, and of IPv4 alone where the kernel knows no other.
///
/// # Errors
/// When the address is taken or not ours.
pub async fn listen(address: SocketAddr, purpose: &'static str) -> Result<TcpListener, BindError> {
    let listener = match TcpListener::bind(address).await {
        Err(error) if address.ip() == Ipv6Addr::UNSPECIFIED && error.kind() != io::ErrorKind::AddrInUse => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await
        }
        listener => listener,
    };
    listener.map_err(|source| BindError {
        address,
        purpose,
        source,
    })
}

/// Serves `routes` until `stop` is done and every request under way is answered.
///
/// # Errors
/// When the listener fails.
pub async fn serve(
    listener: TcpListener,
    routes: Router,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    axum::serve(listener, routes).with_graceful_shutdown(stop).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_main_loop_that_does_not_run_is_noticed() {
        let health = Health::new(|| Ok(()));
        assert_eq!(health.live(), Ok(()));
        tokio::time::advance(STUCK).await;
        assert!(health.live().unwrap_err().contains("30s"));
        let _ = tokio::time::timeout(Duration::from_millis(10), health.beat()).await;
        assert_eq!(health.live(), Ok(()));
    }

    #[test]
    fn what_is_not_ready_says_why() {
        assert_eq!(
            answer(Err("Pod: not listed yet".to_owned())),
            (
                StatusCode::SERVICE_UNAVAILABLE,
                "Pod: not listed yet\n".to_owned()
            )
        );
    }
}
