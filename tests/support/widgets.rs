//! An operator that is not ours: the general commands must serve it as well.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and not every test uses all of it"
)]

use std::path::Path;

use roadstead::olm::catalog::Rendered;
use roadstead::olm::{Error, Manifests, Tree, bundle, csv};

/// Its manifests, as they lie in a folder.
pub fn manifests() -> Manifests {
    Manifests::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/widgets")).unwrap()
}

/// Manifests from text, for what is wrong in them.
pub fn manifests_of(text: &str) -> Manifests {
    let mut tree = Tree::default();
    tree.insert("all.yaml", text).unwrap();
    Manifests::of_tree(&tree).unwrap()
}

/// The text of one of its files.
pub fn fixture(file: &str) -> String {
    std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/fixtures/widgets")
            .join(file),
    )
    .unwrap()
}

pub fn options(version: &str) -> bundle::Options {
    bundle::Options {
        csv: csv::Options {
            package: "widgets".into(),
            version: version.parse().unwrap(),
            image: Some(format!("localhost:5000/manager:v{version}")),
            digests: Default::default(),
            replaces: None,
        },
        channels: vec!["candidate".into(), "stable".into()],
        default_channel: "stable".into(),
        folder: "bundle".into(),
        installer: Default::default(),
    }
}

pub fn bundle(version: &str) -> Tree {
    bundle::generate(&manifests(), &options(version)).unwrap()
}

pub fn rendered(version: &str) -> Rendered {
    let image = |_: &_, _: &str| Ok::<_, Error>(format!("localhost:5000/widgets-bundle:v{version}"));
    Rendered::of_tree(&bundle(version), Path::new("bundle"), image).unwrap()
}
