//! `roadstead catalog validate`

use std::path::PathBuf;

use crate::cli::{Outcome, findings};
use crate::olm::fbc;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The catalog's folder.
    #[arg(value_name = "DIR", default_value = "catalog")]
    folder: PathBuf,
    #[command(flatten)]
    report: findings::Report,
}

pub(super) fn main(args: &Args) -> Outcome {
    let found = fbc::validate(&args.folder)?;
    findings::report(&args.folder, &found, &args.report)
}
