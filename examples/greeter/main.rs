//! The sample operator: it greets people. README.md beside this file is the tutorial that leads through it.

use std::error::Error;
use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use kube::{Config, CustomResourceExt};
use roadstead::olm::{Tree, yaml};
use roadstead::runtime::client::{Clients, REQUEST_TIMEOUT};
use roadstead::runtime::controller::ControllerOptions;
use roadstead::runtime::health;
use roadstead::runtime::lease::{Leadership, LeaseConfig};
use roadstead::runtime::manager::{Manager, ManagerOptions};
use roadstead::runtime::metrics::RuntimeMetrics;
use roadstead::telemetry::logs::{self, Format};
use roadstead::telemetry::metrics::Metrics;
use tokio::signal::unix::{SignalKind, signal};

mod operator;

/// The Lease, the field manager, and the reporter of Events.
const NAME: &str = "roadstead-greeter";

/// Greets people. Reads WATCH_NAMESPACE (all where it is not set), POD_NAME, POD_NAMESPACE and LOG_LEVEL.
#[derive(Debug, Parser)]
#[command(name = "greeter")]
enum Command {
    /// Run the operator.
    Run,
    /// Write examples/greeter/crds/ from the types.
    Generate,
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    match Command::parse() {
        Command::Run => {
            let runtime = tokio::runtime::Runtime::new()?;
            let outcome = runtime.block_on(run());
            // Whoever lost the lease must end at once, whatever still runs.
            runtime.shutdown_timeout(Duration::from_millis(500));
            outcome
        }
        Command::Generate => Ok(crds()?.write(Path::new("examples/greeter")).map(drop)?),
    }
}

async fn run() -> Result<(), Box<dyn Error + Send + Sync>> {
    let told_to_stop = shutdown()?;
    let setting = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let level = setting("LOG_LEVEL").unwrap_or_else(|| "info".to_owned());
    let format = if std::io::stderr().is_terminal() {
        Format::Text
    } else {
        Format::Json
    };
    logs::init(format, level.parse()?, None)?;

    let config = Config::infer().await?;
    let namespace = setting("POD_NAMESPACE").unwrap_or_else(|| config.default_namespace.clone());
    let pod = setting("POD_NAME").unwrap_or_else(|| NAME.to_owned());
    // A container that starts again in the same pod is another candidate, so the time is part of its name.
    let identity = format!("{pod}_{:x}", jiff::Timestamp::now().as_nanosecond());
    let options = ManagerOptions {
        namespaces: setting("WATCH_NAMESPACE")
            .iter()
            .flat_map(|all| all.split(','))
            .map(str::to_owned)
            .collect(),
        lease: Some(LeaseConfig::new(namespace, NAME, identity)),
        ..ManagerOptions::new(NAME, pod)
    };

    let metrics = Arc::new(Metrics::new());
    let runtime_metrics = RuntimeMetrics::register(&metrics);
    let clients = Clients::connect(config, Leadership::standby(), REQUEST_TIMEOUT, &runtime_metrics)?;
    let mut manager = Manager::new(clients, options, Arc::clone(&metrics), runtime_metrics);
    operator::register(&mut manager, ControllerOptions::default());

    let routes = manager.health().routes().merge(health::metrics_routes(metrics));
    let listener = health::listen(([0, 0, 0, 0], 8080).into(), "probes and metrics").await?;
    tokio::spawn(health::serve(listener, routes, std::future::pending()));
    Ok(manager.run(told_to_stop).await?)
}

/// Done at the first SIGTERM or SIGINT.
fn shutdown() -> std::io::Result<impl Future<Output = ()>> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// The files of crds/.
fn crds() -> Result<Tree, roadstead::olm::Error> {
    let mut tree = Tree::default();
    tree.own("crds");
    for crd in [operator::api::Greeting::crd(), operator::api::Person::crd()] {
        let (file, text) = (
            format!("crds/{}_{}.yaml", crd.spec.group, crd.spec.names.plural),
            yaml::document(&crd)?,
        );
        tree.insert(
            file,
            format!("# Written by `greeter generate`; edits are lost.\n---\n{text}"),
        );
    }
    Ok(tree)
}
