//! What there is of a proxy after the writes. Pure.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::desired::names::{APP, is_proxy};
use super::loaded::Target;
use super::rollout::{count, is_observed, is_rolling_out};
pub use crate::controllers::common::pod::is_ready;
use crate::runtime::apply::ApplyError;

/// Deployments and pods of a proxy, and what kept a child from being written.
#[derive(Clone, Copy, Debug)]
pub struct Live<'a> {
    /// The Deployment of the present name as it was applied or, where that could not be written, the one that serves.
    pub deployment: Option<&'a Deployment>,
    /// Deployments of earlier names, which serve until the present one does.
    pub earlier: &'a [Arc<Deployment>],
    /// The proxy's pods, those of checks included.
    pub pods: &'a [Arc<Pod>],
    /// What kept a child from being written.
    pub failure: Option<&'a ApplyError>,
}

impl<'a> Live<'a> {
    /// The pods of the present Deployment by its label, without those that go away or have ended.
    pub fn present_pods(&self) -> impl Iterator<Item = &'a Arc<Pod>> + use<'a> {
        let app = self.deployment.map(ResourceExt::name_any);
        let ours = move |pod: &&Arc<Pod>| app.is_some() && pod.labels().get(APP) == app.as_ref();
        staying(self.pods).filter(ours)
    }

    /// The pods to be asked what they serve, and how many there are to be: the ready ones, once all are of the Deployment that is
    /// wanted. None before that: there is nothing to learn from it.
    pub fn to_ask(&self) -> Option<(usize, Vec<Target>)> {
        let deployment = self.deployment?;
        let rolled_out = self.failure.is_none()
            && self.earlier.is_empty()
            && is_observed(deployment)
            && !is_rolling_out(deployment);
        let ready = self.present_pods().filter(|pod| is_ready(pod));
        // The Deployment may be known better than its pods.
        let available = count(deployment, |status| status.available_replicas);
        rolled_out.then(|| {
            (
                usize::try_from(available).unwrap_or(0),
                ready.map(|pod| Target::of(pod)).collect(),
            )
        })
    }
}

/// The pods that proxy and neither go away nor have ended.
pub fn staying(pods: &[Arc<Pod>]) -> impl Iterator<Item = &Arc<Pod>> {
    pods.iter().filter(|pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        is_proxy(&***pod)
            && pod.metadata.deletion_timestamp.is_none()
            && !matches!(phase, Some("Succeeded" | "Failed"))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::controllers::my_proxy::desired::names::{COMPONENT, PROXY};
    use crate::controllers::my_proxy::testing::{deployment, pod, serving};

    fn running(name: &str, ready: &str) -> Arc<Pod> {
        let pod = json!({
            "metadata": {"name": name, "labels": {APP: "edge", COMPONENT: PROXY}},
            "status": {"phase": "Running", "podIP": "10.0.0.7", "conditions": [{"type": "Ready", "status": ready}]},
        });
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn pods_are_asked_once_all_of_the_wanted_deployment_run_and_only_ready_ones() {
        let pods = [
            running("edge-a", "True"),
            running("edge-b", "False"),
            pod("edge-c", "edge", PROXY, "Running", true),
        ];
        let to_ask = |deployment: Deployment, earlier: &[Arc<Deployment>]| {
            let live = Live {
                deployment: Some(&deployment),
                earlier,
                pods: &pods,
                failure: None,
            };
            live.to_ask()
        };
        let edge_a = Target {
            pod: "edge-a".into(),
            address: Some([10, 0, 0, 7].into()),
        };
        assert_eq!(to_ask(serving(), &[]), Some((2, vec![edge_a])));
        let rolling =
            json!({"observedGeneration": 3, "replicas": 3, "updatedReplicas": 1, "availableReplicas": 2});
        assert_eq!(to_ask(deployment(rolling), &[]), None);
        assert_eq!(to_ask(serving(), &[Arc::new(serving())]), None);
    }
}
