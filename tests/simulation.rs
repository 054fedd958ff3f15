//! The operators against a cluster in memory, on a paused clock.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test fails by panicking

#[path = "support/cases.rs"]
mod cases;
#[path = "support/conformance/mod.rs"]
mod conformance;
#[path = "support/controllers/mod.rs"]
mod controllers;
#[path = "support/deeds.rs"]
mod deeds;
#[path = "support/every_field.rs"]
mod every_field;
#[path = "support/found.rs"]
mod found;
#[path = "support/life.rs"]
mod life;
#[path = "support/mutator.rs"]
mod mutator;
#[path = "../examples/greeter/src/operator/mod.rs"]
mod operator;
#[path = "support/people.rs"]
mod people;
#[path = "support/place.rs"]
mod place;
#[path = "support/pretence.rs"]
mod pretence;
#[path = "support/replays.rs"]
mod replays;
#[path = "support/running.rs"]
#[allow(dead_code, reason = "each binary uses what it needs of this")]
mod running;
#[path = "support/sample_proxy.rs"]
mod sample_proxy;
#[path = "support/sim/mod.rs"]
mod sim;
#[path = "support/subjects/mod.rs"]
mod subjects;

use std::time::Duration;

use deeds::Deeds;
use place::Place;
use serde_json::{Value, json};
use sim::cluster::Cluster;
use sim::faults::{self, At, Faults, Mishap};
use sim::kinds::named;
use sim::store::Id;
use sim::storms::Storms;
use sim::world::{LIMIT_IN_PEACE, NAMESPACE, USER, World, oracles};
use sim::write;
use subjects::databases::{self, DATABASES};
use subjects::proxies::{self, PROXIES, is_ready, keeps_serving, spec, status_says_what_is};
use subjects::{Of, Subject, condition};
use tokio::time::sleep;

/// As `tests/conformance_apiserver.rs` has it of a real one.
#[test]
fn the_simulated_api_server_behaves_as_a_real_one() {
    place::each(conformance::ALL, async |namespace| {
        tokio::time::pause();
        let client = sim::Sim::new().client("test");
        (Place { client, namespace }, ())
    });
}

/// As `tests/people_apiserver.rs` has it of Kubernetes' own.
#[test]
fn the_simulated_controllers_behave_as_the_real_ones() {
    place::each(controllers::ALL, async |namespace| {
        tokio::time::pause();
        let sim = sim::Sim::new();
        let client = sim.client("test");
        (Place { client, namespace }, Cluster::start(&sim))
    });
}

