//! `redisclusters.roadstead.dev/v1`: what is stored.
//!
//! The comments on fields are what `kubectl explain` prints: one line each, with units, default and limits.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::limits::{
    MAX_NODES, MAX_REPLICAS, MAX_SHARDS, MAX_USER, MAX_USERS, OPERATOR_USER, OWNED, PASSWORD_RULES,
    USER_RULES, name_rule, size_rule,
};
use crate::api::placement::Placement;
use crate::api::quantity::request_within_limit;
use crate::api::reference::{KeyReference, NAME_PATTERN};
use crate::api::resources::Resources;
use crate::api::retention::Retention;
use crate::api::rules::{MAX_HOST, MAX_IMAGE};
use crate::api::settings::{MAX_SETTING, VALUE_PATTERN};

/// What an author asks of a cluster.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "roadstead.dev",
    version = "v1",
    kind = "RedisCluster",
    namespaced,
    status = "RedisClusterStatus",
    shortname = "redis",
    category = "roadstead",
    derive = "PartialEq",
    doc = "A Redis Cluster: shards that hold the keys, with replicas of them, in StatefulSets, and a Service in front.",
    scale(
        spec_replicas_path = ".spec.size",
        status_replicas_path = ".status.shards",
        label_selector_path = ".status.selector"
    ),
    validation = name_rule(),
    printcolumn(
        name = "Ready", type_ = "string",
        description = "Whether the cluster serves as its spec asks",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "Slots", type_ = "string",
        description = "Whether every hash slot is served",
        json_path = ".status.conditions[?(@.type==\"SlotsCovered\")].status"
    ),
    printcolumn(
        name = "Shards", type_ = "integer",
        description = "Shards that exist",
        json_path = ".status.shards"
    ),
    printcolumn(
        name = "Wanted", type_ = "integer",
        description = "Shards that the spec asks for",
        json_path = ".spec.size"
    ),
    printcolumn(
        name = "Nodes", type_ = "integer",
        description = "Nodes that are ready, replicas included",
        json_path = ".status.readyNodes"
    ),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(
        name = "Moved", type_ = "integer", priority = 1,
        description = "Hash slots that a change of the size has moved so far",
        json_path = ".status.migration.slotsMoved"
    ),
    printcolumn(
        name = "Message", type_ = "string", priority = 1,
        description = "Why the cluster is ready or not",
        json_path = ".status.conditions[?(@.type==\"Ready\")].message"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = size_rule(),
    validation = Rule::new(format!("self.size * (1 + self.replicasPerShard) <= {MAX_NODES}"))
        .message(Message::Expression(format!(
            "'size %d with replicasPerShard %d makes %d nodes; it must be at most {MAX_NODES}, replicas included'.format([self.size, self.replicasPerShard, self.size * (1 + self.replicasPerShard)])"
        )))
        .field_path(".replicasPerShard"),
    validation = Rule::new("has(self.tls) == has(oldSelf.tls)")
        .message(Message::Expression(
            "'tls is %s; it must stay as the cluster was created, since nodes with and without TLS do not find each other: accepted is another secretName, or a new cluster'.format([has(self.tls) ? 'added' : 'removed'])".into()
        ))
        .field_path(".tls")
)]
pub struct RedisClusterSpec {
    /// How many shards the keys are spread over: 1, which has no failover, or from 3 to 500. Of 2 neither could be failed over.
    #[schemars(range(min = 1, max = MAX_SHARDS))]
    pub size: i32,

    /// How many replicas each shard has besides its primary, from 0 to 5. The default is 0: a shard whose node is lost waits for it to come back.
    #[serde(default)]
    #[schemars(range(min = 0, max = MAX_REPLICAS))]
    pub replicas_per_shard: i32,

    /// The Redis or Valkey image, at most 500 characters. The default is the operator's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_IMAGE), regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9._:/@-]*$"))]
    pub image: Option<String>,

    /// CPU and memory of each node's Redis, as in a container's resources. The default is none: no promise and no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = request_within_limit("cpu"), validation = request_within_limit("memory"))]
    pub resources: Option<Resources>,

    /// The volume of each node. The default is 1Gi of the cluster's default StorageClass.
    #[serde(default)]
    pub storage: Storage,

    /// The password of the default user. The default is none: whoever reaches a node may read and write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<Auth>,

    /// Users besides the default one, at most 64. The default is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_USERS))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub acl_users: Vec<AclUser>,

    /// TLS for clients and between nodes, which can neither be added nor removed later. The default is none: no TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,

    /// Settings of redis.conf by name, at most 128, each of at most 1024 characters; those that the operator sets are refused. The default is none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "crate::api::settings::schema")]
    #[x_kube(validation = OWNED.refused())]
    pub config: BTreeMap<String, String>,

    /// Where the nodes run. The default is anywhere, the nodes of a shard apart where there is room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,

    /// A container beside each node that exports metrics to Prometheus. The default is none: the operator's own metrics only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exporter: Option<Exporter>,

    /// Whether a shard that is lost with all its copies is replaced by an empty one. The default is false: the cluster stays Degraded, and waits for it.
    #[serde(default)]
    pub allow_data_loss: bool,

    /// Whether the operator leaves the cluster alone, apart from reporting on it. The default is false.
    #[serde(default)]
    pub paused: bool,
}

