//! `redisclusters.roadstead.dev/v1alpha1`: the shape that users of the first version write.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::limits::{MAX_SHARDS, name_rule, size_rule};

/// What an author asks of a cluster.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "roadstead.dev",
    version = "v1alpha1",
    kind = "RedisCluster",
    namespaced,
    status = "RedisClusterStatus",
    shortname = "redis",
    category = "roadstead",
    derive = "PartialEq",
    doc = "A Redis Cluster. v1 of this kind says more: conditions, the state of each node, and what else can be asked for.",
    validation = name_rule(),
    printcolumn(
        name = "Size", type_ = "integer",
        description = "Shards that the spec asks for",
        json_path = ".spec.size"
    ),
    printcolumn(
        name = "Nodes", type_ = "string",
        description = "Nodes that belong to the cluster",
        json_path = ".status.nodes"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[x_kube(validation = size_rule())]
pub struct RedisClusterSpec {
    /// How many shards the keys are spread over, each on a node of its own: 1, or from 3 to 500.
    #[schemars(range(min = 1, max = MAX_SHARDS))]
    pub size: i32,
}

/// What the operator reports about a cluster.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RedisClusterStatus {
    /// The pods that belong to the cluster by name, sorted.
    #[serde(default)]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub nodes: Vec<String>,
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::api::admission::Admission;

    #[test]
    fn the_resource_definition_is_what_users_see() {
        insta::assert_yaml_snapshot!(RedisCluster::crd());
    }

    #[test]
    fn what_kubectl_explain_prints_names_limits_and_defaults() {
        crate::api::testing::explains_itself(&RedisCluster::crd());
    }

    #[rstest]
    #[case::one(json!({"size": 1}), true)]
    #[case::three(json!({"size": 3}), true)]
    #[case::two(json!({"size": 2}), false)]
    #[case::none(json!({"size": 0}), false)]
    #[case::not_said(json!({}), false)]
    #[case::too_many(json!({"size": 501}), false)]
    fn sizes_are_those_of_v1(#[case] spec: Value, #[case] accepted: bool) {
        let object = json!({"metadata": {"name": "cache"}, "spec": spec});
        let refusals = Admission::of(&RedisCluster::crd()).refusals(&object, None);
        assert_eq!(refusals.is_empty(), accepted, "{refusals:?}");
    }
}
