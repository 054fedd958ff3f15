//! How changes of a Database's spec reach its instances, against a real API server. The test plays pods and instances.

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
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use kube::ResourceExt;
use roadstead::api::database::agent::{Handover, RECORD, SETTINGS, Settings};
use roadstead::api::database::v1::Database;
use roadstead::controllers::database::instances::Order;
use serde_json::json;
use world::{LIMIT, World, condition, is_ready};

async fn three(namespace: &str) -> World {
    World::serving(namespace, "orders", json!({"version": "17", "size": "large"})).await
}

async fn replicas(world: &World) -> Option<i32> {
    world.get::<StatefulSet>("orders").await.spec.unwrap().replicas
}

async fn told(world: &World) -> Settings {
    let settings = world.get::<ConfigMap>("orders-settings").await.data.unwrap();
    serde_json::from_str(&settings[SETTINGS]).unwrap()
}

/// Waits until an instance was told something, and gives that.
async fn order(world: &World) -> (String, Order) {
    let mut told = Vec::new();
    within(LIMIT, "an instance is told something", async || {
        told.extend(world.ordered());
        !told.is_empty()
    })
    .await;
    told.remove(0)
}

fn to(instance: &str, order: &Order) -> bool {
    matches!(order, Order::HandOver(Handover { to, .. }) if to.as_deref() == Some(instance))
}

/// The Lease names these.
async fn name(world: &World, leader: i32, members: &[&str]) {
    let record = json!({"primary": format!("orders-{leader}"), "systemIdentifier": "7", "timeline": 1, "members": members});
    let patch = json!({"metadata": {"annotations": {RECORD: record.to_string()}}});
    world.patch::<Lease>("orders", patch).await;
}

#[tokio::test]
async fn fewer_instances_take_their_leave_in_order() {
    let world = three("db-fewer").await;
    name(&world, 0, &["orders-0", "orders-1", "orders-2"]).await;
    // The one that leads would have to go.
    world.answer("orders", 2).await;
    world.lead("orders", 2).await;
    world
        .patch::<Database>("orders", json!({"spec": {"instances": 2}}))
        .await;
    let (from, order) = order(&world).await;
    assert!(from == "orders-2" && to("orders-0", &order), "{from}: {order:?}");
    world.until_event("orders", "HandingOver").await;
    assert_eq!(
        (told(&world).await.members.len(), replicas(&world).await),
        (3, Some(3))
    );

    world.lead("orders", 0).await;
    name(&world, 0, &["orders-0", "orders-1", "orders-2"]).await;
    world.answer("orders", 0).await;
    within(LIMIT, "the settings name those that stay", async || {
        told(&world).await.members.len() == 2
    })
    .await;
    world.until_quiet().await;
    assert_eq!(replicas(&world).await, Some(3), "the Lease names all three");

    world.answer("orders", 0).await;
    name(&world, 0, &["orders-0", "orders-1"]).await;
    within(LIMIT, "the StatefulSet shrinks", async || {
        replicas(&world).await == Some(2)
    })
    .await;
    world.delete::<Pod>("orders-2").await;
    world.answer("orders", 0).await;
    world
        .until("orders", "ready with two", |status| {
            is_ready(status) && status["replicas"] == 2
        })
        .await;
}

#[tokio::test]
async fn another_shape_of_pods_is_rolled_out_and_another_instance_takes_over() {
    let world = three("db-shape").await;
    let uid = async |name: &str| world.try_get::<Pod>(name).await.and_then(|pod| pod.uid());
    let before = [
        uid("orders-0").await,
        uid("orders-1").await,
        uid("orders-2").await,
    ];
    world
        .patch::<Database>(
            "orders",
            json!({"spec": {"resources": {"limits": {"memory": "4Gi"}}}}),
        )
        .await;
    for ordinal in [2, 1] {
        let name = format!("orders-{ordinal}");
        within(LIMIT, &format!("{name} is replaced"), async || {
            world.follow("orders", 0).await;
            uid(&name).await.is_some_and(|uid| Some(uid) != before[ordinal])
        })
        .await;
        assert_eq!(uid("orders-0").await, before[0], "the primary comes last");
    }
    world.follow("orders", 0).await;
    let (from, order) = order(&world).await;
    assert!(from == "orders-0" && to("orders-1", &order), "{from}: {order:?}");
    world.lead("orders", 1).await;
    within(LIMIT, "orders-0 is replaced", async || {
        world.follow("orders", 1).await;
        uid("orders-0").await.is_some_and(|uid| Some(uid) != before[0])
    })
    .await;
    world.follow("orders", 1).await;
    world
        .until("orders", "rolled out", |status| {
            is_ready(status) && condition(status, "ConfigurationApplied")["status"] == "True"
        })
        .await;
    world.until_event("orders", "Replacing").await;
}

#[tokio::test]
async fn settings_that_wait_for_a_restart_get_one_and_pods_stay() {
    let world = three("db-restart").await;
    world.say("orders-1", |report| {
        report.pending_restart = vec!["max_connections".into()]
    });
    world
        .patch::<Service>(
            "orders",
            json!({"metadata": {"annotations": {"somebody": "else"}}}),
        )
        .await;
    let (instance, order) = order(&world).await;
    assert!(
        instance == "orders-1" && matches!(order, Order::Restart(_)),
        "{instance}: {order:?}"
    );
    world.until_event("orders", "Restarting").await;
}

#[tokio::test]
async fn somebody_asks_for_another_primary() {
    let world = three("db-switchover").await;
    let ask = async |whom: &str| {
        let wish = json!({"metadata": {"annotations": {"roadstead.dev/switch-over-to": whom}}});
        world.patch::<Database>("orders", wish).await;
    };
    let is_answered = async || {
        let database = world.get::<Database>("orders").await;
        !database
            .annotations()
            .contains_key("roadstead.dev/switch-over-to")
    };
    ask("orders-2").await;
    let (from, order) = order(&world).await;
    assert!(from == "orders-0" && to("orders-2", &order), "{from}: {order:?}");
    within(LIMIT, "the wish is taken", is_answered).await;
    world.until_event("orders", "HandingOver").await;

    ask("orders-7").await;
    within(LIMIT, "the wish is taken", is_answered).await;
    world.until_event("orders", "SwitchoverRefused").await;
    assert_eq!(world.ordered(), []);
}
