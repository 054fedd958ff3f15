//! Operator Framework's own tools are the judge: what we call a bundle and a catalog, they accept, and they read it as we do.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "support/gadgets.rs"]
mod gadgets;
#[path = "support/bundle_judge.rs"]
mod judge;
#[path = "support/opm.rs"]
mod opm;
#[path = "support/registry.rs"]
mod registry;
#[path = "support/widgets.rs"]
mod widgets;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use registry::{Registry, without_proxy};
use roadstead::olm::catalog::deprecations::Deprecation;
use roadstead::olm::catalog::{Catalog, Rendered};
use roadstead::olm::{Tree, yaml};
use roadstead::package;
use rstest::rstest;
use serde_json::Value;

/// The sample operator's package.
const GREETER: &str = "roadstead-greeter";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn opm(arguments: &[&str]) -> Output {
    without_proxy(Command::new(opm::program()).current_dir(root()).args(arguments))
}

fn assert_accepted(output: &Output) {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// A catalog to which versions were added one after another, each to some channels.
fn published(folder: &Path, releases: &[(&str, &[&str])]) -> PathBuf {
    let mut catalog = Catalog::empty(package::PACKAGE);
    for (version, channels) in releases {
        let version = version.parse().unwrap();
        let mut tree = package::tree(&version).unwrap();
        tree.merge(package::bundle(&tree, &version, &catalog).unwrap())
            .unwrap();
        let channels: Vec<String> = channels.iter().map(|&channel| channel.to_owned()).collect();
        package::publish(&mut catalog, &tree, &channels).unwrap();
    }
    catalog.tree(Path::new("catalog")).unwrap().write(folder).unwrap();
    folder.join("catalog")
}

/// Two versions in every channel, one that is only a candidate, and a new minor version.
const HISTORY: [(&str, &[&str]); 4] = [
    ("0.1.0", &["candidate", "stable", "stable-v0.1"]),
    ("0.1.1", &["candidate", "stable", "stable-v0.1"]),
    ("0.1.2", &["candidate"]),
    ("0.2.0", &["candidate", "stable", "stable-v0.2"]),
];

/// Candidates that come to stable late, the higher one first.
const PROMOTIONS: [(&str, &[&str]); 7] = [
    ("0.1.0", &["candidate", "stable"]),
    ("0.1.1", &["candidate"]),
    ("0.1.2", &["candidate"]),
    ("0.1.3", &["candidate"]),
    ("0.1.4", &["candidate", "stable"]),
    ("0.1.3", &["stable"]),
    ("0.1.2", &["stable"]),
];

#[test]
fn opm_accepts_the_catalog() {
    assert_accepted(&opm(&["validate", "catalog"]));
}

#[test]
fn opm_accepts_a_catalog_with_a_history_and_refuses_a_broken_one() {
    let scratch = tempfile::tempdir().unwrap();
    let catalog = published(scratch.path(), &HISTORY);
    assert_accepted(&opm(&["validate", &catalog.display().to_string()]));

    let file = catalog.join("roadstead/catalog.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("  replaces: roadstead.v0.1.1\n", "")).unwrap();
    let output = opm(&["validate", &catalog.display().to_string()]);
    assert!(
        !output.status.success(),
        "a judge that accepts everything proves nothing"
    );
    Catalog::read(&catalog, package::PACKAGE)
        .unwrap()
        .check()
        .unwrap_err();
}

#[test]
fn opm_accepts_what_is_deprecated_and_refuses_what_is_not_there() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = published(scratch.path(), &HISTORY);
    let mut catalog = Catalog::read(&folder, package::PACKAGE).unwrap();
    let mut judged = |entries: Vec<Deprecation>| {
        catalog.deprecate(entries);
        let tree = catalog.tree(Path::new("catalog")).unwrap();
        tree.write(scratch.path()).unwrap();
        (catalog.check(), opm(&["validate", &folder.display().to_string()]))
    };
    let known = vec![
        Deprecation::of_channel("stable-v0.1", "use stable"),
        Deprecation::of_bundle("roadstead.v0.1.1", "use 0.2.0"),
    ];
    let (ours, theirs) = judged(known);
    ours.unwrap();
    assert_accepted(&theirs);
    let (ours, theirs) = judged(vec![Deprecation::of_bundle("roadstead.v0.0.9", "use 0.2.0")]);
    ours.unwrap_err();
    assert!(
        !theirs.status.success(),
        "a judge that accepts everything proves nothing"
    );
}

#[test]
fn opm_accepts_what_is_left_when_a_release_is_taken_back() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = published(scratch.path(), &HISTORY);
    let mut catalog = Catalog::read(&folder, package::PACKAGE).unwrap();
    let names: Vec<String> = catalog.bundle_names().map(str::to_owned).collect();
    for name in &names[..names.len() - 1] {
        catalog.remove(name, &[]).unwrap();
        catalog.check().unwrap();
        let tree = catalog.tree(Path::new("catalog")).unwrap();
        tree.write(scratch.path()).unwrap();
        assert_accepted(&opm(&["validate", &folder.display().to_string()]));
    }
}

