//! What an API server sends to webhooks, and how it is answered.

#![allow(dead_code, reason = "each test binary uses what it needs of this")]

use axum::Router;
use axum::body::Body;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use roadstead::api::served;
use roadstead::webhook::{Limits, WebhookMetrics, routes};
use serde_json::{Value, json};
use tower::ServiceExt;

/// Answers for every kind there is.
pub fn router(limits: Limits) -> Router {
    routes(served::all(), limits, WebhookMetrics::default())
}

/// A proxy with about `filler` bytes of names.
pub fn proxy(version: &str, name: &str, filler: usize) -> Value {
    let servers =
        |at: usize| json!([{"host": format!("server-{at}.example.com"), "port": 8080, "weight": 1}]);
    let upstreams: Vec<_> = (0..filler / 100)
        .map(|at| json!({"name": format!("upstream-{at}"), "servers": servers(at)}))
        .collect();
    json!({
        "apiVersion": format!("roadstead.dev/{version}"), "kind": "MyProxy",
        "metadata": {"name": name, "namespace": "a", "uid": "00000000-0000-0000-0000-000000000000"},
        "spec": {"replicas": 2, "upstreams": upstreams},
    })
}

/// The greatest object that the schema of MyProxy admits, with as much besides as kubectl and the operator put there.
pub fn greatest(version: &str) -> Value {
    let (label, name) = ("h".repeat(63), |at: usize| format!("{at:u>63}"));
    let host = format!("{label}.{label}.{label}.{}", &label[..61]);
    let server = |at: usize| json!({"host": host, "port": 65535 - at, "weight": 100});
    let servers: Vec<_> = (0..16).map(server).collect();
    let upstreams: Vec<_> = (0..64)
        .map(|at| json!({"name": name(at), "servers": servers}))
        .collect();
    let route = |at: usize| json!({"path": format!("/{at:p>255}"), "upstream": name(at % 64), "host": host});
    let mut proxy = proxy(version, &"n".repeat(63), 0);
    proxy["spec"] = json!({
        "replicas": 1000, "image": "i".repeat(500), "upstreams": upstreams, "routes": (0..128).map(route).collect::<Vec<_>>(),
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
    });
    let (called, tls, pods) = match version {
        "v1" => ("deploymentName", ("tls", json!({"secretName": host})), "podNames"),
        _ => ("name", ("tls_secret", json!(host)), "pod_names"),
    };
    proxy["spec"][called] = name(0).into();
    proxy["spec"][tls.0] = tls.1;
    let applied = proxy.to_string();
    proxy["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/last-applied-configuration": applied});
    proxy["metadata"]["finalizers"] = json!(["roadstead.dev/cleanup"]);
    let condition = |name: &str| {
        json!({
            "type": name, "status": "False", "reason": "Reason", "message": "m".repeat(1000),
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let conditions = ["Ready", "ConfigValid", "UpToDate", "Available", "Progressing"].map(condition);
    let names: Vec<_> = (0..1000).map(|at| format!("{at:p>63}")).collect();
    proxy["status"] = json!({pods: names, "conditions": conditions, "phase": "Running"});
    proxy
}

pub fn conversion(desired: &str, objects: &[Value]) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "request": {"uid": "u1", "desiredAPIVersion": desired, "objects": objects},
    })
}

pub fn admission(operation: &str, object: &Value, old: &Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "u1", "operation": operation, "object": object, "oldObject": old,
            "kind": {"group": "roadstead.dev", "version": "v1", "kind": "MyProxy"}, "userInfo": {"username": "somebody"},
        },
    })
}

/// Sends a body there, and takes the whole answer.
pub async fn post(router: &Router, path: &str, body: Vec<u8>) -> (StatusCode, Vec<u8>) {
    let request = Request::post(path).header("Content-Type", "application/json");
    ask(router, request.body(Body::from(body)).expect("a request")).await
}

/// Sends a request, and takes the whole answer.
pub async fn ask(router: &Router, request: Request<Body>) -> (StatusCode, Vec<u8>) {
    let response = router.clone().oneshot(request).await.expect("an answer");
    let status = response.status();
    let body = response.into_body().collect().await.expect("a whole answer");
    (status, body.to_bytes().to_vec())
}

/// The answer to a review, which has to be one.
pub async fn review(router: &Router, path: &str, review: &Value) -> Value {
    let (status, body) = post(router, path, review.to_string().into_bytes()).await;
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
    let answer: Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(answer["response"]["uid"], "u1");
    answer["response"].clone()
}
