//! The pods of the database's instances: whether one has certainly ended, and which role each has.

use std::fmt;

use k8s_openapi::api::core::v1::{ContainerState, Pod};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

use super::bounded::{Deadline, Limit, RequestError};
use super::identity::Identity;
use crate::api::database::agent::{CONTAINER, ROLE_LABEL, Role};
use crate::runtime::client::{is_conflict, is_not_found};

/// Reads and labels pods of one namespace.
#[derive(Clone)]
pub struct PodClient {
    api: Api<Pod>,
    limit: Limit,
}

impl fmt::Debug for PodClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PodClient")
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

/// What came of labelling a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Labelled {
    /// It has the label now.
    Written,
    /// It had it already.
    Already,
    /// There is another pod of that name. Nothing was written.
    Other,
    /// There is no such pod.
    Gone,
}

impl PodClient {
    /// Of this namespace. Each call takes at most `limit`.
    pub fn new(client: Client, namespace: &str, limit: impl Into<Limit>) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            limit: limit.into(),
        }
    }

    /// The pod as it is now; `None` when there is none.
    ///
    /// # Errors
    /// When there is no answer in time, or a refusal.
    pub async fn read(&self, name: &str) -> Result<Option<Pod>, RequestError> {
        get(&self.api, name, self.limit.begin()).await
    }

    /// Labels a pod with its role, or takes the label from it when it has none, unless it is so already. With a `uid` it has to be that very pod.
    ///
    /// # Errors
    /// When there is no answer in time, or a refusal.
    pub async fn set_role(
        &self,
        name: &str,
        uid: Option<&str>,
        role: Role,
    ) -> Result<Labelled, RequestError> {
        let deadline = self.limit.begin();
        let Some(pod) = get(&self.api, name, deadline).await? else {
            return Ok(Labelled::Gone);
        };
        if uid.is_some() && pod.metadata.uid.as_deref() != uid {
            return Ok(Labelled::Other);
        }
        if role_of(&pod) == role.label() {
            return Ok(Labelled::Already);
        }
        self.write_role(&pod, name, role, deadline).await
    }

    /// Takes the label of this role from a pod; one that has another, or none, is left alone.
    ///
    /// # Errors
    /// When there is no answer in time, or a refusal.
    pub async fn take_role(&self, name: &str, role: Role) -> Result<Labelled, RequestError> {
        let deadline = self.limit.begin();
        match get(&self.api, name, deadline).await? {
            None => Ok(Labelled::Gone),
            Some(pod) if role_of(&pod) != role.label() => Ok(Labelled::Already),
            Some(pod) => self.write_role(&pod, name, Role::None, deadline).await,
        }
    }

    async fn write_role(
        &self,
        pod: &Pod,
        name: &str,
        role: Role,
        deadline: Deadline,
    ) -> Result<Labelled, RequestError> {
        // The pod may be replaced by another of the same name in between.
        let mut patch = json!({"metadata": {"labels": {ROLE_LABEL: role.label()}}});
        if let Some(uid) = &pod.metadata.uid {
            patch["metadata"]["uid"] = json!(uid);
        }
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        let patched = self.api.patch_metadata(name, &params, &patch);
        match deadline.within(patched).await {
            Ok(_) => Ok(Labelled::Written),
            Err(RequestError::Api(error)) if is_not_found(&error) => Ok(Labelled::Gone),
            Err(RequestError::Api(error)) if is_conflict(&error) || is_invalid(&error) => Ok(Labelled::Other),
            Err(error) => Err(error),
        }
    }
}

async fn get(api: &Api<Pod>, name: &str, deadline: Deadline) -> Result<Option<Pod>, RequestError> {
    deadline.within(api.get_opt(name)).await
}

/// What the API server says of a patch with another UID than the pod has: a UID cannot be changed (422). Nothing else in the patch could be invalid.
fn is_invalid(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 422)
}

fn role_of(pod: &Pod) -> Option<&str> {
    pod.metadata.labels.as_ref()?.get(ROLE_LABEL).map(String::as_str)
}

/// Whether the process of this identity is certainly gone, and all that it started with it: the kubelet says that the container is terminated, and the
/// message that the process left names its nonce. All else proves nothing, least of all a pod that is not there.
pub fn ended(pod: &Pod, identity: &Identity) -> bool {
    if pod.metadata.uid.as_deref() != Some(identity.uid()) {
        return false;
    }
    let statuses = pod
        .status
        .as_ref()
        .and_then(|status| status.container_statuses.as_ref());
    let mut containers = statuses
        .into_iter()
        .flatten()
        .filter(|status| status.name == CONTAINER);
    containers.any(|status| {
        [&status.state, &status.last_state]
            .into_iter()
            .flatten()
            .any(|state| names(state, identity.nonce()))
    })
}

fn names(state: &ContainerState, nonce: &str) -> bool {
    let message = state
        .terminated
        .as_ref()
        .and_then(|terminated| terminated.message.as_deref());
    let mut words = message
        .unwrap_or_default()
        .split(|c: char| !c.is_ascii_alphanumeric());
    words.any(|word| word == nonce)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::Value;

    const NONCE: &str = "00000000000000aa";

    fn terminated(message: &str) -> Value {
        json!({"terminated": {"exitCode": 137, "message": message}})
    }

    #[rstest]
    #[case::terminated(json!({"name": "postgres", "state": terminated(NONCE)}), true)]
    #[case::and_more_in_the_message(json!({"name": "postgres", "state": terminated("nonce 00000000000000aa\nfailed")}), true)]
    #[case::terminated_and_started_again(
        json!({"name": "postgres", "state": {"running": {}}, "lastState": terminated(NONCE)}), true)]
    #[case::the_next_process_terminated_as_well(
        json!({"name": "postgres", "state": terminated("00000000000000ab"), "lastState": terminated(NONCE)}), true)]
    #[case::it_runs(json!({"name": "postgres", "state": {"running": {}}}), false)]
    #[case::an_earlier_process_of_the_pod(json!({"name": "postgres", "state": terminated("00000000000000ab")}), false)]
    #[case::a_part_of_a_longer_word(json!({"name": "postgres", "state": terminated("1x00000000000000aa")}), false)]
    #[case::it_left_no_message(json!({"name": "postgres", "state": {"terminated": {"exitCode": 0}}}), false)]
    #[case::another_container(json!({"name": "install", "state": terminated(NONCE)}), false)]
    #[case::it_waits(json!({"name": "postgres", "state": {"waiting": {"message": NONCE}}}), false)]
    fn only_what_the_kubelet_says_of_that_very_process_proves_its_end(
        #[case] status: Value,
        #[case] expected: bool,
    ) {
        let pod = json!({"metadata": {"uid": "u-1"}, "status": {"containerStatuses": [status]}});
        let pod: Pod = serde_json::from_value(pod).unwrap();
        assert_eq!(ended(&pod, &format!("u-1-{NONCE}").parse().unwrap()), expected);
        let of_another_pod = format!("u-2-{NONCE}").parse().unwrap();
        assert!(!ended(&pod, &of_another_pod));
    }

    #[test]
    fn a_pod_of_which_nothing_is_known_proves_nothing() {
        assert!(!ended(&Pod::default(), &format!("u-1-{NONCE}").parse().unwrap()));
    }
}
