//! An operator with webhooks of all three types, in manifests as kubebuilder writes them.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and not every test uses all of it"
)]

use std::path::Path;

use roadstead::olm::bundle::Installer;
use roadstead::olm::{Error, Manifests, Tree, bundle, csv};

/// All of its manifests, one document after another.
pub fn documents() -> Vec<String> {
    ["base", "crds", "operator", "webhooks", "samples"]
        .iter()
        .flat_map(|file| {
            let path = format!("tests/fixtures/gadgets/{file}.yaml");
            let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
            text.split("\n---\n").map(str::to_owned).collect::<Vec<_>>()
        })
        .collect()
}

/// The bundle of manifests given as text.
pub fn bundle_of(documents: &[String]) -> Result<Tree, Error> {
    bundle_for(Installer::Olm, documents)
}

pub fn bundle_for(installer: Installer, documents: &[String]) -> Result<Tree, Error> {
    let mut tree = Tree::default();
    tree.insert("all.yaml", documents.join("\n---\n"))?;
    let options = bundle::Options {
        csv: csv::Options {
            package: "gadgets".into(),
            version: "1.2.3".parse().unwrap(),
            image: None,
            digests: Default::default(),
            replaces: None,
        },
        channels: vec!["stable".into()],
        default_channel: "stable".into(),
        folder: "bundle".into(),
        installer,
    };
    bundle::generate(&Manifests::of_tree(&tree)?, &options)
}

pub fn bundle() -> Tree {
    bundle_of(&documents()).unwrap()
}
