//! The ClusterServiceVersion: a base that people write, completed with what the manifests say.

use std::collections::{BTreeMap, BTreeSet};

use semver::Version;
use serde_json::{Map, Value, json};

use super::accounts::{self, Accounts};
use super::contents::label;
use super::descriptors::{Side, descriptors};
use super::file_name::SUBDOMAIN;
use super::manifests::{Manifests, api_group, api_version, list, name, text};
use super::names::{LONGEST_LABEL, is_dns_subdomain};
use super::permissions::{self, Permissions};
use super::registry_v1::breaches;
use super::webhooks::Webhooks;
use super::{Error, aggregation, images};

/// Fields of metadata that an API server writes.
const OF_THE_SERVER: [&str; 6] = [
    "creationTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// In which namespaces an operator can work, as OLM has it.
pub(super) const INSTALL_MODES: [&str; 4] = [
    "OwnNamespace",
    "SingleNamespace",
    "MultiNamespace",
    "AllNamespaces",
];

/// The install modes that an operator has to support where an OperatorGroup selects these namespaces, by the rule of OLM (`InstallModeSet.Supports`). The empty
/// name stands for all of them.
pub(super) fn needed_modes(own: &str, selected: &[&str]) -> &'static [&'static str] {
    match selected {
        [] | [""] => &["AllNamespaces"],
        [only] if *only == own => &["OwnNamespace"],
        [_] => &["SingleNamespace"],
        several if several.contains(&own) => &["MultiNamespace", "OwnNamespace"],
        _ => &["MultiNamespace"],
    }
}

/// What the manifests cannot say.
#[derive(Debug, Clone)]
pub struct Options {
    /// The package; the ClusterServiceVersion is named `PACKAGE.vVERSION`.
    pub package: String,
    /// The version.
    pub version: Version,
    /// The operator's image, put in the place of the one that the base's annotation `containerImage` names.
    pub image: Option<String>,
    /// What is written in the place of images: those of [`images`], each named by its digest. One that is not here stays as it is.
    pub digests: BTreeMap<String, String>,
    /// The name of the ClusterServiceVersion that this one takes over from.
    pub replaces: Option<String>,
}

impl Options {
    /// The ClusterServiceVersion's name.
    fn name(&self) -> String {
        format!("{}.v{}", self.package, self.version)
    }
}

/// A finished ClusterServiceVersion, and the objects that it stands for.
#[derive(Debug)]
pub struct Generated {
    /// The object.
    pub csv: Value,
    /// Kind and name of objects that OLM makes from the ClusterServiceVersion, so the bundle must not ship them.
    pub covered: BTreeSet<(String, String)>,
}

/// The only ClusterServiceVersion among the manifests.
///
/// # Errors
/// [`Error::BaseCount`] when there is none, or more than one.
pub fn base(manifests: &Manifests) -> Result<&Value, Error> {
    let mut found = manifests.of_kind("operators.coreos.com", "ClusterServiceVersion");
    match (found.next(), found.count()) {
        (Some(base), 0) => Ok(base),
        (first, more) => Err(Error::BaseCount {
            found: usize::from(first.is_some()) + more,
        }),
    }
}

/// The images that the operator and what it runs need, as the manifests name them, those of the operator as the options do.
///
/// # Errors
/// As [`generate`], of the Deployments.
pub fn images(manifests: &Manifests, options: &Options) -> Result<Vec<String>, Error> {
    let deployments = deployments(manifests, base(manifests)?, options)?;
    let related = images::related(&deployments);
    Ok(related.iter().map(|it| text(it, "/image").to_owned()).collect())
}

