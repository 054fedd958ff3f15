//! What a catalog says of a bundle so that OLM need not pull its image: what it is, what it offers, what it needs.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{Property, property};
use crate::olm::csv;
use crate::olm::manifests::{Manifests, list, text};

/// The annotation of a ClusterServiceVersion that holds properties as JSON.
const ANNOTATION: &str = "/metadata/annotations/olm.properties";

/// What a catalog tells of a ClusterServiceVersion.
pub(super) const METADATA: &str = "olm.csv.metadata";

/// A kind: group, kind, version.
type Gvk<'a> = (&'a str, &'a str, &'a str);

/// The documents of metadata/ that say of a bundle more than its manifests do. Null is what is not there.
#[derive(Debug, Default)]
pub(super) struct Metadata {
    pub(super) dependencies: Value,
    pub(super) properties: Value,
}

/// Sorted by type and value; the large one comes last, as upstream has it.
pub(super) fn properties(
    manifests: &Manifests,
    csv: &Value,
    package: &str,
    metadata: &Metadata,
) -> Vec<Property> {
    let annotated: Vec<Value> = serde_json::from_str(text(csv, ANNOTATION)).unwrap_or_default();
    let said: Vec<&Value> = annotated
        .iter()
        .chain(list(&metadata.properties, "/properties"))
        .collect();
    // Which package it is of is said once, and the last word counts
    let (packages, said): (Vec<&Value>, Vec<&Value>) = said
        .into_iter()
        .partition(|said| text(said, "/type") == "olm.package");
    let of_package = match packages.last() {
        Some(last) => last["value"].clone(),
        None => own_package(package, csv),
    };
    let mut all = vec![property("olm.package", of_package)];
    let kind = |(group, kind, version): Gvk<'_>| json!({"group": group, "kind": kind, "version": version});
    let provided = provided(manifests, csv).into_iter();
    all.extend(provided.map(|gvk| property("olm.gvk", kind(gvk))));
    let required = required(csv).into_iter();
    all.extend(required.map(|gvk| property("olm.gvk.required", kind(gvk))));
    all.extend(
        said.iter()
            .map(|said| property(text(said, "/type"), said["value"].clone())),
    );
    all.extend(list(&metadata.dependencies, "/dependencies").iter().map(needed));
    let mut seen = BTreeSet::new();
    let mut keyed: Vec<(String, String, Property)> = all
        .into_iter()
        .map(|property| (property.kind.clone(), property.value.to_string(), property))
        // What two of them say is said once
        .filter(|(kind, value, _)| seen.insert((kind.clone(), value.clone())))
        .collect();
    keyed.sort_by(|one, other| (&one.0, &one.1).cmp(&(&other.0, &other.1)));
    let mut properties: Vec<Property> = keyed.into_iter().map(|(_, _, property)| property).collect();
    properties.push(property(METADATA, csv_metadata(csv)));
    properties
}

/// A release may be part of the version of one that takes the place of another: `1.0.0+2`.
fn own_package(package: &str, csv: &Value) -> Value {
    let (version, release) = (text(csv, "/spec/version"), text(csv, "/spec/release"));
    let substitutes = !text(csv, "/metadata/annotations/olm.substitutesFor").is_empty();
    let (version, release) = match version.split_once('+') {
        Some((version, build)) if substitutes && release.is_empty() => (version, build),
        _ => (version, release),
    };
    let mut value = json!({"packageName": package, "version": version});
    if !release.is_empty() {
        value["release"] = json!(release);
    }
    value
}

/// Every version of the definitions that the bundle holds, and its API services.
fn provided<'a>(manifests: &'a Manifests, csv: &'a Value) -> BTreeSet<Gvk<'a>> {
    let versions = csv::crds(manifests).flat_map(|crd| {
        let (group, kind) = (text(crd, "/spec/group"), text(crd, "/spec/names/kind"));
        let versions = list(crd, "/spec/versions").iter();
        let versions = versions.map(|version| text(version, "/name"));
        // Where the first version of definitions itself has one alone
        let only = text(crd, "/spec/version");
        let versions = versions.chain((!only.is_empty()).then_some(only));
        versions.map(move |version| (group, kind, version))
    });
    versions.chain(services(csv, "owned")).collect()
}

/// What the ClusterServiceVersion says that others have to bring.
fn required(csv: &Value) -> BTreeSet<Gvk<'_>> {
    let definitions = list(csv, "/spec/customresourcedefinitions/required").iter();
    let definitions = definitions.map(|crd| {
        let group = text(crd, "/name").split_once('.').map_or("", |(_, group)| group);
        (group, text(crd, "/kind"), text(crd, "/version"))
    });
    definitions.chain(services(csv, "required")).collect()
}

fn services<'a>(csv: &'a Value, which: &str) -> impl Iterator<Item = Gvk<'a>> {
    let services = list(csv, &format!("/spec/apiservicedefinitions/{which}")).iter();
    services.map(|service| {
        let of = |field| text(service, field);
        (of("/group"), of("/kind"), of("/version"))
    })
}

/// A dependency as the property that OLM resolves by. Types that nobody knows stay as they are.
fn needed(dependency: &Value) -> Property {
    let value = &dependency["value"];
    match text(dependency, "/type") {
        "olm.gvk" => {
            let of = |field| text(value, field);
            let gvk = json!({"group": of("/group"), "kind": of("/kind"), "version": of("/version")});
            property("olm.gvk.required", gvk)
        }
        "olm.package" => {
            let range = text(value, "/version");
            let required = json!({"packageName": text(value, "/packageName"), "versionRange": range});
            property("olm.package.required", required)
        }
        other => property(other, value.clone()),
    }
}

/// What a console shows of the package, so that nobody need pull the image for it. Upstream writes the three structures even when
/// they are empty.
pub(super) fn csv_metadata(csv: &Value) -> Value {
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
