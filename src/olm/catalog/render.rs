//! From a bundle's folder to its blob in a catalog, as `opm render --migrate-level bundle-object-to-csv-metadata` makes it.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::{Bundle, Property, property};
use crate::olm::csv;
use crate::olm::manifests::{Manifests, list, name, text};
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
        let no_bundle = |message: &dyn std::fmt::Display| Error::NoBundle {
            folder: folder.display().to_string(),
            message: message.to_string(),
        };
        let manifests = Manifests::read(&folder.join("manifests")).map_err(|error| no_bundle(&error))?;
        let path = folder.join("metadata/annotations.yaml");
        let annotations =
            std::fs::read_to_string(&path).map_err(|source| Error::file("read", &path, source))?;
        Self::of(&manifests, &path.display().to_string(), &annotations, image)
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
            within.insert(path, text);
        }
        let path = folder.join("metadata/annotations.yaml");
        let annotations = tree.get(&path).unwrap_or_default();
        Self::of(
            &Manifests::of_tree(&within)?,
            &path.display().to_string(),
            annotations,
            image,
        )
    }

    fn of(
        manifests: &Manifests,
        source: &str,
        annotations: &str,
        image: impl FnOnce(&Bundle, &str) -> Result<String, Error>,
    ) -> Result<Self, Error> {
        let annotations = yaml::parse::<Value>(source, annotations)?
            .pop()
            .unwrap_or_default();
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
                folder: source.to_owned(),
                message,
            });
        }
        let csv = csv::base(manifests)?;
        let mut bundle = Bundle {
            schema: "olm.bundle".to_owned(),
            name: name(csv).to_owned(),
            package: package.to_owned(),
            image: String::new(),
            properties: properties(manifests, csv, package),
            related_images: Vec::new(),
        };
        bundle.image = image(&bundle, text(csv, "/metadata/annotations/containerImage"))?;
        bundle.related_images = related_images(csv, &bundle.image);
        // Nobody should come upon a pre-release without having asked for one.
        let is_release = bundle.version().is_ok_and(|version| version.pre.is_empty());
        let default_channel = if is_release {
            annotation("channel.default.v1").to_owned()
        } else {
            String::new()
        };
        Ok(Self {
            bundle,
            package: package_facts(csv),
            channels: annotation("channels.v1")
                .split(',')
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect(),
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

    /// The blob.
    pub fn bundle(&self) -> &Bundle {
        &self.bundle
    }
}

/// Sorted by type and value; the large one comes last, as upstream has it.
fn properties(manifests: &Manifests, csv: &Value, package: &str) -> Vec<Property> {
    let mut kinds = BTreeSet::new();
    for crd in csv::crds(manifests) {
        for version in list(crd, "/spec/versions") {
            kinds.insert((
                text(crd, "/spec/group"),
                text(crd, "/spec/names/kind"),
                text(version, "/name"),
            ));
        }
    }
    let gvk = |(group, kind, version)| {
        property(
            "olm.gvk",
            json!({"group": group, "kind": kind, "version": version}),
        )
    };
    let mut properties: Vec<Property> = kinds.into_iter().map(gvk).collect();
    properties.push(property(
        "olm.package",
        json!({"packageName": package, "version": text(csv, "/spec/version")}),
    ));
    properties.push(property("olm.csv.metadata", metadata(csv)));
    properties
}

/// What a console shows of the package, so that nobody need pull the image for it. Upstream writes the two structures even when
/// they are empty.
fn metadata(csv: &Value) -> Value {
    let mut metadata = Map::new();
    for (field, pointer) in [
        ("annotations", "/metadata/annotations"),
        ("labels", "/metadata/labels"),
        ("apiServiceDefinitions", "/spec/apiservicedefinitions"),
        ("crdDescriptions", "/spec/customresourcedefinitions"),
        ("description", "/spec/description"),
        ("displayName", "/spec/displayName"),
        ("installModes", "/spec/installModes"),
        ("keywords", "/spec/keywords"),
        ("links", "/spec/links"),
        ("maintainers", "/spec/maintainers"),
        ("maturity", "/spec/maturity"),
        ("minKubeVersion", "/spec/minKubeVersion"),
        ("nativeAPIs", "/spec/nativeAPIs"),
        ("provider", "/spec/provider"),
    ] {
        if let Some(value) = csv.pointer(pointer) {
            metadata.insert(field.into(), value.clone());
        }
    }
    for structure in ["apiServiceDefinitions", "crdDescriptions", "provider"] {
        metadata.entry(structure).or_insert_with(|| json!({}));
    }
    Value::Object(metadata)
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
