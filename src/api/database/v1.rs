//! `databases.roadstead.dev/v1`: the version that is stored, with Kubernetes' own conventions, and a superset of what
//! [`super::v1alpha1`] can say.
//!
//! The comments on fields are what `kubectl explain` prints, so they say units, default and limits, each in one line. That of a list
//! is printed with that of its elements after it.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::cel;
use super::content::yes;
pub use super::content::{Extension, LogicalDatabase, User};
use super::limits::{
    DEFAULT_SCHEDULE, MAX_DATABASES, MAX_INSTANCES, MAX_LEASE, MAX_QUANTITY, MAX_SCHEDULE, MAX_USERS,
    MAX_VERSION, MIN_LEASE,
};
pub use super::size::Size;
use crate::api::placement::Placement;
use crate::api::resources::Resources;
use crate::api::retention::Retention;
use crate::api::rules::{MAX_HOST, MAX_IMAGE};

/// How large a volume is when its author does not say.
pub const DEFAULT_STORAGE: &str = "10Gi";
/// How far behind a replica may be and still take over by itself when the author does not say.
pub const DEFAULT_LAG: &str = "1Mi";

/// What an author asks of a database.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "roadstead.dev",
    version = "v1",
    kind = "Database",
    namespaced,
    status = "DatabaseStatus",
    shortname = "db",
    category = "roadstead",
    derive = "PartialEq",
    doc = "PostgreSQL: a primary that takes writes, replicas that follow it and take over from it.",
    validation = cel::name(),
    validation = cel::name_is_free(),
    validation = cel::users_are_others(),
    validation = cel::owners_exist(),
    printcolumn(
        name = "Ready", type_ = "string",
        description = "Whether a write was committed and every replica streams",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
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
        name = "Replicas", type_ = "integer",
        description = "Instances that exist, the primary among them",
        json_path = ".status.replicas"
    ),
    printcolumn(
        name = "Serving", type_ = "integer",
        description = "Instances that are ready",
        json_path = ".status.readyReplicas"
    ),
    printcolumn(
        name = "Primary", type_ = "string",
        description = "The instance that takes writes",
        json_path = ".status.primary"
    ),
    printcolumn(
        name = "Endpoint", type_ = "string", priority = 1,
        description = "Where the primary is found",
        json_path = ".status.endpoint"
    ),
    printcolumn(
        name = "Message", type_ = "string", priority = 1,
        description = "Why the database is ready or not",
        json_path = ".status.conditions[?(@.type==\"Ready\")].message"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[x_kube(
    validation = cel::required_has_standbys(),
    validation = cel::nobody_makes_himself_superuser(),
    validation = cel::request_fits_limit("cpu"),
    validation = cel::request_fits_limit("memory")
)]
pub struct DatabaseSpec {
    /// Version of PostgreSQL: a major version from 14 to 18 such as "17", or one with its minor version such as "17.6"; at most 5 characters. The major version cannot be changed.
    #[schemars(length(min = 1, max = MAX_VERSION))]
    #[x_kube(validation = cel::version(), validation = cel::same_major())]
    pub version: String,

    /// An image with the programs of this version of PostgreSQL, at most 500 characters. The default is the operator's choice for the version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_IMAGE), regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9._:/@-]*$"))]
    pub image: Option<String>,

    /// How many instances there are and how much each may use: small is 1 with 500m CPU and 512Mi, medium 2 with 1 CPU and 1Gi, large 3 with 2 CPU and 2Gi. The default is small.
    #[serde(default)]
    pub size: Size,

    /// How many instances there are instead of as many as the size has, the primary among them, from 1 to 9. The default is the size's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_INSTANCES))]
    pub instances: Option<i32>,

    /// CPU and memory of each instance instead of the size's. The default limits are the size's, the default requests a quarter of these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,

    /// The volume of each instance. The default is 10Gi of the cluster's default storage class, kept when the database is deleted.
    #[serde(default)]
    pub storage: Storage,

    /// Settings of PostgreSQL by name, in lower case, with their values as strings of at most 1000 characters: for example work_mem: "16MB". At most 100. The default is none. Those that the operator owns, such as listen_addresses, are refused, and so are values with which PostgreSQL would not start, such as a max_connections below 9.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "cel::parameters_schema")]
    #[x_kube(validation = cel::parameters_are_free(), validation = cel::parameter_values(), validation = cel::parameters_are_bounded())]
    pub parameters: BTreeMap<String, String>,

    /// Whether a commit waits for a replica: "off" (never; in quotes, since YAML reads a bare off as false), preferred (while one streams) or required (always, so that no acknowledged commit is lost with any one instance). The default is preferred.
    #[serde(default)]
    pub synchronous: Synchronous,

    /// How far a replica may be behind the primary, in bytes of WAL, and still take over by itself where commits do not wait for it: at most 1Gi, written in 1 to 32 characters. The default is 1Mi.
    #[serde(default = "default_lag")]
    #[schemars(schema_with = "quantity")]
    #[x_kube(validation = cel::lag())]
    pub maximum_lag_on_failover: Quantity,

    /// For how many seconds a primary that fell silent is left alone before another instance takes over: from 6 to 60. The default is 6. A primary that cannot renew its Lease stops after two thirds of that; more lets it go on through longer failures of the API server, and makes such failovers later by as much.
    #[serde(default = "default_lease")]
    #[schemars(range(min = MIN_LEASE, max = MAX_LEASE))]
    pub lease_duration_seconds: i32,

    /// Users that PostgreSQL has besides the owner, which is named as this object, at most 64. The default is none. One that is taken out of the list stays in PostgreSQL.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_USERS))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub users: Vec<User>,

    /// Databases besides the one that is named as this object, at most 32. An entry with that name is about that one. The default is none. One that is taken out of the list stays in PostgreSQL.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_DATABASES))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub databases: Vec<LogicalDatabase>,

    /// Encryption of clients' connections. The default is on, with a certificate that the operator makes and renews. Instances always encrypt what they say to each other.
    #[serde(default)]
    pub tls: Tls,

    /// Which nodes the instances run on. The default is any, and different ones where there are enough.
    #[serde(default)]
    pub placement: Placement,

    /// Backups. The default is none.
    #[serde(default)]
    pub backup: Backup,

    /// Whether the operator leaves the database alone; it goes on serving, and failing over. The default is false.
    #[serde(default)]
    pub paused: bool,
}

/// No version yet; all else as in the schema.
impl Default for DatabaseSpec {
    fn default() -> Self {
        Self {
            version: String::new(),
            image: None,
            size: Size::default(),
            instances: None,
            resources: None,
            storage: Storage::default(),
            parameters: BTreeMap::new(),
            synchronous: Synchronous::default(),
            maximum_lag_on_failover: default_lag(),
            lease_duration_seconds: default_lease(),
            users: Vec::new(),
            databases: Vec::new(),
            tls: Tls::default(),
            placement: Placement::default(),
            backup: Backup::default(),
            paused: false,
        }
    }
}

fn default_lease() -> i32 {
    MIN_LEASE
}

fn default_lag() -> Quantity {
    Quantity(DEFAULT_LAG.to_owned())
}

/// A quantity as a string with a limit: of an integer or a string without one, the API server takes no rule that compares.
fn quantity(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "minLength": 1, "maxLength": MAX_QUANTITY})
}

