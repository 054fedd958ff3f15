//! observe, validate, ask, decide, write, status: the one way through, for a kind of which more than the status depends on what its operands say.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;
use tracing::debug;

use super::act::{Means, carry_out};
use super::announce::{Announcement, announcements, tell};
use super::certificates::Identities;
use super::clean_up::clean_up;
use super::decide::{Intent, decide};
use super::desired::{Decided, Owner, Parent, names};
use super::error::Error;
use super::holds::{Holds, under_way};
use super::instances::{Asked, Instances, Survey, Target};
use super::live::{Live, part};
use super::observe::{Caches, Observed};
use super::status::{Seen, compute, is_loading_in, is_ready_in};
use super::step::{Course, Step};
use super::switchover::{answered, wish};
use super::turn::turn;
use super::volumes::{Growth, Volumes};
use super::write::{Applied, write, write_certificates};
use super::{FINALIZER, Settings};
use crate::api::database::v1::Database;
use crate::api::database::{SWITCH_OVER_TO, validate};
use crate::pki::authority::Data;
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
    identities: Identities,
    holds: Holds,
    growth: Growth,
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
        self.identities.forget(key);
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
            identities: Identities::default(),
            holds: Holds::default(),
            growth: Growth::default(),
        }
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
        let carried_out = valid.as_ref().ok().filter(|valid| !valid.paused);
        let mut decided = carried_out.map(|valid| decide(valid, &observed, status, &live, is_new, now));
        let outcome = match (&valid, &mut decided) {
            (Ok(valid), Some(decided)) => {
                let owner = Owner {
                    object: database,
                    database: valid,
                    parent,
                };
                self.advance(&owner, decided, &observed, &live, &mut applied, context)
                    .await
            }
            // Where nothing else is brought about certificates are renewed all the same: in some weeks nobody could follow a primary any more.
            _ if applied.has_certificates(&parent, &observed) => {
                let (apply, settings) = (context.apply(), &self.settings);
                let written =
                    write_certificates(apply, &parent, settings, &observed, &mut applied, now).await;
                written.map(|()| Volumes::default())
            }
            _ => Ok(Volumes::default()),
        };
        let (volumes, failure) = match outcome {
            Ok(volumes) => (volumes, None),
            Err(error) => (Volumes::default(), Some(error)),
        };
        // At once: whatever goes wrong from here on, the next reconcile finds nothing to write and so nothing to tell.
        tell(database, context, std::mem::take(&mut applied.announcements)).await;
        let failure = match failure {
            Some(error) if error.is_of_the_writer() => return Err(error),
            failure => failure,
        };
        let members = decided.as_ref().map_or(i32::MAX, |decided| decided.members);
        let (pods, leaving, asked) = part(&observed.pods, asked, members);
        let after = applied.ground();
        let seen = Seen {
            intent: match (&valid, &decided) {
                (Err(problems), _) => Intent::Refuse(problems),
                (Ok(valid), Some(decided)) => Intent::CarryOut(valid, decided),
                (Ok(_), None) => Intent::Pause,
            },
            live: Live {
                volumes: &volumes,
                failure: failure.as_ref(),
                ..after.live(&pods, &asked, self.survey.is_some())
            },
            leaving: &leaving,
            cluster_domain: &self.settings.cluster_domain,
        };
        let next = self.say(database, &seen, context).await?;
        failure.map_or(Ok(next), Err)
    }

    /// Writes the children, then begins what is next with the instances, then with the volumes, of which it says what has become.
    async fn advance(
        &self,
        owner: &Owner<'_>,
        decided: &mut Decided,
        observed: &Observed,
        live: &Live<'_>,
        applied: &mut Applied,
        context: &Context,
    ) -> Result<Volumes, Error> {
        let (apply, now) = (context.apply(), context.now());
        let written = match write(apply, owner, &self.settings, decided, observed, applied, now).await {
            Err(error) if error.is_of_the_writer() => return Err(error),
            written => written,
        };
        // A child that cannot be written keeps nothing back that instances need.
        self.go_on(owner, decided, observed, live, applied, context).await;
        // A StatefulSet that could not be written could not be made anew either.
        written?;
        let growth = &self.growth;
        growth.step(apply, owner, decided, observed, applied, now).await
    }

    /// Begins what is next with the instances, or what somebody wishes.
    async fn go_on(
        &self,
        owner: &Owner<'_>,
        decided: &mut Decided,
        observed: &Observed,
        live: &Live<'_>,
        applied: &mut Applied,
        context: &Context,
    ) {
        let database = owner.object;
        let goes_by_present_settings = applied.settings_hash().as_deref() == live.settings;
        let wish = wish(database, owner.database.instances, live).filter(|_| goes_by_present_settings);
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
        let (key, now) = (ObjectKey::of(database), context.now());
        let identity = self.identities.of(key, &applied.certificates, now);
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
        match self.identities.of(ObjectKey::of(database), certificates, now) {
            Ok(identity) => survey.ask(&identity, targets).await,
            Err(error) => {
                debug!(%error, "instances cannot be asked");
                let in_vain = |target| Asked::in_vain(target, &error.to_string());
                targets.into_iter().map(in_vain).collect()
            }
        }
    }
}
