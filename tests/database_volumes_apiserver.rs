//! Volumes that grow, with Kubernetes' own controller of StatefulSets and its garbage collector. The test plays kubelet, storage and instances.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test fails by panicking

#[path = "support/apiserver.rs"]
mod apiserver;
#[path = "support/running.rs"]
#[allow(dead_code, reason = "each binary uses what it needs of this")]
mod running;
#[path = "support/database_volumes.rs"]
#[allow(dead_code, reason = "each binary uses what it needs of this")]
mod volumes;
#[path = "support/database_world.rs"]
#[allow(dead_code, reason = "each binary uses what it needs of this")]
mod world;

use apiserver::{ApiServer, within};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::ResourceExt;
use kube::api::ListParams;
use roadstead::api::database::v1::Database;
use roadstead::runtime::key::Object;
use serde_json::json;
use volumes::storage_class;
use world::{LIMIT, World, condition, is_ready};

/// How many pods belong to a StatefulSet, and how many claims there are that belong to nobody.
async fn owned(world: &World, uid: Option<&str>) -> [usize; 2] {
    async fn count<K: Object<Scope = kube::core::NamespaceResourceScope>>(
        world: &World,
        is_so: impl Fn(&K) -> bool,
    ) -> usize {
        let all = world.api::<K>().list(&ListParams::default()).await.unwrap();
        let is_so = |object: &&K| object.meta().deletion_timestamp.is_none() && is_so(object);
        all.iter().filter(is_so).count()
    }
    let is_owned = |pod: &Pod| {
        let mut owners = pod.owner_references().iter();
        owners.any(|owner| Some(owner.uid.as_str()) == uid)
    };
    let is_free = |claim: &PersistentVolumeClaim| claim.owner_references().is_empty();
    [count(world, is_owned).await, count(world, is_free).await]
}

/// Claims belong to nobody, though they go with their database: whoever owned them could take them along when it is deleted.
#[tokio::test]
async fn a_stateful_set_that_is_made_anew_takes_the_pods_of_the_one_before_and_leaves_the_claims_alone() {
    const NAME: &str = "db-adopted";
    storage_class(NAME, true).await;
    let world = World::new(NAME).await;
    ApiServer::shared().run_controllers();
    let storage = json!({"size": "1Gi", "storageClassName": NAME, "whenDeleted": "Delete"});
    let spec = json!({"version": "17", "size": "medium", "storage": storage});
    world.create("orders", spec).await;
    world.until_child::<StatefulSet>("orders").await;
    let set = world.get::<StatefulSet>("orders").await.uid();
    within(LIMIT, "pods and claims are made", async || {
        owned(&world, set.as_deref()).await == [2, 2]
    })
    .await;
    for ordinal in 0..2 {
        world.resized("orders", ordinal, "1Gi", json!([])).await;
    }
    world.run("orders").await;
    world.until("orders", "ready", is_ready).await;
    let pods = world.pods().await;

    world
        .patch::<Database>("orders", json!({"spec": {"storage": {"size": "2Gi"}}}))
        .await;
    world.until_requests("2Gi").await;
    within(LIMIT, "another StatefulSet has them all", async || {
        let renewed = world.try_get::<StatefulSet>("orders").await;
        let uid = renewed.and_then(|renewed| renewed.uid());
        uid != set && owned(&world, uid.as_deref()).await == [2, 2]
    })
    .await;
    for ordinal in 0..2 {
        world.resized("orders", ordinal, "2Gi", json!([])).await;
    }
    world.answer_as_told("orders", 0).await;
    world
        .until("orders", "done", |status| {
            condition(status, "ConfigurationApplied")["reason"] == "Applied" && is_ready(status)
        })
        .await;
    assert_eq!(world.pods().await, pods);
    assert_eq!(world.template_size("orders").await, "2Gi");
}
