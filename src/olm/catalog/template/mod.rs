//! Templates of catalogs, in upstream's formats: what names images of bundles, and becomes a catalog once those are known.
//!
//! * `olm.template.basic` is a catalog in which bundles are their images alone.
//! * `olm.semver` lists images by how stable they are; channels and upgrades follow from the versions.
//!
//! Keys are known whatever their case, since upstream's own examples begin them with capitals.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Rendered;
use crate::olm::fbc::blob::{BUNDLE, null_as_default};
use crate::olm::fbc::{fold, known};
use crate::olm::{Error, yaml};

mod semver;

use self::semver::Semver;

const BASIC: &str = "olm.template.basic";
const SEMVER: &str = "olm.semver";
/// What the schemas of templates begin with, also of those that are not rendered here.
const TEMPLATES: [&str; 2] = ["olm.template", SEMVER];

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
    #[serde(default, deserialize_with = "null_as_default")]
    entries: Vec<Value>,
}

impl Template {
    /// Reads a text if it is a template; `source` names it in errors.
    ///
    /// # Errors
    /// [`Error::Unreadable`]: it is one, and not as its format has it.
    pub fn parse(source: &str, text: &str) -> Result<Option<Self>, Error> {
        // A catalog that has many documents need not be read whole to know that it is none.
        if !TEMPLATES.iter().any(|begin| text.contains(begin)) {
            return Ok(None);
        }
        let mut documents = yaml::parse::<Value>(source, text)?;
        let wrong = |message: String| Error::Unreadable {
            source_name: source.to_owned(),
            message,
        };
        let is_template = |schema: &&str| TEMPLATES.iter().any(|begin| schema.starts_with(begin));
        let Some(schema) = documents.iter().filter_map(schema).find(is_template) else {
            return Ok(None);
        };
        let schema = schema.to_owned();
        if schema != BASIC && schema != SEMVER {
            let message = format!("schema is {schema:?}; of templates, {BASIC} and {SEMVER} are accepted");
            return Err(wrong(message));
        }
        if documents.len() > 1 {
            let message = format!(
                "a template of schema {schema} is one document, and there are {}",
                documents.len()
            );
            return Err(wrong(message));
        }
        let document = documents.pop().unwrap_or_default();
        let template = if schema == BASIC {
            shaped::<Basic>(&document)
                .and_then(Basic::checked)
                .map(Self::Basic)
        } else {
            shaped(&document).and_then(Semver::checked).map(Self::Semver)
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
    fn checked(mut self) -> Result<Self, String> {
        for (index, entry) in self.entries.iter_mut().enumerate() {
            known::canonical(entry).map_err(|why| format!("entries[{index}]: {why}"))?;
            if schema(entry).is_none_or(str::is_empty) {
                return Err(format!("entries[{index}] has no schema"));
            }
        }
        let bundles = self.entries.iter().filter(|entry| is_bundle(entry));
        for bundle in bundles {
            let more = ["package", "properties", "relatedImages"]
                .into_iter()
                .find(|field| says(&bundle[field]));
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

/// Reads a template. Its lines say nothing: it was one line for that.
fn shaped<T: DeserializeOwned>(document: &Value) -> Result<T, String> {
    let read: Result<T, _> = fold::from_str(&document.to_string());
    read.map_err(|error| {
        let told = error.to_string();
        told.split(" at line ").next().unwrap_or_default().to_owned()
    })
}

fn schema(document: &Value) -> Option<&str> {
    fold::get(document.as_object()?, "schema")?.as_str()
}

/// Whether a field says anything: what is null or empty is as if it were not there.
fn says(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => true,
    }
}

fn is_bundle(entry: &Value) -> bool {
    entry["schema"] == BUNDLE
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
