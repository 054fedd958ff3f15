//! The sample operator keeps its promises on a real API server.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    missing_docs,
    reason = "a test says what is wrong by a panic"
)]

#[path = "support/apiserver.rs"]
mod apiserver;
#[path = "../examples/greeter/src/operator/mod.rs"]
mod operator;
#[path = "support/running.rs"]
#[allow(dead_code, reason = "each binary uses what it needs of this")]
mod running;
#[path = "support/greeter_world.rs"]
mod world;

use std::time::Duration;

use apiserver::within;
use futures::StreamExt;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, WatchEvent, WatchParams};
use kube::core::NamespaceResourceScope;
use operator::api::{Greeting, Person};
use operator::reconcile::FINALIZER;
use roadstead::runtime::key::Object;
use serde_json::json;
use world::{LIMIT, World};

#[tokio::test]
async fn a_name_and_a_family_are_greeted_and_the_message_follows_every_change() {
    let world = World::new("messages").await;
    world.greeting("world", json!({"name": "World"})).await;
    world.until_greeted("world", "Hello, World", &[]).await;
    world.greeting("does", json!({"surname": "Doe"})).await;
    world
        .until_greeted("does", "There is nobody of the Doe family", &[])
        .await;

    world.person("johnd", "John", "Doe").await;
    world
        .until_greeted("does", "Hello to the Doe family: John", &["johnd"])
        .await;
    world.person("janed", "Jane", "Doe").await;
    world.person("rroe", "Richard", "Roe").await;
    world
        .until_greeted("does", "Hello to the Doe family: Jane, John", &["janed", "johnd"])
        .await;

    world
        .patch::<Person>("janed", json!({"spec": {"firstName": "Zoe"}}))
        .await;
    world
        .until_greeted("does", "Hello to the Doe family: John, Zoe", &["johnd", "janed"])
        .await;
    world
        .patch::<Person>("johnd", json!({"spec": {"surname": "Roe"}}))
        .await;
    world
        .until_greeted("does", "Hello to the Doe family: Zoe", &["janed"])
        .await;
    world
        .patch::<Greeting>("does", json!({"spec": {"surname": "Roe"}}))
        .await;
    world
        .until_greeted(
            "does",
            "Hello to the Roe family: John, Richard",
            &["johnd", "rroe"],
        )
        .await;
    world
        .patch::<Greeting>("does", json!({"spec": {"surname": null, "name": "Doe"}}))
        .await;
    world.until_greeted("does", "Hello, Doe", &[]).await;
}

#[tokio::test]
async fn the_api_server_refuses_what_is_neither_and_says_why() {
    let world = World::new("refusals").await;
    let exactly_one = "give exactly one of name (to greet somebody) and surname (to greet a family)";
    for (spec, why) in [
        (json!({}), exactly_one),
        (json!({"name": "World", "surname": "Doe"}), exactly_one),
        (
            json!({"name": ""}),
            "spec.name in body should be at least 1 chars long",
        ),
    ] {
        let refused = world.try_create::<Greeting>("greeting", spec.clone()).await;
        let message = refused.unwrap_err().to_string();
        assert!(message.contains(why), "{spec}: {message}");
    }
    for (spec, why) in [
        (json!({"firstName": "Jane"}), "spec.surname: Required value"),
        (json!({"surname": "Doe"}), "spec.firstName: Required value"),
    ] {
        let refused = world.try_create::<Person>("person", spec.clone()).await;
        let message = refused.unwrap_err().to_string();
        assert!(message.contains(why), "{spec}: {message}");
    }
    // A field that is null is one that is not there.
    world
        .greeting("null", json!({"name": null, "surname": "Doe"}))
        .await;
}

