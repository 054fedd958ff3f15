//! What a schema requires, field by field.

use serde_json::{Map, Value, json};

/// Fields of Kubernetes that are newer than what is known of their own fields.
const NEWER: [&str; 4] = [
    "fileKeyRef",
    "podCertificate",
    "restartPolicyRules",
    "workloadRef",
];

/// A value of a schema, with each of its fields, or with those alone that it requires.
pub fn value(schema: &Value, is_whole: bool) -> Value {
    if schema["x-kubernetes-int-or-string"] == true {
        return json!(1);
    }
    match schema["type"].as_str().unwrap_or_default() {
        "object" => {
            let required = schema["required"].as_array().cloned().unwrap_or_default();
            let fields = schema["properties"].as_object().cloned().unwrap_or_default();
            let fields = fields
                .into_iter()
                .filter(|(name, _)| is_whole || required.contains(&json!(name)));
            let fields = fields.map(|(name, schema)| (name, value(&schema, is_whole)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        "array" => json!([value(&schema["items"], is_whole)]),
        "integer" | "number" => json!(1),
        "boolean" => json!(true),
        // What is owned is looked for by its name
        _ => json!("widgets.example.org"),
    }
}

/// Each field that is required: the way to it, and a specification that has it and little else.
pub fn required(
    schema: &Value,
    at: &str,
    around: &dyn Fn(Value) -> Value,
    told: &mut dyn FnMut(String, Value),
) {
    for name in schema["required"].as_array().into_iter().flatten() {
        let name = name.as_str().unwrap();
        told(format!("{at}/{name}"), around(value(schema, false)));
    }
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        if NEWER.contains(&name.as_str()) {
            continue;
        }
        let with = |field: Value| {
            let mut whole = value(schema, false);
            whole[name.as_str()] = field;
            around(whole)
        };
        required(inner, &format!("{at}/{name}"), &with, told);
    }
    if schema["items"].is_object() {
        let with = |item: Value| around(json!([item]));
        required(&schema["items"], &format!("{at}/0"), &with, told);
    }
}
