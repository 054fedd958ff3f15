//! The controller of Greeting: hold everybody whom it is going to name, then name them.

use std::sync::Arc;

use kube::ResourceExt;
use roadstead::runtime::cache::Cache;
use roadstead::runtime::events::EventType;
use roadstead::runtime::finalizers::{self, FinalizerState};
use roadstead::runtime::reconcile::{Context, Next, Reconciler};

use super::api::{Greeting, Person};
use super::{Error, FINALIZER, decide};

pub struct Greetings(pub Cache<Person>);

impl Reconciler for Greetings {
    type Kind = Greeting;
    type Error = Error;

    async fn reconcile(&self, greeting: Arc<Greeting>, context: &Context) -> Result<Next, Error> {
        let people = self.0.in_namespace(&greeting.namespace().unwrap_or_default());
        let family = decide::family(&greeting, people);
        for person in &family {
            if finalizers::state(person.as_ref(), FINALIZER) == FinalizerState::Missing {
                hold(person, &greeting, context).await?;
            }
        }
        let status = decide::greet(&greeting, &family, context.now());
        context.apply().status(greeting.as_ref(), &status).await?;
        if let Some((type_, reason)) = decide::news(&greeting, &status) {
            context
                .events()
                .publish(greeting.as_ref(), type_, reason, "Greet", &status.message)
                .await;
        }
        Ok(Next::OnChange)
    }
}

async fn hold(person: &Person, greeting: &Greeting, context: &Context) -> Result<(), Error> {
    let held = finalizers::add(context.client(), person, FINALIZER).await;
    let held = held.map_err(|error| Error::Finalizer(person.name_any(), error))?;
    let note = format!("Greeting {} is going to name it", greeting.name_any());
    context
        .events()
        .publish(&held, EventType::Normal, "Held", "Hold", &note)
        .await;
    Ok(())
}
