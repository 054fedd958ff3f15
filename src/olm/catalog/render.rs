//! From a bundle's folder to its blob in a catalog, as `opm render --migrate-level bundle-object-to-csv-metadata` makes it.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::properties::{METADATA, Metadata, properties};
use super::{Bundle, carried};
use crate::olm::bounded::{self, LARGEST};
use crate::olm::csv;
use crate::olm::manifests::{Manifests, is_manifest_file, list, name, text};
use crate::olm::names::check_package;
use crate::olm::{Error, Tree, yaml};

/// A bundle, ready to be added to a catalog.
#[derive(Debug, Clone)]
pub struct Rendered {
    pub(super) bundle: Bundle,
    /// Icon and description for the package.
    pub(super) package: Map<String, Value>,
    /// The channels that the bundle itself names.
    pub channels: Vec<String>,
    /// The default channel that the bundle itself names; empty when it names none, and for a pre-release, which changes none.
    pub default_channel: String,
}

/// What is in a bundle's folder.
struct Files {
    manifests: Manifests,
    /// Where its metadata is.
    metadata: PathBuf,
    /// The files there: what each is shows in what it says, as upstream has it.
    texts: Vec<(PathBuf, String)>,
}

impl Files {
    fn read(folder: &Path) -> Result<Self, Error> {
        let manifests = Manifests::read(&folder.join("manifests")).map_err(|error| Error::NoBundle {
            folder: folder.display().to_string(),
            message: error.to_string(),
        })?;
        let metadata = folder.join("metadata");
        let listed = std::fs::read_dir(&metadata).map_err(|source| Error::file("list", &metadata, source))?;
        let mut texts = Vec::new();
        for entry in listed {
            let path = entry
                .map_err(|source| Error::file("list", &metadata, source))?
                .path();
            if is_manifest_file(&path) {
                let text =
                    bounded::text(&path, LARGEST).map_err(|source| Error::file("read", &path, source))?;
                texts.push((path, text));
            }
        }
        texts.sort();
        Ok(Self {
            manifests,
            metadata,
            texts,
        })
    }
}

const ANNOTATION: &str = "operators.operatorframework.io.bundle";

impl Rendered {
    /// Reads a bundle's folder (`manifests/` and `metadata/annotations.yaml`).
    ///
    /// `image` names the bundle's image, given the operator's image, the package and the version.
    ///
    /// # Errors
    /// [`Error::NoBundle`], or what is wrong with one of its files.
    pub fn read(
        folder: &Path,
        image: impl FnOnce(&Bundle, &str) -> Result<String, Error>,
    ) -> Result<Self, Error> {
        Self::of(&Files::read(folder)?, image)
    }

    /// The same of one that the catalog is to carry itself (`olm.bundle.object`) and that has no image there: OLM installs it at once, without a Job that
    /// unpacks it. OLM v1 takes none without an image.
    ///
    /// # Errors
    /// As [`Rendered::read`]; [`Error::TooMuchToCarry`].
    pub fn carried(folder: &Path) -> Result<Self, Error> {
        let files = Files::read(folder)?;
        let mut rendered = Self::of(&files, |_, _| Ok(String::new()))?;
        let bundle = &mut rendered.bundle;
        bundle.properties.retain(|property| property.kind != METADATA);
        bundle
            .properties
            .extend(carried::objects(&bundle.name, &files.manifests)?);
        Ok(rendered)
    }

    /// The same for a bundle that was made but not written yet; `folder` is its place in the tree.
    ///
    /// # Errors
    /// As [`Rendered::read`].
    pub fn of_tree(
        tree: &Tree,
        folder: &Path,
        image: impl FnOnce(&Bundle, &str) -> Result<String, Error>,
    ) -> Result<Self, Error> {
        let mut within = Tree::default();
        for (path, text) in tree
            .files()
            .filter(|(path, _)| path.starts_with(folder.join("manifests")))
        {
            within.insert(path, text)?;
        }
        let metadata = folder.join("metadata");
        let files = tree.files().filter(|(path, _)| path.starts_with(&metadata));
        let texts = files
            .map(|(path, text)| (path.to_owned(), text.to_owned()))
            .collect();
        let files = Files {
            manifests: Manifests::of_tree(&within)?,
            metadata,
            texts,
        };
        Self::of(&files, image)
    }

