//! The thin edges: read the caches, ask [`decide`], write what it says. Whoever is to be named is held first, and released last.

use std::sync::Arc;

use kube::ResourceExt;
use roadstead::runtime::apply::ApplyError;
use roadstead::runtime::cache::Cache;
use roadstead::runtime::client::{is_conflict, is_not_found};
use roadstead::runtime::events::EventType;
use roadstead::runtime::finalizers::{self, FinalizerState};
use roadstead::runtime::reconcile::{Context, Next, Reconciler};
use roadstead::runtime::retry::{ReconcileError, Retry};

use super::api::{Greeting, Person};
use super::decide;

/// Keeps a Person for as long as a Greeting refers to it.
pub const FINALIZER: &str = "roadstead.dev/cleanup";

/// Reconciles Greetings, given the people.
pub struct Greetings(pub Cache<Person>);

impl Reconciler for Greetings {
    type Kind = Greeting;
    type Error = Error;

    async fn reconcile(&self, greeting: Arc<Greeting>, context: &Context) -> Result<Next, Error> {
        let people = self.0.in_namespace(&greeting.namespace().unwrap_or_default());
        let family = decide::family(&greeting, people);
        for person in &family {
            if finalizers::state(&**person, FINALIZER) == FinalizerState::Missing {
                let held = finalizers::add(context.client(), &**person, FINALIZER).await?;
                let (type_, note) = (EventType::Normal, "a Greeting is going to name it");
                context.events().publish(&held, type_, "Held", "Hold", note).await;
            }
        }
        let (reason, status) = decide::greet(&greeting, &family, context.now());
        context.apply().status(&*greeting, &status).await?;
        if greeting.status.as_ref().map(|known| &known.message) != Some(&status.message) {
            let (events, type_, note) = (context.events(), decide::severity(reason), &status.message);
            events.publish(&*greeting, type_, reason, "Greet", note).await;
        }
        Ok(Next::OnChange)
    }
}

/// Reconciles people, given the Greetings.
pub struct People(pub Cache<Greeting>);

impl Reconciler for People {
    type Kind = Person;
    type Error = Error;

    async fn reconcile(&self, person: Arc<Person>, context: &Context) -> Result<Next, Error> {
        let greetings = self.0.in_namespace(&person.namespace().unwrap_or_default());
        let held = person.finalizers().iter().any(|name| name == FINALIZER);
        if held && decide::may_go(&person, &greetings) {
            // The write comes back as a change, and the status is for then.
            finalizers::remove(context.client(), &*person, FINALIZER).await?;
            let (type_, note) = (EventType::Normal, "no Greeting refers to it any more");
            let events = context.events();
            events.publish(&*person, type_, "Released", "Release", note).await;
            return Ok(Next::OnChange);
        }
        let status = decide::describe(&person, &greetings, context.now());
        context.apply().status(&*person, &status).await?;
        Ok(Next::OnChange)
    }
}

/// What can go wrong in a reconcile.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The status was not written.
    #[error(transparent)]
    Status(#[from] ApplyError),
    /// A person was not held, or not released.
    #[error("cannot hold or release a person: {0}")]
    Finalizer(#[from] kube::Error),
}

impl ReconcileError for Error {
    fn category(&self) -> &'static str {
        match self {
            Self::Status(error) => error.category(),
            Self::Finalizer(_) => "finalizer",
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::Status(error) => error.retry(),
            // The person has changed or gone meanwhile, which is no fault: look again.
            Self::Finalizer(error) if is_conflict(error) || is_not_found(error) => Retry::Again,
            Self::Finalizer(_) => Retry::BackOff,
        }
    }
}
