//! `roadstead catalog init`: what is said of a package before it has a release.

use std::path::PathBuf;

use super::super::{Outcome, files, icon};
use super::folder::Folder;
use crate::olm::catalog::{About, Catalog};

#[derive(Debug, clap::Args)]
pub(super) struct Init {
    /// The package's name.
    package: String,
    /// The channel of a Subscription that names none. Default: the first one to which a bundle is added.
    #[arg(short = 'c', long)]
    default_channel: Option<String>,
    /// What consoles show of the package, in Markdown. Default: the description of its highest version.
    #[arg(short, long, value_name = "FILE")]
    description: Option<PathBuf>,
    /// An image: .svg, .png, .jpg or .gif. Default: the icon of its highest version, where nothing is said of the description either.
    #[arg(short, long, value_name = "FILE")]
    icon: Option<PathBuf>,
    #[command(flatten)]
    folder: Folder,
}

pub(super) fn init(args: Init) -> Outcome {
    let package = &args.package;
    if args.folder.read_or_begin(package)? != Catalog::empty(package) {
        let file = args.folder.path.join(Catalog::file(package));
        return Err(format!("{} is there already", file.display()).into());
    }
    let about = About {
        default_channel: args.default_channel.unwrap_or_default(),
        description: args
            .description
            .as_deref()
            .map(|file| files::text("--description", file))
            .transpose()?,
        icon: args
            .icon
            .as_deref()
            .map(|file| icon::read("--icon", file))
            .transpose()?,
    };
    let begun = Catalog::begin(package, about)?;
    args.folder.write(&begun, false, "roadstead catalog init")
}
