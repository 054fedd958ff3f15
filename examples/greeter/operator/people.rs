//! The controller of Person: release everybody whom no Greeting names.

use std::sync::Arc;

use kube::ResourceExt;
use roadstead::runtime::cache::Cache;
use roadstead::runtime::client::is_not_found;
use roadstead::runtime::events::EventType;
use roadstead::runtime::finalizers::{self, FinalizerState};
use roadstead::runtime::reconcile::{Context, Next, Reconciler};

use super::api::{Greeting, Person};
use super::{Error, FINALIZER, decide};

pub struct People(pub Cache<Greeting>);

impl Reconciler for People {
    type Kind = Person;
    type Error = Error;

    async fn reconcile(&self, person: Arc<Person>, context: &Context) -> Result<Next, Error> {
        let greetings = self.0.in_namespace(&person.namespace().unwrap_or_default());
        match finalizers::state(person.as_ref(), FINALIZER) {
            FinalizerState::Released => {}
            // The write comes back as a change; the status is for then.
            FinalizerState::Held | FinalizerState::Deleting if decide::may_go(&person, &greetings) => {
                release(&person, context).await?;
            }
            FinalizerState::Missing | FinalizerState::Held | FinalizerState::Deleting => {
                let status = decide::describe(&person, &greetings, context.now());
                context.apply().status(person.as_ref(), &status).await?;
            }
        }
        Ok(Next::OnChange)
    }
}

async fn release(person: &Person, context: &Context) -> Result<(), Error> {
    match finalizers::remove(context.client(), person, FINALIZER).await {
        Ok(free) => {
            let note = "no Greeting refers to it any more";
            context
                .events()
                .publish(&free, EventType::Normal, "Released", "Release", note)
                .await;
            Ok(())
        }
        Err(error) if is_not_found(&error) => Ok(()),
        Err(error) => Err(Error::Finalizer(person.name_any(), error)),
    }
}
