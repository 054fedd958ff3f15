//! What people do at a real API server, and what comes of it by itself: Kubernetes' own controllers run Deployments and Jobs, and a played
//! kubelet the pods of those.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test fails by panicking

#[path = "support/apiserver.rs"]
mod apiserver;
#[path = "support/cases.rs"]
#[allow(dead_code, reason = "each binary uses what it needs of this")]
mod cases;
#[path = "support/controllers/mod.rs"]
mod controllers;
#[path = "support/greeter_world.rs"]
#[allow(dead_code, reason = "each binary uses what it needs of this")]
mod greeter_world;
#[path = "support/life.rs"]
#[allow(dead_code, reason = "each binary uses what it needs of this")]
mod life;
#[path = "support/mutator.rs"]
mod mutator;
#[path = "../examples/greeter/src/operator/mod.rs"]
mod operator;
#[path = "support/people.rs"]
mod people;
#[path = "support/place.rs"]
mod place;
#[path = "support/played_agents.rs"]
#[allow(dead_code, reason = "each binary uses what it needs of this")]
mod played_agents;
#[path = "support/played_kubelet.rs"]
mod played_kubelet;
#[path = "support/pretence.rs"]
mod pretence;
#[path = "support/proxy_world.rs"]
#[allow(dead_code, reason = "each binary uses what it needs of this")]
mod proxy_world;
#[path = "support/real_ground.rs"]
mod real_ground;
#[path = "support/running.rs"]
#[allow(dead_code, reason = "each binary uses what it needs of this")]
mod running;
#[path = "support/sample_proxy.rs"]
mod sample_proxy;
#[path = "support/sim/mod.rs"]
mod sim;
#[path = "support/subjects/mod.rs"]
mod subjects;

use std::sync::Arc;

use apiserver::{ApiServer, within};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use mutator::Ground;
use place::Place;
use played_agents::PlayedAgents;
use played_kubelet::PlayedKubelet;
use pretence::{MISSING, REFUSED_HOST, nginx_says};
use proxy_world::{LIMIT, World, condition, is_ready, spec};
use roadstead::api::my_proxy::MyProxy;
use serde_json::{Value, json};
use sim::faults::Chance;

/// A namespace with an operator, controllers and a kubelet.
async fn living(namespace: &str) -> (World, PlayedKubelet) {
    let world = World::new(namespace).await;
    ApiServer::shared().run_controllers();
    let kubelet = PlayedKubelet::start(world.api(), world.api(), Arc::clone(&world.agents));
    (world, kubelet)
}

/// Waits until the proxy serves with so many pods, and none is there that its status does not name.
async fn until_it_serves(world: &World, name: &str, pods: usize) {
    let holds = |status: &Value| {
        let named = status["podNames"].as_array().map(Vec::len);
        is_ready(status) && status["readyReplicas"] == pods && named == Some(pods)
    };
    world
        .until_said(name, &format!("ready with {pods} pods"), holds)
        .await;
    within(LIMIT, "no other pods are there", async || {
        json!(world.names::<Pod>().await) == world.status(name).await["podNames"]
    })
    .await;
}

async fn change(world: &World, name: &str, spec: Value) {
    world.patch::<MyProxy>(name, json!({"spec": spec})).await;
}

#[tokio::test]
async fn a_proxy_lives_and_dies_as_its_spec_says() {
    let (world, mut kubelet) = living("life").await;
    let config = async || world.get::<ConfigMap>("edge-config").await.data.unwrap();
    world.create("edge", spec(80)).await;
    until_it_serves(&world, "edge", 2).await;
    let first = config().await;

    change(&world, "edge", spec(81)).await;
    until_it_serves(&world, "edge", 2).await;
    let second = config().await;
    assert_ne!(first, second);

    let mut refused = spec(81);
    refused["upstreams"][0]["servers"][0]["host"] = json!(REFUSED_HOST);
    change(&world, "edge", refused).await;
    let said = nginx_says(REFUSED_HOST).unwrap();
    world
        .until_said("edge", "refused", |status| {
            let valid = condition(status, "ConfigValid");
            valid["reason"] == "Refused" && valid["message"].as_str().unwrap().contains(&said)
        })
        .await;
    let available = condition(&world.status("edge").await, "Available")["status"].clone();
    assert_eq!(available, "True", "what serves goes on serving");
    assert_eq!(config().await, second);

    change(&world, "edge", spec(81)).await;
    until_it_serves(&world, "edge", 2).await;
    assert_eq!(config().await, second);
    world.until_names::<ConfigMap>(&["edge-config"]).await;
    world.until_names::<Job>(&[]).await;

    for replicas in [3, 1] {
        change(&world, "edge", json!({"replicas": replicas})).await;
        until_it_serves(&world, "edge", replicas).await;
        let budgets = world.names::<PodDisruptionBudget>().await;
        assert_eq!(budgets.is_empty(), replicas == 1, "{budgets:?}");
    }

    world.delete::<MyProxy>("edge").await;
    world.until_gone().await;
    world.until_names::<ReplicaSet>(&[]).await;
    world.until_names::<Pod>(&[]).await;
    within(LIMIT, "no agent is left", async || world.agents.count() == 0).await;
    kubelet.is_well();
}

