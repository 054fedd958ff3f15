//! `roadstead catalog`: Make and check file-based catalogs.

use super::Outcome;

/// Make and check file-based catalogs.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs the subcommand.
pub fn main(_args: Args) -> Outcome {
    Err("not built yet".into())
}