#[test]
fn opm_accepts_promotions_in_any_order() {
    let scratch = tempfile::tempdir().unwrap();
    let catalog = published(scratch.path(), &PROMOTIONS);
    assert_accepted(&opm(&["validate", &catalog.display().to_string()]));
}

/// The blob that we put into the catalog is, field by field, the one that `opm render` makes of the same bundle.
#[rstest]
#[case::the_product(package::PACKAGE, "bundle")]
#[case::the_sample(GREETER, "examples/greeter/bundle")]
fn opm_reads_the_bundle_as_we_do(#[case] package: &str, #[case] bundle: &str) {
    let catalog = Catalog::read(&root().join("catalog"), package).unwrap();
    let there = Rendered::read(&root().join(bundle), |_, _| Ok(String::new())).unwrap();
    let Some(ours) = catalog.bundle(there.name()) else {
        return; // between two releases, the bundle is of a version that no catalog has
    };
    let version = ours.version().unwrap();
    let image = format!("--alpha-image-ref-template=registry.roadstead.dev/{package}-bundle:v{version}");
    let migrated = "--migrate-level=bundle-object-to-csv-metadata";
    let output = opm(&["render", bundle, "--output=yaml", migrated, &image]);
    assert_accepted(&output);
    let theirs: Vec<Value> = yaml::parse("opm render", &String::from_utf8(output.stdout).unwrap()).unwrap();
    assert_eq!(theirs, [serde_json::to_value(ours).unwrap()]);
}

/// What a catalog carries of a bundle are the manifests that upstream reads of it, and upstream accepts it without an image.
#[test]
fn opm_reads_the_manifests_that_a_catalog_carries_as_we_do() {
    let carried = Rendered::carried(&root().join("bundle")).unwrap();
    let image = "--alpha-image-ref-template=registry.roadstead.dev/a:v1";
    let output = opm(&["render", "bundle", "--output=yaml", image]);
    assert_accepted(&output);
    let theirs: Vec<Value> = yaml::parse("opm render", &String::from_utf8(output.stdout).unwrap()).unwrap();
    let ours = serde_json::to_value(carried.bundle()).unwrap();
    assert_eq!(manifests(&ours), manifests(&theirs[0]));

    let scratch = tempfile::tempdir().unwrap();
    let mut catalog = Catalog::empty(package::PACKAGE);
    catalog.add(carried, &["stable".to_owned()], "stable").unwrap();
    let tree = catalog.tree(Path::new("catalog")).unwrap();
    tree.write(scratch.path()).unwrap();
    let folder = scratch.path().join("catalog");
    assert_accepted(&opm(&["validate", &folder.display().to_string()]));
}

