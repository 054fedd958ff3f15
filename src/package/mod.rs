//! What this product ships: its own Deployment, RBAC, samples and base ClusterServiceVersion, built from the types.
//!
//! [`tree`] makes crds/ and config/; [`bundle`] and [`release`] go on from there with the general commands of [`crate::olm`].

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;

use semver::Version;
use serde::Serialize;
use serde_json::{Value, json};

use crate::olm::catalog::{
    Bundle, Catalog, Rendered, default_bundle_image, default_channel_of, default_channels,
};
use crate::olm::{self, Error, Manifests, Tree, yaml};

mod base;
pub mod deprecations;
pub mod kinds;
mod operator;
mod rbac;
pub mod release;
mod subscription;
pub mod webhooks;

/// The package's name in the catalog, and the beginning of every ClusterServiceVersion's.
pub const PACKAGE: &str = "roadstead";
/// Deployment, ServiceAccount, roles, and the Lease by which the leader is elected.
pub const OPERATOR: &str = "roadstead-operator";
/// Where the operator lives without OLM.
pub const NAMESPACE: &str = "roadstead-system";
/// Where OLM puts it.
pub const OLM_NAMESPACE: &str = "operators";
const REGISTRY: &str = "registry.roadstead.dev";
/// The image of nginx where neither a MyProxy nor the environment names one.
pub const NGINX_IMAGE: &str = "nginx:1.29";

/// The variable that names PostgreSQL's image of a major version, for databases that name none. OLM's tools look for what begins so.
pub fn postgres_variable(major: u32) -> String {
    format!("RELATED_IMAGE_POSTGRES_{major}")
}

/// The version of this build.
///
/// # Errors
/// None in practice: Cargo refuses a version that is not semantic.
pub fn version() -> Result<Version, semver::Error> {
    env!("CARGO_PKG_VERSION").parse()
}

/// The operator's image of a version.
pub fn operator_image(version: impl Display) -> String {
    format!("{REGISTRY}/{OPERATOR}:v{version}")
}

/// crds/ and config/, below the root of the repository.
///
/// # Errors
/// [`Error::Unwritable`]
pub fn tree(version: &Version) -> Result<Tree, Error> {
    let mut folder = Folders::default();
    let mut kinds = kinds::all();
    for kind in &mut kinds {
        deprecations::mark(&mut kind.crd, deprecations::TABLE, version);
    }

    let mut definitions = Vec::new();
    for kind in &kinds {
        let file = format!("{}_{}.yaml", kind.crd.spec.group, kind.crd.spec.names.plural);
        let definition = webhooks::definition(kind);
        // The first for people, the second for kustomize, which reads nothing from outside of its folder.
        folder.file("crds", &file, &definition)?;
        folder.file("config/crd/bases", &file, &definition)?;
        definitions.push(format!("bases/{file}"));
    }
    folder.kustomization("config/crd", json!({"resources": definitions}))?;
    folder.resources("config/rbac", &rbac::objects(&kinds)?)?;
    folder.resources("config/manager", &operator::objects(version)?)?;
    folder.resources("config/webhook", &webhooks::objects(&kinds)?)?;
    folder.resources("config/certificates", &webhooks::certificates()?)?;
    let parts = ["../crd", "../rbac", "../manager", "../webhook"];
    let with_certificates = [&parts[..], &["../certificates"]].concat();
    folder.kustomization(
        "config/default",
        json!({"namespace": NAMESPACE, "resources": with_certificates}),
    )?;

    let samples: Vec<_> = kinds
        .iter()
        .flat_map(|kind| &kind.samples)
        .map(|sample| (kinds::sample_file(sample), sample.clone()))
        .collect();
    folder.resources("config/samples", &samples)?;
    let base = format!("{PACKAGE}.clusterserviceversion.yaml");
    folder.file("config/manifests/bases", &base, &base::csv(version, &kinds)?)?;
    let base = format!("bases/{base}");
    let parts = [&[base.as_str()], &parts[..], &["../samples"]].concat();
    folder.kustomization(
        "config/manifests",
        json!({"namespace": NAMESPACE, "resources": parts}),
    )?;
    for (file, object) in subscription::objects() {
        folder.file("config/olm", &file, &object)?;
    }
    Ok(folder.0)
}

/// Files that say who wrote them, in folders that hold nothing else.
#[derive(Default)]
struct Folders(Tree);

impl Folders {
    fn file(&mut self, folder: &str, file: &str, object: &impl Serialize) -> Result<(), Error> {
        // The three dashes let people join files with `cat`.
        let text = format!(
            "# Written by `roadstead generate` from src/; edits are lost.\n---\n{}",
            yaml::document(object)?
        );
        self.0.own(folder)?;
        self.0.insert(Path::new(folder).join(file), text)
    }

    fn kustomization(&mut self, folder: &str, mut fields: Value) -> Result<(), Error> {
        fields["apiVersion"] = json!("kustomize.config.k8s.io/v1beta1");
        fields["kind"] = json!("Kustomization");
        self.file(folder, "kustomization.yaml", &fields)
    }

    fn resources(&mut self, folder: &str, objects: &[(String, Value)]) -> Result<(), Error> {
        for (file, object) in objects {
            self.file(folder, file, object)?;
        }
        let files: Vec<&String> = objects.iter().map(|(file, _)| file).collect();
        self.kustomization(folder, json!({"resources": files}))
    }
}

/// bundle/ and bundle.Dockerfile of a version, below the root of the repository, made from `tree` and the released versions.
///
/// # Errors
/// Any of [`Error`] that concerns manifests.
pub fn bundle(tree: &Tree, version: &Version, catalog: &Catalog) -> Result<Tree, Error> {
    let channels = default_channels(version);
    let default_channel = default_channel_of(&channels);
    let csv = olm::csv::Options {
        package: PACKAGE.to_owned(),
        version: version.clone(),
        image: None,
        digests: BTreeMap::new(),
        replaces: catalog.replaces(version, &default_channel)?,
    };
    let options = olm::bundle::Options {
        csv,
        channels,
        default_channel,
        folder: "bundle".into(),
        installer: olm::bundle::Installer::Olm,
    };
    olm::bundle::generate(&config_of(tree)?, &options)
}

/// The manifests of config/, which is what a bundle is made from.
fn config_of(tree: &Tree) -> Result<Manifests, Error> {
    let mut config = Tree::default();
    for (path, text) in tree.files().filter(|(path, _)| path.starts_with("config")) {
        config.insert(path, text)?;
    }
    Manifests::of_tree(&config)
}

/// Adds the bundle of `tree` to channels.
///
/// # Errors
/// Any of [`Error`] that concerns bundles and catalogs.
pub fn publish(catalog: &mut Catalog, tree: &Tree, channels: &[String]) -> Result<(), Error> {
    let image =
        |bundle: &Bundle, operator: &str| Ok(default_bundle_image(operator, PACKAGE, &bundle.version()?));
    let rendered = Rendered::of_tree(tree, Path::new("bundle"), image)?;
    let default_channel = rendered.default_channel.clone();
    catalog.add(rendered, channels, &default_channel)
}

/// Typed objects as values, for the general commands work on those.
fn value(object: &impl Serialize) -> Result<Value, Error> {
    serde_json::to_value(object).map_err(|error| Error::Unwritable(error.to_string()))
}
