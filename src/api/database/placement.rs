//! Where the instances run. Part of [`super::v1`].

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::limits::{MAX_LABEL_KEY, MAX_NODE_LABELS, MAX_TOLERATIONS};
use super::names::{LABEL_KEY, LABEL_VALUE, is_label_key, is_label_value};
use crate::api::problem::Found;

/// Which nodes the instances run on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Placement {
    /// Labels that a node must have, at most 16. The default is none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "node_selector")]
    pub node_selector: BTreeMap<String, String>,

    /// Taints of nodes that the instances put up with, as in a pod, at most 16. The default is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "tolerations")]
    pub tolerations: Vec<Toleration>,

    /// Whether no two instances may run in the same place: preferred (unless there is no other) or required (never, and one too many waits). The default is preferred.
    #[serde(default)]
    pub anti_affinity: AntiAffinity,

    /// The label of nodes that says what a place is, at most 317 characters, such as topology.kubernetes.io/zone. The default is kubernetes.io/hostname: each node.
    #[serde(default = "default_topology_key")]
    #[schemars(length(min = 1, max = MAX_LABEL_KEY))]
    pub topology_key: String,
}

impl Default for Placement {
    fn default() -> Self {
        Self {
            node_selector: BTreeMap::new(),
            tolerations: Vec::new(),
            anti_affinity: AntiAffinity::Preferred,
            topology_key: default_topology_key(),
        }
    }
}

fn default_topology_key() -> String {
    "kubernetes.io/hostname".to_owned()
}

/// Whether no two instances may run in the same place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum AntiAffinity {
    /// They may where there is no other.
    #[default]
    Preferred,
    /// They never do.
    Required,
}

/// Strings, with the limits of labels.
fn node_selector(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "maxProperties": MAX_NODE_LABELS, "additionalProperties": {"type": "string", "maxLength": 63}})
}

/// As [`Toleration`]'s own schema, without the pages of text and with limits. Their key may repeat with another effect, and may be missing, so the
/// list has none.
fn tolerations(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "maxItems": MAX_TOLERATIONS, "items": {
        "type": "object",
        "description": "Each takes the taints that it matches.",
        "properties": {
            "key": {"type": "string", "maxLength": MAX_LABEL_KEY, "description": "The taint's key, at most 317 characters. The default is every key, with operator Exists."},
            "operator": {"type": "string", "enum": ["Equal", "Exists"], "description": "Equal (the value has to be the same) or Exists (any value). The default is Equal."},
            "value": {"type": "string", "maxLength": 63, "description": "The taint's value, at most 63 characters. The default is the empty one."},
            "effect": {"type": "string", "enum": ["NoSchedule", "PreferNoSchedule", "NoExecute"], "description": "The taint's effect: NoSchedule, PreferNoSchedule or NoExecute. The default is all of them."},
            "tolerationSeconds": {"type": "integer", "format": "int64", "description": "For how long, in seconds, with effect NoExecute. The default is for ever."},
        },
    }})
}

/// What a pod would be refused for.
pub(super) fn check(found: &mut Found, placement: &Placement) {
    let labels = &placement.node_selector;
    found.expect(
        labels.len() <= MAX_NODE_LABELS,
        "spec.placement.nodeSelector",
        format!("a map of {}", labels.len()),
        "at most 16 labels",
    );
    for (key, value) in labels.iter().take(MAX_NODE_LABELS) {
        found.expect(is_label_key(key), "spec.placement.nodeSelector", key, LABEL_KEY);
        let field = format!("spec.placement.nodeSelector.{key}");
        found.expect(is_label_value(value), &field, value, LABEL_VALUE);
    }
    found.expect(
        is_label_key(&placement.topology_key),
        "spec.placement.topologyKey",
        &placement.topology_key,
        LABEL_KEY,
    );
    found.expect(
        placement.tolerations.len() <= MAX_TOLERATIONS,
        "spec.placement.tolerations",
        format!("a list of {}", placement.tolerations.len()),
        "at most 16 tolerations",
    );
    for (i, toleration) in placement.tolerations.iter().take(MAX_TOLERATIONS).enumerate() {
        check_toleration(found, &format!("spec.placement.tolerations[{i}]"), toleration);
    }
}

fn check_toleration(found: &mut Found, field: &str, toleration: &Toleration) {
    let text = |part: &Option<String>| part.clone().unwrap_or_default();
    let (key, value) = (text(&toleration.key), text(&toleration.value));
    let (operator, effect) = (text(&toleration.operator), text(&toleration.effect));
    found.expect(
        key.is_empty() || is_label_key(&key),
        &format!("{field}.key"),
        &key,
        "the key of a taint, such as node.kubernetes.io/unreachable",
    );
    found.expect(
        matches!(operator.as_str(), "" | "Equal" | "Exists"),
        &format!("{field}.operator"),
        &operator,
        "Equal or Exists",
    );
    found.expect(
        !key.is_empty() || operator == "Exists",
        &format!("{field}.operator"),
        &operator,
        "Exists where there is no key",
    );
    found.expect(
        is_label_value(&value),
        &format!("{field}.value"),
        &value,
        LABEL_VALUE,
    );
    found.expect(
        value.is_empty() || operator != "Exists",
        &format!("{field}.value"),
        &value,
        "left out where the operator is Exists",
    );
    found.expect(
        matches!(
            effect.as_str(),
            "" | "NoSchedule" | "PreferNoSchedule" | "NoExecute"
        ),
        &format!("{field}.effect"),
        &effect,
        "NoSchedule, PreferNoSchedule or NoExecute",
    );
    if let Some(seconds) = toleration.toleration_seconds {
        found.expect(
            effect == "NoExecute",
            &format!("{field}.tolerationSeconds"),
            seconds,
            "left out unless the effect is NoExecute",
        );
    }
}
