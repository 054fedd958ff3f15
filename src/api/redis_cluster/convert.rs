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
    TwoVersions::new::<v1alpha1::RedisCluster, v1::RedisCluster>(spec, status)
}

/// Everything that v1alpha1 says; the rest is v1's defaults.
pub fn to_v1(spec: &v1alpha1::RedisClusterSpec) -> v1::RedisClusterSpec {
    let v1alpha1::RedisClusterSpec { size } = *spec;
    v1::RedisClusterSpec {
        size,
        ..Default::default()
    }
}

/// What of it v1alpha1 can say.
pub fn to_v1alpha1(spec: &v1::RedisClusterSpec) -> v1alpha1::RedisClusterSpec {
    v1alpha1::RedisClusterSpec { size: spec.size }
}

/// Everything that v1alpha1 says: the nodes, of which it knows the names.
pub fn status_to_v1(status: &v1alpha1::RedisClusterStatus) -> v1::RedisClusterStatus {
    let v1alpha1::RedisClusterStatus { nodes } = status;
    let node = |pod: &String| v1::NodeStatus {
        pod: pod.clone(),
        ..Default::default()
    };
    v1::RedisClusterStatus {
        nodes: nodes.iter().map(node).collect(),
        ..Default::default()
    }
}

/// What of it v1alpha1 can say.
pub fn status_to_v1alpha1(status: &v1::RedisClusterStatus) -> v1alpha1::RedisClusterStatus {
    v1alpha1::RedisClusterStatus {
        nodes: status.nodes.iter().map(|node| node.pod.clone()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::api::admission::Admission;

    #[test]
    fn what_v1alpha1_leaves_out_is_what_the_schema_of_v1_fills_in() {
        let converted = to_v1(&v1alpha1::RedisClusterSpec { size: 3 });
        let written: v1::RedisClusterSpec = serde_json::from_value(json!({"size": 3})).unwrap();
        assert_eq!(converted, written);
        let crd = v1::RedisCluster::crd();
        let object = json!({"metadata": {"name": "cache"}, "spec": converted});
        assert_eq!(Admission::of(&crd).refusals(&object, None), [""; 0]);
    }

    proptest! {
        #[test]
        fn a_spec_comes_back_from_v1_as_it_was(size in any::<i32>()) {
            let spec = v1alpha1::RedisClusterSpec { size };
            prop_assert_eq!(to_v1alpha1(&to_v1(&spec)), spec);
        }

        #[test]
        fn a_status_comes_back_from_v1_as_it_was(nodes in prop::collection::btree_set("\\PC{0,9}", 0..9)) {
            let status = v1alpha1::RedisClusterStatus { nodes: nodes.into_iter().collect() };
            prop_assert_eq!(status_to_v1alpha1(&status_to_v1(&status)), status);
        }
    }
}
