//! `roadstead bundle generate`

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use semver::Version;

use super::described::Describing;
use super::images::{self, Access};
use crate::cli::values::version;
use crate::cli::{Failure, Outcome, files};
use crate::olm::catalog::{Catalog, default_channel_of, default_channels};
use crate::olm::manifests::{LARGEST, Manifests, name, text};
use crate::olm::oci::Name;
use crate::olm::{bounded, bundle, csv};

/// Every folder and name can be another one, so that a bundle for a test cluster leaves the checked-in one alone.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The manifests: CRDs, roles, Deployments, samples, and perhaps one ClusterServiceVersion as the base. A folder, a file, or - for standard input. Repeat it
    /// where they lie in several.
    #[arg(long, value_name = "DIR|FILE|-", default_value = "config")]
    input: Vec<PathBuf>,
    /// The bundle's folder. bundle.Dockerfile is written beside it; the folder that holds both is the build context.
    #[arg(long, value_name = "DIR", default_value = "bundle")]
    output: PathBuf,
    /// The catalog in which the version to replace is looked up. One that does not exist holds no version.
    #[arg(long, value_name = "DIR", default_value = "catalog")]
    catalog: PathBuf,
    /// The version. Default: the base's spec.version.
    #[arg(long, value_parser = version)]
    version: Option<Version>,
    /// The package. Default: the base's name, up to ".v".
    #[arg(long)]
    package: Option<String>,
    /// The operator's image. Default: as the manifests have it.
    #[arg(long)]
    image: Option<String>,
    /// Name every image, the operator's and those of RELATED_IMAGE_ variables, by its digest: their registries are asked what the tags mean now.
    #[arg(long)]
    digests: bool,
    /// The channels that the bundle is meant for. Default: candidate, stable and stable-vMAJOR.MINOR; of a pre-release, candidate
    /// only.
    #[arg(long, value_delimiter = ',')]
    channels: Vec<String>,
    /// The channel of a Subscription that names none. Default: stable where it is among the channels, or the first of them.
    #[arg(long)]
    default_channel: Option<String>,
    /// Who installs it. OLM v1 closes again whatever version an operator opens (the annotation roadstead.dev/opened-by-operator), so for it they are open from
    /// the start.
    #[arg(long = "for", value_enum, value_name = "INSTALLER", default_value = "olm")]
    installer: Installer,
    /// Write nothing; fail and name the files that differ.
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    describing: Describing,
    #[command(flatten)]
    access: Access,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Installer {
    /// OLM; OLM v1 takes it too, and keeps such versions closed.
    Olm,
    /// OLM v1 alone: under OLM nothing would convert what is open, for some seconds of each upgrade.
    OlmV1,
}

impl From<Installer> for bundle::Installer {
    fn from(installer: Installer) -> Self {
        match installer {
            Installer::Olm => Self::Olm,
            Installer::OlmV1 => Self::OlmV1,
        }
    }
}

pub(super) fn main(args: Args) -> Outcome {
    let mut manifests = Manifests::default();
    for folder in &args.input {
        manifests.merge(read(folder, &[&args.output, &args.catalog])?);
    }
    if let Some(image) = &args.image {
        Name::guessed("--image", image)?;
    }
    let described = args.describing.described()?;
    let manifests = described.complete(manifests, args.package.as_deref())?;
    let base = csv::base(&manifests)?;
    let version = match args.version {
        Some(version) => version,
        None => base_version(text(base, "/spec/version"))?,
    };
    let package = args.package.unwrap_or_else(|| package_of(name(base)).to_owned());
    let channels = if args.channels.is_empty() {
        default_channels(&version)
    } else {
        args.channels
    };
    let default_channel = args
        .default_channel
        .unwrap_or_else(|| default_channel_of(&channels));
    let catalog = Catalog::read(&args.catalog, &package)?;
    let replaces = catalog.replaces(&version, &default_channel)?;
    let mut csv = csv::Options {
        package,
        version,
        image: args.image,
        digests: BTreeMap::new(),
        replaces,
    };
    if args.digests {
        csv.digests = images::digests(&csv::images(&manifests, &csv)?, &args.access)?;
    }
    let (context, folder) = context_of(&args.output);
    let options = bundle::Options {
        csv,
        channels,
        default_channel,
        folder,
        installer: args.installer.into(),
    };
    let made = bundle::generate(&manifests, &options)?;
    for note in [csv::not_carried(&manifests)?, csv::broken_samples(&manifests)].concat() {
        eprintln!("note: {note}");
    }
    files::finish(&made, &context, args.check, "roadstead bundle generate")
}

/// Manifests, without what was `made` of them before.
fn read(input: &Path, made: &[&Path]) -> Result<Manifests, Failure> {
    if input != Path::new("-") {
        if !input.exists() {
            return Err(format!(
                "--input is {}, which does not exist; accepted are a folder or file of manifests, or - for a stream of them",
                input.display()
            )
            .into());
        }
        return Ok(Manifests::read_beside(input, made)?);
    }
    let text = bounded::stream(io::stdin(), LARGEST);
    let text = text.map_err(|error| format!("cannot read standard input: {error}"))?;
    Ok(Manifests::of_text(Path::new("standard input"), &text)?)
}

fn base_version(text: &str) -> Result<Version, String> {
    if text.is_empty() {
        return Err(
            "nothing says the version; give --version, or spec.version in a base ClusterServiceVersion"
                .to_owned(),
        );
    }
    text.parse().map_err(|error| {
        format!("the base ClusterServiceVersion: spec.version is {text:?}, which is not a semantic version ({error}); give --version")
    })
}

fn package_of(csv_name: &str) -> &str {
    csv_name.split_once(".v").map_or(csv_name, |(package, _)| package)
}

/// The folder in which an image is built, and the content's folder within it.
pub(in crate::cli) fn context_of(folder: &Path) -> (PathBuf, PathBuf) {
    // What `..` is called, the disk knows; `.` is a context as it is
    let named = match folder.file_name() {
        None if folder != Path::new(".") => folder.canonicalize().ok(),
        _ => None,
    };
    let folder = named.as_deref().unwrap_or(folder);
    let context = folder.parent().unwrap_or(Path::new("")).to_owned();
    (
        context,
        folder
            .file_name()
            .map_or_else(|| folder.to_owned(), PathBuf::from),
    )
}
