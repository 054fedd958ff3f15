//! Each code that a bundle or a catalog can be found by is tried: the tables of what is broken, which upstream's tools judge elsewhere, have one for it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "each binary uses what it needs of this")]
#[path = "support/broken_bundles.rs"]
mod broken_bundles;
#[allow(dead_code, reason = "each binary uses what it needs of this")]
#[path = "support/broken_catalogs.rs"]
mod broken_catalogs;
#[allow(dead_code, reason = "each binary uses what it needs of this")]
#[path = "support/catalogs.rs"]
mod catalogs;
#[path = "support/platform_bundles.rs"]
mod platform_bundles;

use roadstead::olm::findings::{Code, bundle, catalog};

/// Those that nothing of a table breaks. What an unreadable file is depends on who reads it.
fn untried(all: &[&'static Code], tried: &[&str], unreadable: &str) -> Vec<&'static str> {
    let names = all.iter().map(|code| code.name);
    names
        .filter(|name| !tried.contains(name) && *name != unreadable)
        .collect()
}

#[test]
fn each_code_is_broken_by_a_bundle_of_the_tables() {
    let table = broken_bundles::all();
    let platforms = platform_bundles::all();
    let platforms = platforms.iter().flat_map(|case| case.codes.iter().copied());
    let tried: Vec<&str> = table.iter().map(|broken| broken.code).chain(platforms).collect();
    assert_eq!(untried(bundle::ALL, &tried, "manifest-unreadable"), [""; 0]);
}

#[test]
fn each_code_is_broken_by_a_catalog_of_the_table() {
    let table = broken_catalogs::all();
    let tried: Vec<&str> = table.iter().map(|broken| broken.code).collect();
    assert_eq!(untried(catalog::ALL, &tried, "file-unreadable"), [""; 0]);
}
