//! A file-based catalog of one package: which bundles there are, and which channel upgrades them in what order.

use std::fmt;
use std::path::{Path, PathBuf};

use semver::Version;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::fbc::blob::{BUNDLE, CHANNEL, PACKAGE};
use super::fbc::{Released, files, known};
use super::manifests::text;
use super::names::{check_package, is_channel};
use super::{Error, Tree, bundle, yaml};

mod carried;
mod chain;
pub mod deprecations;
mod documents;
mod edges;
pub mod migrate;
mod package;
mod properties;
mod remove;
mod render;
mod served;
pub mod sources;
pub mod template;

use deprecations::Deprecations;
use documents::property;
pub use documents::{Bundle, Channel, Entry, Package, Property};
pub use edges::{Edges, SkipRange};
pub use package::About;
pub use remove::Removed;
pub use render::Rendered;
pub(super) use render::channels as channels_of;
pub use served::{Dropped, Stranded};

/// The catalog of one package, as it lies in `FOLDER/PACKAGE/catalog.yaml`.
#[derive(Debug, Clone, PartialEq)]
pub struct Catalog {
    name: String,
    package: Option<Package>,
    channels: Vec<Channel>,
    bundles: Vec<Bundle>,
    deprecations: Option<Deprecations>,
    /// Blobs of other schemas and of other packages, which are kept as they are.
    others: Vec<Value>,
}

impl Catalog {
    /// A catalog without a release.
    pub fn empty(package: &str) -> Self {
        Self {
            name: package.to_owned(),
            package: None,
            channels: Vec::new(),
            bundles: Vec::new(),
            deprecations: None,
            others: Vec::new(),
        }
    }