    fn of(files: &Files, image: impl FnOnce(&Bundle, &str) -> Result<String, Error>) -> Result<Self, Error> {
        let manifests = &files.manifests;
        let (mut annotations, mut others) = (Value::Null, Metadata::default());
        for (path, text) in &files.texts {
            let documents = yaml::parse::<Value>(&path.display().to_string(), text)?;
            let Some(document) = documents.into_iter().next() else {
                continue;
            };
            for (place, field) in [
                (&mut annotations, "annotations"),
                (&mut others.dependencies, "dependencies"),
                (&mut others.properties, "properties"),
            ] {
                let said = document.get(field);
                // An empty list says nothing, and another file may say more
                let says = said.is_some_and(|said| said.as_array().is_none_or(|list| !list.is_empty()));
                if place.is_null() && says {
                    *place = document.clone();
                }
            }
        }
        let annotation = |key: &str| {
            let all = annotations.get("annotations");
            all.and_then(|all| all.get(format!("{ANNOTATION}.{key}")))
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let package = annotation("package.v1");
        if package.is_empty() {
            let message = format!("annotation {ANNOTATION}.package.v1 is missing");
            return Err(Error::NoBundle {
                folder: files.metadata.display().to_string(),
                message,
            });
        }
        let csv = csv::base(manifests)?;
        let mut bundle = Bundle {
            schema: "olm.bundle".to_owned(),
            name: name(csv).to_owned(),
            package: package.to_owned(),
            image: String::new(),
            properties: properties(manifests, csv, package, &others),
            related_images: Vec::new(),
            rest: Map::new(),
        };
        bundle.image = image(&bundle, text(csv, "/metadata/annotations/containerImage"))?;
        bundle.related_images = related_images(csv, &bundle.image);
        // Nobody should come upon a pre-release without having asked for one.
        let is_release = bundle.version().is_ok_and(|version| version.pre.is_empty());
        let default_channel = if is_release {
            annotation("channel.default.v1").trim().to_owned()
        } else {
            String::new()
        };
        Ok(Self {
            bundle,
            package: package_facts(csv),
            channels: channels(annotation("channels.v1")).map(str::to_owned).collect(),
            default_channel,
        })
    }

    /// The ClusterServiceVersion's name.
    pub fn name(&self) -> &str {
        &self.bundle.name
    }

    /// The package's name.
    pub fn package(&self) -> &str {
        &self.bundle.package
    }

    /// Whether a catalog may have such a package: its name is that of a folder, and somebody else's word.
    ///
    /// # Errors
    /// [`Error::NotAPackage`]
    pub fn check_package(&self) -> Result<(), Error> {
        let field = format!("{}: the annotation {ANNOTATION}.package.v1", self.name());
        check_package(&field, self.package())
    }

    /// The blob.
    pub fn bundle(&self) -> &Bundle {
        &self.bundle
    }
}

/// The channels that an annotation names, between commas, as upstream reads it: space around a name is no part of it.
pub(in crate::olm) fn channels(annotation: &str) -> impl Iterator<Item = &str> {
    annotation
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
}

/// Those of the ClusterServiceVersion, the bundle's own image, and container images that it does not name.
fn related_images(csv: &Value, bundle_image: &str) -> Vec<Value> {
    let mut images = list(csv, "/spec/relatedImages").to_vec();
    let mut add = |image: &str| {
        if !image.is_empty() && !images.iter().any(|there| text(there, "/image") == image) {
            images.push(json!({"name": "", "image": image}));
        }
    };
    add(bundle_image);
    for deployment in list(csv, "/spec/install/spec/deployments") {
        for field in ["containers", "initContainers"] {
            list(deployment, &format!("/spec/template/spec/{field}"))
                .iter()
                .for_each(|container| add(text(container, "/image")));
        }
    }
    images.sort_by(|one, other| text(one, "/image").cmp(text(other, "/image")));
    images
}

fn package_facts(csv: &Value) -> Map<String, Value> {
    let mut facts = Map::new();
    if let Some(icon) = list(csv, "/spec/icon").first() {
        facts.insert("icon".into(), icon.clone());
    }
    let description = text(csv, "/spec/description");
    if !description.is_empty() {
        facts.insert("description".into(), json!(description));
    }
    facts
}
