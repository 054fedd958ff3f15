//! Creation, updates, versions, generations, the status.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use roadstead::api::my_proxy::MyProxy;
use serde_json::json;

use super::{Place, a_deployment, a_proxy, refusal, version};

pub async fn a_new_object_gets_what_identifies_it(place: Place) {
    let made = place.config_map("a").await;
    let metadata = &made.metadata;
    assert!(metadata.uid.as_ref().is_some_and(|uid| uid.len() == 36));
    assert!(metadata.creation_timestamp.is_some());
    assert_eq!(metadata.namespace.as_ref(), Some(&place.namespace));
    assert_eq!(metadata.generation, None, "a kind that does not count");
    assert!(version(&made).parse::<u64>().unwrap() > 1);
    let other = place.config_map("b").await;
    assert_ne!(other.metadata.uid, made.metadata.uid);
    let counted = place.create::<Deployment>(a_deployment("a")).await.unwrap();
    assert_eq!(counted.metadata.generation, Some(1));
    let read = place.raw::<ConfigMap>().get("a").await.unwrap();
    assert_eq!(read, made);
}

pub async fn a_name_is_taken_once(place: Place) {
    place.config_map("a").await;
    let again = json!({"metadata": {"name": "a"}});
    let (code, reason, message) = refusal(place.create::<ConfigMap>(again).await);
    assert_eq!((code, reason.as_str()), (409, "AlreadyExists"));
    assert_eq!(message, "configmaps \"a\" already exists");
}

pub async fn what_is_not_there_is_not_found(place: Place) {
    let api = place.raw::<Deployment>();
    let (code, reason, message) = refusal(api.get("a").await);
    assert_eq!((code, reason.as_str()), (404, "NotFound"));
    assert_eq!(message, "deployments.apps \"a\" not found");
    let patch = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    assert_eq!(
        refusal(api.patch("a", &PatchParams::default(), &patch).await).0,
        404
    );
    assert_eq!(refusal(api.delete("a", &Default::default()).await).0, 404);
    let status = Patch::Merge(json!({"status": {}}));
    assert_eq!(
        refusal(api.patch_status("a", &PatchParams::default(), &status).await).0,
        404
    );
}

