//! Where pods run, for the kinds that ask it of their authors. Smaller than a pod's own affinity, whose schema is longer than all the
//! rest of a kind.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::problem::Found;
use super::quantity::is_qualified_part;
use super::reference::NAME_PATTERN;
use super::rules::{MAX_HOST, is_dns_name};

/// Labels that a node may have to have.
pub const MAX_NODE_LABELS: usize = 32;
/// Tolerations of a pod.
pub const MAX_TOLERATIONS: usize = 32;
/// The longest key of a label: a DNS name, a slash and 63 characters.
pub const MAX_KEY: usize = 317;

/// Which nodes pods run on, and whether they share one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Placement {
    /// Labels that a node has to have, at most 32. The default is none: any node.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "labels")]
    pub node_selector: BTreeMap<String, String>,

    /// Taints that the pods put up with, at most 32, as in a pod. The default is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "tolerations")]
    pub tolerations: Vec<Toleration>,

    /// Whether pods that stand in for each other keep apart: Preferred, Required (a pod that finds no place of its own waits) or None. The default is Preferred.
    #[serde(default)]
    pub anti_affinity: AntiAffinity,

    /// Label of nodes that says what keeping apart means, at most 317 characters; topology.kubernetes.io/zone for zones. The default is kubernetes.io/hostname: nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_KEY))]
    pub topology_key: Option<String>,

    /// Name of the pods' PriorityClass, at most 253 characters. The default is the cluster's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_HOST), regex(pattern = NAME_PATTERN))]
    pub priority_class_name: Option<String>,
}

/// Whether pods that stand in for each other keep apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AntiAffinity {
    /// Where there is room.
    #[default]
    Preferred,
    /// Or wait.
    Required,
    /// They may share a node.
    None,
}

fn labels(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object", "maxProperties": MAX_NODE_LABELS,
        "additionalProperties": {"type": "string", "maxLength": 63},
    })
}

/// As [`Toleration`]'s own schema, without its pages of text.
fn tolerations(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "maxItems": MAX_TOLERATIONS, "x-kubernetes-list-type": "atomic", "items": {
        "type": "object",
        "description": "Each tolerates the taints that it matches.",
        "properties": {
            "key": {"type": "string", "maxLength": MAX_KEY, "description": "Key of the taint, at most 317 characters. The default is every key, with operator Exists."},
            "operator": {"type": "string", "enum": ["Exists", "Equal"], "description": "Whether the taint only has to exist or to have the value: Exists or Equal. The default is Equal."},
            "value": {"type": "string", "maxLength": 63, "description": "Value of the taint, at most 63 characters."},
            "effect": {"type": "string", "enum": ["NoSchedule", "PreferNoSchedule", "NoExecute"], "description": "NoSchedule, PreferNoSchedule or NoExecute. The default is every effect."},
            "tolerationSeconds": {"type": "integer", "format": "int64", "description": "For how many seconds a taint with NoExecute is put up with. The default is forever."},
        },
    }})
}

/// Has to be what the API server takes in a pod.
pub(super) fn check_placement(found: &mut Found, field: &str, placement: &Placement) {
    let key = "a label's key, such as disk or example.com/disk";
    let value = "a label's value: at most 63 of letters, digits and -._, beginning and ending with a letter or a digit";
    let at_most = |found: &mut Found, name: &str, count: usize, most: usize| {
        let (field, value) = (format!("{field}.{name}"), format!("a list of {count}"));
        found.expect(count <= most, &field, value, &format!("at most {most} entries"));
    };
    at_most(
        found,
        "nodeSelector",
        placement.node_selector.len(),
        MAX_NODE_LABELS,
    );
    at_most(found, "tolerations", placement.tolerations.len(), MAX_TOLERATIONS);
    for (name, label) in placement.node_selector.iter().take(MAX_NODE_LABELS) {
        found.expect(is_label_key(name), &format!("{field}.nodeSelector"), name, key);
        let at = format!("{field}.nodeSelector[{name}]");
        found.expect(is_label_value(label), &at, label, value);
    }
    for (i, toleration) in placement.tolerations.iter().take(MAX_TOLERATIONS).enumerate() {
        let field = format!("{field}.tolerations[{i}]");
        let of = |text: &Option<String>| text.clone().unwrap_or_default();
        let (taint, operator, wanted, effect) = (
            of(&toleration.key),
            of(&toleration.operator),
            of(&toleration.value),
            of(&toleration.effect),
        );
        let at = format!("{field}.operator");
        found.expect(
            matches!(&*operator, "" | "Exists" | "Equal"),
            &at,
            &operator,
            "Exists or Equal",
        );
        let at = format!("{field}.key");
        if taint.is_empty() {
            found.expect(
                operator == "Exists",
                &at,
                &taint,
                "a key, unless the operator is Exists",
            );
        } else {
            found.expect(is_label_key(&taint), &at, &taint, key);
        }
        let at = format!("{field}.value");
        if operator == "Exists" {
            found.expect(
                wanted.is_empty(),
                &at,
                &wanted,
                "left out where the operator is Exists",
            );
        } else {
            found.expect(is_label_value(&wanted), &at, &wanted, value);
        }
        let at = format!("{field}.effect");
        let is_effect = matches!(&*effect, "" | "NoSchedule" | "PreferNoSchedule" | "NoExecute");
        found.expect(
            is_effect,
            &at,
            &effect,
            "NoSchedule, PreferNoSchedule or NoExecute",
        );
        if let Some(seconds) = toleration.toleration_seconds {
            let at = format!("{field}.tolerationSeconds");
            found.expect(
                effect == "NoExecute",
                &at,
                seconds,
                "left out unless the effect is NoExecute",
            );
        }
    }
    if let Some(topology) = &placement.topology_key {
        let at = format!("{field}.topologyKey");
        found.expect(
            is_label_key(topology),
            &at,
            topology,
            "the key of a label of nodes",
        );
    }
    if let Some(class) = &placement.priority_class_name {
        let at = format!("{field}.priorityClassName");
        found.expect(is_dns_name(class), &at, class, "the name of a PriorityClass");
    }
}

