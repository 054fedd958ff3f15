//! The operator: two kinds, two controllers, and what each of them watches.

use kube::ResourceExt;
use roadstead::runtime::cache::{Cache, Watch};
use roadstead::runtime::controller::{Controller, ControllerOptions};
use roadstead::runtime::key::{Object, ObjectKey};
use roadstead::runtime::manager::Manager;
use roadstead::runtime::predicates;

pub mod api;
pub mod decide;
pub mod reconcile;

use api::{Greeting, Person};
use reconcile::{Greetings, People};

/// Adds both controllers to a manager.
pub fn register(manager: &mut Manager, options: ControllerOptions) {
    let greetings: Cache<Greeting> = manager.cache(Watch::all());
    let people: Cache<Person> = manager.cache(Watch::all());

    let known = greetings.clone();
    let controller = Controller::new("greeting", &greetings, Greetings(people.clone()))
        .when(predicates::generation().or(predicates::status()))
        .watches(&people, move |person: &Person| {
            keys(&known, person, |greeting| decide::concerns(greeting, person))
        });
    manager.add(controller.options(options));

    let known = people.clone();
    let asked = predicates::generation().or(predicates::finalizers());
    let controller = Controller::new("person", &people, People(greetings.clone()))
        .when(asked.or(predicates::status()))
        .watches(&greetings, move |greeting: &Greeting| {
            keys(&known, greeting, |person| decide::concerns(greeting, person))
        });
    manager.add(controller.options(options));
}

/// Which of the known objects in its namespace the change of an object concerns.
fn keys<K: Object>(known: &Cache<K>, of: &impl ResourceExt, is_one: impl Fn(&K) -> bool) -> Vec<ObjectKey> {
    let mut objects = known.in_namespace(&of.namespace().unwrap_or_default());
    objects.retain(|object| is_one(object));
    objects.iter().map(|it| ObjectKey::of(it.as_ref())).collect()
}
