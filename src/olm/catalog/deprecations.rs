//! What a catalog says is deprecated: a package, channels, bundles. Consoles show it, and OLM puts it into the conditions of
//! Subscriptions.

use std::collections::BTreeSet;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Catalog;
use crate::olm::bounded::{self, LARGEST};
use crate::olm::fbc::blob::{BUNDLE, CHANNEL, DEPRECATIONS, PACKAGE, null_as_default};
use crate::olm::{Error, yaml};

/// `olm.deprecations`: all that is deprecated in one package.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Deprecations {
    schema: String,
    /// The package.
    #[serde(default)]
    pub package: String,
    /// One for each thing that is deprecated.
    #[serde(default, deserialize_with = "null_as_default")]
    pub entries: Vec<Deprecation>,
    /// Whatever else a person added.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// One thing that is deprecated, and what to tell its users.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Deprecation {
    /// What is deprecated.
    pub reference: Reference,
    /// What users should do about it.
    #[serde(default)]
    pub message: String,
    /// Whatever else a person added.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A package, channel or bundle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reference {
    /// `olm.package`, `olm.channel` or `olm.bundle`.
    #[serde(default)]
    pub schema: String,
    /// The name; of the package none, since the document says it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Whatever else a person added.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// The document's schema.
pub const SCHEMA: &str = DEPRECATIONS;

impl Reference {
    /// What it refers to, whatever else it holds: schema and name.
    fn to(&self) -> (&str, &str) {
        (&self.schema, &self.name)
    }

    /// Whether the catalog has what it names.
    pub(super) fn is_in(&self, catalog: &Catalog) -> bool {
        match self.schema.as_str() {
            CHANNEL => catalog.get_channel(&self.name).is_some(),
            BUNDLE => catalog.bundle(&self.name).is_some(),
            _ => true,
        }
    }
}

impl Deprecation {
    /// The package is deprecated.
    pub fn of_package(message: impl Into<String>) -> Self {
        Self::of(PACKAGE, "", message)
    }

    /// A channel is deprecated.
    pub fn of_channel(name: impl Into<String>, message: impl Into<String>) -> Self {
        Self::of(CHANNEL, name, message)
    }

    /// A bundle is deprecated.
    pub fn of_bundle(name: impl Into<String>, message: impl Into<String>) -> Self {
        Self::of(BUNDLE, name, message)
    }

    fn of(schema: &str, name: impl Into<String>, message: impl Into<String>) -> Self {
        let reference = Reference {
            schema: schema.to_owned(),
            name: name.into(),
            rest: Map::new(),
        };
        Self {
            reference,
            message: message.into(),
            rest: Map::new(),
        }
    }
}

/// Reads documents of a file, each of another package.
///
/// # Errors
/// [`Error::File`] or [`Error::Unreadable`]; [`Error::Deprecation`] when a document is of another schema, or a package is there
/// twice.
pub fn read(path: &Path) -> Result<Vec<Deprecations>, Error> {
    let text = bounded::text(path, LARGEST).map_err(|source| Error::file("read", path, source))?;
    let place = path.display().to_string();
    let documents: Vec<Deprecations> = yaml::parse(&place, &text)?;
    let mut packages = BTreeSet::new();
    for document in &documents {
        if document.schema != SCHEMA {
            let accepted = format!("accepted is {SCHEMA}");
            return Err(refuse(&place, "schema", &document.schema, accepted));
        }
        let of_entries = document.entries.iter().flat_map(|entry| {
            let here = (&entry.rest, "accepted are reference and message");
            [here, (&entry.reference.rest, "accepted are schema and name")]
        });
        let all = [(&document.rest, "accepted are schema, package and entries")];
        for (rest, accepted) in all.into_iter().chain(of_entries) {
            if let Some(field) = rest.keys().next() {
                return Err(refuse(&place, "a field", field, accepted.to_owned()));
            }
        }
        if !packages.insert(&document.package) {
            let accepted = "a package may have one document".to_owned();
            return Err(refuse(&place, "package", &document.package, accepted));
        }
    }
    Ok(documents)
}

fn refuse(place: &str, field: &str, value: &str, accepted: String) -> Error {
    Error::Deprecation {
        place: place.to_owned(),
        field: field.to_owned(),
        value: value.to_owned(),
        accepted,
    }
}

impl Catalog {
    /// What is deprecated in the package.
    pub fn deprecations(&self) -> &[Deprecation] {
        self.deprecations
            .as_ref()
            .map_or(&[], |document| document.entries.as_slice())
    }

