//! Upstream's validators are the judge of our verdicts on bundles: the same, or a difference that is argued.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "support/broken_bundles.rs"]
mod broken_bundles;
#[path = "support/bundle_judge.rs"]
mod judge;
#[path = "support/platform_bundles.rs"]
mod platform_bundles;
#[path = "support/verdicts.rs"]
mod verdicts;

use std::path::{Path, PathBuf};

use broken_bundles::{Files, all, plain, put};
use platform_bundles::{Case, inspected};
use roadstead::olm::findings::Finding;
use roadstead::olm::registry_v1::{Bundle, Suite, validate, validate_platforms};
use roadstead::olm::yaml;
use serde_json::{Value, json};

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
        let theirs = refused(folder.path(), broken.suites);
        wrong.extend(verdicts::wrong(
            (broken.name, broken.code, broken.differs),
            &findings,
            (!theirs.is_empty()).then_some(&theirs),
        ));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_valid_is_so_for_both() {
    let folder = tempfile::tempdir().unwrap();
    plain().write(folder.path());
    assert_eq!(validate(folder.path(), &Suite::ALL).unwrap(), []);
    assert_eq!(refused(folder.path(), &Suite::ALL), [""; 0]);
    for ours in ["bundle", "examples/greeter/bundle"] {
        let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join(ours);
        let findings = validate(&ours, &[Suite::OperatorHub]).unwrap();
        let errors = findings.iter().filter(|finding| verdicts::is_error(finding));
        assert_eq!(errors.count(), 0, "{findings:#?}");
        assert_eq!(refused(&ours, &[Suite::OperatorHub]), [""; 0]);
    }
}

/// Each field of a rich bundle with a value of each other type.
fn mistyped() -> Vec<(String, Files)> {
    let values = [json!("x y"), json!(7), json!(true), json!(["a"]), json!({"a": 1})];
    let mut all = Vec::new();
    for (name, document) in [("csv", rich().csv), ("crd", rich().crd)] {
        for pointer in pointers(&document) {
            let is = document.pointer(&pointer).unwrap();
            for value in &values {
                if std::mem::discriminant(is) == std::mem::discriminant(value) && !value.is_string() {
                    continue;
                }
                let mut files = rich();
                let changed = if name == "csv" {
                    &mut files.csv
                } else {
                    &mut files.crd
                };
                *changed.pointer_mut(&pointer).unwrap() = value.clone();
                all.push((format!("{name}{pointer} is {value}"), files));
            }
        }
    }
    all
}

/// Those of all values but the whole, and what says what the document is.
fn pointers(document: &Value) -> Vec<String> {
    let inner: Vec<(String, &Value)> = match document {
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(index, item)| (index.to_string(), item))
            .collect(),
        Value::Object(fields) => {
            let named = fields
                .iter()
                .filter(|(name, _)| !["apiVersion", "kind"].contains(&name.as_str()));
            named
                .map(|(name, value)| (name.replace('~', "~0").replace('/', "~1"), value))
                .collect()
        }
        _ => Vec::new(),
    };
    let each = inner.into_iter().flat_map(|(step, value)| {
        let below = pointers(value)
            .into_iter()
            .map(|rest| format!("/{step}{rest}"))
            .collect::<Vec<_>>();
        std::iter::once(format!("/{step}")).chain(below)
    });
    each.collect()
}

