//! Deletion, finalizers, and what is said about dependents. Nobody collects garbage here.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, Preconditions};
use roadstead::api::my_proxy::MyProxy;
use serde_json::{Value, json};

use super::{Place, a_deployment, a_proxy, refusal, version};

pub async fn an_object_goes_at_once(place: Place) {
    place.config_map("a").await;
    let api = place.raw::<ConfigMap>();
    api.delete("a", &DeleteParams::background()).await.unwrap();
    assert!(api.get_opt("a").await.unwrap().is_none());
}

pub async fn a_finalizer_keeps_an_object_and_its_removal_lets_it_go(place: Place) {
    let mut proxy = a_proxy("a", json!({}));
    proxy["metadata"]["finalizers"] = json!(["example.com/a", "example.com/b"]);
    place.create::<MyProxy>(proxy).await.unwrap();
    let api = place.raw::<MyProxy>();
    api.delete("a", &DeleteParams::background()).await.unwrap();
    let going = api.get("a").await.unwrap();
    assert!(going.metadata.deletion_timestamp.is_some());
    assert_eq!(going.metadata.deletion_grace_period_seconds, Some(0));
    assert_eq!(going.metadata.generation, Some(2), "a deletion counts");
    api.delete("a", &DeleteParams::background()).await.unwrap();
    assert_eq!(api.get("a").await.unwrap(), going, "a second one changes nothing");

    let params = PatchParams::default();
    let keep = |finalizers: Value| Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
    let one_left = api
        .patch("a", &params, &keep(json!(["example.com/b"])))
        .await
        .unwrap();
    assert_eq!(one_left.metadata.finalizers.as_ref().map(Vec::len), Some(1));
    let last = api.patch("a", &params, &keep(json!([]))).await.unwrap();
    assert!(last.metadata.finalizers.unwrap_or_default().is_empty());
    assert!(api.get_opt("a").await.unwrap().is_none());
}

pub async fn finalizers_that_are_none_are_not_there(place: Place) {
    let mut proxy = a_proxy("a", json!({}));
    proxy["metadata"]["finalizers"] = json!(["example.com/a"]);
    proxy["metadata"]["labels"] = json!({"a": "b"});
    place.create::<MyProxy>(proxy).await.unwrap();
    let api = place.raw::<MyProxy>();
    let none = Patch::Merge(json!({"metadata": {"finalizers": [], "labels": {"a": null}}}));
    let answer = api.patch("a", &PatchParams::default(), &none).await.unwrap();
    assert_eq!(answer, api.get("a").await.unwrap());
    assert_eq!(answer.metadata.finalizers, None);
    assert_eq!(answer.metadata.labels, None);
}

pub async fn a_finalizer_that_is_added_late_is_refused(place: Place) {
    let mut proxy = a_proxy("a", json!({}));
    proxy["metadata"]["finalizers"] = json!(["example.com/a"]);
    place.create::<MyProxy>(proxy).await.unwrap();
    let api = place.raw::<MyProxy>();
    api.delete("a", &DeleteParams::background()).await.unwrap();
    let patch = Patch::Merge(json!({"metadata": {"finalizers": ["example.com/a", "example.com/b"]}}));
    let (code, _, message) = refusal(api.patch("a", &PatchParams::default(), &patch).await);
    assert_eq!(code, 422);
    assert!(
        message.contains("no new finalizers can be added if the object is being deleted"),
        "{message}"
    );
}

pub async fn a_deletion_of_another_object_or_version_is_a_conflict(place: Place) {
    let made = place.config_map("a").await;
    let api = place.raw::<ConfigMap>();
    let delete = async |uid: Option<&str>, version: Option<&str>| {
        let preconditions = Preconditions {
            uid: uid.map(str::to_owned),
            resource_version: version.map(str::to_owned),
        };
        let params = DeleteParams::background().preconditions(preconditions);
        api.delete("a", &params).await.map(|_| ())
    };
    let other = "00000000-0000-0000-0000-00000000dead";
    assert_eq!(refusal(delete(Some(other), None).await).0, 409);
    assert_eq!(refusal(delete(None, Some("2")).await).0, 409);
    delete(made.metadata.uid.as_deref(), Some(&version(&made)))
        .await
        .unwrap();
    assert_eq!(refusal(delete(made.metadata.uid.as_deref(), None).await).0, 404);
}

pub async fn foreground_and_orphan_are_finalizers(place: Place) {
    for (name, params, finalizer) in [
        ("a", DeleteParams::foreground(), "foregroundDeletion"),
        ("b", DeleteParams::orphan(), "orphan"),
    ] {
        place.create::<Deployment>(a_deployment(name)).await.unwrap();
        let api = place.raw::<Deployment>();
        api.delete(name, &params).await.unwrap();
        let waits = api.get(name).await.unwrap();
        assert!(waits.metadata.deletion_timestamp.is_some());
        assert_eq!(waits.metadata.finalizers, Some(vec![finalizer.to_owned()]));
        assert_eq!(waits.metadata.generation, Some(2));
    }
}

pub async fn a_job_is_deleted_without_its_pods_unless_said_otherwise(place: Place) {
    let job = |name: &str| {
        json!({
            "metadata": {"name": name},
            "spec": {"backoffLimit": 0, "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "example/a:1"}]}}},
        })
    };
    let api = place.raw::<Job>();
    place.create::<Job>(job("a")).await.unwrap();
    api.delete("a", &DeleteParams::default()).await.unwrap();
    let left: Option<DynamicObject> = api.get_opt("a").await.unwrap();
    assert_eq!(
        left.and_then(|job| job.metadata.finalizers),
        Some(vec!["orphan".to_owned()])
    );
    place.create::<Job>(job("b")).await.unwrap();
    api.delete("b", &DeleteParams::background()).await.unwrap();
    assert!(api.get_opt("b").await.unwrap().is_none());
}
