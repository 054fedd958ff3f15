//! What a catalog means to those who subscribe to it: what there is ([`list`]), where each channel leads ([`graph`]), and what another catalog changes
//! ([`diff`]).

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;

use semver::Version;
use serde_json::value::RawValue;

use super::blob::{self, Entry, Gvk};
use super::contents::{Contents, Released};
use super::fold;
use super::upgrades::{Broken, Targets, Upgrades};
use super::{Catalog, Keep, Unread, read};
use crate::olm::findings::Count;
use crate::olm::json;

pub mod diff;
mod draw;
pub mod graph;
pub mod list;

/// A catalog as its subscribers see it.
#[derive(Debug)]
pub struct View {
    /// By name.
    pub packages: BTreeMap<String, Package>,
    /// What `roadstead catalog validate` finds in it.
    pub findings: Count,
}

/// A package.
#[derive(Debug, Default)]
pub struct Package {
    /// The channel in which a new Subscription begins that names none.
    pub default_channel: String,
    /// Why it should not be used any more.
    pub deprecated: Option<String>,
    /// By name.
    pub channels: BTreeMap<String, Channel>,
    /// By name.
    pub bundles: BTreeMap<String, Bundle>,
}

/// A channel.
#[derive(Debug, Default)]
pub struct Channel {
    /// Why it should not be used any more.
    pub deprecated: Option<String>,
    /// In the order of the file.
    pub entries: Vec<Entry>,
}

/// A bundle.
#[derive(Debug)]
pub struct Bundle {
    /// Its version; none where it says none that could be read.
    pub version: Option<Released>,
    /// Why it should not be used any more.
    pub deprecated: Option<String>,
    /// What its document says of it.
    pub facts: Facts,
}

/// What a document says of its bundle.
#[derive(Debug, PartialEq, Eq)]
pub struct Facts {
    /// The bundle's image; empty where its objects are in the catalog.
    pub image: String,
    /// The kinds that it brings: `KIND.GROUP/VERSION`.
    pub kinds: BTreeSet<String>,
    /// Of its properties and images: another one means that something in them is different.
    digest: u64,
}

struct Keeping;

impl Keep for Keeping {
    type Kept = Facts;

    fn keep(&self, bundle: &blob::Bundle<'_>) -> Facts {
        let gvks = bundle.values("olm.gvk").filter_map(|(_, value)| read_gvk(value));
        Facts {
            image: bundle.image.to_string(),
            kinds: gvks.collect(),
            digest: digest(bundle),
        }
    }
}

fn read_gvk(value: &RawValue) -> Option<String> {
    let Gvk { group, kind, version } = fold::from_str(value.get()).ok()?;
    Some(format!("{}.{}/{}", &*kind, &*group, &*version))
}

/// However the document is written, in JSON or YAML, its keys in whatever order.
fn digest(bundle: &blob::Bundle<'_>) -> u64 {
    let canonical = |value: &RawValue| json::canonical(value).ok();
    let mut hasher = DefaultHasher::new();
    for property in &bundle.properties {
        (&*property.kind, property.value.and_then(canonical)).hash(&mut hasher);
    }
    for image in &bundle.related_images {
        (&*image.name, &*image.image).hash(&mut hasher);
    }
    hasher.finish()
}

impl View {
    /// Reads a catalog. One in which rules are broken is read as far as it can be.
    ///
    /// # Errors
    /// [`Unread`]: the folder itself cannot be read.
    pub fn read(folder: &Path) -> Result<Self, Unread> {
        let Catalog { contents, findings } = read(folder, &Keeping)?;
        Ok(Self {
            packages: packages(contents),
            findings: Count::of(&findings),
        })
    }
}

fn packages(contents: Contents<Facts>) -> BTreeMap<String, Package> {
    let mut packages: BTreeMap<String, Package> = BTreeMap::new();
    for package in contents.packages {
        packages.entry(package.name).or_default().default_channel = package.default_channel;
    }
    for channel in contents.channels {
        let channels = &mut packages.entry(channel.package).or_default().channels;
        channels
            .entry(channel.name)
            .or_default()
            .entries
            .extend(channel.entries);
    }
    for bundle in contents.bundles {
        let its = Bundle {
            version: bundle.version,
            deprecated: None,
            facts: bundle.kept,
        };
        packages
            .entry(bundle.package)
            .or_default()
            .bundles
            .entry(bundle.name)
            .or_insert(its);
    }
    for document in contents.deprecations {
        let Some(package) = packages.get_mut(&document.package) else {
            continue;
        };
        for entry in document.entries {
            let place = match entry.schema.as_str() {
                blob::PACKAGE => Some(&mut package.deprecated),
                blob::CHANNEL => package.channels.get_mut(&entry.name).map(|it| &mut it.deprecated),
                blob::BUNDLE => package.bundles.get_mut(&entry.name).map(|it| &mut it.deprecated),
                _ => None,
            };
            if let Some(place) = place {
                *place = Some(entry.message);
            }
        }
    }
    packages
}

impl Package {
    /// The version of a bundle by which OLM goes.
    pub fn version(&self, bundle: &str) -> Option<&Version> {
        self.bundles.get(bundle)?.version.as_ref().map(|it| &it.version)
    }

    /// What subscribers of a channel are upgraded to.
    ///
    /// # Errors
    /// See [`Broken`].
    pub fn targets<'a>(&'a self, channel: &'a Channel) -> Result<Targets<'a>, Broken<'a>> {
        Upgrades::of(&channel.entries).targets(|bundle| self.version(bundle))
    }

    /// The head of a channel; none where there is no such channel, or it has none.
    pub fn head(&self, channel: &str) -> Option<&str> {
        let head = Upgrades::of(&self.channels.get(channel)?.entries).head().ok()?;
        Some(&head.name)
    }

    /// Bundles by version, the highest first; those without a version last.
    fn sort_bundles(&self, names: &mut [&str]) {
        let version = |name: &str| self.bundles.get(name).and_then(|bundle| bundle.version.as_ref());
        names.sort_by(|one, other| version(other).cmp(&version(one)).then_with(|| one.cmp(other)));
    }
}

/// The first line of a text, without what a terminal would obey.
fn plain(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.chars().filter(|character| !character.is_control()).collect()
}