/// Whether a commit waits until a replica has it too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Synchronous {
    /// It never waits.
    Off,
    /// It waits while a replica streams.
    #[default]
    Preferred,
    /// It always waits.
    Required,
}

/// Each instance has one volume.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = cel::same_storage_class())]
pub struct Storage {
    /// Size of the volume in bytes, at least 256Mi, written in 1 to 32 characters such as 10Gi. The default is 10Gi. It can grow. It never shrinks, so it can be taken back only as far as no volume has grown (status.volumeSize).
    #[serde(default = "default_storage")]
    #[schemars(schema_with = "quantity")]
    #[x_kube(validation = cel::storage_size())]
    pub size: Quantity,

    /// Name of the StorageClass, at most 253 characters. The default is the cluster's. It cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_HOST), regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    pub storage_class_name: Option<String>,

    /// What becomes of the volumes when the database is deleted: Retain or Delete. The default is Retain.
    #[serde(default = "Retention::retain")]
    pub when_deleted: Retention,
}

impl Default for Storage {
    fn default() -> Self {
        Self {
            size: default_storage(),
            storage_class_name: None,
            when_deleted: Retention::Retain,
        }
    }
}

fn default_storage() -> Quantity {
    Quantity(DEFAULT_STORAGE.to_owned())
}