#[tokio::test]
async fn a_proxy_whose_image_is_missing_says_so_and_heals_once_it_is_there() {
    let (world, mut kubelet) = living("missing").await;
    let image = format!("nginx-{MISSING}:1");
    world.create("old", spec(80)).await;
    until_it_serves(&world, "old", 2).await;

    let mut lacking = spec(80);
    lacking["image"] = json!(image);
    world.create("new", lacking.clone()).await;
    change(&world, "old", lacking).await;
    let reason = format!("container check: ImagePullBackOff: Back-off pulling image \"{image}\"");
    for (name, consequence) in [
        ("old", "the last good configuration keeps serving"),
        ("new", "nothing serves yet"),
    ] {
        let told = format!("{reason}; {consequence}");
        world
            .until_said(name, &told, |status| {
                let message = condition(status, "ConfigValid")["message"].as_str();
                message.is_some_and(|message| message.ends_with(&told))
            })
            .await;
    }
    let status = world.status("old").await;
    assert_eq!(condition(&status, "Available")["status"], "True");
    world.until_names::<Deployment>(&["old"]).await;

    kubelet.mend();
    for name in ["old", "new"] {
        world.until_said(name, "ready", is_ready).await;
        let pods = world.get::<Deployment>(name).await.spec.unwrap().template.spec;
        assert_eq!(pods.unwrap().containers[0].image.as_ref(), Some(&image));
    }
    kubelet.is_well();
}

/// As the models of them do in the simulations.
#[test]
fn the_real_controllers_behave_as_the_simulated_ones() {
    let server = ApiServer::shared();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(server.install_crds());
    server.run_controllers();
    place::each(controllers::ALL, async |namespace| {
        let client = server.client().await;
        let namespace = server.namespace(&namespace).await;
        let place = Place { client, namespace };
        let agents = Arc::new(PlayedAgents::new(place.api()));
        let kubelet = PlayedKubelet::start(place.api(), place.api(), agents);
        (place, kubelet)
    });
}

/// As in the simulations, which cannot be replayed here: only the actions are the same for the same seed. `SEED=n` tries others.
async fn people_do_anything(mut ground: impl Ground, count: usize, seed: u64) {
    let other = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = other.unwrap_or(seed);
    // A check that waits for something is repeated after minutes, which a test above and the simulations have: nothing is missing here.
    ground.mend();
    let mut strangers = mutator::Strangers::new();
    for action in mutator::draw(ground.subject(), &mut Chance::new(seed), count) {
        println!("{action:?}");
        mutator::act(&mut ground, &mut strangers, &action).await;
    }
    mutator::all_is_told(&mut ground, strangers).await;
    mutator::all_gets_well(&mut ground).await;
    mutator::all_goes(&mut ground).await;
}

#[rstest::rstest]
#[case("people-1", 1)]
#[case("people-2", 2)]
#[tokio::test]
async fn whatever_people_do_to_proxies_is_told_or_brought_about(
    #[case] namespace: &'static str,
    #[case] seed: u64,
) {
    people_do_anything(real_ground::of_proxies(namespace).await, 75, seed).await;
}

#[tokio::test]
async fn whatever_people_do_to_greetings_is_brought_about() {
    people_do_anything(real_ground::of_greetings("people-3").await, 200, 3).await;
}
