//! Deployments whose template stays.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::DeleteParams;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{
    IMAGE, Place, WHILE, condition, controlled_by, is_going, name_of, number, owners, said, template, version,
};
use crate::pretence::MISSING;

/// The Deployment `a` of so many pods, with more of its spec.
pub fn deployment(replicas: u64, image: &str, more: Value) -> Value {
    let mut spec = json!({
        "replicas": replicas, "selector": {"matchLabels": {"app": "a"}}, "template": template("a", image, &[]),
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    json!({"metadata": {"name": "a"}, "spec": spec})
}

/// How many pods there are, of the present template, ready, available, and not available.
pub fn numbers(deployment: &Value) -> [u64; 5] {
    [
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
    ]
    .map(|field| number(&deployment["status"][field]))
}

pub fn is_observed(deployment: &Value) -> bool {
    deployment["status"]["observedGeneration"] == deployment["metadata"]["generation"]
}

/// Waits until all of so many pods of the Deployment `a` are as they should.
pub async fn until_complete(place: &Place, replicas: u64) -> Value {
    let wanted = [replicas, replicas, replicas, replicas, 0];
    let deployment = place
        .until::<Deployment>("a", "complete", |deployment| {
            is_observed(deployment)
                && numbers(deployment) == wanted
                && said(deployment, "Progressing") == json!(["True", "NewReplicaSetAvailable"])
        })
        .await;
    assert_eq!(
        said(&deployment, "Available"),
        json!(["True", "MinimumReplicasAvailable"])
    );
    deployment
}

/// The pods that are not going.
pub async fn present(place: &Place) -> Vec<Value> {
    let mut pods = place.all::<Pod>().await;
    pods.retain(|pod| !is_going(pod));
    pods
}

pub async fn a_new_deployment_tells_how_far_it_is_until_it_is_complete(place: Place) {
    let history = place.follow::<Deployment>().await;
    place.config("good").await;
    place
        .create::<Deployment>(deployment(3, IMAGE, json!({})))
        .await
        .unwrap();
    let complete = until_complete(&place, 3).await;
    for field in ["unavailableReplicas", "collisionCount"] {
        assert!(
            complete["status"].get(field).is_none(),
            "no count is no field: {field}"
        );
    }
    let progress = history.course(|deployment| said(deployment, "Progressing")).await;
    let expected = json!([
        [null, null],
        ["True", "NewReplicaSetCreated"],
        ["True", "ReplicaSetUpdated"],
        ["True", "NewReplicaSetAvailable"],
    ]);
    assert_eq!(json!(progress), expected);
    let available = history.course(|deployment| said(deployment, "Available")).await;
    let expected = json!([
        [null, null],
        ["False", "MinimumReplicasUnavailable"],
        ["True", "MinimumReplicasAvailable"],
    ]);
    assert_eq!(json!(available), expected);
    for (_, deployment) in history.told().await {
        let seen = &deployment["status"]["observedGeneration"];
        let [all, updated, ready, available, missing] = numbers(&deployment);
        assert!(seen.is_null() || *seen == json!(1), "{seen}");
        assert!(
            all <= 3 && updated == all && ready == available && ready <= all,
            "{deployment:#}"
        );
        assert!(seen.is_null() || missing == 3 - available, "{deployment:#}");
    }
}

pub async fn a_pod_belongs_to_a_replica_set_of_its_template(place: Place) {
    place.config("good").await;
    place
        .create::<Deployment>(deployment(2, IMAGE, json!({})))
        .await
        .unwrap();
    let deployment = until_complete(&place, 2).await;
    let sets = place.all::<ReplicaSet>().await;
    let [set] = sets.as_slice() else {
        panic!("{sets:#?}")
    };
    assert_eq!(owners(set), controlled_by::<Deployment>(&deployment));
    let revision = set["metadata"]["labels"]["pod-template-hash"].as_str().unwrap();
    assert_eq!(name_of(set), format!("a-{revision}"));
    let labels = json!({"app": "a", "pod-template-hash": revision});
    assert_eq!(set["metadata"]["labels"], labels);
    assert_eq!(set["spec"]["selector"], json!({"matchLabels": labels}));
    assert_eq!(set["spec"]["template"]["metadata"]["labels"], labels);
    let counts = ["replicas", "readyReplicas", "availableReplicas"].map(|field| &set["status"][field]);
    assert_eq!(counts, [&json!(2); 3]);
    for pod in present(&place).await {
        assert_eq!(owners(&pod), controlled_by::<ReplicaSet>(set));
        assert_eq!(pod["metadata"]["labels"], labels);
        assert!(
            name_of(&pod).starts_with(&format!("a-{revision}-")),
            "{}",
            name_of(&pod)
        );
    }
}

pub async fn scaling_is_no_rollout(place: Place) {
    place.config("good").await;
    place
        .create::<Deployment>(deployment(2, IMAGE, json!({})))
        .await
        .unwrap();
    until_complete(&place, 2).await;
    let history = place.follow::<Deployment>().await;
    for (replicas, course) in [
        // A quarter of 4 may be missing, so that 2 of them are not enough.
        (
            4,
            vec![
                "MinimumReplicasAvailable",
                "MinimumReplicasUnavailable",
                "MinimumReplicasAvailable",
            ],
        ),
        (1, vec!["MinimumReplicasAvailable"]),
        (0, vec!["MinimumReplicasAvailable"]),
    ] {
        let before = history.told().await.len();
        place
            .patch::<Deployment>("a", json!({"spec": {"replicas": replicas}}))
            .await;
        until_complete(&place, replicas).await;
        let told = history.told().await.split_off(before);
        let mut available: Vec<_> = told
            .iter()
            .map(|(_, told)| condition(told, "Available")["reason"].clone())
            .collect();
        available.dedup();
        assert_eq!(json!(available), json!(course), "{replicas}");
    }
    let progress = history.course(|deployment| said(deployment, "Progressing")).await;
    assert_eq!(json!(progress), json!([["True", "NewReplicaSetAvailable"]]));
    assert_eq!(place.all::<ReplicaSet>().await.len(), 1);
    place
        .until_all::<Pod>("no pod is left", <[Value]>::is_empty)
        .await;
    let none = place.find::<Deployment>("a").await.unwrap()["status"].clone();
    for field in [
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
    ] {
        assert!(none.get(field).is_none(), "no count is no field: {field}");
    }
}

pub async fn a_pod_or_a_replica_set_that_goes_comes_back(place: Place) {
    place.config("good").await;
    place
        .create::<Deployment>(deployment(2, IMAGE, json!({})))
        .await
        .unwrap();
    until_complete(&place, 2).await;
    let history = place.follow::<Deployment>().await;
    let first = present(&place).await;
    let background = DeleteParams::background();
    place
        .api::<Pod>()
        .delete(name_of(&first[0]), &background)
        .await
        .unwrap();
    let is_another = |pod: &Value| first.iter().all(|old| name_of(old) != name_of(pod));
    place
        .until_all::<Pod>("a pod has come in its place", |pods| {
            pods.len() == 2 && pods.iter().any(is_another)
        })
        .await;
    until_complete(&place, 2).await;
    let progress = history.course(|deployment| said(deployment, "Progressing")).await;
    assert_eq!(json!(progress), json!([["True", "NewReplicaSetAvailable"]]));

    let sets = place.all::<ReplicaSet>().await;
    let second = present(&place).await;
    place
        .api::<ReplicaSet>()
        .delete(name_of(&sets[0]), &background)
        .await
        .unwrap();
    let is_another = |pod: &Value| second.iter().all(|old| name_of(old) != name_of(pod));
    place
        .until_all::<Pod>("the pods are others", |pods| {
            pods.len() == 2 && pods.iter().all(is_another)
        })
        .await;
    until_complete(&place, 2).await;
    let again = place.all::<ReplicaSet>().await;
    assert_eq!(again.len(), 1);
    assert_eq!(name_of(&again[0]), name_of(&sets[0]), "the template is the same");
    assert_ne!(again[0]["metadata"]["uid"], sets[0]["metadata"]["uid"]);
}

pub async fn of_too_many_pods_those_that_are_not_ready_go_first(place: Place) {
    place.config("good").await;
    place
        .create::<Deployment>(deployment(1, IMAGE, json!({})))
        .await
        .unwrap();
    until_complete(&place, 1).await;
    let ready = present(&place).await;
    // Without this the next one cannot start.
    drop(
        place
            .api::<ConfigMap>()
            .delete("config", &DeleteParams::default())
            .await
            .unwrap(),
    );
    place
        .patch::<Deployment>("a", json!({"spec": {"replicas": 2}}))
        .await;
    place
        .until_all::<Pod>("a second one is there", |pods| pods.len() == 2)
        .await;
    place
        .patch::<Deployment>("a", json!({"spec": {"replicas": 1}}))
        .await;
    until_complete(&place, 1).await;
    let left = place
        .until_all::<Pod>("one is left", |pods| pods.len() == 1)
        .await;
    assert_eq!(name_of(&left[0]), name_of(&ready[0]));
}

pub async fn a_deployment_that_is_deleted_takes_its_pods_along(place: Place) {
    place.config("good").await;
    place
        .create::<Deployment>(deployment(2, IMAGE, json!({})))
        .await
        .unwrap();
    until_complete(&place, 2).await;
    let deployments = place.api::<Deployment>();
    deployments
        .delete("a", &DeleteParams::background())
        .await
        .unwrap();
    assert!(place.find::<Deployment>("a").await.is_none(), "it goes at once");
    place.until_all::<ReplicaSet>("gone", <[Value]>::is_empty).await;
    place.until_all::<Pod>("gone", <[Value]>::is_empty).await;
}

pub async fn a_deployment_that_is_deleted_in_the_foreground_goes_last(place: Place) {
    place.config("good").await;
    place
        .create::<Deployment>(deployment(2, &format!("nginx-{MISSING}"), json!({})))
        .await
        .unwrap();
    place
        .until_all::<Pod>("two pods are there", |pods| pods.len() == 2)
        .await;
    let (pods, deployments) = (place.follow::<Pod>().await, place.follow::<Deployment>().await);
    place
        .api::<Deployment>()
        .delete("a", &DeleteParams::foreground())
        .await
        .unwrap();
    place.until_gone::<Deployment>("a").await;
    sleep(WHILE).await;
    assert!(place.all::<Pod>().await.is_empty());
    let gone = |told: Vec<(bool, Value)>| {
        told.iter()
            .filter(|(stays, _)| !stays)
            .map(|(_, object)| version(object))
            .collect::<Vec<_>>()
    };
    let (pods, deployments) = (gone(pods.told().await), gone(deployments.told().await));
    assert_eq!(
        (pods.len(), deployments.len()),
        (2, 1),
        "no pod comes in place of one that goes"
    );
    assert!(pods.iter().all(|pod| *pod < deployments[0]));
}
