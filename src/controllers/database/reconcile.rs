//! observe, validate, decide, write, ask, status: the one way through.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::{Resource, ResourceExt};
use tracing::debug;

use super::announce::{announcements, tell};
use super::certificates::{OPERATOR_LIFE, operator};
use super::clean_up::clean_up;
use super::decide::{Intent, decide};
use super::desired::{Owner, names};
use super::error::Error;
use super::instances::{Asked, Instances, Survey, Target};
use super::lease::Held;
use super::live::Live;
use super::observe::{Caches, Observed};
use super::status::{Seen, compute, is_ready_in};
use super::volumes::{Growth, Volumes};
use super::write::{Applied, write};
use super::{FINALIZER, Settings};
use crate::api::database::agent::{SETTINGS, settings_hash};
use crate::api::database::v1::Database;
use crate::api::database::validate;
use crate::pki::authority::{AUTHORITY_KEY, BUNDLE, Data, Identity};
use crate::runtime::finalizers::{self, FinalizerState};
use crate::runtime::key::ObjectKey;
use crate::runtime::reconcile::{Context, Next, Reconciler};

/// When instances are asked again if nothing changes: while something is amiss, and while all is well.
const AGAIN: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(30));

/// Reconciles databases.
#[derive(Debug)]
pub struct DatabaseReconciler {
    caches: Caches,
    settings: Settings,
    survey: Option<Survey>,
    /// What the operator logs in with at the instances of a database.
    identities: Mutex<HashMap<ObjectKey, Issued>>,
    growth: Growth,
}

/// An identity, by whom and when it was issued.
#[derive(Clone, Debug)]
struct Issued {
    /// In short: the authority's key is not kept twice.
    by: String,
    at: Timestamp,
    identity: Arc<Identity>,
}

impl Reconciler for DatabaseReconciler {
    type Kind = Database;
    type Error = Error;

    async fn reconcile(&self, database: Arc<Database>, context: &Context) -> Result<Next, Error> {
        match finalizers::state(&*database, FINALIZER) {
            // The write comes back as a change, and that is when work begins.
            FinalizerState::Missing => {
                let added = finalizers::add(context.client(), &*database, FINALIZER).await;
                added.map(|_| Next::OnChange).map_err(Error::Finalizer)
            }
            FinalizerState::Held => self.bring_about(&database, context).await,
            FinalizerState::Deleting => clean_up(&database, &self.caches.observe(&database), context).await,
            FinalizerState::Released => Ok(Next::OnChange),
        }
    }

    fn gone(&self, key: &ObjectKey) {
        self.identities().remove(key);
        self.growth.forget(key);
    }
}

impl DatabaseReconciler {
    /// A reconciler that reads these caches and, if it is given any, asks these instances.
    pub fn new(caches: Caches, settings: Settings, instances: Option<Arc<dyn Instances>>) -> Self {
        Self {
            caches,
            settings,
            survey: instances.map(Survey::new),
            identities: Mutex::default(),
            growth: Growth::default(),
        }
    }

