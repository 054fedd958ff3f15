//! How much memory a conversion takes, by an allocator that counts. A binary of its own, with one test in it, for the count is of the whole process.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test fails by panicking

#[path = "support/counting.rs"]
mod counting;
#[path = "support/reviews.rs"]
mod reviews;

use axum::body::Body;
use counting::Growth;
use http::Request;
use http_body_util::BodyExt;
use reviews::{admission, conversion, proxy, router};
use roadstead::api::conversion::KEPT;
use roadstead::api::cost::MAX_OBJECT;
use roadstead::webhook::Limits;
use serde_json::{Value, json};
use tower::ServiceExt;

/// What the heap grows by at most while a review is answered, besides the body as it is sent.
async fn growth(path: &str, body: Vec<u8>) -> (usize, usize) {
    let router = router(Limits::default());
    let request = Request::post(path).header("Content-Type", "application/json");
    let request = request.body(Body::from(body)).unwrap();
    let growth = Growth::since_now();
    let mut answer = router.oneshot(request).await.unwrap().into_body();
    let (mut length, mut last) = (0, axum::body::Bytes::new());
    while let Some(frame) = answer.frame().await {
        last = frame.unwrap().into_data().unwrap();
        length += last.len();
    }
    let is_done = [
        br#"],"result":{"status":"Success"}}}"#.as_slice(),
        br#""allowed":true}}"#,
    ];
    assert!(is_done.iter().any(|end| last.ends_with(end)));
    (growth.most(), length)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_of_a_thousand_objects_takes_little_more_memory_than_its_text() {
    let objects: Vec<_> = (0..1000)
        .map(|at| proxy("v1alpha1", &format!("proxy-{at}"), 4500))
        .collect();
    let body = conversion("roadstead.dev/v1", &objects).to_string().into_bytes();
    drop(objects);
    let length = body.len();
    assert!(length > 4_000_000, "{length}");
    let (grown, answered) = growth("/convert", body).await;
    println!("1,000 objects, {length} bytes: the heap grew by {grown} bytes, the answer has {answered}");
    assert!(answered > length - 10_000);
    assert!(grown < 6 << 20, "{grown}");

    for (what, object) in [
        ("the greatest proxy", reviews::greatest("v1alpha1")),
        ("the dearest object", dear(MAX_OBJECT, 0)),
        (
            "an object with the dearest annotation that is read",
            dear(0, MAX_OBJECT + MAX_OBJECT / 2),
        ),
        ("an object with a dearer annotation", dear(0, 100 << 20)),
        (
            "the dearest object with the dearest annotation",
            dear(MAX_OBJECT - (64 << 10), MAX_OBJECT + MAX_OBJECT / 2),
        ),
    ] {
        let mut other = object.clone();
        other["spec"]["replicas"] = json!(3);
        let update = admission("UPDATE", &other, &object).to_string().into_bytes();
        let body = conversion("roadstead.dev/v1", &[object]).to_string().into_bytes();
        let (converted, _) = growth("/convert", body).await;
        let (validated, _) = growth("/validate/myproxies", update.clone()).await;
        let (mutated, _) = growth("/mutate/myproxies", update).await;
        println!(
            "{what}: the heap grew by {converted} bytes, {validated} to validate an update, {mutated} to mutate it"
        );
        assert!(converted.max(validated).max(mutated) < LEFT, "{what}");
    }
}

/// What is left for one object beside the bodies: of 22 MiB, 10 MiB are theirs.
const LEFT: usize = 12 << 20;

/// An object that takes about so much by the estimate, and an annotation in it that takes about so much: maps of one entry, which is what
/// takes most.
fn dear(own: usize, kept: usize) -> Value {
    let maps = |cost: usize| vec![json!({"": 0}); (cost / (640 + 160 + 96 + 7)).saturating_sub(10)];
    let mut dear = proxy("v1alpha1", "dear", 0);
    dear["spec"]["novel"] = maps(own).into();
    let kept = json!({"v1": [{"at": ["spec", "other"], "is": maps(kept)}]});
    dear["metadata"]["annotations"] = json!({KEPT: kept.to_string()});
    dear
}
