//! Any body, sent to any path of the webhook server. The first byte of the input chooses the path, the others are the body.

#![no_main]

#[path = "../../tests/support/reviews.rs"]
mod reviews;

use std::sync::LazyLock;

use axum::Router;
use libfuzzer_sys::fuzz_target;
use roadstead::webhook::Limits;
use tokio::runtime::{Builder, Runtime};

const PATHS: [&str; 4] = ["/convert", "/validate/myproxies", "/mutate/myproxies", "/validate/databases"];

static GROUND: LazyLock<(Runtime, Router)> = LazyLock::new(|| {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    (runtime, reviews::router(Limits::default()))
});

fuzz_target!(|input: &[u8]| {
    let Some((first, body)) = input.split_first() else { return };
    let (runtime, router) = &*GROUND;
    let path = PATHS[usize::from(*first) % PATHS.len()];
    let (status, _) = runtime.block_on(reviews::post(router, path, body.to_vec()));
    assert!(status.is_success() || status.is_client_error(), "{path}: {status}");
});
