use std::collections::BTreeMap;
use std::io::Write as _;

use bytes::Bytes;
use rstest::rstest;
use tar::{Builder, EntryType, Header};

use super::*;
use crate::olm::oci::content::Blob;
use crate::olm::oci::types::{Manifest, media};
use crate::olm::oci::{Digest, Platform};

type Files<'a> = &'a [(&'a str, EntryType, &'a str)];
const FILE: EntryType = EntryType::Regular;

/// A tar whose names are taken as they are, whatever the library thinks of them.
fn archive(files: Files<'_>) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for &(name, kind, content) in files {
        let mut header = Header::new_gnu();
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(kind);
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        if let (EntryType::GNUSparse, Some(sparse)) = (kind, header.as_gnu_mut()) {
            // A thousand zeros, and nothing else
            sparse.set_real_size(1000);
            sparse.sparse[0].set_offset(1000);
            sparse.sparse[0].set_length(0);
        }
        header.set_cksum();
        builder.append(&header, content.as_bytes()).unwrap();
    }
    builder.into_inner().unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

fn image_of(manifest_type: &str, layers: &[Vec<u8>]) -> Content {
    let mut blobs = BTreeMap::new();
    let mut keep = |media_type: &str, bytes: Vec<u8>| {
        let descriptor = Descriptor::of(media_type, &bytes);
        blobs.insert(descriptor.digest.clone(), Blob::Memory(Bytes::from(bytes)));
        descriptor
    };
    let manifest = Manifest {
        schema_version: 2,
        media_type: manifest_type.to_owned(),
        config: keep(media::CONFIG, b"{}".to_vec()),
        layers: layers
            .iter()
            .map(|layer| keep("a layer", layer.clone()))
            .collect(),
    };
    Content {
        root: keep(manifest_type, serde_json::to_vec(&manifest).unwrap()),
        blobs,
        place: "an image".to_owned(),
    }
}

fn image(layers: &[Files<'_>]) -> Content {
    let layers: Vec<Vec<u8>> = layers.iter().map(|files| gzip(&archive(files))).collect();
    image_of(media::MANIFEST, &layers)
}

/// What comes out of an image: names and contents.
fn unpacked(image: &Content, bounds: Bounds) -> Result<BTreeMap<String, String>, String> {
    let root = tempfile::tempdir().unwrap();
    let target = root.path().join("bundle");
    let done = bundle(image, &Platform::linux("amd64"), &target, &bounds);
    let mut found = BTreeMap::new();
    for entry in ignore::WalkBuilder::new(root.path()).hidden(false).build() {
        let path = entry.unwrap().into_path();
        if path.is_file() {
            let name = path.strip_prefix(&target).unwrap().display().to_string();
            found.insert(name, std::fs::read_to_string(&path).unwrap());
        }
    }
    match done {
        Ok(files) => {
            assert_eq!(files, found.len());
            Ok(found)
        }
        Err(error) => {
            assert!(found.is_empty(), "something was left of what failed: {found:?}");
            Err(error.to_string())
        }
    }
}

fn names(found: &BTreeMap<String, String>) -> Vec<&str> {
    found.keys().map(String::as_str).collect()
}

const PLAIN: Files<'static> = &[
    ("manifests/a.yaml", FILE, "a"),
    ("metadata/annotations.yaml", FILE, "b"),
];

#[rstest]
#[case(media::MANIFEST, true)]
#[case(media::MANIFEST, false)]
#[case(media::DOCKER_MANIFEST, true)]
fn images_of_docker_and_oci_compressed_or_not_give_the_bundle_alone(
    #[case] kind: &str,
    #[case] is_packed: bool,
) {
    let mut files = PLAIN.to_vec();
    files.push(("etc/passwd", FILE, "root"));
    files.push(("tests/scorecard/config.yaml", FILE, "c"));
    files.push(("bin/sh", EntryType::Symlink, ""));
    let layer = archive(&files);
    let layer = if is_packed { gzip(&layer) } else { layer };
    let found = unpacked(&image_of(kind, &[layer]), Bounds::BUNDLE).unwrap();
    assert_eq!(
        names(&found),
        [
            "manifests/a.yaml",
            "metadata/annotations.yaml",
            "tests/scorecard/config.yaml"
        ]
    );
}

