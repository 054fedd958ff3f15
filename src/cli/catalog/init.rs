//! `roadstead catalog init`: what is said of a package before it has a release.

use std::path::{Path, PathBuf};

use super::super::bundle::context_of;
use super::super::{Failure, Outcome, files};
use super::edit;
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
    /// The catalog's folder: PACKAGE/catalog.yaml is written in it, and catalog.Dockerfile beside it.
    #[arg(
        long,
        visible_alias = "catalog",
        value_name = "DIR",
        default_value = "catalog"
    )]
    output: PathBuf,
}

pub(super) fn init(args: Init) -> Outcome {
    let package = &args.package;
    if edit::read_or_begin(&args.output, package)? != Catalog::empty(package) {
        let file = args.output.join(Catalog::file(package));
        return Err(format!("{} is there already", file.display()).into());
    }
    let about = About {
        default_channel: args.default_channel.unwrap_or_default(),
        description: args.description.as_deref().map(text_of).transpose()?,
        icon: args.icon.as_deref().map(icon_of).transpose()?,
    };
    let (context, folder) = context_of(&args.output);
    let tree = Catalog::begin(package, about)?.tree(&folder)?;
    files::finish(&tree, &context, false, "roadstead catalog init")
}

fn text_of(file: &Path) -> Result<String, Failure> {
    let text = std::fs::read_to_string(file);
    Ok(text.map_err(|error| format!("--description: cannot read {}: {error}", file.display()))?)
}

/// An image and its media type.
fn icon_of(file: &Path) -> Result<(Vec<u8>, String), Failure> {
    let extension = file
        .extension()
        .map(|extension| extension.to_string_lossy().to_lowercase());
    let mediatype = match extension.as_deref() {
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("jpg" | "jpeg") => "image/jpeg",
        Some("gif") => "image/gif",
        _ => {
            return Err(format!(
                "--icon is {}; accepted are .svg, .png, .jpg and .gif",
                file.display()
            )
            .into());
        }
    };
    let data = std::fs::read(file);
    let data = data.map_err(|error| format!("--icon: cannot read {}: {error}", file.display()))?;
    Ok((data, mediatype.to_owned()))
}
