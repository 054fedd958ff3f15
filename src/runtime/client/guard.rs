//! What every request passes on its way out, and its answer on the way back: the fence, the time limit, the metrics and the time of day.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Either, Full};
use kube::client::Body;
use tokio::time::{Instant, timeout};
use tower::{BoxError, Layer, Service};

use super::server_time::ServerTime;
use crate::runtime::lease::Leadership;
use crate::runtime::metrics::RuntimeMetrics;

/// An answer did not come in time; whether the request took effect is not known.
#[derive(Debug, thiserror::Error)]
#[error("no complete answer to {method} {path} within {} ms", .limit.as_millis())]
pub struct RequestTimedOut {
    method: Method,
    path: String,
    limit: Duration,
}

/// Makes [`Guard`]s.
#[derive(Clone)]
pub struct GuardLayer {
    shared: Arc<Shared>,
}

struct Shared {
    /// Without one, writes are not fenced: that is the lease's own client.
    leadership: Option<Leadership>,
    limit: Duration,
    metrics: RuntimeMetrics,
    host: String,
    time: ServerTime,
}

impl GuardLayer {
    /// A layer for requests to `host`, each limited to `limit`; writes are refused unless `leadership` permits them. `time` learns from the
    /// answers.
    pub fn new(
        leadership: Option<Leadership>,
        limit: Duration,
        metrics: RuntimeMetrics,
        host: String,
        time: ServerTime,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                leadership,
                limit,
                metrics,
                host,
                time,
            }),
        }
    }
}

impl fmt::Debug for GuardLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GuardLayer")
    }
}

impl<S> Layer<S> for GuardLayer {
    type Service = Guard<S>;

    fn layer(&self, inner: S) -> Guard<S> {
        Guard {
            inner,
            shared: Arc::clone(&self.shared),
        }
    }
}

/// Refuses writes of a process that does not lead, limits the time of every request and counts its outcome.
pub struct Guard<S> {
    inner: S,
    shared: Arc<Shared>,
}

impl<S> fmt::Debug for Guard<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Guard")
    }
}

impl<S, B> Service<Request<Body>> for Guard<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Either<Full<Bytes>, B>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let fence = self
            .shared
            .leadership
            .clone()
            .filter(|_| is_write(request.method()));
        if let Some(Err(fenced)) = fence.as_ref().map(Leadership::permit) {
            return Box::pin(std::future::ready(Err(fenced.into())));
        }
        let shared = Arc::clone(&self.shared);
        let method = request.method().clone();
        let path = request.uri().path().to_owned();
        let is_watch = is_watch(&request);
        let sent = self.inner.call(request);
        Box::pin(async move {
            let started = Instant::now();
            let exchange = async {
                let response = while_permitted(sent, fence).await?;
                shared.time.hear(response.headers(), started.elapsed());
                if is_watch {
                    Ok(response.map(Either::Right))
                } else {
                    read_whole(response).await
                }
            };
            let outcome = match timeout(shared.limit, exchange).await {
                Ok(outcome) => outcome,
                Err(_) => Err(RequestTimedOut {
                    method: method.clone(),
                    path,
                    limit: shared.limit,
                }
                .into()),
            };
            let code = outcome.as_ref().map_or("<error>".to_owned(), |response| {
                response.status().as_str().to_owned()
            });
            shared.metrics.request(
                method.as_str(),
                &shared.host,
                &code,
                started.elapsed().as_secs_f64(),
            );
            outcome
        })
    }
}

