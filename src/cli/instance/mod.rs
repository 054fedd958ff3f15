//! `roadstead instance`: Run inside an operand's container.

mod nginx;
mod postgres;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;

use crate::instance::install::install;

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

fn fail(message: &str) -> ExitCode {
    eprintln!("roadstead: {message}");
    ExitCode::FAILURE
}