pub async fn every_write_makes_a_new_version_and_one_that_changes_nothing_does_not(place: Place) {
    let made = place.config_map("a").await;
    let api = place.raw::<ConfigMap>();
    let patch = Patch::Merge(json!({"data": {"a": "2"}}));
    let changed = api.patch("a", &PatchParams::default(), &patch).await.unwrap();
    assert_ne!(version(&changed), version(&made));
    let same = api.patch("a", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(version(&same), version(&changed));
    let same = api.replace("a", &PostParams::default(), &changed).await.unwrap();
    assert_eq!(version(&same), version(&changed));
}

pub async fn a_write_of_another_version_is_a_conflict(place: Place) {
    let old = place.config_map("a").await;
    let api = place.raw::<ConfigMap>();
    let patch = |version: &str, value: &str| {
        Patch::Merge(json!({"metadata": {"resourceVersion": version}, "data": {"a": value}}))
    };
    let params = PatchParams::default();
    let new = api
        .patch("a", &params, &patch(&version(&old), "2"))
        .await
        .unwrap();
    let (code, reason, message) = refusal(api.patch("a", &params, &patch(&version(&old), "3")).await);
    assert_eq!((code, reason.as_str()), (409, "Conflict"));
    assert!(message.contains("the object has been modified"), "{message}");
    assert_eq!(
        refusal(api.replace("a", &PostParams::default(), &old).await).0,
        409
    );
    assert_eq!(api.get("a").await.unwrap(), new);
}

pub async fn a_write_of_another_object_of_the_same_name_is_refused(place: Place) {
    let made = place.config_map("a").await;
    let api = place.raw::<ConfigMap>();
    let other = "00000000-0000-0000-0000-00000000dead";
    let patch = json!({"metadata": {"uid": other, "annotations": {"a": "b"}}});
    let refused = api
        .patch("a", &PatchParams::default(), &Patch::Merge(patch))
        .await;
    let (code, _, message) = refusal(refused);
    assert!(
        code == 422 && message.contains("metadata.uid") && message.contains("immutable"),
        "{code} {message}"
    );
    let patch = json!({"metadata": {"uid": other, "resourceVersion": "2", "annotations": {"a": "b"}}});
    let refused = api
        .patch("a", &PatchParams::default(), &Patch::Merge(patch))
        .await;
    assert_eq!(refusal(refused).0, 409, "the version is looked at first");
    let mut replaced = made.clone();
    replaced.metadata.uid = Some(other.to_owned());
    assert_eq!(
        refusal(api.replace("a", &PostParams::default(), &replaced).await).0,
        409
    );
    assert_eq!(api.get("a").await.unwrap(), made);
}

pub async fn some_kinds_are_not_updated_without_a_version(place: Place) {
    let mut proxy = place.create::<MyProxy>(a_proxy("a", json!({}))).await.unwrap();
    proxy.metadata.resource_version = None;
    let refused = place
        .raw::<MyProxy>()
        .replace("a", &PostParams::default(), &proxy)
        .await;
    let (code, _, message) = refusal(refused);
    assert_eq!(code, 422);
    assert!(message.contains("metadata.resourceVersion"), "{message}");
    let mut lease = place
        .create::<Lease>(json!({"metadata": {"name": "a"}, "spec": {}}))
        .await
        .unwrap();
    lease.metadata.resource_version = None;
    assert_eq!(
        refusal(
            place
                .raw::<Lease>()
                .replace("a", &PostParams::default(), &lease)
                .await
        )
        .0,
        422
    );
    let mut other = place.config_map("a").await;
    other.metadata.resource_version = None;
    other.data["data"]["a"] = json!("2");
    place
        .raw::<ConfigMap>()
        .replace("a", &PostParams::default(), &other)
        .await
        .unwrap();
}

pub async fn the_generation_counts_changes_of_the_spec_alone(place: Place) {
    place.create::<Deployment>(a_deployment("a")).await.unwrap();
    place.create::<MyProxy>(a_proxy("a", json!({}))).await.unwrap();
    for api in [place.raw::<Deployment>(), place.raw::<MyProxy>()] {
        let params = PatchParams::default();
        let patch = |patch| Patch::Merge(patch);
        let label = patch(json!({"metadata": {"labels": {"x": "y"}}}));
        assert_eq!(
            api.patch("a", &params, &label).await.unwrap().metadata.generation,
            Some(1)
        );
        let status = patch(json!({"status": {"replicas": 1}}));
        let written = api.patch_status("a", &params, &status).await.unwrap();
        assert_eq!(
            (written.metadata.generation, &written.data["status"]["replicas"]),
            (Some(1), &json!(1))
        );
        let spec = patch(json!({"spec": {"replicas": 3}}));
        assert_eq!(
            api.patch("a", &params, &spec).await.unwrap().metadata.generation,
            Some(2)
        );
        assert_eq!(
            api.patch("a", &params, &spec).await.unwrap().metadata.generation,
            Some(2)
        );
    }
    // Of a Deployment, annotations count too.
    let annotation = Patch::Merge(json!({"metadata": {"annotations": {"x": "y"}}}));
    let params = PatchParams::default();
    let annotated = place
        .raw::<MyProxy>()
        .patch("a", &params, &annotation)
        .await
        .unwrap();
    assert_eq!(annotated.metadata.generation, Some(2));
    let annotated = place
        .raw::<Deployment>()
        .patch("a", &params, &annotation)
        .await
        .unwrap();
    assert_eq!(annotated.metadata.generation, Some(3));
}

pub async fn the_status_is_written_by_itself_alone(place: Place) {
    let mut proxy = a_proxy("a", json!({}));
    proxy["status"] = json!({"phase": "Running"});
    let made = place.create::<MyProxy>(proxy).await.unwrap();
    assert_eq!(made.data["status"], json!(null), "not at creation");
    let api = place.raw::<MyProxy>();
    let both = Patch::Merge(
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"replicas": 5}, "status": {"phase": "Failed"}}),
    );
    let params = PatchParams::default();
    let written = api.patch_status("a", &params, &both).await.unwrap();
    assert_eq!(
        (
            &written.data["spec"]["replicas"],
            &written.data["status"]["phase"]
        ),
        (&json!(2), &json!("Failed"))
    );
    assert_eq!(written.metadata.labels, None);
    let both = Patch::Merge(json!({"spec": {"replicas": 6}, "status": {"phase": "Running"}}));
    let written = api.patch("a", &params, &both).await.unwrap();
    assert_eq!(
        (
            &written.data["spec"]["replicas"],
            &written.data["status"]["phase"]
        ),
        (&json!(6), &json!("Failed"))
    );
}

