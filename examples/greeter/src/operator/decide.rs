//! Every decision, as a function of what was seen: no client, no clock, nothing to wait for.

use std::sync::Arc;

use jiff::Timestamp;
use kube::{Resource, ResourceExt};
use roadstead::runtime::conditions::{Conditions, READY, State};
use roadstead::runtime::events::EventType;

use super::api::{Greeting, GreetingStatus, Person, PersonStatus};

/// The reason of a Greeting that greets somebody, and the condition of a Person who is greeted.
const GREETED: &str = "Greeted";

/// Whether the Greeting asks for the person's family.
fn wants(greeting: &Greeting, person: &Person) -> bool {
    greeting.spec.name.is_none() && greeting.spec.surname.as_ref() == Some(&person.spec.surname)
}

/// Whether the Greeting's status names the person.
fn refers(greeting: &Greeting, person: &Person) -> bool {
    let named = greeting.status.iter().flat_map(|status| &status.people);
    named.into_iter().any(|name| *name == person.name_any())
}

/// Whether a change of one may matter to the other.
pub fn concerns(greeting: &Greeting, person: &Person) -> bool {
    wants(greeting, person) || refers(greeting, person)
}

/// Whom the Greeting greets: by first name, and by object name where first names are the same. Nobody who is being deleted.
pub fn family(greeting: &Greeting, mut people: Vec<Arc<Person>>) -> Vec<Arc<Person>> {
    people.retain(|person| wants(greeting, person) && person.meta().deletion_timestamp.is_none());
    people.sort_by_cached_key(|person| (person.spec.first_name.clone(), person.name_any()));
    people
}

/// The status of a Greeting to these people, and the reason of its condition.
pub fn greet(greeting: &Greeting, family: &[Arc<Person>], now: Timestamp) -> (&'static str, GreetingStatus) {
    let names: Vec<&str> = family.iter().map(|it| it.spec.first_name.as_str()).collect();
    let names = names.join(", ");
    let (reason, message) = match (&greeting.spec.name, &greeting.spec.surname) {
        (Some(name), None) => (GREETED, format!("Hello, {name}")),
        (None, Some(it)) if family.is_empty() => {
            ("NobodyToGreet", format!("There is nobody of the {it} family"))
        }
        (None, Some(it)) => (GREETED, format!("Hello to the {it} family: {names}")),
        // The API server refuses these, where the CRD is ours.
        _ => ("InvalidSpec", "give exactly one of name and surname".to_owned()),
    };
    let before = greeting.status.clone().unwrap_or_default().conditions;
    let mut conditions = Conditions::new(&before, greeting.metadata.generation, now);
    conditions.set(READY, State::from(reason == GREETED), reason, &message);
    let status = GreetingStatus {
        message,
        people: family.iter().map(|person| person.name_any()).collect(),
        conditions: conditions.finish(),
    };
    (reason, status)
}

/// Whether somebody should have a look.
pub fn severity(reason: &str) -> EventType {
    match reason {
        GREETED => EventType::Normal,
        _ => EventType::Warning,
    }
}

/// Whether the person may lose its finalizer: no Greeting refers to it and, unless it is being deleted, none is going to.
pub fn may_go(person: &Person, greetings: &[Arc<Greeting>]) -> bool {
    let stays = person.meta().deletion_timestamp.is_none();
    let keeps = |greeting: &Arc<Greeting>| refers(greeting, person) || (stays && wants(greeting, person));
    !greetings.iter().any(keeps)
}

/// The status of a Person among these Greetings.
pub fn describe(person: &Person, greetings: &[Arc<Greeting>], now: Timestamp) -> PersonStatus {
    let (reason, message) = match greetings.iter().find(|greeting| refers(greeting, person)) {
        None => ("NoGreeting", "no Greeting refers to it".to_owned()),
        Some(one) => (GREETED, format!("Greeting {} refers to it", one.name_any())),
    };
    let before = person.status.clone().unwrap_or_default().conditions;
    let mut conditions = Conditions::new(&before, person.metadata.generation, now);
    conditions.set(GREETED, State::from(reason == GREETED), reason, message);
    let conditions = conditions.finish();
    PersonStatus { conditions }
}
