//! Server-side apply: who owns what.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::{Api, Resource};
use roadstead::api::my_proxy::MyProxy;
use serde_json::{Value, json};

use super::{Place, a_deployment, a_proxy, refusal, version};

async fn apply(
    api: &Api<DynamicObject>,
    manager: &str,
    force: bool,
    object: Value,
) -> kube::Result<DynamicObject> {
    let mut params = PatchParams::apply(manager);
    params.force = force;
    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
    api.patch(&name, &params, &Patch::Apply(&object)).await
}

fn config_map(metadata: Value, data: Value) -> Value {
    let mut object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data});
    for (field, value) in metadata.as_object().unwrap() {
        object["metadata"][field] = value.clone();
    }
    object
}

/// Who owns this field, by an apply or else.
fn owners(object: &DynamicObject, pointer: &str) -> Vec<(String, String)> {
    let entries = serde_json::to_value(object.metadata.managed_fields.clone().unwrap_or_default()).unwrap();
    let mut owners: Vec<_> = entries
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["fieldsV1"].pointer(pointer).is_some())
        .map(|entry| {
            let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
            (text("manager"), text("operation"))
        })
        .collect();
    owners.sort();
    owners
}

fn pair(manager: &str, operation: &str) -> (String, String) {
    (manager.to_owned(), operation.to_owned())
}

async fn write<K: Resource<DynamicType = ()>>(place: &Place, manager: &str, patch: Value) -> DynamicObject {
    let params = PatchParams {
        field_manager: Some(manager.to_owned()),
        ..PatchParams::default()
    };
    place
        .raw::<K>()
        .patch("a", &params, &Patch::Merge(patch))
        .await
        .unwrap()
}

pub async fn an_apply_creates_and_the_same_again_changes_nothing(place: Place) {
    let api = place.raw::<Deployment>();
    let made = apply(&api, "one", false, a_deployment("a")).await.unwrap();
    assert_eq!(made.metadata.generation, Some(1));
    let again = apply(&api, "one", false, a_deployment("a")).await.unwrap();
    assert_eq!(version(&made), version(&again));
    assert_eq!(owners(&made, "/f:spec/f:replicas"), [pair("one", "Apply")]);
    assert!(
        owners(&made, "/f:spec/f:revisionHistoryLimit").is_empty(),
        "nobody owns a default"
    );
}

pub async fn an_apply_that_wants_a_new_object_conflicts_with_an_old_one(place: Place) {
    let api = place.raw::<ConfigMap>();
    let new = config_map(json!({"resourceVersion": "1"}), json!({"a": "1"}));
    let made = apply(&api, "one", true, new.clone()).await.unwrap();
    assert!(made.metadata.uid.is_some());
    let (code, reason, _) = refusal(apply(&api, "one", true, new).await);
    assert_eq!((code, reason.as_str()), (409, "Conflict"));
}

pub async fn an_apply_of_a_uid_that_is_not_there_is_refused(place: Place) {
    let api = place.raw::<ConfigMap>();
    let uid = "00000000-0000-0000-0000-00000000dead";
    let (code, _, _) = refusal(apply(&api, "one", true, config_map(json!({"uid": uid}), json!({}))).await);
    assert_eq!(code, 409);
    place.config_map("a").await;
    let (code, _, _) = refusal(
        apply(
            &api,
            "one",
            true,
            config_map(json!({"uid": uid}), json!({"a": "2"})),
        )
        .await,
    );
    assert_eq!(code, 422);
    let guarded = json!({"uid": uid, "resourceVersion": "2"});
    let (code, _, _) = refusal(apply(&api, "one", true, config_map(guarded, json!({"a": "2"}))).await);
    assert_eq!(code, 409, "the version is looked at first");
}

pub async fn what_is_no_longer_applied_goes(place: Place) {
    let api = place.raw::<ConfigMap>();
    let both = config_map(
        json!({"labels": {"x": "1", "y": "2"}}),
        json!({"a": "1", "b": "2"}),
    );
    apply(&api, "one", false, both).await.unwrap();
    let left = apply(
        &api,
        "one",
        false,
        config_map(json!({"labels": {"x": "1"}}), json!({"a": "1"})),
    )
    .await
    .unwrap();
    assert_eq!(left.data["data"], json!({"a": "1"}));
    assert_eq!(
        left.metadata.labels.unwrap().into_keys().collect::<Vec<_>>(),
        ["x"]
    );
}