/// Completes the base. Nothing is asked of anybody, and nothing but the arguments is read.
///
/// # Errors
/// Any of [`Error`] that concerns manifests.
pub fn generate(manifests: &Manifests, options: &Options) -> Result<Generated, Error> {
    let base = base(manifests)?;
    check_name(&options.name())?;
    let mut deployments = deployments(manifests, base, options)?;
    for deployment in &deployments {
        check_deployment(deployment)?;
    }
    let webhooks = Webhooks::of(manifests, base)?;
    for deployment in &mut deployments {
        webhooks.unmount(deployment)?;
        accounts::carry(manifests, deployment);
        for (image, pinned) in &options.digests {
            images::replace(deployment, image, pinned);
        }
    }
    let accounts = Accounts::of(manifests, &deployments)?;
    let permissions = Permissions::of(manifests, &accounts)?;

    let mut csv = base.as_object().cloned().unwrap_or_default();
    let metadata = take(&mut csv, "metadata");
    csv.insert(
        "metadata".into(),
        Value::Object(complete_metadata(metadata, manifests, options)?),
    );

    let mut spec = take(&mut csv, "spec");
    let mut definitions = take(&mut spec, "customresourcedefinitions");
    let owned = owned_crds(manifests, definitions.get("owned"))?;
    definitions.insert("owned".into(), json!(owned));
    spec.insert("customresourcedefinitions".into(), Value::Object(definitions));
    spec.insert("version".into(), json!(options.version));
    spec.remove("replaces");
    if let Some(replaces) = &options.replaces {
        spec.insert("replaces".into(), json!(replaces));
    }
    spec.insert("relatedImages".into(), json!(images::related(&deployments)));
    spec.insert("install".into(), install(&deployments, &permissions));
    if !webhooks.definitions.is_empty() {
        spec.insert("webhookdefinitions".into(), json!(webhooks.definitions));
    }
    csv.insert("spec".into(), Value::Object(spec));

    let mut covered = permissions.covered;
    covered.extend(webhooks.covered);
    covered.extend(
        accounts
            .names()
            .map(|account| ("ServiceAccount".to_owned(), account.to_owned())),
    );
    covered.extend(
        deployments
            .iter()
            .map(|deployment| ("Deployment".to_owned(), name(deployment).to_owned())),
    );
    Ok(Generated {
        csv: Value::Object(csv),
        covered,
    })
}

/// OLM makes the value of a label of it.
fn check_name(name: &str) -> Result<(), Error> {
    if is_dns_subdomain(name) && name.len() <= LONGEST_LABEL {
        return Ok(());
    }
    Err(Error::Name {
        place: "the ClusterServiceVersion".to_owned(),
        field: "metadata.name, of package and version,".to_owned(),
        value: name.to_owned(),
        accepted: "accepted are at most 63 lowercase letters, digits, dashes and dots, with letters or digits around each dot",
    })
}

fn check_deployment(deployment: &Value) -> Result<(), Error> {
    if is_dns_subdomain(name(deployment)) {
        return Ok(());
    }
    Err(Error::Name {
        place: label(deployment),
        field: "metadata.name".to_owned(),
        value: name(deployment).to_owned(),
        accepted: SUBDOMAIN,
    })
}

fn complete_metadata(
    mut metadata: Map<String, Value>,
    manifests: &Manifests,
    options: &Options,
) -> Result<Map<String, Value>, Error> {
    metadata.insert("name".into(), json!(options.name()));
    metadata.remove("namespace");
    forget_the_server(&mut metadata);
    let mut annotations = take(&mut metadata, "annotations");
    annotations.insert("alm-examples".into(), json!(examples(manifests)?));
    if let Some(image) = &options.image {
        annotations.insert("containerImage".into(), json!(image));
    }
    if let Some(Value::String(image)) = annotations.get_mut("containerImage")
        && let Some(pinned) = options.digests.get(image)
    {
        pinned.clone_into(image);
    }
    metadata.insert("annotations".into(), Value::Object(annotations));
    Ok(metadata)
}

