//! `trinoclusters.roadstead.dev/v1`: what is stored.
//!
//! The comments on fields are what `kubectl explain` prints: one line each, with units, default and limits.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::limits::{
    CATALOG_PATTERN, DAY, DEFAULT_COOL_DOWN, DEFAULT_DRAIN, DEFAULT_GRACE, DEFAULT_HEAP, DEFAULT_QUERIES,
    DEFAULT_WORKERS, FOLDER_PATTERN, MAX_CATALOG_NAME, MAX_CATALOGS, MAX_FOLDERS, MAX_GRACE, MAX_HEAP,
    MAX_QUERIES, MAX_VERSION, MAX_WORKERS, MIN_HEAP, OWNED_CATALOG, OWNED_EXCHANGE, SECRETS, VERSION_PATTERN,
    memory_rule, name_rule, no_references,
};
use super::overrides::ConfigOverrides;
use crate::api::placement::Placement;
use crate::api::quantity::request_within_limit;
use crate::api::reference::{KeyReference, NAME_PATTERN};
use crate::api::resources::Resources;
use crate::api::rules::{MAX_HOST, MAX_IMAGE};
use crate::api::settings::{MAX_SETTING, MAX_SETTINGS};

/// What an author asks of a cluster.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "roadstead.dev",
    version = "v1",
    kind = "TrinoCluster",
    namespaced,
    status = "TrinoClusterStatus",
    shortname = "trino",
    category = "roadstead",
    derive = "PartialEq",
    doc = "A Trino cluster: a coordinator that takes queries, and workers that run them.",
    scale(
        spec_replicas_path = ".spec.workers.replicas",
        status_replicas_path = ".status.workers",
        label_selector_path = ".status.selector"
    ),
    validation = name_rule(),
    printcolumn(
        name = "Ready", type_ = "string",
        description = "Whether the cluster serves as its spec asks",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "Phase", type_ = "string",
        description = "Running once a query was answered",
        json_path = ".status.phase"
    ),
    printcolumn(
        name = "Workers", type_ = "integer",
        description = "Workers that take part, as Trino itself counts them",
        json_path = ".status.activeWorkers"
    ),
    printcolumn(
        name = "Wanted", type_ = "integer",
        description = "Workers that are wanted",
        json_path = ".status.desiredWorkers"
    ),
    printcolumn(
        name = "Running", type_ = "integer",
        description = "Queries that run",
        json_path = ".status.runningQueries"
    ),
    printcolumn(
        name = "Queued", type_ = "integer",
        description = "Queries that wait",
        json_path = ".status.queuedQueries"
    ),
    printcolumn(name = "Version", type_ = "string", priority = 1, json_path = ".status.version"),
    printcolumn(
        name = "URL", type_ = "string", priority = 1,
        description = "Where the coordinator takes queries",
        json_path = ".status.coordinatorURL"
    ),
    printcolumn(
        name = "Message", type_ = "string", priority = 1,
        description = "Why the cluster is ready or not",
        json_path = ".status.conditions[?(@.type==\"Ready\")].message"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.authentication) || has(self.tls)")
    .message("authentication is set without tls; it must be left out, or tls be set: Trino takes passwords over HTTPS only")
    .field_path(".authentication"))]
pub struct TrinoClusterSpec {
    /// The version of Trino, such as 435, at most 40 characters. The default is the operator's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_VERSION), regex(pattern = VERSION_PATTERN))]
    pub version: Option<String>,

    /// The Trino image, at most 500 characters; it has to be of that version. The default is the official one of the version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_IMAGE), regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9._:/@-]*$"))]
    pub image: Option<String>,

    /// The pod that takes queries and plans them.
    #[serde(default)]
    pub coordinator: Coordinator,

    /// The pods that run queries. The default is 1.
    #[serde(default)]
    pub workers: Workers,

    /// How the number of workers follows the queries. The default is none: it is workers.replicas, which an autoscaler of the cluster may set too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autoscaling: Option<Autoscaling>,

    /// Where data comes from, at most 64 catalogs. The default is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_CATALOGS))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub catalogs: Vec<Catalog>,

    /// What is added to the files of coordinator and workers; what the operator sets is refused. The default is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_overrides: Option<ConfigOverrides>,

    /// Who may log in, which needs tls. The default is none: everybody who reaches the coordinator, under any name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authentication: Option<Authentication>,

    /// Who may do what. The default is none: everybody may do everything that the catalogs let them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_control: Option<AccessControl>,

    /// TLS for clients, on port 8443. The default is none: HTTP on port 8080.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,

    /// Room on disk for queries that do not fit into memory. The default is none: such a query fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spill: Option<Spill>,

    /// Where workers leave what they pass on, so that a query outlives a worker. The default is none: a query fails with its worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchange: Option<Exchange>,

    /// Where the pods run. The default is anywhere, workers apart where there is room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,

    /// How many seconds a worker that is to go keeps taking what the coordinator sends before it has heard of it, from 1 to 3600. It is Trino's shutdown.grace-period. The default is 30.
    #[serde(default = "default_grace")]
    #[schemars(range(min = 1, max = MAX_GRACE))]
    pub grace_period_seconds: i32,