/// A simulation that guessed would prove nothing.
#[tokio::test(start_paused = true)]
async fn what_is_not_simulated_is_told() {
    let sim = sim::Sim::new();
    let daemons: kube::Api<k8s_openapi::api::apps::v1::DaemonSet> =
        kube::Api::namespaced(sim.client("test"), NAMESPACE);
    let asked = tokio::spawn(async move { daemons.get("a").await.map(|_| ()) }).await;
    assert!(asked.is_err_and(|error| error.is_panic()));
    let told = sim.panics();
    assert!(
        told.len() == 1 && told[0].starts_with("daemonsets of \"apps\" v1 are not simulated"),
        "{told:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_proxy_lives_and_dies_as_its_spec_says() {
    let mut world = World::new(&PROXIES);
    life::live(&mut world).await;
    for reason in [
        "ConfigAccepted",
        "ConfigRefused",
        "Created",
        "Available",
        "Ready",
        "Deleting",
    ] {
        let told = world.events("edge");
        assert!(told.contains(&reason.to_owned()), "no Event {reason}: {told:?}");
    }
    assert_eq!(world.operators(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_proxy_stays_until_its_children_are_gone() {
    let mut world = World::new(&PROXIES);
    world.people.create("MyProxy", "edge", spec(80)).await.unwrap();
    world.until_object("MyProxy", "edge", "ready", is_ready).await;
    world.sim.always(proxies::goes_last("edge"));
    world.people.delete("MyProxy", "edge").await.unwrap();
    world.until_gone("MyProxy", "edge").await;
}

/// Somebody else may hold it for ever, but it serves no more.
#[tokio::test(start_paused = true)]
async fn a_proxy_that_somebody_else_holds_gets_nothing_back_when_it_is_deleted() {
    let mut world = World::new(&PROXIES);
    world.people.create("MyProxy", "edge", spec(80)).await.unwrap();
    world.until_object("MyProxy", "edge", "ready", is_ready).await;
    let hold = json!({"metadata": {"finalizers": ["roadstead.dev/cleanup", "example.com/backup"]}});
    world.people.patch("MyProxy", "edge", hold).await.unwrap();
    world.people.delete("MyProxy", "edge").await.unwrap();
    let is_let_go = |proxy: &Value| proxy["metadata"]["finalizers"] == json!(["example.com/backup"]);
    world.until_object("MyProxy", "edge", "let go", is_let_go).await;
    // Also when an operator that starts anew finds it so.
    oracles::a_further_reconcile_writes_nothing(&mut world).await;
    let left = world
        .sim
        .with(|store| oracles::leftovers(store.objects(), "MyProxy", "edge"));
    assert_eq!(left, ["MyProxy shop/edge"]);
}

/// Nothing tells the operator that what a check waited for is there: it has to ask again by itself.
#[rstest::rstest]
#[case::image(json!({"image": "nginx-missing:1"}), "ImagePullBackOff")]
#[case::secret(json!({"tls": {"secretName": "missing"}}), "Secret missing")]
fn a_check_that_could_not_be_run_is_repeated_until_it_can(#[case] change: Value, #[case] told: &str) {
    cases::on_a_paused_clock(async {
        let mut world = World::new(&PROXIES);
        world.people.create("MyProxy", "edge", spec(80)).await.unwrap();
        world.until_object("MyProxy", "edge", "ready", is_ready).await;
        world.sim.always(keeps_serving("edge"));
        world
            .people
            .patch("MyProxy", "edge", json!({"spec": change}))
            .await
            .unwrap();
        let is_told = |proxy: &Value| {
            let message = condition(proxy, "ConfigValid")["message"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            condition(proxy, "ConfigValid")["reason"] == "CheckFailed" && message.contains(told)
        };
        world
            .until_object("MyProxy", "edge", "told why it cannot be checked", is_told)
            .await;
        world.cluster.mend();
        world.until_object("MyProxy", "edge", "ready", is_ready).await;
        world.until_quiet().await;
        status_says_what_is(&world, "edge");
    });
}

#[tokio::test(start_paused = true)]
async fn a_proxy_that_is_paused_is_left_as_it_is_and_catches_up_afterwards() {
    let mut world = World::new(&PROXIES);
    world.people.create("MyProxy", "edge", spec(80)).await.unwrap();
    world.until_object("MyProxy", "edge", "ready", is_ready).await;
    world.until_quiet().await;
    let pause = json!({"spec": {"paused": true, "replicas": 5}});
    world.people.patch("MyProxy", "edge", pause).await.unwrap();
    let says = |proxy: &Value, reason: &str| condition(proxy, "Progressing")["reason"] == reason;
    world
        .until_object("MyProxy", "edge", "paused", |proxy| says(proxy, "Paused"))
        .await;
    // A child that goes is not made anew either.
    world.people.delete("PodDisruptionBudget", "edge").await.unwrap();
    world.until_quiet().await;
    let proxy = world.get("MyProxy", "edge").expect("nobody deleted it");
    assert!(is_ready(&proxy), "it serves as before: {proxy:#}");
    assert_eq!(proxy["status"]["replicas"], 2);
    assert_eq!(world.names("PodDisruptionBudget"), Vec::<String>::new());

    let go_on = json!({"spec": {"paused": null, "replicas": 3}});
    world.people.patch("MyProxy", "edge", go_on).await.unwrap();
    let is_brought_about = |proxy: &Value| is_ready(proxy) && proxy["status"]["replicas"] == 3;
    world
        .until_object("MyProxy", "edge", "brought about", is_brought_about)
        .await;
    assert_eq!(world.names("PodDisruptionBudget"), ["edge"]);
}

#[tokio::test(start_paused = true)]
async fn a_proxy_that_is_renamed_keeps_serving() {
    let mut world = World::new(&PROXIES);
    world.people.create("MyProxy", "edge", spec(80)).await.unwrap();
    world.until_object("MyProxy", "edge", "ready", is_ready).await;
    world.sim.always(keeps_serving("edge"));
    let renamed = json!({"spec": {"deploymentName": "front", "resources": {"limits": {"cpu": "1"}}}});
    world.people.patch("MyProxy", "edge", renamed).await.unwrap();
    world.until_object("MyProxy", "edge", "ready", is_ready).await;
    world.until_quiet().await;
    assert_eq!(world.names("Deployment"), ["front"]);
    status_says_what_is(&world, "edge");
}

/// As after an update from an operator that wrote another version of the proxy: they are neither made anew nor given a second owner, and go
/// like all others.
#[tokio::test(start_paused = true)]
async fn children_that_name_their_proxy_in_an_earlier_version_are_its_own() {
    let mut world = World::new(&PROXIES);
    world.people.create("MyProxy", "edge", spec(80)).await.unwrap();
    world.until_object("MyProxy", "edge", "ready", is_ready).await;
    world.sim.always(keeps_serving("edge"));
    world.until_quiet().await;
    world.stop().await;
    let children = ["Service", "ConfigMap", "Deployment", "PodDisruptionBudget"];
    let mut before = Vec::new();
    for kind in children {
        let mut child = world.list(kind).remove(0);
        before.push(child["metadata"]["uid"].clone());
        let owners = &mut child["metadata"]["ownerReferences"];
        assert_eq!(owners[0]["apiVersion"], "roadstead.dev/v1");
        owners[0]["apiVersion"] = json!("roadstead.dev/v1alpha1");
        // An operator that asks for something else has another hash of it.
        let earlier = json!({"metadata": {"ownerReferences": owners, "annotations": {"roadstead.dev/applied": "another"}}});
        let name = child["metadata"]["name"].as_str().unwrap();
        world.people.patch(kind, name, earlier).await.unwrap();
    }
    let scaled = json!({"spec": {"replicas": 1}});
    world.people.patch("MyProxy", "edge", scaled).await.unwrap();

    world.start(&Faults::default(), None);
    world.until_object("MyProxy", "edge", "ready", is_ready).await;
    world.until_quiet().await;
    assert_eq!(world.names("PodDisruptionBudget"), Vec::<String>::new());
    for (kind, uid) in children.iter().zip(before).take(3) {
        let child = world.list(kind).remove(0);
        assert_eq!(child["metadata"]["uid"], uid, "{kind}");
        let owners = child["metadata"]["ownerReferences"].as_array().unwrap();
        let named: Vec<_> = owners.iter().map(|owner| owner["apiVersion"].clone()).collect();
        assert_eq!(named, ["roadstead.dev/v1"], "{kind}");
    }
    world.people.delete("MyProxy", "edge").await.unwrap();
    world.until_gone("MyProxy", "edge").await;
}

/// One that cannot renew its lease has stopped writing by the time another one takes it.
#[tokio::test(start_paused = true)]
async fn two_operators_never_write_at_the_same_time() {
    let mut world = World::without_operator(&PROXIES);
    let cut = faults::cut_off(|request| request.kind.is("Lease"), Duration::from_secs(60));
    let mut first = world.another("first", &cut);
    world.people.create("MyProxy", "edge", spec(80)).await.unwrap();
    world.until_object("MyProxy", "edge", "ready", is_ready).await;
    world.start(&Faults::default(), None);
    for port in 100..160 {
        world
            .people
            .patch("MyProxy", "edge", json!({"spec": spec(port)}))
            .await
            .unwrap();
        sleep(Duration::from_secs(2)).await;
    }
    world.until_object("MyProxy", "edge", "ready", is_ready).await;
    assert!(
        first.ended().is_some_and(|ended| ended.is_err()),
        "the first one has lost its lease"
    );
    let log = world.sim.log();
    let writes = |user: &str| {
        let writes = log
            .iter()
            .filter(|entry| entry.user == user && entry.verb.is_write() && entry.kind != "Lease");
        writes.map(|entry| entry.at).collect::<Vec<_>>()
    };
    let (first, second) = (writes("first"), writes(USER));
    assert!(
        first.last() > Some(&Duration::from_secs(60)),
        "the first one worked on while it could"
    );
    assert!(
        first.last() < second.first(),
        "{:?} {:?}",
        first.last(),
        second.first()
    );
}

#[tokio::test(start_paused = true)]
async fn a_further_reconcile_writes_nothing() {
    let mut world = World::new(&PROXIES);
    world.people.create("MyProxy", "edge", spec(80)).await.unwrap();
    world.until_object("MyProxy", "edge", "ready", is_ready).await;
    oracles::a_further_reconcile_writes_nothing(&mut world).await;
    status_says_what_is(&world, "edge");
}

/// Every n-th write in the lives of all subjects; n is for `make check`, `make test` and `make soak`. Other writes for each mishap.
fn each_write(mishap: Mishap, nth: [usize; 3]) -> Vec<Of<At>> {
    let nth = cases::extent(nth);
    Of::each(|subject| {
        let writes = life::without_faults(subject).writes;
        let nth = nth * subject.cost;
        let some = (1..=writes).filter(move |write| write % nth == mishap as usize % nth);
        some.map(move |write| At { mishap, write })
    })
}

/// Longer than the next operator needs to take over, shorter than what counts as quiet.
const BEHIND: Duration = Duration::from_secs(20);

/// By turns of each kind that the operator watches, and of all.
fn late_kinds(subject: &Subject, turn: usize) -> Vec<&'static str> {
    let role = (subject.role)();
    let is_watched = |kind: &&sim::kinds::Kind| {
        role.iter().any(|rule| {
            let of_it = rule
                .resources
                .iter()
                .flatten()
                .any(|plural| plural == kind.plural);
            of_it && rule.verbs.iter().any(|verb| verb == "watch")
        })
    };
    let watched = sim::kinds::KINDS.iter().filter(is_watched);
    let watched: Vec<&str> = watched.map(|kind| kind.kind).collect();
    match watched.get(turn % (watched.len() + 1)) {
        Some(one) => vec![one],
        None => watched,
    }
}

async fn live_through(Of { subject, case: at }: Of<At>) {
    let (faults, happened) = faults::at(at);
    let mut world = World::without_operator(subject);
    world.start(&faults, at.stops().then(|| happened.clone()));
    world.limit = LIMIT_IN_PEACE;
    if at.mishap == Mishap::Behind {
        let late = late_kinds(subject, at.write / 2);
        world.stand_by(&faults::behind(move |kind| late.contains(&kind), BEHIND));
    }
    // A child that is made so late that its proxy has gone is the garbage collector's.
    if at.mishap != Mishap::Late {
        world.sim.always(proxies::goes_last("edge"));
    }
    life::live(&mut world).await;
    assert!(*happened.borrow(), "the write was never made");
    assert_eq!(world.operators(), if at.stops() { 2 } else { 1 });
}

#[test]
fn an_operator_that_stops_before_a_write_leaves_nothing_undone() {
    let test = "an_operator_that_stops_before_a_write_leaves_nothing_undone";
    cases::each(test, each_write(Mishap::Before, [9, 1, 1]), live_through);
}

#[test]
fn an_operator_that_stops_after_a_write_does_nothing_twice() {
    let test = "an_operator_that_stops_after_a_write_does_nothing_twice";
    cases::each(test, each_write(Mishap::After, [9, 1, 1]), live_through);
}

#[test]
fn a_write_of_the_last_operator_that_arrives_late_undoes_nothing() {
    let test = "a_write_of_the_last_operator_that_arrives_late_undoes_nothing";
    cases::each(test, each_write(Mishap::Late, [11, 3, 1]), live_through);
}

#[test]
fn an_operator_that_takes_over_with_a_stale_cache_undoes_nothing() {
    let test = "an_operator_that_takes_over_with_a_stale_cache_undoes_nothing";
    cases::each(test, each_write(Mishap::Behind, [13, 4, 1]), live_through);
}

#[test]
fn a_write_that_fails_is_made_up_for() {
    let mishaps = [
        Mishap::Conflict,
        Mishap::TooMany,
        Mishap::Error,
        Mishap::Unanswered,
        Mishap::Invalid,
    ];
    let cases = mishaps.into_iter().flat_map(|mishap| {
        let mut cases = each_write(mishap, [17, 8, 1]);
        cases.retain(|of| mishap == Mishap::Conflict || !of.subject.is_spared());
        cases
    });
    cases::each("a_write_that_fails_is_made_up_for", cases, live_through);
}

/// What time it is, the API server says.
#[test]
fn a_clock_that_jumps_changes_nothing() {
    let cases = Of::seeds(1, 10);
    cases::each(
        "a_clock_that_jumps_changes_nothing",
        cases,
        async |case: Of<u64>| {
            let mut world = World::new(case.subject);
            world.jump_at_every_change(case.case);
            life::live(&mut world).await;
        },
    );
}

/// The watch has lost its place, and the list that follows does not mention what has gone.
#[tokio::test(start_paused = true)]
async fn what_goes_while_nobody_watches_is_put_back() {
    let mut world = World::new(&PROXIES);
    world.people.create("MyProxy", "edge", spec(80)).await.unwrap();
    world.until_object("MyProxy", "edge", "ready", is_ready).await;
    world.until_quiet().await;
    for (kind, name) in [
        ("Service", "edge"),
        ("ConfigMap", "edge-config"),
        ("Deployment", "edge"),
        ("PodDisruptionBudget", "edge"),
    ] {
        world.sim.with(|store| {
            let id = Id::new(named(kind), NAMESPACE, name);
            write::delete(store, &id, &json!({"propagationPolicy": "Background"})).unwrap();
            store.forget_history();
        });
        world
            .until(&format!("{kind} {name} is back"), |world| {
                world.get(kind, name).is_some()
            })
            .await;
    }
    world.until_object("MyProxy", "edge", "ready", is_ready).await;
    world.until_quiet().await;
    status_says_what_is(&world, "edge");
}

async fn live_in(
    Of {
        subject,
        case: storms,
    }: Of<Storms>,
) {
    let mut world = World::in_weather(subject, storms.faults());
    life::live(&mut world).await;
    world.populate("any").await;
    oracles::a_further_reconcile_writes_nothing(&mut world).await;
}

#[test]
fn storms_change_nothing_in_the_end() {
    let seeds = Of::seeds(3, 20).into_iter();
    let cases = seeds.filter(|seed| !seed.subject.is_spared());
    let cases = cases.map(|seed| seed.map(Storms::new));
    cases::each_shortened("storms_change_nothing_in_the_end", cases, live_in);
}

#[test]
fn whatever_people_do_is_told_or_brought_about() {
    let cases = Of::seeds(8, 80).into_iter().map(|seed| seed.map(Deeds::Seed));
    let test = "whatever_people_do_is_told_or_brought_about";
    cases::each_shortened(test, cases, deeds::play);
}

#[test]
fn every_field_shows_in_the_children_or_in_the_status() {
    let test = "every_field_shows_in_the_children_or_in_the_status";
    cases::each(test, every_field::cases(), every_field::shows);
}

#[tokio::test(start_paused = true)]
async fn a_database_lives_and_dies_as_its_spec_says() {
    let mut world = World::new(&DATABASES);
    life::live(&mut world).await;
    let told = world.events("orders");
    for reason in ["Created", "Available", "HandingOver", "Restarting"] {
        assert!(told.contains(&reason.to_owned()), "no Event {reason}: {told:?}");
    }
    assert_eq!(world.operators(), 1);
}

/// In a life of its own: that above is so busy that it may have used up what one object may tell within minutes.
#[tokio::test(start_paused = true)]
async fn a_database_that_is_deleted_says_so() {
    let mut world = World::new(&DATABASES);
    let spec = json!({"version": "17"});
    world.people.create("Database", "orders", spec).await.unwrap();
    world
        .until_object("Database", "orders", "ready", databases::is_ready)
        .await;
    world.people.delete("Database", "orders").await.unwrap();
    world.until_gone("Database", "orders").await;
    world.until_quiet().await;
    let told = world.events("orders");
    assert!(
        told.contains(&"Deleting".to_owned()),
        "no Event Deleting: {told:?}"
    );
}
