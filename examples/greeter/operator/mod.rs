//! The operator: two kinds, two controllers, and what each of them watches.

use kube::ResourceExt;
use roadstead::runtime::apply::ApplyError;
use roadstead::runtime::cache::{Cache, Watch};
use roadstead::runtime::client::is_conflict;
use roadstead::runtime::controller::{Controller, ControllerOptions};
use roadstead::runtime::key::{Object, ObjectKey};
use roadstead::runtime::manager::Manager;
use roadstead::runtime::predicates;
use roadstead::runtime::reconcile::{ReconcileError, Retry};

pub mod api;
pub mod decide;
mod greetings;
mod people;

use api::{Greeting, Person};

/// Keeps a Person for as long as a Greeting refers to it.
pub const FINALIZER: &str = "roadstead.dev/cleanup";

/// Adds both controllers to a manager.
pub fn register(manager: &mut Manager, options: ControllerOptions) {
    let greetings: Cache<Greeting> = manager.cache(Watch::all());
    let people: Cache<Person> = manager.cache(Watch::all());

    let known = greetings.clone();
    let greeters = Controller::new("greeting", &greetings, greetings::Greetings(people.clone()))
        .when(predicates::generation())
        .watches(&people, move |person: &Person| {
            keys(&known, person, |greeting| decide::concerns(greeting, person))
        })
        .options(options);
    manager.add(greeters);

    let known = people.clone();
    let holders = Controller::new("person", &people, people::People(greetings.clone()))
        .when(predicates::generation().or(predicates::finalizers()))
        .watches(&greetings, move |greeting: &Greeting| {
            keys(&known, greeting, |person| decide::concerns(greeting, person))
        })
        .options(options);
    manager.add(holders);
}

/// Which objects in the namespace of a changed one are to be reconciled.
fn keys<K: Object>(
    known: &Cache<K>,
    changed: &impl ResourceExt,
    is_one: impl Fn(&K) -> bool,
) -> Vec<ObjectKey> {
    let objects = known.in_namespace(&changed.namespace().unwrap_or_default());
    let concerned = objects.iter().filter(|object| is_one(object));
    concerned.map(|object| ObjectKey::of(object.as_ref())).collect()
}

/// What can go wrong in a reconcile.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The status was not written.
    #[error(transparent)]
    Status(#[from] ApplyError),
    /// A Person was not held, or not released.
    #[error("cannot change the finalizers of person {0}: {1}")]
    Finalizer(String, #[source] kube::Error),
}

impl ReconcileError for Error {
    fn category(&self) -> &'static str {
        match self {
            Self::Status(error) => error.category(),
            Self::Finalizer(..) => "finalizer",
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::Status(error) => error.retry(),
            // The Person changed meanwhile, which is no fault: look again.
            Self::Finalizer(_, error) if is_conflict(error) => Retry::Again,
            Self::Finalizer(..) => Retry::BackOff,
        }
    }
}
