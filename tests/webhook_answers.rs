//! What the webhooks answer, without a network.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test fails by panicking

#[path = "support/reviews.rs"]
mod reviews;

use std::time::Duration;

use axum::body::Body;
use http::Request;
use k8s_openapi::ByteString;
use reviews::{admission, ask, conversion, greatest, post, proxy, review, router};
use roadstead::api::conversion::KEPT;
use roadstead::telemetry::metrics::Metrics;
use roadstead::webhook::{Limits, WebhookMetrics};
use rstest::rstest;
use serde_json::{Value, json};

const ALL: &str = "/convert, /validate/myproxies, /mutate/myproxies, /validate/databases, /mutate/databases, \
    /validate/redisclusters, /mutate/redisclusters, /validate/trinoclusters, /mutate/trinoclusters";

#[tokio::test]
async fn objects_are_converted_in_their_order_and_the_result_comes_last() {
    let mut late = proxy("v1", "b", 0);
    late["spec"]["paused"] = json!(true);
    late["metadata"]["managedFields"] = json!([{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}]);
    let early = proxy("v1alpha1", "a", 300);
    let asked = conversion("roadstead.dev/v1alpha1", &[early.clone(), late.clone()]);
    let (_, body) = post(
        &router(Limits::default()),
        "/convert",
        asked.to_string().into_bytes(),
    )
    .await;
    let text = String::from_utf8(body).unwrap();
    assert!(text.ends_with(r#"],"result":{"status":"Success"}}}"#), "{text}");
    let answer: Value = serde_json::from_str(&text).unwrap();
    let converted = &answer["response"]["convertedObjects"];
    assert_eq!(converted[0], early);
    assert_eq!(
        converted[1]["metadata"]["managedFields"],
        late["metadata"]["managedFields"]
    );
    let asked = conversion("roadstead.dev/v1", &[converted[1].clone()]);
    let back = review(&router(Limits::default()), "/convert", &asked).await;
    assert_eq!(back["convertedObjects"], json!([late]));
}

#[tokio::test]
async fn an_object_that_cannot_be_converted_is_named_and_so_is_why() {
    let mut bad = proxy("v1alpha1", "bad", 0);
    bad["spec"]["replicas"] = json!("two");
    let asked = conversion("roadstead.dev/v1", &[proxy("v1alpha1", "good", 0), bad]);
    let answer = review(&router(Limits::default()), "/convert", &asked).await;
    assert_eq!(answer["result"]["status"], "Failure");
    assert_eq!(
        answer["result"]["message"],
        "request.objects[1]: a/bad: MyProxy bad does not fit its schema: invalid type: string \"two\", expected i32"
    );
}

#[rstest]
#[case("roadstead.dev/v2")]
#[case("example.com/v1")]
#[case("v1")]
#[case("")]
#[tokio::test]
async fn a_version_that_is_not_known_is_one_clear_failure(#[case] desired: &str) {
    let asked = conversion(desired, &[proxy("v1", "a", 0)]);
    let answer = review(&router(Limits::default()), "/convert", &asked).await;
    assert_eq!(answer["convertedObjects"], json!([]));
    let expected = format!(
        "request.desiredAPIVersion is {desired:?}; it must be one of roadstead.dev/v1, roadstead.dev/v1alpha1"
    );
    assert_eq!(answer["result"]["message"], expected);
}

#[tokio::test]
async fn an_object_that_is_too_dear_is_refused_before_it_is_read() {
    let mut dear = proxy("v1alpha1", "dear", 0);
    dear["spec"]["upstreams"] = vec![json!({}); 10_000].into();
    let answer = review(
        &router(Limits::default()),
        "/convert",
        &conversion("roadstead.dev/v1", &[dear.clone()]),
    )
    .await;
    let message = answer["result"]["message"].as_str().unwrap();
    assert!(message.contains("it must take at most 3145728"), "{message}");
    assert!(
        message.starts_with("request.objects[0]: a/dear: it takes"),
        "{message}"
    );
    let answer = review(
        &router(Limits::default()),
        "/validate/myproxies",
        &admission("CREATE", &dear, &Value::Null),
    )
    .await;
    assert_eq!(answer["allowed"], false);
    let message = answer["status"]["message"].as_str().unwrap();
    assert!(message.starts_with("request.object: it takes about"), "{message}");
}

/// Its finalizer would be there for ever.
#[rstest]
#[case("/validate/myproxies")]
#[case("/mutate/myproxies")]
#[tokio::test]
async fn an_object_that_is_being_deleted_is_admitted_however_dear_it_is(#[case] path: &str) {
    let mut dear = proxy("v1alpha1", "dear", 0);
    dear["spec"]["upstreams"] = vec![json!({}); 10_000].into();
    let refused = admission("UPDATE", &dear, &dear);
    assert_eq!(
        review(&router(Limits::default()), path, &refused).await["allowed"],
        false
    );
    dear["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let answer = review(
        &router(Limits::default()),
        path,
        &admission("UPDATE", &dear, &dear),
    )
    .await;
    assert_eq!(answer, json!({"uid": "u1", "allowed": true}));
}

#[rstest]
#[case("v1alpha1", "v1")]
#[case("v1", "v1alpha1")]
#[tokio::test]
async fn the_greatest_object_of_the_schema_is_converted_and_admitted(
    #[case] version: &str,
    #[case] other: &str,
) {
    let (router, proxy) = (router(Limits::default()), greatest(version));
    let mut before = proxy.clone();
    before["spec"]["replicas"] = json!(1);
    let asked = admission("UPDATE", &proxy, &before);
    for path in ["/validate/myproxies", "/mutate/myproxies"] {
        let answer = review(&router, path, &asked).await;
        assert_eq!(answer, json!({"uid": "u1", "allowed": true}));
    }
    let asked = conversion(&format!("roadstead.dev/{other}"), &[proxy]);
    let there = review(&router, "/convert", &asked).await;
    assert_eq!(there["result"]["status"], "Success", "{}", there["result"]);
    let asked = conversion(
        &format!("roadstead.dev/{version}"),
        &[there["convertedObjects"][0].clone()],
    );
    let back = review(&router, "/convert", &asked).await;
    assert!(back["convertedObjects"][0] == greatest(version));
}

#[tokio::test]
async fn a_bad_object_is_refused_with_all_that_is_wrong_with_it() {
    let mut bad = proxy("v1alpha1", "web", 0);
    bad["spec"] = json!({"replicas": 5000, "tls_secret": "A"});
    let answer = review(
        &router(Limits::default()),
        "/validate/myproxies",
        &admission("CREATE", &bad, &Value::Null),
    )
    .await;
    insta::assert_json_snapshot!(answer);
}

#[rstest]
#[case::deletion("DELETE", json!(null), json!({"spec": {"replicas": 5000}}))]
#[case::of_nothing("CONNECT", json!(null), json!(null))]
#[tokio::test]
async fn what_is_no_write_is_never_refused(
    #[case] operation: &str,
    #[case] object: Value,
    #[case] old: Value,
) {
    let answer = review(
        &router(Limits::default()),
        "/validate/myproxies",
        &admission(operation, &object, &old),
    )
    .await;
    assert_eq!(answer, json!({"uid": "u1", "allowed": true}));
}

#[tokio::test]
async fn what_a_client_of_v1alpha1_leaves_out_is_put_back() {
    let router = router(Limits::default());
    let kept = r#"{"v1":[{"at":["spec","paused"],"is":true}]}"#;
    let mut old = proxy("v1alpha1", "web", 0);
    old["metadata"]["annotations"] = json!({KEPT: kept, "other": "1"});
    let mut new = proxy("v1alpha1", "web", 0);
    let answer = review(&router, "/mutate/myproxies", &admission("UPDATE", &new, &old)).await;
    assert_eq!(
        patch(&answer),
        json!([{"op": "add", "path": "/metadata/annotations", "value": {KEPT: kept}}])
    );
    new["metadata"]["annotations"] = json!({"other": "2"});
    let answer = review(&router, "/mutate/myproxies", &admission("UPDATE", &new, &old)).await;
    assert_eq!(
        patch(&answer),
        json!([{"op": "add", "path": "/metadata/annotations/roadstead.dev~1kept", "value": kept}])
    );
    let answer = review(&router, "/mutate/myproxies", &admission("UPDATE", &old, &old)).await;
    assert_eq!(answer, json!({"uid": "u1", "allowed": true}));
}

fn patch(answer: &Value) -> Value {
    assert_eq!(answer["patchType"], "JSONPatch");
    let ByteString(patch) = serde_json::from_value(answer["patch"].clone()).unwrap();
    serde_json::from_slice(&patch).unwrap()
}

#[rstest]
#[case::no_json(
    "/convert",
    "{",
    400,
    "the body is no ConversionReview of apiextensions.k8s.io/v1: EOF while parsing"
)]
#[case::no_review(
    "/convert",
    r#"{"apiVersion":"v1","kind":"Pod"}"#,
    400,
    "apiVersion is \"v1\"; it must be apiextensions.k8s.io/v1"
)]
#[case::beta(
    "/convert",
    r#"{"apiVersion":"apiextensions.k8s.io/v1beta1","kind":"ConversionReview"}"#,
    400,
    "it must be apiextensions.k8s.io/v1"
)]
#[case::no_request(
    "/convert",
    r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview"}"#,
    400,
    "request is missing"
)]
#[case::other_review(
    "/validate/myproxies",
    r#"{"apiVersion":"admission.k8s.io/v1","kind":"Pod"}"#,
    400,
    "kind is \"Pod\"; it must be AdmissionReview"
)]
#[case::no_such_path("/validate/pods", "{}", 404, ALL)]
#[tokio::test]
async fn what_is_no_review_is_told_what_is_expected(
    #[case] path: &str,
    #[case] body: &str,
    #[case] code: u16,
    #[case] expected: &str,
) {
    let (status, body) = post(&router(Limits::default()), path, body.into()).await;
    let told: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((status.as_u16(), &told["kind"]), (code, &json!("Status")));
    assert!(told["message"].as_str().unwrap().contains(expected), "{told}");
}

