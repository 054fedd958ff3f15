//! `roadstead instance postgres`: Supervise PostgreSQL.

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use kube::Config;
use kube::client::ClientBuilder;

use super::{begin, fail};
use crate::api::database::agent;
use crate::instance::postgres::options::Options;
use crate::instance::postgres::supervisor;
use crate::runtime::client::ServerTime;
use crate::runtime::clock::Clock;
use crate::runtime::signals;

#[derive(Debug, clap::Args)]
pub(super) struct Postgres {
    /// The pod's name.
    #[arg(long, env = "POD_NAME")]
    name: String,
    /// The pod's namespace.
    #[arg(long, env = "POD_NAMESPACE")]
    namespace: String,
    /// The pod's UID.
    #[arg(long, env = "POD_UID")]
    uid: String,
    /// The folder that holds instance.json.
    #[arg(long, default_value = agent::SETTINGS_DIR)]
    settings: PathBuf,
    /// The folder that holds ca.crt, tls.crt and tls.key.
    #[arg(long, default_value = agent::TLS_DIR)]
    tls: PathBuf,
    /// The folder that holds the same of the certificate that PostgreSQL shows; its own is used where there is no such folder.
    #[arg(long, default_value = agent::SERVER_TLS_DIR)]
    server_tls: PathBuf,
    /// The folder that holds username and password of the owner.
    #[arg(long, default_value = agent::CREDENTIALS_DIR)]
    credentials: PathBuf,
    /// Where the volume is mounted.
    #[arg(long, default_value = agent::DATA_DIR)]
    volume: PathBuf,
    /// A private folder for configuration, copies of certificates and the socket, best in memory.
    #[arg(long, default_value = agent::RUN_DIR)]
    run: PathBuf,
    /// The folder with PostgreSQL's programs. Without it: looked for on PATH and where distributions put them.
    #[arg(long)]
    bin: Option<PathBuf>,
    /// The address to listen on. Without it: all.
    #[arg(long)]
    address: Option<IpAddr>,
    /// PostgreSQL's port.
    #[arg(long, default_value_t = agent::POSTGRES_PORT)]
    port: u16,
    /// The port of probes, metrics, and what instances ask each other.
    #[arg(long, default_value_t = agent::PORT)]
    control_port: u16,
    /// The number of the user under which PostgreSQL runs. Without it: this program's own, which must not be root.
    #[arg(long, value_name = "UID")]
    user: Option<u32>,
    /// Where it is written which process this is, for the kubelet.
    #[arg(long, default_value = "/dev/termination-log")]
    termination_log: PathBuf,
}

impl From<Postgres> for Options {
    fn from(args: Postgres) -> Self {
        Self {
            name: args.name,
            namespace: args.namespace,
            uid: args.uid,
            settings: args.settings,
            tls: args.tls,
            server_tls: args.server_tls,
            credentials: args.credentials,
            volume: args.volume,
            run: args.run,
            bin: args.bin,
            address: args.address,
            port: args.port,
            control_port: args.control_port,
            termination_log: args.termination_log,
            user: args.user,
        }
    }
}

/// Runs it; the exit code is the container's.
pub(super) fn run(args: Postgres) -> ExitCode {
    let runtime = match begin() {
        Ok(runtime) => runtime,
        Err(failed) => return failed,
    };
    let outcome = runtime.block_on(live(args.into()));
    // A disk that hangs may keep a thread that nobody needs any more.
    runtime.shutdown_background();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error.to_string()),
    }
}

async fn live(options: Options) -> Result<(), Box<dyn std::error::Error>> {
    let stop = signals::shutdown()?;
    let mut config = Config::infer().await?;
    // Whoever asks knows how long it may take, and whether it is worth asking again.
    config.default_retry = false;
    let time = ServerTime::default();
    let client = ClientBuilder::try_from(config)?.with_layer(&time).build();
    let clock = time.clock(Clock::system());
    Ok(supervisor::run(options, client, clock, stop).await?)
}
