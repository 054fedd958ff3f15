//! `opm` is the judge of what we make of bundles, images and templates: the same documents, in whichever order.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "each binary uses what it needs of this")]
#[path = "support/broken_bundles.rs"]
mod broken_bundles;
#[path = "support/images.rs"]
mod images;
#[path = "support/opm.rs"]
mod opm;
#[allow(dead_code, reason = "each binary uses what it needs of this")]
#[path = "support/registry.rs"]
mod registry;

use std::process::Command;

use broken_bundles::{Files, plain};
use images::{Place, done, program, refused};
use registry::without_proxy;
use roadstead::olm::yaml;
use rstest::rstest;
use serde_json::{Value, json};

const MIGRATED: &str = "--migrate-level=bundle-object-to-csv-metadata";

/// The documents of a catalog, in an order that does not depend on who wrote them.
fn documents(text: &str) -> Vec<Value> {
    let mut documents: Vec<Value> = yaml::parse("documents", text).unwrap();
    documents.sort_by_key(Value::to_string);
    documents
}

fn theirs(arguments: &[&str]) -> Vec<Value> {
    let output = without_proxy(Command::new(opm::program()).args(arguments));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {said}");
    documents(&String::from_utf8(output.stdout).unwrap())
}

fn ours(arguments: &[&str]) -> Vec<Value> {
    documents(&done(&[&["catalog", "render"][..], arguments].concat()))
}

/// A bundle that says as much as a bundle can of what it offers and needs.
fn social() -> Files {
    let mut files = plain();
    let spec = &mut files.csv["spec"];
    spec["customresourcedefinitions"]["required"] =
        json!([{"name": "gadgets.other.example.org", "version": "v1", "kind": "Gadget"}]);
    spec["apiservicedefinitions"] = json!({"required": [{"group": "metrics.example.org", "version": "v1beta1", "kind": "Metric", "name": "metrics"}]});
    let annotated = json!([{"type": "olm.maxOpenShiftVersion", "value": "4.20"}]);
    files.csv["metadata"]["annotations"]["olm.properties"] = json!(annotated.to_string());
    let dependencies = json!({"dependencies": [
        {"type": "olm.gvk", "value": {"group": "other.example.org", "kind": "Gadget", "version": "v1"}},
        {"type": "olm.gvk", "value": {"group": "other.example.org", "kind": "Thing", "version": "v2"}},
        {"type": "olm.package", "value": {"packageName": "gadgets", "version": ">=1.0.0 <2.0.0"}},
        {"type": "olm.constraint", "value": {"failureMessage": "needs a cache", "package": {"packageName": "cache", "versionRange": ">=1.0.0"}}},
    ]});
    let properties = json!({"properties": [
        {"type": "example.org/tier", "value": {"level": 2, "names": ["a", "b"]}},
        {"type": "olm.gvk", "value": {"group": "example.org", "kind": "Extra", "version": "v1"}},
        {"type": "olm.package", "value": {"packageName": "widgets", "version": "1.2.0"}},
    ]});
    let write = |document: &Value| yaml::document(document).unwrap();
    // Which file is which shows in what it says
    files.others.insert("metadata/needs.yaml", write(&dependencies));
    files.others.insert("metadata/more.yaml", write(&properties));
    files
}

/// A version of the plain bundle.
fn version(version: &str) -> Files {
    let mut files = plain();
    files.csv["metadata"]["name"] = json!(format!("widgets.v{}", version.replace('+', "-")));
    files.csv["spec"]["version"] = json!(version);
    files.csv["spec"].as_object_mut().unwrap().remove("replaces");
    files
}

/// Pushes versions, and gives the name of their image without its tag.
fn pushed(place: &Place, versions: &[&str]) -> String {
    let repository = format!("{}/me/widgets-bundle", place.registry.host);
    for tag in versions {
        let folder = place.text(tag);
        version(tag).write(&place.path(tag));
        done(&["bundle", "push", &folder, &format!("{repository}:v{tag}")]);
    }
    repository
}

