//! The promises of Database's controller against a real API server. The test plays pods and instances.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test fails by panicking

#[path = "support/apiserver.rs"]
mod apiserver;
#[path = "support/running.rs"]
#[allow(dead_code, reason = "each binary uses what it needs of this")]
mod running;
#[path = "support/database_world.rs"]
#[allow(dead_code, reason = "each binary uses what it needs of this")]
mod world;

use apiserver::within;
use k8s_openapi::ByteString;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::ResourceExt;
use kube::api::{DeleteParams, PostParams};
use roadstead::api::database::v1::Database;
use serde_json::json;
use world::{LIMIT, World, condition, is_ready};

fn data(secret: Secret, key: &str) -> ByteString {
    secret.data.unwrap()[key].clone()
}

#[tokio::test]
async fn from_a_spec_to_a_database_that_serves() {
    let world = World::new("db-serves").await;
    world
        .create("orders", json!({"version": "17", "size": "large"}))
        .await;
    world
        .until("orders", "being made", |status| status["phase"] == "Creating")
        .await;
    world.run("orders").await;
    world.until("orders", "ready", is_ready).await;
    let status = world.status("orders").await;
    assert_eq!(
        (
            &status["phase"],
            &status["primary"],
            &status["version"],
            &status["systemIdentifier"]
        ),
        (&json!("Running"), &json!("orders-0"), &json!("17.6"), &json!("7"))
    );
    assert_eq!(
        (&status["replicas"], &status["readyReplicas"]),
        (&json!(3), &json!(3))
    );
    assert_eq!(status["endpoint"], "orders.db-serves.svc.cluster.local");

    assert_eq!(world.names::<StatefulSet>().await, ["orders"]);
    assert_eq!(
        world.names::<Service>().await,
        ["orders", "orders-instances", "orders-ro"]
    );
    assert_eq!(
        world.names::<Secret>().await,
        ["orders", "orders-authority", "orders-tls"]
    );
    assert_eq!(world.names::<ConfigMap>().await, ["orders-settings"]);
    assert_eq!(world.names::<PodDisruptionBudget>().await, ["orders"]);
    assert_eq!(world.names::<Lease>().await, ["orders"]);
    assert_eq!(world.names::<Role>().await, ["orders-instances"]);
    assert_eq!(world.names::<RoleBinding>().await, ["orders-instances"]);
    assert_eq!(world.names::<ServiceAccount>().await, ["orders-instances"]);
    for reason in [
        "Created",
        "CertificatesIssued",
        "PrimaryElected",
        "Available",
        "Ready",
    ] {
        world.until_event("orders", reason).await;
    }
}

#[tokio::test]
async fn a_second_reconcile_sends_no_write_and_neither_does_a_restart_nor_a_renewed_lease() {
    let mut world = World::serving(
        "db-idempotence",
        "orders",
        json!({"version": "17", "size": "medium"}),
    )
    .await;
    let version = world.get::<Database>("orders").await.resource_version();
    let (writes, reconciles) = (world.operator.writes(), world.operator.reconciles());
    world
        .patch::<Service>(
            "orders",
            json!({"metadata": {"annotations": {"somebody": "else"}}}),
        )
        .await;
    within(LIMIT, "the change is looked at", async || {
        world.operator.reconciles() > reconciles
    })
    .await;
    assert_eq!(world.operator.writes(), writes);

    let reconciles = world.operator.reconciles();
    for second in 0..5 {
        let renewed = json!({"spec": {"renewTime": format!("2026-01-01T00:00:0{second}.000000Z")}});
        world.patch::<Lease>("orders", renewed).await;
    }
    world.until_quiet().await;
    assert!(
        world.operator.reconciles() <= reconciles + 1,
        "a renewal is no reason to reconcile"
    );
    assert_eq!(world.operator.writes(), writes);
    let lease = world.get::<Lease>("orders").await;
    assert_eq!(lease.spec.unwrap().holder_identity.as_deref(), Some("uid-0"));

    world.restart().await;
    within(LIMIT, "the database is looked at again", async || {
        world.operator.reconciles() > 0
    })
    .await;
    world.until_quiet().await;
    assert_eq!(world.operator.writes(), 0);
    assert_eq!(world.get::<Database>("orders").await.resource_version(), version);
}

