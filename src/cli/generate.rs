//! `roadstead generate`: Write crds/ and config/ from the types in this crate.

use super::Outcome;

/// Write crds/ and config/ from the types in this crate.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs the subcommand.
pub fn main(_args: Args) -> Outcome {
    Err("not built yet".into())
}
