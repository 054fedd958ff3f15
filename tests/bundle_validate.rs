//! `roadstead bundle validate` as somebody uses it: everything at once, each with its line, and an exit code that a pipeline can go by.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "each binary uses what it needs of this")]
#[path = "support/broken_bundles.rs"]
mod broken_bundles;

use assert_cmd::Command;
use broken_bundles::{Files, plain};
use serde_json::{Value, json};

fn validate(folder: &std::path::Path, arguments: &[&str]) -> (bool, String, String) {
    let mut command = Command::cargo_bin("roadstead").unwrap();
    let output = command
        .args(["bundle", "validate"])
        .arg(folder)
        .args(arguments)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.success(), text(output.stdout), text(output.stderr))
}

#[test]
fn all_that_is_wrong_is_told_at_once_with_the_line_of_each() {
    let mut files = plain();
    files.csv["spec"]["minKubeVersion"] = json!("1.28");
    files.csv["spec"]["installModes"][1]["supported"] = json!(false);
    files.crd["spec"]["scope"] = json!("Everywhere");
    let folder = tempfile::tempdir().unwrap();
    files.write(folder.path());
    let (is_valid, found, _) = validate(folder.path(), &["--output", "json"]);
    assert!(!is_valid);
    let report: Value = serde_json::from_str(&found).unwrap();
    let line_of = |code: &str| {
        let findings = report["findings"].as_array().unwrap();
        let finding = findings.iter().find(|finding| finding["code"] == code);
        let finding = finding.unwrap_or_else(|| panic!("{code}: {found}"));
        let text = std::fs::read_to_string(finding["file"].as_str().unwrap()).unwrap();
        let line = usize::try_from(finding["line"].as_u64().unwrap()).unwrap();
        text.lines().nth(line - 1).unwrap().trim().to_owned()
    };
    assert_eq!(line_of("csv-min-kube-version"), "minKubeVersion: '1.28'");
    assert_eq!(line_of("csv-install-modes"), "installModes:");
    assert_eq!(line_of("crd-names"), "scope: Everywhere");
    assert_eq!(report["count"], json!({"errors": 3, "warnings": 0, "notes": 0}));
}

#[test]
fn a_warning_fails_only_where_that_is_asked_for() {
    let mut files = plain();
    files.csv["metadata"]["annotations"]["alm-examples"] = json!("[]");
    let folder = tempfile::tempdir().unwrap();
    files.write(folder.path());
    let (is_valid, found, _) = validate(folder.path(), &[]);
    assert!(is_valid && found.contains("[csv-example-missing]"), "{found}");
    let (is_valid, _, why) = validate(folder.path(), &["--strict"]);
    assert!(!is_valid && why.contains("1 warning, with --strict"), "{why}");
}

/// What is written first is not what counts, and nobody else says so.
#[test]
fn a_field_that_is_there_twice_is_told_at_the_second_which_is_the_one_that_counts() {
    let folder = tempfile::tempdir().unwrap();
    plain().write(folder.path());
    let account = "apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: a\n  labels: {app: 'no label'}\n  labels:\n    app: b\n";
    let path = folder.path().join("manifests/account.yaml");
    std::fs::write(&path, account).unwrap();
    let (is_valid, found, _) = validate(folder.path(), &[]);
    assert!(is_valid, "{found}");
    let told = format!(
        "{}:6: warning: metadata.labels is there twice; the last one counts [manifest-twice]",
        path.display()
    );
    assert!(found.contains(&told), "{found}");
}

#[test]
fn what_not_every_bundle_keeps_is_looked_at_on_request() {
    let mut files = plain();
    files.csv["spec"]["provider"] = json!({});
    files.csv["spec"]["installModes"] = json!([{"type": "OwnNamespace", "supported": true}]);
    let folder = tempfile::tempdir().unwrap();
    files.write(folder.path());
    assert!(validate(folder.path(), &[]).0);
    let (is_valid, found, _) = validate(folder.path(), &["--with", "operatorhub,olm-v1"]);
    assert!(!is_valid);
    for code in ["hub-provider", "v1-install-mode"] {
        assert!(found.contains(&format!("[{code}]")), "{found}");
    }
}

