//! `databases.roadstead.dev/v1alpha1`.
//!
//! Field names are snake_case, as in the manifests that users of the first version already have, and these are all that
//! there are: the rest is said in [`super::v1`], and survives in an annotation when somebody writes this version.
//!
//! The comments on fields are what `kubectl explain` prints, so they say units, default and limits, each in one line.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::cel;
use super::limits::{DEFAULT_SCHEDULE, MAX_SCHEDULE, MAX_VERSION};
use super::size::Size;

/// What an author asks of a database.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "roadstead.dev",
    version = "v1alpha1",
    kind = "Database",
    namespaced,
    status = "DatabaseStatus",
    shortname = "db",
    category = "roadstead",
    derive = "PartialEq",
    doc = "PostgreSQL: a primary that takes writes, replicas that follow it and take over from it.",
    validation = cel::name(),
    validation = cel::name_is_free(),
    printcolumn(
        name = "Ready", type_ = "boolean",
        description = "Whether a write was committed and every replica streams",
        json_path = ".status.ready"
    ),
    printcolumn(
        name = "Phase", type_ = "string",
        description = "What is going on",
        json_path = ".status.phase"
    ),
    printcolumn(
        name = "Version", type_ = "string",
        description = "The version of PostgreSQL that runs",
        json_path = ".status.version"
    ),
    printcolumn(
        name = "Size", type_ = "string",
        description = "The size that the spec asks for",
        json_path = ".spec.size"
    ),
    printcolumn(
        name = "Replicas", type_ = "integer",
        description = "Instances that exist, the primary among them",
        json_path = ".status.replicas"
    ),
    printcolumn(
        name = "Endpoint", type_ = "string", priority = 1,
        description = "Where the primary is found",
        json_path = ".status.endpoint"
    ),
    printcolumn(
        name = "Error", type_ = "string", priority = 1,
        description = "Why the database is not ready",
        json_path = ".status.error"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct DatabaseSpec {
    /// Version of PostgreSQL: a major version from 14 to 18 such as "17", or one with its minor version such as "17.6"; at most 5 characters. The major version cannot be changed.
    #[schemars(length(min = 1, max = MAX_VERSION))]
    #[x_kube(validation = cel::version(), validation = cel::same_major())]
    pub version: String,

    /// How many instances there are and how much each may use: small is 1 with 500m CPU and 512Mi, medium 2 with 1 CPU and 1Gi, large 3 with 2 CPU and 2Gi.
    pub size: Size,

    /// Whether backups are to be made. This version makes none yet, and says so where they are asked for. The default is false.
    #[serde(default)]
    pub backup_enabled: bool,

    /// When backups are made: a cron expression in UTC, at most 100 characters, such as "0 2 * * *" for every night at two, or @daily. The default is "0 2 * * *".
    #[serde(default = "default_schedule")]
    #[schemars(length(min = 1, max = MAX_SCHEDULE))]
    #[x_kube(validation = cel::schedule("spec.backup_schedule"))]
    pub backup_schedule: String,
}

fn default_schedule() -> String {
    DEFAULT_SCHEDULE.to_owned()
}

/// What the operator reports about a database.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DatabaseStatus {
    /// Whether a write was committed and every replica streams.
    #[serde(default)]
    pub ready: bool,

    /// The host name at which the primary is found: NAME.NAMESPACE.svc.cluster.local.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,

    /// The version of PostgreSQL that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,

    /// Instances that exist, the primary among them.
    #[serde(default)]
    pub replicas: i32,

    /// Creating, Running, Updating, Blocked, Degraded, Paused, Failed or Deleting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,

    /// Why the database is not ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt;

    use super::*;

    #[test]
    fn the_resource_definition_is_what_users_see() {
        insta::assert_yaml_snapshot!(Database::crd());
    }

    #[test]
    fn what_kubectl_explain_prints_names_limits_and_defaults() {
        crate::api::testing::explains_itself(&Database::crd());
    }

    #[test]
    fn version_and_size_are_enough() {
        let spec: DatabaseSpec =
            serde_json::from_value(serde_json::json!({"version": "14", "size": "small"})).unwrap();
        assert_eq!(
            (spec.backup_enabled, spec.backup_schedule.as_str()),
            (false, "0 2 * * *")
        );
    }
}
