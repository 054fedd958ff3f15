//! `roadstead instance`: Run inside an operand's container.

use super::Outcome;

/// Run inside an operand's container.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs the subcommand.
pub fn main(_args: Args) -> Outcome {
    Err("not built yet".into())
}
