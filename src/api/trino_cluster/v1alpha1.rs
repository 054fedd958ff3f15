//! `trinoclusters.roadstead.dev/v1alpha1`: the shape that users of the first version write.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::limits::{DEFAULT_WORKERS, MAX_VERSION, MAX_WORKERS, VERSION_PATTERN, name_rule};

/// What an author asks of a cluster.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "roadstead.dev",
    version = "v1alpha1",
    kind = "TrinoCluster",
    namespaced,
    status = "TrinoClusterStatus",
    shortname = "trino",
    category = "roadstead",
    derive = "PartialEq",
    doc = "A Trino cluster. v1 of this kind says more: conditions, queries, catalogs, and what else can be asked for.",
    validation = name_rule(),
    printcolumn(
        name = "Phase", type_ = "string",
        description = "Running once a query was answered",
        json_path = ".status.phase"
    ),
    printcolumn(
        name = "Ready", type_ = "integer",
        description = "Pods that are ready, the coordinator included",
        json_path = ".status.readyReplicas"
    ),
    printcolumn(
        name = "Workers", type_ = "integer",
        description = "Workers that the spec asks for, beside the coordinator",
        json_path = ".spec.workers"
    ),
    printcolumn(
        name = "URL", type_ = "string",
        description = "Where the coordinator takes queries",
        json_path = ".status.coordinatorURL"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct TrinoClusterSpec {
    /// The version of Trino, such as 435, at most 40 characters. The default is the operator's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_VERSION), regex(pattern = VERSION_PATTERN))]
    pub version: Option<String>,

    /// How many workers there are beside the coordinator, from 0 to 1000. The default is 1.
    #[serde(default = "default_workers")]
    #[schemars(range(min = 0, max = MAX_WORKERS))]
    pub workers: i32,
}

fn default_workers() -> i32 {
    DEFAULT_WORKERS
}

/// What the operator reports about a cluster.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TrinoClusterStatus {
    /// Pending, Creating, Running, Degraded, Updating or Failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,

    /// Pods that are ready, the coordinator included.
    #[serde(default)]
    pub ready_replicas: i32,

    /// Where the coordinator takes queries.
    #[serde(default, rename = "coordinatorURL", skip_serializing_if = "Option::is_none")]
    pub coordinator_url: Option<String>,
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
        insta::assert_yaml_snapshot!(TrinoCluster::crd());
    }

    #[test]
    fn what_kubectl_explain_prints_names_limits_and_defaults() {
        crate::api::testing::explains_itself(&TrinoCluster::crd());
    }

    #[rstest]
    #[case::nothing(json!({}), true)]
    #[case::both(json!({"version": "435", "workers": 3}), true)]
    #[case::coordinator_alone(json!({"workers": 0}), true)]
    #[case::negative(json!({"workers": -1}), false)]
    #[case::too_many(json!({"workers": 1001}), false)]
    #[case::no_version(json!({"version": "latest"}), false)]
    fn values_are_those_of_v1(#[case] spec: Value, #[case] accepted: bool) {
        let object = json!({"metadata": {"name": "sql"}, "spec": spec});
        let refusals = Admission::of(&TrinoCluster::crd()).refusals(&object, None);
        assert_eq!(refusals.is_empty(), accepted, "{refusals:?}");
    }

    #[test]
    fn one_worker_is_the_default() {
        let spec: TrinoClusterSpec = serde_json::from_value(json!({})).unwrap();
        assert_eq!((spec.version, spec.workers), (None, 1));
    }
}
