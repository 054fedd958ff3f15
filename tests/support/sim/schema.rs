//! Admission of custom resources by their definition in crds/: pruning, defaults, the schema and its CEL rules.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;

use jsonschema::Validator;
use jsonschema::error::ValidationErrorKind;
use kube_cel::{CompiledSchema, compile_schema};
use serde_json::{Map, Value, json};

use super::kinds::{KINDS, Kind};
use super::shape::Shape;
use super::status::Refusal;

/// What is known of a custom resource.
struct Definition {
    schema: Value,
    structural: Validator,
    rules: CompiledSchema,
    /// Whether some rule is about the status.
    judges_status: bool,
}

thread_local! {
    /// Made once: it holds all the functions that a rule may use.
    static CEL: kube_cel::Validator = kube_cel::Validator::new();
}

fn definition(kind: &Kind) -> &'static Definition {
    static DEFINITIONS: OnceLock<BTreeMap<&str, Definition>> = OnceLock::new();
    let definitions = DEFINITIONS.get_or_init(|| {
        let custom = KINDS.iter().filter(|kind| kind.decode.is_none());
        custom
            .map(|kind| (kind.kind, Definition::read(kind.definition)))
            .collect()
    });
    &definitions[kind.kind]
}

impl Definition {
    fn read(file: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let crd: Value = serde_yaml::from_str(&text).unwrap_or_else(|error| panic!("{file}: {error}"));
        // The operator, and whoever plays with it here, knows the objects as they are stored: nothing is converted.
        let mut versions = crd["spec"]["versions"].as_array().into_iter().flatten();
        let version = versions
            .find(|version| version["storage"] == true)
            .unwrap_or_else(|| panic!("{file}: no version is stored"));
        let schema = version["schema"]["openAPIV3Schema"].clone();
        let structural = jsonschema::options()
            .build(&as_json_schema(&schema))
            .unwrap_or_else(|error| panic!("{file}: {error}"));
        let rules = compile_schema(&schema);
        assert!(!rules.has_errors(), "{file}: {:?}", rules.compilation_errors());
        let judges_status = schema["properties"]["status"]
            .to_string()
            .contains("x-kubernetes-validations");
        Self {
            schema,
            structural,
            rules,
            judges_status,
        }
    }
}

/// The same in plain JSON Schema: what may be null says so there by its type.
fn as_json_schema(schema: &Value) -> Value {
    let Some(map) = schema.as_object() else {
        return schema.clone();
    };
    let mut plain = Map::new();
    for (name, value) in map {
        let value = match name.as_str() {
            "properties" => {
                let fields = value.as_object().into_iter().flatten();
                fields
                    .map(|(name, field)| (name.clone(), as_json_schema(field)))
                    .collect()
            }
            "items" | "additionalProperties" => as_json_schema(value),
            "type" | "required" | "pattern" | "enum" => value.clone(),
            limit if limit.starts_with("min") || limit.starts_with("max") => value.clone(),
            "allOf" | "anyOf" | "oneOf" | "not" | "x-kubernetes-preserve-unknown-fields" => {
                panic!("{name} in a schema is not simulated")
            }
            _ => continue,
        };
        plain.insert(name.clone(), value);
    }
    if schema["x-kubernetes-int-or-string"] == true {
        plain.insert("type".to_owned(), json!(["integer", "string"]));
    }
    if schema["nullable"] == true {
        let with_null = json!([plain["type"], "null"]);
        plain.insert("type".to_owned(), with_null);
    }
    Value::Object(plain)
}

/// The field of a schema at `path`, in which elements of lists take no step of their own.
fn at<'a>(schema: &'a Value, path: &[&str]) -> Option<&'a Value> {
    let mut at = schema;
    for name in path {
        while at["items"].is_object() {
            at = &at["items"];
        }
        at = at["properties"]
            .get(*name)
            .or_else(|| at.get("additionalProperties"))?;
    }
    Some(at)
}

/// The schema of what people write.
pub fn of_spec(kind: &Kind) -> &'static Value {
    &definition(kind).schema["properties"]["spec"]
}

/// How a list of a custom resource is merged.
pub fn list_shape(kind: &Kind, path: &[&str]) -> Shape {
    let field = at(&definition(kind).schema, path).unwrap_or(&Value::Null);
    match field["x-kubernetes-list-type"].as_str() {
        Some("map") => {
            let keys = field["x-kubernetes-list-map-keys"]
                .as_array()
                .into_iter()
                .flatten();
            Shape::Keyed(
                keys.filter_map(|key| Some((key.as_str()?.to_owned(), None)))
                    .collect(),
            )
        }
        Some("set") => Shape::Set,
        _ => Shape::Atomic,
    }
}