fn is_label_key(text: &str) -> bool {
    match text.split_once('/') {
        Some((domain, name)) => is_dns_name(domain) && is_qualified_part(name),
        None => is_qualified_part(text),
    }
}

fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_qualified_part(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn problems(placement: Value) -> Vec<String> {
        let mut found = Found::default();
        check_placement(&mut found, "p", &serde_json::from_value(placement).unwrap());
        let problems = found.done().err();
        problems
            .iter()
            .flat_map(|p| p.list())
            .map(|p| p.field.clone())
            .collect()
    }

    #[rstest]
    #[case::nothing(json!({}))]
    #[case::selector(json!({"nodeSelector": {"kubernetes.io/arch": "amd64", "disk": ""}}))]
    #[case::everything_tolerated(json!({"tolerations": [{"operator": "Exists"}]}))]
    #[case::for_a_while(json!({"tolerations": [{"key": "a", "value": "b", "effect": "NoExecute", "tolerationSeconds": 30}]}))]
    #[case::zones(json!({"topologyKey": "topology.kubernetes.io/zone", "antiAffinity": "Required", "priorityClassName": "high"}))]
    fn a_placement_may_be(#[case] placement: Value) {
        assert_eq!(problems(placement), [""; 0]);
    }

    #[rstest]
    #[case::selector_key(json!({"nodeSelector": {"a b": ""}}), "p.nodeSelector")]
    #[case::selector_value(json!({"nodeSelector": {"a": "b\n"}}), "p.nodeSelector[a]")]
    #[case::no_key(json!({"tolerations": [{"value": "a"}]}), "p.tolerations[0].key")]
    #[case::key(json!({"tolerations": [{"key": "/a"}]}), "p.tolerations[0].key")]
    #[case::operator(json!({"tolerations": [{"key": "a", "operator": "In"}]}), "p.tolerations[0].operator")]
    #[case::value_with_exists(json!({"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]}), "p.tolerations[0].value")]
    #[case::value(json!({"tolerations": [{"key": "a", "value": "-"}]}), "p.tolerations[0].value")]
    #[case::effect(json!({"tolerations": [{"key": "a", "effect": "Never"}]}), "p.tolerations[0].effect")]
    #[case::seconds(json!({"tolerations": [{"key": "a", "tolerationSeconds": 1}]}), "p.tolerations[0].tolerationSeconds")]
    #[case::too_many(json!({"tolerations": vec![json!({"key": "a"}); 33]}), "p.tolerations")]
    #[case::topology(json!({"topologyKey": "a/b/c"}), "p.topologyKey")]
    #[case::priority(json!({"priorityClassName": "High"}), "p.priorityClassName")]
    fn a_wrong_field_is_named(#[case] placement: Value, #[case] field: &str) {
        assert_eq!(problems(placement), [field]);
    }

    proptest! {
        #[test]
        fn nothing_that_is_written_makes_it_panic(text in "\\PC{0,70}") {
            problems(json!({
                "nodeSelector": {text.clone(): text}, "topologyKey": text, "priorityClassName": text,
                "tolerations": [{"key": text, "operator": text, "value": text, "effect": text}],
            }));
        }
    }
}
