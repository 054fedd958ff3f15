//! observe, validate, plan, apply, status: the one way through.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::{Resource, ResourceExt};

use super::Settings;
use super::agents::{Agents, ask};
use super::announce::{Announcement, announcements};
use super::desired::unit::KEY;
use super::desired::{Owner, Resources};
use super::loaded::{Loaded, judge};
use super::observe::{Caches, Observed, named};
use super::plan::{Plan, plan};
use super::status::{DELETING, Seen, UP_TO_DATE, compute, deleting, to_ask};
use crate::api::my_proxy::agent::config_hash;
use crate::api::my_proxy::{MyProxy, MyProxyStatus, validate};
use crate::runtime::apply::{Applier, ApplyError, Outcome};
use crate::runtime::client::is_not_found;
use crate::runtime::events::EventType;
use crate::runtime::finalizers::{self, FinalizerState};
use crate::runtime::reconcile::{Context, Next, Reconciler};
use crate::runtime::retry::{ReconcileError, Retry};

/// Keeps a proxy until its children are gone.
pub const FINALIZER: &str = "roadstead.dev/cleanup";
/// What the garbage collector puts on an object whose children are to stay.
const ORPHAN: &str = "orphan";

/// Reconciles proxies.
#[derive(Clone, Debug)]
pub struct MyProxyReconciler {
    caches: Caches,
    settings: Settings,
    agents: Option<Arc<dyn Agents>>,
}

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A child, a pod or the status was not written.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// The finalizer was not added or removed.
    #[error("cannot change the finalizers: {0}")]
    Finalizer(#[source] kube::Error),
    /// The object has no uid: it was not read from an API server.
    #[error("the object has no uid")]
    NoUid,
}

impl ReconcileError for Error {
    fn category(&self) -> &'static str {
        match self {
            Self::Apply(error) => error.category(),
            Self::Finalizer(_) => "finalizer",
            Self::NoUid => "no_uid",
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::Apply(error) => error.retry(),
            Self::Finalizer(error) if crate::runtime::client::is_conflict(error) => Retry::Again,
            Self::Finalizer(_) => Retry::BackOff,
            Self::NoUid => Retry::OnChange,
        }
    }
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
            FinalizerState::Deleting => self.clean_up(&proxy, context).await,
            FinalizerState::Released => Ok(Next::OnChange),
        }
    }
}

/// What is known of the children after the writes, those that failed included.
#[derive(Debug, Default)]
struct Applied {
    /// As it was written last, or as it was observed: what could not be changed goes on serving.
    deployment: Option<Arc<Deployment>>,
    announcements: Vec<Announcement>,
}

impl MyProxyReconciler {
    /// A reconciler that reads these caches and, if it is given any, asks these agents.
    pub fn new(caches: Caches, settings: Settings, agents: Option<Arc<dyn Agents>>) -> Self {
        Self {
            caches,
            settings,
            agents,
        }
    }