#[test]
fn a_layer_hides_what_those_before_it_had_and_nothing_of_its_own() {
    let first: Files<'_> = &[
        ("manifests/gone.yaml", FILE, "1"),
        ("manifests/stays.yaml", FILE, "1"),
        ("metadata/gone.yaml", FILE, "1"),
    ];
    let second: Files<'_> = &[
        ("manifests/.wh.gone.yaml", FILE, ""),
        ("metadata/annotations.yaml", FILE, "2"),
        ("metadata/.wh..wh..opq", FILE, ""),
        ("manifests/stays.yaml", FILE, "2"),
    ];
    let found = unpacked(&image(&[first, second]), Bounds::BUNDLE).unwrap();
    assert_eq!(
        names(&found),
        ["manifests/stays.yaml", "metadata/annotations.yaml"]
    );
    assert_eq!(found["manifests/stays.yaml"], "2");
}

#[rstest]
#[case("/manifests/b.yaml")]
#[case("./manifests/b.yaml")]
fn names_that_begin_at_the_root_of_the_image_are_in_the_folder(#[case] name: &str) {
    let mut files = PLAIN.to_vec();
    files.push((name, FILE, "c"));
    let found = unpacked(&image(&[&files]), Bounds::BUNDLE).unwrap();
    assert_eq!(found["manifests/b.yaml"], "c");
}

#[rstest]
#[case("manifests/../../b", FILE, "would leave the folder")]
#[case("../b", FILE, "would leave the folder")]
#[case("manifests/b", EntryType::Symlink, "is a link")]
#[case("manifests/b", EntryType::Link, "is a link")]
#[case("manifests", EntryType::Symlink, "is a link")]
#[case("tests", EntryType::Symlink, "is a link")]
#[case("metadata/b", EntryType::Char, "is a device")]
#[case("metadata/b", EntryType::Fifo, "is a device")]
fn what_would_write_elsewhere_is_refused_by_its_name(
    #[case] name: &str,
    #[case] kind: EntryType,
    #[case] why: &str,
) {
    let mut files = PLAIN.to_vec();
    files.push((name, kind, ""));
    let error = unpacked(&image(&[&files]), Bounds::BUNDLE).unwrap_err();
    assert!(error.contains(name) && error.contains(why), "{error}");
}

#[rstest]
#[case(Bounds { entries: 1, ..Bounds::BUNDLE }, "more files than are accepted")]
#[case(Bounds { read: 2000, ..Bounds::BUNDLE }, "uncompressed, it is more than is accepted")]
#[case(Bounds { kept: 1, ..Bounds::BUNDLE }, "larger than is accepted")]
fn an_image_that_is_more_than_the_bounds_is_refused(#[case] bounds: Bounds, #[case] why: &str) {
    let error = unpacked(&image(&[PLAIN]), bounds).unwrap_err();
    assert!(error.contains(why), "{error}");
}

#[test]
fn a_bundle_of_more_files_than_any_needs_is_refused() {
    let names: Vec<String> = (0..5_001).map(|at| format!("manifests/{at}.yaml")).collect();
    let files: Vec<(&str, EntryType, &str)> = names.iter().map(|name| (&**name, FILE, "")).collect();
    let error = unpacked(&image(&[&files]), Bounds::BUNDLE).unwrap_err();
    assert!(error.contains("more than 5000 files"), "{error}");
}

