//! What the API server asks: to convert objects from one version to another, and whether an object may be written.
//!
//! | path | what is asked |
//! | --- | --- |
//! | `POST /convert` | `ConversionReview` of `apiextensions.k8s.io/v1`, for objects of all kinds |
//! | `POST /validate/KIND` | `AdmissionReview` of `admission.k8s.io/v1`: the rules, which the reconciler goes by as well |
//! | `POST /mutate/KIND` | the same: puts back what v1 says and a client of v1alpha1 has left out |
//!
//! KIND is the plural, as in `/validate/myproxies`.
//!
//! Everything is bounded, by [`Limits`]: whoever can reach the port can send anything, and whoever can write an object can make one that is
//! meant to be dear. The answers come from [`crate::api`], which decides; nothing here does.
//!
//! The configurations that lead here name the kinds alone: not their status, nor the objects that the operator makes of them. Those it writes whether
//! anybody answers here or not. Its finalizers it does not: they stand in the object itself, so with `failurePolicy: Fail` each patch that adds or
//! removes one waits until the API server has asked here. An object comes and goes only while the API server reaches the port of one of the pods.

mod admission;
mod answer;
mod body;
pub mod certificates;
mod conversion;
mod limits;
mod metrics;
mod object;
mod places;
mod review;
mod server;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request as HttpRequest;
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use tokio::time::{Instant, timeout_at};

use crate::api::served::Served;
use crate::telemetry::sparing::Sparing;
use answer::{Refused, shortened};
use body::Memory;

pub use limits::Limits;
pub use metrics::WebhookMetrics;
pub use server::{ClientCertificate, Handshakes, ServeError, serve, serve_over, without_memory};

/// The path of conversions.
pub const CONVERT: &str = "/convert";

/// The path at which objects of a kind are validated.
pub fn validate_path(plural: &str) -> String {
    format!("/validate/{plural}")
}

/// The path at which objects of a kind are mutated.
pub fn mutate_path(plural: &str) -> String {
    format!("/mutate/{plural}")
}

/// What all answers need.
#[derive(Debug)]
struct Hook {
    kinds: Vec<Served>,
    limits: Limits,
    memory: Memory,
    failures: Sparing,
}

/// Answers for these kinds, within these limits.
pub fn routes(kinds: impl IntoIterator<Item = Served>, limits: Limits, metrics: WebhookMetrics) -> Router {
    let hook = Arc::new(Hook {
        kinds: kinds.into_iter().collect(),
        memory: Memory::new(&limits),
        limits,
        failures: Sparing::default(),
    });
    let mut paths = vec![CONVERT.to_owned()];
    let mut router = Router::new().route(CONVERT, {
        let hook = Arc::clone(&hook);
        post(move |request| async move { conversion::answer(&hook, request, hook.deadline()).await })
    });
    for (at, kind) in hook.kinds.iter().enumerate() {
        let plural = kind.versions().plural();
        let ways = [
            (validate_path(plural), admission::validate as admission::Decide),
            (mutate_path(plural), admission::mutate),
        ];
        for (path, decide) in ways {
            let hook = Arc::clone(&hook);
            let answer = move |request| async move {
                admission::answer(&hook, &hook.kinds[at], decide, request, hook.deadline()).await
            };
            router = router.route(&path, post(answer));
            paths.push(path);
        }
    }
    let paths: Arc<[String]> = paths.into();
    let known = paths.join(", ");
    router
        .fallback(move |uri: Uri| async move { no_such_path(&uri, &known) })
        .method_not_allowed_fallback(async |method: Method| no_such_method(&method))
        .layer(from_fn(move |request, next: axum::middleware::Next| {
            within(limits.request, next.run(request))
        }))
        .layer(from_fn_with_state((metrics, paths), metrics::count))
}

impl Hook {
    /// Until when a request that has come now has to be answered.
    fn deadline(&self) -> Instant {
        Instant::now() + self.limits.request
    }
}

/// The beginning of an answer, if there is one in time.
async fn within(limit: Duration, answer: impl Future<Output = Response>) -> Response {
    match timeout_at(Instant::now() + limit, answer).await {
        Ok(response) => response,
        Err(_) => Refused::new(
            StatusCode::GATEWAY_TIMEOUT,
            format!("the request was not answered within {limit:?}; it can be sent again"),
        )
        .into_response(),
    }
}

fn no_such_path(uri: &Uri, known: &str) -> Refused {
    let path = shortened(uri.path(), 100);
    Refused::new(
        StatusCode::NOT_FOUND,
        format!("the path is {path:?}; it must be one of {known}"),
    )
}

fn no_such_method(method: &Method) -> Refused {
    let method = shortened(method.as_str(), 20);
    Refused::new(
        StatusCode::METHOD_NOT_ALLOWED,
        format!("the method is {method:?}; it must be POST"),
    )
}
