//! The sample operator: Greetings and the people whom they greet.

use std::path::Path;
use std::sync::OnceLock;

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use roadstead::olm::Manifests;
use roadstead::runtime::controller::ControllerOptions;
use serde_json::{Value, json};

use super::{Kind, Subject, condition};
use crate::life::Course;
use crate::operator;
use crate::sim::faults::Chance;
use crate::sim::store::{Objects, Store};
use crate::sim::world::World;

pub static GREETER: Subject = Subject {
    name: "roadstead-greeter",
    register: |manager, _| operator::register(manager, ControllerOptions::default()),
    role,
    kinds: &[&Greeting, &Person],
    through: &[],
    cost: 1,
    watched: |_| {},
    life,
    undisturbed: OnceLock::new(),
};

fn role() -> Vec<PolicyRule> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/greeter/manifests");
    let manifests = Manifests::read(&folder).expect("the manifests");
    let role = manifests
        .of_kind("rbac.authorization.k8s.io", "ClusterRole")
        .next();
    let role: ClusterRole = serde_json::from_value(role.expect("a ClusterRole").clone()).expect("a role");
    role.rules.unwrap_or_default()
}

/// Few, so that people share them, and most of them of one family.
const SURNAMES: [&str; 4] = ["Doe", "Doe", "Doe", "Roe"];
const FIRST_NAMES: [&str; 3] = ["Ann", "Bob", "Cid"];

fn one_of(chance: &mut Chance, names: &[&'static str]) -> &'static str {
    names[usize::try_from(chance.below(names.len() as u64)).unwrap_or(0)]
}

struct Greeting;

impl Kind for Greeting {
    fn name(&self) -> &'static str {
        "Greeting"
    }

    fn names(&self) -> &'static [&'static str] {
        &["a", "b"]
    }

    fn base(&self) -> Value {
        json!({"surname": "Doe"})
    }

    fn changes(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("name", json!({"name": "Ann", "surname": null})),
            ("surname", json!({"surname": "Roe"})),
        ]
    }

    /// With both fields, one of which is null where it is to go.
    fn valid(&self, chance: &mut Chance) -> Value {
        match chance.below(4) {
            0 => json!({"name": one_of(chance, &FIRST_NAMES), "surname": null}),
            _ => json!({"surname": one_of(chance, &SURNAMES), "name": null}),
        }
    }

    fn invalid(&self, chance: &mut Chance) -> Value {
        match chance.below(3) {
            0 => json!({"name": "Ann", "surname": "Doe"}),
            1 => json!({"name": null, "surname": null}),
            _ => json!({"name": "", "surname": null}),
        }
    }

    /// Every spec that the API server accepts is good.
    fn remedy(&self) -> Value {
        json!({})
    }

    fn is_told(&self, objects: &Objects, greeting: &Value) -> bool {
        self.is_well(objects, greeting)
    }

    /// As the sample's description has it.
    fn is_well(&self, objects: &Objects, greeting: &Value) -> bool {
        let named = greeting["spec"]["name"].as_str();
        let family = family(objects, greeting);
        let surname = greeting["spec"]["surname"].as_str().unwrap_or_default();
        let (ready, message) = match named {
            Some(name) => ("True", format!("Hello, {name}")),
            None if family.is_empty() => ("False", format!("There is nobody of the {surname} family")),
            None => {
                let names: Vec<&str> = family.iter().map(|(first_name, _)| first_name.as_str()).collect();
                (
                    "True",
                    format!("Hello to the {surname} family: {}", names.join(", ")),
                )
            }
        };
        let people: Vec<&String> = family.iter().map(|(_, name)| name).collect();
        greeting["status"]["message"] == message
            && greeting["status"]["people"] == json!(people)
            && is_current(greeting, "Ready", ready)
    }
}

/// First name and object name of those whom a Greeting is to greet, in order.
fn family(objects: &Objects, greeting: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let people = of_kind(objects, "Person").filter(|person| {
        greeting["spec"]["name"].is_null()
            && person["spec"]["surname"] == greeting["spec"]["surname"]
            && person["metadata"]["deletionTimestamp"].is_null()
    });
    let mut family: Vec<_> = people
        .map(|person| {
            (
                text(&person["spec"]["firstName"]),
                text(&person["metadata"]["name"]),
            )
        })
        .collect();
    family.sort();
    family
}

fn of_kind<'a>(objects: &'a Objects, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    let of_kind = objects.iter().filter(move |(id, _)| id.kind == kind);
    of_kind.map(|(_, object)| &**object)
}

fn is_current(object: &Value, type_: &str, status: &str) -> bool {
    let condition = condition(object, type_);
    condition["status"] == status && condition["observedGeneration"] == object["metadata"]["generation"]
}

/// The Greetings whose status names a person.
fn that_name<'a>(objects: &'a Objects, person: &'a Value) -> impl Iterator<Item = &'a Value> {
    of_kind(objects, "Greeting").filter(|greeting| {
        let named = greeting["status"]["people"].as_array().into_iter().flatten();
        named.into_iter().any(|name| *name == person["metadata"]["name"])
    })
}