    async fn bring_about(&self, proxy: &MyProxy, context: &Context) -> Result<Next, Error> {
        let observed = self.caches.observe(proxy);
        let now = context.now();
        let valid = validate(proxy);
        let plan = match &valid {
            Ok(valid) => {
                let reference = proxy.controller_owner_ref(&()).ok_or(Error::NoUid)?;
                Ok(plan(
                    &Owner {
                        proxy: valid,
                        reference,
                    },
                    &observed,
                    &self.settings,
                    now,
                ))
            }
            Err(problems) => Err(problems),
        };
        let mut applied = Applied {
            deployment: current(proxy, &observed).cloned(),
            ..Applied::default()
        };
        let outcome = match &plan {
            Ok(plan) => write(context.apply(), proxy, plan, &observed, &mut applied).await,
            // What serves goes on serving; nothing is changed until somebody mends the spec.
            Err(_) => Ok(()),
        };
        let failure = outcome.as_ref().err();
        // At once: whatever goes wrong from here on, the next reconcile finds nothing to write and so nothing to tell.
        tell(proxy, context, applied.announcements).await;
        // Whoever may not write, or knows too little, has nothing to say of the whole.
        if let Some(ApplyError::Fenced { .. } | ApplyError::Conflict { .. }) = failure {
            return outcome.map(|()| Next::OnChange).map_err(Error::from);
        }
        let name = applied
            .deployment
            .as_ref()
            .map(|deployment| deployment.name_any());
        let mut earlier = observed.deployments.clone();
        earlier.retain(|deployment| Some(deployment.name_any()) != name);
        let seen = Seen {
            plan: plan.as_ref().map_err(|problems| *problems),
            deployment: applied.deployment.as_deref(),
            earlier: &earlier,
            pods: &observed.pods,
            failure,
            loaded: &Loaded::NotAsked,
        };
        let loaded = self.loaded(&seen).await;
        let seen = Seen {
            loaded: &loaded,
            ..seen
        };
        // Asking took a while.
        let now = context.now();
        let status = compute(proxy, &seen, now);
        context.apply().status(proxy, &status).await?;
        let before = proxy
            .status
            .as_ref()
            .map(|status| status.conditions.as_slice())
            .unwrap_or_default();
        // If the patch above did not succeed, these are news still.
        tell(proxy, context, announcements(before, &status.conditions)).await;
        let verdict = seen.plan.ok().and_then(|plan| plan.verdict.wake());
        let asked = loaded.ask_again(proxy.spec.tls_secret.is_some(), since(&status, UP_TO_DATE), now);
        outcome?;
        let waits = [verdict.map(|wake| until(wake, now)), asked];
        Ok(waits
            .into_iter()
            .flatten()
            .min()
            .map_or(Next::OnChange, Next::After))
    }

    /// What the pods serve, from the agents of those that are to be asked.
    async fn loaded(&self, seen: &Seen<'_>) -> Loaded {
        let active = seen.plan.ok().and_then(|plan| plan.active.as_ref());
        match (&self.agents, active) {
            (Some(agents), Some(unit)) => {
                judge(&config_hash(&unit.config), &ask(&**agents, to_ask(seen)).await)
            }
            _ => Loaded::NotAsked,
        }
    }

    /// Deletes the children and lets go of the object once the caches have none left. What they have not seen yet is collected by the
    /// cluster, since each child names its owner.
    async fn clean_up(&self, proxy: &MyProxy, context: &Context) -> Result<Next, Error> {
        let observed = self.caches.observe(proxy);
        let orphans = proxy.finalizers().iter().any(|finalizer| finalizer == ORPHAN);
        if orphans || observed.is_empty() {
            return match finalizers::remove(context.client(), proxy, FINALIZER).await {
                Err(error) if !is_not_found(&error) => Err(Error::Finalizer(error)),
                _ => Ok(Next::OnChange),
            };
        }
        let known = proxy.status.as_ref().and_then(|status| status.phase.as_deref()) == Some(DELETING);
        let status = deleting(proxy, &observed.pods, context.now());
        context.apply().status(proxy, &status).await?;
        if !known {
            let note = "its Deployment, Service and configuration are being deleted".to_owned();
            let announcement = Announcement {
                type_: EventType::Normal,
                reason: "Deleting".to_owned(),
                action: "Delete",
                note,
            };
            tell(proxy, context, vec![announcement]).await;
        }
        let Observed {
            deployments,
            services,
            config_maps,
            jobs,
            budgets,
            pods: _,
        } = &observed;
        let (apply, none) = (context.apply(), [""; 0]);
        // The way in first, so that clients are refused at once and not by pods that go away.
        apply.prune(proxy, services, none).await?;
        apply.prune(proxy, deployments, none).await?;
        apply.prune(proxy, jobs, none).await?;
        apply.prune(proxy, config_maps, none).await?;
        apply.prune(proxy, budgets, none).await?;
        Ok(Next::OnChange)
    }
}

/// From now until then, and a moment more, so that the time has come when it is looked at.
fn until(then: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or_default() + Duration::from_secs(1)
}

/// Since when a condition is what it is.
fn since(status: &MyProxyStatus, type_: &str) -> Timestamp {
    let mut conditions = status.conditions.iter();
    let condition = conditions.find(|condition| condition.type_ == type_);
    condition.map_or(Timestamp::UNIX_EPOCH, |condition| {
        condition.last_transition_time.0
    })
}

