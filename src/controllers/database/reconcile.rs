//! observe, validate, decide, write, ask, status: the one way through.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use tracing::debug;

use super::act::{Means, carry_out};
use super::announce::{Announcement, announcements, tell};
use super::certificates::{OPERATOR_LIFE, operator};
use super::clean_up::clean_up;
use super::decide::{Intent, decide};
use super::desired::{Decided, Owner, Parent, names};
use super::error::Error;
use super::holds::{Holds, under_way};
use super::instances::{Asked, Instances, Survey, Target};
use super::live::Live;
use super::observe::{Caches, Observed, named};
use super::status::{Seen, compute, is_loading_in, is_ready_in};
use super::step::{Course, Step};
use super::switchover::{Wish, wish};
use super::turn::turn;
use super::volumes::{Growth, Volumes};
use super::write::{Applied, write, write_certificates};
use super::{FINALIZER, Settings};
use crate::api::database::agent::settings_hash;
use crate::api::database::v1::Database;
use crate::api::database::{SWITCH_OVER_TO, validate};
use crate::pki::authority::{AUTHORITY_KEY, BUNDLE, Data, Identity};
use crate::runtime::events::EventType;
use crate::runtime::finalizers::{self, FinalizerState};
use crate::runtime::key::ObjectKey;
use crate::runtime::reconcile::{Context, Next, Reconciler};

/// When instances are asked again if nothing changes: while something is amiss, and while all is well.
const AGAIN: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(30));
/// And while instances are brought to where the spec has them.
const SOON: Duration = Duration::from_secs(2);

