//! What is kept in memory of a catalog that is served.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::api;
use super::by_name::ByName;
use super::convert::{self, Large, Telling, Told};
use super::disk::{self, Held, Stamps};
use crate::olm::fbc::blob::{self, Blob};
use crate::olm::fbc::upgrades::Upgrades;
use crate::olm::fbc::{self, At, Contents, Unread};
use crate::olm::findings::{Finding, Severity, catalog as codes};

/// A catalog, ready to be asked.
#[derive(Debug)]
pub struct Index {
    files: Vec<Held>,
    stamps: Stamps,
    bundles: Vec<Bundle>,
    pub(super) packages: ByName<Package>,
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
    pub(super) channels: ByName<Channel>,
    pub(super) deprecation: Option<String>,
}

#[derive(Debug)]
pub(super) struct Channel {
    pub(super) head: String,
    pub(super) entries: ByName<Entry>,
    pub(super) deprecation: Option<String>,
}

/// A bundle in a channel.
#[derive(Debug)]
pub(super) struct Entry {
    bundle: usize,
    pub(super) replaces: Box<str>,
    /// What few have.
    rest: Option<Box<Rest>>,
}

#[derive(Debug, Default, PartialEq)]
struct Rest {
    skips: Vec<String>,
    skip_range: String,
    deprecation: Option<String>,
}

impl Entry {
    pub(super) fn skips(&self) -> &[String] {
        self.rest.as_deref().map_or(&[], |rest| &rest.skips)
    }
}

/// Where a bundle is in a channel of a package. It is good for the index that gave it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    package: usize,
    channel: usize,
    entry: usize,
}

/// A bundle in a channel of a package, and what these are called.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found<'a> {
    pub(super) package: &'a str,
    pub(super) channel: &'a str,
    pub(super) name: &'a str,
    pub(super) entry: &'a Entry,
    /// Where the package's document is.
    package_at: At,
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

impl Refused {
    /// Whether the reason may be gone while the files are the same: rights, or a system that is short of something.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Invalid(findings) => findings.iter().any(|it| it.code == codes::FILE_UNREADABLE.name),
            Self::Unread(_) | Self::Moving | Self::Unopened { .. } => true,
        }
    }
}