/// OLM resolves by these: what is missing is not waited for.
#[test]
fn what_a_bundle_offers_and_needs_is_in_its_properties() {
    let root = tempfile::tempdir().unwrap();
    social().write(root.path());
    let folder = root.path().display().to_string();
    let image = "registry.example.org/me/widgets-bundle:v1.2.0";
    let template = format!("--alpha-image-ref-template={image}");
    let named = [
        "--bundle-image",
        "registry.example.org/me/{package}-bundle:v{version}",
    ];
    assert_eq!(
        ours(&[&folder, named[0], named[1]]),
        theirs(&["render", &folder, "--output=yaml", MIGRATED, &template])
    );
}

#[test]
fn images_and_folders_of_bundles_and_catalogs_are_rendered_together_in_their_order() {
    let place = Place::new();
    let bundle = format!("{}:v1.2.0", pushed(&place, &["1.2.0"]));
    let file = place.text("catalog");
    std::fs::create_dir(place.path("catalog")).unwrap();
    let channel = json!({"schema": "olm.channel", "package": "widgets", "name": "stable", "entries": [{"name": "widgets.v1.2.0"}]});
    let package = json!({"schema": "olm.package", "name": "widgets", "defaultChannel": "stable"});
    let text = yaml::documents([&package, &channel]).unwrap();
    std::fs::write(place.path("catalog/widgets.yaml"), text).unwrap();
    let arguments = ["render", &bundle, &file, "--use-http", "--output=yaml", MIGRATED];
    assert_eq!(ours(&[&bundle, &file]), theirs(&arguments));

    // As a folder, as one file, as a layout, as an image that serves itself, and as JSON
    let rendered = done(&["catalog", "render", &bundle, &file]);
    std::fs::create_dir(place.path("whole")).unwrap();
    std::fs::write(place.path("whole/all.yaml"), &rendered).unwrap();
    let image = format!("{}/me/catalog:latest", place.registry.host);
    done(&[
        "catalog",
        "push",
        &place.text("whole"),
        &image,
        "--binary",
        &program(&place, 62),
    ]);
    let json = done(&["catalog", "render", "--output", "json", &image]);
    assert!(json.starts_with('{'), "{json}");
    std::fs::write(place.path("whole.json"), json).unwrap();
    for source in [
        &place.text("whole"),
        &place.text("whole/all.yaml"),
        &image,
        &place.text("whole.json"),
    ] {
        assert_eq!(ours(&[source]), documents(&rendered), "{source}");
    }
    assert_eq!(
        theirs(&["render", &image, "--use-http", "--output=yaml", MIGRATED]),
        documents(&rendered)
    );
}

#[rstest]
#[case::minor(json!({}), &["1.0.0", "1.0.1", "1.1.0", "1.1.1", "1.2.0", "2.0.0"])]
#[case::major(json!({"generateMajorChannels": true}), &["1.0.0", "1.0.1", "1.1.0", "1.1.1", "1.2.0", "2.0.0"])]
#[case::both(json!({"generateMajorChannels": true, "generateMinorChannels": true}), &["1.0.0", "1.1.0", "1.1.1", "2.0.0", "2.0.1"])]
#[case::both_and_the_major_one_preferred(
    json!({"generateMajorChannels": true, "generateMinorChannels": true, "defaultChannelTypePreference": "major"}), &["1.0.0", "1.1.0", "1.1.1"]
)]
#[case::one(json!({}), &["1.0.0"])]
#[case::before_a_release(json!({"generateMajorChannels": true}), &["1.0.0-alpha.1", "1.0.0-alpha.2", "1.0.0", "1.1.0-rc.1"])]
fn channels_follow_from_versions_as_upstream_has_them(#[case] options: Value, #[case] versions: &[&str]) {
    let place = Place::new();
    let repository = pushed(&place, versions);
    let listed = |versions: &[&str]| {
        let images = versions
            .iter()
            .map(|tag| json!({"image": format!("{repository}:v{tag}")}));
        json!({"bundles": images.collect::<Vec<_>>()})
    };
    let mut template = json!({
        "schema": "olm.semver",
        "candidate": listed(versions),
        "fast": listed(&versions[..versions.len().div_ceil(2)]),
        "stable": listed(&versions[..1]),
    });
    template
        .as_object_mut()
        .unwrap()
        .extend(options.as_object().unwrap().clone());
    let file = place.text("template.yaml");
    std::fs::write(&file, yaml::document(&template).unwrap()).unwrap();
    assert_eq!(ours(&[&file]), from_template(&file));
}