/// Reconciles databases.
#[derive(Debug)]
pub struct DatabaseReconciler {
    caches: Caches,
    settings: Settings,
    survey: Option<Survey>,
    /// What the operator logs in with at the instances of a database.
    identities: Mutex<HashMap<ObjectKey, Issued>>,
    holds: Holds,
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
            FinalizerState::Deleting => {
                self.holds.gone(&ObjectKey::of(&*database));
                clean_up(&database, &self.caches.observe(&database), context).await
            }
            FinalizerState::Released => Ok(Next::OnChange),
        }
    }

    fn gone(&self, key: &ObjectKey) {
        self.identities().remove(key);
        self.holds.gone(key);
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
            holds: Holds::default(),
            growth: Growth::default(),
        }
    }

    fn identities(&self) -> MutexGuard<'_, HashMap<ObjectKey, Issued>> {
        self.identities.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn bring_about(&self, database: &Database, context: &Context) -> Result<Next, Error> {
        let (observed, now) = (self.caches.observe(database), context.now());
        let valid = validate(database);
        let parent = Parent::of(database).ok_or(Error::NoUid)?;
        let mut applied = Applied::of(&observed, &database.name_any());
        let asked = self.ask(database, &observed, &applied.certificates, now).await;
        let ground = applied.ground();
        let live = ground.live(&observed.pods, &asked, self.survey.is_some());
        let status = database.status.as_ref();
        let seen = status.and_then(|status| status.observed_generation);
        let is_new = seen != database.metadata.generation;
        // Nothing is decided of what nobody carries out: it would be told as if it were so.
        let mut decided = valid
            .as_ref()
            .ok()
            .filter(|valid| !valid.paused)
            .map(|valid| decide(valid, &observed, status, &live, is_new, now));
        let mut volumes = Volumes::default();
        let outcome = match (&valid, &mut decided) {
            (Ok(valid), Some(decided)) => {
                let owner = Owner {
                    database: valid,
                    parent,
                };
                let known = (&mut applied, &mut volumes);
                self.advance((database, &owner), decided, (&observed, &live), known, context)
                    .await
            }
            // Where nothing else is brought about certificates are renewed all the same: in some weeks nobody could follow a primary any more.
            _ if has_certificates(&parent, &observed, &applied) => {
                let (apply, settings) = (context.apply(), &self.settings);
                write_certificates(apply, &parent, settings, &observed, &mut applied, now).await
            }
            _ => Ok(()),
        };
        let intent = match (&valid, &decided) {
            (Err(problems), _) => Intent::Refuse(problems),
            (Ok(valid), Some(decided)) => Intent::CarryOut(valid, decided),
            (Ok(_), None) => Intent::Pause,
        };
        let failure = outcome.as_ref().err();
        // At once: whatever goes wrong from here on, the next reconcile finds nothing to write and so nothing to tell.
        tell(database, context, std::mem::take(&mut applied.announcements)).await;
        if failure.is_some_and(Error::is_of_the_writer) {
            return outcome.map(|()| Next::OnChange);
        }
        let members = decided.as_ref().map_or(i32::MAX, |decided| decided.members);
        let (pods, leaving, asked) = part(&observed.pods, asked, members);
        let after = applied.ground();
        let seen = Seen {
            intent,
            live: Live {
                volumes: &volumes,
                failure,
                ..after.live(&pods, &asked, self.survey.is_some())
            },
            leaving: &leaving,
            cluster_domain: &self.settings.cluster_domain,
        };
        let next = self.say(database, &seen, context).await?;
        outcome.map(|()| next)
    }

    /// Writes the children, then begins what is next with the instances, then with the volumes.
    async fn advance(
        &self,
        (database, owner): (&Database, &Owner<'_>),
        decided: &mut Decided,
        (observed, live): (&Observed, &Live<'_>),
        (applied, volumes): (&mut Applied, &mut Volumes),
        context: &Context,
    ) -> Result<(), Error> {
        let (apply, now) = (context.apply(), context.now());
        let asked = (&self.settings, &*decided);
        let written = write(apply, (database, owner), asked, observed, applied, now).await;
        if written.as_ref().is_err_and(Error::is_of_the_writer) {
            return written;
        }
        // A child that cannot be written keeps nothing back that instances need.
        self.go_on(database, (observed, live), decided, applied, context)
            .await;
        // A StatefulSet that could not be written could not be made anew either.
        written?;
        let seen = (owner.database, &*decided, observed);
        self.growth
            .step(apply, database, seen, applied, volumes, now)
            .await
    }

    /// Begins what is next with the instances, or what somebody wishes.
    async fn go_on(
        &self,
        database: &Database,
        (observed, live): (&Observed, &Live<'_>),
        decided: &mut Decided,
        applied: &mut Applied,
        context: &Context,
    ) {
        let goes_by_present_settings = applied.settings_hash().as_deref() == live.settings;
        let wish = wish(database, live).filter(|_| goes_by_present_settings);
        let step = turn(&mut decided.course, wish.as_ref(), goes_by_present_settings);
        let outcome = match &step {
            Some(step) => Some(self.carry_out(step, database, observed, applied, context).await),
            None => None,
        };
        if let Some(wish) = wish {
            applied.announcements.extend(answered(wish, outcome));
            let taken = context.apply().annotate(database, SWITCH_OVER_TO, None).await;
            if let Err(error) = taken {
                debug!(%error, "cannot take away the annotation");
            }
            return;
        }
        match (step, outcome) {
            (_, Some(Ok(announcement))) => applied.announcements.push(announcement),
            (Some(step), Some(Err(why))) => {
                debug!(why, "not begun");
                decided.course = Course::Retry { step, why };
            }
            (_, _) => {}
        }
    }

    async fn carry_out(
        &self,
        step: &Step,
        database: &Database,
        observed: &Observed,
        applied: &Applied,
        context: &Context,
    ) -> Result<Announcement, String> {
        let identity = self.identity(database, &applied.certificates, context.now());
        let identity = identity.map_err(|error| error.to_string())?;
        let means = Means {
            apply: context.apply(),
            stateful_set: applied.stateful_set.as_deref(),
            survey: self.survey.as_ref(),
            identity: &identity,
            targets: &self.targets(database, observed),
        };
        carry_out(step, means).await
    }

    fn targets(&self, database: &Database, observed: &Observed) -> Vec<Target> {
        let (name, namespace) = (database.name_any(), database.namespace().unwrap_or_default());
        let domain = &self.settings.cluster_domain;
        let host = |pod: &str| names::instance_host(&name, pod, &namespace, domain);
        let pods = observed.pods.iter();
        pods.filter_map(|pod| Target::of(pod, host)).collect()
    }

    /// Writes the status, tells what is new in it, and says when to look again.
    async fn say(&self, database: &Database, seen: &Seen<'_>, context: &Context) -> Result<Next, Error> {
        let status = compute(database, seen, context.now());
        self.holds.keep(
            ObjectKey::of(database),
            under_way(seen, &status),
            context.upgradeable(),
        );
        context.apply().status(database, &status).await?;
        // If the patch did not succeed, these are news still.
        let news = announcements(database.status.as_ref(), &status);
        tell(database, context, news).await;
        let (amiss, well) = AGAIN;
        Ok(Next::After(match seen.intent {
            Intent::CarryOut(_, decided) if decided.course != Course::Done => SOON,
            _ if is_loading_in(&status) => SOON,
            _ if is_ready_in(&status) => well,
            _ => amiss,
        }))
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
        let targets = self.targets(database, observed);
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
                    silent: Duration::ZERO,
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

/// Whether there are instances, and an authority that issues their certificates.
fn has_certificates(parent: &Parent, observed: &Observed, applied: &Applied) -> bool {
    applied.stateful_set.is_some() && named(&observed.secrets, &names::authority(&parent.name)).is_some()
}

/// The pods of those that stay, of those that are to go and count no more, and what the former said.
fn part(pods: &[Arc<Pod>], asked: Vec<Asked>, members: i32) -> (Vec<Arc<Pod>>, Vec<Arc<Pod>>, Vec<Asked>) {
    let stays = |name: &str| names::ordinal(name).is_none_or(|ordinal| ordinal < members);
    let (stay, leave) = pods.iter().cloned().partition(|pod| stays(&pod.name_any()));
    let asked = asked.into_iter().filter(|asked| stays(&asked.pod));
    (stay, leave, asked.collect())
}

/// What is told of a wish, and of what came of carrying it out.
fn answered(wish: Wish, outcome: Option<Result<Announcement, String>>) -> Option<Announcement> {
    let refusal = match (wish, outcome) {
        (Wish::Refused(reason), _) | (_, Some(Err(reason))) => reason,
        (_, Some(Ok(announcement))) => return Some(announcement),
        (_, None) => return None,
    };
    Some(Announcement {
        type_: EventType::Warning,
        reason: "SwitchoverRefused".to_owned(),
        action: "HandOver",
        note: refusal,
    })
}