fn deployments(manifests: &Manifests, base: &Value, options: &Options) -> Result<Vec<Value>, Error> {
    let mut deployments: Vec<Value> = manifests.of_kind("apps", "Deployment").cloned().collect();
    if deployments.is_empty() {
        return Err(Error::NoDeployment);
    }
    if let Some(image) = &options.image {
        let old = text(base, "/metadata/annotations/containerImage");
        if old.is_empty() {
            let containers = deployments
                .iter()
                .flat_map(|it| list(it, "/spec/template/spec/containers"));
            let images: BTreeSet<&str> = containers.map(|container| text(container, "/image")).collect();
            return Err(Error::WhichImage {
                image: image.clone(),
                images: images.into_iter().map(str::to_owned).collect(),
            });
        }
        let places = deployments
            .iter_mut()
            .map(|deployment| images::replace(deployment, old, image));
        if places.sum::<usize>() == 0 {
            return Err(Error::NoSuchImage {
                old: old.to_owned(),
                new: image.clone(),
            });
        }
    }
    Ok(deployments)
}

fn install(deployments: &[Value], permissions: &Permissions) -> Value {
    let deployments: Vec<Value> = deployments.iter().map(install_deployment).collect();
    let mut spec = json!({"deployments": deployments});
    for (field, entries) in [
        ("permissions", &permissions.namespaced),
        ("clusterPermissions", &permissions.cluster),
    ] {
        if !entries.is_empty() {
            spec[field] = json!(entries);
        }
    }
    json!({"strategy": "deployment", "spec": spec})
}

fn install_deployment(deployment: &Value) -> Value {
    let mut entry = json!({"name": name(deployment), "spec": deployment["spec"]});
    if let Some(labels) = deployment.pointer("/metadata/labels") {
        entry["label"] = labels.clone();
    }
    entry
}

/// The samples of our own kinds, as the JSON text that OLM's consoles offer for a new object. Their namespaces go: whoever
/// takes one up chooses a namespace.
fn examples(manifests: &Manifests) -> Result<String, Error> {
    let groups: BTreeSet<&str> = crds(manifests).map(|crd| text(crd, "/spec/group")).collect();
    let mut examples = Vec::new();
    for manifest in manifests.iter() {
        let body = &manifest.body;
        if !groups.contains(api_group(body)) {
            continue;
        }
        if !crds(manifests).any(|crd| serves(crd, body)) {
            return Err(Error::ForeignSample {
                kind: text(body, "/kind").to_owned(),
                name: name(body).to_owned(),
                api_version: text(body, "/apiVersion").to_owned(),
            });
        }
        let mut example = body.clone();
        if let Some(metadata) = example.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("namespace");
            forget_the_server(metadata);
        }
        examples.push(example);
    }
    serde_json::to_string_pretty(&examples).map_err(|error| Error::Unwritable(error.to_string()))
}

fn serves(crd: &Value, body: &Value) -> bool {
    serving(crd, body).is_some()
}

/// The version of a definition that an object is of.
fn serving<'a>(crd: &'a Value, body: &Value) -> Option<&'a Value> {
    let is_of =
        text(crd, "/spec/group") == api_group(body) && text(crd, "/spec/names/kind") == text(body, "/kind");
    let mut versions = versions(crd).filter(|_| is_of);
    versions.find(|version| text(version, "/name") == api_version(body))
}

/// How samples break the schemas of their definitions, each with the file and the field: whoever creates such an example as it is gets an error. They make a bundle
/// all the same.
pub fn broken_samples(manifests: &Manifests) -> Vec<String> {
    let mut broken = Vec::new();
    for manifest in manifests.iter() {
        let body = &manifest.body;
        let version = crds(manifests).find_map(|crd| serving(crd, body));
        let Some(schema) = version.and_then(|version| version.pointer("/schema/openAPIV3Schema")) else {
            continue;
        };
        let place = manifest.source.display();
        let told = breaches(schema, body).into_iter();
        broken.extend(told.map(|why| format!("{place}: the example {}: {why}", label(body))));
    }
    broken
}

