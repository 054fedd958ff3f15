//! `roadstead generate`: Write crds/ and config/ from the types in this crate.

use std::path::PathBuf;

use super::{Outcome, files};
use crate::package;

/// Write crds/ and config/ from the types in this crate.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder below which crds/ and config/ lie.
    #[arg(long, value_name = "DIR", default_value = ".")]
    root: PathBuf,
    /// Write nothing; fail and name the files that differ.
    #[arg(long)]
    check: bool,
}

/// Runs the subcommand.
///
/// # Errors
/// A file that cannot be written, or, with `--check`, the files that differ.
pub fn main(args: Args) -> Outcome {
    let tree = package::tree(&package::version()?)?;
    files::finish(&tree, &args.root, args.check, "roadstead generate")
}
