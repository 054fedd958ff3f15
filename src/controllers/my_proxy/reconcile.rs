//! observe, validate, plan, write, ask, status: the one way through.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Resource, ResourceExt};

use super::agents::{Agents, Survey};
use super::announce::{announcements, tell};
use super::clean_up::clean_up;
use super::desired::Owner;
use super::desired::names::is_proxy;
use super::desired::unit::Unit;
use super::error::Error;
use super::live::Live;
use super::loaded::{Loaded, judge};
use super::observe::{Caches, Observed, named};
use super::plan::{Intent, Plan, plan};
use super::status::{Seen, compute, knows_of_silence};
use super::write::{Applied, write};
use super::{FINALIZER, Settings};
use crate::api::my_proxy::agent::config_hash;
use crate::api::my_proxy::{MyProxy, validate};
use crate::runtime::apply::ApplyError;
use crate::runtime::finalizers::{self, FinalizerState};
use crate::runtime::key::ObjectKey;
use crate::runtime::reconcile::{Context, Next, Reconciler};

/// How long until pods are marked that could not be.
const MARK_AGAIN: Duration = Duration::from_secs(15);

/// Reconciles proxies.
#[derive(Debug)]
pub struct MyProxyReconciler {
    caches: Caches,
    settings: Settings,
    survey: Option<Survey>,
    /// Since when the pods of a proxy have been loading.
    loading: Mutex<HashMap<ObjectKey, Timestamp>>,
}

impl Reconciler for MyProxyReconciler {
    type Kind = MyProxy;
    type Error = Error;

    async fn reconcile(&self, proxy: Arc<MyProxy>, context: &Context) -> Result<Next, Error> {
        match finalizers::state(&*proxy, FINALIZER) {
            // The write comes back as a change, and that is when work begins.
            FinalizerState::Missing => {
                let added = finalizers::add(context.client(), &*proxy, FINALIZER).await;
                added.map(|_| Next::OnChange).map_err(Error::Finalizer)
            }
            FinalizerState::Held => self.bring_about(&proxy, context).await,
            FinalizerState::Deleting => clean_up(&proxy, &self.caches.observe(&proxy), context).await,
            FinalizerState::Released => Ok(Next::OnChange),
        }
    }

    fn gone(&self, key: &ObjectKey) {
        self.loading().remove(key);
    }
}

impl MyProxyReconciler {
    /// A reconciler that reads these caches and, if it is given any, asks these agents.
    pub fn new(caches: Caches, settings: Settings, agents: Option<Arc<dyn Agents>>) -> Self {
        Self {
            caches,
            settings,
            survey: agents.map(Survey::new),
            loading: Mutex::default(),
        }
    }

    fn loading(&self) -> MutexGuard<'_, HashMap<ObjectKey, Timestamp>> {
        self.loading.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn bring_about(&self, proxy: &MyProxy, context: &Context) -> Result<Next, Error> {
        let observed = self.caches.observe(proxy);
        let valid = validate(proxy);
        let reference = proxy.controller_owner_ref(&()).ok_or(Error::NoUid)?;
        let planned = valid.as_ref().ok().map(|valid| {
            let owner = Owner {
                proxy: valid,
                reference,
            };
            plan(&owner, &observed, &self.settings, context.now())
        });
        let intent = match (&valid, &planned) {
            (Err(problems), _) => Intent::Refuse(problems),
            (Ok(valid), Some(plan)) if !valid.paused => Intent::CarryOut(plan),
            _ => Intent::Pause,
        };
        let mut applied = Applied {
            deployment: current(proxy, &observed).cloned(),
            ..Applied::default()
        };
        let outcome = match intent.plan() {
            Some(plan) => write(context.apply(), proxy, plan, &observed, &mut applied).await,
            None => Ok(()),
        };
        let failure = outcome.as_ref().err();
        // At once: whatever goes wrong from here on, the next reconcile finds nothing to write and so nothing to tell.
        tell(proxy, context, applied.announcements).await;
        // Whoever may not write, or knows too little, has nothing to say of the whole.
        if let Some(ApplyError::Fenced { .. } | ApplyError::Conflict { .. }) = failure {
            return outcome.map(|()| Next::OnChange).map_err(Error::from);
        }
        let deployment = applied.deployment.as_deref();
        let live = Live {
            deployment,
            earlier: &earlier(&observed, deployment),
            pods: &observed.pods,
            failure,
        };
        let loaded = self.loaded(intent.plan(), &observed, &live).await;
        let loading_since = self.loading_since(proxy, &loaded, context.now());
        let given_up = knows_of_silence(proxy);
        let seen = Seen {
            intent,
            live,
            loaded: &loaded.without_the_lost(given_up, loading_since, context.now()),
            loading_since,
        };
        say(proxy, &seen, context).await?;
        let next = next(proxy, &seen, applied.unmarked, context.now());
        outcome.map(|()| next).map_err(Error::from)
    }

