//! `roadstead status` at a real API server: what it reads of whom, what it says, and how it ends.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "support/apiserver.rs"]
mod apiserver;
#[path = "support/olm_kinds.rs"]
mod olm_kinds;

use std::path::{Path, PathBuf};
use std::process::Output;

use apiserver::{ApiServer, within};
use kube::Client;
use kube::api::{Patch, PatchParams};
use olm_kinds::{LIMIT, OLM, api, change, put, server};
use serde_json::{Value, json};

/// A Subscription to a package of this name, whose operator runs.
async fn install(client: &Client, namespace: &str, package: &str) {
    let version = format!("{package}.v1.0.0");
    let reference = json!({"name": package, "namespace": namespace});
    let objects = [
        json!({"apiVersion": OLM, "kind": "CatalogSource", "metadata": {"name": package},
            "spec": {"sourceType": "grpc", "address": "10.0.0.7:50051"}, "status": {"connectionState": {"lastObservedState": "READY"}}}),
        json!({"apiVersion": "packages.operators.coreos.com/v1", "kind": "PackageManifest",
            "metadata": {"name": package, "labels": {"catalog": package, "catalog-namespace": namespace}},
            "status": {"catalogSource": package, "catalogSourceNamespace": namespace, "defaultChannel": "stable",
                "channels": [{"name": "stable", "currentCSV": version, "entries": [{"name": version}]}]}}),
        json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": {"name": "all"}, "status": {"namespaces": [""]}}),
        json!({"apiVersion": OLM, "kind": "Subscription", "metadata": {"name": package},
            "spec": {"name": package, "channel": "stable", "source": package, "sourceNamespace": namespace, "installPlanApproval": "Manual"},
            "status": {"state": "AtLatestKnown", "installedCSV": version, "currentCSV": version,
                "installPlanRef": {"name": "install-abcde"}, "catalogHealth": [{"catalogSourceRef": reference, "healthy": true}]}}),
        json!({"apiVersion": OLM, "kind": "InstallPlan", "metadata": {"name": "install-abcde"},
            "spec": {"approved": true, "clusterServiceVersionNames": [version]}, "status": {"phase": "Complete"}}),
        json!({"apiVersion": OLM, "kind": "ClusterServiceVersion", "metadata": {"name": version},
            "spec": {"install": {"spec": {"deployments": [{"name": package}]}}, "installModes": [{"type": "AllNamespaces", "supported": true}]},
            "status": {"phase": "Succeeded"}}),
        // What is copied here from another namespace is none of this Subscription's
        json!({"apiVersion": OLM, "kind": "ClusterServiceVersion", "metadata": {"name": "copy", "labels": {"olm.copiedFrom": "elsewhere"}},
            "status": {"phase": "Failed", "reason": "Copied"}}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": package},
            "spec": {"replicas": 1, "selector": {"matchLabels": {"app": package}}, "template": {
                "metadata": {"labels": {"app": package}}, "spec": {"containers": [{"name": "manager", "image": "example.org/manager"}]}}},
            "status": {"observedGeneration": 1, "replicas": 1, "readyReplicas": 1, "updatedReplicas": 1, "availableReplicas": 1}}),
    ];
    for object in objects {
        put(client, Some(namespace), object).await;
    }
}

/// Runs the command that was built.
fn status(kubeconfig: &Path, args: &[&str]) -> Output {
    let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_roadstead"));
    command
        .args(["status", "--kubeconfig"])
        .arg(kubeconfig)
        .args(args)
        .timeout(LIMIT);
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn it_ends_with_0_when_all_is_well_with_3_when_something_is_to_come_and_with_1_when_something_is_wrong()
{
    let server = server().await;
    let client = server.client().await;
    let namespace = server.namespace("chain").await;
    install(&client, &namespace, "gadgets").await;
    let run = || status(&server.kubeconfig(), &["gadgets"]);

    let well = run();
    let said = text(&well.stdout);
    assert_eq!(well.status.code(), Some(0), "{said}{}", text(&well.stderr));
    assert!(said.ends_with("\nAll is well.\n"), "{said}");
    assert!(!said.contains("copy") && !said.contains('\u{1b}'), "{said}");

    let subscription = json!({"status": {"state": "UpgradePending", "currentCSV": "gadgets.v1.1.0"}});
    change(&client, &namespace, "Subscription", "gadgets", subscription).await;
    let plan = json!({"spec": {"approved": false, "clusterServiceVersionNames": ["gadgets.v1.1.0"]}, "status": {"phase": "RequiresApproval"}});
    change(&client, &namespace, "InstallPlan", "install-abcde", plan).await;
    let waits = run();
    let said = text(&waits.stdout);
    assert_eq!(waits.status.code(), Some(3), "{said}");
    let approval =
        r#"kubectl -n chain patch installplan install-abcde --type merge -p '{"spec":{"approved":true}}'"#;
    assert!(said.contains(approval), "{said}");

    let plan = json!({"status": {"phase": "Failed", "message": "it would lose data"}});
    change(&client, &namespace, "InstallPlan", "install-abcde", plan).await;
    let wrong = run();
    let said = text(&wrong.stdout);
    assert_eq!(wrong.status.code(), Some(1), "{said}");
    assert!(said.contains("it would lose data"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_ends_again_and_again_is_what_programs_are_told() {
    let server = server().await;
    let client = server.client().await;
    let namespace = server.namespace("crash").await;
    install(&client, &namespace, "trinkets").await;
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "trinkets-1", "labels": {"app": "trinkets"}},
        "spec": {"containers": [{"name": "manager", "image": "example.org/manager"}]},
        "status": {"phase": "Running", "containerStatuses": [{"name": "manager", "ready": false, "restartCount": 3, "image": "", "imageID": "",
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}},
            "lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}]}});
    put(&client, Some(&namespace), pod).await;
    let none_ready = Patch::Merge(json!({"status": {"readyReplicas": 0, "availableReplicas": 0}}));
    api(&client, "apps/v1", "Deployment", Some(&namespace))
        .patch_status("trinkets", &PatchParams::default(), &none_ready)
        .await
        .unwrap();

    let output = status(
        &server.kubeconfig(),
        &["trinkets", "--output", "json", "-n", "crash"],
    );
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let first = &report["chains"][0]["first"];
    assert_eq!(first["kind"], "Deployment", "{report:#}");
    assert_eq!(first["why"][1]["words"], "exit code 137, OOMKilled", "{report:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_only_read_one_namespace_is_told_to_name_it_and_needs_no_other_right() {
    let server = server().await;
    let client = server.client().await;
    let namespace = server.namespace("janes").await;
    install(&client, &namespace, "baubles").await;
    let read = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]}]);
    let rights = [
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "reader"}, "rules": read}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "jane"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}, "subjects": [{"kind": "User", "name": "jane"}]}),
    ];
    for object in rights {
        put(&client, Some(&namespace), object).await;
    }
    let kubeconfig = kubeconfig_of(server, "jane");

    let all = status(&kubeconfig, &["baubles"]);
    assert_eq!(all.status.code(), Some(1));
    let said = text(&all.stderr);
    assert!(
        said.contains("-n NAMESPACE") && said.contains("\"jane\""),
        "{said}"
    );

    within(LIMIT, "the rights are known", async || {
        status(&kubeconfig, &["baubles", "-n", "janes"]).status.code() == Some(0)
    })
    .await;

    // Somebody else's catalog cannot be read, and that is told rather than guessed
    let elsewhere = json!({"spec": {"sourceNamespace": "default"}, "status": {"catalogHealth": []}});
    change(&client, &namespace, "Subscription", "baubles", elsewhere).await;
    let partly = status(&kubeconfig, &["baubles", "-n", "janes"]);
    let said = text(&partly.stdout);
    assert!(
        said.contains("unseen  CatalogSource") && said.contains("forbidden"),
        "{said}"
    );
}

