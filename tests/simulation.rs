//! The product's own controllers against a cluster in memory, on a paused clock.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test fails by panicking

#[path = "support/sim/mod.rs"]
mod sim;

#[tokio::test(start_paused = true)]
async fn compiles() {
    let sim = sim::Sim::new();
    let _cluster = sim::cluster::Cluster::start(&sim);
    let _client = sim.client("test");
}