pub async fn what_others_own_stays(place: Place) {
    let api = place.raw::<ConfigMap>();
    apply(
        &api,
        "one",
        false,
        config_map(json!({}), json!({"a": "1", "b": "2"})),
    )
    .await
    .unwrap();
    apply(
        &api,
        "two",
        false,
        config_map(json!({}), json!({"b": "2", "c": "3"})),
    )
    .await
    .unwrap();
    write::<ConfigMap>(&place, "three", json!({"data": {"d": "4"}})).await;
    let left = apply(&api, "one", false, config_map(json!({}), json!({})))
        .await
        .unwrap();
    assert_eq!(left.data["data"], json!({"b": "2", "c": "3", "d": "4"}));
    assert_eq!(owners(&left, "/f:data/f:b"), [pair("two", "Apply")]);
    assert_eq!(owners(&left, "/f:data/f:d"), [pair("three", "Update")]);
}

pub async fn a_field_of_another_is_a_conflict_unless_forced(place: Place) {
    let api = place.raw::<ConfigMap>();
    apply(&api, "one", false, config_map(json!({}), json!({"a": "1"})))
        .await
        .unwrap();
    let (code, reason, message) =
        refusal(apply(&api, "two", false, config_map(json!({}), json!({"a": "2"}))).await);
    assert_eq!((code, reason.as_str()), (409, "Conflict"));
    assert_eq!(
        message,
        "Apply failed with 1 conflict: conflict with \"one\": .data.a"
    );
    let taken = apply(&api, "two", true, config_map(json!({}), json!({"a": "2"})))
        .await
        .unwrap();
    assert_eq!(owners(&taken, "/f:data/f:a"), [pair("two", "Apply")]);
}

pub async fn two_may_own_the_same_value(place: Place) {
    let api = place.raw::<ConfigMap>();
    apply(&api, "one", false, config_map(json!({}), json!({"a": "1"})))
        .await
        .unwrap();
    let both = apply(&api, "two", false, config_map(json!({}), json!({"a": "1"})))
        .await
        .unwrap();
    assert_eq!(
        owners(&both, "/f:data/f:a"),
        [pair("one", "Apply"), pair("two", "Apply")]
    );
}

pub async fn a_write_takes_over_what_it_changes(place: Place) {
    let api = place.raw::<ConfigMap>();
    apply(
        &api,
        "one",
        false,
        config_map(json!({}), json!({"a": "1", "b": "1"})),
    )
    .await
    .unwrap();
    let written = write::<ConfigMap>(&place, "two", json!({"data": {"a": "2", "b": "1"}})).await;
    assert_eq!(owners(&written, "/f:data/f:a"), [pair("two", "Update")]);
    assert_eq!(owners(&written, "/f:data/f:b"), [pair("one", "Apply")]);
    let (code, _, message) = refusal(
        apply(
            &api,
            "one",
            false,
            config_map(json!({}), json!({"a": "1", "b": "1"})),
        )
        .await,
    );
    assert!(code == 409 && message.contains("\"two\""), "{message}");
}

pub async fn lists_are_merged_by_their_keys(place: Place) {
    let api = place.raw::<Deployment>();
    apply(&api, "one", false, a_deployment("a")).await.unwrap();
    let mut sidecar = a_deployment("a");
    sidecar["spec"] =
        json!({"template": {"spec": {"containers": [{"name": "sidecar", "image": "example/s:1"}]}}});
    apply(&api, "two", false, sidecar).await.unwrap();
    let mut newer = a_deployment("a");
    newer["spec"]["template"]["spec"]["containers"][0]["image"] = json!("example/a:2");
    let merged = apply(&api, "one", false, newer).await.unwrap();
    let images = |object: &DynamicObject| {
        let containers = object.data["spec"]["template"]["spec"]["containers"]
            .as_array()
            .unwrap()
            .clone();
        containers
            .iter()
            .map(|container| container["image"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(images(&merged), ["example/a:2", "example/s:1"]);
    let mut other = a_deployment("a");
    other["spec"]["template"]["spec"]["containers"] = json!([{"name": "other", "image": "example/o:1"}]);
    let mut left = images(&apply(&api, "one", false, other).await.unwrap());
    left.sort_by_key(|image| image.as_str().map(str::to_owned));
    assert_eq!(left, ["example/o:1", "example/s:1"]);
}

pub async fn a_list_without_keys_is_one_value(place: Place) {
    let api = place.raw::<MyProxy>();
    let upstreams = json!([{"name": "u", "servers": [{"host": "a", "port": 1}]}]);
    let routes = |paths: &[&str]| {
        paths
            .iter()
            .map(|path| json!({"path": path, "upstream": "u"}))
            .collect::<Vec<_>>()
    };
    let proxy = |paths: &[&str]| a_proxy("a", json!({"upstreams": upstreams, "routes": routes(paths)}));
    apply(&api, "one", false, proxy(&["/a", "/b"])).await.unwrap();
    let (code, _, message) = refusal(apply(&api, "two", false, proxy(&["/c"])).await);
    assert!(code == 409 && message.contains(".spec.routes"), "{message}");
    let taken = apply(&api, "two", true, proxy(&["/c"])).await.unwrap();
    assert_eq!(taken.data["spec"]["routes"], json!(routes(&["/c"])));
    assert_eq!(owners(&taken, "/f:spec/f:routes"), [pair("two", "Apply")]);
    let key = "/f:spec/f:upstreams/k:{\"name\":\"u\"}";
    assert_eq!(owners(&taken, key), [pair("one", "Apply"), pair("two", "Apply")]);
}

pub async fn a_selector_is_one_value(place: Place) {
    let api = place.raw::<Service>();
    let service = |selector: Value| {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"},
            "spec": {"selector": selector, "ports": [{"port": 80}]},
        })
    };
    apply(&api, "one", false, service(json!({"a": "1", "b": "2"})))
        .await
        .unwrap();
    write::<Service>(&place, "two", json!({"spec": {"selector": {"c": "3"}}})).await;
    let put_back = apply(&api, "one", true, service(json!({"a": "1"})))
        .await
        .unwrap();
    assert_eq!(put_back.data["spec"]["selector"], json!({"a": "1"}));
}

pub async fn a_port_without_protocol_is_found_again(place: Place) {
    let api = place.raw::<Service>();
    let service = |target: u16| {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"},
            "spec": {"ports": [{"name": "http", "port": 80, "targetPort": target}]},
        })
    };
    apply(&api, "one", false, service(1)).await.unwrap();
    let changed = apply(&api, "one", false, service(2)).await.unwrap();
    let expected = json!([{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 2}]);
    assert_eq!(changed.data["spec"]["ports"], expected);
}

