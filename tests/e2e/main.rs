//! The product from end to end: a real Kubernetes, a real OLM, a real registry, a real nginx.
//!
//! `hack/e2e` builds the images, starts the local cluster and runs this program inside the cluster's network, so that
//! ClusterIPs, pod IPs and the registry are reachable. Scenarios run one after the other in the order of
//! [`scenarios::ALL`]: a later one may find the operator installed by an earlier one, but every one of them also
//! runs alone, since it first brings the cluster to the state that it needs.
//!
//! It has its own `main` in place of libtest, for one runtime, that order, and a time for each scenario.

mod author;
// Shared with the tests that start instances as processes, which use all of it
#[allow(dead_code, clippy::unwrap_used)]
#[path = "../support/database_authority.rs"]
mod authority;
mod catalog;
mod database;
mod disk;
mod explain;
mod fault;
// Shared with the tests of the agent in the pods, which use all of it
#[allow(dead_code, clippy::unwrap_used)]
#[path = "../support/load.rs"]
mod generator;
mod greeter;
mod harm;
mod instance;
// Shared with the tests that start instances as processes, which use all of it
#[allow(dead_code)]
#[path = "../support/ledger.rs"]
mod ledger;
mod load;
mod memory;
mod objects;
mod olm;
mod operator;
mod outcome;
mod proxy;
mod runner;
mod scenarios;
// Its own tests run elsewhere
#[allow(dead_code)]
#[path = "../support/sightings.rs"]
mod sightings;
mod wait;
mod world;

use std::process::ExitCode;

fn main() -> ExitCode {
    let settings = match world::Settings::from_environment() {
        Ok(Some(settings)) => settings,
        Ok(None) => {
            println!(
                "e2e: nothing is run, for there is no cluster; hack/e2e starts one and runs these tests"
            );
            return ExitCode::SUCCESS;
        }
        Err(failure) => {
            eprintln!("e2e: {failure}");
            return ExitCode::FAILURE;
        }
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("e2e: cannot start a runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    runtime.block_on(runner::run(settings, scenarios::ALL, &wanted))
}