/// Everything that is not known to only read is a write.
fn is_write(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

fn is_watch(request: &Request<Body>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query
        .split('&')
        .any(|pair| matches!(pair, "watch=true" | "watch=1"))
}

/// Drives `sent`, but no step further once `fence` closes.
///
/// A request can spend seconds waiting for a connection, and a process can be stopped and go on at any point: so the fence is looked at
/// before every step, not only before the first.
async fn while_permitted<F, T, E>(sent: F, fence: Option<Leadership>) -> Result<T, BoxError>
where
    F: Future<Output = Result<T, E>>,
    E: Into<BoxError>,
{
    let mut sent = pin!(sent);
    poll_fn(|cx| {
        if let Some(Err(fenced)) = fence.as_ref().map(Leadership::permit) {
            return Poll::Ready(Err(fenced.into()));
        }
        sent.as_mut().poll(cx).map_err(Into::into)
    })
    .await
}

/// Reads the body here, so that the time limit covers it too: the client would wait for it without one.
async fn read_whole<B>(response: Response<B>) -> Result<Response<Either<Full<Bytes>, B>>, BoxError>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.map_err(Into::into)?.to_bytes();
    Ok(Response::from_parts(parts, Either::Left(Full::new(bytes))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::client::{Clients, is_fenced};
    use crate::telemetry::metrics::Metrics;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Api;
    use kube::api::{ListParams, PostParams};
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::time::sleep;

    const LIMIT: Duration = Duration::from_secs(30);

    /// A server that takes `wait` for a connection before it sees a request, and how many it has seen.
    fn clients(leadership: &Leadership, wait: Duration) -> (Clients, Arc<AtomicUsize>, Metrics) {
        let (seen, metrics) = (Arc::new(AtomicUsize::new(0)), Metrics::new());
        let counter = Arc::clone(&seen);
        let service = tower::service_fn(move |_: Request<Body>| {
            let counter = Arc::clone(&counter);
            async move {
                sleep(wait).await;
                counter.fetch_add(1, Ordering::SeqCst);
                let object = r#"{"metadata": {"name": "a"}, "items": []}"#;
                Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(object))))
            }
        });
        let clients = Clients::over(
            service,
            leadership.clone(),
            LIMIT,
            &RuntimeMetrics::register(&metrics),
        );
        (clients, seen, metrics)
    }

    fn config_maps(clients: &Clients) -> Api<ConfigMap> {
        Api::namespaced(clients.fenced.clone(), "ns")
    }

    #[tokio::test(start_paused = true)]
    async fn a_standby_reads_and_does_not_write_and_the_lease_is_exempt() {
        let (clients, seen, _) = clients(&Leadership::standby(), Duration::ZERO);
        assert!(config_maps(&clients).list(&ListParams::default()).await.is_ok());
        let refused = config_maps(&clients)
            .create(&PostParams::default(), &ConfigMap::default())
            .await
            .unwrap_err();
        assert!(is_fenced(&refused));
        assert_eq!(seen.load(Ordering::SeqCst), 1);
        let lease: Api<ConfigMap> = Api::namespaced(clients.lease, "ns");
        assert!(
            lease
                .create(&PostParams::default(), &ConfigMap::default())
                .await
                .is_ok()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_waits_for_its_connection_past_the_deadline_is_not_sent() {
        let leadership = Leadership::standby();
        leadership.lead_until(Instant::now() + Duration::from_secs(10));
        let (clients, seen, _) = clients(&leadership, Duration::from_secs(11));
        let refused = config_maps(&clients)
            .create(&PostParams::default(), &ConfigMap::default())
            .await
            .unwrap_err();
        assert!(is_fenced(&refused), "{refused}");
        assert_eq!(seen.load(Ordering::SeqCst), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_meanwhile_lets_a_waiting_write_through() {
        let leadership = Leadership::standby();
        leadership.lead_until(Instant::now() + Duration::from_secs(10));
        let (clients, seen, _) = clients(&leadership, Duration::from_secs(11));
        leadership.lead_until(Instant::now() + Duration::from_secs(12));
        assert!(
            config_maps(&clients)
                .create(&PostParams::default(), &ConfigMap::default())
                .await
                .is_ok()
        );
        assert_eq!(seen.load(Ordering::SeqCst), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_without_answer_ends_at_its_limit_and_says_what_it_was() {
        let (clients, _, metrics) = clients(&Leadership::unneeded(), Duration::from_secs(3_600));
        let started = Instant::now();
        let error = config_maps(&clients)
            .list(&ListParams::default())
            .await
            .unwrap_err()
            .to_string();
        assert_eq!(started.elapsed(), LIMIT);
        assert!(
            error.contains("no complete answer to GET /api/v1/namespaces/ns/configmaps within 30000 ms"),
            "{error}"
        );
        let text = metrics.encode().unwrap();
        assert!(
            text.contains(r#"rest_client_requests_total{code="<error>",method="GET",host="memory"} 1"#),
            "{text}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn requests_are_counted_by_code_and_method() {
        let (clients, _, metrics) = clients(&Leadership::unneeded(), Duration::from_millis(20));
        config_maps(&clients).list(&ListParams::default()).await.unwrap();
        let text = metrics.encode().unwrap();
        assert!(
            text.contains(r#"rest_client_requests_total{code="200",method="GET",host="memory"} 1"#),
            "{text}"
        );
        assert!(
            text.contains(r#"rest_client_request_duration_seconds_count{verb="GET",host="memory"} 1"#),
            "{text}"
        );
    }
}