    /// How many seconds a worker that is to go may take at most to finish what it runs, from 0 to 86400. The default is 3600.
    #[serde(default = "default_drain")]
    #[schemars(range(min = 0, max = DAY))]
    pub drain_timeout_seconds: i32,

    /// Whether the operator leaves the cluster alone, apart from reporting on it. The default is false.
    #[serde(default)]
    pub paused: bool,
}

impl Default for TrinoClusterSpec {
    fn default() -> Self {
        Self {
            version: None,
            image: None,
            coordinator: Coordinator::default(),
            workers: Workers::default(),
            autoscaling: None,
            catalogs: Vec::new(),
            config_overrides: None,
            authentication: None,
            access_control: None,
            tls: None,
            spill: None,
            exchange: None,
            placement: None,
            grace_period_seconds: DEFAULT_GRACE,
            drain_timeout_seconds: DEFAULT_DRAIN,
            paused: false,
        }
    }
}

fn default_grace() -> i32 {
    DEFAULT_GRACE
}

fn default_drain() -> i32 {
    DEFAULT_DRAIN
}

/// The pod that takes queries and plans them.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Coordinator {
    /// CPU and memory of the pod. The default is a memory limit of 4Gi; where resources are given, it has to be among them, at least 512Mi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = request_within_limit("cpu"), validation = request_within_limit("memory"), validation = memory_rule())]
    pub resources: Option<Resources>,

    /// How much of the memory limit is the JVM's heap, in percent, from 25 to 90. The default is 80.
    #[serde(default = "default_heap")]
    #[schemars(range(min = MIN_HEAP, max = MAX_HEAP))]
    pub heap_percent: i32,

    /// What is added to the coordinator's files only; it wins over spec.configOverrides. The default is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_overrides: Option<ConfigOverrides>,
}

impl Default for Coordinator {
    fn default() -> Self {
        Self {
            resources: None,
            heap_percent: DEFAULT_HEAP,
            config_overrides: None,
        }
    }
}

/// The pods that run queries.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Workers {
    /// How many there are, from 0 to 1000. With autoscaling, how many there are at first. The default is 1.
    #[serde(default = "default_workers")]
    #[schemars(range(min = 0, max = MAX_WORKERS))]
    pub replicas: i32,

    /// CPU and memory of each pod. The default is a memory limit of 4Gi; where resources are given, it has to be among them, at least 512Mi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = request_within_limit("cpu"), validation = request_within_limit("memory"), validation = memory_rule())]
    pub resources: Option<Resources>,

    /// How much of the memory limit is the JVM's heap, in percent, from 25 to 90. The default is 80.
    #[serde(default = "default_heap")]
    #[schemars(range(min = MIN_HEAP, max = MAX_HEAP))]
    pub heap_percent: i32,

    /// What is added to the workers' files only; it wins over spec.configOverrides. The default is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_overrides: Option<ConfigOverrides>,
}

impl Default for Workers {
    fn default() -> Self {
        Self {
            replicas: DEFAULT_WORKERS,
            resources: None,
            heap_percent: DEFAULT_HEAP,
            config_overrides: None,
        }
    }
}

fn default_workers() -> i32 {
    DEFAULT_WORKERS
}

fn default_heap() -> i32 {
    DEFAULT_HEAP
}

/// How the number of workers follows the queries that run and wait.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.minWorkers <= self.maxWorkers")
    .message(Message::Expression("'minWorkers is %d; it must be at most maxWorkers, which is %d'.format([self.minWorkers, self.maxWorkers])".into()))
    .field_path(".minWorkers"))]
pub struct Autoscaling {
    /// The fewest workers, from 0 to 1000. The default is 1.
    #[serde(default = "default_workers")]
    #[schemars(range(min = 0, max = MAX_WORKERS))]
    pub min_workers: i32,

    /// The most workers, from 1 to 1000.
    #[schemars(range(min = 1, max = MAX_WORKERS))]
    pub max_workers: i32,

    /// How many queries, running and waiting, there is to be a worker for, from 1 to 1000. The default is 4.
    #[serde(default = "default_queries")]
    #[schemars(range(min = 1, max = MAX_QUERIES))]
    pub queries_per_worker: i32,

    /// How many seconds the number stays after a change before it becomes smaller, from 0 to 86400. The default is 300.
    #[serde(default = "default_cool_down")]
    #[schemars(range(min = 0, max = DAY))]
    pub cool_down_seconds: i32,
}

fn default_queries() -> i32 {
    DEFAULT_QUERIES
}

fn default_cool_down() -> i32 {
    DEFAULT_COOL_DOWN
}

/// Each catalog makes the tables of one source known to queries.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.properties) || !has(self.secretProperties) || !self.secretProperties.exists(name, name in self.properties)")
    .message(Message::Expression("'%s is in properties too; it must be in one of both'.format([self.secretProperties.filter(name, name in self.properties)])".into()))
    .field_path(".secretProperties"))]
