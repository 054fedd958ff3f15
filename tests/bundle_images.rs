//! Images of bundles at a real registry: the same each time, and after all ways that there are still what they were. Upstream's tools read what we write, and we what they do.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "each binary uses what it needs of this")]
#[path = "support/broken_bundles.rs"]
mod broken_bundles;
#[path = "support/images.rs"]
mod images;
#[allow(dead_code, reason = "each binary uses what it needs of this")]
#[path = "support/registry.rs"]
mod registry;

use broken_bundles::plain;
use images::{Place, done, files, refused, skopeo};
use serde_json::{Value, json};

/// A place with a bundle in `bundle`.
fn place() -> Place {
    let place = Place::new();
    let mut files = plain();
    files
        .others
        .insert("tests/scorecard/config.yaml", "kind: Configuration\n".to_owned());
    files.write(&place.path("bundle"));
    place
}

#[test]
fn a_bundle_is_pushed_to_the_same_digest_each_time_and_comes_back_as_it_was() {
    let place = place();
    let (image, bundle) = (place.image(), place.text("bundle"));
    let built = done(&[
        "bundle",
        "build",
        &bundle,
        "--tag",
        &image,
        "--output",
        &place.text("a.tar"),
    ]);
    let again = done(&[
        "bundle",
        "build",
        &bundle,
        "--tag",
        &image,
        "--output",
        &place.text("again.tar"),
    ]);
    assert_eq!(built, again);
    assert_eq!(
        std::fs::read(place.path("a.tar")).unwrap(),
        std::fs::read(place.path("again.tar")).unwrap()
    );
    let pushed = done(&["bundle", "push", &place.text("a.tar"), &image]);
    assert_eq!(pushed, built);
    assert_eq!(done(&["bundle", "push", &bundle, &image]), built);

    let pulled = done(&["bundle", "pull", &image, "--output", &place.text("pulled")]);
    assert_eq!(pulled, built);
    for (source, target) in [
        (&*place.text("pulled"), "one"),
        (&*image, "two"),
        (&*built, "three"),
    ] {
        done(&["bundle", "unpack", source, "--output", &place.text(target)]);
        assert_eq!(
            files(&place.path(target)),
            files(&place.path("bundle")),
            "{source}"
        );
    }
    let left: Vec<String> = files(place.root.path())
        .into_keys()
        .filter(|name| name.starts_with('.'))
        .collect();
    assert_eq!(left, [""; 0], "nothing of the work is left behind");
}

#[test]
fn a_bundle_is_judged_by_its_image_as_by_its_folder() {
    let place = Place::new();
    let mut files = plain();
    // A warning
    files.csv["spec"].as_object_mut().unwrap().remove("icon");
    files.write(&place.path("bundle"));
    let (image, bundle, layout) = (place.image(), place.text("bundle"), place.text("a.tar"));
    done(&["bundle", "build", &bundle, "--tag", &image, "--output", &layout]);
    done(&["bundle", "push", &layout, &image]);
    let judged = |named: &str| -> Value {
        let told = done(&["bundle", "validate", named, "--with", "all", "--output", "json"]);
        let told: Value = serde_json::from_str(&told.replace(&format!("{bundle}/"), "")).unwrap();
        told["findings"].clone()
    };
    let found = judged(&bundle);
    assert_eq!(found[0]["code"], "hub-icon-missing", "{found}");
    assert_eq!(judged(&image), found);
    assert_eq!(judged(&layout), found);

    let wrong = refused(&["bundle", "validate", "bundle:v1"]);
    assert!(
        wrong.contains("names no registry") && wrong.contains("nor is there a folder"),
        "{wrong}"
    );
}