#[tokio::test]
async fn what_somebody_changes_or_deletes_is_put_right_and_the_password_stays() {
    let world = World::serving("db-repair", "orders", json!({"version": "17", "size": "medium"})).await;
    let password = data(world.get("orders").await, "password");
    let holder = world.get::<Lease>("orders").await.spec;
    let mine = json!({"data": {"password": "bXkgb3du"}});
    world.patch::<Secret>("orders", mine).await;
    // The cache forgets what has lost its label, and yet nothing is made anew.
    let unlabelled = json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": null}}});
    world.patch::<Secret>("orders", unlabelled.clone()).await;
    world.patch::<Lease>("orders", unlabelled).await;
    world
        .patch::<Service>("orders", json!({"spec": {"selector": {"app": "stranger"}}}))
        .await;
    world
        .patch::<StatefulSet>("orders", json!({"spec": {"replicas": 5}}))
        .await;
    world.delete::<ConfigMap>("orders-settings").await;
    world.delete::<PodDisruptionBudget>("orders").await;
    world.delete::<Role>("orders-instances").await;
    world.until_child::<PodDisruptionBudget>("orders").await;
    world.until_child::<ConfigMap>("orders-settings").await;
    world.until_child::<Role>("orders-instances").await;
    within(LIMIT, "selector and labels are right again", async || {
        let selector = world
            .get::<Service>("orders")
            .await
            .spec
            .unwrap()
            .selector
            .unwrap();
        let name = "orders".to_owned();
        !selector.contains_key("app")
            && world.names::<Secret>().await.contains(&name)
            && world.names::<Lease>().await.contains(&name)
    })
    .await;
    world.until_quiet().await;
    let secret = world.get::<Secret>("orders").await;
    assert_eq!(data(secret.clone(), "password").0, b"my own");
    assert_ne!(data(secret.clone(), "password"), password);
    let uri = String::from_utf8(data(secret, "uri").0).unwrap();
    assert!(
        uri.starts_with("postgresql://orders:my%20own@orders.db-repair.svc."),
        "{uri}"
    );
    assert_eq!(world.get::<Lease>("orders").await.spec, holder);
}

#[tokio::test]
async fn a_lost_authority_is_made_anew_and_instances_keep_their_certificate_meanwhile() {
    let world = World::serving(
        "db-authority",
        "orders",
        json!({"version": "17", "size": "medium"}),
    )
    .await;
    let (key, certificate) = (
        data(world.get("orders-authority").await, "ca.key"),
        data(world.get("orders-tls").await, "tls.crt"),
    );
    world.delete::<Secret>("orders-authority").await;
    world.until_child::<Secret>("orders-authority").await;
    world.until_quiet().await;
    assert_ne!(data(world.get("orders-authority").await, "ca.key"), key);
    assert_eq!(data(world.get("orders-tls").await, "tls.crt"), certificate);
    assert_eq!(
        data(world.get("orders-tls").await, "ca.crt"),
        data(world.get("orders-authority").await, "ca.crt")
    );
    assert!(
        !world
            .get::<Secret>("orders-tls")
            .await
            .data
            .unwrap()
            .contains_key("ca.key")
    );
    world.until("orders", "ready", is_ready).await;
}

#[tokio::test]
async fn a_failover_shows_as_soon_as_the_lease_says_so() {
    let world = World::serving("db-failover", "orders", json!({"version": "17", "size": "large"})).await;
    world.answer("orders", 1).await;
    world.lead("orders", 1).await;
    world
        .until("orders", "led by another", |status| {
            status["primary"] == "orders-1" && status["timeline"] == 2 && is_ready(status)
        })
        .await;
    assert_eq!(world.status("orders").await["instances"][1]["role"], "primary");
}

#[tokio::test]
async fn it_grows_and_says_what_is_not_done() {
    let world = World::serving("db-scale", "orders", json!({"version": "17", "size": "medium"})).await;
    world
        .patch::<Database>("orders", json!({"spec": {"instances": 3}}))
        .await;
    within(LIMIT, "a third instance is asked for", async || {
        world.get::<StatefulSet>("orders").await.spec.unwrap().replicas == Some(3)
    })
    .await;
    world
        .until("orders", "growing", |status| {
            condition(status, "Progressing")["status"] == "True"
        })
        .await;
    world.run("orders").await;
    world.until("orders", "ready", is_ready).await;

    let more = json!({"spec": {"backup": {"enabled": true}}});
    world.patch::<Database>("orders", more).await;
    world
        .until("orders", "told what is not done", |status| {
            condition(status, "BackupsConfigured")["reason"] == "Unsupported"
        })
        .await;
    world.until_event("orders", "Unsupported").await;
}

/// The spec in the manual.
fn manual() -> serde_json::Value {
    let manual = include_str!("../docs/database.md");
    let manifests = manual
        .split("```yaml")
        .map(|part| part.split("```").next().unwrap());
    let manifest = manifests
        .flat_map(|block| block.split("---"))
        .find(|text| text.contains("users:"))
        .expect("a Database with users");
    let manifest: serde_json::Value = serde_yaml::from_str(manifest).unwrap();
    manifest["spec"].clone()
}

