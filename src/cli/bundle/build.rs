//! `roadstead bundle build`

use std::path::PathBuf;

use super::images::{self, Building, Target};
use crate::cli::Outcome;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The bundle's folder, which holds manifests/ and metadata/.
    #[arg(value_name = "DIR", default_value = "bundle")]
    folder: PathBuf,
    #[command(flatten)]
    building: Building,
    #[command(flatten)]
    target: Target,
}

pub(super) fn main(args: &Args) -> Outcome {
    args.target.check()?;
    let image = images::of_bundle(&args.folder, &args.building)?;
    args.target.write(&image)
}
