//! From v1alpha1 to v1 and back. What v1alpha1 cannot say, [`crate::api::conversion`] keeps.

use super::{v1, v1alpha1};
use crate::api::conversion::{TwoVersions, Versions, Ways};

/// Both versions.
pub fn versions() -> impl Versions {
    let spec = Ways {
        on: to_v1,
        back: to_v1alpha1,
    };
    let status = Ways {
        on: status_to_v1,
        back: status_to_v1alpha1,
    };
    TwoVersions::new::<v1alpha1::TrinoCluster, v1::TrinoCluster>(spec, status)
}

/// Everything that v1alpha1 says; the rest is v1's defaults.
pub fn to_v1(spec: &v1alpha1::TrinoClusterSpec) -> v1::TrinoClusterSpec {
    let v1alpha1::TrinoClusterSpec { version, workers } = spec;
    v1::TrinoClusterSpec {
        version: version.clone(),
        workers: v1::Workers {
            replicas: *workers,
            ..Default::default()
        },
        ..Default::default()
    }
}

/// What of it v1alpha1 can say.
pub fn to_v1alpha1(spec: &v1::TrinoClusterSpec) -> v1alpha1::TrinoClusterSpec {
    v1alpha1::TrinoClusterSpec {
        version: spec.version.clone(),
        workers: spec.workers.replicas,
    }
}

/// Everything that v1alpha1 says.
pub fn status_to_v1(status: &v1alpha1::TrinoClusterStatus) -> v1::TrinoClusterStatus {
    let v1alpha1::TrinoClusterStatus {
        phase,
        ready_replicas,
        coordinator_url,
    } = status.clone();
    v1::TrinoClusterStatus {
        phase,
        ready_replicas,
        coordinator_url,
        ..Default::default()
    }
}

/// What of it v1alpha1 can say.
pub fn status_to_v1alpha1(status: &v1::TrinoClusterStatus) -> v1alpha1::TrinoClusterStatus {
    v1alpha1::TrinoClusterStatus {
        phase: status.phase.clone(),
        ready_replicas: status.ready_replicas,
        coordinator_url: status.coordinator_url.clone(),
    }
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt;
    use proptest::option;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::api::admission::Admission;

    #[test]
    fn what_v1alpha1_leaves_out_is_what_the_schema_of_v1_fills_in() {
        let converted = to_v1(&serde_json::from_value(json!({})).unwrap());
        let written: v1::TrinoClusterSpec = serde_json::from_value(json!({})).unwrap();
        assert_eq!(converted, written);
        let crd = v1::TrinoCluster::crd();
        let object = json!({"metadata": {"name": "sql"}, "spec": converted});
        assert_eq!(Admission::of(&crd).refusals(&object, None), [""; 0]);
    }

    proptest! {
        #[test]
        fn a_spec_comes_back_from_v1_as_it_was(version in option::of("\\PC{0,9}"), workers in any::<i32>()) {
            let spec = v1alpha1::TrinoClusterSpec { version, workers };
            prop_assert_eq!(to_v1alpha1(&to_v1(&spec)), spec);
        }

        #[test]
        fn a_status_comes_back_from_v1_as_it_was(
            phase in option::of("\\PC{0,9}"), ready_replicas in any::<i32>(), coordinator_url in option::of("\\PC{0,9}"),
        ) {
            let status = v1alpha1::TrinoClusterStatus { phase, ready_replicas, coordinator_url };
            prop_assert_eq!(status_to_v1alpha1(&status_to_v1(&status)), status);
        }
    }
}
