//! Templates of catalogs, in upstream's formats: what names images of bundles, and becomes a catalog once those are known.
//!
//! * `olm.template.basic` is a catalog in which bundles are their images alone.
//! * `olm.semver` lists images by how stable they are; channels and upgrades follow from the versions.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::Rendered;
use crate::olm::{Error, yaml};

mod semver;

use self::semver::Semver;

const BASIC: &str = "olm.template.basic";
const SEMVER: &str = "olm.semver";

/// A template that was read.
#[derive(Debug)]
pub enum Template {
    /// `olm.template.basic`
    Basic(Basic),
    /// `olm.semver`
    Semver(Semver),
}

/// A catalog in which bundles are their images alone.
#[derive(Debug, Deserialize)]
pub struct Basic {
    entries: Vec<Value>,
}

impl Template {
    /// Reads a text if it is a template; `source` names it in errors.
    ///
    /// # Errors
    /// [`Error::Unreadable`]: it is one, and not as its format has it.
    pub fn parse(source: &str, text: &str) -> Result<Option<Self>, Error> {
        // A catalog that has many documents need not be read whole to know that it is none.
        let is_one = [BASIC, SEMVER].iter().any(|schema| text.contains(schema));
        if !is_one {
            return Ok(None);
        }
        let mut documents = yaml::parse::<Value>(source, text)?;
        let wrong = |message: String| Error::Unreadable {
            source_name: source.to_owned(),
            message,
        };
        let schema = documents.first().and_then(|first| first["schema"].as_str());
        let schema = match schema {
            Some(schema @ (BASIC | SEMVER)) => schema.to_owned(),
            _ => return Ok(None),
        };
        if documents.len() > 1 {
            let message = format!(
                "a template of schema {schema} is one document, and there are {}",
                documents.len()
            );
            return Err(wrong(message));
        }
        let document = documents.pop().unwrap_or_default();
        let template = if schema == BASIC {
            serde_json::from_value::<Basic>(document)
                .map_err(|error| error.to_string())
                .and_then(Basic::checked)
                .map(Self::Basic)
        } else {
            Semver::read(document).map(Self::Semver)
        };
        template.map(Some).map_err(wrong)
    }

    /// The images that it names, each once, in its order.
    pub fn images(&self) -> Vec<&str> {
        let all: Vec<&str> = match self {
            Self::Basic(basic) => basic.entries.iter().filter_map(image).collect(),
            Self::Semver(semver) => semver.images().collect(),
        };
        let mut images = Vec::new();
        for image in all {
            if !images.contains(&image) {
                images.push(image);
            }
        }
        images
    }

    /// The documents of the catalog, given the bundle of each image.
    ///
    /// # Errors
    /// What the bundles do not go together for.
    pub fn fill(&self, bundles: &BTreeMap<String, Rendered>) -> Result<Vec<Value>, Error> {
        match self {
            Self::Basic(basic) => basic.fill(bundles),
            Self::Semver(semver) => semver.fill(bundles),
        }
    }
}

impl Basic {
    /// A bundle of which more is said than its image would be overwritten.
    fn checked(self) -> Result<Self, String> {
        let bundles = self.entries.iter().filter(|entry| is_bundle(entry));
        for bundle in bundles {
            let more = ["package", "properties", "relatedImages"]
                .into_iter()
                .find(|field| bundle.get(field).is_some());
            if let Some(field) = more {
                let of = image(bundle).unwrap_or_default();
                return Err(format!(
                    "the olm.bundle of image {of:?} has {field}; in a template it has its image alone"
                ));
            }
            if image(bundle).is_none_or(str::is_empty) {
                return Err("an olm.bundle has no image".to_owned());
            }
        }
        Ok(self)
    }

    fn fill(&self, bundles: &BTreeMap<String, Rendered>) -> Result<Vec<Value>, Error> {
        let each = self.entries.iter().map(|entry| match image(entry) {
            Some(image) => document(bundle_of(bundles, image)?.bundle()),
            None => Ok(entry.clone()),
        });
        each.collect()
    }
}

fn is_bundle(entry: &Value) -> bool {
    entry["schema"] == "olm.bundle"
}

/// The image of an entry that is a bundle.
fn image(entry: &Value) -> Option<&str> {
    entry.get("image").filter(|_| is_bundle(entry))?.as_str()
}

fn bundle_of<'a>(bundles: &'a BTreeMap<String, Rendered>, image: &str) -> Result<&'a Rendered, Error> {
    bundles.get(image).ok_or_else(|| Error::NoBundle {
        folder: image.to_owned(),
        message: "it was not read".to_owned(),
    })
}

fn document(value: &impl serde::Serialize) -> Result<Value, Error> {
    serde_json::to_value(value).map_err(|error| Error::Unwritable(error.to_string()))
}