/// Encryption of clients' connections.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = cel::certificate_is_used(), validation = cel::encryption_can_be_required())]
pub struct Tls {
    /// Whether clients can connect over TLS. The default is true.
    #[serde(default = "yes")]
    pub enabled: bool,

    /// Whether clients that do not use TLS are turned away. The default is false.
    #[serde(default)]
    pub required: bool,

    /// Name of a Secret in the same namespace, at most 253 characters, with tls.crt, tls.key and ca.crt, whose certificate PostgreSQL shows. The default is none: one of the operator's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_HOST), regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    pub certificate_secret: Option<String>,
}

impl Default for Tls {
    fn default() -> Self {
        Self {
            enabled: true,
            required: false,
            certificate_secret: None,
        }
    }
}

/// Backups.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Backup {
    /// Whether backups are to be made. This version makes none yet, and says so where they are asked for. The default is false.
    #[serde(default)]
    pub enabled: bool,

    /// When backups are made: a cron expression in UTC, at most 100 characters, such as "0 2 * * *" for every night at two, or @daily. The default is "0 2 * * *".
    #[serde(default = "default_schedule")]
    #[schemars(length(min = 1, max = MAX_SCHEDULE))]
    #[x_kube(validation = cel::schedule("spec.backup.schedule"))]
    pub schedule: String,
}

impl Default for Backup {
    fn default() -> Self {
        Self {
            enabled: false,
            schedule: default_schedule(),
        }
    }
}

fn default_schedule() -> String {
    DEFAULT_SCHEDULE.to_owned()
}

/// What the operator reports about a database.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DatabaseStatus {
    /// Creating, Running, Updating, Blocked, Degraded, Paused, Failed or Deleting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,

    /// Ready, Available, Progressing, Degraded, ReplicationHealthy and ConfigurationApplied; BackupsConfigured where backups are asked for.
    #[serde(default)]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,

    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The host name at which the primary is found: NAME.NAMESPACE.svc.cluster.local.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,

    /// The version of PostgreSQL that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,

    /// Instances that exist, the primary among them.
    #[serde(default)]
    pub replicas: i32,

    /// Instances that are ready, the primary among them.
    #[serde(default)]
    pub ready_replicas: i32,

    /// The instance that holds the Lease: it takes writes, or is about to. Whether it does is in the condition Available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary: Option<String>,

    /// PostgreSQL's timeline, which grows with every promotion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<i64>,

    /// PostgreSQL's own identifier of the data, a number of 64 bits; once known, nothing with another is ever served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_identifier: Option<String>,

    /// Every instance.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub instances: Vec<InstanceStatus>,

    /// The most that volumes were made with, or were asked to grow to, such as 10Gi: spec.storage.size can be taken back as far as that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_size: Option<String>,

    /// How long no write was accepted because a primary was stopped in order: for another one to take over, or to start again. Of several in one change, the longest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_write_pause: Option<WritePause>,

    /// The part of a primary's log that the next one did not have, when that last happened. What was acknowledged in it, or after it, without a replica is lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_loss: Option<Loss>,

    /// Why the database is not ready. Not told while a change is rolled out and every replica streams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A time in which no write was accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WritePause {
    /// How long it was, in milliseconds.
    pub milliseconds: i64,

    /// When a write was acknowledged again.
    pub ended_at: Time,
}

/// A part of a primary's log that is in no later timeline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Loss {
    /// The timeline that began without it.
    pub timeline: i64,

    /// Where it begins, as PostgreSQL writes positions: 16/B374D848.
    pub from: String,

    /// Up to where that log is known to have been written; not given where nothing is known but its beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,

    /// Whether `to` is where that log ended, as the instance that wrote it found once it was back. Until then more than that may be lost.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub measured: bool,
}

/// What is known of an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstanceStatus {
    /// The name of its pod.
    pub name: String,

    /// primary or replica; nothing while it is neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,

    /// What it is doing: for example Joining, Streaming, Rewinding or Failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,

    /// How far its replay is behind the primary, in bytes of WAL: 0 below 1Mi, rounded up to a power of two from there; nothing where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag: Option<i64>,

    /// PostgreSQL's timeline that it is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<i64>,
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
}
