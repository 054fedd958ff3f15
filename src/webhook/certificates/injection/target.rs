//! One object that is to lead to the webhook: read, written and watched.

use std::time::Duration;

use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, future};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{GetParams, PostParams};
use kube::core::{PartialObjectMeta, Request};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Resource};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use tokio::time::Instant;
use tracing::{info, warn};

use super::RETRY;
use super::decide::{Configuration, Converter, Definition, Left, Verdict, Wanted};
use super::due::{Step, step};
use crate::telemetry::told::Told;
use crate::webhook::certificates::{RequestFailed, within_deadline};

/// Two replicas that heal at once bring one of them a conflict. So many in a row are no such thing any more, and are told.
const CONFLICTS: u32 = 4;
/// After this time, in seconds, the server ends a watch and it is begun anew.
const WATCH_SECONDS: u32 = 240;

/// One object, and what is known of it from earlier looks.
#[derive(Debug)]
pub(super) struct Target {
    kind: Kind,
    name: String,
    wrong_since: Option<Instant>,
    /// Writes in a row that were refused because somebody else had written.
    conflicts: u32,
    told: Told,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Definition(Converter),
    Validating,
    Mutating,
}

/// What a look brought.
pub(super) enum Outcome {
    /// There is nothing left to do.
    Settled,
    /// There is, at this time.
    Again(Instant),
    /// It is not known, or could not be done.
    Failed,
}

/// How an object is now.
enum State {
    Right,
    Left(Left),
    /// Nothing else is to be done before this time.
    NotYet(Instant),
}

