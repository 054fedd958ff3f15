//! What is said of a package as a whole.

use serde_json::{Map, Value, json};

use super::{Catalog, Package};
use crate::olm::Error;
use crate::olm::icon::Icon;
use crate::olm::manifests::text;
use crate::olm::names::check_package;

/// What somebody says of a package that has no release yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct About {
    /// The channel of a Subscription that names none. Empty: the first one that there will be.
    pub default_channel: String,
    /// In Markdown.
    pub description: Option<String>,
    /// What consoles show of it.
    pub icon: Option<Icon>,
}

impl Catalog {
    /// A catalog of a package without a release. What is said of it here stays, whatever the bundles say that are added.
    ///
    /// # Errors
    /// [`Error::NotAPackage`]
    pub fn begin(package: &str, about: About) -> Result<Self, Error> {
        check_package("the package's name", package)?;
        let mut rest = Map::new();
        if let Some(icon) = about.icon {
            rest.insert("icon".to_owned(), icon.json());
        }
        if let Some(description) = about.description {
            rest.insert("description".to_owned(), json!(description));
        }
        let mut catalog = Self::empty(package);
        catalog.package = Some(Package {
            schema: "olm.package".to_owned(),
            name: package.to_owned(),
            default_channel: about.default_channel,
            rest,
        });
        Ok(catalog)
    }

    /// Whether icon and description are those of a bundle, so that they change with the highest, and not what a person has written.
    pub(super) fn follows_its_bundles(&self) -> bool {
        let Some(package) = &self.package else { return true };
        let Some(description) = package.rest.get("description").and_then(Value::as_str) else {
            return !package.rest.contains_key("icon");
        };
        let properties = self.bundles.iter().flat_map(|bundle| &bundle.properties);
        properties
            .filter(|property| property.kind == "olm.csv.metadata")
            .any(|property| text(&property.value, "/description") == description)
    }

    /// The package wears the icon and the description of its highest version. Its default channel is the one that is asked for,
    /// as soon as that has an entry; until then the first that has, unless somebody said which it will be.
    pub(super) fn describe(&mut self, facts: Map<String, Value>, default_channel: &str, is_highest: bool) {
        let mut names = self.channels.iter().map(|channel| channel.name.clone());
        let known = names.clone().find(|name| name == default_channel);
        let first = names.next().unwrap_or_default();
        let package = self.package.get_or_insert_with(|| Package {
            schema: "olm.package".to_owned(),
            name: self.name.clone(),
            default_channel: String::new(),
            rest: Map::new(),
        });
        if is_highest {
            package.rest.extend(facts);
        }
        if let Some(known) = known {
            package.default_channel = known;
        } else if package.default_channel.is_empty() {
            package.default_channel = first;
        }
    }

    /// The channel of a Subscription that names none. [`Catalog::check`] refuses one that is not there.
    pub fn set_default_channel(&mut self, channel: &str) {
        if let Some(package) = &mut self.package {
            channel.clone_into(&mut package.default_channel);
        }
    }
}