/// The volume of a node, and what becomes of it.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!isQuantity(string(self.size)) || !isQuantity(string(oldSelf.size)) || quantity(string(self.size)).compareTo(quantity(string(oldSelf.size))) >= 0")
        .message(Message::Expression(
            "'size is %s; it must be at least what it was, %s, since a volume cannot shrink'.format([string(self.size), string(oldSelf.size)])".into()
        ))
        .field_path(".size"),
    validation = Rule::new("has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)")
        .message(Message::Expression(
            "'storageClassName is %s; it must stay %s, since a volume cannot change its class'.format([has(self.storageClassName) ? self.storageClassName : 'removed', has(oldSelf.storageClassName) ? oldSelf.storageClassName : 'left out'])".into()
        ))
)]
pub struct Storage {
    /// Its size in bytes. It may grow later, where the StorageClass lets it, not shrink. The default is 1Gi.
    #[serde(default = "default_size")]
    #[schemars(schema_with = "crate::api::quantity::schema")]
    pub size: Quantity,

    /// Name of the StorageClass, at most 253 characters; it cannot change later. The default is the cluster's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_HOST), regex(pattern = NAME_PATTERN))]
    pub storage_class_name: Option<String>,

    /// What becomes of the volume of a shard that went because the size became smaller, after its keys have moved: Delete or Retain. The default is Delete.
    #[serde(default = "Retention::delete")]
    pub when_scaled: Retention,

    /// What becomes of the volumes when the cluster is deleted: Delete or Retain. The default is Delete.
    #[serde(default = "Retention::delete")]
    pub when_deleted: Retention,
}

impl Default for Storage {
    fn default() -> Self {
        Self {
            size: default_size(),
            storage_class_name: None,
            when_scaled: Retention::Delete,
            when_deleted: Retention::Delete,
        }
    }
}

fn default_size() -> Quantity {
    Quantity("1Gi".into())
}

/// How the default user proves who it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Auth {
    /// The Secret with the password; it may change while the cluster runs. The default is key password of Secret NAME-auth, made by the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_secret: Option<KeyReference>,
}

/// Each user has a password in a Secret, and rules that say what it may do.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(format!("!self.rules.matches('(?i)(^|[ ()])([><#!]|({})([ ()]|$))')", PASSWORD_RULES.join("|")))
    .message(Message::Message(format!("rules are about the password; they must be {USER_RULES}")))
    .field_path(".rules"))]
pub struct AclUser {
    /// Name of the user, at most 63 characters; default and roadstead are taken.
    #[schemars(length(min = 1, max = MAX_USER), regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9._@-]*$"))]
    #[x_kube(validation = Rule::new(format!("!(self in ['default', '{OPERATOR_USER}'])"))
        .message(Message::Expression(format!("'name is %s; it must be a name other than default, whose password is spec.auth, and {OPERATOR_USER}, the operator itself'.format([self])"))))]
    pub name: String,

    /// The Secret with the password; it may change while the cluster runs.
    pub password_secret: KeyReference,

    /// What the user may do, as in a Redis ACL, at most 1024 characters: for example ~app:* +@read +@write. Passwords are refused in it.
    #[schemars(length(min = 1, max = MAX_SETTING), regex(pattern = VALUE_PATTERN))]
    pub rules: String,
}

/// Where the certificate is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tls {
    /// Name of a Secret of type kubernetes.io/tls with tls.crt, tls.key and ca.crt, at most 253 characters; it may change while the cluster runs.
    #[schemars(length(min = 1, max = MAX_HOST), regex(pattern = NAME_PATTERN))]
    pub secret_name: String,
}

/// The container that exports metrics.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Exporter {
    /// Image of a redis_exporter, at most 500 characters. The default is the operator's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_IMAGE), regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9._:/@-]*$"))]
    pub image: Option<String>,

    /// CPU and memory of each exporter. The default is none: no promise and no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = request_within_limit("cpu"), validation = request_within_limit("memory"))]
    pub resources: Option<Resources>,
}

/// What the operator reports about a cluster.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RedisClusterStatus {
    /// Pending, Creating, Running, Updating, Scaling, Degraded, Failed, Paused or Deleting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,

    /// Ready, SlotsCovered, Progressing, Degraded and ScaleInBlocked.
    #[serde(default)]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,

    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Shards that exist.
    #[serde(default)]
    pub shards: i32,

    /// Nodes that are ready, replicas included.
    #[serde(default)]
    pub ready_nodes: i32,

    /// Hash slots that are served, of 16384.
    #[serde(default)]
    pub slots_assigned: i32,

    /// The nodes, sorted by pod.
    #[serde(default)]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["pod".into()]))]
    pub nodes: Vec<NodeStatus>,

    /// How far a change of the size is, while there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migration: Option<Migration>,

    /// Label selector of the pods, as text, for the scale subresource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
}

/// What a node said of itself when it was last asked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeStatus {
    /// Name of its pod.
    pub pod: String,

    /// Its id in the cluster, of 40 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,

    /// Primary or Replica.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,

    /// The number of its shard, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<i32>,

    /// Ranges of hash slots that it serves, such as 0-5460,10923.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<String>,

    /// Up or Down: of a replica, its link to its primary; of a primary, that to the other nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,

    /// How far it is in its shard's stream of changes, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<i64>,
}

/// How far hash slots are on their way to other shards.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Migration {
    /// Hash slots that have moved.
    #[serde(default)]
    pub slots_moved: i32,

    /// Hash slots that have to move in all.
    #[serde(default)]
    pub slots_total: i32,

    /// Keys that have moved.
    #[serde(default)]
    pub keys_moved: i64,

    /// When it will be done at the present speed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_end: Option<Time>,
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt;

    use super::*;

    #[test]
    fn the_resource_definition_is_what_users_see() {
        insta::assert_yaml_snapshot!(RedisCluster::crd());
    }

    #[test]
    fn what_kubectl_explain_prints_names_limits_and_defaults() {
        crate::api::testing::explains_itself(&RedisCluster::crd());
    }
}
