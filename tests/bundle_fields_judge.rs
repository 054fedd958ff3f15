//! Which fields a ClusterServiceVersion has, and which of them it requires, is asked of upstream's own definition: the schema by which the API server judges one.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "each binary uses what it needs of this")]
#[path = "support/broken_bundles.rs"]
mod broken_bundles;
#[allow(dead_code, reason = "each binary uses what it needs of this")]
#[path = "support/bundle_judge.rs"]
mod judge;
#[path = "support/required_fields.rs"]
mod required_fields;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use broken_bundles::plain;
use required_fields::{required, value};
use roadstead::olm::findings::Finding;
use roadstead::olm::registry_v1::validate;
use serde_json::{Value, json};

/// What is found in a bundle whose ClusterServiceVersion has this specification.
fn found(spec: &Value) -> BTreeSet<Finding> {
    let mut files = plain();
    files.csv["spec"] = spec.clone();
    let folder = tempfile::tempdir().unwrap();
    files.write(folder.path());
    let found = validate(folder.path(), &[]).unwrap().into_iter();
    // Neither the folder's name nor the line is the same another time
    found
        .map(|finding| Finding {
            place: roadstead::olm::findings::Place::default(),
            ..finding
        })
        .collect()
}

#[test]
fn no_field_that_upstream_knows_is_called_unknown() {
    let schema = judge::definition();
    let all = value(&schema["properties"]["spec"], true);
    let found = found(&all);
    let unknown: Vec<&String> = found
        .iter()
        .filter(|finding| finding.code == "csv-field-unknown")
        .map(|finding| &finding.message)
        .collect();
    assert!(unknown.is_empty(), "{unknown:#?}");
    let mut misspelt = all;
    misspelt["install"]["spec"]["deployments"][0]["spec"]["template"]["spec"]["containers"][0]["imagePullPolcy"] =
        json!("a");
    let told = "imagePullPolcy is no known field; perhaps imagePullPolicy is meant, which is there, too";
    let found = self::found(&misspelt);
    assert!(
        found.iter().any(|finding| finding.message.ends_with(told)),
        "{found:#?}"
    );
}

/// What is required and missing is told by some rule: an error where what OLM writes instead is refused by whoever gets it.
#[test]
fn each_field_that_upstream_requires_is_told_of_where_it_is_missing() {
    let schema = judge::definition();
    let mut fields = Vec::new();
    required(
        &schema["properties"]["spec"],
        "",
        &|spec| spec,
        &mut |at, spec| fields.push((at, spec)),
    );
    let (mut untold, mut told) = (Vec::new(), String::new());
    for (at, with) in fields {
        let mut without = with.clone();
        let (parent, name) = at.rsplit_once('/').unwrap();
        let parent = without.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        parent.remove(name).unwrap();
        let before = found(&with);
        let more: Vec<Finding> = found(&without).difference(&before).cloned().collect();
        if more.is_empty() {
            untold.push(at.clone());
        }
        // Of pods, of which there are hundreds, the exceptions
        let is_error = more.iter().any(|finding| finding.severity.to_string() == "error");
        if !at.contains("/template/") || !is_error {
            let codes: BTreeSet<&str> = more.iter().map(|finding| finding.code).collect();
            let codes = codes.into_iter().collect::<Vec<_>>().join(", ");
            let verdict = if is_error { "error" } else { "warning" };
            writeln!(told, "{at}: {verdict}: {codes}").unwrap();
        }
    }
    assert_eq!(untold, [""; 0]);
    insta::assert_snapshot!(told);
}