#[tokio::test]
async fn users_are_told_without_new_pods_and_what_the_primary_cannot_make_is_told() {
    let world = World::serving("db-users", "orders", json!({"version": "17", "size": "medium"})).await;
    let generation = world.get::<StatefulSet>("orders").await.metadata.generation;
    world.patch::<Database>("orders", json!({"spec": manual()})).await;
    within(LIMIT, "instances may read the password", async || {
        let rules = world.get::<Role>("orders-instances").await.rules.unwrap();
        let of_secrets = rules
            .iter()
            .find(|rule| rule.resources == Some(vec!["secrets".to_owned()]));
        of_secrets.is_some_and(|rule| {
            rule.resource_names == Some(vec!["orders-app".to_owned()]) && rule.verbs == ["get"]
        })
    })
    .await;
    within(LIMIT, "instances are told", async || {
        let settings = world.get::<ConfigMap>("orders-settings").await;
        settings.data.unwrap()["instance.json"].contains("billing")
    })
    .await;
    assert_eq!(
        world.get::<StatefulSet>("orders").await.metadata.generation,
        generation
    );

    world.answer("orders", 0).await;
    let lacking = "spec.users[app]: there is no Secret orders-app";
    world.lack(lacking);
    world
        .until("orders", "told what is missing", |status| {
            let said = condition(status, "ConfigurationApplied");
            said["reason"] == "ContentIncomplete" && said["message"] == lacking && is_ready(status)
        })
        .await;
    world.until_event("orders", "ContentIncomplete").await;
    world.answer("orders", 0).await;
    world
        .until("orders", "told that all is there", |status| {
            condition(status, "ConfigurationApplied")["status"] == "True"
        })
        .await;
}

#[tokio::test]
async fn a_paused_database_is_left_alone_and_what_is_not_ours_is_not_taken() {
    let world = World::serving("db-paused", "orders", json!({"version": "17"})).await;
    world
        .patch::<Database>("orders", json!({"spec": {"paused": true}}))
        .await;
    world
        .until("orders", "paused", |status| status["phase"] == "Paused")
        .await;
    world
        .patch::<Service>("orders", json!({"spec": {"selector": {"app": "stranger"}}}))
        .await;
    world.until_quiet().await;
    let selector = world
        .get::<Service>("orders")
        .await
        .spec
        .unwrap()
        .selector
        .unwrap();
    assert_eq!(selector["app"], "stranger");

    let strange: Secret =
        serde_json::from_value(json!({"metadata": {"name": "taken"}, "stringData": {"password": "theirs"}}))
            .unwrap();
    world
        .api()
        .create(&PostParams::default(), &strange)
        .await
        .unwrap();
    world.create("taken", json!({"version": "17"})).await;
    world
        .until("taken", "refused", |status| {
            condition(status, "ConfigurationApplied")["reason"] == "NameTaken" && status["phase"] == "Failed"
        })
        .await;
    assert_eq!(data(world.get("taken").await, "password").0, b"theirs");
}

#[tokio::test]
async fn deletion_waits_for_the_instances_and_leaves_nothing() {
    let world = World::serving(
        "db-deletion",
        "orders",
        json!({"version": "17", "size": "medium"}),
    )
    .await;
    world.delete::<Database>("orders").await;
    within(LIMIT, "the StatefulSet is gone", async || {
        world.try_get::<StatefulSet>("orders").await.is_none()
    })
    .await;
    world
        .until("orders", "being deleted", |status| status["phase"] == "Deleting")
        .await;
    world.until_quiet().await;
    // Nobody plays the garbage collector yet: the pods are there still, and so is what they need.
    assert_eq!(world.names::<Secret>().await.len(), 3);
    assert_eq!(world.names::<Lease>().await.len(), 1);
    for pod in ["orders-0", "orders-1"] {
        let now = DeleteParams::default().grace_period(0);
        world.api::<Pod>().delete(pod, &now).await.unwrap();
    }
    within(LIMIT, "the database is gone", async || {
        world.try_get::<Database>("orders").await.is_none()
    })
    .await;
    let left = [
        world.names::<Service>().await,
        world.names::<ConfigMap>().await,
        world.names::<Secret>().await,
        world.names::<PodDisruptionBudget>().await,
        world.names::<Lease>().await,
        world.names::<Role>().await,
        world.names::<RoleBinding>().await,
        world.names::<ServiceAccount>().await,
    ];
    assert!(left.concat().is_empty(), "{left:?}");
}
