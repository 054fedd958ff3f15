//! How much memory a conversion takes, by an allocator that counts. A binary of its own, with one test in it, for the count is of the whole process.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test fails by panicking
#![allow(
    unsafe_code,
    reason = "an allocator is unsafe by its nature; this one hands on to the system's"
)]

#[path = "support/reviews.rs"]
mod reviews;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Body;
use http::Request;
use http_body_util::BodyExt;
use reviews::{admission, conversion, proxy, router};
use roadstead::webhook::Limits;
use tower::ServiceExt;

struct Counting;

static USED: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is the system's allocator; only sizes are noted.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let used = USED.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(used, Ordering::Relaxed);
        // SAFETY: the caller keeps to what the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        USED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps to what the system's allocator asks for.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What the heap grows by at most while a review is answered, besides the body as it is sent.
async fn growth(path: &str, body: Vec<u8>) -> (usize, usize) {
    let router = router(Limits::default());
    let request = Request::post(path).header("Content-Type", "application/json");
    let request = request.body(Body::from(body)).unwrap();
    let before = USED.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
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
    (PEAK.load(Ordering::Relaxed) - before, length)
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

    // As dear as an object may be, by the estimate: maps of one entry, which is what takes most.
    let mut dear = proxy("v1", "dear", 0);
    let maps = (2 << 20) / (640 + 160 + 96 + 16) - 10;
    dear["spec"]["novel"] = vec![serde_json::json!({"novel": 1}); maps].into();
    let mut other = dear.clone();
    other["spec"]["replicas"] = serde_json::json!(3);
    let update = admission("UPDATE", &other, &dear).to_string().into_bytes();
    let body = conversion("roadstead.dev/v1alpha1", &[dear])
        .to_string()
        .into_bytes();
    let (grown, _) = growth("/convert", body).await;
    println!("the dearest object: the heap grew by {grown} bytes");
    assert!(grown < 8 << 20, "{grown}");
    let (grown, _) = growth("/validate/myproxies", update).await;
    println!("an update of the dearest object: the heap grew by {grown} bytes");
    assert!(grown < 8 << 20, "{grown}");
}
