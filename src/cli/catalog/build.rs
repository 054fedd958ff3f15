//! `roadstead catalog build` and `push`

use std::path::{Path, PathBuf};

use crate::cli::bundle::images::{self, Access, Moment, Target};
use crate::cli::{Failure, Outcome};
use crate::olm::fbc;
use crate::olm::oci::{Content, catalog};

/// How a catalog's image is built.
#[derive(Debug, clap::Args)]
struct Building {
    /// The program that serves the catalog: this one, linked statically. Of several, separated by commas, an index is made, with the platform of each.
    /// Default: the one that runs now.
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    binary: Vec<PathBuf>,
    #[command(flatten)]
    moment: Moment,
}

#[derive(Debug, clap::Args)]
pub(super) struct Build {
    /// The catalog's folder.
    #[arg(value_name = "DIR", default_value = "catalog")]
    folder: PathBuf,
    #[command(flatten)]
    building: Building,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, clap::Args)]
pub(super) struct Push {
    /// An OCI image layout (a folder, or a tar of one), or a catalog's folder.
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

pub(super) fn build(args: &Build) -> Outcome {
    args.target.check()?;
    let image = args.building.image(&args.folder)?;
    args.target.write(&image)
}

pub(super) fn push(args: &Push) -> Outcome {
    let Push {
        source,
        image,
        building,
        access,
    } = args;
    let given = (!building.binary.is_empty()).then_some("--binary");
    images::push_or_build(source, image, access, given, || building.image(source))
}

impl Building {
    /// The image of a catalog's folder, if the catalog is valid.
    fn image(&self, folder: &Path) -> Result<Content, Failure> {
        let subject = folder.display().to_string();
        images::refuse_errors(&subject, &fbc::validate(folder)?, images::NO_IMAGE)?;
        let programs = if self.binary.is_empty() {
            vec![std::env::current_exe()?]
        } else {
            self.binary.clone()
        };
        Ok(catalog::image(folder, &programs, self.moment.created())?)
    }
}