pub struct Catalog {
    /// Name by which queries refer to it, at most 63 of a-z, 0-9, '_' and '-', beginning with a letter; system is taken.
    #[schemars(length(min = 1, max = MAX_CATALOG_NAME), regex(pattern = CATALOG_PATTERN))]
    #[x_kube(validation = Rule::new("self != 'system'").message("name is system, Trino's own catalog; it must be another name"))]
    pub name: String,

    /// The connector, such as postgresql, hive or tpch, at most 63 characters.
    #[schemars(length(min = 1, max = MAX_CATALOG_NAME), regex(pattern = CATALOG_PATTERN))]
    pub connector: String,

    /// The connector's properties by name, at most 128, each of at most 1024 characters, without secrets. The default is none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "crate::api::settings::schema")]
    #[x_kube(validation = OWNED_CATALOG.refused(), validation = SECRETS.refused(), validation = no_references())]
    pub properties: BTreeMap<String, String>,

    /// The connector's properties whose values are in Secrets, by name, at most 128. The default is none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = MAX_SETTINGS))]
    #[x_kube(validation = OWNED_CATALOG.refused())]
    pub secret_properties: BTreeMap<String, KeyReference>,
}

/// Who may log in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Authentication {
    /// The Secret with a password file: a line for each user, with its name, a colon and a hash by bcrypt or PBKDF2. It may change while the cluster runs.
    pub password_file_secret: KeyReference,
}

/// Who may do what.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccessControl {
    /// The ConfigMap with Trino's rules in JSON. It may change while the cluster runs.
    pub rules_config_map: KeyReference,
}

/// Where the certificate is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tls {
    /// Name of a Secret of type kubernetes.io/tls, at most 253 characters; it may change while the cluster runs.
    #[schemars(length(min = 1, max = MAX_HOST), regex(pattern = NAME_PATTERN))]
    pub secret_name: String,
}

/// Room on disk for queries that do not fit into memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Spill {
    /// How much each worker has, in bytes, such as 50Gi.
    #[schemars(schema_with = "crate::api::quantity::schema")]
    pub size: Quantity,

    /// Name of a StorageClass for a volume that lives as long as the worker's pod, at most 253 characters. The default is none: the node's own disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_HOST), regex(pattern = NAME_PATTERN))]
    pub storage_class_name: Option<String>,
}

/// Where workers leave what they pass on.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Exchange {
    /// What is tried again when a worker is lost: Task, or Query as a whole. The default is Task.
    #[serde(default)]
    pub retry_policy: RetryPolicy,

    /// Folders in a storage that all pods reach, from 1 to 16, such as s3://bucket/exchange.
    #[schemars(schema_with = "folders")]
    pub base_directories: Vec<String>,

    /// Properties of the filesystem exchange by name, at most 128, each of at most 1024 characters, without secrets. The default is none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "crate::api::settings::schema")]
    #[x_kube(validation = OWNED_EXCHANGE.refused(), validation = SECRETS.refused(), validation = no_references())]
    pub properties: BTreeMap<String, String>,

    /// Properties whose values are in Secrets, by name, at most 128. The default is none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = MAX_SETTINGS))]
    #[x_kube(validation = OWNED_EXCHANGE.refused())]
    pub secret_properties: BTreeMap<String, KeyReference>,
}

fn folders(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array", "minItems": 1, "maxItems": MAX_FOLDERS, "x-kubernetes-list-type": "set",
        "items": {
            "type": "string", "maxLength": MAX_SETTING, "pattern": FOLDER_PATTERN,
            "description": "Each is a URL, or a path, of at most 1024 characters.",
        },
    })
}

/// What is tried again when a worker is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RetryPolicy {
    /// Its part of the query: for long queries.
    #[default]
    Task,
    /// The query: for many short ones.
    Query,
}

/// What the operator reports about a cluster.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TrinoClusterStatus {
    /// Pending, Creating, Running, Degraded, Updating or Failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,

    /// Ready, CoordinatorAvailable, WorkersAvailable, CatalogsLoaded, Progressing and Degraded.
    #[serde(default)]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,

    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Pods that are ready, the coordinator included.
    #[serde(default)]
    pub ready_replicas: i32,

    /// Where the coordinator takes queries.
    #[serde(default, rename = "coordinatorURL", skip_serializing_if = "Option::is_none")]
    pub coordinator_url: Option<String>,

    /// Pods of workers that exist.
    #[serde(default)]
    pub workers: i32,

    /// Workers that are wanted, by the spec or by autoscaling.
    #[serde(default)]
    pub desired_workers: i32,

    /// Workers that take part, as Trino itself counts them; none while it does not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_workers: Option<i32>,

    /// Queries that run; none while Trino does not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running_queries: Option<i32>,

    /// Queries that wait; none while Trino does not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued_queries: Option<i32>,

    /// The version that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,

    /// When autoscaling changed the number of workers last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_scale_time: Option<Time>,

    /// Label selector of the workers' pods, as text, for the scale subresource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt;

    use super::*;

    #[test]
    fn the_resource_definition_is_what_users_see() {
        insta::assert_yaml_snapshot!(TrinoCluster::crd());
    }

    #[test]
    fn what_kubectl_explain_prints_names_limits_and_defaults() {
        crate::api::testing::explains_itself(&TrinoCluster::crd());
    }
}
