//! How far a Deployment has got, from its own status. Pure.

use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus};

/// Whether all the pods that the Deployment asks for serve, as far as its controller has seen its spec.
pub fn is_available(deployment: &Deployment) -> bool {
    is_observed(deployment) && count(deployment, |status| status.available_replicas) >= wanted(deployment)
}

/// Whether its controller has seen the spec of a Deployment: what the status says is about that spec only then.
pub fn is_observed(deployment: &Deployment) -> bool {
    let status = deployment.status.as_ref();
    status.is_some_and(|status| status.observed_generation >= deployment.metadata.generation)
}

/// Whether pods of another revision, too many or too few are there.
pub fn is_rolling_out(deployment: &Deployment) -> bool {
    let Some(status) = &deployment.status else {
        return true;
    };
    let (updated, total) = (status.updated_replicas.unwrap_or(0), status.replicas.unwrap_or(0));
    // Once complete, a Deployment stays so: a pod that is lost later is no rollout.
    let complete = has_progress(deployment, "NewReplicaSetAvailable") || is_available(deployment);
    updated != wanted(deployment) || total > updated || !complete
}

/// Whether its controller has given up waiting for the spec that it has seen.
pub fn is_stalled(deployment: &Deployment) -> bool {
    is_observed(deployment) && has_progress(deployment, "ProgressDeadlineExceeded")
}

fn has_progress(deployment: &Deployment, reason: &str) -> bool {
    let conditions = deployment
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    conditions
        .into_iter()
        .any(|condition| condition.type_ == "Progressing" && condition.reason.as_deref() == Some(reason))
}

/// What a rollout waits for, in numbers.
pub fn how_far(deployment: &Deployment) -> String {
    let (updated, total, available, wanted) = (
        count(deployment, |status| status.updated_replicas),
        count(deployment, |status| status.replicas),
        count(deployment, |status| status.available_replicas),
        wanted(deployment),
    );
    if updated < wanted {
        format!("{updated} of {wanted} pods are up to date")
    } else if available < wanted {
        format!("all {wanted} pods are up to date, {available} of them ready")
    } else {
        format!("{total} pods are there, {wanted} are wanted")
    }
}

/// How many pods the spec asks for.
pub fn wanted(deployment: &Deployment) -> i32 {
    deployment
        .spec
        .as_ref()
        .and_then(|spec| spec.replicas)
        .unwrap_or(1)
}

/// A number of the status.
pub fn count(deployment: &Deployment, field: impl Fn(&DeploymentStatus) -> Option<i32>) -> i32 {
    deployment.status.as_ref().and_then(field).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::controllers::my_proxy::testing::deployment;

    #[rstest]
    #[case::updated(json!({"replicas": 3, "updatedReplicas": 1, "availableReplicas": 2}), "1 of 2 pods are up to date")]
    #[case::ready(json!({"replicas": 2, "updatedReplicas": 2, "availableReplicas": 1}), "all 2 pods are up to date, 1 of them ready")]
    #[case::left(json!({"replicas": 3, "updatedReplicas": 2, "availableReplicas": 3}), "3 pods are there, 2 are wanted")]
    fn a_rollout_tells_what_it_waits_for(#[case] live: Value, #[case] message: &str) {
        assert_eq!(how_far(&deployment(live)), message);
    }
}
