//! `opm validate` is the judge of our verdicts on catalogs: the same, or a difference that is argued.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "support/broken_catalogs.rs"]
mod broken_catalogs;
#[allow(dead_code, reason = "each binary uses what it needs of this")]
#[path = "support/catalogs.rs"]
mod catalogs;
#[path = "support/opm.rs"]
mod opm;

use std::path::Path;
use std::process::Command;

use broken_catalogs::{Broken, all, plain};
use roadstead::olm::fbc::validate;
use roadstead::olm::findings::{CODES, Finding, Severity};

/// Whether upstream refuses a catalog, and its words.
fn refused_by_opm(opm: &Path, folder: &Path) -> Option<String> {
    let output = Command::new(opm).arg("validate").arg(folder).output().unwrap();
    (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

fn is_error(finding: &Finding) -> bool {
    finding.severity == Severity::Error
}

fn written(broken: &Broken) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in &broken.files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

#[test]
fn each_broken_rule_is_found_and_upstream_judges_as_we_do_or_the_difference_is_argued() {
    let opm = opm::program();
    let mut wrong = Vec::new();
    for broken in all() {
        let folder = written(&broken);
        let findings = validate(folder.path()).unwrap();
        let codes: Vec<&str> = findings.iter().map(|finding| finding.code).collect();
        if !codes.contains(&broken.code) {
            wrong.push(format!(
                "{}: {} is not found: {findings:#?}",
                broken.name, broken.code
            ));
        }
        let ours = findings.iter().any(is_error);
        let theirs = refused_by_opm(&opm, folder.path());
        let agrees = ours == theirs.is_some();
        let is_mild = broken.differs.is_some() && !ours && theirs.is_none();
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
    let opm = opm::program();
    for documents in [plain(), catalogs::rich()] {
        let folder = tempfile::tempdir().unwrap();
        catalogs::write(folder.path(), &documents);
        let errors: Vec<Finding> = validate(folder.path())
            .unwrap()
            .into_iter()
            .filter(is_error)
            .collect();
        assert_eq!(errors, []);
        assert_eq!(refused_by_opm(&opm, folder.path()), None);
    }
}

#[test]
fn each_code_is_broken_by_a_catalog_of_the_table() {
    let table = all();
    // What an unreadable file is depends on who reads it
    let tried = |code: &str| table.iter().any(|broken| broken.code == code) || code == "file-unreadable";
    let missing: Vec<&str> = CODES
        .iter()
        .map(|code| code.name)
        .filter(|code| !tried(code))
        .collect();
    assert_eq!(missing, [""; 0]);
}

#[test]
fn a_finding_names_the_line_and_all_are_told_at_once() {
    let mut documents = plain();
    documents[1]["entries"][1]["skips"] = serde_json::json!([""]);
    documents[3]["image"] = serde_json::json!("a b");
    documents.push(catalogs::bundle("a", "1.3.0", &[]));
    let folder = tempfile::tempdir().unwrap();
    catalogs::write(folder.path(), &documents);
    let text = std::fs::read_to_string(folder.path().join("catalog.json")).unwrap();
    let line = |at: usize| text.lines().nth(at - 1).unwrap().trim().to_owned();
    let findings = validate(folder.path()).unwrap();
    let told: Vec<(&str, String)> = findings.iter().map(|it| (it.code, line(it.place.line))).collect();
    let expected = [
        ("skip-empty", r#""name": "a.v1.1.0","#),
        ("image-reference", r#""image": "a b","#),
        ("bundle-without-entry", "{"),
    ];
    for (code, at) in expected {
        assert!(
            told.iter().any(|(found, line)| *found == code && line == at),
            "{code} at {at}: {told:?}"
        );
    }
}
