//! `roadstead run`: Run the operator.

use super::Outcome;

/// Run the operator.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs the subcommand.
pub fn main(_args: Args) -> Outcome {
    Err("not built yet".into())
}
