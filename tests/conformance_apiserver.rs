//! The list of behaviours that the simulated API server has, against a real one.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test fails by panicking

#[path = "support/apiserver.rs"]
mod apiserver;
#[path = "support/conformance/mod.rs"]
mod conformance;

use apiserver::ApiServer;
use conformance::Place;

#[test]
fn a_real_api_server_behaves_as_the_simulated_one() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = ApiServer::shared();
    runtime.block_on(server.install_crds());
    conformance::each(async |namespace| Place {
        client: server.client().await,
        namespace: server.namespace(&namespace).await,
    });
}
