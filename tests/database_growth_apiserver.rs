//! How the volumes of a Database grow, against a real API server. The test plays pods, instances and the storage.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test fails by panicking

#[path = "support/apiserver.rs"]
mod apiserver;
#[path = "support/running.rs"]
#[allow(dead_code, reason = "each binary uses what it needs of this")]
mod running;
#[path = "support/database_volumes.rs"]
mod volumes;
#[path = "support/database_world.rs"]
#[allow(dead_code, reason = "each binary uses what it needs of this")]
mod world;

use apiserver::within;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::ResourceExt;
use roadstead::api::database::v1::Database;
use serde_json::json;
use volumes::storage_class;
use world::{LIMIT, World, condition, is_ready};

fn larger() -> serde_json::Value {
    json!({"spec": {"storage": {"size": "2Gi"}}})
}

#[tokio::test]
async fn volumes_grow_and_the_stateful_set_is_made_anew_around_pods_that_nobody_touches() {
    let mut world = World::with_volumes("db-volumes", true).await;
    let (pods, set) = (world.pods().await, world.get::<StatefulSet>("orders").await);
    world.patch::<Database>("orders", larger()).await;
    world.until_requests("2Gi").await;
    world
        .until("orders", "growing", |status| {
            let (progresses, applied) = (
                condition(status, "Progressing"),
                condition(status, "ConfigurationApplied"),
            );
            let both = [&progresses, &applied].map(|condition| condition["reason"] == "Resizing");
            both == [true, true]
                && progresses["status"] == "True"
                && applied["status"] == "False"
                && is_ready(status)
        })
        .await;

    // The operator ends when the StatefulSet is gone and no other is there yet.
    world.until_released("orders").await;
    world.operator.stop().await;
    world.part("orders").await;
    assert_eq!(world.pods().await, pods);
    world.restart().await;
    world.until_child::<StatefulSet>("orders").await;
    let renewed = world.get::<StatefulSet>("orders").await;
    assert_eq!(world.template_size("orders").await, "2Gi");
    assert_ne!(renewed.uid(), set.uid());
    assert_eq!(renewed.spec.as_ref().unwrap().replicas, Some(2));
    assert_eq!(renewed.spec.unwrap().selector, set.spec.unwrap().selector);
    world.adopt("orders").await;

    let pending =
        json!([{"type": "FileSystemResizePending", "status": "True", "message": "waits for the pod"}]);
    world.resized("orders", 0, "1Gi", pending).await;
    world
        .until("orders", "told what it waits for", |status| {
            let message = condition(status, "Progressing")["message"].to_string();
            message
                .contains("data-orders-0 grows from 1Gi to 2Gi: FileSystemResizePending: waits for the pod;")
                && message.contains("when pod orders-0 is started again")
        })
        .await;
    for ordinal in 0..2 {
        world.resized("orders", ordinal, "2Gi", json!([])).await;
    }
    // Twice the volume, twice the WAL between two checkpoints.
    world.answer_as_told("orders", 0).await;
    world
        .until("orders", "done", |status| {
            condition(status, "ConfigurationApplied")["reason"] == "Applied"
                && condition(status, "Progressing")["status"] == "False"
                && is_ready(status)
        })
        .await;
    for reason in ["VolumeGrows", "Resizing", "Renewing"] {
        world.until_event("orders", reason).await;
    }
    world.until_quiet().await;
    assert_eq!(world.pods().await, pods);
    assert_eq!(
        world.get::<StatefulSet>("orders").await.uid(),
        renewed.metadata.uid
    );
}

#[tokio::test]
async fn a_growth_that_is_refused_is_told_and_holds_nothing_else_up_and_comes_when_the_class_allows_it() {
    let mut world = World::with_volumes("db-fixed-volumes", false).await;
    let set = world.get::<StatefulSet>("orders").await.uid();
    world.patch::<Database>("orders", larger()).await;
    world
        .until("orders", "told that volumes do not grow", |status| {
            let applied = condition(status, "ConfigurationApplied");
            let message = applied["message"].as_str().unwrap_or_default();
            applied["reason"] == "VolumesNotGrown"
                && message.contains("2Gi")
                && message.contains("must support resize")
                && is_ready(status)
        })
        .await;
    world.until_event("orders", "VolumesNotGrown").await;
    world.until_quiet().await;

    // It is not asked again at each change.
    let (writes, reconciles) = (world.operator.writes(), world.operator.reconciles());
    for number in 0..3 {
        let annotation = json!({"metadata": {"annotations": {"somebody": number.to_string()}}});
        world.patch::<Service>("orders", annotation).await;
    }
    within(LIMIT, "the changes are looked at", async || {
        world.operator.reconciles() > reconciles
    })
    .await;
    world.until_quiet().await;
    assert_eq!(world.operator.writes(), writes);

    let work_mem = json!({"spec": {"parameters": {"work_mem": "12MB"}, "instances": 3}});
    world.patch::<Database>("orders", work_mem).await;
    within(LIMIT, "the rest of the spec arrives", async || {
        let settings = world.get::<ConfigMap>("orders-settings").await.data.unwrap();
        let replicas = world.get::<StatefulSet>("orders").await.spec.unwrap().replicas;
        settings.values().any(|file| file.contains("12MB")) && replicas == Some(3)
    })
    .await;
    assert_eq!(world.get::<StatefulSet>("orders").await.uid(), set);
    assert_eq!(world.template_size("orders").await, "1Gi");
    assert_eq!(world.requests().await, ["1Gi", "1Gi"]);

    storage_class("db-fixed-volumes", true).await;
    // It would be asked again after half a minute at the earliest; a new operator asks at once.
    world.restart().await;
    world.until_requests("2Gi").await;
    // One instance has no pod and no claim yet.
    world.until_quiet().await;
    assert_eq!(world.get::<StatefulSet>("orders").await.uid(), set);
}

#[tokio::test]
async fn a_database_that_is_deleted_while_its_stateful_set_is_away_ends_its_pods_and_keeps_its_volumes() {
    let mut world = World::with_volumes("db-deleted-volumes", true).await;
    world.patch::<Database>("orders", larger()).await;
    world.until_released("orders").await;
    world.operator.stop().await;
    world.part("orders").await;
    world.delete::<Database>("orders").await;
    world.restart().await;
    within(LIMIT, "the database is gone", async || {
        world.try_get::<Database>("orders").await.is_none()
    })
    .await;
    assert!(world.pods().await.is_empty());
    assert_eq!(world.requests().await, ["2Gi", "2Gi"]);
}