/// By kind and name.
fn manifests(bundle: &Value) -> BTreeMap<(String, String), Value> {
    let properties = bundle["properties"].as_array().unwrap().iter();
    let objects = properties.filter(|property| property["type"] == "olm.bundle.object");
    let manifests = objects.map(|object| {
        STANDARD
            .decode(object["value"]["data"].as_str().unwrap())
            .unwrap()
    });
    let manifests = manifests.map(|manifest| serde_json::from_slice::<Value>(&manifest).unwrap());
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let manifests: BTreeMap<_, _> = manifests
        .map(|it| ((text(&it["kind"]), text(&it["metadata"]["name"])), it))
        .collect();
    assert!(manifests.len() > 2, "{manifests:?}");
    manifests
}

/// As OLM sees them: images that are pulled from a registry, built with the Dockerfiles that are checked in.
#[test]
fn opm_reads_the_images_as_we_do() {
    let registry = Registry::start();
    let migrated = "--migrate-level=bundle-object-to-csv-metadata";
    let render = |image: &str| {
        let output = opm(&["render", image, "--use-http", "--output=yaml", migrated]);
        assert_accepted(&output);
        yaml::parse::<Value>(image, &String::from_utf8(output.stdout).unwrap()).unwrap()
    };
    for context in [root().to_owned(), root().join("examples/greeter")] {
        let bundle = registry.publish(&context, "bundle.Dockerfile", "bundle:test", &[]);
        let ours = Rendered::read(&context.join("bundle"), |_, _| Ok(bundle.clone())).unwrap();
        assert_eq!(render(&bundle), [serde_json::to_value(ours.bundle()).unwrap()]);
    }

    // What serves the catalog plays no part in what it says.
    let base = ["--build-arg", "OPM_IMAGE=scratch"];
    let catalog = registry.publish(root(), "catalog.Dockerfile", "roadstead-catalog:test", &base);
    let ours = [package::PACKAGE, GREETER].map(|package| {
        let file = root().join("catalog").join(Catalog::file(package));
        yaml::parse::<Value>("catalog", &std::fs::read_to_string(file).unwrap()).unwrap()
    });
    assert_eq!(render(&catalog), ours.concat());
}

/// The optional validators of `operator-sdk bundle validate`, beside those that it always asks.
const OPTIONAL: [&str; 5] = [
    "operatorhubv2",
    "standardcapabilities",
    "standardcategories",
    "alpha-deprecated-apis",
    "good-practices",
];

/// One has a version that is not served, a base that says little, and a conversion webhook that the base tells; the other has
/// webhooks of all types in its manifests, and two served versions.
#[rstest]
#[case::told_in_the_base(widgets::bundle("1.2.3"))]
#[case::told_in_manifests(gadgets::bundle())]
fn upstream_validators_find_no_error_in_a_strange_operators_bundle(#[case] bundle: Tree) {
    let scratch = tempfile::tempdir().unwrap();
    bundle.write(scratch.path()).unwrap();
    let mut findings = judge::findings(&scratch.path().join("bundle"), &OPTIONAL);
    findings.retain(|finding| finding["level"] == "error");
    assert_eq!(findings, [Value::Null; 0]);
}

#[rstest]
#[case::the_product("bundle")]
#[case::the_sample("examples/greeter/bundle")]
fn upstream_validators_find_nothing_in_the_bundle(#[case] bundle: &str) {
    let mut findings = judge::findings(&root().join(bundle), &OPTIONAL);
    // It takes any permission for events to mean the removed events.k8s.io/v1beta1; a permission names no version.
    let is_known = |finding: &Value| {
        let detail = finding["detail"].as_str().unwrap_or_default();
        finding["level"] == "warning" && detail.contains("Migrate the API(s) for events:")
    };
    findings.retain(|finding| !is_known(finding));
    assert_eq!(findings, [Value::Null; 0]);
}
