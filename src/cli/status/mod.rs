//! `roadstead status`: What OLM has made of a Subscription, and the first thing that is wrong.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::ValueEnum;
use jiff::Timestamp;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

mod read;
mod reader;

use super::{Failure, print};
use crate::olm::status::{Report, State, text};
use reader::Reader;

/// Something is still to come. 0 has to mean that what was asked for runs, so that a script may go on; 1 that waiting is of no use; 2 is what wrong usage
/// ends with.
const IN_PROGRESS: u8 = 3;

/// A server that cannot be reached is noticed after this time.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Tell the chain from CatalogSource to Deployment of a package that OLM installs, and the first thing that is wrong with it. Reads only.
///
/// Ends with 0 when all is well, 1 when something is wrong or cannot be told, and 3 when something is still to come: from OLM, or from somebody who has to
/// approve it.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The package, as Subscriptions name it.
    package: String,
    /// The namespace of the Subscription. Default: every namespace that has one to this package.
    #[arg(long, short, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Every namespace that has a Subscription to this package: what is done without it, too.
    #[arg(long, short = 'A', conflicts_with = "namespace")]
    all_namespaces: bool,
    /// How it is written.
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// The kubeconfig. Default: those that KUBECONFIG names, ~/.kube/config, or the pod's own service account.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig. Default: its current one.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For a person.
    Text,
    /// For a program.
    Json,
}

/// Runs the subcommand.
///
/// # Errors
/// When there is no cluster, it has no OLM, or Subscriptions may not be read.
pub fn main(args: &Args) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let now = Timestamp::now();
    let report = runtime.block_on(report(args, now))?;
    print(|out| match args.output {
        Output::Text => text::write(out, &report, now),
        Output::Json => {
            serde_json::to_writer_pretty(&mut *out, &report)?;
            writeln!(out)
        }
    })?;
    Ok(exit_code(report.state))
}

async fn report(args: &Args, now: Timestamp) -> Result<Report, Failure> {
    let mut config = config(args)
        .await
        .map_err(|error| format!("no cluster to look at: {error}"))?;
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    let reader = Reader::new(Client::try_from(config)?);
    read::report(&reader, &args.package, args.namespace.as_deref(), now).await
}

async fn config(args: &Args) -> Result<Config, Failure> {
    let options = KubeConfigOptions {
        context: args.context.clone(),
        ..KubeConfigOptions::default()
    };
    Ok(match &args.kubeconfig {
        Some(file) => Config::from_custom_kubeconfig(Kubeconfig::read_from(file)?, &options).await?,
        None if args.context.is_some() => Config::from_kubeconfig(&options).await?,
        None => Config::infer().await?,
    })
}

fn exit_code(state: State) -> ExitCode {
    match state {
        State::Well => ExitCode::SUCCESS,
        State::InProgress => ExitCode::from(IN_PROGRESS),
        State::Unknown | State::Wrong => ExitCode::FAILURE,
    }
}
