//! What the search has found once, told step by step.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::sim::faults::{self, Faults};
use crate::sim::world::World;
use crate::subjects::condition;
use crate::subjects::databases::{DATABASES, is_applied};
use crate::subjects::proxies::{PROXIES, is_ready, keeps_serving, spec};

/// Longer than the next operator needs to take over.
const LATE: Duration = Duration::from_secs(20);

/// With a proxy that is ready.
async fn serving() -> World {
    let mut world = World::new(&PROXIES);
    world.people.create("MyProxy", "edge", spec(80)).await.unwrap();
    world.until_object("MyProxy", "edge", "ready", is_ready).await;
    world
}

async fn change(world: &World, change: Value) {
    let patch = json!({"spec": change});
    world.people.patch("MyProxy", "edge", patch).await.unwrap();
}

/// It would see the present Deployment, and bring about what the proxy said before.
#[tokio::test(start_paused = true)]
async fn an_operator_that_takes_over_with_an_old_copy_of_a_proxy_does_not_go_by_it() {
    let mut world = serving().await;
    world.stand_by(&faults::behind(|kind| kind == "MyProxy", LATE));
    tokio::time::sleep(LATE).await;
    change(&world, json!({"replicas": 3})).await;
    world.until_object("MyProxy", "edge", "ready", is_ready).await;
    world.sim.always(keeps_serving("edge"));
    world.crash();
    world.until_quiet().await;
    world.until_object("MyProxy", "edge", "ready", is_ready).await;
}

/// Without the operator's label it was not known any more, and could not be written again.
#[tokio::test(start_paused = true)]
async fn a_job_that_lost_its_label_is_made_anew_when_it_has_to_change() {
    let mut world = World::new(&PROXIES);
    let mut lacking = spec(80);
    lacking["image"] = json!("nginx-missing:1");
    world.people.create("MyProxy", "edge", lacking).await.unwrap();
    world
        .until("there is a check", |world| !world.names("Job").is_empty())
        .await;
    world.stop().await;
    let unlabelled = json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": null}}});
    let job = world.names("Job").remove(0);
    world.people.patch("Job", &job, unlabelled).await.unwrap();
    change(&world, json!({"resources": {"limits": {"cpu": "1"}}})).await;
    world.cluster.mend();
    world.start(&Faults::default(), None);
    world.until_object("MyProxy", "edge", "ready", is_ready).await;
}

#[tokio::test(start_paused = true)]
async fn a_status_that_somebody_takes_away_is_put_back() {
    let mut world = serving().await;
    world.until_quiet().await;
    world.people.drop_status("MyProxy", "edge").await.unwrap();
    let dropped = Instant::now();
    world.until_object("MyProxy", "edge", "ready", is_ready).await;
    assert!(
        dropped.elapsed() < Duration::from_secs(5),
        "{:?}",
        dropped.elapsed()
    );
}

/// The time in the Job was compared with the operator's own.
#[tokio::test(start_paused = true)]
async fn an_operator_whose_clock_is_wrong_repeats_a_check_in_time() {
    let mut world = World::new(&PROXIES);
    world.set_clock(-3600);
    let mut lacking = spec(80);
    lacking["image"] = json!("nginx-missing:1");
    world.people.create("MyProxy", "edge", lacking).await.unwrap();
    let has_failed = |job: &Value| condition(job, "Failed")["status"] == "True";
    world
        .until("the check has failed", |world| {
            world.list("Job").iter().any(has_failed)
        })
        .await;
    world.cluster.mend();
    let mended = Instant::now();
    world.until_object("MyProxy", "edge", "ready", is_ready).await;
    assert!(
        mended.elapsed() < Duration::from_secs(60),
        "{:?}",
        mended.elapsed()
    );
}