#[tokio::test]
async fn a_person_cannot_go_while_a_greeting_refers_to_it() {
    let mut world = World::new("held").await;
    world.does().await;
    assert_eq!(world.finalizers("janed").await, [FINALIZER]);

    // Without an operator nobody stops referring.
    world.operator.stop().await;
    world.delete::<Person>("janed").await;
    let held = world.find::<Person>("janed").await.unwrap();
    assert!(held.metadata.deletion_timestamp.is_some());

    let (greetings, people) = (version::<Greeting>(&world).await, version::<Person>(&world).await);
    world.restart().await;
    world.until_gone::<Person>("janed").await;
    world
        .until_greeted("does", "Hello to the Doe family: John", &["johnd"])
        .await;
    let unnamed = history::<Greeting>(&world, &greetings).await.into_iter();
    let unnamed = unnamed.filter(|(_, greeting, _)| people_of(greeting) == ["johnd"]);
    let gone = history::<Person>(&world, &people).await.into_iter();
    let gone = gone.filter(|(_, person, deleted)| *deleted && person.name_any() == "janed");
    let (unnamed, gone) = (unnamed.map(|step| step.0).min(), gone.map(|step| step.0).min());
    assert!(
        unnamed.is_some() && unnamed < gone,
        "the Greeting stops referring at {unnamed:?}, the Person goes at {gone:?}"
    );
    world
        .until_event("janed", "Normal", "Released", "no Greeting refers to it any more")
        .await;
}

#[tokio::test]
async fn whoever_is_named_was_held_before() {
    let world = World::new("order").await;
    let (greetings, people) = (version::<Greeting>(&world).await, version::<Person>(&world).await);
    world.does().await;
    let held = history::<Person>(&world, &people).await.into_iter();
    let held: Vec<(u64, String)> = held
        .filter(|(_, person, _)| person.finalizers() == [FINALIZER])
        .map(|(version, person, _)| (version, person.name_any()))
        .collect();
    let mut named = 0;
    for (version, greeting, _) in history::<Greeting>(&world, &greetings).await {
        for name in people_of(&greeting) {
            let before = held
                .iter()
                .any(|(since, person)| *since < version && *person == name);
            assert!(before, "named at {version}: {name}, held: {held:?}");
            named += 1;
        }
    }
    assert!(named >= 2, "the history names {named} people");
}

fn people_of(greeting: &Greeting) -> Vec<String> {
    greeting.status.clone().unwrap_or_default().people
}

/// Where the API server's history of a kind is now.
async fn version<K: Object<Scope = NamespaceResourceScope>>(world: &World) -> String {
    let list = world.api::<K>().list(&ListParams::default()).await.unwrap();
    list.metadata.resource_version.unwrap()
}

/// What has happened to a kind since then: the version, the object, and whether it was deleted. Versions are of one count for all kinds.
async fn history<K: Object<Scope = NamespaceResourceScope>>(
    world: &World,
    since: &str,
) -> Vec<(u64, K, bool)> {
    let params = WatchParams::default().timeout(1);
    let api = world.api::<K>();
    let events: Vec<_> = api.watch(&params, since).await.unwrap().collect().await;
    let steps = events.into_iter().filter_map(|event| match event.unwrap() {
        WatchEvent::Added(object) | WatchEvent::Modified(object) => Some((object, false)),
        WatchEvent::Deleted(object) => Some((object, true)),
        WatchEvent::Bookmark(_) | WatchEvent::Error(_) => None,
    });
    let version = |object: &K| object.meta().resource_version.as_ref().unwrap().parse().unwrap();
    steps
        .map(|(object, deleted)| (version(&object), object, deleted))
        .collect()
}

#[tokio::test]
async fn the_finalizer_goes_once_no_greeting_refers_to_the_person_and_comes_back_if_it_is_taken() {
    let mut world = World::new("released").await;
    world.does().await;
    world.greeting("too", json!({"surname": "Doe"})).await;
    world
        .until_greeted("too", "Hello to the Doe family: Jane, John", &["janed", "johnd"])
        .await;

    // One of two is not enough.
    world.delete::<Greeting>("does").await;
    world.until_gone::<Greeting>("does").await;
    world.until_quiet().await;
    assert_eq!(world.finalizers("janed").await, [FINALIZER]);

    world
        .patch::<Person>(
            "janed",
            json!({"metadata": {"finalizers": ["example.org/another"]}}),
        )
        .await;
    world
        .until_finalizers("janed", &["example.org/another", FINALIZER])
        .await;
    world
        .patch::<Greeting>("too", json!({"spec": {"surname": "Roe"}}))
        .await;
    world.until_finalizers("janed", &["example.org/another"]).await;
    world.until_finalizers("johnd", &[]).await;
    until_person_says(&world, "johnd", "no Greeting refers to it").await;

    // Nobody needs the operator for the deletion of somebody who is not greeted.
    world.operator.stop().await;
    world.delete::<Person>("johnd").await;
    world.until_gone::<Person>("johnd").await;
}