/// What the manifests say of service accounts and their rights, and no ClusterServiceVersion can, each with the file. They make a bundle all the same.
///
/// # Errors
/// As [`generate`], of service accounts and their rights.
pub fn not_carried(manifests: &Manifests) -> Result<Vec<String>, Error> {
    let deployments: Vec<Value> = manifests.of_kind("apps", "Deployment").cloned().collect();
    let accounts = Accounts::of(manifests, &deployments)?;
    let permissions = Permissions::of(manifests, &accounts)?;
    let is_covered = |role: &str| {
        let role = ("ClusterRole".to_owned(), role.to_owned());
        permissions.covered.contains(&role)
    };
    let mut told = accounts::lost(manifests);
    let strangers = accounts::strangers(manifests, &accounts);
    if strangers.is_empty() {
        told.extend(accounts::without_rights(manifests, &deployments));
    }
    told.extend(strangers);
    told.extend(permissions::to_nothing(manifests));
    told.extend(aggregation::told(manifests, is_covered));
    Ok(told)
}

/// The CustomResourceDefinitions among the manifests.
pub fn crds(manifests: &Manifests) -> impl Iterator<Item = &Value> {
    manifests.of_kind("apiextensions.k8s.io", "CustomResourceDefinition")
}

fn versions(crd: &Value) -> impl Iterator<Item = &Value> {
    list(crd, "/spec/versions")
        .iter()
        .filter(|version| version["served"] == json!(true))
}

/// One description per served version, sorted by name and version. A ClusterServiceVersion that owned another would stay Pending
/// in OLM ("CRD version not served"), and the validator of operator-framework/api asks for one version of each definition only.
/// What the base says of it (`displayName`, `resources`, descriptors of the author's own) wins.
fn owned_crds(manifests: &Manifests, told: Option<&Value>) -> Result<Vec<Value>, Error> {
    let told = told.map(|told| list(told, "")).unwrap_or_default();
    let mut owned = Vec::new();
    for crd in crds(manifests) {
        for version in versions(crd) {
            let mut description = describe(crd, version)?;
            let same = |told: &&Value| {
                ["name", "version", "kind"]
                    .iter()
                    .all(|key| told[key] == description[*key])
            };
            if let (Some(Value::Object(told)), Some(fields)) =
                (told.iter().find(same), description.as_object_mut())
            {
                fields.extend(told.clone());
            }
            owned.push(description);
        }
    }
    owned.sort_by_key(|crd| (text(crd, "/name").to_owned(), text(crd, "/version").to_owned()));
    Ok(owned)
}

fn describe(crd: &Value, version: &Value) -> Result<Value, Error> {
    let (crd_name, version_name) = (name(crd), text(version, "/name"));
    let schema = version
        .pointer("/schema/openAPIV3Schema")
        .ok_or_else(|| Error::NoSchema {
            crd: crd_name.to_owned(),
            version: version_name.to_owned(),
        })?;
    let kind = text(crd, "/spec/names/kind");
    let mut description =
        json!({"name": crd_name, "version": version_name, "kind": kind, "displayName": kind});
    for (field, value) in [
        ("description", json!(text(schema, "/description"))),
        (
            "specDescriptors",
            json!(descriptors(&schema["properties"]["spec"], Side::Spec)),
        ),
        (
            "statusDescriptors",
            json!(descriptors(&schema["properties"]["status"], Side::Status)),
        ),
    ] {
        if value != json!("") && value != json!([]) {
            description[field] = value;
        }
    }
    Ok(description)
}

/// Takes out of an object's metadata what an API server wrote into one that was read from it. It refuses to create an object with some of that.
pub(super) fn forget_the_server(metadata: &mut Map<String, Value>) {
    for field in OF_THE_SERVER {
        metadata.remove(field);
    }
}

/// Takes the object out of a field; an empty one where there is none.
fn take(map: &mut Map<String, Value>, field: &str) -> Map<String, Value> {
    match map.remove(field) {
        Some(Value::Object(object)) => object,
        _ => Map::new(),
    }
}
