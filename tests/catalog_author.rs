//! Who keeps a catalog begins it, adds bundles to it as they like, and takes over one that somebody else has laid out.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "each binary uses what it needs of this")]
#[path = "support/broken_bundles.rs"]
mod broken_bundles;

use std::path::Path;

use assert_cmd::Command;
use assert_cmd::assert::Assert;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use broken_bundles::plain;
use roadstead::olm::yaml;
use rstest::rstest;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A folder with a catalog in it, and bundles.
struct Author(TempDir);

impl Author {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn does(&self, arguments: &[&str]) -> Assert {
        let mut command = Command::cargo_bin("roadstead").unwrap();
        command
            .current_dir(self.0.path())
            .arg("catalog")
            .args(arguments)
            .assert()
    }

    /// The folder of a version's bundle.
    fn bundle(&self, version: &str) -> String {
        let mut files = plain();
        files.csv["metadata"]["name"] = json!(format!("widgets.v{version}"));
        files.csv["spec"]["version"] = json!(version);
        files.csv["spec"]["description"] = json!(format!("What {version} is."));
        files.csv["spec"].as_object_mut().unwrap().remove("replaces");
        files.write(&self.0.path().join(version));
        version.to_owned()
    }

    fn adds(&self, version: &str, options: &[&str]) -> Assert {
        let folder = self.bundle(version);
        let named = [
            "add",
            &folder,
            "--bundle-image",
            "r.example.org/widgets:{version}",
            "--channel",
        ];
        self.does(&[&named[..], options].concat())
    }

    fn documents(&self) -> Vec<Value> {
        documents(&self.0.path().join("catalog/widgets/catalog.yaml"))
    }

    /// The entry of a version in a channel.
    fn entry(&self, channel: &str, version: &str) -> Value {
        let (documents, name) = (self.documents(), format!("widgets.v{version}"));
        let channel = documents
            .iter()
            .find(|it| it["schema"] == "olm.channel" && it["name"] == channel);
        let entries = channel.unwrap()["entries"].as_array().unwrap();
        entries
            .iter()
            .find(|entry| entry["name"] == *name)
            .unwrap()
            .clone()
    }

    fn package(&self) -> Value {
        self.documents()[0].clone()
    }
}

fn documents(file: &Path) -> Vec<Value> {
    yaml::parse("catalog", &std::fs::read_to_string(file).unwrap()).unwrap()
}

#[test]
fn what_is_said_of_a_package_at_its_beginning_stays() {
    let author = Author::new();
    std::fs::write(author.0.path().join("README.md"), "# Widgets").unwrap();
    std::fs::write(author.0.path().join("icon.SVG"), "<svg/>").unwrap();
    author
        .does(&[
            "init",
            "widgets",
            "-c",
            "stable",
            "-d",
            "README.md",
            "-i",
            "icon.SVG",
        ])
        .success()
        .stdout("created catalog/widgets/catalog.yaml\ncreated catalog.Dockerfile\n");
    let begun = author.package();
    let icon = json!({"base64data": "PHN2Zy8+", "mediatype": "image/svg+xml"});
    let said = json!({"schema": "olm.package", "name": "widgets", "defaultChannel": "stable", "description": "# Widgets", "icon": icon});
    assert_eq!(begun, said);
    // The default channel is to be there
    author
        .adds("1.0.0", &["candidate", "--default-channel", ""])
        .failure()
        .stderr("roadstead: catalog: the default channel stable is none of the package's channels\n");
    for version in ["1.0.0", "1.1.0", "1.1.0"] {
        author.adds(version, &["stable"]).success();
    }
    assert_eq!(author.package(), begun);
    author
        .does(&["init", "widgets"])
        .failure()
        .stderr("roadstead: catalog/widgets/catalog.yaml is there already\n");
}