/// That is how its controller notes the revision.
pub async fn the_annotations_of_a_deployment_are_written_with_its_status(place: Place) {
    place.create::<Deployment>(a_deployment("a")).await.unwrap();
    let api = place.raw::<Deployment>();
    let metadata = json!({"annotations": {"a": "b"}, "labels": {"a": "b"}});
    let both = Patch::Merge(json!({"metadata": metadata, "status": {"replicas": 1}}));
    let written = api
        .patch_status("a", &PatchParams::default(), &both)
        .await
        .unwrap();
    assert_eq!(written.data["status"]["replicas"], 1);
    assert_eq!(json!(written.metadata.annotations), json!({"a": "b"}));
    assert_eq!(written.metadata.labels, None);
    assert_eq!(written.metadata.generation, Some(1), "that does not count");
}

pub async fn a_merge_patch_removes_with_null_and_replaces_lists(place: Place) {
    let service = json!({"metadata": {"name": "a", "labels": {"x": "1", "y": "2"}}, "spec": {"ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2}]}});
    place.create::<Service>(service).await.unwrap();
    let patch =
        json!({"metadata": {"labels": {"x": null, "z": "3"}}, "spec": {"ports": [{"name": "c", "port": 3}]}});
    let patched = place
        .raw::<Service>()
        .patch("a", &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
    let labels: Vec<_> = patched.metadata.labels.clone().unwrap().into_keys().collect();
    assert_eq!(labels, ["y", "z"]);
    let expected = json!([{"name": "c", "port": 3, "protocol": "TCP", "targetPort": 3}]);
    assert_eq!(patched.data["spec"]["ports"], expected);
}

pub async fn a_lease_that_is_gone_is_made_by_an_update(place: Place) {
    let api = place.raw::<Lease>();
    let lease = json!({"metadata": {"name": "a"}, "spec": {"holderIdentity": "x"}});
    let made = place.create::<Lease>(lease).await.unwrap();
    api.delete("a", &Default::default()).await.unwrap();
    let mut anew: DynamicObject = made.clone();
    anew.metadata.resource_version = None;
    anew.metadata.uid = None;
    let again = api.replace("a", &PostParams::default(), &anew).await.unwrap();
    assert_ne!(again.metadata.uid, made.metadata.uid);
    api.delete("a", &Default::default()).await.unwrap();
    // With the version and the uid that it had, as an elector sends it.
    let (code, reason, message) = refusal(api.replace("a", &PostParams::default(), &made).await);
    assert_eq!((code, reason.as_str()), (409, "Conflict"), "{message}");
    // With the version alone: it is not looked at.
    let mut anew = made.clone();
    anew.metadata.uid = None;
    api.replace("a", &PostParams::default(), &anew).await.unwrap();
}

pub async fn an_immutable_config_map_is_left_alone(place: Place) {
    let object = json!({"metadata": {"name": "a"}, "data": {"a": "1"}, "immutable": true});
    place.create::<ConfigMap>(object).await.unwrap();
    let api = place.raw::<ConfigMap>();
    for patch in [json!({"data": {"a": "2"}}), json!({"immutable": false})] {
        let (code, _, message) = refusal(
            api.patch("a", &PatchParams::default(), &Patch::Merge(patch))
                .await,
        );
        assert_eq!(code, 422);
        assert!(
            message.contains("field is immutable when `immutable` is set"),
            "{message}"
        );
    }
    let label = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    api.patch("a", &PatchParams::default(), &label).await.unwrap();
}

pub async fn a_selector_is_left_alone(place: Place) {
    place.create::<Deployment>(a_deployment("a")).await.unwrap();
    let labels = json!({"app": "b"});
    let patch =
        json!({"spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}}});
    let refused = place
        .raw::<Deployment>()
        .patch("a", &PatchParams::default(), &Patch::Merge(patch))
        .await;
    let (code, _, message) = refusal(refused);
    assert_eq!(code, 422);
    assert!(
        message.contains("spec.selector") && message.contains("field is immutable"),
        "{message}"
    );
}
