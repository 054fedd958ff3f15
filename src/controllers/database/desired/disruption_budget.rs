//! The PodDisruptionBudget: a drain of nodes takes one instance at a time.

use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{Owner, names};

/// Builds the budget; none for a single instance, which it could only protect by keeping its node from being drained.
pub fn build(owner: &Owner<'_>, replicas: i32) -> Option<PodDisruptionBudget> {
    (replicas >= 2).then(|| PodDisruptionBudget {
        metadata: owner.metadata(owner.name().to_owned()),
        spec: Some(PodDisruptionBudgetSpec {
            max_unavailable: Some(IntOrString::Int(1)),
            selector: Some(LabelSelector {
                match_labels: Some(names::selector(owner.name())),
                ..LabelSelector::default()
            }),
            // While one instance is lost no other may be taken, whether it serves or not: it may hold what the lost one does.
            unhealthy_pod_eviction_policy: Some("IfHealthyBudget".to_owned()),
            ..PodDisruptionBudgetSpec::default()
        }),
        ..PodDisruptionBudget::default()
    })
}
