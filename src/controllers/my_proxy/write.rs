//! Writes what was planned: the one place of this controller that changes children.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use tokio::time::timeout;
use tracing::debug;

use super::announce::Announcement;
use super::desired::Resources;
use super::desired::names::is_proxy;
use super::desired::unit::{KEY, Unit};
use super::observe::{Observed, named};
use super::plan::Plan;
use crate::api::my_proxy::MyProxy;
use crate::controllers::common::announce::workload_written;
use crate::runtime::apply::{Applier, ApplyError};
use crate::runtime::events::EventType;

/// How many pods of one proxy are marked at once.
const AT_ONCE: usize = 8;

/// How long it may take to mark them: status and Events wait for it.
const MARKING: Duration = Duration::from_secs(5);

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
        applied.unmarked = !deliver(apply, unit, pods).await;
    }
    Ok(())
}

/// Marks pods with the configuration that they are to have. The kubelet looks at a pod's mounts again when the pod changes; left
/// alone, it would take a minute or more until it sees that the ConfigMap did. So nothing is lost where it fails but time, and it takes
/// a bounded time itself. True if all are marked.
async fn deliver(apply: &Applier, unit: &Unit, pods: &[Arc<Pod>]) -> bool {
    let key = unit.key();
    let behind = pods.iter().filter(|pod| {
        is_proxy(&***pod)
            && pod.metadata.deletion_timestamp.is_none()
            && pod.annotations().get(KEY) != Some(&key)
    });
    let key = &key;
    let mark = |pod: &Arc<Pod>| {
        let pod = Arc::clone(pod);
        async move {
            let marked = apply.annotate(pod.as_ref(), KEY, key).await;
            if let Err(error) = &marked {
                debug!(pod = pod.name_any(), %error, "cannot mark the pod, so its kubelet will see the new configuration in its own time");
            }
            marked.is_ok()
        }
    };
    let marks: Vec<_> = behind.map(mark).collect();
    let all = async {
        let mut marks = stream::iter(marks).buffer_unordered(AT_ONCE);
        let mut all = true;
        while let Some(marked) = marks.next().await {
            all &= marked;
        }
        all
    };
    timeout(MARKING, all).await.unwrap_or(false)
}