    /// Says what is deprecated in the package, in the place of what the catalog said before; nothing where there is none. The
    /// package comes first, then its channels and its bundles, each in their own order.
    pub fn deprecate(&mut self, mut entries: Vec<Deprecation>) {
        entries.sort_by_cached_key(|entry| self.place_of(&entry.reference));
        let before = self.deprecations.take();
        let rest = before.map(|document| document.rest).unwrap_or_default();
        if !entries.is_empty() {
            self.deprecations = Some(Deprecations {
                schema: SCHEMA.to_owned(),
                package: self.name.clone(),
                entries,
                rest,
            });
        }
    }

    /// Sorts what is unknown last, where [`Catalog::check`] finds it.
    fn place_of(&self, reference: &Reference) -> (usize, usize, String, String) {
        let unknown = usize::MAX;
        let (rank, place) = match reference.schema.as_str() {
            PACKAGE => (0, Some(0)),
            CHANNEL => (1, self.channel_names().position(|name| name == reference.name)),
            BUNDLE => (2, self.bundle_names().position(|name| name == reference.name)),
            _ => (unknown, None),
        };
        let (schema, name) = reference.to();
        (rank, place.unwrap_or(unknown), schema.to_owned(), name.to_owned())
    }

    /// Says that one more thing is deprecated, in the place of what was said of it before.
    ///
    /// # Errors
    /// [`Error::NotThere`]; [`Error::Deprecation`] for an empty message.
    pub fn deprecate_one(&mut self, entry: Deprecation) -> Result<(), Error> {
        let (schema, name) = entry.reference.to();
        match schema {
            CHANNEL if self.get_channel(name).is_none() => {
                return Err(self.not_there("channel", name, self.channel_names()));
            }
            BUNDLE if self.bundle(name).is_none() => {
                return Err(self.not_there("bundle", name, self.bundle_names()));
            }
            _ => {}
        }
        let mut entries = self.deprecations().to_vec();
        entries.retain(|other| other.reference.to() != entry.reference.to());
        entries.push(entry);
        self.deprecate(entries);
        self.check_deprecations()
    }

    /// Says no more that something is deprecated. Whether it was.
    pub fn revive(&mut self, reference: &Reference) -> bool {
        let mut entries = self.deprecations().to_vec();
        let before = entries.len();
        entries.retain(|entry| entry.reference.to() != reference.to());
        let was = entries.len() < before;
        self.deprecate(entries);
        was
    }

    /// The rules of operator-registry: `ConvertToModel` and `Validate` refuse a whole catalog that breaks one of them.
    pub(super) fn check_deprecations(&self) -> Result<(), Error> {
        let mut seen = BTreeSet::new();
        for (index, entry) in self.deprecations().iter().enumerate() {
            self.check_deprecation(index, entry)?;
            if !seen.insert(entry.reference.to()) {
                let accepted = "it is deprecated already by an entry before".to_owned();
                let field = format!("entries[{index}].reference.name");
                return Err(refuse(SCHEMA, &field, &entry.reference.name, accepted));
            }
        }
        Ok(())
    }

    fn check_deprecation(&self, index: usize, entry: &Deprecation) -> Result<(), Error> {
        let refused = |field: &str, value: &str, accepted: String| {
            let field = format!("entries[{index}].{field}");
            Err(refuse(SCHEMA, &field, value, accepted))
        };
        let (schema, name) = entry.reference.to();
        match schema {
            PACKAGE if !name.is_empty() => {
                let accepted = "a package has no name there, since the document says which".to_owned();
                return refused("reference.name", name, accepted);
            }
            CHANNEL if self.get_channel(name).is_none() => {
                let known: Vec<&str> = self.channel_names().collect();
                let accepted = format!("the channels are {}", known.join(", "));
                return refused("reference.name", name, accepted);
            }
            BUNDLE if self.bundle(name).is_none() => {
                let known: Vec<&str> = self.bundle_names().collect();
                let accepted = format!("the bundles are {}", known.join(", "));
                return refused("reference.name", name, accepted);
            }
            PACKAGE | CHANNEL | BUNDLE => {}
            _ => {
                let accepted = format!("accepted are {PACKAGE}, {CHANNEL} and {BUNDLE}");
                return refused("reference.schema", schema, accepted);
            }
        }
        if entry.message.trim().is_empty() {
            let accepted = "tell users what to do instead".to_owned();
            return refused("message", &entry.message, accepted);
        }
        Ok(())
    }
}