    /// Reads the package's catalog below a folder. One that is not there yet is empty.
    ///
    /// # Errors
    /// [`Error::NotAPackage`], [`Error::File`] or [`Error::Unreadable`]
    pub fn read(folder: &Path, package: &str) -> Result<Self, Error> {
        check_package("the package's name", package)?;
        let path = folder.join(Self::file(package));
        match files::text(&path) {
            Ok(text) => Self::of_text(&path.display().to_string(), &text, package),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::empty(package)),
            Err(source) => Err(Error::file("read", &path, source)),
        }
    }

    /// Reads the documents of a package; `source` names them in messages. What the text holds of other packages is kept.
    ///
    /// # Errors
    /// [`Error::Unreadable`], also for a second document of what a package has one of.
    pub fn of_text(source: &str, text: &str, package: &str) -> Result<Self, Error> {
        let mut catalog = Self::empty(package);
        for mut blob in yaml::parse::<Value>(source, text)? {
            known::canonical(&mut blob).map_err(|message| Error::Unreadable {
                source_name: source.to_owned(),
                message,
            })?;
            catalog.take(source, blob)?;
        }
        Ok(catalog)
    }

    fn take(&mut self, source: &str, blob: Value) -> Result<(), Error> {
        let is_own = migrate::package_of(&blob) == self.name;
        match text(&blob, "/schema") {
            PACKAGE if is_own => only(source, &mut self.package, blob)?,
            CHANNEL if is_own => self.channels.push(read(source, blob)?),
            BUNDLE if is_own => self.bundles.push(read(source, blob)?),
            deprecations::SCHEMA if is_own => only(source, &mut self.deprecations, blob)?,
            _ => self.others.push(blob),
        }
        Ok(())
    }

    /// The package's file below a catalog folder.
    pub fn file(package: &str) -> PathBuf {
        Path::new(package).join("catalog.yaml")
    }

    /// The catalog as files below `folder`'s parent: its own file, and the Dockerfile of the catalog image beside the folder.
    ///
    /// # Errors
    /// [`Error::Unwritable`]; [`Error::Outside`], where the package's name is none.
    pub fn tree(&self, folder: &Path) -> Result<Tree, Error> {
        let mut tree = Tree::default();
        tree.insert(folder.join(Self::file(&self.name)), self.text()?)?;
        tree.insert(bundle::beside(folder, "catalog.Dockerfile"), dockerfile(folder))?;
        Ok(tree)
    }

    /// Package, channels in the order in which they were made, bundles by version, deprecations, other blobs.
    ///
    /// # Errors
    /// [`Error::Unwritable`]
    pub fn text(&self) -> Result<String, Error> {
        let mut blobs = Vec::new();
        let unwritable = |error: serde_json::Error| Error::Unwritable(error.to_string());
        if let Some(package) = &self.package {
            blobs.push(serde_json::to_value(package).map_err(unwritable)?);
        }
        for channel in &self.channels {
            blobs.push(serde_json::to_value(channel).map_err(unwritable)?);
        }
        for bundle in &self.bundles {
            blobs.push(serde_json::to_value(bundle).map_err(unwritable)?);
        }
        if let Some(deprecations) = &self.deprecations {
            blobs.push(serde_json::to_value(deprecations).map_err(unwritable)?);
        }
        blobs.extend(self.others.iter().cloned());
        yaml::documents(blobs)
    }

    /// Every version in the catalog with its bundle, lowest first.
    ///
    /// # Errors
    /// [`Error::NoVersion`]
    pub fn released(&self) -> Result<Vec<(Version, &Bundle)>, Error> {
        let releases = self.releases()?.into_iter();
        Ok(releases.map(|(it, bundle)| (it.version, bundle)).collect())
    }

    /// The same with what tells two bundles of one version apart.
    ///
    /// # Errors
    /// [`Error::NoVersion`]
    pub fn releases(&self) -> Result<Vec<(Released, &Bundle)>, Error> {
        let released = |bundle| Ok((Bundle::released(bundle)?, bundle));
        let releases = self.bundles.iter().map(released);
        let mut releases = releases.collect::<Result<Vec<_>, Error>>()?;
        releases.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(releases)
    }

    /// The bundle that a new version takes over from: the highest lower one in the channel, or, in a channel that has none, the
    /// highest lower one of the package. A version never replaces itself, so asking again after it was added gives the same.
    ///
    /// # Errors
    /// [`Error::NoVersion`]
    pub fn replaces(&self, version: &Version, channel: &str) -> Result<Option<String>, Error> {
        let first = Released {
            version: version.clone(),
            release: String::new(),
        };
        self.tail(&first, channel)
    }

    fn tail(&self, new: &Released, channel: &str) -> Result<Option<String>, Error> {
        let lower: Vec<_> = self
            .releases()?
            .into_iter()
            .filter(|(released, _)| released < new)
            .collect();
        let entries = self
            .channels
            .iter()
            .filter(|found| found.name == channel)
            .flat_map(|found| &found.entries);
        let names: Vec<&str> = entries.map(|entry| entry.name.as_str()).collect();
        let in_channel = lower
            .iter()
            .rev()
            .find(|(_, bundle)| names.contains(&bundle.name.as_str()));
        Ok(in_channel.or(lower.last()).map(|(_, bundle)| bundle.name.clone()))
    }

    /// Adds a bundle to channels. One of the same name is replaced and keeps its place, so adding it twice is adding it once.
    ///
    /// Channels that it does not enter but that hold a higher version skip it, so that nobody who comes from it is stranded.
    /// `default_channel` may be empty, which changes nothing.
    ///
    /// # Errors
    /// [`Error::Channel`], [`Error::OtherPackage`], [`Error::SameVersion`], [`Error::NoVersion`]
    pub fn add(
        &mut self,
        rendered: Rendered,
        channels: &[String],
        default_channel: &str,
    ) -> Result<(), Error> {
        if let Some(wrong) = channels.iter().find(|channel| !is_channel(channel)) {
            return Err(Error::Channel { name: wrong.clone() });
        }
        let mut bundle = rendered.bundle;
        let new = self.accept(&bundle)?;
        let name = bundle.name.clone();
        let facts = if self.follows_its_bundles() {
            rendered.package
        } else {
            Map::new()
        };
        if let Some(before) = self.bundle(&name) {
            bundle.rest.clone_from(&before.rest);
        }
        self.bundles.retain(|other| other.name != name);
        self.bundles.push(bundle);
        let releases = self.releases()?.into_iter();
        let order: Vec<String> = releases.map(|(_, bundle)| bundle.name.clone()).collect();
        self.bundles
            .sort_by_key(|bundle| order.iter().position(|name| *name == bundle.name));
        for channel in channels {
            let tail = self.tail(&new, channel)?;
            self.channel(channel).insert(&name, tail, &order);
        }
        for channel in &mut self.channels {
            channel.skip(&name, &order);
        }
        self.describe(facts, default_channel, order.last() == Some(&name));
        Ok(())
    }

    /// The version of a bundle that may be added.
    fn accept(&self, bundle: &Bundle) -> Result<Released, Error> {
        if bundle.package != self.name {
            return Err(Error::OtherPackage {
                expected: self.name.clone(),
                found: bundle.package.clone(),
            });
        }
        let new = bundle.released()?;
        // As upstream compares them: 1.0.0-1 is 1.0.0 with the release 1
        let version = new.to_string();
        let mut others = self.releases()?.into_iter();
        match others.find(|(there, other)| there.to_string() == version && other.name != bundle.name) {
            None => Ok(new),
            Some((_, other)) => Err(Error::SameVersion {
                version,
                first: other.name.clone(),
                second: bundle.name.clone(),
            }),
        }
    }

    fn channel(&mut self, name: &str) -> &mut Channel {
        let index = self
            .channels
            .iter()
            .position(|channel| channel.name == name)
            .unwrap_or_else(|| {
                let (schema, package) = (CHANNEL.to_owned(), self.name.clone());
                self.channels.push(Channel {
                    schema,
                    name: name.to_owned(),
                    package,
                    entries: Vec::new(),
                    rest: Map::new(),
                });
                self.channels.len() - 1
            });
        &mut self.channels[index]
    }

    /// The package's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The bundle of a version.
    pub fn bundle(&self, name: &str) -> Option<&Bundle> {
        self.bundles.iter().find(|bundle| bundle.name == name)
    }

    /// What a bundle of another version is called, where this one's name ends in its own: `NAME.vVERSION`.
    pub fn namesake(&self, name: &str, version: &Version) -> Option<String> {
        let own = self.bundle(name)?.version().ok()?.to_string();
        name.strip_suffix(&own).map(|stem| format!("{stem}{version}"))
    }

    /// The names of the bundles, lowest version first.
    pub fn bundle_names(&self) -> impl Iterator<Item = &str> {
        self.bundles.iter().map(|bundle| bundle.name.as_str())
    }

    /// The channel of a name.
    pub fn get_channel(&self, name: &str) -> Option<&Channel> {
        self.channels.iter().find(|channel| channel.name == name)
    }

    /// The names of the channels.
    pub fn channel_names(&self) -> impl Iterator<Item = &str> {
        self.channels.iter().map(|channel| channel.name.as_str())
    }

    /// Checks that every channel upgrades everybody in it to its one head, and that what is deprecated is there.
    ///
    /// # Errors
    /// [`Error::NoDefaultChannel`], [`Error::EmptyChannel`], [`Error::NoSuchBundle`], [`Error::NoOrder`],
    /// [`Error::Stranded`], [`Error::Deprecation`]
    pub fn check(&self) -> Result<(), Error> {
        self.check_deprecations()?;
        for channel in &self.channels {
            channel.check(&|name| self.bundle(name).is_some())?;
        }
        match &self.package {
            Some(package) if self.get_channel(&package.default_channel).is_none() => {
                Err(Error::NoDefaultChannel {
                    channel: package.default_channel.clone(),
                })
            }
            _ => Ok(()),
        }
    }
}

