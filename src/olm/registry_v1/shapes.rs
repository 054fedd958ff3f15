//! Whether fields of the ClusterServiceVersion hold what its schema says, and those that it requires are there.

use std::collections::BTreeSet;

use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::Value;

use super::read::Object;
use crate::olm::findings::{Finding, bundle as codes, shortened};
use crate::olm::manifests::list;
use crate::olm::pointer::{dotted, escaped};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Text,
    Bool,
    Object,
}

/// Fields by their path: `[]` stands for each item of a list, `{}` for each value of a map.
const FIELDS: [(&str, Shape); 46] = [
    ("metadata.annotations.{}", Shape::Text),
    ("metadata.labels.{}", Shape::Text),
    ("spec.displayName", Shape::Text),
    ("spec.description", Shape::Text),
    ("spec.version", Shape::Text),
    ("spec.release", Shape::Text),
    ("spec.maturity", Shape::Text),
    ("spec.minKubeVersion", Shape::Text),
    ("spec.replaces", Shape::Text),
    ("spec.skips.[]", Shape::Text),
    ("spec.keywords.[]", Shape::Text),
    ("spec.maintainers.[].name", Shape::Text),
    ("spec.maintainers.[].email", Shape::Text),
    ("spec.provider.name", Shape::Text),
    ("spec.provider.url", Shape::Text),
    ("spec.links.[].name", Shape::Text),
    ("spec.links.[].url", Shape::Text),
    ("spec.icon.[].base64data", Shape::Text),
    ("spec.icon.[].mediatype", Shape::Text),
    ("spec.labels.{}", Shape::Text),
    ("spec.annotations.{}", Shape::Text),
    ("spec.selector", Shape::Object),
    ("spec.installModes.[].type", Shape::Text),
    ("spec.installModes.[].supported", Shape::Bool),
    ("spec.relatedImages.[].name", Shape::Text),
    ("spec.relatedImages.[].image", Shape::Text),
    ("spec.nativeAPIs.[].group", Shape::Text),
    ("spec.nativeAPIs.[].version", Shape::Text),
    ("spec.nativeAPIs.[].kind", Shape::Text),
    ("spec.customresourcedefinitions.owned.[].name", Shape::Text),
    ("spec.customresourcedefinitions.owned.[].version", Shape::Text),
    ("spec.customresourcedefinitions.owned.[].kind", Shape::Text),
    ("spec.customresourcedefinitions.owned.[].displayName", Shape::Text),
    ("spec.customresourcedefinitions.owned.[].description", Shape::Text),
    (
        "spec.customresourcedefinitions.owned.[].resources.[].kind",
        Shape::Text,
    ),
    (
        "spec.customresourcedefinitions.owned.[].specDescriptors.[].path",
        Shape::Text,
    ),
    (
        "spec.customresourcedefinitions.owned.[].statusDescriptors.[].path",
        Shape::Text,
    ),
    ("spec.customresourcedefinitions.required.[].name", Shape::Text),
    ("spec.customresourcedefinitions.required.[].version", Shape::Text),
    ("spec.customresourcedefinitions.required.[].kind", Shape::Text),
    ("spec.apiservicedefinitions.owned.[].kind", Shape::Text),
    ("spec.apiservicedefinitions.required.[].kind", Shape::Text),
    ("spec.webhookdefinitions.[].generateName", Shape::Text),
    ("spec.install.spec.deployments.[].spec", Shape::Object),
    ("spec.install.spec.permissions.[].serviceAccountName", Shape::Text),
    (
        "spec.install.spec.clusterPermissions.[].serviceAccountName",
        Shape::Text,
    ),
];

/// What is missing is an error of upstream's, too.
const REQUIRED: [&str; 4] = [
    "/spec/displayName",
    "/spec/install",
    "/spec/install/strategy",
    "/spec/install/spec/deployments",
];

pub(super) fn check(csv: &Object, found: &mut Vec<Finding>) {
    for pointer in REQUIRED {
        let is_there = csv.body.pointer(pointer).is_some_and(|value| !is_empty(value));
        let parent = pointer.rsplit_once('/').map_or("", |(parent, _)| parent);
        // What is within what is missing is not told of once more
        if !is_there && csv.body.pointer(parent).is_some() {
            let message = format!("{} is missing", dotted(pointer));
            found.push(csv.finding(&codes::CSV_FIELD, parent, message));
        }
    }
    let mut wrong = BTreeSet::new();
    for (path, shape) in FIELDS {
        let parts: Vec<&str> = path.split('.').collect();
        walk(&csv.body, String::new(), &parts, shape, &mut wrong);
    }
    for (pointer, accepted) in wrong {
        let value = csv.body.pointer(&pointer).unwrap_or(&Value::Null);
        let message = format!(
            "{} is {}; it must be {accepted}",
            dotted(&pointer),
            shortened(value)
        );
        found.push(csv.finding(&codes::CSV_FIELD, &pointer, message));
    }
    rules(csv, found);
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// Follows a path as far as there is something, and notes where it is of another shape.
fn walk(
    value: &Value,
    at: String,
    parts: &[&str],
    shape: Shape,
    wrong: &mut BTreeSet<(String, &'static str)>,
) {
    if value.is_null() {
        return;
    }
    match parts.split_first() {
        None => {
            let (fits, accepted) = match shape {
                Shape::Text => (value.is_string(), "text"),
                Shape::Bool => (value.is_boolean(), "true or false"),
                Shape::Object => (value.is_object(), "an object"),
            };
            if !fits {
                wrong.insert((at, accepted));
            }
        }
        Some((&"[]", rest)) => match value.as_array() {
            None => {
                wrong.insert((at, "a list"));
            }
            Some(items) => {
                for (index, item) in items.iter().enumerate() {
                    walk(item, format!("{at}/{index}"), rest, shape, wrong);
                }
            }
        },
        Some((part, rest)) => match value.as_object() {
            None => {
                wrong.insert((at, "an object"));
            }
            Some(fields) if *part == "{}" => {
                for (key, value) in fields {
                    walk(value, format!("{at}/{}", escaped(key)), rest, shape, wrong);
                }
            }
            Some(fields) => {
                if let Some(value) = fields.get(*part) {
                    walk(value, format!("{at}/{part}"), rest, shape, wrong);
                }
            }
        },
    }
}

fn rules(csv: &Object, found: &mut Vec<Finding>) {
    for field in ["permissions", "clusterPermissions"] {
        let at = format!("/spec/install/spec/{field}");
        for (index, entry) in csv.list(&at).iter().enumerate() {
            for (number, rule) in list(entry, "/rules").iter().enumerate() {
                let pointer = format!("{at}/{index}/rules/{number}");
                let why = match serde_json::from_value::<PolicyRule>(rule.clone()) {
                    Err(error) => error.to_string(),
                    Ok(rule) if rule.verbs.is_empty() => "it has no verbs".to_owned(),
                    Ok(_) => continue,
                };
                found.push(csv.finding(
                    &codes::CSV_FIELD,
                    &pointer,
                    format!("{}: {why}", dotted(&pointer)),
                ));
            }
        }
    }
}
