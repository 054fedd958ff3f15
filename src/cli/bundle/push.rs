//! `roadstead bundle push`

use std::path::PathBuf;

use super::images::{self, Access, Building};
use crate::cli::Outcome;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// An OCI image layout (a folder, or a tar of one), or a bundle's folder.
    #[arg(value_name = "LAYOUT|DIR")]
    source: PathBuf,
    /// What it is to be called: HOST/PATH:TAG.
    #[arg(value_name = "IMAGE")]
    image: String,
    #[command(flatten)]
    building: Building,
    #[command(flatten)]
    access: Access,
}

pub(super) fn main(args: &Args) -> Outcome {
    let Args {
        source,
        image,
        building,
        access,
    } = args;
    images::push_or_build(source, image, access, building.given(), || {
        images::of_bundle(source, building)
    })
}