#[tokio::test]
async fn a_second_reconcile_writes_nothing_and_no_reconcile_lists() {
    let mut world = World::new("quiet").await;
    world.does().await;
    world.greeting("nobody", json!({"surname": "Poe"})).await;
    world
        .until_greeted("nobody", "There is nobody of the Poe family", &[])
        .await;
    world.until_quiet().await;
    assert_eq!(world.operator.failures(), 0);

    // A new process knows nothing, and looks at all four objects and the stranger.
    world.restart().await;
    within(LIMIT, "everything is reconciled again", async || {
        world.operator.reconciles() >= 5
    })
    .await;
    world.until_quiet().await;
    assert_eq!(world.operator.writes(), 0);

    let reads = world.operator.reads();
    world.person("adamd", "Adam", "Doe").await;
    world
        .until_greeted(
            "does",
            "Hello to the Doe family: Adam, Jane, John",
            &["adamd", "janed", "johnd"],
        )
        .await;
    world.until_quiet().await;
    assert_eq!(
        world.operator.reads(),
        reads,
        "what is read comes from the caches"
    );
}

#[tokio::test]
async fn every_transition_is_an_event_and_a_condition() {
    let world = World::new("events").await;
    world.greeting("does", json!({"surname": "Doe"})).await;
    let nobody = "There is nobody of the Doe family";
    world
        .until_event("does", "Warning", "NobodyToGreet", nobody)
        .await;
    assert_eq!(ready(&world).await, ["False", "NobodyToGreet", nobody]);
    world.person("janed", "Jane", "Doe").await;
    let jane = "Hello to the Doe family: Jane";
    world.until_event("does", "Normal", "Greeted", jane).await;
    assert_eq!(ready(&world).await, ["True", "Greeted", jane]);
    world
        .until_event("janed", "Normal", "Held", "a Greeting is going to name it")
        .await;
    until_person_says(&world, "janed", "Greeting does refers to it").await;
}

async fn until_person_says(world: &World, person: &str, message: &str) {
    within(LIMIT, &format!("{person} says {message:?}"), async || {
        let person = world.find::<Person>(person).await.unwrap();
        let conditions = person.status.unwrap_or_default().conditions;
        conditions
            .iter()
            .any(|it| it.type_ == "Greeted" && it.message == message)
    })
    .await;
}

async fn ready(world: &World) -> [String; 3] {
    let greeting = world.find::<Greeting>("does").await.unwrap();
    let [condition] = greeting.status.unwrap_or_default().conditions.try_into().unwrap();
    assert_eq!(condition.type_, "Ready");
    assert_eq!(condition.observed_generation, greeting.metadata.generation);
    [condition.status, condition.reason, condition.message]
}

/// Every operator here works under the service account of the manifests; this one takes the Lease as well.
#[tokio::test]
async fn the_rights_in_the_manifests_are_enough_for_work_events_and_election() {
    let mut world = World::elected("rights").await;
    world.does().await;
    world
        .until_event("does", "Normal", "Greeted", "Hello to the Doe family: Jane, John")
        .await;
    world.delete::<Person>("johnd").await;
    world.until_gone::<Person>("johnd").await;
    assert_eq!(world.operator.failures(), 0);
    world.operator.stop().await;
}

/// Draws actions over the objects that there are, by a rule that a seed replays.
struct Mutator(u64);