pub async fn finalizers_of_others_stay(place: Place) {
    let api = place.raw::<ConfigMap>();
    write_finalizer(&place, "example.com/first").await;
    apply(
        &api,
        "one",
        false,
        config_map(json!({"finalizers": ["example.com/mine"]}), json!({})),
    )
    .await
    .unwrap();
    let left = apply(&api, "one", false, config_map(json!({}), json!({})))
        .await
        .unwrap();
    assert_eq!(
        left.metadata.finalizers,
        Some(vec!["example.com/first".to_owned()])
    );
}

async fn write_finalizer(place: &Place, name: &str) {
    let object = json!({"metadata": {"name": "a", "finalizers": [name]}});
    place.create::<ConfigMap>(object).await.unwrap();
}

/// Else an operator that names it anew would make a second owner of it, and a second controller is refused.
pub async fn an_owner_is_the_same_in_whichever_version_it_is_named(place: Place) {
    let api = place.raw::<ConfigMap>();
    let owned = |versions: &[&str]| {
        let owners = versions.iter().map(|version| {
            json!({
                "apiVersion": format!("example.com/{version}"), "kind": "Owner", "name": "o", "controller": true,
                "uid": "00000000-0000-0000-0000-000000000001",
            })
        });
        json!({"ownerReferences": owners.collect::<Vec<_>>()})
    };
    let applied = async |manager: &str, version: &str| {
        let object = config_map(owned(&[version]), json!({}));
        let made = apply(&api, manager, true, object).await.unwrap();
        json!({"ownerReferences": made.metadata.owner_references})
    };
    assert_eq!(applied("one", "v1alpha1").await, owned(&["v1alpha1"]));
    assert_eq!(applied("one", "v1").await, owned(&["v1"]));
    assert_eq!(applied("two", "v2").await, owned(&["v2"]));
    write::<ConfigMap>(&place, "three", json!({"metadata": owned(&["v1alpha1"])})).await;
    assert_eq!(applied("one", "v1").await, owned(&["v1"]));
}

pub async fn a_status_is_not_applied_with_its_object(place: Place) {
    let api = place.raw::<MyProxy>();
    let mut proxy = a_proxy("a", json!({}));
    proxy["status"] = json!({"phase": "Running"});
    for _ in 0..2 {
        let made = apply(&api, "one", false, proxy.clone()).await.unwrap();
        assert_eq!(made.data["status"], json!(null));
    }
}

pub async fn a_map_that_was_empty_is_filled(place: Place) {
    let api = place.raw::<Deployment>();
    let with = |resources: Value| {
        let mut deployment = a_deployment("a");
        deployment["spec"]["template"]["spec"]["containers"][0]["resources"] = resources;
        deployment
    };
    apply(
        &api,
        "one",
        false,
        with(json!({"requests": {}, "limits": {"cpu": "1"}})),
    )
    .await
    .unwrap();
    let filled = apply(&api, "one", false, with(json!({"requests": {"cpu": "50m"}})))
        .await
        .unwrap();
    let resources = &filled.data["spec"]["template"]["spec"]["containers"][0]["resources"];
    assert_eq!(resources, &json!({"requests": {"cpu": "50m"}}));
}
