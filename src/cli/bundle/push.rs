//! `roadstead bundle push`

use std::path::PathBuf;

use super::images::{self, Access, Building};
use crate::cli::Outcome;
use crate::olm::oci::{Name, layout};

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
    let name = Name::of("IMAGE", &args.image)?;
    let image = if layout::is_layout(&args.source) {
        args.building.refuse()?;
        layout::open(&args.source)?
    } else {
        images::of_bundle(&args.source, &args.building)?
    };
    images::push(&image, &name, &args.access)
}