impl Mutator {
    fn draw(&mut self, below: usize) -> usize {
        // Knuth's linear congruence; the low bits are of no use.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % below
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.draw(from.len())]
    }

    /// One action; one that the API server has no object for is passed over.
    async fn act(&mut self, world: &World) -> String {
        let (surname, first) = (self.pick(&["Doe", "Roe"]), self.pick(&["Ann", "Bob"]));
        let (person, greeting) = (self.pick(&["a", "b", "c"]), self.pick(&["x", "y"]));
        let family = json!({"surname": surname, "name": null});
        let patch = PatchParams::default();
        let (action, done) = match self.draw(7) {
            0 | 1 => (
                format!("person {person}: {first} {surname}"),
                world
                    .try_create::<Person>(person, json!({"firstName": first, "surname": surname}))
                    .await,
            ),
            2 => (
                format!("greeting {greeting} to {surname}"),
                world
                    .try_create::<Greeting>(greeting, json!({"surname": surname}))
                    .await,
            ),
            3 => {
                let spec = Patch::Merge(json!({"spec": {"surname": surname, "firstName": first}}));
                let patched = world.api::<Person>().patch(person, &patch, &spec).await;
                (
                    format!("person {person} becomes {first} {surname}"),
                    patched.map(drop),
                )
            }
            4 => {
                let spec = Patch::Merge(json!({"spec": family}));
                let patched = world.api::<Greeting>().patch(greeting, &patch, &spec).await;
                (
                    format!("greeting {greeting} turns to {surname}"),
                    patched.map(drop),
                )
            }
            5 => {
                let (api, params) = (world.api::<Person>(), DeleteParams::default());
                let deleted = api.delete(person, &params).await;
                (format!("person {person} is deleted"), deleted.map(drop))
            }
            _ => {
                let (api, params) = (world.api::<Greeting>(), DeleteParams::default());
                let deleted = api.delete(greeting, &params).await;
                (format!("greeting {greeting} is deleted"), deleted.map(drop))
            }
        };
        match done {
            Ok(()) => action,
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {
                format!("({action}: {})", status.reason)
            }
            Err(error) => panic!("{action}: {error}"),
        }
    }
}

/// What is wrong with what there is, by the rules in the tutorial.
async fn faults(world: &World) -> Vec<String> {
    let greetings = world
        .api::<Greeting>()
        .list(&ListParams::default())
        .await
        .unwrap();
    let people = world.api::<Person>().list(&ListParams::default()).await.unwrap();
    let mut faults = Vec::new();
    let mut referred = Vec::new();
    for greeting in &greetings {
        let surname = greeting.spec.surname.clone().unwrap();
        let mut family: Vec<&Person> = people
            .iter()
            .filter(|person| person.spec.surname == surname)
            .collect();
        family.sort_by_key(|person| (person.spec.first_name.clone(), person.name_any()));
        let expected: Vec<String> = family.iter().map(|person| person.name_any()).collect();
        let named = people_of(greeting);
        if named != expected {
            faults.push(format!(
                "{} to {surname} names {named:?}, not {expected:?}",
                greeting.name_any()
            ));
        }
        referred.extend(named);
    }
    for person in &people {
        let (held, name) = (!person.finalizers().is_empty(), person.name_any());
        if held != referred.contains(&name) {
            faults.push(format!("{name} has finalizers {:?}", person.finalizers()));
        }
        if person.metadata.deletion_timestamp.is_some() {
            faults.push(format!("{name} is still being deleted"));
        }
    }
    faults
}

#[tokio::test]
async fn whatever_is_done_the_state_is_valid_soon_after() {
    let world = World::new("mutator").await;
    let seed = std::env::var("SEED").map_or(20_261_121, |seed| seed.parse().unwrap());
    let (mut mutator, mut done) = (Mutator(seed), Vec::new());
    for _ in 0..25 {
        for _ in 0..=mutator.draw(4) {
            done.push(mutator.act(&world).await);
        }
        let mut left = Vec::new();
        let settled = tokio::time::timeout(LIMIT, async {
            loop {
                left = faults(&world).await;
                if left.is_empty() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        let settled = settled.await;
        assert!(
            settled.is_ok(),
            "SEED={seed}\n{}\nleft: {left:#?}",
            done.join("\n")
        );
    }
}