/// The channels for which a release of a version is meant: `candidate`, `stable`, and `stable-vMAJOR.MINOR`, which gets fixes of
/// that minor version only, so that a subscriber of it decides when to go on to the next. A pre-release is a candidate only.
pub fn default_channels(version: &Version) -> Vec<String> {
    if !version.pre.is_empty() {
        return vec!["candidate".into()];
    }
    vec![
        "candidate".into(),
        "stable".into(),
        format!("stable-v{}.{}", version.major, version.minor),
    ]
}

/// The channel of a Subscription that names none: `stable` where it is among the channels, or the first of them.
pub fn default_channel_of(channels: &[String]) -> String {
    let stable = channels.iter().find(|channel| *channel == "stable");
    stable.or(channels.first()).cloned().unwrap_or_default()
}

/// The name of a bundle image, derived from the operator's: same registry and path, `PACKAGE-bundle:vVERSION`.
pub fn default_bundle_image(operator_image: &str, package: &str, version: &impl fmt::Display) -> String {
    let folder = operator_image
        .rsplit_once('/')
        .map(|(folder, _)| format!("{folder}/"))
        .unwrap_or_default();
    // A version's build metadata may hold a plus sign, which a tag may not.
    format!(
        "{folder}{package}-bundle:v{}",
        version.to_string().replace('+', "-")
    )
}

/// `serve` is given no `--cache-dir`: with one it takes only a cache that was made while the image was built, which needs a
/// build that can run programs; without one it makes its own below /tmp, where the pod's user, who owns nothing in the image,
/// may write. The label is how OLM v1 and `opm` find the catalog.
fn dockerfile(folder: &Path) -> String {
    let folder = folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy();
    let copy = super::dockerfile::copy(&folder, "/configs");
    format!(
        "# Written by `roadstead catalog generate`.\n\
         ARG OPM_IMAGE=quay.io/operator-framework/opm:v1.65.0\n\
         FROM ${{OPM_IMAGE}}\n\
         \n\
         LABEL operators.operatorframework.io.index.configs.v1=/configs\n\
         \n\
         {copy}\
         \n\
         ENTRYPOINT [\"/bin/opm\"]\n\
         CMD [\"serve\", \"/configs\"]\n"
    )
}

/// A document as what its schema says that it is.
fn read<T: DeserializeOwned>(source: &str, blob: Value) -> Result<T, Error> {
    serde_json::from_value(blob).map_err(|error| Error::Unreadable {
        source_name: source.to_owned(),
        message: error.to_string(),
    })
}

/// Of two documents the first would be lost.
fn only<T: DeserializeOwned>(source: &str, place: &mut Option<T>, blob: Value) -> Result<(), Error> {
    if place.is_some() {
        let (schema, package) = (text(&blob, "/schema"), migrate::package_of(&blob));
        return Err(Error::Unreadable {
            source_name: source.to_owned(),
            message: format!("there are two documents {schema} of package {package}; a package may have one"),
        });
    }
    *place = Some(read(source, blob)?);
    Ok(())
}
