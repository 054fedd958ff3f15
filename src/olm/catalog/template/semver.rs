//! Channels and upgrades that follow from versions, as upstream has them.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use ::semver::Version;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{bundle_of, document};
use crate::olm::Error;
use crate::olm::catalog::{Channel, Entry, Package, Rendered};
use crate::olm::fbc::blob::{self, null_as_default};

/// Images by how stable they are.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Semver {
    #[serde(rename = "schema")]
    _schema: String,
    #[serde(default, deserialize_with = "null_as_default")]
    generate_major_channels: bool,
    #[serde(default, deserialize_with = "null_as_default")]
    generate_minor_channels: bool,
    #[serde(default)]
    default_channel_type_preference: Option<Kind>,
    #[serde(default, deserialize_with = "null_as_default")]
    candidate: Listed,
    #[serde(default, deserialize_with = "null_as_default")]
    fast: Listed,
    #[serde(default, deserialize_with = "null_as_default")]
    stable: Listed,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    #[serde(default, deserialize_with = "null_as_default")]
    bundles: Vec<Image>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Image {
    image: String,
}

/// What a channel is for: a major version, or a minor one. Of the two, people are led to the minor one by default.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Major,
    Minor,
}

/// What a channel begins with by its name.
const STABILITIES: [&str; 3] = ["candidate", "fast", "stable"];

/// A bundle of one stability.
struct Release<'a> {
    version: Version,
    rendered: &'a Rendered,
}

/// A channel, and what makes it the one that people are led to.
struct Made {
    channel: Channel,
    stability: usize,
    kind: Kind,
    /// Of its first entry.
    version: Version,
}

impl Semver {
    pub(super) fn checked(mut self) -> Result<Self, String> {
        if !self.generate_major_channels && !self.generate_minor_channels {
            self.generate_minor_channels = true;
        }
        let kinds = self.kinds();
        match self.default_channel_type_preference {
            Some(Kind::Major) if !kinds.contains(&Kind::Major) => {
                Err(no_such("major", "generateMajorChannels"))
            }
            Some(Kind::Minor) if !kinds.contains(&Kind::Minor) => {
                Err(no_such("minor", "generateMinorChannels"))
            }
            _ => Ok(self),
        }
    }

    fn kinds(&self) -> Vec<Kind> {
        let asked = [
            (self.generate_major_channels, Kind::Major),
            (self.generate_minor_channels, Kind::Minor),
        ];
        asked
            .into_iter()
            .filter_map(|(is_asked, kind)| is_asked.then_some(kind))
            .collect()
    }

    fn lists(&self) -> [&Listed; 3] {
        [&self.candidate, &self.fast, &self.stable]
    }

    pub(super) fn images(&self) -> impl Iterator<Item = &str> {
        let all = self.lists().into_iter().flat_map(|list| &list.bundles);
        all.map(|bundle| bundle.image.as_str())
    }

    pub(super) fn fill(&self, bundles: &BTreeMap<String, Rendered>) -> Result<Vec<Value>, Error> {
        let mut package: Option<&Rendered> = None;
        let mut made = Vec::new();
        self.check_names(bundles)?;
        for (stability, list) in self.lists().into_iter().enumerate() {
            let mut releases = Vec::new();
            for Image { image } in &list.bundles {
                let rendered = bundle_of(bundles, image)?;
                one_package(package.get_or_insert(rendered), rendered)?;
                let version = rendered.bundle().version()?;
                releases.push(Release { version, rendered });
            }
            in_order(&mut releases)?;
            for kind in self.kinds() {
                made.extend(channels(stability, kind, &releases));
            }
        }
        let Some(package) = package else {
            return Err(refused("it names no bundle".to_owned()));
        };
        let preferred = self.default_channel_type_preference;
        let preferred = preferred.or_else(|| self.kinds().into_iter().max());
        let default = made.iter().max_by(|one, other| one.compare(other, preferred));
        let mut documents = vec![document(&describe(package, default, bundles))?];
        made.sort_by(|one, other| one.channel.name.cmp(&other.channel.name));
        for Made { channel, .. } in &made {
            documents.push(document(channel)?);
        }
        let mut all: Vec<Release<'_>> = Vec::new();
        let images: BTreeSet<&str> = self.images().collect();
        for image in images {
            let rendered = bundle_of(bundles, image)?;
            let version = rendered.bundle().version()?;
            all.push(Release { version, rendered });
        }
        all.sort_by(|one, other| one.version.cmp(&other.version));
        for Release { rendered, .. } in all {
            documents.push(document(rendered.bundle())?);
        }
        Ok(documents)
    }
}