    /// What the pods serve, from the agents of those that are to be asked. While nothing is carried out, that is what they were given last.
    async fn loaded(&self, plan: Option<&Plan>, observed: &Observed, live: &Live<'_>) -> Loaded {
        let (Some(survey), Some((pods, targets))) = (&self.survey, live.to_ask()) else {
            return Loaded::NotAsked;
        };
        let active = match plan {
            Some(plan) => plan.active.clone(),
            None => mounted(observed),
        };
        match active {
            Some(unit) => judge(&config_hash(&unit.config), pods, &survey.ask(targets).await),
            None => Loaded::NothingToServe,
        }
    }

    fn loading_since(&self, proxy: &MyProxy, loaded: &Loaded, now: Timestamp) -> Timestamp {
        let key = ObjectKey::of(proxy);
        let mut loading = self.loading();
        match loaded {
            Loaded::Loading { .. } => *loading.entry(key).or_insert(now),
            _ => {
                loading.remove(&key);
                now
            }
        }
    }
}

/// What is mounted into the pods that proxy.
fn mounted(observed: &Observed) -> Option<Unit> {
    let mut config_maps = observed.config_maps.iter();
    Unit::read(config_maps.find(|config_map| is_proxy(&***config_map))?)
}

/// Writes the status, and tells what is new in it.
async fn say(proxy: &MyProxy, seen: &Seen<'_>, context: &Context) -> Result<(), ApplyError> {
    let status = compute(proxy, seen, context.now());
    context.apply().status(proxy, &status).await?;
    // If the patch did not succeed, these are news still.
    let before = proxy.status.as_ref().map(|status| status.conditions.as_slice());
    let news = announcements(before.unwrap_or_default(), &status.conditions);
    tell(proxy, context, news).await;
    Ok(())
}

/// When to look again, if nothing changes.
fn next(proxy: &MyProxy, seen: &Seen<'_>, unmarked: bool, now: Timestamp) -> Next {
    let verdict = seen.intent.plan().and_then(|plan| plan.verdict.wake());
    let certificate = proxy.spec.tls.is_some();
    let waits = [
        verdict.map(|wake| until(wake, now)),
        seen.loaded.ask_again(certificate, seen.loading_since, now),
        unmarked.then_some(MARK_AGAIN),
    ];
    let first = waits.into_iter().flatten().min();
    first.map_or(Next::OnChange, Next::After)
}

/// From now until then, and a moment more, so that the time has come when it is looked at.
fn until(then: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or_default() + Duration::from_secs(1)
}

/// The Deployment that the proxy means, or the one that it has: after a change of name, until there is one of the new name.
fn current<'a>(proxy: &MyProxy, observed: &'a Observed) -> Option<&'a Arc<Deployment>> {
    let wanted = proxy.spec.deployment_name.clone();
    let name = wanted.unwrap_or_else(|| proxy.name_any());
    named(&observed.deployments, &name).or_else(|| observed.deployments.first())
}

/// The Deployments of earlier names.
fn earlier(observed: &Observed, present: Option<&Deployment>) -> Vec<Arc<Deployment>> {
    let present = present.map(ResourceExt::name_any);
    let mut deployments = observed.deployments.clone();
    deployments.retain(|deployment| Some(deployment.name_any()) != present);
    deployments
}
