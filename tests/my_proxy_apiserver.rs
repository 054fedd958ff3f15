//! The promises of MyProxy's controller against a real API server. The test plays the rest of Kubernetes: Jobs, Deployments and pods
//! are what it writes into their statuses.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test fails by panicking

#[path = "support/apiserver.rs"]
mod apiserver;
#[path = "support/played_agents.rs"]
#[allow(dead_code, reason = "each binary uses what it needs of this")]
mod played_agents;
#[path = "support/running.rs"]
#[allow(dead_code, reason = "each binary uses what it needs of this")]
mod running;
#[path = "support/sample_proxy.rs"]
mod sample_proxy;
#[path = "support/proxy_world.rs"]
#[allow(dead_code, reason = "each binary uses what it needs of this")]
mod world;

use std::time::Duration;

use apiserver::within;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use roadstead::api::my_proxy::MyProxy;
use roadstead::api::my_proxy::agent::{Report, config_hash};
use serde_json::json;
use world::{LIMIT, World, condition, is_ready, spec};

#[tokio::test]
async fn from_a_spec_to_a_proxy_that_serves() {
    let world = World::new("serves").await;
    world.create("edge", spec(80)).await;
    let job = world.the_check().await;
    assert!(
        world.list::<Deployment>().await.is_empty(),
        "nothing runs before nginx accepted the configuration"
    );
    world
        .until("edge", "a check is under way", |status| {
            status["phase"] == "Creating"
        })
        .await;

    world.finish(&job, true).await;
    world.until_child::<Deployment>("edge").await;
    let pods = world.run_pods("edge", 2).await;
    world.until("edge", "ready", is_ready).await;
    let status = world.status("edge").await;
    assert_eq!(status["podNames"], json!(pods));
    assert_eq!(
        (&status["phase"], &status["readyReplicas"]),
        (&json!("Running"), &json!(2))
    );
    assert_eq!(world.names::<Service>().await, ["edge"]);
    assert_eq!(world.names::<PodDisruptionBudget>().await, ["edge"]);
    world.until_names::<ConfigMap>(&["edge-config"]).await;
    world.until_names::<Job>(&[]).await;
    for reason in ["ConfigAccepted", "Created", "Available", "Ready"] {
        world.until_event("edge", reason).await;
    }
}

#[tokio::test]
async fn a_second_reconcile_sends_no_write_and_neither_does_a_restart() {
    let mut world = World::serving("idempotence", &["edge"]).await;
    let version = world.get::<MyProxy>("edge").await.resource_version();
    let (writes, reconciles) = (world.operator.writes(), world.operator.reconciles());
    let service = json!({"metadata": {"annotations": {"somebody": "else"}}});
    world.patch::<Service>("edge", service).await;
    within(LIMIT, "the change is looked at", async || {
        world.operator.reconciles() > reconciles
    })
    .await;
    assert_eq!(world.operator.writes(), writes);

    world.restart().await;
    within(LIMIT, "the proxy is looked at again", async || {
        world.operator.reconciles() > 0
    })
    .await;
    world.until_quiet().await;
    assert_eq!(world.operator.writes(), 0);
    assert_eq!(world.get::<MyProxy>("edge").await.resource_version(), version);
}

#[tokio::test]
async fn what_somebody_changes_or_deletes_is_put_right() {
    let world = World::serving("repair", &["edge"]).await;
    world
        .patch::<Service>("edge", json!({"spec": {"selector": {"app": "stranger"}}}))
        .await;
    world.delete::<ConfigMap>("edge-config").await;
    world.delete::<PodDisruptionBudget>("edge").await;
    world.until_child::<PodDisruptionBudget>("edge").await;
    within(LIMIT, "the selector is right again", async || {
        world
            .get::<Service>("edge")
            .await
            .spec
            .unwrap()
            .selector
            .unwrap()
            .get("app")
            .is_none_or(|app| app != "stranger")
    })
    .await;
    assert!(
        world.try_get::<Deployment>("edge").await.is_some(),
        "the pods stay while their configuration is checked again"
    );
    let job = world.the_check().await;
    world.finish(&job, true).await;
    world.until_child::<ConfigMap>("edge-config").await;
    world.until("edge", "ready", is_ready).await;
}