/// Subscribers know versions by the names of their bundles alone.
#[test]
fn a_version_that_was_taken_back_is_skipped_by_its_name() {
    let author = Author::new();
    for version in ["1.0.0", "1.1.0"] {
        author.adds(version, &["stable"]).success();
    }
    author
        .does(&["remove", "1.1.0", "--channels", "candidate"])
        .failure()
        .stderr("roadstead: catalog: package widgets has no channel candidate; there are stable\n");
    author.adds("1.0.0", &["candidate"]).success();
    author
        .does(&["remove", "1.1.0", "--channels", "candidate"])
        .failure()
        .stderr("roadstead: catalog: widgets.v1.1.0 is not in channel candidate; it is in stable\n");
    author.does(&["remove", "1.1.0"]).success().stderr(
        "note: channel stable ends with a version before widgets.v1.1.0: whoever has that stays on it until a version is added that skips it (`roadstead catalog add ... --skips widgets.v1.1.0`)\n",
    );
    author.adds("1.2.0", &["stable", "--skips", "v1.1.0"]).success();
    let entry = json!({"name": "widgets.v1.2.0", "replaces": "widgets.v1.0.0", "skips": ["widgets.v1.1.0"]});
    let channels = author.documents();
    let stable = channels
        .iter()
        .find(|document| document["name"] == "stable")
        .unwrap();
    assert!(stable["entries"].as_array().unwrap().contains(&entry), "{stable}");
}

/// OLM installs such a bundle without pulling it.
#[test]
fn a_catalog_may_carry_the_manifests_of_a_bundle() {
    let author = Author::new();
    author.adds("1.0.0", &["stable"]).success();
    let next = author.bundle("1.1.0");
    author
        .does(&["add", &next, "--inline", "--channel", "stable"])
        .success();
    let documents = author.documents();
    let carried = documents
        .iter()
        .find(|it| it["name"] == "widgets.v1.1.0")
        .unwrap();
    assert_eq!(carried.get("image"), None);
    let objects: Vec<Value> = carried["properties"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|property| property["type"] == "olm.bundle.object")
        .map(|object| {
            STANDARD
                .decode(object["value"]["data"].as_str().unwrap())
                .unwrap()
        })
        .map(|object| serde_json::from_slice(&object).unwrap())
        .collect();
    let kinds: Vec<&str> = objects
        .iter()
        .map(|object| object["kind"].as_str().unwrap())
        .collect();
    assert!(kinds.contains(&"ClusterServiceVersion"), "{kinds:?}");
    assert!(kinds.contains(&"CustomResourceDefinition"), "{kinds:?}");
    author.does(&["validate", "catalog"]).success();

    let manifests = author.0.path().join(&next).join("manifests");
    let large = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "x".repeat(1 << 20)}});
    std::fs::write(manifests.join("large.yaml"), large.to_string()).unwrap();
    let refused = author
        .does(&["add", &next, "--inline", "--channel", "stable"])
        .failure();
    let told = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
    assert!(
        told.contains("a catalog carries at most 1048576 of one"),
        "{told}"
    );
    assert_eq!(author.documents(), documents);
}

#[test]
fn where_nothing_is_said_of_a_package_it_follows_its_highest_version() {
    let author = Author::new();
    author.does(&["init", "widgets"]).success();
    for version in ["1.0.0", "1.1.0", "1.0.1"] {
        author.adds(version, &["fast"]).success();
    }
    assert_eq!(author.package()["defaultChannel"], "fast");
    assert_eq!(author.package()["description"], "What 1.1.0 is.");
}

#[test]
fn an_entry_upgrades_from_what_somebody_says() {
    let author = Author::new();
    for version in ["1.0.0", "1.1.0"] {
        author.adds(version, &["stable"]).success();
    }
    let options = [
        "stable",
        "--replaces",
        "1.0.0",
        "--skips",
        "widgets.v1.1.0",
        "--skip-range",
        "<1.2.0",
    ];
    author.adds("1.2.0", &options).success().stderr("");
    let entry = json!({"name": "widgets.v1.2.0", "replaces": "widgets.v1.0.0", "skips": ["widgets.v1.1.0"], "skipRange": "<1.2.0"});
    assert_eq!(author.entry("stable", "1.2.0"), entry);
    // What is not said anew stays
    author.adds("1.2.0", &["stable"]).success();
    assert_eq!(author.entry("stable", "1.2.0"), entry);
    author
        .adds("1.3.0", &["stable", "--skip-range", ">=1.0.0 <1.3.0"])
        .success();
    assert_eq!(author.entry("stable", "1.3.0")["replaces"], "widgets.v1.2.0");
    author
        .adds("1.4.0", &["new", "--replaces", "gadgets.v0.1.0"])
        .success()
        .stderr("note: widgets.v1.4.0 upgrades from gadgets.v0.1.0, which the catalog does not have: nothing is known of whoever has it\n");
}

