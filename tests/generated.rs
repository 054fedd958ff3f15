//! What is checked in is what the code makes: crds/, config/, bundle/ and catalog/. And what is made for the code, tests/mutants/, fits it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::Command;

use roadstead::olm::catalog::Catalog;
use roadstead::olm::{Difference, Tree};
use roadstead::package::{self, deprecations};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn assert_checked_in(tree: &Tree, remedy: &str) {
    let differences = tree.differences(root()).unwrap();
    let names: Vec<String> = differences.iter().map(Difference::to_string).collect();
    assert!(names.is_empty(), "{}\nrun {remedy}", names.join("\n"));
}

fn released() -> Catalog {
    Catalog::read(&root().join("catalog"), package::PACKAGE).unwrap()
}

#[test]
fn crds_and_config_are_what_the_types_say() {
    let tree = package::tree(&package::version().unwrap()).unwrap();
    assert_checked_in(&tree, "make manifests");
}

#[test]
fn the_bundle_is_what_config_says() {
    let version = package::version().unwrap();
    let tree = package::tree(&version).unwrap();
    assert_checked_in(
        &package::bundle(&tree, &version, &released()).unwrap(),
        "make bundle",
    );
}

/// A catalog tells clusters what a version is, so a version that was released stays as it was released.
#[test]
fn the_catalog_holds_the_bundle_as_it_is_or_not_yet() {
    let version = package::version().unwrap();
    let mut catalog = released();
    if catalog
        .released()
        .unwrap()
        .iter()
        .all(|(there, _)| *there != version)
    {
        return; // between two releases
    }
    let mut tree = package::tree(&version).unwrap();
    tree.merge(package::bundle(&tree, &version, &catalog).unwrap())
        .unwrap();
    let bundle = format!("{}.v{version}", package::PACKAGE);
    let names = catalog.channel_names();
    let channels: Vec<String> = names
        .filter(|name| catalog.get_channel(name).unwrap().has(&bundle))
        .map(str::to_owned)
        .collect();
    package::publish(&mut catalog, &tree, &channels).unwrap();
    assert_checked_in(
        &catalog.tree(Path::new("catalog")).unwrap(),
        "roadstead catalog generate if this version was not published yet; otherwise set the next one in Cargo.toml (such as 0.2.0-dev)",
    );
}

/// One table tells the API server, the catalog and the readers of docs/VERSIONS.md.
#[test]
fn what_is_deprecated_is_told_by_the_catalog_and_the_documentation() {
    let (table, mut catalog) = (deprecations::TABLE, released());
    let told = catalog.deprecations().to_vec();
    catalog.deprecate(deprecations::entries(table, &catalog).unwrap());
    assert_eq!(told, catalog.deprecations());

    let documentation = std::fs::read_to_string(root().join("docs/VERSIONS.md")).unwrap();
    let (_, after) = documentation.split_once("\n## Deprecated now\n\n").unwrap();
    let (shown, _) = after.split_once("\n## ").unwrap();
    assert_eq!(shown, deprecations::table(table), "in docs/VERSIONS.md");
}

#[test]
fn generated_twice_is_the_same_to_the_byte() {
    let version = package::version().unwrap();
    let everything = || {
        let mut tree = package::tree(&version).unwrap();
        tree.merge(package::bundle(&tree, &version, &released()).unwrap())
            .unwrap();
        tree
    };
    assert_eq!(everything(), everything());
}

/// One that does not fit any more would be missing from the bugs that `make mutants` seeds.
#[test]
fn every_seeded_bug_fits_the_code_and_says_what_it_is() {
    let folder = root().join("tests/mutants").read_dir().unwrap();
    let mut patches: Vec<PathBuf> = folder.map(|entry| entry.unwrap().path()).collect();
    patches.sort();
    assert!(!patches.is_empty());
    for patch in patches {
        let name = patch.strip_prefix(root()).unwrap().display();
        let text = std::fs::read_to_string(&patch).unwrap();
        let first = text.lines().next().unwrap_or_default();
        assert!(
            first.starts_with(char::is_uppercase) && text.contains("\n\ndiff --git a/"),
            "{name}: the first line says what is wrong, and a diff follows after an empty one"
        );
        let checked = Command::new("git")
            .args(["apply", "--check"])
            .arg(&patch)
            .current_dir(root())
            // In a folder of somebody else's checkout git would pass over every file, and find nothing wrong.
            .env("GIT_CEILING_DIRECTORIES", root().parent().unwrap())
            .output()
            .unwrap();
        assert!(
            checked.status.success(),
            "{name} does not fit the code: {}\nseed the bug by hand, then write it down and take it out again:\n\
             text=$(head -n 1 {name}); {{ echo \"$text\"; echo; git diff -- src examples; }} >{name}; git apply --reverse {name}",
            String::from_utf8_lossy(&checked.stderr)
        );
    }
}
