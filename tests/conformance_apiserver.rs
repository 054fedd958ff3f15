//! The list of behaviours that the simulated API server has, against a real one.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test fails by panicking

#[path = "support/apiserver.rs"]
mod apiserver;
#[path = "support/conformance/mod.rs"]
mod conformance;
#[path = "support/place.rs"]
mod place;
#[path = "support/sample_proxy.rs"]
mod sample_proxy;

use apiserver::ApiServer;
use place::Place;

#[test]
fn a_real_api_server_behaves_as_the_simulated_one() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = ApiServer::shared();
    runtime.block_on(server.install_crds());
    place::each(conformance::ALL, async |namespace| {
        let client = server.client().await;
        let namespace = server.namespace(&namespace).await;
        (Place { client, namespace }, ())
    });
}
