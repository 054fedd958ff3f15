//! `roadstead catalog remove` and `deprecate`: what becomes of a release that should not have been, or is to be left.

use std::path::Path;

use super::super::{Failure, Outcome};
use super::folder::Folder;
use crate::olm::catalog::deprecations::Deprecation;
use crate::olm::catalog::{Catalog, Removed};

/// Which package of which catalog.
#[derive(Debug, clap::Args)]
pub struct Which {
    /// The package. Needed where the catalog has several.
    #[arg(short, long)]
    package: Option<String>,
    #[command(flatten)]
    folder: Folder,
    /// Write nothing; fail and name the files that differ.
    #[arg(long)]
    check: bool,
}

#[derive(Debug, clap::Args)]
pub struct Remove {
    /// The bundle's name, or its version.
    bundle: String,
    /// Take it out of these channels alone. Default: out of all.
    #[arg(long, value_delimiter = ',')]
    channels: Vec<String>,
    /// The channel of a Subscription that names none, where the one before goes.
    #[arg(long)]
    default_channel: Option<String>,
    #[command(flatten)]
    which: Which,
}

#[derive(Debug, clap::Args)]
pub struct Deprecate {
    /// What users should do instead: consoles show it, and conditions of Subscriptions.
    #[arg(short, long, required_unless_present = "undo")]
    message: Option<String>,
    /// This bundle, by its name or its version. Default, without --channel: the package.
    #[arg(long, conflicts_with = "channel")]
    bundle: Option<String>,
    /// This channel.
    #[arg(long)]
    channel: Option<String>,
    /// It is deprecated no more.
    #[arg(long, conflicts_with = "message")]
    undo: bool,
    #[command(flatten)]
    which: Which,
}

pub fn remove(args: &Remove) -> Outcome {
    let mut catalog = args.which.read()?;
    let name = name_of(&catalog, &args.bundle)?;
    let Removed { ended, gone } = catalog.remove(&name, &args.channels)?;
    if let Some(channel) = &args.default_channel {
        catalog.set_default_channel(channel);
    }
    catalog.check()?;
    for channel in ended {
        eprintln!(
            "note: channel {channel} ends with a version before {name}: whoever has that stays on it until a version is added that skips it (`roadstead catalog add ... --skips {name}`)"
        );
    }
    for channel in gone {
        eprintln!(
            "note: channel {channel} had nothing but {name} and is gone: OLM resolves nothing any more for whoever subscribes to it"
        );
    }
    args.which.write(&catalog, "roadstead catalog remove")
}

pub fn deprecate(args: &Deprecate) -> Outcome {
    let mut catalog = args.which.read()?;
    let message = args.message.as_deref().unwrap_or_default();
    let entry = match (&args.bundle, &args.channel) {
        (Some(bundle), _) => Deprecation::of_bundle(name_of(&catalog, bundle)?, message),
        (_, Some(channel)) => Deprecation::of_channel(channel, message),
        _ => Deprecation::of_package(message),
    };
    if args.undo && !catalog.revive(&entry.reference) {
        return Err(format!("--undo: it is not deprecated in package {}", catalog.name()).into());
    }
    if !args.undo {
        catalog.deprecate_one(entry)?;
    }
    args.which.write(&catalog, "roadstead catalog deprecate")
}

/// The name of a bundle that is meant by it or by its version; that of several releases is `VERSION-RELEASE`.
pub(super) fn name_of(catalog: &Catalog, bundle: &str) -> Result<String, Failure> {
    let version = bundle.strip_prefix('v').unwrap_or(bundle);
    let releases = catalog.releases()?;
    let exactly = releases
        .iter()
        .find(|(released, found)| found.name == bundle || released.to_string() == version);
    let of_version = || {
        let mut some = releases
            .iter()
            .filter(|(released, _)| released.version.to_string() == version);
        some.next().filter(|_| some.next().is_none())
    };
    // What is not there is told by whoever looks for it
    let meant = exactly.or_else(of_version);
    Ok(meant.map_or_else(|| bundle.to_owned(), |(_, found)| found.name.clone()))
}

impl Which {
    fn read(&self) -> Result<Catalog, Failure> {
        let folder = &self.folder.path;
        let package = match &self.package {
            Some(package) => package.clone(),
            None => only_package(folder)?,
        };
        // Looks at the name as well, before it is part of a path
        let catalog = Catalog::read(folder, &package)?;
        let file = folder.join(Catalog::file(&package));
        if !file.is_file() {
            return Err(format!("--package is {package}: there is no {}", file.display()).into());
        }
        Ok(catalog)
    }

    fn write(&self, catalog: &Catalog, command: &str) -> Outcome {
        self.folder.write(catalog, self.check, command)
    }
}

fn only_package(folder: &Path) -> Result<String, Failure> {
    let listed = std::fs::read_dir(folder)
        .map_err(|error| format!("cannot list the catalog {}: {error}", folder.display()))?;
    let mut packages = Vec::new();
    for entry in listed {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if folder.join(Catalog::file(&name)).is_file() {
            packages.push(name);
        }
    }
    packages.sort();
    match packages.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(format!("{} holds no PACKAGE/catalog.yaml", folder.display()).into()),
        several => Err(format!(
            "the catalog has several packages; name one with --package: {}",
            several.join(", ")
        )
        .into()),
    }
}