/// The Deployment that the proxy means, or the one that it has: after a change of name, until there is one of the new name.
fn current<'a>(proxy: &MyProxy, observed: &'a Observed) -> Option<&'a Arc<Deployment>> {
    let name = proxy.spec.name.clone().unwrap_or_else(|| proxy.name_any());
    named(&observed.deployments, &name).or_else(|| observed.deployments.first())
}

/// Writes the children in the order in which they need each other, then removes those that are no longer wanted.
async fn write(
    apply: &Applier,
    proxy: &MyProxy,
    plan: &Plan,
    observed: &Observed,
    applied: &mut Applied,
) -> Result<(), ApplyError> {
    let Resources {
        service,
        config_map,
        candidate,
        check,
        deployment,
        disruption_budget,
    } = plan.resources.clone();
    let mut keep = plan.keep.clone();
    let way_in = service.name_any();
    apply.apply(service, named(&observed.services, &way_in)).await?;
    for config_map in [config_map, candidate].into_iter().flatten() {
        let name = config_map.name_any();
        apply
            .apply(config_map, named(&observed.config_maps, &name))
            .await?;
        keep.config_maps.insert(name);
    }
    if let Some(job) = check {
        let name = job.name_any();
        apply.apply(job, named(&observed.jobs, &name)).await?;
        keep.jobs.insert(name);
    }
    if let Some(deployment) = deployment {
        let name = deployment.name_any();
        let written = apply
            .apply(deployment, named(&observed.deployments, &name))
            .await?;
        applied
            .announcements
            .extend(written_deployment(&name, written.outcome));
        applied.deployment = Some(written.object);
        keep.deployments.insert(name);
    }
    let mut budgets = Vec::new();
    if let Some(budget) = disruption_budget {
        let name = budget.name_any();
        apply.apply(budget, named(&observed.budgets, &name)).await?;
        budgets.push(name);
    }
    deliver(apply, plan, &observed.pods).await?;
    let Observed {
        deployments,
        services,
        config_maps,
        jobs,
        budgets: live_budgets,
        pods: _,
    } = observed;
    if apply.prune(proxy, deployments, &keep.deployments).await? > 0 {
        applied.announcements.push(Announcement {
            type_: EventType::Normal,
            reason: "Removed".to_owned(),
            action: "RollOut",
            note: "the Deployment of the earlier name is gone: the new one serves".to_owned(),
        });
    }
    apply.prune(proxy, jobs, &keep.jobs).await?;
    apply.prune(proxy, config_maps, &keep.config_maps).await?;
    apply.prune(proxy, live_budgets, &budgets).await?;
    apply.prune(proxy, services, [way_in]).await?;
    Ok(())
}

/// Marks pods with the configuration that they are to have. The kubelet looks at a pod's mounts again when the pod changes; left
/// alone, it would take a minute or more until it sees that the ConfigMap did.
async fn deliver(apply: &Applier, plan: &Plan, pods: &[Arc<Pod>]) -> Result<(), ApplyError> {
    use super::desired::names::{COMPONENT, PROXY};
    let Some(key) = plan.active.as_ref().map(super::desired::unit::Unit::key) else {
        return Ok(());
    };
    let proxies = pods.iter().filter(|pod| {
        pod.labels()
            .get(COMPONENT)
            .is_some_and(|component| component == PROXY)
    });
    for pod in proxies.filter(|pod| pod.meta().deletion_timestamp.is_none()) {
        if pod.annotations().get(KEY) != Some(&key) {
            apply.annotate(pod.as_ref(), KEY, &key).await?;
        }
    }
    Ok(())
}

fn written_deployment(name: &str, outcome: Outcome) -> Option<Announcement> {
    let (reason, note) = match outcome {
        Outcome::Created => ("Created", format!("Deployment {name} was created")),
        Outcome::Updated => ("Updated", format!("Deployment {name} was updated")),
        Outcome::Unchanged | Outcome::Terminating => return None,
    };
    Some(Announcement {
        type_: EventType::Normal,
        reason: reason.to_owned(),
        action: "RollOut",
        note,
    })
}

async fn tell(proxy: &MyProxy, context: &Context, announcements: Vec<Announcement>) {
    for Announcement {
        type_,
        reason,
        action,
        note,
    } in announcements
    {
        context
            .events()
            .publish(proxy, type_, &reason, action, &note)
            .await;
    }
}
