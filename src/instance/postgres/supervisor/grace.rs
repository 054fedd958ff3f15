//! How much time the kubelet leaves this container once its end is asked for.

use k8s_openapi::api::core::v1::Pod;

use super::super::bounded::RequestError;

/// An end in order takes less than these seconds.
const ENOUGH: i64 = 30;

/// Whether the kubelet will kill this container soon: its pod, which has this UID, is gone, or is to be in no time.
pub(super) fn is_short(answer: &Result<Option<Pod>, RequestError>, uid: &str) -> bool {
    match answer {
        Ok(Some(pod)) if pod.metadata.uid.as_deref() == Some(uid) => pod
            .metadata
            .deletion_grace_period_seconds
            .is_some_and(|seconds| seconds < ENOUGH),
        Ok(_) => true,
        // The token is worth nothing any more, as that of a pod that is gone is.
        Err(RequestError::Api(kube::Error::Api(status))) => status.code == 401,
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kube::core::Status;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn pod(grace: Option<i64>) -> Result<Option<Pod>, RequestError> {
        let pod = json!({"metadata": {"uid": "u", "deletionGracePeriodSeconds": grace}});
        Ok(Some(serde_json::from_value(pod).unwrap()))
    }

    fn refused(code: u16) -> Result<Option<Pod>, RequestError> {
        let status = Status {
            code,
            ..Status::default()
        };
        Err(kube::Error::Api(Box::new(status)).into())
    }

    #[rstest]
    #[case::a_container_that_ends_by_itself(pod(None), false)]
    #[case::deleted_in_order(pod(Some(30)), false)]
    #[case::deleted_by_force(pod(Some(0)), true)]
    #[case::deleted_with_little_time(pod(Some(5)), true)]
    #[case::no_pod_any_more(Ok(None), true)]
    #[case::a_token_of_a_pod_that_is_gone(refused(401), true)]
    #[case::no_rights(refused(403), false)]
    #[case::no_answer(Err(RequestError::Late(Duration::from_millis(500))), false)]
    fn an_end_has_no_time_where_the_pod_is_gone_or_soon_will_be(
        #[case] answer: Result<Option<Pod>, RequestError>,
        #[case] expected: bool,
    ) {
        assert_eq!(is_short(&answer, "u"), expected);
    }

    #[test]
    fn another_pod_of_the_name_says_that_this_one_is_gone() {
        assert!(is_short(&pod(None), "v"));
    }
}