    fn identities(&self) -> MutexGuard<'_, HashMap<ObjectKey, Issued>> {
        self.identities.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn bring_about(&self, database: &Database, context: &Context) -> Result<Next, Error> {
        let (observed, now) = (self.caches.observe(database), context.now());
        let valid = validate(database);
        let reference = database.controller_owner_ref(&()).ok_or(Error::NoUid)?;
        let decided = valid
            .as_ref()
            .ok()
            .map(|valid| decide(valid, &observed, database.status.as_ref()));
        let intent = match (&valid, &decided) {
            (Err(problems), _) => Intent::Refuse(problems),
            (Ok(valid), Some(decided)) if !valid.paused => Intent::CarryOut(valid, decided),
            (Ok(valid), _) => Intent::Pause(valid),
        };
        let mut applied = Applied::of(&observed, &database.name_any());
        let mut volumes = Volumes::default();
        let mut outcome = match intent {
            Intent::CarryOut(valid, decided) => {
                let owner = Owner {
                    database: valid,
                    reference,
                };
                let asked = (&self.settings, decided);
                write(
                    context.apply(),
                    (database, &owner),
                    asked,
                    &observed,
                    &mut applied,
                    now,
                )
                .await
            }
            Intent::Refuse(_) | Intent::Pause(_) => Ok(()),
        };
        if let (Intent::CarryOut(valid, decided), Ok(())) = (intent, &outcome) {
            let seen = (valid, decided, &observed);
            outcome = self
                .growth
                .step(context.apply(), database, seen, &mut applied, &mut volumes, now)
                .await;
        }
        let failure = outcome.as_ref().err();
        // At once: whatever goes wrong from here on, the next reconcile finds nothing to write and so nothing to tell.
        tell(database, context, std::mem::take(&mut applied.announcements)).await;
        if failure.is_some_and(Error::is_of_the_writer) {
            return outcome.map(|()| Next::OnChange);
        }
        let asked = self.ask(database, &observed, &applied.certificates, now).await;
        let lease = applied.lease.as_deref().map(Held::of).unwrap_or_default();
        let file = applied
            .settings
            .as_ref()
            .and_then(|told| told.data.as_ref()?.get(SETTINGS));
        let settings = file.map(settings_hash);
        let seen = Seen {
            intent,
            live: Live {
                stateful_set: applied.stateful_set.as_deref(),
                pods: &observed.pods,
                lease: &lease,
                asked: &asked,
                asks: self.survey.is_some(),
                settings: settings.as_deref(),
                volumes: &volumes,
                failure,
            },
            cluster_domain: &self.settings.cluster_domain,
        };
        let next = say(database, &seen, context).await?;
        outcome.map(|()| next)
    }

    /// What the instances say whose pods run.
    async fn ask(
        &self,
        database: &Database,
        observed: &Observed,
        certificates: &Data,
        now: Timestamp,
    ) -> Vec<Asked> {
        let Some(survey) = &self.survey else {
            return Vec::new();
        };
        let (name, namespace) = (database.name_any(), database.namespace().unwrap_or_default());
        let domain = &self.settings.cluster_domain;
        let host = |pod: &str| names::instance_host(&name, pod, &namespace, domain);
        let pods = observed.pods.iter();
        let targets: Vec<_> = pods.filter_map(|pod| Target::of(pod, host)).collect();
        if targets.is_empty() {
            return Vec::new();
        }
        match self.identity(database, certificates, now) {
            Ok(identity) => survey.ask(&identity, targets).await,
            Err(error) => {
                debug!(%error, "instances cannot be asked");
                let silent = |target: Target| Asked {
                    pod: target.pod,
                    answer: Err(error.to_string()),
                };
                targets.into_iter().map(silent).collect()
            }
        }
    }

    /// Issued anew for another authority, and when half of its life is over.
    fn identity(
        &self,
        database: &Database,
        certificates: &Data,
        now: Timestamp,
    ) -> Result<Arc<Identity>, Error> {
        let key = ObjectKey::of(database);
        let of = |key: &str| certificates.get(key).map_or(&[][..], |value| &value.0);
        let by = settings_hash([of(BUNDLE), of(AUTHORITY_KEY)].concat());
        let age = |issued: &Issued| now.duration_since(issued.at);
        let is_good = |issued: &&Issued| {
            issued.by == by && (SignedDuration::ZERO..OPERATOR_LIFE / 2).contains(&age(issued))
        };
        if let Some(issued) = self.identities().get(&key).filter(is_good) {
            return Ok(Arc::clone(&issued.identity));
        }
        let identity = Arc::new(operator(certificates, now)?);
        let issued = Issued {
            by,
            at: now,
            identity: Arc::clone(&identity),
        };
        self.identities().insert(key, issued);
        Ok(identity)
    }
}

/// Writes the status, tells what is new in it, and says when to look again.
async fn say(database: &Database, seen: &Seen<'_>, context: &Context) -> Result<Next, Error> {
    let status = compute(database, seen, context.now());
    context.apply().status(database, &status).await?;
    // If the patch did not succeed, these are news still.
    tell(
        database,
        context,
        announcements(database.status.as_ref(), &status),
    )
    .await;
    let (amiss, well) = AGAIN;
    Ok(Next::After(if is_ready_in(&status) { well } else { amiss }))
}
