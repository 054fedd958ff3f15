//! `roadstead catalog serve`

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use futures::FutureExt as _;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
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

/// As many files as a catalog has are held open, and again while another one is read, where the system allows it.
const FILES: u64 = 65_536;

pub(super) fn main(args: Args) -> Outcome {
    allow_files();
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

/// Where that does not work, fewer files are held open.
fn allow_files() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.map_or(FILES, |maximum| maximum.min(FILES));
    if current.is_some_and(|current| current < wanted) {
        let limit = Rlimit {
            current: Some(wanted),
            maximum,
        };
        let _ = setrlimit(Resource::Nofile, limit);
    }
}
