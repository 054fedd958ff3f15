//! Upstream's tool for catalogs, as judge and as peer.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Where `opm` is, which is built with the local cluster's programs.
pub fn program() -> PathBuf {
    let cluster = Path::new(env!("CARGO_MANIFEST_DIR")).join("hack/cluster/cluster");
    let assets = Command::new(cluster).arg("assets").output().unwrap();
    let program = PathBuf::from(String::from_utf8(assets.stdout).unwrap().trim()).join("opm");
    assert!(
        assets.status.success() && program.exists(),
        "opm is not built yet; run `hack/cluster/cluster programs`"
    );
    program
}