#[tokio::test]
async fn a_wrong_method_type_or_length_is_told_what_is_expected() {
    let router = router(Limits {
        memory: 10,
        ..Limits::default()
    });
    let request = |method: &str, content_type: &str, body: Body| {
        Request::builder()
            .method(method)
            .uri("/convert")
            .header("Content-Type", content_type)
            .body(body)
            .unwrap()
    };
    let endless = || Body::from_stream(futures::stream::pending::<Result<Vec<u8>, std::io::Error>>());
    for (request, code, expected) in [
        (
            request("GET", "application/json", Body::empty()),
            405,
            "it must be POST",
        ),
        (
            request("POST", "text/yaml", Body::empty()),
            415,
            "it must be application/json",
        ),
        (
            request("POST", "application/json", endless()),
            411,
            "Content-Length is missing",
        ),
        (
            request(
                "POST",
                "application/json; charset=utf-8",
                Body::from("[1, 2, 3, 4]"),
            ),
            413,
            "at most 10",
        ),
    ] {
        let (status, body) = ask(&router, request).await;
        let told = String::from_utf8(body).unwrap();
        assert_eq!(status.as_u16(), code);
        assert!(told.contains(expected), "{told}");
    }
}

/// Of the memory, a request has a share until its answer is taken, or until its time is over.
#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_take_its_answer_keeps_others_waiting_for_a_bounded_time_only() {
    use tower::ServiceExt;
    let objects = vec![proxy("v1alpha1", "a", 2000); 500];
    let asked = conversion("roadstead.dev/v1", &objects).to_string();
    let router = router(Limits {
        memory: asked.len() + 10,
        ..Limits::default()
    });
    let request = |body: String| {
        Request::post("/convert")
            .header("Content-Type", "application/json")
            .body(Body::from(body))
            .unwrap()
    };
    let held = router.clone().oneshot(request(asked.clone())).await.unwrap();
    assert_eq!(held.status(), 200);
    tokio::time::sleep(Duration::from_secs(10)).await;
    let started = tokio::time::Instant::now();
    let (status, _) = ask(&router, request(asked)).await;
    assert_eq!(status, 200, "it was answered once the first had used up its time");
    assert!(
        started.elapsed() <= Duration::from_secs(16),
        "{:?}",
        started.elapsed()
    );
    let body = http_body_util::BodyExt::collect(held.into_body()).await;
    assert!(body.is_err(), "nobody takes half an answer for a whole one");
}

#[tokio::test]
async fn requests_are_counted_by_path_and_code_and_no_path_that_somebody_thought_of_is_a_label() {
    let metrics = Metrics::new();
    let hooks = WebhookMetrics::register(&metrics);
    let router = roadstead::webhook::routes([roadstead::api::my_proxy::served()], Limits::default(), hooks);
    post(&router, "/convert", Vec::new()).await;
    post(&router, "/anything", Vec::new()).await;
    let text = metrics.encode().unwrap();
    for line in [
        r#"roadstead_webhook_requests_total{path="/convert",code="400"} 1"#,
        r#"roadstead_webhook_requests_total{path="other",code="404"} 1"#,
    ] {
        assert!(text.contains(line), "{text}");
    }
}