#[test]
fn another_hub_has_categories_of_its_own() {
    let mut files = plain();
    files.csv["metadata"]["annotations"]["categories"] = json!("Harbours, Database");
    let folder = tempfile::tempdir().unwrap();
    files.write(folder.path());
    let hub = ["--with", "operatorhub"];
    let (_, found, _) = validate(folder.path(), &hub);
    assert!(
        found.contains("categories names \"Harbours\"") && !found.contains("names \"Database\""),
        "{found}"
    );
    let list = folder.path().join("categories.json");
    let named = |text: &str| {
        std::fs::write(&list, text).unwrap();
        let option = ["--categories", list.to_str().unwrap()];
        validate(folder.path(), &[&hub[..], &option].concat())
    };
    let (_, found, _) = named(r#"{"categories": ["Harbours", "Piers"]}"#);
    assert!(
        found.contains("names \"Database\"; accepted are Harbours, Piers"),
        "{found}"
    );
    assert!(!found.contains("names \"Harbours\""), "{found}");
    let (is_valid, _, why) = named(r#"["Harbours"]"#);
    assert!(
        !is_valid && why.contains("--categories is") && why.contains("accepted is {"),
        "{why}"
    );
}

/// A bundle that is changed, the code of the one thing that is then wrong with it, and what is said of it.
type Mistake = (&'static str, fn(&mut Files), &'static str, &'static str);

/// One mistake is told once, in words that fit it.
#[test]
fn a_mistake_is_told_once_and_what_helps_against_it() {
    let mistakes: [Mistake; 21] = [
        (
            "bundle-layout",
            |files| files.annotations = Value::Null,
            "the folder metadata/ is missing",
            "Make the folder metadata/ with an annotations.yaml",
        ),
        (
            "bundle-layout",
            |files| {
                (files.csv, files.crd) = (Value::Null, Value::Null);
            },
            "the folder manifests/ is missing",
            "Put the manifests into manifests/",
        ),
        (
            "csv-count",
            |files| {
                (files.csv, files.crd) = (Value::Null, Value::Null);
                files.others.insert("manifests/map.yaml", MAP.to_owned());
            },
            "there is no ClusterServiceVersion",
            "Add one to manifests/",
        ),
        (
            "manifest-syntax",
            |files| {
                (files.csv, files.crd) = (Value::Null, Value::Null);
                files.others.insert("manifests/csv.yaml", "kind: [\n".to_owned());
            },
            "",
            "Mend the syntax at that line.",
        ),
        (
            "manifest-syntax",
            |files| {
                files.crd = Value::Null;
                files.others.insert("manifests/crd.yaml", "kind: [\n".to_owned());
            },
            "",
            "Mend the syntax at that line.",
        ),
        (
            "icon",
            |files| files.csv["spec"]["icon"] = json!([{"base64data": "", "mediatype": ""}]),
            "spec.icon[0] is empty",
            "Set `base64data` and `mediatype`",
        ),
        (
            "csv-name-version",
            |files| files.csv["metadata"]["name"] = json!("widgets.1.2.1"),
            "metadata.name is widgets.1.2.1, and spec.version is 1.2.0",
            "",
        ),
        (
            "manifest-syntax",
            |files| {
                files.others.insert("manifests/empty.yaml", String::new());
            },
            "the file holds no object",
            "Take the file out",
        ),
        (
            "manifest-syntax",
            |files| {
                files.others.insert(
                    "manifests/README.md",
                    "# Widgets\n\nMade here.\n\n---\nIn: part: [two](a)\n".to_owned(),
                );
            },
            "the document is no object",
            "Take the file out of manifests/",
        ),
        (
            "csv-install-modes",
            |files| files.csv["spec"]["installModes"][1]["supported"] = json!(false),
            "of spec.installModes none is supported",
            "Set `supported: true` for at least one",
        ),
        (
            "bundle-annotation",
            |files| {
                files.annotations = Value::Null;
                let notes = "properties: [{type: a, value: 1}]\n";
                files.others.insert("metadata/properties.yaml", notes.to_owned());
            },
            "annotations.yaml is missing",
            "Write metadata/annotations.yaml",
        ),
        (
            "bundle-annotation",
            |files| rename(files, "package", "pakage"),
            "bundle.package.v1 is missing; perhaps operators.operatorframework.io.bundle.pakage.v1 is meant",
            "",
        ),
        (
            "bundle-channels",
            |files| rename(files, "channels", "chanels"),
            "bundle.channels.v1 is missing; perhaps operators.operatorframework.io.bundle.chanels.v1 is meant",
            "",
        ),
        (
            "csv-field",
            |files| files.csv["spec"]["version"] = json!(1.0),
            "spec.version is 1.0; it must be text: put it in quotes",
            "",
        ),
        (
            "csv-field",
            |files| files.csv["spec"]["minKubeVersion"] = json!(1.3),
            "spec.minKubeVersion is 1.3; it must be text: put it in quotes",
            "",
        ),
        (
            "csv-field",
            |files| deployment(files)["spec"]["replicas"] = json!("one"),
            "spec.replicas is \"one\"; it must be a whole number",
            "",
        ),
        (
            "csv-field",
            |files| {
                let permission = &mut files.csv["spec"]["install"]["spec"]["clusterPermissions"][0];
                permission["serviceAcountName"] = permission["serviceAccountName"].take();
            },
            "serviceAccountName is missing; perhaps serviceAcountName is meant for it",
            "",
        ),
        (
            "csv-field-unknown",
            |files| deployment(files)["spec"]["replicsa"] = json!(1),
            "spec.replicsa is no known field; perhaps replicas is meant",
            "",
        ),
        (
            "csv-field",
            |files| files.csv["spec"] = Value::Null,
            "spec is missing",
            "Set the field",
        ),
        (
            "csv-field-unknown",
            |files| files.csv["spec"]["displayNmae"] = json!("Widgets"),
            "spec.displayNmae is no known field; perhaps displayName is meant, which is there, too",
            "Mend its name",
        ),
        (
            "csv-field-unknown",
            |files| files.csv["spec"]["maturty"] = json!("alpha"),
            "spec.maturty is no known field; perhaps maturity is meant",
            "",
        ),
    ];
    for (code, change, message, remedy) in mistakes {
        let mut files = plain();
        change(&mut files);
        let folder = tempfile::tempdir().unwrap();
        files.write(folder.path());
        let (_, found, _) = validate(folder.path(), &["--output", "json"]);
        let report: Value = serde_json::from_str(&found).unwrap();
        let findings = report["findings"].as_array().unwrap();
        // What is not defined any more is not what the mistake is about
        let told: Vec<&Value> = findings
            .iter()
            .filter(|told| told["code"] != "crd-owned")
            .collect();
        let says = |field: &str, what: &str| told[0][field].as_str().unwrap().contains(what);
        assert!(
            told.len() == 1 && told[0]["code"] == code && says("message", message) && says("remedy", remedy),
            "{message}: {found}"
        );
    }
}

const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";

fn deployment(files: &mut Files) -> &mut Value {
    &mut files.csv["spec"]["install"]["spec"]["deployments"][0]
}

fn rename(files: &mut Files, name: &str, other: &str) {
    let full = |name| format!("operators.operatorframework.io.bundle.{name}.v1");
    let annotations = files.annotations["annotations"].as_object_mut().unwrap();
    let value = annotations.remove(&full(name)).unwrap();
    annotations.insert(full(other), value);
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let (is_valid, _, why) = validate(std::path::Path::new("/nowhere/at/all"), &[]);
    assert!(!is_valid && why.contains("cannot list /nowhere/at/all"), "{why}");
}

#[test]
fn a_bundle_and_a_catalog_are_not_taken_for_each_other() {
    let root = tempfile::tempdir().unwrap();
    let (bundle, catalog) = (root.path().join("bundle"), root.path().join("catalog"));
    plain().write(&bundle);
    std::fs::create_dir(&catalog).unwrap();
    std::fs::write(
        catalog.join("catalog.yaml"),
        "schema: olm.package\nname: a\ndefaultChannel: b\n",
    )
    .unwrap();
    let (is_valid, found, why) = validate(&catalog, &[]);
    assert!(!is_valid && found.is_empty(), "{found}");
    assert!(
        why.contains("is no bundle: it has neither manifests/ nor metadata/"),
        "{why}"
    );
    let mut judged = assert_cmd::Command::cargo_bin("roadstead").unwrap();
    let judged = judged
        .args(["catalog", "validate"])
        .arg(&bundle)
        .assert()
        .failure();
    let why = String::from_utf8_lossy(&judged.get_output().stderr).into_owned();
    assert!(
        why.contains("is a bundle and no catalog; `roadstead bundle validate`"),
        "{why}"
    );
}

/// A bundle may be anybody's: what never ends, or is made to take long, is refused at once.
#[test]
fn a_file_that_is_none_or_that_is_made_to_take_long_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    plain().write(folder.path());
    let manifests = folder.path().join("manifests");
    let made = std::process::Command::new("mkfifo")
        .arg(manifests.join("pipe.yaml"))
        .status();
    assert!(made.unwrap().success());
    std::os::unix::fs::symlink("/dev/zero", manifests.join("zero.yaml")).unwrap();
    std::fs::write(manifests.join("deep.yaml"), "[".repeat(200_000)).unwrap();
    std::fs::write(
        manifests.join("deep.json"),
        format!("{{\"a\":{}", "[".repeat(200_000)),
    )
    .unwrap();
    let large = std::fs::File::create(manifests.join("large.yaml")).unwrap();
    large.set_len(1 << 30).unwrap();
    let began = std::time::Instant::now();
    let (is_valid, found, _) = validate(folder.path(), &[]);
    assert!(
        !is_valid && began.elapsed() < std::time::Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    for told in [
        "pipe.yaml: error: it cannot be read: it is no file",
        "zero.yaml: error: it cannot be read: it is no file",
        "large.yaml: error: it cannot be read: it has 1073741824 bytes; 4194304 are accepted",
        "deep.yaml:1: error",
        "deep.json:1: error",
    ] {
        assert!(found.contains(told), "{told}: {found}");
    }
}