#[test]
fn an_image_for_several_platforms_shares_its_layer_and_is_pushed_as_a_whole() {
    let place = place();
    let (image, bundle) = (place.image(), place.text("bundle"));
    let platforms = ["--platform", "linux/amd64,linux/arm64"];
    let layout = place.text("layout");
    let build = ["bundle", "build", &bundle, "--tag", &image, "--output", &layout];
    let built = done(&[&build[..], &platforms].concat());
    assert_eq!(done(&["bundle", "push", &layout, &image]), built);
    let raw = skopeo(&[
        "inspect",
        "--raw",
        "--tls-verify=false",
        &format!("docker://{image}"),
    ]);
    let index: Value = serde_json::from_str(&raw).unwrap();
    let of = |at: usize| index["manifests"][at]["platform"]["architecture"].clone();
    assert_eq!([of(0), of(1)], [json!("amd64"), json!("arm64")]);
    // An index, two manifests, two configurations, one layer
    assert_eq!(
        std::fs::read_dir(place.path("layout/blobs/sha256"))
            .unwrap()
            .count(),
        6
    );
    let arm = place.text("arm");
    done(&[
        "bundle",
        "unpack",
        &image,
        "--platform",
        "linux/arm64",
        "--output",
        &arm,
    ]);
    assert_eq!(files(&place.path("arm")), files(&place.path("bundle")));
    let error = refused(&[
        "bundle",
        "unpack",
        &image,
        "--platform",
        "linux/s390x",
        "--output",
        &place.text("s390x"),
    ]);
    assert!(
        error.contains("linux/s390x") && error.contains("linux/amd64"),
        "{error}"
    );
}

#[test]
fn upstreams_tools_read_what_is_built_and_find_the_labels_of_the_bundle() {
    let place = place();
    let (image, bundle) = (place.image(), place.text("bundle"));
    for output in ["layout", "layout.tar"] {
        let output = place.text(output);
        done(&["bundle", "build", &bundle, "--tag", &image, "--output", &output]);
        let kind = if output.ends_with(".tar") {
            "oci-archive"
        } else {
            "oci"
        };
        let copied = format!("docker://{}/copied:v1", place.registry.host);
        skopeo(&[
            "copy",
            "--dest-tls-verify=false",
            &format!("{kind}:{output}"),
            &copied,
        ]);
        let found: Value =
            serde_json::from_str(&skopeo(&["inspect", "--tls-verify=false", &copied])).unwrap();
        let annotations = std::fs::read_to_string(place.path("bundle/metadata/annotations.yaml")).unwrap();
        let annotations: Value = roadstead::olm::yaml::value(&annotations).unwrap();
        assert_eq!(found["Labels"], annotations["annotations"]);
        assert_eq!(
            (&found["Os"], &found["Architecture"]),
            (&json!("linux"), &json!("amd64"))
        );
    }
}

#[test]
fn what_other_builders_make_is_unpacked_whatever_its_format() {
    let place = place();
    let dockerfile = "FROM scratch\nCOPY bundle/manifests /manifests/\nCOPY bundle/metadata /metadata/\nCOPY bundle/tests/scorecard /tests/scorecard/\n";
    std::fs::write(place.path("bundle.Dockerfile"), dockerfile).unwrap();
    for format in ["oci", "docker"] {
        let name = format!("{format}:v1");
        let image = place.registry.publish(
            place.root.path(),
            "bundle.Dockerfile",
            &name,
            &["--format", format, "--layers"],
        );
        let target = place.text(format);
        done(&["bundle", "unpack", &image, "--output", &target]);
        assert_eq!(files(&place.path(format)), files(&place.path("bundle")));
    }
}

#[test]
fn what_cannot_be_done_is_told_with_what_to_do() {
    let place = place();
    let (image, bundle) = (place.image(), place.text("bundle"));
    let error = refused(&["bundle", "pull", &image, "--output", &place.text("x")]);
    assert!(error.contains("404") && error.contains("look whether"), "{error}");
    assert!(!place.path("x").exists());

    let output = place.text("a.tar");
    let build = ["bundle", "build", &bundle, "--tag", &image, "--output", &output];
    done(&build);
    assert!(refused(&build).contains("--force"));
    done(&[&build[..], &["--force"]].concat());

    std::fs::write(place.path("bundle/manifests/csv.yaml"), "a: [").unwrap();
    let error = refused(&[&build[..], &["--force"]].concat());
    assert!(
        error.contains("[manifest-syntax]") && error.contains("no image is made of it"),
        "{error}"
    );
    let error = refused(&["bundle", "push", &bundle, &image]);
    assert!(error.contains("[manifest-syntax]"), "{error}");
    let error = refused(&["bundle", "unpack", "widgets", "--output", &place.text("y")]);
    assert!(
        error.contains("names no registry") && error.contains("layout"),
        "{error}"
    );
}
