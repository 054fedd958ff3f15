//! Writes what was planned: the one place of this controller that changes children.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt;

use super::announce::Announcement;
use super::desired::Resources;
use super::desired::names::is_proxy;
use super::desired::unit::KEY;
use super::observe::{Observed, named};
use super::plan::Plan;
use crate::api::my_proxy::MyProxy;
use crate::controllers::common::announce::workload_written;
use crate::controllers::common::mark::mark;
use crate::runtime::apply::{Applier, ApplyError};
use crate::runtime::events::EventType;

/// What is known of the children after the writes, those that failed included.
#[derive(Debug, Default)]
pub struct Applied {
    /// As it was written last, or as it was observed: what could not be changed goes on serving.
    pub deployment: Option<Arc<Deployment>>,
    /// What is worth telling.
    pub announcements: Vec<Announcement>,
    /// Pods were not marked that should have been.
    pub unmarked: bool,
}

/// Writes the children in the order in which they need each other, then removes those that are no longer wanted.
///
/// # Errors
/// The first write that failed. What was done until then is in `applied`.
pub async fn write(
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
        apply.replace(proxy, job, named(&observed.jobs, &name)).await?;
        keep.jobs.insert(name);
    }
    if let Some(deployment) = deployment {
        let name = deployment.name_any();
        let written = apply
            .apply(deployment, named(&observed.deployments, &name))
            .await?;
        applied
            .announcements
            .extend(workload_written("Deployment", &name, written.outcome));
        applied.deployment = Some(written.object);
        keep.deployments.insert(name);
    }
    let mut budgets = Vec::new();
    if let Some(budget) = disruption_budget {
        let name = budget.name_any();
        apply.apply(budget, named(&observed.budgets, &name)).await?;
        budgets.push(name);
    }
    let Observed {
        deployments,
        services,
        config_maps,
        jobs,
        budgets: live_budgets,
        pods,
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
    if let Some(unit) = &plan.active {
        let proxies = pods.iter().filter(|pod| is_proxy(&***pod));
        applied.unmarked = !mark(apply, proxies, KEY, &unit.key()).await;
    }
    Ok(())
}
