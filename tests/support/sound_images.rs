//! Images in which all is as it should be, with everything in them that a layer may have.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::Write as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use roadstead::olm::oci::Digest;
use serde_json::json;
use tar::{Builder, EntryType, Header};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// A layer as a tar, and the same compressed.
pub fn layers() -> Vec<Vec<u8>> {
    let plain = layer();
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(&plain).unwrap();
    vec![plain, packed.finish().unwrap()]
}

fn layer() -> Vec<u8> {
    let mut tar = Builder::new(Vec::new());
    let long = format!("manifests/{}.yaml", "long".repeat(40));
    for (name, kind, content) in [
        ("manifests/", EntryType::Directory, ""),
        ("manifests/a.yaml", EntryType::Regular, "kind: A\n"),
        (&long, EntryType::Regular, "kind: Long\n"),
        (
            "metadata/annotations.yaml",
            EntryType::Regular,
            "annotations: {}\n",
        ),
        (
            "configs/a/catalog.yaml",
            EntryType::Regular,
            "schema: olm.package\n",
        ),
        ("etc/passwd", EntryType::Regular, "root"),
        (".wh.etc", EntryType::Regular, ""),
        ("manifests/.wh..wh..opq", EntryType::Regular, ""),
    ] {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, name, content.as_bytes()).unwrap();
    }
    for (name, kind, target) in [
        ("bin/sh", EntryType::Symlink, "../manifests"),
        ("configs/b.yaml", EntryType::Symlink, "a/catalog.yaml"),
        ("manifests/c.yaml", EntryType::Link, "manifests/a.yaml"),
    ] {
        let mut header = Header::new_ustar();
        header.set_entry_type(kind);
        header.set_size(0);
        tar.append_link(&mut header, name, target).unwrap();
    }
    tar.append_pax_extensions([("path", b"manifests/pax.yaml".as_slice()), ("comment", b"none")])
        .unwrap();
    let mut header = Header::new_ustar();
    header.set_size(2);
    tar.append_data(&mut header, "manifests/short.yaml", b"{}".as_slice())
        .unwrap();
    tar.into_inner().unwrap()
}

/// The files of a layout whose only layer it is, by their names. All digests are right, whatever the layer is.
fn files(layer: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut files = vec![(
        "oci-layout".to_owned(),
        br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec(),
    )];
    let mut keep = |media_type: &str, bytes: Vec<u8>| {
        let digest = Digest::of(&bytes).to_string();
        let descriptor = json!({"mediaType": media_type, "digest": digest, "size": bytes.len()});
        files.push((format!("blobs/{}", digest.replace(':', "/")), bytes));
        descriptor
    };
    let label = "operators.operatorframework.io.index.configs.v1";
    let config = json!({"architecture": "amd64", "os": "linux", "config": {"Labels": {label: "/configs"}}});
    let config = keep(
        "application/vnd.oci.image.config.v1+json",
        config.to_string().into_bytes(),
    );
    let layer = keep("application/vnd.oci.image.layer.v1.tar+gzip", layer.to_vec());
    let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer]});
    let mut root = keep(MANIFEST, manifest.to_string().into_bytes());
    root["platform"] = json!({"os": "linux", "architecture": "amd64"});
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [root]});
    files.push(("index.json".to_owned(), index.to_string().into_bytes()));
    files
}

/// Writes a layout whose only layer it is.
pub fn layout_of(folder: &Path, layer: &[u8]) {
    for (name, bytes) in files(layer) {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

/// A layout as a tar.
pub fn archive() -> Vec<u8> {
    let mut tar = Builder::new(Vec::new());
    for (name, bytes) in files(&layer()) {
        let mut header = Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, name, bytes.as_slice()).unwrap();
    }
    tar.into_inner().unwrap()
}