/// Takes away what the schema does not know and fills in its defaults.
pub fn normalise(kind: &Kind, object: &mut Value) {
    let definition = definition(kind);
    for field in ["spec", "status"] {
        let Some(value) = object.get_mut(field) else {
            continue;
        };
        if !prune(&definition.schema["properties"][field], value) {
            object.as_object_mut().map(|object| object.remove(field));
        }
    }
    if let Some(object) = object.as_object_mut() {
        object.retain(|field, _| {
            ["apiVersion", "kind", "metadata", "spec", "status"].contains(&field.as_str())
        });
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.retain(|_, value| *value != json!([]) && *value != json!({}));
        }
    }
    *object = kube_cel::apply_defaults(&definition.schema, object);
}

/// False when the value itself has to go: a null where there may be none.
fn prune(schema: &Value, value: &mut Value) -> bool {
    match value {
        Value::Null => return schema["nullable"] == true,
        Value::Object(map) => {
            let extra = schema.get("additionalProperties");
            map.retain(|name, inner| {
                let schema = schema["properties"].get(name).or(extra);
                schema.is_some_and(|schema| prune(schema, inner))
            });
        }
        Value::Array(list) => list.iter_mut().for_each(|element| {
            prune(&schema["items"], element);
        }),
        _ => {}
    }
    true
}

/// Refuses what the schema or its rules refuse.
pub fn validate(kind: &Kind, object: &Value, old: Option<&Value>) -> Result<(), Refusal> {
    let definition = definition(kind);
    let mut problems: Vec<String> = definition
        .structural
        .iter_errors(object)
        .map(|error| {
            let place = dotted(error.instance_path().as_str());
            match error.kind() {
                ValidationErrorKind::Required { property } => {
                    format!(
                        "{place}.{}: Required value",
                        property.as_str().unwrap_or_default()
                    )
                }
                _ => format!("{place}: Invalid value: {error}"),
            }
        })
        .collect();
    problems.extend(repeated_keys(&definition.schema, object, String::new()));
    // The API server does not ask the rules about what the schema refuses. Of what is as it was they have said yes already.
    let is_as_it_was = |old: &Value| old["spec"] == object["spec"] && !definition.judges_status;
    if problems.is_empty()
        && !old.is_some_and(is_as_it_was)
        && let Err(errors) = CEL.with(|cel| cel.validate_compiled(&definition.rules, object, old))
    {
        problems = errors
            .as_slice()
            .iter()
            .map(|error| format!("{}: Invalid value: {}", error.field_path, error.message))
            .collect();
    }
    if problems.is_empty() {
        return Ok(());
    }
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    Err(Refusal::invalid(kind, name, &problems))
}

/// `/spec/routes/0/path` as the API server writes it: `spec.routes[0].path`.
fn dotted(pointer: &str) -> String {
    let mut text = String::new();
    for part in pointer.split('/').filter(|part| !part.is_empty()) {
        if part.bytes().all(|byte| byte.is_ascii_digit()) {
            text.push_str(&format!("[{part}]"));
        } else {
            text.push_str(if text.is_empty() { "" } else { "." });
            text.push_str(part);
        }
    }
    text
}

/// Elements of a keyed list that have the same keys.
fn repeated_keys(schema: &Value, value: &Value, path: String) -> Vec<String> {
    let mut problems = Vec::new();
    match value {
        Value::Object(map) => {
            for (name, inner) in map {
                let dot = if path.is_empty() { "" } else { "." };
                problems.extend(repeated_keys(
                    &schema["properties"][name],
                    inner,
                    format!("{path}{dot}{name}"),
                ));
            }
        }
        Value::Array(list) => {
            let keys = schema["x-kubernetes-list-map-keys"].as_array();
            for (place, element) in list.iter().enumerate() {
                let same = |other: &&Value| {
                    keys.is_some_and(|keys| {
                        keys.iter()
                            .filter_map(Value::as_str)
                            .all(|key| other[key] == element[key])
                    })
                };
                if list[..place].iter().any(|other| same(&other)) {
                    problems.push(format!("{path}[{place}]: Duplicate value: {element}"));
                }
                problems.extend(repeated_keys(
                    &schema["items"],
                    element,
                    format!("{path}[{place}]"),
                ));
            }
        }
        _ => {}
    }
    problems
}