/// As upstream's own example is written, which begins its keys with capitals.
#[test]
fn a_template_is_known_whatever_the_case_of_its_keys() {
    let place = Place::new();
    let image = pushed(&place, &["0.1.0", "0.1.1", "0.2.0", "1.0.0"]);
    let semver = format!(
        "Schema: olm.semver
GenerateMajorChannels: true
GenerateMinorChannels: true
Candidate:
  Bundles:
  - Image: {image}:v0.1.0
  - Image: {image}:v0.1.1
  - Image: {image}:v0.2.0
  - Image: {image}:v1.0.0
Fast:
  Bundles:
  - Image: {image}:v0.1.1
  - Image: {image}:v1.0.0
Stable:
  Bundles:
  - Image: {image}:v1.0.0
"
    );
    let sparse = format!(
        "schema: olm.semver\nGenerateMajorChannels: null\nfast: null\nstable: {{Bundles: null}}\nCANDIDATE: {{bundles: [{{image: {image}:v1.0.0}}]}}\n"
    );
    let basic = format!(
        "Schema: olm.template.basic
Entries:
- {{Schema: olm.package, Name: widgets, DefaultChannel: stable}}
- {{Schema: olm.channel, Package: widgets, Name: stable, Entries: [{{Name: widgets.v1.0.0}}]}}
- {{Schema: olm.bundle, Image: '{image}:v1.0.0', Package: '', Properties: null}}
"
    );
    for text in [semver, sparse, basic] {
        let file = place.text("template.yaml");
        std::fs::write(&file, &text).unwrap();
        assert_eq!(ours(&[&file]), from_template(&file), "{text}");
    }
}

#[test]
fn a_bundle_that_a_template_names_twice_is_told() {
    let place = Place::new();
    let image = pushed(&place, &["1.0.0"]);
    let again = format!("{image}:again");
    done(&["bundle", "push", &place.text("1.0.0"), &again]);
    let (first, file) = (format!("{image}:v1.0.0"), place.text("template.yaml"));
    let text = format!("schema: olm.semver\ncandidate: {{bundles: [{{image: {first}}}]}}\n");
    std::fs::write(
        &file,
        format!("{text}stable: {{bundles: [{{image: {again}}}]}}\n"),
    )
    .unwrap();
    let told = refused(&["catalog", "render", &file]);
    let why = format!("bundle widgets.v1.0.0 is in both {first} and {again}");
    assert!(told.contains(&why), "{told}");
    std::fs::write(
        &file,
        format!("{text}stable: {{bundles: [{{image: {first}}}, {{image: {first}}}]}}\n"),
    )
    .unwrap();
    let told = refused(&["catalog", "render", &file]);
    assert!(told.contains(&format!("stable names {first} twice")), "{told}");
    let upstream = ["alpha", "render-template", &file, "--use-http"];
    let upstream = without_proxy(Command::new(opm::program()).args(upstream));
    assert!(!upstream.status.success());
}

#[test]
fn a_basic_template_is_the_catalog_with_its_bundles() {
    let place = Place::new();
    let repository = pushed(&place, &["1.0.0", "1.1.0"]);
    let image = |tag: &str| json!({"schema": "olm.bundle", "image": format!("{repository}:v{tag}")});
    let entries = json!([
        {"schema": "olm.package", "name": "widgets", "defaultChannel": "stable"},
        {"schema": "olm.channel", "package": "widgets", "name": "stable",
            "entries": [{"name": "widgets.v1.0.0"}, {"name": "widgets.v1.1.0", "replaces": "widgets.v1.0.0"}]},
        image("1.0.0"),
        image("1.1.0"),
    ]);
    let template = json!({"schema": "olm.template.basic", "entries": entries});
    let file = place.text("template.yaml");
    std::fs::write(&file, yaml::document(&template).unwrap()).unwrap();
    assert_eq!(ours(&[&file]), from_template(&file));
    let output = place.text("catalog");
    std::fs::create_dir(place.path("catalog")).unwrap();
    std::fs::write(
        place.path("catalog/catalog.yaml"),
        done(&["catalog", "render", &file]),
    )
    .unwrap();
    done(&["catalog", "validate", &output]);
}

/// What `opm` makes of a template. It asks registries by TLS alone, but for those on this machine.
fn from_template(file: &str) -> Vec<Value> {
    theirs(&[
        "alpha",
        "render-template",
        file,
        "--use-http",
        "--output=yaml",
        MIGRATED,
    ])
}