/// The check's pod waited for it until the deadline of its Job.
#[tokio::test(start_paused = true)]
async fn a_candidate_that_somebody_deletes_holds_nothing_up() {
    let mut world = World::new(&PROXIES);
    world.people.create("MyProxy", "edge", spec(80)).await.unwrap();
    world
        .until("the candidate is there", |world| {
            !world.names("ConfigMap").is_empty()
        })
        .await;
    let candidate = world.names("ConfigMap").remove(0);
    world.people.delete("ConfigMap", &candidate).await.unwrap();
    let deleted = Instant::now();
    world.until_object("MyProxy", "edge", "ready", is_ready).await;
    assert!(
        deleted.elapsed() < Duration::from_secs(30),
        "{:?}",
        deleted.elapsed()
    );
}

/// Each keeps its earlier Deployment, whose name the other one waits for, until its new one serves: neither gives up
/// what serves, so somebody has to name a third place.
#[tokio::test(start_paused = true)]
async fn two_proxies_that_swap_names_wait_and_say_so() {
    let mut world = World::new(&PROXIES);
    for (proxy, name) in [("a", "b"), ("b", "a")] {
        let mut named = spec(80);
        named["deploymentName"] = json!(name);
        world.people.create("MyProxy", proxy, named).await.unwrap();
    }
    for proxy in ["a", "b"] {
        world.until_object("MyProxy", proxy, "ready", is_ready).await;
        world.sim.always(keeps_serving(proxy));
    }
    let name = async |world: &World, proxy: &str, name: Value| {
        let patch = json!({"spec": {"deploymentName": name}});
        world.people.patch("MyProxy", proxy, patch).await.unwrap();
    };
    for proxy in ["a", "b"] {
        name(&world, proxy, Value::Null).await;
    }
    let waits = |proxy: &Value| condition(proxy, "Ready")["reason"] == "NameTaken";
    for proxy in ["a", "b"] {
        world.until_object("MyProxy", proxy, "waiting", waits).await;
    }
    name(&world, "a", json!("third")).await;
    for proxy in ["b", "a"] {
        world.until_object("MyProxy", proxy, "ready", is_ready).await;
    }
}

/// Whoever deletes the StatefulSet means its pods, if anything; and volumes of instances that there were once are the database's as well.
#[tokio::test(start_paused = true)]
async fn volumes_go_with_a_database_whose_author_says_so_and_never_with_its_stateful_set() {
    let mut world = World::new(&DATABASES);
    let storage = json!({"whenDeleted": "Delete"});
    let new = json!({"version": "17", "size": "large", "storage": storage});
    world.people.create("Database", "orders", new).await.unwrap();
    world
        .until_object("Database", "orders", "ready", is_applied)
        .await;
    let fewer = json!({"spec": {"instances": 2}});
    world.people.patch("Database", "orders", fewer).await.unwrap();
    world
        .until_object("Database", "orders", "ready", is_applied)
        .await;
    world.until_quiet().await;
    let claims = world.names("PersistentVolumeClaim");
    assert_eq!(claims, ["data-orders-0", "data-orders-1", "data-orders-2"]);

    world.people.delete("StatefulSet", "orders").await.unwrap();
    world.until_quiet().await;
    world
        .until_object("Database", "orders", "ready", is_applied)
        .await;
    assert_eq!(world.names("PersistentVolumeClaim"), claims);

    world.people.delete("Database", "orders").await.unwrap();
    world.until_gone("Database", "orders").await;
    assert!(world.names("PersistentVolumeClaim").is_empty());
}

/// Whoever pauses a database for a season would find that no replica may join any more.
#[tokio::test(start_paused = true)]
async fn the_certificates_of_a_paused_database_are_renewed() {
    let mut world = World::new(&DATABASES);
    let new = json!({"version": "17", "size": "medium"});
    world.people.create("Database", "orders", new).await.unwrap();
    world
        .until_object("Database", "orders", "ready", is_applied)
        .await;
    let paused = json!({"spec": {"paused": true}});
    world.people.patch("Database", "orders", paused).await.unwrap();
    world.until_quiet().await;
    let lost = json!({"data": {"tls.crt": null}});
    world.people.patch("Secret", "orders-tls", lost).await.unwrap();
    world.until_quiet().await;
    let secret = world.get("Secret", "orders-tls").unwrap();
    assert!(secret["data"]["tls.crt"].is_string());
}
