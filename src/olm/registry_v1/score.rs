//! The scorecard's tests, as far as a bundle alone shows: each example against its definition and against what consoles know of it.

use serde_json::Value;

use super::examples::{read, schema_of};
use super::read::{Bundle, Object};
use crate::olm::findings::{Finding, bundle as codes};
use crate::olm::manifests::{api_version, list, text};
use crate::olm::pointer::escaped;

const OWNED: &str = "/spec/customresourcedefinitions/owned";

pub(super) fn check(bundle: &Bundle, csv: &Object, found: &mut Vec<Finding>) {
    for (index, owned) in csv.list(OWNED).iter().enumerate() {
        if list(owned, "/resources").is_empty() {
            let message = format!(
                "{} {} names no resources",
                text(owned, "/kind"),
                text(owned, "/version")
            );
            found.push(csv.finding(&codes::SCORE_RESOURCES, &format!("{OWNED}/{index}"), message));
        }
    }
    // One that cannot be read was told already
    let Ok((pointer, examples)) = read(csv) else {
        return;
    };
    for example in &examples {
        validation(bundle, csv, &pointer, example, found);
        descriptors(csv, example, found);
    }
}

fn fields<'a>(example: &'a Value, part: &str) -> impl Iterator<Item = &'a String> {
    example[part]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, _)| name)
}

fn validation(bundle: &Bundle, csv: &Object, pointer: &str, example: &Value, found: &mut Vec<Finding>) {
    let Some(schema) = schema_of(bundle, example) else {
        return;
    };
    for part in ["spec", "status"] {
        for name in fields(example, part) {
            let known = schema.pointer(&format!("/properties/{part}/properties/{}", escaped(name)));
            if known.is_none() {
                let message = format!("the schema of {} knows no {part}.{name}", text(example, "/kind"));
                found.push(csv.finding(&codes::SCORE_VALIDATION, pointer, message));
            }
        }
    }
}

fn descriptors(csv: &Object, example: &Value, found: &mut Vec<Finding>) {
    let kind = text(example, "/kind");
    let same =
        |owned: &&Value| text(owned, "/kind") == kind && text(owned, "/version") == api_version(example);
    let all = csv.list(OWNED);
    let Some(index) = all.iter().position(|owned| same(&owned)) else {
        return;
    };
    let pointer = format!("{OWNED}/{index}");
    let described = list(&all[index], "/specDescriptors");
    for name in fields(example, "spec") {
        if !described.iter().any(|descriptor| descriptor["path"] == **name) {
            let message = format!("spec.{name} of {kind} has no descriptor");
            found.push(csv.finding(&codes::SCORE_SPEC_DESCRIPTOR, &pointer, message));
        }
    }
    let has_status = fields(example, "status").next().is_some();
    if has_status && list(&all[index], "/statusDescriptors").is_empty() {
        let message = format!("the status of {kind} has no descriptor");
        found.push(csv.finding(&codes::SCORE_STATUS_DESCRIPTOR, &pointer, message));
    }
}