#[tokio::test]
async fn what_nginx_refuses_is_told_and_the_old_configuration_stays_while_replicas_change() {
    let world = World::serving("refusal", &["edge"]).await;
    let before = world.get::<ConfigMap>("edge-config").await.data;
    let mut bad = spec(81);
    bad["replicas"] = json!(3);
    world.patch::<MyProxy>("edge", json!({"spec": bad})).await;
    let job = world.the_check().await;
    world.check_pod(&job, 3, "[emerg] cannot load certificate").await;
    world.finish(&job, false).await;
    world
        .until("edge", "refused", |status| {
            condition(status, "ConfigValid")["reason"] == "Refused"
        })
        .await;
    let message = condition(&world.status("edge").await, "ConfigValid")["message"].clone();
    assert_eq!(
        message,
        "nginx refuses the configuration: [emerg] cannot load certificate; the last good configuration keeps serving"
    );
    world.until_event("edge", "ConfigRefused").await;
    assert_eq!(world.get::<ConfigMap>("edge-config").await.data, before);
    assert_eq!(
        world.get::<Deployment>("edge").await.spec.unwrap().replicas,
        Some(3)
    );

    // And back: at once, without another check.
    world.patch::<MyProxy>("edge", json!({"spec": spec(80)})).await;
    world
        .until("edge", "accepted", |status| {
            condition(status, "ConfigValid")["status"] == "True"
        })
        .await;
    world.until_names::<Job>(&[]).await;
    world.until_names::<ConfigMap>(&["edge-config"]).await;
    assert_eq!(world.get::<ConfigMap>("edge-config").await.data, before);
}

#[tokio::test]
async fn an_accepted_change_reaches_the_pods_without_a_rollout() {
    let world = World::serving("reload", &["edge"]).await;
    let generation = world.get::<Deployment>("edge").await.metadata.generation;
    let before = world.get::<ConfigMap>("edge-config").await.annotations()["roadstead.dev/config"].clone();
    world.patch::<MyProxy>("edge", json!({"spec": spec(81)})).await;
    let job = world.the_check().await;
    world.finish(&job, true).await;
    within(LIMIT, "every pod is told", async || {
        let key = world.get::<ConfigMap>("edge-config").await.annotations()["roadstead.dev/config"].clone();
        let pods = world.list::<Pod>().await;
        key != before
            && pods
                .iter()
                .all(|pod| pod.annotations().get("roadstead.dev/config") == Some(&key))
    })
    .await;
    assert_eq!(
        world.get::<Deployment>("edge").await.metadata.generation,
        generation,
        "the Deployment's spec is untouched"
    );
}

#[tokio::test]
async fn a_proxy_is_up_to_date_only_once_every_pod_says_that_it_serves_the_configuration() {
    let world = World::serving("loaded", &["edge"]).await;
    let mounted = async || {
        let config_map = world.get::<ConfigMap>("edge-config").await;
        Some(config_hash(&config_map.data.unwrap()["nginx.conf"]))
    };
    let old = Report {
        config: mounted().await,
        mounted: mounted().await,
        ..Report::default()
    };
    for pod in ["edge-0", "edge-1"] {
        world.agents.say(pod, Some(old.clone()));
    }
    world.patch::<MyProxy>("edge", json!({"spec": spec(81)})).await;
    let job = world.the_check().await;
    world.finish(&job, true).await;
    let up_to_date = async |reason: &str, message: &str| {
        let what = format!("{reason}: {message}");
        let holds = |status: &serde_json::Value| {
            let condition = condition(status, "UpToDate");
            let said = condition["message"].as_str().unwrap_or_default();
            condition["reason"] == reason && said.contains(message)
        };
        world.until("edge", &what, holds).await;
    };
    up_to_date("Loading", "0 of 2 pods serve the configuration").await;
    assert_eq!(condition(&world.status("edge").await, "Ready")["status"], "False");
    world.agents.say("edge-0", None);
    up_to_date("Loading", "1 of 2").await;
    let refusal = Report {
        mounted: mounted().await,
        refused: Some("[emerg] no such certificate".into()),
        ..old
    };
    world.agents.say("edge-1", Some(refusal));
    let told = "pod edge-1 keeps what it served before: [emerg] no such certificate";
    up_to_date("RefusedByPod", told).await;
    world.until_event("edge", "RefusedByPod").await;
    world.agents.say("edge-1", None);
    // Whatever changes is a reason to ask again.
    world
        .patch::<Pod>("edge-0", json!({"metadata": {"labels": {"some": "change"}}}))
        .await;
    world.until("edge", "ready", is_ready).await;

    world.is_ready_at("edge-0", "127.0.66.250".parse().unwrap()).await;
    up_to_date(
        "PodsUnreachable",
        "what pod edge-0 serves is not known: no answer",
    )
    .await;
    let ready = condition(&world.status("edge").await, "Ready")["status"].clone();
    assert_eq!(ready, "True", "what the kubelet says of the pods has to do");
}