/// Why an object may not be as it should.
#[derive(Debug, thiserror::Error)]
enum InjectionError {
    #[error(transparent)]
    Request(#[from] RequestFailed),
    #[error("it is not as an API server gives it: {0}")]
    Malformed(#[from] serde_json::Error),
    #[error("others wrote it each time that it was to be written")]
    Contended,
}

impl Target {
    pub(super) fn new(kind: Kind, name: String) -> Self {
        Self {
            kind,
            name,
            wrong_since: None,
            conflicts: 0,
            told: Told::default(),
        }
    }

    /// Reads the object, writes what is due, and tells of it.
    pub(super) async fn look(&mut self, client: &Client, wanted: Wanted<'_>, patience: Duration) -> Outcome {
        let settled = self.settle(client, wanted, patience).await;
        let outcome = match &settled {
            Ok(State::NotYet(until)) => Outcome::Again(*until),
            Ok(State::Right | State::Left(_)) => Outcome::Settled,
            Err(_) => Outcome::Failed,
        };
        self.tell(settled);
        outcome
    }

    async fn settle(
        &mut self,
        client: &Client,
        wanted: Wanted<'_>,
        patience: Duration,
    ) -> Result<State, InjectionError> {
        // If it cannot be read, nobody knows that it has been wrong all the time.
        let since = self.wrong_since.take();
        let object: Value = self.get(client).await?;
        let verdict = self.judge(&object, wanted)?;
        let (since, step) = step(since, verdict, Instant::now(), patience);
        self.wrong_since = since;
        let (kind, name) = (self.kind.name(), &self.name);
        match step {
            Step::Rest => {
                self.conflicts = 0;
                Ok(State::Right)
            }
            Step::Leave(left) => {
                self.conflicts = 0;
                Ok(State::Left(left))
            }
            Step::Wait(until) => Ok(State::NotYet(until)),
            Step::Close(patch, heal_at) => match self.put(client, object, &patch).await {
                Ok(()) => {
                    info!(kind, name, "closed the versions that nothing converts now");
                    self.conflicts = 0;
                    Ok(State::NotYet(heal_at))
                }
                Err(error) => self.refused(error),
            },
            Step::Heal(wrong, patch) => match self.put(client, object, &patch).await {
                Ok(()) => {
                    info!(kind, name, wrong, "healed, so that it leads to the webhook");
                    (self.wrong_since, self.conflicts) = (None, 0);
                    Ok(State::Right)
                }
                Err(error) => self.refused(error),
            },
        }
    }

    fn judge(&self, object: &Value, wanted: Wanted<'_>) -> Result<Verdict, serde_json::Error> {
        Ok(match &self.kind {
            Kind::Definition(converter) => wanted.conversion(&Definition::deserialize(object)?, converter),
            Kind::Validating | Kind::Mutating => wanted.configuration(&Configuration::deserialize(object)?),
        })
    }

    /// What follows from a write that failed. After a conflict somebody else's write is to be looked at, soon even if no watch tells of it.
    fn refused(&mut self, error: RequestFailed) -> Result<State, InjectionError> {
        if !error.is_conflict() {
            return Err(error.into());
        }
        self.conflicts = self.conflicts.saturating_add(1);
        if self.conflicts >= CONFLICTS {
            return Err(InjectionError::Contended);
        }
        Ok(State::NotYet(Instant::now() + RETRY.base))
    }

    fn tell(&mut self, settled: Result<State, InjectionError>) {
        let (kind, name) = (self.kind.name(), &self.name);
        match settled {
            Ok(State::NotYet(_)) => {}
            Ok(State::Right) => {
                if self.told.clear() {
                    info!(kind, name, "is as it should be again");
                }
            }
            Ok(State::Left(Left::Stranger(stranger))) => {
                if self.told.note(&stranger) {
                    warn!(
                        kind,
                        name,
                        leads_to = stranger,
                        "does not lead to our webhook; left alone"
                    );
                }
            }
            Ok(State::Left(Left::Injected)) => {
                if self.told.note("injected") {
                    warn!(
                        kind,
                        name,
                        "its CA bundle, which somebody injects, does not vouch for what is served; left alone"
                    );
                }
            }
            Ok(State::Left(Left::KeptClosed(versions))) => {
                if self.told.note(&versions) {
                    warn!(
                        kind,
                        name,
                        versions,
                        "OLM v1 keeps versions closed, as its bundle has them; a bundle that is generated for OLM v1 has them open"
                    );
                }
            }
            Err(error) => {
                let error = error.to_string();
                if self.told.note(&error) {
                    warn!(
                        kind,
                        name, error, "it is not certain that it leads to the webhook"
                    );
                }
            }
        }
    }

    /// Tells of each change of the object, and of each watch that failed.
    pub(super) fn watch(&self, client: Client) -> BoxStream<'static, ()> {
        self.kind.watch(client, &self.name)
    }

    async fn get(&self, client: &Client) -> Result<Value, RequestFailed> {
        let request = async {
            let request = Request::new(self.kind.url_path())
                .get(&self.name, &GetParams::default())
                .map_err(kube::Error::BuildRequest)?;
            client.request(request).await
        };
        within_deadline(&format!("read the {} {}", self.kind.name(), self.name), request).await
    }

    /// Replaces the object by itself with the patch put into it. Not by a patch: whoever may patch a definition looks to OLM's validators like
    /// somebody who may create one.
    async fn put(&self, client: &Client, mut object: Value, patch: &Value) -> Result<(), RequestFailed> {
        json_patch::merge(&mut object, patch);
        let request = async {
            let body = serde_json::to_vec(&object).map_err(kube::Error::SerdeError)?;
            let request = Request::new(self.kind.url_path())
                .replace(&self.name, &PostParams::default(), body)
                .map_err(kube::Error::BuildRequest)?;
            client.request::<IgnoredAny>(request).await.map(drop)
        };
        within_deadline(&format!("write the {} {}", self.kind.name(), self.name), request).await
    }
}

impl Kind {
    fn name(&self) -> &'static str {
        match self {
            Self::Definition(_) => "CustomResourceDefinition",
            Self::Validating => "ValidatingWebhookConfiguration",
            Self::Mutating => "MutatingWebhookConfiguration",
        }
    }

    fn url_path(&self) -> String {
        match self {
            Self::Definition(_) => CustomResourceDefinition::url_path(&(), None),
            Self::Validating => ValidatingWebhookConfiguration::url_path(&(), None),
            Self::Mutating => MutatingWebhookConfiguration::url_path(&(), None),
        }
    }

    fn watch(&self, client: Client, name: &str) -> BoxStream<'static, ()> {
        match self {
            Self::Definition(_) => watch::<CustomResourceDefinition>(client, name),
            Self::Validating => watch::<ValidatingWebhookConfiguration>(client, name),
            Self::Mutating => watch::<MutatingWebhookConfiguration>(client, name),
        }
    }
}

/// Tells when the object of this name has changed. Only metadata is watched: a definition is large, and is read when it is needed.
fn watch<K>(client: Client, name: &str) -> BoxStream<'static, ()>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
{
    let config = watcher::Config::default()
        .fields(&format!("metadata.name={name}"))
        .timeout(WATCH_SECONDS);
    watcher(Api::<PartialObjectMeta<K>>::all(client), config)
        // A list begins, of which nobody knows whether it will be answered: taken for a success, it would end every back-off.
        .try_filter(|event| future::ready(!matches!(event, Event::Init)))
        .default_backoff()
        .map(drop)
        .boxed()
}
