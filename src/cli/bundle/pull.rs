//! `roadstead bundle pull`

use super::images::{self, Access, Target};
use crate::cli::Outcome;
use crate::olm::oci::{Name, Platform, Scratch};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The image: HOST/PATH:TAG or HOST/PATH@DIGEST.
    #[arg(value_name = "IMAGE")]
    image: String,
    /// Of an image for several platforms, only what is for this one, such as linux/amd64. Default: all.
    #[arg(long)]
    platform: Option<Platform>,
    #[command(flatten)]
    output: images::Output,
    #[command(flatten)]
    access: Access,
}

pub(super) fn main(args: &Args) -> Outcome {
    let target = Target {
        name: Name::of("IMAGE", &args.image)?,
        output: args.output.clone(),
    };
    target.check()?;
    let scratch = Scratch::beside(&target.output.path)?;
    let image = images::pull(&target.name, args.platform.as_ref(), &scratch, &args.access)?;
    target.write(&image)
}