#[rstest]
#[case::no_schema_of_ours("schema: olm.semver\nstabel: {}\n", "unknown field `stabel`")]
#[case::another(
    "Schema: olm.template.substitutes\nentries: []\n",
    "template.yaml: schema is \"olm.template.substitutes\"; of templates, olm.template.basic and olm.semver are accepted"
)]
#[case::another_that_is_alike("schema: olm.semver.next\n", "schema is \"olm.semver.next\"")]
#[case::beside_a_catalog(
    "schema: olm.package\nname: a\n---\nschema: olm.semver\n",
    "is one document, and there are 2"
)]
#[case::an_entry_of_nothing(
    "schema: olm.template.basic\nentries:\n- {name: a}\n",
    "entries[0] has no schema"
)]
#[case::no_such_channels(
    "schema: olm.semver\ndefaultChannelTypePreference: major\n",
    "generateMajorChannels is not true"
)]
#[case::nothing("schema: olm.semver\n", "names no bundle")]
#[case::two(
    "schema: olm.semver\n---\nschema: olm.semver\n",
    "is one document, and there are 2"
)]
#[case::more_than_an_image(
    "schema: olm.template.basic\nentries:\n- {schema: olm.bundle, image: a/b:c, package: d}\n",
    "\"a/b:c\" has package"
)]
#[case::no_image(
    "schema: olm.template.basic\nentries:\n- {schema: olm.bundle}\n",
    "has no image"
)]
fn what_is_wrong_with_a_template_is_told(#[case] text: &str, #[case] why: &str) {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("template.yaml");
    std::fs::write(&file, text).unwrap();
    let told = refused(&["catalog", "render", &file.display().to_string()]);
    assert!(told.contains(why), "{told}");
}

#[test]
fn versions_between_which_there_is_no_order_are_refused() {
    let place = Place::new();
    let repository = format!("{}/me/widgets-bundle", place.registry.host);
    for build in ["1.0.0+1", "1.0.0+2"] {
        let tag = build.replace('+', "-");
        version(build).write(&place.path(&tag));
        done(&[
            "bundle",
            "push",
            &place.text(&tag),
            &format!("{repository}:{tag}"),
        ]);
    }
    let file = place.text("template.yaml");
    let template = json!({"schema": "olm.semver", "stable": {"bundles": [
        {"image": format!("{repository}:1.0.0-1")}, {"image": format!("{repository}:1.0.0-2")}]}});
    std::fs::write(&file, yaml::document(&template).unwrap()).unwrap();
    let told = refused(&["catalog", "render", &file]);
    assert!(
        told.contains("widgets.v1.0.0-1") && told.contains("can be released once"),
        "{told}"
    );
}

/// What each file of a catalog's folder holds.
fn by_package(folder: &std::path::Path) -> Vec<(String, Vec<Value>)> {
    let mut packages: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let text = std::fs::read_to_string(entry.path().join("catalog.yaml")).unwrap();
            (entry.file_name().into_string().unwrap(), documents(&text))
        })
        .collect();
    packages.sort_by(|one, other| one.0.cmp(&other.0));
    packages
}

/// As `opm migrate` writes it: bundles that carry their manifests are in catalogs of years ago, and OLM v1 does not take them.
#[test]
fn a_catalog_is_migrated_as_upstream_does_it() {
    let place = Place::new();
    let image = pushed(&place, &["1.0.0", "1.1.0"]);
    let mut all = Vec::new();
    for (package, version) in [("widgets", "1.0.0"), ("gadgets", "1.1.0")] {
        // Without --migrate-level, opm renders the manifests themselves
        let bundle = format!("{image}:v{version}");
        let mut rendered = theirs(&["render", &bundle, "--use-http", "--output=yaml"]);
        rendered[0]["package"] = json!(package);
        for property in rendered[0]["properties"].as_array_mut().unwrap() {
            if property["type"] == "olm.package" {
                property["value"]["packageName"] = json!(package);
            }
        }
        let name = rendered[0]["name"].clone();
        all.push(json!({"schema": "olm.package", "name": package, "defaultChannel": "stable"}));
        all.extend(rendered);
        all.push(json!({"schema": "olm.channel", "package": package, "name": "stable", "entries": [{"name": name}]}));
    }
    std::fs::create_dir(place.path("old")).unwrap();
    std::fs::write(place.path("old/index.yaml"), yaml::documents(&all).unwrap()).unwrap();
    let (old, new, judged) = (place.text("old"), place.text("new"), place.text("judged"));
    done(&["catalog", "migrate", &old, "--output", &new]);
    let migrated = without_proxy(Command::new(opm::program()).args([
        "migrate",
        &old,
        &judged,
        "--output=yaml",
        MIGRATED,
    ]));
    assert!(
        migrated.status.success(),
        "{}",
        String::from_utf8_lossy(&migrated.stderr)
    );
    let ours = by_package(&place.path("new"));
    assert_eq!(ours, by_package(&place.path("judged")));
    assert!(ours.iter().all(|(_, documents)| documents.len() == 3));
    assert!(
        !std::fs::read_to_string(place.path("new/widgets/catalog.yaml"))
            .unwrap()
            .contains("olm.bundle.object")
    );
}

