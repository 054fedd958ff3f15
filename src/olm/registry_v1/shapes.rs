//! Whether fields of the ClusterServiceVersion that its schema requires are there. What they hold [`super::types`] looks at.

use serde_json::{Value, json};

use super::read::Object;
use crate::olm::findings::{Finding, bundle as codes};
use crate::olm::manifests::list;
use crate::olm::pointer::dotted;

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

fn rules(csv: &Object, found: &mut Vec<Finding>) {
    for field in ["permissions", "clusterPermissions"] {
        let at = format!("/spec/install/spec/{field}");
        for (index, entry) in csv.list(&at).iter().enumerate() {
            for (number, rule) in list(entry, "/rules").iter().enumerate() {
                let pointer = format!("{at}/{index}/rules/{number}");
                // One that is none is told by its type
                let is_without = rule.is_object() && (rule["verbs"].is_null() || rule["verbs"] == json!([]));
                if !is_without {
                    continue;
                }
                found.push(csv.finding(
                    &codes::CSV_FIELD,
                    &pointer,
                    format!("{}: it has no verbs", dotted(&pointer)),
                ));
            }
        }
    }
}