#[test]
fn a_folder_takes_the_place_of_a_file_and_a_file_that_of_a_folder() {
    let first: Files<'_> = &[
        ("manifests/a/b.yaml", FILE, "1"),
        ("manifests/a-b", FILE, "1"),
        ("manifests/c", FILE, "1"),
    ];
    let second: Files<'_> = &[
        ("manifests/a", FILE, "2"),
        ("manifests/c/d.yaml", FILE, "2"),
        ("metadata/annotations.yaml", FILE, "2"),
    ];
    let found = unpacked(&image(&[first, second]), Bounds::BUNDLE).unwrap();
    assert_eq!(
        names(&found),
        [
            "manifests/a",
            "manifests/a-b",
            "manifests/c/d.yaml",
            "metadata/annotations.yaml"
        ]
    );
}

#[test]
fn a_name_that_is_a_bomb_is_refused_before_it_is_held() {
    let long = "a".repeat(1 << 20);
    let mut layer = archive(&[("././@LongLink", EntryType::GNULongName, &long)]);
    layer.truncate(layer.len() - 1024);
    layer.extend(archive(PLAIN));
    let error = unpacked(&image_of(media::MANIFEST, &[layer]), Bounds::BUNDLE).unwrap_err();
    assert!(error.contains("more than is accepted"), "{error}");
}

#[test]
fn what_is_not_what_its_digest_says_is_refused() {
    let mut damaged = image(&[PLAIN]);
    let layer = damaged.manifests().unwrap()[0].1.layers[0].clone();
    let Some(Blob::Memory(bytes)) = damaged.blobs.get(&layer.digest) else {
        panic!("it is in memory")
    };
    let other = gzip(&archive(&[("manifests/x.yaml", FILE, "a"), PLAIN[1]]));
    let mut other = other[..other.len().min(bytes.len())].to_vec();
    other.resize(bytes.len(), 0);
    damaged
        .blobs
        .insert(layer.digest, Blob::Memory(Bytes::from(other)));
    assert!(unpacked(&damaged, Bounds::BUNDLE).is_err());
}

#[rstest]
#[case(&[("etc/passwd", FILE, "x")], "it is no bundle: there is no file in manifests/")]
#[case(&[("manifests/a", FILE, "x")], "it is no bundle: there is no file in metadata/")]
fn what_is_no_bundle_is_told(#[case] files: Files<'_>, #[case] why: &str) {
    let error = unpacked(&image(&[files]), Bounds::BUNDLE).unwrap_err();
    assert!(error.contains(why), "{error}");
}

/// What is passed over is read all the same, and of zeros there may be any number.
#[rstest]
#[case("manifests/a")]
#[case("manifests/.wh.a")]
#[case("etc/.wh..wh..opq")]
#[case(".")]
fn a_file_with_holes_is_refused_wherever_it_is(#[case] name: &str) {
    let error = unpacked(&image(&[&[(name, EntryType::GNUSparse, "")]]), Bounds::BUNDLE).unwrap_err();
    assert!(error.contains("neither a file nor a folder"), "{error}");
}

#[test]
fn a_name_that_nobody_could_write_is_refused() {
    let name = format!("manifests/{}x", "a/".repeat(2500));
    let long = [
        ("././@LongLink", EntryType::GNULongName, &*name),
        ("x", FILE, "x"),
    ];
    let error = unpacked(&image(&[&long]), Bounds::BUNDLE).unwrap_err();
    assert!(error.contains("4096 are accepted"), "{error}");
}

#[test]
fn zstd_is_named() {
    let error = unpacked(
        &image_of(media::MANIFEST, &[vec![0x28, 0xb5, 0x2f, 0xfd, 0]]),
        Bounds::BUNDLE,
    );
    assert!(error.unwrap_err().contains("zstd"));
}

#[test]
fn the_digest_of_an_image_is_that_of_its_manifest() {
    let image = image(&[PLAIN]);
    let bytes = image.document(&image.root).unwrap();
    assert_eq!(Digest::of(&bytes), image.root.digest);
}
