//! Moves stored objects to the version in which their definition says that they are stored.
//!
//! A CustomResourceDefinition names one version for what is written from now on. What was written before stays as it was, and is converted whenever
//! it is read, until somebody writes it again; `status.storedVersions` remembers that there may be such objects. A version in there can
//! never be removed from the definition, and OLM refuses an update that would.
//!
//! Whoever leads reads every object and writes it back as it was read: the API server stores it anew only if it was stored in another version. Then
//! the other versions are struck from `status.storedVersions`. All of that goes by one spec of the definition, the one that has settled: what is read
//! is written only if that spec is still there, so nothing is written that was read while nobody converted, and a stored version that is turned
//! around has it all begin again. Nothing is remembered: a pass that was cut off is repeated, and what has been moved is not written a second time.
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

pub use definition::{Conversion, Definition};

use self::definition::{Outdated, Spelled};
use self::objects::Objects;
use super::cache::Watch;
use super::client::is_conflict;
use super::controller::{Controller, ControllerOptions};
use super::key::ObjectKey;
use super::manager::Manager;
use super::reconcile::{Context, Next, Reconciler};
use super::retry::{ReconcileError, Retry};
use super::upgradeable::{Hold, Upgradeable};

/// What the controller is called in metrics, with the plural of the definition behind it.
const NAME: &str = "storagemigration";
/// One pass over all objects takes this long at most.
const LIMIT: Duration = Duration::from_secs(30 * 60);
/// Updates are to be held back before the first object is moved, but it is no harm if they are not.
const HELD: Duration = Duration::from_secs(5);
/// Objects that were refused may be let through after this time. Each attempt asks for all of them.
const LEFT: Duration = Duration::from_secs(5 * 60);

/// How objects are moved.
#[derive(Clone, Copy, Debug)]
pub struct MigrationOptions {
    /// Who converts them.
    pub conversion: Conversion,
    /// For so long after a change of the definition nothing is moved: each API server learns of the change by itself, and until then stores in the
    /// version that it knows, and converts as it knows.
    pub settles: Duration,
}

impl MigrationOptions {
    /// 10 s after a change.
    pub fn new(conversion: Conversion) -> Self {
        Self {
            conversion,
            settles: Duration::from_secs(10),
        }
    }
}

/// Moves the stored objects of these definitions, `PLURAL.GROUP`, while this process leads.
///
/// It needs the rights to `get`, `list` and `watch` the definitions by name, to `update` `customresourcedefinitions/status`, and to `get`, `list`
/// and `update` their objects in all namespaces, whichever ones the manager watches: a definition is the whole cluster's.
pub fn register(manager: &mut Manager, definitions: &[String], options: MigrationOptions) {
    let of_controller = ControllerOptions {
        concurrency: 1,
        timeout: LIMIT,
        ..ControllerOptions::default()
    };
    for definition in definitions {
        let watch = Watch::all().fields(format!("metadata.name={definition}"));
        let cache = manager.cache::<Definition>(watch);
        let plural = definition.split('.').next().unwrap_or(definition);
        let name = format!("{NAME}-{plural}");
        let controller = Controller::new(name, &cache, StorageMigration::new(options));
        manager.add(controller.options(of_controller));
    }
}

/// Reconciles a definition's `status.storedVersions`.
#[derive(Debug)]
pub struct StorageMigration {
    options: MigrationOptions,
    /// What is to be moved by which definition.
    under_way: Mutex<HashMap<ObjectKey, UnderWay>>,
}

/// Objects are to be moved.
#[derive(Debug)]
struct UnderWay {
    /// How the definition is spelled, and since when this process has seen it so.
    spelled: Spelled,
    since: Instant,
    hold: Arc<Hold>,
}

impl Reconciler for StorageMigration {
    type Kind = Definition;
    type Error = Error;

    async fn reconcile(&self, definition: Arc<Definition>, context: &Context) -> Result<Next, Error> {
        let Some(outdated) = definition.outdated(self.options.conversion) else {
            self.gone(&ObjectKey::of(&*definition));
            return Ok(Next::OnChange);
        };
        let (wait, hold) = self.settle(&definition, &outdated, context.upgradeable(), Instant::now());
        if !wait.is_zero() {
            return Ok(Next::After(wait));
        }
        if let Err(error) = hold.written(HELD).await {
            let definition = definition.name_any();
            warn!(definition, %error, "objects are moved, though an update may come meanwhile");
        }
        migrate(&definition, &outdated, context.client()).await?;
        Ok(Next::OnChange)
    }

    fn gone(&self, key: &ObjectKey) {
        self.under_way().remove(key);
    }
}

impl StorageMigration {
    fn new(options: MigrationOptions) -> Self {
        Self {
            options,
            under_way: Mutex::default(),
        }
    }

    /// For how long API servers may still go by an earlier definition, and what holds updates back until all is moved, however often it is tried.
    fn settle(
        &self,
        definition: &Definition,
        outdated: &Outdated,
        upgradeable: &Upgradeable,
        now: Instant,
    ) -> (Duration, Arc<Hold>) {
        let mut all = self.under_way();
        let spelled = definition.spelled();
        let under_way = all.entry(ObjectKey::of(definition)).or_insert_with(|| {
            let message = format!(
                "the objects of {} are moved to {}",
                definition.name_any(),
                outdated.stored
            );
            UnderWay {
                spelled: spelled.clone(),
                since: now,
                hold: Arc::new(upgradeable.hold("StorageMigration", &message, LIMIT)),
            }
        });
        if under_way.spelled != spelled {
            (under_way.spelled, under_way.since) = (spelled, now);
        }
        let wait = self
            .options
            .settles
            .saturating_sub(now.duration_since(under_way.since));
        (wait, Arc::clone(&under_way.hold))
    }

    fn under_way(&self) -> MutexGuard<'_, HashMap<ObjectKey, UnderWay>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Moves all objects, and says so in the definition, as long as it is spelled so.
async fn migrate(definition: &Definition, outdated: &Outdated, client: &Client) -> Result<(), Error> {
    let (name, started) = (definition.name_any(), Instant::now());
    info!(definition = name, to = outdated.stored, from = ?outdated.others, "moving stored objects");
    let looked_at = Objects::of(definition, &outdated.stored, client)
        .move_all()
        .await?;
    definition.strike(outdated, client).await?;
    info!(
        definition = name,
        to = outdated.stored,
        looked_at,
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
    /// Somebody wrote the definition meanwhile.
    #[error("the definition {0} has changed meanwhile")]
    Changed(String),
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

/// Whether the object itself was refused. Anything else passes: a webhook whose pods start again, a version that is not served yet, an API server that is busy.
fn is_judged(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 400 | 403 | 413 | 422))
}

impl ReconcileError for Error {
    fn category(&self) -> &'static str {
        match self {
            Self::Request { .. } => "request",
            Self::Changed(_) => "changed",
            Self::Left { .. } => "left",
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::Changed(_) => Retry::Again,
            Self::Request { source, .. } if is_conflict(source) => Retry::Again,
            Self::Request { .. } => Retry::BackOff,
            Self::Left { source, .. } if is_judged(source) => Retry::After(LEFT),
            Self::Left { .. } => Retry::BackOff,
        }
    }
}
