use std::path::Path;

use bytes::Bytes;
use rstest::rstest;

use super::*;
use crate::olm::oci::build::{Packing, Plan, Run};
use crate::olm::oci::layer::Layer;
use crate::olm::oci::{Content, Created, Name, Platform};

fn image() -> Content {
    let mut layer = Layer::default();
    layer.file("manifests/a.yaml", Bytes::from_static(b"a"), false);
    let packing = Packing::of(&layer, Created::default()).unwrap();
    let of = |architecture| (Platform::linux(architecture), vec![packing.clone()]);
    let plan = Plan {
        platforms: ["amd64", "arm64"].map(of).into(),
        run: Run::default(),
        created: Created::default(),
        made_by: "a test",
    };
    plan.build().unwrap()
}

fn name() -> Name {
    Name::of("--tag", "registry.example.com/a:v1").unwrap()
}

#[rstest]
#[case("layout")]
#[case("layout.tar")]
fn a_layout_is_read_as_it_was_written_and_written_the_same_twice(#[case] file: &str) {
    let root = tempfile::tempdir().unwrap();
    let (one, two) = (root.path().join(file), root.path().join("again").join(file));
    write(&image(), Some(&name()), &one, false).unwrap();
    let read = open(&one).unwrap();
    assert_eq!(read.root, image().root);
    for part in read.manifests().unwrap() {
        assert_eq!(
            read.document(&part.0).unwrap(),
            image().document(&part.0).unwrap()
        );
    }
    write(&read, Some(&name()), &two, false).unwrap();
    if one.is_file() {
        assert_eq!(std::fs::read(one).unwrap(), std::fs::read(two).unwrap());
    }
}

#[test]
fn a_layout_says_what_the_image_is_called() {
    let root = tempfile::tempdir().unwrap();
    let target = root.path().join("layout");
    write(&image(), Some(&name()), &target, false).unwrap();
    let index = std::fs::read_to_string(target.join(INDEX)).unwrap();
    assert!(index.contains(r#""io.containerd.image.name":"registry.example.com/a:v1""#));
    assert!(index.contains(r#""org.opencontainers.image.ref.name":"v1""#));
}

#[test]
fn a_layout_takes_the_place_of_another_where_that_is_asked_for_and_of_nothing_else() {
    let root = tempfile::tempdir().unwrap();
    let (layout, mine) = (root.path().join("layout"), root.path().join("mine"));
    write(&image(), None, &layout, false).unwrap();
    std::fs::create_dir(&mine).unwrap();
    std::fs::write(mine.join("letter"), "").unwrap();
    let told = |target: &Path, is_forced| {
        write(&image(), None, target, is_forced).map_err(|error| error.to_string())
    };
    assert!(told(&layout, false).unwrap_err().contains("--force"));
    assert!(told(&layout, true).is_ok());
    assert!(told(&mine, true).unwrap_err().contains("no image layout"));
    assert!(mine.join("letter").exists());
}

#[test]
fn a_file_that_is_missing_or_damaged_is_told() {
    let root = tempfile::tempdir().unwrap();
    let target = root.path().join("layout");
    write(&image(), None, &target, false).unwrap();
    let image = open(&target).unwrap();
    let (algorithm, digits) = image.root.digest.parts();
    let file = target.join(BLOBS).join(algorithm).join(digits);
    let bytes = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, bytes.replace("arm64", "arm65")).unwrap();
    let error = open(&target).unwrap().manifests().unwrap_err().to_string();
    assert!(error.contains("damaged or changed"), "{error}");
    std::fs::remove_file(&file).unwrap();
    let error = open(&target).unwrap().manifests().unwrap_err().to_string();
    assert!(error.contains("is missing"), "{error}");
}

#[test]
fn what_is_no_layout_is_told() {
    let root = tempfile::tempdir().unwrap();
    let told = |path: &Path| open(path).unwrap_err().to_string();
    assert!(told(root.path()).contains("no image layout"));
    let file = root.path().join("x.tar");
    std::fs::write(&file, vec![0; 1024]).unwrap();
    assert!(told(&file).contains("no tar of an image layout"));
}
