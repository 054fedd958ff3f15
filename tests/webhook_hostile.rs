//! Ten thousand bodies that nobody should send, against the router that is served.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test fails by panicking

#[path = "support/hostile.rs"]
mod hostile;
#[path = "support/reviews.rs"]
mod reviews;

use hostile::{bears, reviews as all, spoilt, wrong};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use roadstead::webhook::Limits;

const PATHS: [&str; 5] = [
    "/convert",
    "/validate/myproxies",
    "/mutate/myproxies",
    "/validate/databases",
    "/validate/redisclusters",
];

#[test]
fn whatever_is_sent_is_answered_and_never_with_an_error_of_the_server() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (router, all) = (reviews::router(Limits::default()), all());
    let mut runner = TestRunner::new(Config {
        cases: 10_000,
        failure_persistence: None,
        ..Config::default()
    });
    let cases = (any::<Index>(), select(&PATHS[..]), wrong());
    let outcome = runner.run(&cases, |(review, path, wrong)| {
        let body = spoilt(review.get(&all), &wrong);
        let borne = runtime.block_on(bears(&router, path, body));
        borne.map_err(TestCaseError::fail)
    });
    outcome.unwrap();
}