/// With one of most things that a bundle may say.
fn rich() -> Files {
    let mut files = plain();
    let spec = &mut files.csv["spec"];
    spec["keywords"] = json!(["widgets"]);
    spec["maturity"] = json!("stable");
    spec["labels"] = json!({"a": "b"});
    spec["annotations"] = json!({"a": "b"});
    spec["selector"] = json!({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]});
    spec["cleanup"] = json!({"enabled": false});
    spec["skips"] = json!(["widgets.v1.0.0"]);
    spec["nativeAPIs"] = json!([{"group": "apps", "version": "v1", "kind": "Deployment"}]);
    let owned = &mut spec["customresourcedefinitions"]["owned"][0];
    owned["displayName"] = json!("Widget");
    for descriptors in ["specDescriptors", "statusDescriptors", "actionDescriptors"] {
        owned[descriptors] = json!([{"path": "size", "displayName": "Size", "description": "How large.", "x-descriptors": ["urn:a"], "value": 1}]);
    }
    spec["webhookdefinitions"] = json!([{
        "generateName": "widgets.example.org", "type": "ValidatingAdmissionWebhook", "deploymentName": "widgets", "containerPort": 9443, "targetPort": 9443,
        "rules": [{"operations": ["CREATE"], "apiGroups": ["example.org"], "apiVersions": ["v1"], "resources": ["widgets"], "scope": "Namespaced"}],
        "failurePolicy": "Fail", "matchPolicy": "Exact", "objectSelector": {"matchLabels": {"a": "b"}}, "sideEffects": "None", "timeoutSeconds": 5,
        "admissionReviewVersions": ["v1"], "webhookPath": "/validate",
    }]);
    let install = &mut spec["install"]["spec"];
    install["permissions"] = install["clusterPermissions"].clone();
    let deployment = &mut install["deployments"][0];
    deployment["label"] = json!({"a": "b"});
    let pod = &mut deployment["spec"]["template"]["spec"];
    pod["volumes"] = json!([{"name": "a", "emptyDir": {"sizeLimit": "1Mi"}}]);
    pod["terminationGracePeriodSeconds"] = json!(10);
    pod["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]}}});
    let container = &mut pod["containers"][0];
    container["args"] = json!(["--a"]);
    container["env"] = json!([{"name": "A", "value": "b"}]);
    container["ports"] = json!([{"name": "http", "containerPort": 8080}]);
    container["livenessProbe"] = json!({"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 5});
    container["securityContext"] = json!({"runAsUser": 1000, "allowPrivilegeEscalation": false});
    let crd = &mut files.crd["spec"];
    crd["names"]["shortNames"] = json!(["w"]);
    crd["names"]["categories"] = json!(["all"]);
    let version = &mut crd["versions"][0];
    version["subresources"] = json!({"status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}});
    version["additionalPrinterColumns"] = json!([{"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1, "description": "How large."}]);
    let schema = &mut version["schema"]["openAPIV3Schema"];
    schema["required"] = json!(["spec"]);
    schema["description"] = json!("A widget.");
    schema["properties"]["status"] = json!({"type": "object", "properties": {"size": {"type": "integer", "format": "int32", "minimum": 0, "default": 1}}});
    schema["properties"]["spec"]["properties"]["parts"] = json!({
        "type": "array", "maxItems": 3, "items": {"type": "object", "additionalProperties": {"type": "string", "enum": ["a"], "nullable": true}},
        "x-kubernetes-validations": [{"rule": "self.size() < 3", "message": "too many"}],
    });
    files
}

/// Wherever upstream cannot read a field.
#[test]
fn what_is_of_another_type_is_refused_as_upstream_refuses_it() {
    let root = tempfile::tempdir().unwrap();
    let mistyped = mistyped();
    let folders: Vec<PathBuf> = (0..mistyped.len())
        .map(|number| root.path().join(number.to_string()))
        .collect();
    for (folder, (_, files)) in folders.iter().zip(&mistyped) {
        files.write(folder);
    }
    let mut accepted = Vec::new();
    for ((name, _), (folder, theirs)) in mistyped
        .iter()
        .zip(folders.iter().zip(judge::findings_of_each(&folders)))
    {
        let is_refused = theirs
            .iter()
            .any(|result| result["level"] == "error" && result["by"] != "olm");
        let ours = validate(folder, &[]).unwrap();
        if is_refused && !ours.iter().any(verdicts::is_error) {
            accepted.push(format!("{name}: {theirs:?}"));
        }
    }
    assert!(
        accepted.is_empty(),
        "{} of {}:\n{}",
        accepted.len(),
        mistyped.len(),
        accepted.join("\n")
    );
}

/// What people write that looks wrong, and is not.
#[test]
fn what_only_looks_wrong_is_valid_for_both() {
    type Change = fn(&mut Files);
    let deployment = "/spec/install/spec/deployments/0/spec/template/spec";
    let changes: [(&str, Change); 7] = [
        ("notes beside the annotations", |files| {
            files
                .others
                .insert("metadata/README.md", "# Widgets\n\nThey are: [made.\n".to_owned());
            files.others.insert("metadata/.gitkeep", String::new());
            files
                .others
                .insert("metadata/icons/a.png", "\u{fffd}PNG".to_owned());
        }),
        ("a package with a dot", |files| {
            files.annotations["annotations"]["operators.operatorframework.io.bundle.package.v1"] =
                json!("widgets.example");
        }),
        ("no range that is skipped", |files| {
            files.csv["metadata"]["annotations"]["olm.skipRange"] = json!("");
        }),
        ("a number of base 8, and yes", |files| {
            let text = yaml::document(&files.csv).unwrap();
            files.csv = Value::Null;
            let text = text
                .replace("supported: true", "supported: yes")
                .replace("defaultMode: 420", "defaultMode: 0644");
            assert!(text.contains("0644") && text.contains(": yes"), "{text}");
            files.others.insert("manifests/csv.yaml", text);
        }),
        ("--- and a comment", |files| {
            let text = format!("---\n# made by a tool\n{}", yaml::document(&files.crd).unwrap());
            files.crd = Value::Null;
            files.others.insert("manifests/crd.yaml", text);
        }),
        ("tabs before values", |files| {
            let text = yaml::document(&files.crd).unwrap().replace("kind: ", "kind:\t");
            files.crd = Value::Null;
            files.others.insert("manifests/crd.yaml", text);
        }),
        ("a definition as JSON with tabs", |files| {
            let text = serde_json::to_string_pretty(&files.crd)
                .unwrap()
                .replace("  ", "\t");
            files.crd = Value::Null;
            files.others.insert("manifests/crd.json", text);
        }),
    ];
    for (name, change) in changes {
        let mut files = plain();
        let volumes = json!([{"name": "a", "configMap": {"name": "a", "defaultMode": 420}}]);
        put(&mut files.csv, &format!("{deployment}/volumes"), volumes);
        change(&mut files);
        let folder = tempfile::tempdir().unwrap();
        files.write(folder.path());
        assert_eq!(validate(folder.path(), &[]).unwrap(), [], "{name}");
        assert_eq!(refused(folder.path(), &[]), [""; 0], "{name}");
    }
}

/// The gravest that is found; of upstream's words the levels are the same.
fn worst<'a>(levels: impl Iterator<Item = &'a str>) -> &'a str {
    levels.fold("none", |worst, level| match (worst, level) {
        ("error", _) | (_, "error") => "error",
        _ => level,
    })
}

/// What upstream says of the platforms, where Docker knows the images. It is played, since upstream pulls each image whole.
fn upstream_on_platforms(case: &Case, bundle: &Path) -> Vec<Value> {
    let images = tempfile::tempdir().unwrap();
    for (name, image) in &case.images {
        if let Some(document) = inspected(*image) {
            let path = images.path().join(name.replace('/', "_"));
            std::fs::write(path, document.to_string()).unwrap();
        }
    }
    let played = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/multiarch");
    let path = format!("{played}:{}", std::env::var("PATH").unwrap());
    let images = images.path().display().to_string();
    let environment = [("PATH", &*path), ("PLAYED_IMAGES", &*images)];
    let results = judge::findings_amid(bundle, &["multiarch"], &environment);
    let (theirs, others): (Vec<Value>, _) = results
        .into_iter()
        .partition(|result| result["by"] == "multiarch");
    assert!(others.iter().all(|result| result["by"] != "panic"), "{others:?}");
    theirs
}

#[test]
fn platforms_are_judged_as_upstream_does_or_the_difference_is_argued() {
    let mut wrong = Vec::new();
    for case in platform_bundles::all() {
        let folder = tempfile::tempdir().unwrap();
        case.files.write(folder.path());
        let (bundle, _) = Bundle::read(folder.path()).unwrap();
        let ours = validate_platforms(&bundle, &case.platforms());
        let theirs = upstream_on_platforms(&case, folder.path());
        let levels = |finding: &Finding| {
            if verdicts::is_error(finding) {
                "error"
            } else {
                "warning"
            }
        };
        let verdicts = [
            worst(ours.iter().map(levels)),
            worst(theirs.iter().filter_map(|result| result["level"].as_str())),
        ];
        if (verdicts[0] == verdicts[1]) != case.differs.is_none() {
            wrong.push(format!("{}: {verdicts:?}: {ours:#?} {theirs:#?}", case.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
