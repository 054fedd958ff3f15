//! A bundle in the registry+v1 layout: `manifests/`, `metadata/`, the scorecard's configuration, and the Dockerfile of its image.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::file_name::file_name;
use super::manifests::{Manifests, is_kind};
use super::names::{check_package, is_channel};
use super::{Error, Tree, contents, csv, dockerfile, opened, yaml};
use crate::pki::trust::is_injection;

/// Who installs a bundle.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Installer {
    /// OLM, and OLM v1, under which the versions that the operator opens stay closed.
    #[default]
    Olm,
    /// OLM v1 alone: all versions are open from the start. Under OLM nothing would convert them for some seconds of each upgrade.
    OlmV1,
}

/// What a bundle is made for.
#[derive(Debug, Clone)]
pub struct Options {
    /// What the ClusterServiceVersion needs to know.
    pub csv: csv::Options,
    /// The channels that the bundle is meant for. At least one.
    pub channels: Vec<String>,
    /// One of them.
    pub default_channel: String,
    /// The bundle's folder, relative to the context in which its image is built. `bundle.Dockerfile` comes to lie beside it.
    pub folder: PathBuf,
    /// Who is going to install it.
    pub installer: Installer,
}

const SCORECARD: &str = "tests/scorecard";
const SCORECARD_IMAGE: &str = "quay.io/operator-framework/scorecard-test:v1.42.0";

/// Makes all files of the bundle, below the build context.
///
/// # Errors
/// Any of [`Error`] that concerns manifests or channels.
pub fn generate(manifests: &Manifests, options: &Options) -> Result<Tree, Error> {
    check_channels(options)?;
    let manifests = &match options.installer {
        Installer::Olm => opened::closed(manifests)?,
        Installer::OlmV1 => opened::opened(manifests)?,
    };
    csv::base(manifests)?;
    check_package("the package's name", &options.csv.package)?;
    contents::check_names(manifests)?;
    let generated = csv::generate(manifests, &options.csv)?;
    let package = &options.csv.package;
    let mut tree = Tree::default();
    let folder = options.folder.join("manifests");
    tree.insert(
        folder.join(format!("{package}.clusterserviceversion.yaml")),
        yaml::document(&generated.csv)?,
    )?;
    for manifest in contents::shipped(manifests, &generated)? {
        let object = shipped(&manifest.body);
        tree.insert(folder.join(file_name(manifest)?), yaml::document(&object)?)?;
    }
    let labels = labels(options);
    let metadata = options.folder.join("metadata");
    tree.insert(
        metadata.join("annotations.yaml"),
        yaml::document(&json!({"annotations": as_map(&labels)}))?,
    )?;
    let scorecard = options.folder.join(SCORECARD);
    tree.insert(
        scorecard.join("config.yaml"),
        yaml::document(&scorecard_config())?,
    )?;
    tree.insert(
        beside(&options.folder, "bundle.Dockerfile"),
        dockerfile(&options.folder, &labels),
    )?;
    for folder in [folder, metadata, scorecard] {
        tree.own(folder)?;
    }
    Ok(tree)
}

fn check_channels(options: &Options) -> Result<(), Error> {
    if options.channels.iter().all(|channel| channel.is_empty()) {
        return Err(Error::NoChannel);
    }
    if let Some(wrong) = options.channels.iter().find(|channel| !is_channel(channel)) {
        return Err(Error::Channel { name: wrong.clone() });
    }
    if !options.channels.contains(&options.default_channel) {
        return Err(Error::DefaultChannel {
            default: options.default_channel.clone(),
            channels: options.channels.clone(),
        });
    }
    Ok(())
}

/// The object as a bundle may hold it: without a namespace (OLM gives it the operator's), without status, and without what an API server wrote into one that was
/// read from it.
fn shipped(body: &Value) -> Value {
    let mut object = body.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("namespace");
        csv::forget_the_server(metadata);
    }
    if is_kind(body, "apiextensions.k8s.io", "CustomResourceDefinition") {
        leave_conversion_to_olm(&mut object);
    }
    object
}

