//! `roadstead bundle`: Make and check OLM bundles.

use super::Outcome;

/// Make and check OLM bundles.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs the subcommand.
pub fn main(_args: Args) -> Outcome {
    Err("not built yet".into())
}
