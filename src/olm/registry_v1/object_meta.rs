//! Rules of an object's metadata, by which the API server refuses it (`ValidateObjectMeta` of apimachinery).

use serde_json::Value;

use super::read::Object;
use crate::olm::contents::label;
use crate::olm::findings::{Finding, bundle as codes, shortened};
use crate::olm::names::{is_label_value, is_qualified_name};
use crate::olm::pointer::{dotted, escaped};

pub(super) fn check(object: &Object, found: &mut Vec<Finding>) {
    let mut wrong = |pointer: &str, value: &Value, accepted: &str| {
        let message = format!(
            "{}: {} is {}; {accepted}",
            label(&object.body),
            dotted(pointer),
            shortened(value)
        );
        found.push(object.finding(&codes::MANIFEST_METADATA, pointer, message));
    };
    let metadata = &object.body["metadata"];
    // That of the ClusterServiceVersion is taken out by OLM
    if !object.is_csv() && !matches!(metadata["namespace"].as_str(), None | Some("")) {
        let accepted = "it must be left out: OLM chooses the namespace";
        wrong("/metadata/namespace", &metadata["namespace"], accepted);
    }
    for (key, value) in metadata["labels"].as_object().into_iter().flatten() {
        let at = format!("/metadata/labels/{}", escaped(key));
        if !is_qualified_name(key) {
            wrong(&at, value, "its key must be like example.org/name");
        }
        if !value.as_str().is_some_and(is_label_value) {
            wrong(
                &at,
                value,
                "it must be text of at most 63 letters, digits, dashes, underscores and dots",
            );
        }
    }
    for (key, value) in metadata["annotations"].as_object().into_iter().flatten() {
        let at = format!("/metadata/annotations/{}", escaped(key));
        if !is_qualified_name(&key.to_ascii_lowercase()) {
            wrong(&at, value, "its key must be like example.org/name");
        }
        // Of the ClusterServiceVersion that is told as a wrong type
        if !value.is_string() && !object.is_csv() {
            wrong(&at, value, "it must be text");
        }
    }
    for (index, finalizer) in object.list("/metadata/finalizers").iter().enumerate() {
        if !finalizer.as_str().is_some_and(is_qualified_name) {
            let accepted = "it must be like example.org/name";
            wrong(&format!("/metadata/finalizers/{index}"), finalizer, accepted);
        }
    }
}