#[tokio::test]
async fn a_spec_that_makes_no_sense_is_told_and_mended() {
    let world = World::serving("invalid", &["edge"]).await;
    let twice = json!([{"path": "/a", "upstream": "up"}, {"path": "/a/", "upstream": "up"}]);
    world
        .patch::<MyProxy>("edge", json!({"spec": {"routes": twice}}))
        .await;
    world
        .until("edge", "told", |status| {
            condition(status, "ConfigValid")["reason"] == "InvalidSpec"
        })
        .await;
    let status = world.status("edge").await;
    let message = condition(&status, "Ready")["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        message.starts_with("spec.routes[1].path is \"/a/\"; it must be unlike"),
        "{message}"
    );
    assert_eq!(
        (
            condition(&status, "Available")["status"].as_str(),
            status["podNames"].as_array().map(Vec::len)
        ),
        (Some("True"), Some(2))
    );
    world.until_event("edge", "InvalidSpec").await;
    world.patch::<MyProxy>("edge", json!({"spec": spec(80)})).await;
    world.until("edge", "ready again", is_ready).await;
}

#[tokio::test]
async fn the_api_server_refuses_what_the_schema_can_tell() {
    let world = World::new("schema").await;
    for (name, spec, part) in [
        ("edge", json!({"deploymentName": "Edge"}), "spec.deploymentName"),
        ("edge", json!({"replicas": -1}), "spec.replicas"),
        (
            "edge",
            json!({"routes": [{"path": "/", "upstream": "no"}]}),
            "spec.routes: Invalid value: route \"/\" names upstream \"no\"; it must be the name of one of spec.upstreams, which are []",
        ),
        (
            "edge",
            json!({
                "upstreams": [{"name": "a", "servers": [{"host": "a", "port": 1}]}, {"name": "b", "servers": [{"host": "b", "port": 1}]}],
                "routes": [{"path": "/a", "upstream": "a"}, {"path": "/c", "upstream": "c"}],
            }),
            "route \"/c\" names upstream \"c\"; it must be the name of one of spec.upstreams, which are [\"a\", \"b\"]",
        ),
        (
            "edge",
            json!({"routes": [{"path": "/a;b", "upstream": "no"}]}),
            "spec.routes[0].path",
        ),
        ("1edge", json!({}), "metadata.name must be a DNS label"),
    ] {
        let error = world.try_create(name, spec).await.unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    let largest: Vec<_> = (0..128)
        .map(|i| json!({"path": format!("/{i}"), "upstream": format!("u{}", i % 64)}))
        .collect();
    let upstreams: Vec<_> = (0..64)
        .map(|i| json!({"name": format!("u{i}"), "servers": [{"host": "a", "port": 80}]}))
        .collect();
    world
        .try_create("largest", json!({"routes": largest, "upstreams": upstreams}))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_name_that_is_taken_is_told_and_taken_over_once_it_is_free() {
    let world = World::serving("taken", &["first"]).await;
    let mut wanting = spec(80);
    wanting["deploymentName"] = json!("first");
    world.create("second", wanting).await;
    let job = world.the_check().await;
    world.finish(&job, true).await;
    world
        .until("second", "told", |status| {
            condition(status, "Ready")["reason"] == "NameTaken"
        })
        .await;
    let message = condition(&world.status("second").await, "Ready")["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        message.starts_with("Deployment taken/first exists and belongs to MyProxy first"),
        "{message}"
    );
    world.until_event("second", "NameTaken").await;
    world.delete::<MyProxy>("first").await;
    within(LIMIT, "the second has the name", async || {
        let deployment = world.try_get::<Deployment>("first").await;
        deployment.is_some_and(|deployment| {
            deployment
                .owner_references()
                .iter()
                .any(|owner| owner.name == "second")
        })
    })
    .await;
}

#[tokio::test]
async fn a_renamed_deployment_goes_once_its_successor_serves() {
    let world = World::serving("rename", &["edge"]).await;
    world
        .patch::<MyProxy>("edge", json!({"spec": {"deploymentName": "front"}}))
        .await;
    world.until_child::<Deployment>("front").await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    world.until_names::<Deployment>(&["edge", "front"]).await;
    let pods = world.run_pods("front", 2).await;
    world.until_names::<Deployment>(&["front"]).await;
    world
        .until("edge", "the new pods are named", |status| {
            status["podNames"] == json!(pods)
        })
        .await;
}

#[tokio::test]
async fn a_proxy_is_ready_again_only_once_its_rollout_is_over() {
    let world = World::serving("rollout", &["edge"]).await;
    world
        .patch::<MyProxy>("edge", json!({"spec": {"resources": {"limits": {"cpu": "2"}}}}))
        .await;
    world
        .until("edge", "rolling out", |status| {
            condition(status, "Ready")["reason"] == "RollingOut"
        })
        .await;
    let status = world.status("edge").await;
    assert_eq!(condition(&status, "Available")["status"], "True");
    let generation = world.get::<Deployment>("edge").await.metadata.generation;
    let done = json!({"observedGeneration": generation, "updatedReplicas": 2});
    let half = json!({"observedGeneration": generation, "updatedReplicas": 1});
    world.patch_status::<Deployment>("edge", half).await;
    world
        .until("edge", "half way", |status| {
            condition(status, "Ready")["message"] == "1 of 2 pods are up to date"
        })
        .await;
    world.patch_status::<Deployment>("edge", done).await;
    world.until("edge", "ready", is_ready).await;
}

#[tokio::test]
async fn a_write_that_is_rejected_is_told_and_takes_nothing_from_the_pods_that_serve() {
    let world = World::serving("rejected", &["edge"]).await;
    let pods = world.status("edge").await["podNames"].clone();
    // More is asked for than may be used: only the API server's own rules for pods tell.
    let resources = json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}});
    world
        .patch::<MyProxy>("edge", json!({"spec": {"resources": resources}}))
        .await;
    world
        .until("edge", "told", |status| {
            condition(status, "Ready")["reason"] == "Rejected"
        })
        .await;
    let status = world.status("edge").await;
    assert_eq!(condition(&status, "Progressing")["reason"], "Rejected");
    assert_eq!(condition(&status, "Available")["status"], "True");
    assert_eq!((&status["podNames"], &status["replicas"]), (&pods, &json!(2)));
    world
        .patch::<MyProxy>("edge", json!({"spec": {"resources": null}}))
        .await;
    world.until("edge", "ready again", is_ready).await;
}