/// A version may be built again, and say so in `spec.release`: upstream tells the two apart by it, and so the names of bundles and of their images are others.
#[test]
fn a_version_is_released_once_more_after_its_first_release() {
    let place = Place::new();
    let (catalog, stable) = (place.text("catalog"), ["--channel", "stable", "--catalog"]);
    for release in ["1", "2", "10"] {
        let mut files = version("1.0.0");
        files.csv["metadata"]["name"] = json!(format!("widgets-v1.0.0-{release}"));
        files.csv["spec"]["release"] = json!(release);
        files.write(&place.path(release));
        let folder = place.text(release);
        done(&[&["catalog", "add", &folder][..], &stable, &[&catalog]].concat());
    }
    done(&["catalog", "validate", &catalog]);
    let judged = without_proxy(Command::new(opm::program()).args(["validate", &catalog]));
    let said = String::from_utf8_lossy(&judged.stderr);
    assert!(judged.status.success(), "{said}");
    let held = documents(&std::fs::read_to_string(place.path("catalog/widgets/catalog.yaml")).unwrap());
    let of = |schema: &str, field: &str| -> Vec<Value> {
        let found = held.iter().filter(|document| document["schema"] == *schema);
        found.map(|document| document[field].clone()).collect()
    };
    let entries = json!([
        {"name": "widgets-v1.0.0-1"},
        {"name": "widgets-v1.0.0-2", "replaces": "widgets-v1.0.0-1"},
        {"name": "widgets-v1.0.0-10", "replaces": "widgets-v1.0.0-2"},
    ]);
    assert_eq!(of("olm.channel", "entries"), [entries]);
    let mut images = of("olm.bundle", "image");
    images.sort_by_key(Value::to_string);
    images.dedup();
    assert_eq!(images.len(), 3, "{images:?}");
    // By its version alone nobody knows which is meant
    let remove = |which| [&["catalog", "remove", which, "--catalog"][..], &[&catalog]].concat();
    let told = refused(&remove("1.0.0"));
    assert!(told.contains("no bundle 1.0.0"), "{told}");
    done(&remove("1.0.0-1"));
}

/// By the name under which OLM will pull it.
#[test]
fn a_bundle_is_added_to_a_catalog_from_its_image() {
    let place = Place::new();
    let image = format!("{}:v1.0.0", pushed(&place, &["1.0.0"]));
    let catalog = place.text("catalog");
    done(&[
        "catalog",
        "init",
        "widgets",
        "--default-channel",
        "stable",
        "--catalog",
        &catalog,
    ]);
    done(&[
        "catalog",
        "add",
        &image,
        "--channel",
        "stable",
        "--catalog",
        &catalog,
    ]);
    done(&["catalog", "validate", &catalog]);
    let judged = without_proxy(Command::new(opm::program()).args(["validate", &catalog]));
    assert!(
        judged.status.success(),
        "{}",
        String::from_utf8_lossy(&judged.stderr)
    );
    let held = documents(&std::fs::read_to_string(place.path("catalog/widgets/catalog.yaml")).unwrap());
    assert!(held.iter().any(|document| document["image"] == *image));
    let told = refused(&[
        "catalog",
        "add",
        &catalog,
        "--channel",
        "stable",
        "--catalog",
        &catalog,
    ]);
    assert!(told.contains("catalog"), "{told}");
}