#[rstest]
#[case::two_heads(&["stable", "--replaces", "1.0.0"], "catalog: channel stable: ")]
#[case::no_range(&["stable", "--skip-range", "1.x.y"], "invalid value '1.x.y' for '--skip-range <RANGE>'")]
fn an_entry_that_strands_somebody_or_says_nothing_is_refused(#[case] options: &[&str], #[case] why: &str) {
    let author = Author::new();
    for version in ["1.0.0", "1.1.0"] {
        author.adds(version, &["stable"]).success();
    }
    let before = author.documents();
    let said = author.adds("1.2.0", options).failure();
    let said = String::from_utf8_lossy(&said.get_output().stderr).into_owned();
    assert!(said.contains(why), "{said}");
    assert_eq!(author.documents(), before);
}

#[test]
fn a_catalog_that_is_laid_out_otherwise_is_migrated_and_then_added_to() {
    let author = Author::new();
    author.adds("1.0.0", &["stable"]).success();
    let old = author.0.path().join("old");
    std::fs::create_dir(&old).unwrap();
    std::fs::rename(
        author.0.path().join("catalog/widgets/catalog.yaml"),
        old.join("all.yaml"),
    )
    .unwrap();
    let before = documents(&old.join("all.yaml"));
    let folder = author.bundle("1.1.0");
    author.does(&["add", &folder, "--channel", "stable", "--catalog", "old"]).failure().stderr(
        "roadstead: package widgets is in old/all.yaml, and bundles are added to old/widgets/catalog.yaml alone; `roadstead catalog migrate old --output DIR` writes the catalog so\n",
    );
    author
        .does(&["migrate", "old", "--output", "old"])
        .failure()
        .stderr("roadstead: --output is old; it must be an empty folder, or not be there\n");
    author.does(&["migrate", "old", "--output", "catalog"]).failure();
    author
        .does(&["migrate", "old", "--output", "new"])
        .success()
        .stdout("created new/widgets/catalog.yaml\n");
    assert_eq!(
        documents(&author.0.path().join("new/widgets/catalog.yaml")),
        before
    );
    author
        .does(&["add", &folder, "--channel", "stable", "--catalog", "new"])
        .success();
    author
        .does(&["migrate", &folder, "--output", "newer"])
        .failure()
        .stderr(
            "roadstead: 1.1.0 is a bundle or a template; `roadstead catalog render` makes documents of it\n",
        );
}

#[test]
fn a_channel_that_is_not_one_word_is_refused() {
    let author = Author::new();
    author.adds("1.0.0", &["very fast"]).failure().stderr(
        "roadstead: a channel is \"very fast\"; accepted are names without white space, commas and control characters, such as stable\n",
    );
}

#[test]
fn a_channel_that_goes_with_its_last_version_is_told() {
    let author = Author::new();
    author.adds("1.0.0", &["stable"]).success();
    author.adds("1.1.0", &["stable,fast"]).success();
    let removed = author.does(&["remove", "1.1.0"]).success();
    let told = String::from_utf8_lossy(&removed.get_output().stderr).into_owned();
    assert!(
        told.contains("note: channel fast had nothing but widgets.v1.1.0 and is gone"),
        "{told}"
    );
}

#[test]
fn a_dockerfile_that_somebody_has_written_stays() {
    let author = Author::new();
    let file = author.0.path().join("catalog.Dockerfile");
    std::fs::write(&file, "FROM mine\n").unwrap();
    let added = author.adds("1.0.0", &["stable"]).success();
    let told = String::from_utf8_lossy(&added.get_output().stderr).into_owned();
    assert!(told.contains("note: catalog.Dockerfile stays as it is"), "{told}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "FROM mine\n");
    std::fs::remove_file(&file).unwrap();
    author.adds("1.0.0", &["stable"]).success();
    author.adds("1.1.0", &["stable"]).success().stderr("");
    assert!(
        std::fs::read_to_string(&file)
            .unwrap()
            .starts_with("# Written by `roadstead ")
    );
}
