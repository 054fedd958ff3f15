//! Rules of the examples, which are objects within the text of an annotation.

use std::collections::BTreeSet;

use serde_json::Value;

use super::read::{Bundle, Object};
use super::schema;
use crate::olm::contents::label;
use crate::olm::findings::{Finding, bundle as codes};
use crate::olm::manifests::{api_group, api_version, text};

/// The annotations that hold them; upstream looks at the first that is there.
const ANNOTATIONS: [&str; 2] = ["alm-examples", "olm.examples"];

/// Group, version and kind.
type Api<'a> = (&'a str, &'a str, &'a str);

pub(super) fn check(bundle: &Bundle, csv: &Object, found: &mut Vec<Finding>) {
    let (pointer, examples) = match read(csv) {
        Ok(read) => read,
        Err((pointer, why)) => {
            found.push(csv.finding(&codes::CSV_EXAMPLES, &pointer, why));
            return;
        }
    };
    let provided = provided(csv);
    for example in &examples {
        if !provided.contains(&api(example)) {
            let message = format!(
                "{} is of {}, which the operator does not provide",
                label(example),
                text(example, "/apiVersion")
            );
            found.push(csv.finding(&codes::CSV_EXAMPLES, &pointer, message));
        }
    }
    let shown: BTreeSet<Api<'_>> = examples.iter().map(api).collect();
    for (group, version, kind) in provided.difference(&shown) {
        let message = format!("{kind} of {group}/{version} has no example");
        found.push(csv.finding(&codes::CSV_EXAMPLE_MISSING, &pointer, message));
    }
    for example in &examples {
        let Some(schema) = schema_of(bundle, example) else {
            continue;
        };
        for why in schema::breaches(schema, example) {
            let message = format!("{}: {why}", label(example));
            found.push(csv.finding(&codes::CSV_EXAMPLE_INVALID, &pointer, message));
        }
    }
}

fn api(object: &Value) -> Api<'_> {
    (api_group(object), api_version(object), text(object, "/kind"))
}

/// The examples and where they are; none, and where they would be, if there is no such annotation.
pub(super) fn read(csv: &Object) -> Result<(String, Vec<Value>), (String, String)> {
    let annotations = &csv.body["metadata"]["annotations"];
    let there = ANNOTATIONS.iter().find(|name| annotations[**name].is_string());
    let Some(there) = there else {
        return Ok(("/metadata/annotations".to_owned(), Vec::new()));
    };
    let pointer = format!("/metadata/annotations/{there}");
    let text = annotations[*there].as_str().unwrap_or_default();
    if text.is_empty() {
        return Ok((pointer, Vec::new()));
    }
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Array(examples)) if examples.iter().all(Value::is_object) => Ok((pointer, examples)),
        Ok(_) => Err((pointer, format!("{there} is no list of objects"))),
        Err(error) => Err((pointer, format!("{there} is no JSON: {error}"))),
    }
}

/// What the operator provides, by definitions and by servers of its own.
fn provided(csv: &Object) -> BTreeSet<Api<'_>> {
    let definitions = csv.list("/spec/customresourcedefinitions/owned").iter();
    let definitions = definitions.filter_map(|owned| {
        let (_, group) = text(owned, "/name").split_once('.')?;
        Some((group, text(owned, "/version"), text(owned, "/kind")))
    });
    let services = csv.list("/spec/apiservicedefinitions/owned").iter();
    let services = services.map(|owned| {
        (
            text(owned, "/group"),
            text(owned, "/version"),
            text(owned, "/kind"),
        )
    });
    definitions.chain(services).collect()
}

/// The schema of an object, if the bundle defines it.
pub(super) fn schema_of<'a>(bundle: &'a Bundle, object: &Value) -> Option<&'a Value> {
    let (group, version, kind) = api(object);
    let crd = bundle
        .crds()
        .find(|crd| crd.text("/spec/group") == group && crd.text("/spec/names/kind") == kind)?;
    let versions = crd.list("/spec/versions").iter();
    let mut versions = versions.filter(|known| text(known, "/name") == version);
    versions.next()?.pointer("/schema/openAPIV3Schema")
}
