//! The garbage collector.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, DynamicObject};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{Place, WHILE, is_going, uid};

fn reference(owner: &DynamicObject, blocks: bool) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": owner.metadata.name, "uid": uid(owner), "blockOwnerDeletion": blocks,
    })
}

/// A dependent of these, held by these finalizers.
async fn dependent(place: &Place, name: &str, owners: &[Value], finalizers: &[&str]) -> DynamicObject {
    let metadata = json!({"name": name, "ownerReferences": owners, "finalizers": finalizers});
    place
        .create::<ConfigMap>(json!({"metadata": metadata}))
        .await
        .unwrap()
}

async fn delete(place: &Place, name: &str, params: DeleteParams) {
    drop(place.api::<ConfigMap>().delete(name, &params).await.unwrap());
}

async fn is_there(place: &Place, name: &str) -> bool {
    place.find::<ConfigMap>(name).await.is_some()
}

/// The names of the owners of an object that stays.
async fn owners(place: &Place, name: &str) -> Vec<Value> {
    let object = place.find::<ConfigMap>(name).await.unwrap();
    assert!(!is_going(&object));
    let owners = object["metadata"]["ownerReferences"]
        .as_array()
        .into_iter()
        .flatten();
    owners.map(|owner| owner["name"].clone()).collect()
}

async fn until_going(place: &Place, name: &str) {
    place.until::<ConfigMap>(name, "going", is_going).await;
}

async fn let_go(place: &Place, name: &str) {
    place
        .patch::<ConfigMap>(name, json!({"metadata": {"finalizers": null}}))
        .await;
}

pub async fn what_belonged_to_something_that_is_gone_goes(place: Place) {
    let a = place.config_map("a").await;
    let b = dependent(&place, "b", &[reference(&a, true)], &[]).await;
    dependent(&place, "c", &[reference(&b, false)], &[]).await;
    place.config_map("other").await;
    sleep(WHILE).await;
    delete(&place, "a", DeleteParams::background()).await;
    assert!(!is_there(&place, "a").await, "it goes at once");
    for name in ["b", "c"] {
        place.until_gone::<ConfigMap>(name).await;
    }
    assert!(is_there(&place, "other").await);
}

pub async fn what_belongs_to_something_that_never_was_goes(place: Place) {
    let a = place.config_map("a").await;
    let mut another = reference(&a, true);
    // As if somebody had deleted the owner, and another one of its name had come.
    another["uid"] = json!("11111111-1111-4111-8111-111111111111");
    dependent(&place, "b", &[another], &[]).await;
    place.until_gone::<ConfigMap>("b").await;
    assert!(is_there(&place, "a").await);
}

pub async fn what_belongs_to_two_goes_with_the_second(place: Place) {
    let (a, b) = (place.config_map("a").await, place.config_map("b").await);
    dependent(&place, "c", &[reference(&a, true), reference(&b, true)], &[]).await;
    sleep(WHILE).await;
    delete(&place, "a", DeleteParams::background()).await;
    place
        .until::<ConfigMap>("c", "of one", |object| {
            object["metadata"]["ownerReferences"].as_array().unwrap().len() == 1
        })
        .await;
    assert_eq!(owners(&place, "c").await, ["b"]);
    delete(&place, "b", DeleteParams::background()).await;
    place.until_gone::<ConfigMap>("c").await;
}

pub async fn in_the_foreground_dependents_that_block_go_first(place: Place) {
    let a = place.config_map("a").await;
    let b = dependent(&place, "b", &[reference(&a, true)], &[]).await;
    dependent(&place, "c", &[reference(&b, true)], &["example.com/held"]).await;
    sleep(WHILE).await;
    delete(&place, "a", DeleteParams::foreground()).await;
    until_going(&place, "c").await;
    sleep(WHILE).await;
    for name in ["a", "b"] {
        let held = place.find::<ConfigMap>(name).await.expect("it waits");
        assert!(is_going(&held));
        assert_eq!(
            held["metadata"]["finalizers"],
            json!(["foregroundDeletion"]),
            "{name}"
        );
    }
    let last = place.find::<ConfigMap>("c").await.unwrap();
    assert_eq!(
        last["metadata"]["finalizers"],
        json!(["example.com/held"]),
        "nothing depends on it"
    );
    let_go(&place, "c").await;
    for name in ["c", "b", "a"] {
        place.until_gone::<ConfigMap>(name).await;
    }
}

pub async fn in_the_foreground_other_dependents_do_not_hold_up(place: Place) {
    let a = place.config_map("a").await;
    dependent(&place, "b", &[reference(&a, false)], &["example.com/held"]).await;
    sleep(WHILE).await;
    delete(&place, "a", DeleteParams::foreground()).await;
    place.until_gone::<ConfigMap>("a").await;
    until_going(&place, "b").await;
    let_go(&place, "b").await;
    place.until_gone::<ConfigMap>("b").await;
}

pub async fn in_the_foreground_dependents_of_somebody_else_too_stay(place: Place) {
    let (a, b) = (place.config_map("a").await, place.config_map("b").await);
    dependent(&place, "c", &[reference(&a, true), reference(&b, true)], &[]).await;
    sleep(WHILE).await;
    delete(&place, "a", DeleteParams::foreground()).await;
    place.until_gone::<ConfigMap>("a").await;
    assert_eq!(owners(&place, "c").await, ["b"]);
}

pub async fn orphans_stay(place: Place) {
    let a = place.config_map("a").await;
    let b = dependent(&place, "b", &[reference(&a, true)], &[]).await;
    dependent(&place, "c", &[reference(&b, true)], &[]).await;
    sleep(WHILE).await;
    delete(&place, "a", DeleteParams::orphan()).await;
    place.until_gone::<ConfigMap>("a").await;
    assert!(owners(&place, "b").await.is_empty());
    assert_eq!(owners(&place, "c").await, ["b"]);
}
