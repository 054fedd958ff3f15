//! The sample operator: it greets people. README.md beside this file is the tutorial that leads through it.

use std::path::Path;
use std::sync::Arc;

use clap::Parser;
use kube::{Config, CustomResourceExt};
use roadstead::olm::{self, Tree, yaml};
use roadstead::runtime::client::{Clients, REQUEST_TIMEOUT};
use roadstead::runtime::controller::ControllerOptions;
use roadstead::runtime::lease::{Leadership, LeaseConfig};
use roadstead::runtime::manager::{Manager, ManagerOptions};
use roadstead::runtime::metrics::RuntimeMetrics;
use roadstead::runtime::{health, signals};
use roadstead::telemetry::logs::{self, Format, LogLevel};
use roadstead::telemetry::metrics::Metrics;

mod operator;
#[cfg(test)]
mod tests;

/// The Lease, the field manager, and the reporter of Events.
const NAME: &str = "roadstead-greeter";

/// Greets people.
#[derive(Parser)]
#[command(name = "greeter")]
enum Command {
    /// Run the operator. In a pod, POD_NAME and POD_NAMESPACE say where it is.
    Run,
    /// Write examples/greeter/crds/ from the types.
    Generate,
}

type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;

fn main() -> Outcome {
    match Command::parse() {
        Command::Run => {
            let runtime = tokio::runtime::Runtime::new()?;
            let outcome = runtime.block_on(run());
            // Whoever lost the lease must end at once, whatever still runs.
            runtime.shutdown_background();
            outcome
        }
        Command::Generate => Ok(crds()?.write(Path::new("examples/greeter")).map(drop)?),
    }
}

async fn run() -> Outcome {
    let told_to_stop = signals::shutdown()?;
    logs::init(Format::Json, LogLevel::default(), None)?;

    let config = Config::infer().await?;
    let pod = std::env::var("POD_NAME").unwrap_or_else(|_| NAME.to_owned());
    let namespace = std::env::var("POD_NAMESPACE").unwrap_or_else(|_| config.default_namespace.clone());
    // A container that starts again in the same pod is another candidate, so its name has the time in it.
    let identity = format!("{pod}_{:x}", jiff::Timestamp::now().as_nanosecond());
    let mut options = ManagerOptions::new(NAME, pod);
    options.lease = Some(LeaseConfig::new(namespace, NAME, identity));

    let metrics = Arc::new(Metrics::new());
    let requests = RuntimeMetrics::register(&metrics);
    let clients = Clients::connect(config, Leadership::standby(), REQUEST_TIMEOUT, &requests)?;
    let mut manager = Manager::new(clients, options, Arc::clone(&metrics), requests);
    operator::register(&mut manager, ControllerOptions::default());

    let routes = manager.health().routes().merge(health::metrics_routes(metrics));
    let listener = health::listen(([0, 0, 0, 0], 8080).into(), "probes and metrics").await?;
    tokio::spawn(health::serve(listener, routes, std::future::pending()));
    Ok(manager.run(told_to_stop).await?)
}

/// The files of crds/.
fn crds() -> Result<Tree, olm::Error> {
    let mut tree = Tree::default();
    tree.own("crds")?;
    for crd in [operator::api::Greeting::crd(), operator::api::Person::crd()] {
        let file = format!("crds/{}_{}.yaml", crd.spec.group, crd.spec.names.plural);
        let text = yaml::document(&crd)?;
        let text = format!("# Written by `greeter generate`; edits are lost.\n---\n{text}");
        tree.insert(file, text)?;
    }
    Ok(tree)
}