/// The same credentials, acting as somebody who has no rights of their own.
fn kubeconfig_of(server: &ApiServer, user: &str) -> PathBuf {
    let text = std::fs::read_to_string(server.kubeconfig()).unwrap();
    let mut kubeconfig: Value = serde_json::from_str(&text).unwrap();
    kubeconfig["users"][0]["user"]["as"] = json!(user);
    let path = server.kubeconfig().with_file_name(format!("kubeconfig-{user}"));
    std::fs::write(&path, kubeconfig.to_string()).unwrap();
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn a_package_that_nobody_subscribes_to_is_told_with_the_catalogs_that_have_it() {
    let server = server().await;
    let client = server.client().await;
    let namespace = server.namespace("offers").await;
    let manifest = json!({"apiVersion": "packages.operators.coreos.com/v1", "kind": "PackageManifest", "metadata": {"name": "unwanted"},
        "status": {"catalogSource": "fair", "catalogSourceNamespace": namespace}});
    put(&client, Some(&namespace), manifest).await;
    let output = status(&server.kubeconfig(), &["unwanted", "-A"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stdout);
    assert!(
        said.contains("Nobody subscribes to unwanted in any namespace."),
        "{said}"
    );
    assert!(said.contains("offers/fair"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_or_a_context_that_is_not_there_is_told_as_that() {
    let server = server().await;
    let output = status(&server.kubeconfig(), &["gadgets", "-n", "nowhere"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stdout);
    assert!(said.contains("There is no namespace nowhere"), "{said}");

    let output = status(&server.kubeconfig(), &["gadgets", "--context", "nope"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    let kubeconfig = std::fs::read_to_string(server.kubeconfig()).unwrap();
    let kubeconfig: Value = serde_json::from_str(&kubeconfig).unwrap();
    let there = kubeconfig["current-context"].as_str().unwrap();
    assert!(
        said.contains(&format!("--context is \"nope\", and the kubeconfig has {there}")),
        "{said}"
    );
}

/// The catalog of a trial has an address, and the pod behind it is of a Deployment that the trial has made.
#[tokio::test(flavor = "multi_thread")]
async fn the_server_of_a_trial_that_cannot_be_pulled_is_told_with_what_names_another() {
    let server = server().await;
    let client = server.client().await;
    let namespace = server.namespace("trial").await;
    install(&client, &namespace, "kettles").await;
    let on_trial = json!({"metadata": {"labels": {"roadstead.dev/trial-of": "kettles"}}, "status": {"connectionState": {"lastObservedState": "TRANSIENT_FAILURE"}}});
    change(&client, &namespace, "CatalogSource", "kettles", on_trial).await;
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "trial-kettles-1", "labels": {"roadstead.dev/trial-of": "kettles"}},
        "spec": {"containers": [{"name": "registry", "image": "example.org/roadstead:v1"}]},
        "status": {"phase": "Pending", "containerStatuses": [{"name": "registry", "ready": false, "restartCount": 0, "image": "", "imageID": "",
            "state": {"waiting": {"reason": "ImagePullBackOff", "message": "example.org/roadstead:v1: not found"}}}]}});
    put(&client, Some(&namespace), pod).await;
    let output = status(&server.kubeconfig(), &["kettles"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stdout)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    for words in [
        "ImagePullBackOff in container registry of pod trial/trial-kettles-1",
        "example.org/roadstead:v1: not found",
        "--server-image or ROADSTEAD_SERVER_IMAGE",
    ] {
        assert!(said.contains(words), "{words:?} is not in:\n{said}");
    }
}
