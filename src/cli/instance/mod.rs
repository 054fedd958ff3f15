//! `roadstead instance`: Run inside an operand's container.

mod nginx;
mod postgres;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use tokio::runtime::Runtime;

use crate::instance::install::install;
use crate::telemetry::logs::{self, Format, LogLevel};

/// Run inside an operand's container.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Copy this program to DIR/roadstead, for the containers that run it from there.
    Install {
        /// The folder, which exists.
        dir: PathBuf,
    },
    /// Supervise nginx: check, drain, reload, graceful stop.
    Nginx(nginx::Nginx),
    /// Supervise PostgreSQL: initialise, join, follow, take over, stop.
    Postgres(postgres::Postgres),
}

/// Runs the subcommand; its exit code is the container's.
pub fn main(args: Args) -> ExitCode {
    match args.command {
        Command::Install { dir } => match install(&dir) {
            Ok(_) => ExitCode::SUCCESS,
            Err(error) => fail(&format!("cannot install into {}: {error}", dir.display())),
        },
        Command::Nginx(nginx) => nginx::run(nginx),
        Command::Postgres(postgres) => postgres::run(postgres),
    }
}

/// What every supervisor runs with: a log in JSON, and a runtime of two threads.
fn begin() -> Result<Runtime, ExitCode> {
    logs::init(Format::Json, LogLevel::default(), None).map_err(|error| fail(&error.to_string()))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.map_err(|error| fail(&format!("cannot start: {error}")))
}

fn fail(message: &str) -> ExitCode {
    eprintln!("roadstead: {message}");
    ExitCode::FAILURE
}