#[tokio::test]
async fn pod_names_follow_the_pods() {
    let world = World::serving("pods", &["edge"]).await;
    let names = world.status("edge").await["podNames"].clone();
    // One that is going away, but not yet gone.
    let pod = names[0].as_str().unwrap();
    world
        .patch::<Pod>(
            pod,
            json!({"metadata": {"finalizers": ["test.roadstead.dev/stay"]}}),
        )
        .await;
    world.delete::<Pod>(pod).await;
    world
        .until("edge", "one is left", |status| {
            status["podNames"] == json!([names[1]])
        })
        .await;
}

#[tokio::test]
async fn deletion_cleans_up_with_the_operator_away_meanwhile() {
    let mut world = World::serving("deletion", &["edge"]).await;
    world.operator.stop().await;
    world.delete::<MyProxy>("edge").await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(
        world.try_get::<MyProxy>("edge").await.is_some(),
        "it waits for its operator"
    );
    world.restart().await;
    world.until_gone().await;
}

#[tokio::test]
async fn deletion_of_a_proxy_whose_check_never_ended_leaves_nothing() {
    let world = World::new("half").await;
    world.create("edge", spec(80)).await;
    world.the_check().await;
    world.delete::<MyProxy>("edge").await;
    world.until_gone().await;
}
