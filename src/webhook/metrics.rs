//! How many requests there were, and how they were answered.

use std::sync::Arc;

use axum::extract::State;
use axum::middleware::Next;
use axum::response::Response;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use super::HttpRequest;
use crate::telemetry::metrics::Metrics;

/// Where requests to paths that there are not are counted: anybody can think of one.
const OTHER: &str = "other";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    path: String,
    code: u16,
}

/// The metrics of the webhook server. Clones share the values.
#[derive(Clone, Debug, Default)]
pub struct WebhookMetrics {
    requests: Family<Labels, Counter>,
}

impl WebhookMetrics {
    /// Makes them and adds them to `metrics`, once for each registry.
    pub fn register(metrics: &Metrics) -> Self {
        let families = Self::default();
        metrics.register(
            "roadstead_webhook_requests",
            "Requests to the webhook server, by path and status code; a refused object is a request that was answered with 200",
            families.requests.clone(),
        );
        families
    }
}

/// Counts a request once its answer has begun.
pub(super) async fn count(
    State((metrics, paths)): State<(WebhookMetrics, Arc<[String]>)>,
    request: HttpRequest,
    next: Next,
) -> Response {
    let path = request.uri().path();
    let known = paths.iter().find(|known| known.as_str() == path);
    let path = known.map_or(OTHER, String::as_str).to_owned();
    let response = next.run(request).await;
    let code = response.status().as_u16();
    metrics.requests.get_or_create(&Labels { path, code }).inc();
    response
}
