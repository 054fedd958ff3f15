//! How server-side apply merges a place in an object: by field, by key, or as one value. From the API's own markers
//! (`x-kubernetes-list-type`, `-map-keys`, `-map-type`) for what the product writes, and from the resource definition for its own kinds.

use serde_json::Value;

use super::kinds::Kind;
use super::schema;

/// How the value at a place is merged.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// Field by field, or key by key.
    Granular,
    /// Whoever owns it owns all of it.
    Atomic,
    /// A list whose elements are told apart by these fields; the second of each pair is the value where the field is missing.
    Keyed(Vec<(String, Option<Value>)>),
    /// A list of scalars, each of which is owned for itself.
    Set,
}

/// The shape of the object or list at `path`, which consists of field names alone.
pub fn shape(kind: &Kind, path: &[&str], value: &Value) -> Shape {
    match value {
        Value::Object(_) if is_atomic_map(kind, path) => Shape::Atomic,
        Value::Object(_) => Shape::Granular,
        Value::Array(_) => list(kind, path),
        _ => Shape::Atomic,
    }
}

fn is_atomic_map(kind: &Kind, path: &[&str]) -> bool {
    kind.decode.is_some()
        && matches!(
            path,
            [.., "labelSelector" | "nodeSelector" | "fieldRef"] | ["spec", "selector"] | ["roleRef"]
        )
}

fn list(kind: &Kind, path: &[&str]) -> Shape {
    let keyed = |keys: &[&str]| Shape::Keyed(keys.iter().map(|key| ((*key).to_owned(), None)).collect());
    let with_protocol = |port: &str| {
        Shape::Keyed(vec![
            (port.to_owned(), None),
            ("protocol".to_owned(), Some(Value::from("TCP"))),
        ])
    };
    match path {
        ["metadata", "ownerReferences"] => return keyed(&["uid"]),
        ["metadata", "finalizers"] => return Shape::Set,
        _ => {}
    }
    if kind.decode.is_none() {
        return schema::list_shape(kind, path);
    }
    match path {
        [.., "containers" | "initContainers", "ports"] => with_protocol("containerPort"),
        ["spec", "ports"] if kind.is("Service") => with_protocol("port"),
        [
            ..,
            "containers" | "initContainers" | "volumes" | "env" | "imagePullSecrets",
        ] => keyed(&["name"]),
        [.., "volumeMounts"] => keyed(&["mountPath"]),
        [.., "topologySpreadConstraints"] => keyed(&["topologyKey", "whenUnsatisfiable"]),
        ["status", "conditions"] if !kind.is("Job") => keyed(&["type"]),
        [
            "status",
            "conditions" | "containerStatuses" | "initContainerStatuses",
        ]
        | [
            ..,
            "command"
            | "args"
            | "drop"
            | "add"
            | "matchLabelKeys"
            | "items"
            | "tolerations"
            | "preferredDuringSchedulingIgnoredDuringExecution"
            | "requiredDuringSchedulingIgnoredDuringExecution",
        ]
        | ["spec", "volumeClaimTemplates"]
        | ["spec" | "status", "accessModes"]
        | ["rules" | "subjects"]
        | ["spec", "clusterIPs" | "ipFamilies"] => Shape::Atomic,
        other => panic!(
            "how the list {} of {} is merged is not simulated",
            other.join("."),
            kind.kind
        ),
    }
}
