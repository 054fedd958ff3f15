//! What is checked in is what the code makes: crds/, config/, bundle/ and catalog/.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use roadstead::olm::catalog::Catalog;
use roadstead::olm::{Difference, Tree};
use roadstead::package;

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
    tree.merge(package::bundle(&tree, &version, &catalog).unwrap());
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

#[test]
fn generated_twice_is_the_same_to_the_byte() {
    let version = package::version().unwrap();
    let everything = || {
        let mut tree = package::tree(&version).unwrap();
        tree.merge(package::bundle(&tree, &version, &released()).unwrap());
        tree
    };
    assert_eq!(everything(), everything());
}