/// What cannot be read comes first: what is missing elsewhere may be in it.
fn told(findings: &[Finding]) -> String {
    let unreadable = findings.iter().find(|it| it.code == codes::DOCUMENT_SYNTAX.name);
    let first = unreadable.or(findings.first());
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
        let (mut files, most) = (Vec::new(), disk::held_at_most());
        for path in &contents.files {
            let held = Held::open(path, files.len() < most);
            files.push(held.map_err(|source| Refused::Unopened {
                path: path.clone(),
                source,
            })?);
        }
        // What was opened is what was read, or it is read again
        let stamps = Stamps::of_held(&files);
        if stamps == Stamps::of_folder(folder) {
            Ok((Self::of(contents, files, stamps), others))
        } else {
            Err(Refused::Moving)
        }
    }

    /// What tells its files from what they become.
    pub(super) fn stamps(&self) -> &Stamps {
        &self.stamps
    }

    fn of(contents: Contents<Told>, files: Vec<Held>, stamps: Stamps) -> Self {
        let deprecated = deprecated(&contents);
        let deprecation = |package: &str, schema: &str, name: &str| {
            deprecated
                .get(&(package.to_owned(), schema.to_owned(), name.to_owned()))
                .cloned()
        };
        let numbers: BTreeMap<(&str, &str), usize> = contents
            .bundles
            .iter()
            .enumerate()
            .map(|(number, bundle)| ((&*bundle.package, &*bundle.name), number))
            .collect();
        let mut channels: BTreeMap<String, Vec<(String, Channel)>> = BTreeMap::new();
        for channel in contents.channels {
            // There is one, or the catalog would be refused
            let head = Upgrades::of(&channel.entries).head();
            let head = head.map(|head| head.name.clone()).unwrap_or_default();
            let entry = |entry: blob::Entry| {
                let bundle = *numbers.get(&(&*channel.package, &*entry.name))?;
                let rest = Rest {
                    skips: entry.skips,
                    skip_range: entry.skip_range.unwrap_or_default(),
                    deprecation: deprecation(&channel.package, blob::BUNDLE, &entry.name),
                };
                let its = Entry {
                    bundle,
                    replaces: entry.replaces.unwrap_or_default().into_boxed_str(),
                    rest: (rest != Rest::default()).then(|| Box::new(rest)),
                };
                Some((entry.name, its))
            };
            let its = Channel {
                head,
                deprecation: deprecation(&channel.package, blob::CHANNEL, &channel.name),
                entries: channel.entries.into_iter().filter_map(entry).collect(),
            };
            channels
                .entry(channel.package)
                .or_default()
                .push((channel.name, its));
        }
        let packages = contents.packages.into_iter().map(|package| {
            let its = Package {
                at: package.at,
                default_channel: package.default_channel,
                channels: channels
                    .remove(&package.name)
                    .unwrap_or_default()
                    .into_iter()
                    .collect(),
                deprecation: deprecation(&package.name, blob::PACKAGE, ""),
            };
            (package.name, its)
        });
        let packages = packages.collect();
        let mut others: BTreeMap<_, Vec<At>> = BTreeMap::new();
        for other in contents.others {
            others
                .entry((other.schema, other.package))
                .or_default()
                .push(other.at);
        }
        // Collected, they would stay in the room of what they are made from, which is more than three times theirs
        let mut bundles = Vec::with_capacity(contents.bundles.len());
        bundles.extend(contents.bundles.into_iter().map(|bundle| Bundle {
            at: bundle.at,
            told: bundle.kept,
        }));
        Self {
            files,
            stamps,
            bundles,
            packages,
            others,
        }
    }

    /// How many packages, channels and bundles there are.
    pub fn counts(&self) -> (usize, usize, usize) {
        let channels = self
            .packages
            .iter()
            .map(|(_, package)| package.channels.len())
            .sum();
        (self.packages.len(), channels, self.bundles.len())
    }

    /// Every bundle of every channel.
    pub(super) fn places(&self) -> impl Iterator<Item = Place> {
        let packages = self.packages.iter().enumerate();
        packages.flat_map(|(package, (_, its))| {
            let channels = its.channels.iter().enumerate();
            channels.flat_map(move |(channel, (_, its))| {
                (0..its.entries.len()).map(move |entry| Place {
                    package,
                    channel,
                    entry,
                })
            })
        })
    }

    /// Where a bundle of a channel of a package is.
    pub(super) fn place(&self, package: &str, channel: &str, name: &str) -> Option<Place> {
        let package = self.packages.position(package)?;
        let (_, its) = self.packages.at(package)?;
        let channel = its.channels.position(channel)?;
        let (_, its) = its.channels.at(channel)?;
        let entry = its.entries.position(name)?;
        Some(Place {
            package,
            channel,
            entry,
        })
    }

    /// What is at a place; nothing where there is none, and in another index than that which gave it perhaps something else.
    pub(super) fn found(&self, place: Place) -> Option<Found<'_>> {
        let (package, its) = self.packages.at(place.package)?;
        let package_at = its.at;
        let (channel, its) = its.channels.at(place.channel)?;
        let (name, entry) = its.entries.at(place.entry)?;
        Some(Found {
            package,
            channel,
            name,
            entry,
            package_at,
        })
    }

    /// What is told of a bundle in a channel, all but what is large.
    pub(super) fn told(&self, found: Found<'_>) -> api::Bundle {
        let mut told = self
            .bundles
            .get(found.entry.bundle)
            .map(|bundle| bundle.told.message())
            .unwrap_or_default();
        if let Some(rest) = &found.entry.rest {
            told.skips.clone_from(&rest.skips);
            told.skip_range.clone_from(&rest.skip_range);
            told.deprecation = rest
                .deprecation
                .clone()
                .map(|message| api::Deprecation { message });
        }
        api::Bundle {
            csv_name: found.name.to_owned(),
            package_name: found.package.to_owned(),
            channel_name: found.channel.to_owned(),
            replaces: found.entry.replaces.to_string(),
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
    pub(super) fn large(&self, found: Found<'_>) -> io::Result<Large> {
        let gone = || io::Error::other("the catalog has no such bundle");
        let bundle = self.bundles.get(found.entry.bundle).ok_or_else(gone)?;
        let (package, bundle) = (self.json(found.package_at)?, self.json(bundle.at)?);
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
