//! Our verdict beside upstream's: the same, or a difference that is argued.

use std::fmt::Debug;

use roadstead::olm::findings::{Finding, Severity};

pub fn is_error(finding: &Finding) -> bool {
    finding.severity == Severity::Error
}

/// What is wrong with our findings about something that breaks one rule: its name, the code of that rule, and why upstream judges otherwise, if it does.
/// `theirs` is what upstream refuses of it.
pub fn wrong(
    (name, code, differs): (&str, &str, Option<&str>),
    findings: &[Finding],
    theirs: Option<&impl Debug>,
) -> Vec<String> {
    let mut wrong = Vec::new();
    let codes: Vec<&str> = findings.iter().map(|finding| finding.code).collect();
    if !codes.contains(&code) {
        wrong.push(format!("{name}: {code} is not found: {findings:#?}"));
    }
    let ours = findings.iter().any(is_error);
    let agrees = ours == theirs.is_some();
    let is_mild = differs.is_some() && !ours && theirs.is_none();
    if !agrees && differs.is_none() || agrees && differs.is_some() && !is_mild {
        wrong.push(format!(
            "{name}: we refuse it: {ours} {codes:?}; upstream: {theirs:?}"
        ));
    }
    wrong
}
