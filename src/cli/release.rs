//! `roadstead release`: Make the next release of this repository.

use std::path::PathBuf;

use semver::Version;

use super::{Outcome, files};
use crate::package::release;

/// Make the next release: set the version, and write crds/, config/, bundle/ and catalog/ for it.
///
/// Refuses a version that is not higher than every released one of its minor version, that CHANGELOG.md does not describe, or with which somebody in a
/// channel would not be upgraded.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The version, such as 0.2.0.
    version: Version,
    /// The channels to add it to. Default: candidate, stable and stable-vMAJOR.MINOR; of a pre-release, candidate only; of a fix of an
    /// older minor version, those that hold no higher version.
    #[arg(long, value_delimiter = ',')]
    channels: Vec<String>,
    /// The root of the repository.
    #[arg(long, value_name = "DIR", default_value = ".")]
    root: PathBuf,
}

/// Runs the subcommand.
///
/// # Errors
/// What speaks against the release, or a file that cannot be read or written. Nothing is written unless all of it can be made.
pub fn main(args: Args) -> Outcome {
    let files = release::prepare(&args.root, &args.version, &args.channels)?;
    files::finish(&files, &args.root, false, "roadstead release")
}
