//! What is kept in memory of a catalog that is served.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::api;
use super::convert::{self, Large, Telling, Told};
use super::disk::{Held, Stamp};
use crate::olm::fbc::blob::{self, Blob};
use crate::olm::fbc::upgrades::Upgrades;
use crate::olm::fbc::{self, At, Contents, Unread};
use crate::olm::findings::{Finding, Severity};

/// A catalog, ready to be asked.
#[derive(Debug)]
pub struct Index {
    files: Vec<Held>,
    stamps: Vec<(PathBuf, Option<Stamp>)>,
    bundles: Vec<Bundle>,
    pub(super) packages: BTreeMap<String, Package>,
    /// Documents of other schemas, by schema and package.
    pub(super) others: BTreeMap<(String, String), Vec<At>>,
}

#[derive(Debug)]
struct Bundle {
    at: At,
    told: Told,
}

#[derive(Debug)]
pub(super) struct Package {
    at: At,
    pub(super) default_channel: String,
    pub(super) channels: BTreeMap<String, Channel>,
    pub(super) deprecation: Option<String>,
}

#[derive(Debug)]
pub(super) struct Channel {
    pub(super) head: String,
    pub(super) entries: BTreeMap<String, Entry>,
    pub(super) deprecation: Option<String>,
}

/// A bundle in a channel.
#[derive(Debug)]
pub(super) struct Entry {
    bundle: usize,
    pub(super) replaces: String,
    pub(super) skips: Vec<String>,
    skip_range: String,
    deprecation: Option<String>,
}