struct Person;

impl Kind for Person {
    fn name(&self) -> &'static str {
        "Person"
    }

    fn names(&self) -> &'static [&'static str] {
        &["a", "b", "c"]
    }

    fn base(&self) -> Value {
        json!({"firstName": "Ann", "surname": "Doe"})
    }

    fn changes(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("firstName", json!({"firstName": "Bob"})),
            ("surname", json!({"surname": "Roe"})),
        ]
    }

    fn valid(&self, chance: &mut Chance) -> Value {
        json!({"firstName": one_of(chance, &FIRST_NAMES), "surname": one_of(chance, &SURNAMES)})
    }

    fn invalid(&self, chance: &mut Chance) -> Value {
        match chance.below(3) {
            0 => json!({"firstName": "", "surname": "Doe"}),
            1 => json!({"firstName": "Ann", "surname": null}),
            _ => json!({"firstName": 5, "surname": "Doe"}),
        }
    }

    fn remedy(&self) -> Value {
        json!({})
    }

    fn is_told(&self, objects: &Objects, person: &Value) -> bool {
        self.is_well(objects, person)
    }

    /// Held if and only if somebody greets it.
    fn is_well(&self, objects: &Objects, person: &Value) -> bool {
        let greeted = that_name(objects, person).next().is_some();
        let held = person["metadata"]["finalizers"]
            .as_array()
            .is_some_and(|held| held.contains(&json!(operator::reconcile::FINALIZER)));
        held == greeted && is_current(person, "Greeted", if greeted { "True" } else { "False" })
    }
}

/// Greeted alone and in company, renamed, leaving, passed over and greeted again.
fn life<'a>(world: &'a mut World, course: &'a mut Course) -> LocalBoxFuture<'a, ()> {
    async move {
        let person = |first_name: &str| json!({"firstName": first_name, "surname": "Doe"});
        world
            .people
            .create("Person", "john", person("John"))
            .await
            .unwrap();
        let does = json!({"surname": "Doe"});
        world.people.create("Greeting", "does", does).await.unwrap();
        settles(world, course, "John is greeted").await;
        world.sim.always(nobody_goes_who_is_named);

        world
            .people
            .create("Person", "jane", person("Jane"))
            .await
            .unwrap();
        settles(world, course, "Jane has joined").await;
        let renamed = json!({"spec": {"firstName": "Zoe"}});
        world.people.patch("Person", "jane", renamed).await.unwrap();
        settles(world, course, "Jane is called Zoe").await;
        assert_eq!(
            world.get("Greeting", "does").unwrap()["status"]["message"],
            "Hello to the Doe family: John, Zoe"
        );

        world.people.delete("Person", "john").await.unwrap();
        world.until_gone("Person", "john").await;
        settles(world, course, "John has left").await;

        for (spec, step) in [
            (
                json!({"name": "World", "surname": null}),
                "somebody else is greeted",
            ),
            (
                json!({"name": null, "surname": "Doe"}),
                "the family is greeted again",
            ),
        ] {
            let patch = json!({"spec": spec});
            world.people.patch("Greeting", "does", patch).await.unwrap();
            settles(world, course, step).await;
        }
        course.is_as_before(2, "the family, somebody else, the family again");

        world.people.delete("Greeting", "does").await.unwrap();
        world.until_gone("Greeting", "does").await;
        settles(world, course, "nobody is greeted").await;
        world.people.delete("Person", "jane").await.unwrap();
        world.until_gone("Person", "jane").await;
        world.until_quiet().await;
        course.compare(world, "at the end");
    }
    .boxed_local()
}

/// Waits until every Greeting and every Person is well, and nothing happens any more.
async fn settles(world: &mut World, course: &mut Course, step: &str) {
    world
        .until(step, |world| {
            world.sim.with(|store| {
                let objects = store.objects();
                of_kind(objects, "Greeting").all(|greeting| Greeting.is_well(objects, greeting))
                    && of_kind(objects, "Person").all(|person| Person.is_well(objects, person))
            })
        })
        .await;
    world.until_quiet().await;
    course.compare(world, step);
}

/// A Person stays while a Greeting refers to it, and is held before.
fn nobody_goes_who_is_named(store: &Store) {
    let objects = store.objects();
    for greeting in of_kind(objects, "Greeting") {
        for name in greeting["status"]["people"].as_array().into_iter().flatten() {
            let person = of_kind(objects, "Person").find(|person| person["metadata"]["name"] == *name);
            let by = &greeting["metadata"]["name"];
            let person = person.unwrap_or_else(|| panic!("{name} went while {by} names it"));
            let held = person["metadata"]["finalizers"].as_array();
            assert!(
                held.is_some_and(|held| held.contains(&json!(operator::reconcile::FINALIZER))),
                "{by} names {name}, whom nothing holds"
            );
        }
    }
}
