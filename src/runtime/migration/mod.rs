//! Moves stored objects to the version in which their definition says that they are stored.
//!
//! A CustomResourceDefinition names one version for what is written from now on. What was written before stays as it was, and is converted whenever
//! it is read, until somebody writes it again; `status.storedVersions` remembers that there may be such objects. A version in there can
//! never be removed from the definition, and OLM refuses an update that would.
//!
//! Whoever leads writes every object once, by a patch that changes nothing: the API server stores it anew only if it was stored in another version.
//! Then it strikes the other versions from `status.storedVersions`. That write carries the `resourceVersion` that the definition had before the first
//! object was looked at, so a change of the stored version meanwhile has it all begin again. Nothing is remembered: a pass that was cut off is
//! repeated, and what has been moved is not written a second time.
//!
//! It works in both directions, so that whoever goes back to a version of the operator that stores the earlier one ends with one version, too.

mod definition;
mod objects;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::{Client, ResourceExt};
use tokio::time::Instant;
use tracing::{info, warn};

pub use definition::Definition;

use self::definition::{Outdated, Written};
use self::objects::Objects;
use super::cache::Watch;
use super::client::is_conflict;
use super::controller::{Controller, ControllerOptions};
use super::key::ObjectKey;
use super::manager::Manager;
use super::reconcile::{Context, Next, Reconciler};
use super::retry::{ReconcileError, Retry};

/// What the controller is called in metrics, with the plural of the definition behind it.
const NAME: &str = "storagemigration";
/// For so long after a change of the stored version nothing is moved: each API server learns of the change by itself, and until then stores what is
/// written to it in the other version.
const SETTLES: Duration = Duration::from_secs(10);
/// One pass over all objects takes this long at most. At 50 objects a second that is enough for 90,000.
const LIMIT: Duration = Duration::from_secs(30 * 60);
/// Updates are to be held back before the first object is moved, but it is no harm if they are not.
const HELD: Duration = Duration::from_secs(5);

/// Moves the stored objects of these definitions, `PLURAL.GROUP`, while this process leads.
///
/// It needs the rights to `get`, `list` and `watch` the definitions by name, to `update` `customresourcedefinitions/status`, and to `list` and `patch`
/// their objects in all namespaces, whichever ones the manager watches: a definition is the whole cluster's.
pub fn register(manager: &mut Manager, definitions: &[String]) {
    for definition in definitions {
        let watch = Watch::all().fields(format!("metadata.name={definition}"));
        let cache = manager.cache::<Definition>(watch);
        let options = ControllerOptions {
            concurrency: 1,
            timeout: LIMIT,
            ..ControllerOptions::default()
        };
        let plural = definition.split('.').next().unwrap_or(definition);
        let name = format!("{NAME}-{plural}");
        manager.add(Controller::new(name, &cache, StorageMigration::default()).options(options));
    }
}

/// Reconciles a definition's `status.storedVersions`.
#[derive(Debug, Default)]
pub struct StorageMigration {
    /// In which version objects have been stored since when, as far as this process has seen it.
    stored: Mutex<HashMap<ObjectKey, (String, Instant)>>,
}

impl Reconciler for StorageMigration {
    type Kind = Definition;
    type Error = Error;

    async fn reconcile(&self, definition: Arc<Definition>, context: &Context) -> Result<Next, Error> {
        let Some(outdated) = definition.outdated() else {
            self.gone(&ObjectKey::of(&*definition));
            return Ok(Next::OnChange);
        };
        if let Some(wait) = self.settles(&ObjectKey::of(&*definition), &outdated, Instant::now()) {
            return Ok(Next::After(wait));
        }
        let name = definition.name_any();
        let message = format!("the objects of {name} are moved to {}", outdated.stored);
        let hold = context.upgradeable().hold("StorageMigration", &message, LIMIT);
        if let Err(error) = hold.written(HELD).await {
            warn!(definition = name, %error, "objects are moved, though an update may come meanwhile");
        }
        migrate(&name, context.client()).await?;
        Ok(Next::OnChange)
    }

    fn gone(&self, key: &ObjectKey) {
        self.stored().remove(key);
    }
}

impl StorageMigration {
    /// For how long every API server may still have to learn in which version objects are stored.
    fn settles(&self, key: &ObjectKey, outdated: &Outdated, now: Instant) -> Option<Duration> {
        let mut stored = self.stored();
        let known = stored.get(key).filter(|(version, _)| *version == outdated.stored);
        let since = known.map_or(now, |(_, since)| *since);
        stored.insert(key.clone(), (outdated.stored.clone(), since));
        let wait = SETTLES.saturating_sub(now.duration_since(since));
        (!wait.is_zero()).then_some(wait)
    }

    fn stored(&self) -> MutexGuard<'_, HashMap<ObjectKey, (String, Instant)>> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Moves all objects, and says so in the definition, if its stored version is the same all the time.
async fn migrate(name: &str, client: &Client) -> Result<(), Error> {
    let before = Written::read(client, name).await?;
    let Some(outdated) = before.definition()?.outdated() else {
        return Ok(());
    };
    let started = Instant::now();
    info!(definition = name, to = outdated.stored, from = ?outdated.others, "moving stored objects");
    let moved = Objects::of(&before.definition()?, &outdated.stored, client)
        .touch_all()
        .await?;
    before.strike(client, &outdated).await?;
    info!(
        definition = name,
        to = outdated.stored,
        objects = moved,
        seconds = started.elapsed().as_secs(),
        "every stored object is of one version"
    );
    Ok(())
}

/// Why objects are not all of one version yet.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server did not do what was asked.
    #[error("cannot {what}: {source}")]
    Request {
        /// What was asked.
        what: String,
        /// Its answer.
        #[source]
        source: Box<kube::Error>,
    },
    /// The definition is not as an API server gives it.
    #[error("{name} is not as an API server gives it: {source}")]
    Malformed {
        /// Which one.
        name: String,
        /// What is wrong.
        #[source]
        source: serde_json::Error,
    },
    /// These were not moved.
    #[error("objects that could not be moved: {count}, the first of them {first}: {source}")]
    Left {
        /// How many.
        count: usize,
        /// Namespace and name of one.
        first: ObjectKey,
        /// What was said of it.
        #[source]
        source: Box<kube::Error>,
    },
}

impl Error {
    fn request(what: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let what = what.into();
        move |source| Self::Request {
            what,
            source: Box::new(source),
        }
    }
}

impl ReconcileError for Error {
    fn category(&self) -> &'static str {
        match self {
            Self::Request { .. } => "request",
            Self::Malformed { .. } => "malformed",
            Self::Left { .. } => "left",
        }
    }

    fn retry(&self) -> Retry {
        match self {
            // Somebody else wrote the definition, or the list took too long to be continued.
            Self::Request { source, .. } if is_conflict(source) || is_expired(source) => Retry::Again,
            Self::Request { .. } | Self::Left { .. } => Retry::BackOff,
            Self::Malformed { .. } => Retry::OnChange,
        }
    }
}

fn is_expired(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 410)
}
