//! `roadstead catalog serve`

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use futures::FutureExt as _;
use tokio::sync::oneshot;

use crate::cli::Outcome;
use crate::cli::logging::Logging;
use crate::cli::values::Listen;
use crate::olm::registry::{Limits, Watched, serve};
use crate::runtime::{health, signals};
use crate::telemetry::metrics::Metrics;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The catalog's folder. It is read again when its files change.
    #[arg(value_name = "DIR", default_value = "/configs")]
    folder: PathBuf,
    /// Where the registry is served, by gRPC without TLS: IP:PORT, [IPv6]:PORT or :PORT.
    #[arg(
        long,
        env = "REGISTRY_ADDRESS",
        default_value = ":50051",
        value_name = "ADDRESS"
    )]
    address: Listen,
    /// Where /metrics is served, or off.
    #[arg(
        long,
        env = "METRICS_ADDRESS",
        default_value = ":8080",
        value_name = "ADDRESS"
    )]
    metrics_address: Listen,
    #[command(flatten)]
    logging: Logging,
}

pub(super) fn main(args: Args) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(run(args))
}

async fn run(args: Args) -> Outcome {
    let stop = signals::shutdown()?.shared();
    let (_logs, _traces) = args.logging.begin()?;
    let address: SocketAddr = args.address.0.ok_or("--address is off: it must be an address")?;
    let listener = health::listen(address, "the registry").await?;
    let metrics = Arc::new(Metrics::with_build_info(env!("CARGO_PKG_VERSION")));
    let watched = Watched::register(&metrics);
    let (_end, ended) = oneshot::channel::<()>();
    if let Some(address) = args.metrics_address.0 {
        let listener = health::listen(address, "metrics").await?;
        let ended = ended.map(drop);
        tokio::spawn(health::serve(listener, health::metrics_routes(metrics), ended));
    }
    serve(args.folder, listener, Limits::default(), watched, stop).await
}
