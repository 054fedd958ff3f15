//! The sample operator is packaged by the same commands as the product, from manifests that people wrote.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

use assert_cmd::Command;
use roadstead::olm::Manifests;
use roadstead::olm::csv;
use roadstead::olm::manifests::{list, name, text};
use serde_json::{Value, json};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/greeter")
}

fn manifests() -> Manifests {
    Manifests::read(&folder().join("manifests")).unwrap()
}

fn deployment(manifests: &Manifests) -> &Value {
    manifests.of_kind("apps", "Deployment").next().unwrap()
}

/// The commands as the Makefile has them.
fn roadstead(arguments: &str) -> Command {
    let mut command = Command::cargo_bin("roadstead").unwrap();
    command
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(arguments.split_whitespace());
    command
}

#[test]
fn the_bundle_is_what_the_command_makes_of_crds_and_manifests() {
    roadstead(
        "bundle generate --input examples/greeter/crds --input examples/greeter/manifests \
         --output examples/greeter/bundle --check",
    )
    .assert()
    .success();
}

/// As for the product: a version that was released stays as it was released.
#[test]
fn the_catalog_holds_the_bundle_as_it_is_or_not_yet() {
    let manifests = manifests();
    let version = name(csv::base(&manifests).unwrap());
    let catalog =
        std::fs::read_to_string(folder().join("../../catalog/roadstead-greeter/catalog.yaml")).unwrap();
    if catalog.contains(&format!("\nname: {version}\n")) {
        roadstead("catalog generate --bundle examples/greeter/bundle --check")
            .assert()
            .success();
    }
}

/// People write it in four places.
#[test]
fn the_manifests_agree_on_version_and_image() {
    let manifests = manifests();
    let base = csv::base(&manifests).unwrap();
    let version = text(base, "/spec/version");
    let image = format!("registry.roadstead.dev/roadstead-greeter:v{version}");
    assert_eq!(name(base), format!("roadstead-greeter.v{version}"));
    assert_eq!(text(base, "/metadata/annotations/containerImage"), image);
    assert_eq!(
        text(deployment(&manifests), "/spec/template/spec/containers/0/image"),
        image
    );
}

#[test]
fn no_permission_has_a_wildcard_or_reads_secrets() {
    let manifests = manifests();
    let roles = ["ClusterRole", "Role"].map(|kind| {
        manifests
            .of_kind("rbac.authorization.k8s.io", kind)
            .next()
            .unwrap()
    });
    for rule in roles.into_iter().flat_map(|role| list(role, "/rules")) {
        for field in ["/apiGroups", "/resources", "/verbs"] {
            let entries = list(rule, field);
            assert!(!entries.is_empty(), "{rule}");
            assert!(
                !entries.iter().any(|entry| entry
                    .as_str()
                    .is_none_or(|it| it.contains('*') || it == "secrets")),
                "{rule}"
            );
        }
    }
}

/// The rules of the Pod Security Standard "restricted", as far as this pod can break them.
#[test]
fn the_pod_meets_the_restricted_standard() {
    let manifests = manifests();
    let pod = &deployment(&manifests)["spec"]["template"]["spec"];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], json!(true));
    assert_eq!(
        text(pod, "/securityContext/seccompProfile/type"),
        "RuntimeDefault"
    );
    let [container] = list(pod, "/containers") else {
        panic!("one container")
    };
    let context = &container["securityContext"];
    assert_eq!(context["allowPrivilegeEscalation"], json!(false));
    assert_eq!(context["readOnlyRootFilesystem"], json!(true));
    assert_eq!(context["capabilities"], json!({"drop": ["ALL"]}));
}
