//! Every decision, as a function of what was seen: no client, no clock, nothing to wait for.

use std::sync::Arc;

use jiff::Timestamp;
use kube::{Resource, ResourceExt};
use roadstead::runtime::conditions::{Conditions, READY, State};
use roadstead::runtime::events::EventType;

use super::api::{Greeting, GreetingStatus, Person, PersonStatus};

/// Whether the Greeting asks for the person's family.
fn wants(greeting: &Greeting, person: &Person) -> bool {
    greeting.spec.name.is_none() && greeting.spec.surname.as_ref() == Some(&person.spec.surname)
}

/// Whether the Greeting's status names the person.
pub fn refers(greeting: &Greeting, person: &Person) -> bool {
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

/// The status of a Greeting to these people.
pub fn greet(greeting: &Greeting, family: &[Arc<Person>], now: Timestamp) -> GreetingStatus {
    let names: Vec<&str> = family
        .iter()
        .map(|person| person.spec.first_name.as_str())
        .collect();
    let (ready, reason, message) = match (&greeting.spec.name, &greeting.spec.surname) {
        (Some(name), None) => (true, "Greeted", format!("Hello, {name}")),
        (None, Some(surname)) if names.is_empty() => (
            false,
            "NobodyToGreet",
            format!("There is nobody of the {surname} family to greet"),
        ),
        (None, Some(surname)) => (
            true,
            "Greeted",
            format!("Hello to the {surname} family: {}", names.join(", ")),
        ),
        // The API server refuses these, if the CRD is ours.
        _ => (
            false,
            "InvalidSpec",
            "spec must have exactly one of name and surname".to_owned(),
        ),
    };
    let before = greeting.status.clone().unwrap_or_default().conditions;
    let mut conditions = Conditions::new(&before, greeting.metadata.generation, now);
    conditions.set(READY, State::from(ready), reason, &message);
    let people = family.iter().map(|person| person.name_any()).collect();
    GreetingStatus {
        message,
        people,
        conditions: conditions.finish(),
    }
}

/// The Event that a new status deserves: its type and reason. None when the message is the same as before.
pub fn news<'a>(greeting: &Greeting, status: &'a GreetingStatus) -> Option<(EventType, &'a str)> {
    let before = greeting.status.as_ref().map(|before| &before.message);
    let reason = status
        .conditions
        .first()
        .filter(|_| before != Some(&status.message))?
        .reason
        .as_str();
    let refused = reason == "InvalidSpec";
    Some((
        if refused {
            EventType::Warning
        } else {
            EventType::Normal
        },
        reason,
    ))
}

/// Whether the person may lose its finalizer: no Greeting refers to it, and, unless it is being deleted, none is going to.
pub fn may_go(person: &Person, greetings: &[Arc<Greeting>]) -> bool {
    let stays = person.meta().deletion_timestamp.is_none();
    let keeps = |greeting: &Arc<Greeting>| refers(greeting, person) || (stays && wants(greeting, person));
    !greetings.iter().any(keeps)
}

/// The status of a Person among these Greetings.
pub fn describe(person: &Person, greetings: &[Arc<Greeting>], now: Timestamp) -> PersonStatus {
    let by: Vec<String> = greetings
        .iter()
        .filter(|it| refers(it, person))
        .map(|it| it.name_any())
        .collect();
    let (greeted, reason, message) = match by.as_slice() {
        [] => (false, "NoGreeting", "no Greeting refers to it".to_owned()),
        [one] => (true, "Greeted", format!("Greeting {one} refers to it")),
        [first, others @ ..] => (
            true,
            "Greeted",
            format!("Greeting {first} and {} others refer to it", others.len()),
        ),
    };
    let before = person.status.clone().unwrap_or_default().conditions;
    let mut conditions = Conditions::new(&before, person.metadata.generation, now);
    conditions.set("Greeted", State::from(greeted), reason, message);
    PersonStatus {
        conditions: conditions.finish(),
    }
}