/// Takes out `spec.conversion`, and whatever would put another authority into it. OLM fills it in from `spec.webhookdefinitions`
/// once it has made Service and certificate. One that came with the definition would lead to a Service that is not there, and the
/// lists with which OLM checks existing objects before it updates a definition would fail for as long as it retries.
///
/// Where the operator sees to its definition itself, the conversion stays, without an authority: then the API server never takes an object of one
/// version for one of another, and OLM lists only a version that the operator does not open. The operator puts the right Service and authority
/// into it within a second.
fn leave_conversion_to_olm(crd: &mut Value) {
    let is_kept = opened::is_seen_to(crd);
    if let Some(spec) = crd.get_mut("spec").and_then(Value::as_object_mut) {
        if is_kept
            && let Some(client) = spec
                .get_mut("conversion")
                .and_then(|it| it.pointer_mut("/webhook/clientConfig"))
        {
            client.as_object_mut().map(|client| client.remove("caBundle"));
        } else {
            spec.remove("conversion");
        }
    }
    let Some(metadata) = crd.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.retain(|key, _| !is_injection(key));
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
}

/// The annotations of the bundle, which its image carries as labels too.
fn labels(options: &Options) -> Vec<(&'static str, String)> {
    vec![
        (
            "operators.operatorframework.io.bundle.mediatype.v1",
            "registry+v1".into(),
        ),
        (
            "operators.operatorframework.io.bundle.manifests.v1",
            "manifests/".into(),
        ),
        (
            "operators.operatorframework.io.bundle.metadata.v1",
            "metadata/".into(),
        ),
        (
            "operators.operatorframework.io.bundle.package.v1",
            options.csv.package.clone(),
        ),
        (
            "operators.operatorframework.io.bundle.channels.v1",
            options.channels.join(","),
        ),
        (
            "operators.operatorframework.io.bundle.channel.default.v1",
            options.default_channel.clone(),
        ),
        (
            "operators.operatorframework.io.test.mediatype.v1",
            "scorecard+v1".into(),
        ),
        (
            "operators.operatorframework.io.test.config.v1",
            format!("{SCORECARD}/"),
        ),
    ]
}

fn as_map(labels: &[(&'static str, String)]) -> Value {
    labels
        .iter()
        .map(|(key, value)| ((*key).to_owned(), json!(value)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn dockerfile(folder: &Path, labels: &[(&'static str, String)]) -> String {
    let folder = folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy();
    let mut text = String::from("# Written by `roadstead bundle generate`.\nFROM scratch\n\n");
    for (key, value) in labels {
        text.push_str(&dockerfile::label(key, value));
    }
    text.push('\n');
    for inner in ["manifests", "metadata", SCORECARD] {
        text.push_str(&dockerfile::copy(
            &format!("{folder}/{inner}"),
            &format!("/{inner}/"),
        ));
    }
    text
}

/// The file of a name beside a folder.
pub(super) fn beside(folder: &Path, name: &str) -> PathBuf {
    folder.parent().unwrap_or(Path::new("")).join(name)
}

/// The six tests that `operator-sdk scorecard` brings with it, all at once.
fn scorecard_config() -> Value {
    let test = |suite: &str, test: &str| {
        json!({
            "entrypoint": ["scorecard-test", test],
            "image": SCORECARD_IMAGE,
            "labels": {"suite": suite, "test": format!("{test}-test")},
            "storage": {"spec": {"mountPath": {}}},
        })
    };
    json!({
        "apiVersion": "scorecard.operatorframework.io/v1alpha3",
        "kind": "Configuration",
        "metadata": {"name": "config"},
        "stages": [{"parallel": true, "tests": [
            test("basic", "basic-check-spec"),
            test("olm", "olm-bundle-validation"),
            test("olm", "olm-crds-have-validation"),
            test("olm", "olm-crds-have-resources"),
            test("olm", "olm-spec-descriptors"),
            test("olm", "olm-status-descriptors"),
        ]}],
        "storage": {"spec": {"mountPath": {}}},
    })
}
