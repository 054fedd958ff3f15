//! `roadstead status`: What OLM has made of a Subscription, and the first thing that is wrong.

use std::io::Write as _;
use std::process::ExitCode;

use clap::ValueEnum;
use jiff::Timestamp;

mod read;

use super::cluster::Connection;
use super::cluster::reader::Reader;
use super::{Failure, print};
use crate::olm::status::{Report, State, text};
pub(in crate::cli) use read::report as read_report;

/// Something is still to come. 0 has to mean that what was asked for runs, so that a script may go on; 1 that waiting is of no use; 2 is what wrong usage
/// ends with.
const IN_PROGRESS: u8 = 3;

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
    #[command(flatten)]
    connection: Connection,
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
    let reader = Reader::new(args.connection.cluster().await?.client);
    read::report(&reader, &args.package, args.namespace.as_deref(), now).await
}

fn exit_code(state: State) -> ExitCode {
    match state {
        State::Well => ExitCode::SUCCESS,
        State::InProgress => ExitCode::from(IN_PROGRESS),
        State::Unknown | State::Wrong => ExitCode::FAILURE,
    }
}
