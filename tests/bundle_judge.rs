//! Upstream's validators are the judge of our verdicts on bundles: the same, or a difference that is argued.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "support/broken_bundles.rs"]
mod broken_bundles;
#[path = "support/bundle_judge.rs"]
mod judge;

use std::path::Path;

use broken_bundles::{all, plain};
use roadstead::olm::findings::{Severity, bundle};
use roadstead::olm::registry_v1::{Suite, validate};
use serde_json::Value;

const EVERYTHING: [Suite; 4] = [
    Suite::OperatorHub,
    Suite::GoodPractices,
    Suite::OlmV1,
    Suite::Scorecard,
];

/// What upstream refuses of a bundle.
fn refused(folder: &Path, suites: &[Suite]) -> Vec<String> {
    const HUB: &[&str] = &["operatorhubv2", "standardcapabilities", "standardcategories"];
    let optional = suites.iter().flat_map(|suite| match suite {
        Suite::OperatorHub => HUB,
        Suite::GoodPractices => &["good-practices"],
        Suite::OlmV1 | Suite::Scorecard => &[],
    });
    let optional: Vec<&str> = optional.copied().collect();
    let results = judge::findings(folder, &optional);
    // What OLM itself refuses when it installs is no verdict of the validators
    let counts = |result: &&Value| result["level"] == "error" && result["by"] != "olm";
    results.iter().filter(counts).map(Value::to_string).collect()
}

#[test]
fn each_broken_rule_is_found_and_upstream_judges_as_we_do_or_the_difference_is_argued() {
    let mut wrong = Vec::new();
    for broken in all() {
        let folder = tempfile::tempdir().unwrap();
        broken.files.write(folder.path());
        let findings = validate(folder.path(), broken.suites).unwrap();
        let codes: Vec<&str> = findings.iter().map(|finding| finding.code).collect();
        if !codes.contains(&broken.code) {
            wrong.push(format!(
                "{}: {} is not found: {findings:#?}",
                broken.name, broken.code
            ));
        }
        let ours = findings.iter().any(|finding| finding.severity == Severity::Error);
        let theirs = refused(folder.path(), broken.suites);
        let agrees = ours != theirs.is_empty();
        let is_mild = broken.differs.is_some() && !ours && theirs.is_empty();
        if !agrees && broken.differs.is_none() || agrees && broken.differs.is_some() && !is_mild {
            wrong.push(format!(
                "{}: we refuse it: {ours} {codes:?}; upstream: {theirs:?}",
                broken.name
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_valid_is_so_for_both() {
    let folder = tempfile::tempdir().unwrap();
    plain().write(folder.path());
    assert_eq!(validate(folder.path(), &EVERYTHING).unwrap(), []);
    assert_eq!(refused(folder.path(), &EVERYTHING), [""; 0]);
    for ours in ["bundle", "examples/greeter/bundle"] {
        let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join(ours);
        let findings = validate(&ours, &[Suite::OperatorHub]).unwrap();
        let errors = findings
            .iter()
            .filter(|finding| finding.severity == Severity::Error);
        assert_eq!(errors.count(), 0, "{findings:#?}");
        assert_eq!(refused(&ours, &[Suite::OperatorHub]), [""; 0]);
    }
}

#[test]
fn each_code_is_broken_by_a_bundle_of_the_table() {
    let table = all();
    // Which file cannot be read depends on who reads it
    let tried = |code: &str| table.iter().any(|broken| broken.code == code) || code == "manifest-unreadable";
    let missing: Vec<&str> = bundle::ALL
        .iter()
        .map(|code| code.name)
        .filter(|code| !tried(code))
        .collect();
    assert_eq!(missing, [""; 0]);
}
