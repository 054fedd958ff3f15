//! SARIF 2.1.0, which code hosts show beside the lines.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{Finding, Place, codes};
use crate::olm::encoding;

/// What a relative address starts from: the root of the repository, as code hosts take it.
const ROOT: &str = "%SRCROOT%";
/// By this name GitHub knows a finding again in another run.
const FINGERPRINT: &str = "primaryLocationLineHash";

pub(super) fn of(findings: &[Finding]) -> Value {
    let used = codes().filter(|code| findings.iter().any(|finding| finding.code == code.name));
    let rules: Vec<Value> = used
        .map(|code| {
            json!({
                "id": code.name,
                "shortDescription": {"text": code.title},
                "fullDescription": {"text": code.why},
                "help": {"text": code.remedy},
                "defaultConfiguration": {"level": code.severity},
            })
        })
        .collect();
    let mut seen = BTreeMap::new();
    let results: Vec<Value> = findings
        .iter()
        .map(|finding| {
            json!({
                "ruleId": finding.code,
                "level": finding.severity,
                "message": {"text": format!("{}. {}", finding.message, finding.remedy)},
                "locations": [{"physicalLocation": location(&finding.place)}],
                "partialFingerprints": {FINGERPRINT: fingerprint(finding, &mut seen)},
            })
        })
        .collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "roadstead",
                "version": env!("CARGO_PKG_VERSION"),
                "informationUri": env!("CARGO_PKG_REPOSITORY"),
                "rules": rules,
            }},
            "results": results,
        }],
    })
}

fn location(place: &Place) -> Value {
    let mut artifact = json!({"uri": uri(&place.file)});
    if place.file.is_relative() {
        artifact["uriBaseId"] = json!(ROOT);
    }
    let mut location = json!({"artifactLocation": artifact});
    if place.line > 0 {
        location["region"] = json!({"startLine": place.line});
    }
    location
}

/// As RFC 3986 has it. A colon in the first part of a relative one would end the name of a scheme, so it is escaped wherever it is.
fn uri(file: &Path) -> String {
    let scheme = if file.is_absolute() { "file://" } else { "" };
    let path = encoding::escaped(file.as_os_str().as_bytes(), b"-._~/", '%');
    format!("{scheme}{path}")
}

/// What stays the same when lines move: rule, file and message, and the number among those that are alike, as GitHub counts them.
fn fingerprint(finding: &Finding, seen: &mut BTreeMap<String, usize>) -> String {
    let file = uri(&finding.place.file);
    let hash = Sha256::digest([finding.code, &file, &finding.message].join("\0"));
    let shown = encoding::hex(&hash[..8]);
    let count = seen.entry(shown.clone()).or_default();
    *count += 1;
    format!("{shown}:{count}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rstest::rstest;

    use super::*;
    use crate::olm::findings::catalog::ICON;

    #[rstest]
    #[case("catalog/a/catalog.yaml", "catalog/a/catalog.yaml")]
    #[case("sp ace/w/ä#1.yaml", "sp%20ace/w/%C3%A4%231.yaml")]
    #[case("a:b/100%?.yaml", "a%3Ab/100%25%3F.yaml")]
    #[case("/tmp/a b.yaml", "file:///tmp/a%20b.yaml")]
    fn the_address_of_a_file_is_a_uri(#[case] file: &str, #[case] expected: &str) {
        assert_eq!(uri(Path::new(file)), expected);
    }

    #[test]
    fn a_relative_address_says_what_it_starts_from() {
        let at = |file: &str, line| {
            location(&Place {
                file: file.into(),
                line,
            })
        };
        let relative = json!({"artifactLocation": {"uri": "a.yaml", "uriBaseId": "%SRCROOT%"}, "region": {"startLine": 3}});
        assert_eq!(at("a.yaml", 3), relative);
        assert_eq!(
            at("/a.yaml", 0),
            json!({"artifactLocation": {"uri": "file:///a.yaml"}})
        );
    }

    /// Whoever closes one on a code host closes that one.
    #[test]
    fn a_finding_is_known_again_when_lines_move_and_is_no_other() {
        let at = |line, message: &str| {
            Finding::new(
                &ICON,
                &Place {
                    file: "a.yaml".into(),
                    line,
                },
                message,
            )
        };
        let prints = |findings: &[Finding]| -> Vec<String> {
            let told = of(findings);
            let results = told["runs"][0]["results"].as_array().unwrap().iter();
            let prints = results.map(|result| result["partialFingerprints"][FINGERPRINT].as_str().unwrap());
            prints.map(str::to_owned).collect()
        };
        let before = prints(&[at(1, "a"), at(2, "b"), at(3, "a")]);
        assert_eq!(before, prints(&[at(7, "a"), at(8, "b"), at(9, "a")]));
        assert_eq!(before.iter().collect::<BTreeSet<_>>().len(), 3, "{before:?}");
    }
}
