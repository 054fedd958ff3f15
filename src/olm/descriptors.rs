//! What a console shows for each field of a custom resource, taken from the OpenAPI schema.

use serde_json::{Map, Value, json};

use super::manifests::{list, text};

/// Whether the field is one that a user writes or one that the operator reports; both have hints of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Fields of `spec`.
    Spec,
    /// Fields of `status`.
    Status,
}

/// One descriptor per field below `schema`, sorted by path: `path` (`upstreams[0].name`), `displayName`, `description` and
/// `x-descriptors`.
///
/// Fields inside a block that a console knows as a whole (resources, conditions) and inside maps have none of their own.
pub fn descriptors(schema: &Value, side: Side) -> Vec<Value> {
    let mut found = Vec::new();
    collect(schema, "", side, &mut found);
    found
}

fn collect(schema: &Value, prefix: &str, side: Side, found: &mut Vec<Value>) {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return;
    };
    let mut names: Vec<&String> = properties.keys().collect();
    names.sort();
    for name in names {
        let (field, path) = (&properties[name], format!("{prefix}{name}"));
        let hints = hints(name, field, side);
        found.push(descriptor(&path, name, field, &hints));
        if !hints.iter().any(|hint| WHOLE.contains(&hint.as_str())) {
            collect(field, &format!("{path}."), side, found);
            if let Some(items) = field.get("items") {
                collect(items, &format!("{path}[0]."), side, found);
            }
        }
    }
}

fn descriptor(path: &str, name: &str, field: &Value, hints: &[String]) -> Value {
    let mut descriptor = Map::new();
    descriptor.insert("path".into(), json!(path));
    descriptor.insert("displayName".into(), json!(display_name(name)));
    let description = text(field, "/description");
    if !description.is_empty() {
        descriptor.insert("description".into(), json!(description));
    }
    if !hints.is_empty() {
        descriptor.insert("x-descriptors".into(), json!(hints));
    }
    Value::Object(descriptor)
}

const RESOURCES: &str = "urn:alm:descriptor:com.tectonic.ui:resourceRequirements";
const CONDITIONS: &str = "urn:alm:descriptor:io.kubernetes.conditions";
const WHOLE: [&str; 2] = [RESOURCES, CONDITIONS];

/// The console's widget for a field, where the schema makes it obvious.
fn hints(name: &str, field: &Value, side: Side) -> Vec<String> {
    let known = |property: &str| field.pointer(&format!("/properties/{property}")).is_some();
    let kind = text(field, "/type");
    let choices = list(field, "/enum");
    let one = |hint: &str| vec![hint.to_owned()];
    match (side, kind) {
        (Side::Status, "array") if name == "conditions" => one(CONDITIONS),
        (Side::Status, "string") if name == "phase" => one("urn:alm:descriptor:io.kubernetes.phase"),
        (Side::Status, "string" | "integer") => one("urn:alm:descriptor:text"),
        (Side::Spec, "object") if known("limits") && known("requests") => one(RESOURCES),
        (Side::Spec, "integer") if name == "replicas" => one("urn:alm:descriptor:com.tectonic.ui:podCount"),
        (Side::Spec, "integer") => one("urn:alm:descriptor:com.tectonic.ui:number"),
        (Side::Spec, "boolean") => one("urn:alm:descriptor:com.tectonic.ui:booleanSwitch"),
        (Side::Spec, "string") if !choices.is_empty() => {
            let choice = |value| format!("urn:alm:descriptor:com.tectonic.ui:select:{value}");
            choices.iter().filter_map(Value::as_str).map(choice).collect()
        }
        (Side::Spec, "string") if is_secret(name) => one("urn:alm:descriptor:io.kubernetes:Secret"),
        (Side::Spec, "string") => one("urn:alm:descriptor:com.tectonic.ui:text"),
        _ => Vec::new(),
    }
}

fn is_secret(name: &str) -> bool {
    ["secret", "secret_name", "secretname"]
        .iter()
        .any(|end| name.to_ascii_lowercase().ends_with(end))
}

/// `pod_names` and `podNames` are both "Pod Names"; a run of capitals stays together ("coordinatorURL" is "Coordinator URL").
fn display_name(name: &str) -> String {
    let mut words = String::new();
    let mut previous = '_';
    for character in name.chars() {
        if previous == '_' {
            if !words.is_empty() {
                words.push(' ');
            }
            words.extend(character.to_uppercase());
        } else if character.is_uppercase() && previous.is_lowercase() {
            words.push(' ');
            words.push(character);
        } else if character != '_' {
            words.push(character);
        }
        previous = character;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_display_name_is_made_of_words() {
        for (name, expected) in [
            ("pod_names", "Pod Names"),
            ("podNames", "Pod Names"),
            ("coordinatorURL", "Coordinator URL"),
            ("name", "Name"),
            ("tls_secret", "Tls Secret"),
        ] {
            assert_eq!(display_name(name), expected);
        }
    }

    #[test]
    fn every_field_has_a_descriptor_and_known_blocks_are_not_opened() {
        let schema = json!({"properties": {
            "upstreams": {"type": "array", "items": {"type": "object", "properties": {
                "name": {"type": "string", "description": "What routes call it."},
            }}},
            "resources": {"type": "object", "properties": {"limits": {}, "requests": {}}},
            "size": {"type": "string", "enum": ["small", "large"]},
            "replicas": {"type": "integer"},
            "tls_secret": {"type": "string"},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        }});
        let found = descriptors(&schema, Side::Spec);
        let paths: Vec<_> = found.iter().map(|descriptor| text(descriptor, "/path")).collect();
        assert_eq!(
            paths,
            [
                "labels",
                "replicas",
                "resources",
                "size",
                "tls_secret",
                "upstreams",
                "upstreams[0].name"
            ]
        );
        assert_eq!(list(&found[3], "/x-descriptors").len(), 2, "one per choice");
        assert_eq!(
            found[4]["x-descriptors"],
            json!(["urn:alm:descriptor:io.kubernetes:Secret"])
        );
        assert_eq!(found[6]["description"], "What routes call it.");
    }

    #[test]
    fn conditions_of_a_status_are_one_descriptor() {
        let schema = json!({"properties": {"conditions": {"type": "array", "items": {"properties": {"type": {"type": "string"}}}}}});
        let found = descriptors(&schema, Side::Status);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0]["x-descriptors"], json!([CONDITIONS]));
    }
}
