//! The commands for images, as somebody uses them, and upstream's tool for the same.

#![allow(dead_code, reason = "each test binary uses what it needs of this")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::registry::{Registry, without_proxy};

fn roadstead(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roadstead"));
    command
        .args(arguments)
        .env_remove("SOURCE_DATE_EPOCH")
        .env_remove("REGISTRY_AUTH_FILE")
        .env("HOME", "/nonexistent")
        .env("XDG_RUNTIME_DIR", "/nonexistent")
        .output()
        .unwrap()
}

/// What a command prints that has to go well.
pub fn done(arguments: &[&str]) -> String {
    let output = roadstead(arguments);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", text(output.stderr));
    assert_eq!(text(output.stderr), "", "in a pipe, nothing but errors is told");
    text(output.stdout).trim().to_owned()
}

/// What a command says that has to fail.
pub fn refused(arguments: &[&str]) -> String {
    let output = roadstead(arguments);
    assert!(!output.status.success(), "{arguments:?} went well");
    String::from_utf8(output.stderr).unwrap()
}

pub fn skopeo(arguments: &[&str]) -> String {
    let output = without_proxy(Command::new("skopeo").arg("--insecure-policy").args(arguments));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "skopeo {arguments:?}: {text}");
    String::from_utf8(output.stdout).unwrap()
}

/// A registry, and a folder for what is to be written.
pub struct Place {
    pub root: tempfile::TempDir,
    pub registry: Registry,
}

impl Place {
    pub fn new() -> Self {
        Self {
            root: tempfile::tempdir().unwrap(),
            registry: Registry::start(),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    pub fn image(&self) -> String {
        format!("{}/me/an-image:v1.2.0", self.registry.host)
    }
}

/// Files by their names, with their content.
pub fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut walk = ignore::WalkBuilder::new(folder);
    for entry in walk.standard_filters(false).build() {
        let path = entry.unwrap().into_path();
        if path.is_file() {
            let name = path.strip_prefix(folder).unwrap().display().to_string();
            found.insert(name, std::fs::read(&path).unwrap());
        }
    }
    found
}

/// What looks like a static program for a machine, as far as anybody looks: 62 is amd64, 183 arm64.
pub fn program(place: &Place, machine: u8) -> String {
    let mut bytes = vec![0; 64];
    bytes[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1]);
    bytes[18] = machine;
    let path = place.path(&format!("program-{machine}"));
    std::fs::write(&path, bytes).unwrap();
    path.display().to_string()
}
