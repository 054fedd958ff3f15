//! The documents of a package's catalog. What a person added to one stays when it is written again.

use std::ops::{Deref, DerefMut};

use semver::Version;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::olm::Error;
use crate::olm::fbc::{Released, blob};
use crate::olm::manifests::{list, text};

/// `olm.package`: the name, and the channel that a Subscription gets when it names none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Package {
    pub(super) schema: String,
    /// The package's name.
    pub name: String,
    /// The channel of a Subscription that names none.
    pub default_channel: String,
    /// Icon, description, and whatever else a person added.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// `olm.channel`: the order in which its bundles replace each other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Channel {
    pub(super) schema: String,
    /// The channel's name.
    pub name: String,
    pub(super) package: String,
    /// The bundles in it.
    pub entries: Vec<Entry>,
    /// Whatever else a person added.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// One bundle in a channel: what it upgrades from, and whatever else a person added.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    #[serde(flatten)]
    known: blob::Entry,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl From<blob::Entry> for Entry {
    fn from(known: blob::Entry) -> Self {
        let rest = Map::new();
        Self { known, rest }
    }
}

impl Deref for Entry {
    type Target = blob::Entry;
    fn deref(&self) -> &blob::Entry {
        &self.known
    }
}

impl DerefMut for Entry {
    fn deref_mut(&mut self) -> &mut blob::Entry {
        &mut self.known
    }
}

impl AsRef<blob::Entry> for Entry {
    fn as_ref(&self) -> &blob::Entry {
        self
    }
}

/// `olm.bundle`: an image, and what OLM wants to know of it without pulling it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bundle {
    pub(super) schema: String,
    /// The ClusterServiceVersion's name.
    pub name: String,
    /// The package's name.
    pub package: String,
    /// The bundle image; empty where the bundle carries its manifests.
    #[serde(
        default,
        deserialize_with = "blob::null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub image: String,
    /// `{type, value}`, as `opm render` gives them.
    pub properties: Vec<Property>,
    /// `{name, image}`, sorted by image.
    #[serde(
        default,
        deserialize_with = "blob::null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub related_images: Vec<Value>,
    /// Whatever else a person added.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A typed fact of a bundle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Property {
    /// Such as `olm.gvk`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its shape depends on the type.
    pub value: Value,
    /// Whatever else a person added.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A property of which no more is said.
pub(super) fn property(kind: &str, value: Value) -> Property {
    Property {
        kind: kind.to_owned(),
        value,
        rest: Map::new(),
    }
}

impl Bundle {
    /// What it says of its ClusterServiceVersion.
    fn described<'a>(&'a self, pointer: &'a str) -> impl Iterator<Item = &'a Value> {
        let metadata = self
            .properties
            .iter()
            .filter(|property| property.kind == "olm.csv.metadata");
        metadata.flat_map(move |property| list(&property.value, pointer))
    }

    /// The names of the definitions that it owns, where it says so.
    pub fn definitions(&self) -> impl Iterator<Item = &str> {
        self.described("/crdDescriptions/owned")
            .map(|owned| text(owned, "/name"))
    }

    /// Its `installModes`, where it says them.
    pub fn install_modes(&self) -> impl Iterator<Item = &Value> {
        self.described("/installModes")
    }

    /// The version in the property `olm.package`.
    ///
    /// # Errors
    /// [`Error::NoVersion`]
    pub fn version(&self) -> Result<Version, Error> {
        Ok(self.released()?.version)
    }

    /// The version with its release, which tell it from all other bundles of the package.
    ///
    /// # Errors
    /// [`Error::NoVersion`]
    pub fn released(&self) -> Result<Released, Error> {
        let property = self
            .properties
            .iter()
            .find(|property| property.kind == "olm.package");
        let said = |field| property.map_or("", |property| text(&property.value, field));
        let version = said("/version").parse().map_err(|_| Error::NoVersion {
            bundle: self.name.clone(),
        })?;
        let release = said("/release").to_owned();
        Ok(Released { version, release })
    }
}