impl Semver {
    /// Under one stability a bundle is there once, as upstream has it; and two images of one bundle would be a catalog that nobody takes.
    fn check_names(&self, bundles: &BTreeMap<String, Rendered>) -> Result<(), Error> {
        let mut images: BTreeMap<&str, &str> = BTreeMap::new();
        for (stability, list) in STABILITIES.iter().zip(self.lists()) {
            let mut listed = BTreeSet::new();
            for Image { image } in &list.bundles {
                let name = bundle_of(bundles, image)?.name();
                let first = images.insert(name, image).filter(|first| first != image);
                if let Some(first) = first {
                    return Err(refused(format!("bundle {name} is in both {first} and {image}")));
                }
                if !listed.insert(name) {
                    return Err(refused(format!("{stability} names {image} twice")));
                }
            }
        }
        Ok(())
    }
}

fn refused(message: String) -> Error {
    Error::Unreadable {
        source_name: "the template".to_owned(),
        message,
    }
}

impl Made {
    /// The stabler one is preferred, then the newer, then the kind that is asked for.
    fn compare(&self, other: &Self, preferred: Option<Kind>) -> Ordering {
        let is_preferred = |made: &Self| preferred == Some(made.kind);
        self.stability
            .cmp(&other.stability)
            .then_with(|| self.version.cmp_precedence(&other.version))
            .then_with(|| is_preferred(self).cmp(&is_preferred(other)))
            .then_with(|| self.kind.cmp(&other.kind))
    }
}

fn no_such(kind: &str, field: &str) -> String {
    format!("defaultChannelTypePreference is {kind}, and {field} is not true")
}

/// The package, with icon and description of the head of its default channel.
fn describe(first: &Rendered, default: Option<&Made>, bundles: &BTreeMap<String, Rendered>) -> Package {
    let head = default.and_then(|made| made.channel.entries.last());
    let head = head.and_then(|head| bundles.values().find(|bundle| bundle.name() == head.name));
    Package {
        schema: "olm.package".to_owned(),
        name: first.package().to_owned(),
        default_channel: default.map_or_else(String::new, |made| made.channel.name.clone()),
        rest: head.map(|head| head.package.clone()).unwrap_or_default(),
    }
}

fn one_package(first: &Rendered, rendered: &Rendered) -> Result<(), Error> {
    if first.package() == rendered.package() {
        return Ok(());
    }
    Err(Error::OtherPackage {
        expected: first.package().to_owned(),
        found: rendered.package().to_owned(),
    })
}

/// Sorts them by their versions, of which no two may be the same but for what is no part of the order.
fn in_order(releases: &mut [Release<'_>]) -> Result<(), Error> {
    releases.sort_by(|one, other| one.version.cmp_precedence(&other.version));
    let mut pairs = releases.windows(2);
    let same = pairs.find(|pair| pair[0].version.cmp_precedence(&pair[1].version) == Ordering::Equal);
    match same {
        Some(pair) => Err(Error::SameVersion {
            version: pair[0].version.to_string(),
            first: pair[0].rendered.name().to_owned(),
            second: pair[1].rendered.name().to_owned(),
        }),
        None => Ok(()),
    }
}

/// The channels of one stability and kind. Of each minor version the last replaces the last of the one before, and skips everything else of its major version;
/// so whoever has any of them is upgraded to it at once.
fn channels(stability: usize, kind: Kind, releases: &[Release<'_>]) -> Vec<Made> {
    let mut made: Vec<Made> = Vec::new();
    for (index, Release { version, rendered }) in releases.iter().enumerate() {
        let (major, minor) = (version.major, version.minor);
        let name = match kind {
            Kind::Major => format!("{}-v{major}", STABILITIES[stability]),
            Kind::Minor => format!("{}-v{major}.{minor}", STABILITIES[stability]),
        };
        if made.last().is_none_or(|last| last.channel.name != name) {
            made.push(Made {
                channel: Channel {
                    schema: "olm.channel".to_owned(),
                    name,
                    package: rendered.package().to_owned(),
                    entries: Vec::new(),
                    rest: Map::new(),
                },
                stability,
                kind,
                version: version.clone(),
            });
        }
        if let Some(last) = made.last_mut() {
            last.channel.entries.push(entry(index, releases));
        }
    }
    made
}

fn entry(index: usize, releases: &[Release<'_>]) -> Entry {
    let of = |release: &Release<'_>| (release.version.major, release.version.minor);
    let this = &releases[index];
    let mut entry = Entry::from(blob::Entry {
        name: this.rendered.name().to_owned(),
        ..blob::Entry::default()
    });
    let is_last_of_minor = releases.get(index + 1).is_none_or(|next| of(next) != of(this));
    if !is_last_of_minor {
        return entry;
    }
    let earlier = releases[..index].iter();
    let earlier: Vec<&Release<'_>> = earlier.filter(|release| of(release).0 == of(this).0).collect();
    let before = earlier.iter().rev().find(|release| of(release) != of(this));
    entry.replaces = before.map(|release| release.rendered.name().to_owned());
    let skips = earlier.iter().map(|release| release.rendered.name().to_owned());
    let skips: BTreeSet<String> = skips
        .filter(|name| entry.replaces.as_ref() != Some(name))
        .collect();
    entry.skips = skips.into_iter().collect();
    entry
}
