//! The PodDisruptionBudget: a drain of nodes takes one pod at a time.

use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{Owner, names};

/// Builds the budget; none for a single pod, which it could only protect by keeping its node from being drained.
pub fn build(owner: &Owner<'_>) -> Option<PodDisruptionBudget> {
    (owner.proxy.replicas >= 2).then(|| PodDisruptionBudget {
        metadata: owner.metadata(owner.proxy.name.clone(), names::PROXY),
        spec: Some(PodDisruptionBudgetSpec {
            max_unavailable: Some(IntOrString::Int(1)),
            selector: Some(LabelSelector {
                match_labels: Some(names::instance_selector(owner.proxy, names::PROXY)),
                ..LabelSelector::default()
            }),
            // A pod that does not run anyway is no reason to keep a node.
            unhealthy_pod_eviction_policy: Some("AlwaysAllow".to_owned()),
            ..PodDisruptionBudgetSpec::default()
        }),
        ..PodDisruptionBudget::default()
    })
}