/// Why a catalog is not served.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// Its folder cannot be read.
    #[error(transparent)]
    Unread(#[from] Unread),
    /// It breaks rules.
    #[error("{} errors in the catalog, of which the first is {}", .0.len(), told(.0))]
    Invalid(Vec<Finding>),
    /// Its files are being written.
    #[error("the files of the catalog change while they are read")]
    Moving,
    /// A file cannot be opened again.
    #[error("cannot open {}: {source}", path.display())]
    Unopened {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

fn told(findings: &[Finding]) -> String {
    let first = findings.first();
    first
        .map(|it| format!("{}: {} [{}]", it.place, it.message, it.code))
        .unwrap_or_default()
}

impl Index {
    /// Reads a catalog; warnings and notes about it are given beside it.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn read(folder: &Path) -> Result<(Self, Vec<Finding>), Refused> {
        let fbc::Catalog { contents, findings } = fbc::read(folder, &Telling)?;
        let is_error = |finding: &Finding| finding.severity == Severity::Error;
        let (errors, others): (Vec<_>, Vec<_>) = findings.into_iter().partition(is_error);
        if !errors.is_empty() {
            return Err(Refused::Invalid(errors));
        }
        let mut files = Vec::new();
        for path in &contents.files {
            let held = Held::open(path);
            files.push(held.map_err(|source| Refused::Unopened {
                path: path.clone(),
                source,
            })?);
        }
        let stamps = contents.files.iter().zip(&files);
        let stamps = stamps
            .map(|(path, file)| (path.clone(), Some(file.stamp().clone())))
            .collect();
        let index = Self::of(contents, files, stamps);
        // What was opened is what was read, or it is read again
        if index.has_changed(folder) {
            Err(Refused::Moving)
        } else {
            Ok((index, others))
        }
    }

    /// Whether there are other files now, or one of them has changed.
    pub fn has_changed(&self, folder: &Path) -> bool {
        Stamp::all(&fbc::files(folder)) != self.stamps
    }

    fn of(contents: Contents<Told>, files: Vec<Held>, stamps: Vec<(PathBuf, Option<Stamp>)>) -> Self {
        let deprecated = deprecated(&contents);
        let deprecation = |package: &str, schema: &str, name: &str| {
            deprecated
                .get(&(package.to_owned(), schema.to_owned(), name.to_owned()))
                .cloned()
        };
        let numbers: BTreeMap<(String, String), usize> = contents
            .bundles
            .iter()
            .enumerate()
            .map(|(number, bundle)| ((bundle.package.clone(), bundle.name.clone()), number))
            .collect();
        let mut packages: BTreeMap<String, Package> = BTreeMap::new();
        for package in contents.packages {
            let its = Package {
                at: package.at,
                default_channel: package.default_channel,
                channels: BTreeMap::new(),
                deprecation: deprecation(&package.name, blob::PACKAGE, ""),
            };
            packages.insert(package.name, its);
        }
        for channel in contents.channels {
            // There is one, or the catalog would be refused
            let head = Upgrades::of(&channel.entries).head();
            let head = head.map(|head| head.name.clone()).unwrap_or_default();
            let entry = |entry: blob::Entry| {
                let bundle = *numbers.get(&(channel.package.clone(), entry.name.clone()))?;
                let its = Entry {
                    bundle,
                    replaces: entry.replaces.unwrap_or_default(),
                    skips: entry.skips,
                    skip_range: entry.skip_range.unwrap_or_default(),
                    deprecation: deprecation(&channel.package, blob::BUNDLE, &entry.name),
                };
                Some((entry.name, its))
            };
            let its = Channel {
                head,
                deprecation: deprecation(&channel.package, blob::CHANNEL, &channel.name),
                entries: channel.entries.into_iter().filter_map(entry).collect(),
            };
            if let Some(package) = packages.get_mut(&channel.package) {
                package.channels.insert(channel.name, its);
            }
        }
        let mut others: BTreeMap<_, Vec<At>> = BTreeMap::new();
        for other in contents.others {
            others
                .entry((other.schema, other.package))
                .or_default()
                .push(other.at);
        }
        let bundles = contents.bundles.into_iter().map(|bundle| Bundle {
            at: bundle.at,
            told: bundle.kept,
        });
        Self {
            files,
            stamps,
            bundles: bundles.collect(),
            packages,
            others,
        }
    }

    /// How many packages, channels and bundles there are.
    pub fn counts(&self) -> (usize, usize, usize) {
        let channels = self.packages.values().map(|package| package.channels.len()).sum();
        (self.packages.len(), channels, self.bundles.len())
    }

    /// What is told of a bundle in a channel, all but what is large.
    pub(super) fn told(&self, channel: &str, entry: &Entry) -> api::Bundle {
        let deprecation = entry
            .deprecation
            .clone()
            .map(|message| api::Deprecation { message });
        let told = self
            .bundles
            .get(entry.bundle)
            .map(|bundle| bundle.told.message())
            .unwrap_or_default();
        api::Bundle {
            channel_name: channel.to_owned(),
            skip_range: entry.skip_range.clone(),
            replaces: entry.replaces.clone(),
            skips: entry.skips.clone(),
            deprecation,
            ..told
        }
    }

    /// Whether a bundle says that it brings a kind.
    pub(super) fn provides(&self, entry: &Entry, group: &str, version: &str, kind: &str) -> bool {
        let is_it =
            |api: &api::GroupVersionKind| api.group == group && api.version == version && api.kind == kind;
        self.bundles
            .get(entry.bundle)
            .is_some_and(|bundle| bundle.told.message().provided_apis.iter().any(is_it))
    }

    /// What is large of a bundle, from disk.
    ///
    /// # Errors
    /// When it is not there any more as it was read.
    pub(super) fn large(&self, package: &str, entry: &Entry) -> io::Result<Large> {
        let gone = || io::Error::other("the catalog has no such bundle");
        let package = self.packages.get(package).ok_or_else(gone)?;
        let bundle = self.bundles.get(entry.bundle).ok_or_else(gone)?;
        let (package, bundle) = (self.json(package.at)?, self.json(bundle.at)?);
        let (Blob::Package(package), Blob::Bundle(bundle)) = (Blob::of(&package)?, Blob::of(&bundle)?) else {
            return Err(gone());
        };
        Ok(convert::large(&bundle, &package)?)
    }

    /// A document as JSON, from disk.
    ///
    /// # Errors
    /// As [`Self::large`].
    pub(super) fn json(&self, at: At) -> io::Result<String> {
        let file = self
            .files
            .get(at.file)
            .ok_or_else(|| io::Error::other("the catalog has no such file"))?;
        fbc::json(file.read(at.span)?).map_err(io::Error::other)
    }
}

/// The messages of what is deprecated: by package, schema and name.
fn deprecated<T>(contents: &Contents<T>) -> BTreeMap<(String, String, String), String> {
    let entries = contents.deprecations.iter().flat_map(|document| {
        let of =
            |entry: &fbc::Deprecation| (document.package.clone(), entry.schema.clone(), entry.name.clone());
        document
            .entries
            .iter()
            .map(move |entry| (of(entry), entry.message.clone()))
    });
    entries.collect()
}
