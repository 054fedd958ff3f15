//! The product's own controllers against a cluster in memory, on a paused clock.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test fails by panicking

#[path = "support/conformance/mod.rs"]
mod conformance;
#[path = "support/life.rs"]
mod life;
#[path = "support/sim/mod.rs"]
mod sim;

use conformance::Place;
use sim::world::World;

/// As `tests/conformance_apiserver.rs` has it of a real one.
#[test]
fn the_simulated_api_server_behaves_as_a_real_one() {
    conformance::each(async |namespace| Place {
        client: sim::Sim::new().client("test"),
        namespace,
    });
}

#[tokio::test(start_paused = true)]
async fn a_proxy_lives_and_dies_as_its_spec_says() {
    let mut world = World::new();
    life::live(&mut world, None).await;
    for reason in [
        "ConfigAccepted",
        "ConfigRefused",
        "Created",
        "Available",
        "Ready",
        "Deleting",
    ] {
        assert!(
            world.events("edge").contains(&reason.to_owned()),
            "no Event {reason}"
        );
    }
}
