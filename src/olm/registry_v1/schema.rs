//! Whether an object is valid by a structural schema, as far as a person would see from both: types, required and unknown fields, bounds, choices.
//! Patterns, formats and rules in CEL are the API server's to judge.

use serde_json::Value;

use crate::olm::manifests::{list, text};

/// How an object breaks its schema, each with the field.
pub(super) fn breaches(schema: &Value, object: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let Some(fields) = object.as_object() else {
        return found;
    };
    for (name, value) in fields {
        // Every object has these
        if ["apiVersion", "kind", "metadata"].contains(&name.as_str()) {
            continue;
        }
        match &schema["properties"][name] {
            Value::Null if is_open(schema) => {}
            Value::Null => found.push(format!("{name} is no field of its schema")),
            inner => walk(inner, value, name, &mut found),
        }
    }
    required(schema, object, "", &mut found);
    found
}

/// How a default does not fit the schema that it is part of.
pub(super) fn breaches_of_default(schema: &Value, default: &Value) -> Vec<String> {
    let mut found = Vec::new();
    walk(schema, default, "the default", &mut found);
    found
}

fn is_open(schema: &Value) -> bool {
    schema["x-kubernetes-preserve-unknown-fields"] == true || schema["x-kubernetes-embedded-resource"] == true
}

fn walk(schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    if value.is_null() {
        return;
    }
    if !has_type(schema, value) {
        let accepted = match text(schema, "/type") {
            "" => "a number or text",
            accepted => accepted,
        };
        return found.push(format!("{at} is {value}; its schema says {accepted}"));
    }
    let choices = list(schema, "/enum");
    if !choices.is_empty() && !choices.contains(value) {
        let choices: Vec<String> = choices.iter().map(Value::to_string).collect();
        found.push(format!("{at} is {value}; accepted are {}", choices.join(", ")));
    }
    bounds(schema, value, at, found);
    let is_open_list = is_open(schema) && schema["items"].is_null();
    let items = value.as_array().into_iter().flatten().enumerate();
    for (index, item) in items.filter(|_| !is_open_list) {
        walk(&schema["items"], item, &format!("{at}[{index}]"), found);
    }
    let Some(fields) = value.as_object() else { return };
    required(schema, value, &format!("{at}."), found);
    for (name, value) in fields {
        // Every object has these
        if schema["x-kubernetes-embedded-resource"] == true
            && ["apiVersion", "kind", "metadata"].contains(&name.as_str())
        {
            continue;
        }
        let inner = format!("{at}.{name}");
        let (property, others) = (&schema["properties"][name], &schema["additionalProperties"]);
        match (property, others) {
            (Value::Null, Value::Object(_)) => walk(others, value, &inner, found),
            (Value::Null, Value::Bool(true)) => {}
            (Value::Null, _) if is_open(schema) => {}
            (Value::Null, _) => found.push(format!("{inner} is no field of its schema")),
            (property, _) => walk(property, value, &inner, found),
        }
    }
}

fn required(schema: &Value, object: &Value, before: &str, found: &mut Vec<String>) {
    for name in list(schema, "/required").iter().filter_map(Value::as_str) {
        let has_default = !schema["properties"][name]["default"].is_null();
        if object[name].is_null() && !has_default {
            found.push(format!("{before}{name} is missing"));
        }
    }
}

fn has_type(schema: &Value, value: &Value) -> bool {
    if schema["x-kubernetes-int-or-string"] == true {
        return value.is_i64() || value.is_u64() || value.is_string();
    }
    match text(schema, "/type") {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "number" => value.is_number(),
        // 1.0 is one as well
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        _ => true,
    }
}

fn bounds(schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    let measured = match value {
        Value::Number(number) => [("minimum", "maximum", number.as_f64())],
        Value::String(text) => [("minLength", "maxLength", Some(text.chars().count() as f64))],
        Value::Array(items) => [("minItems", "maxItems", Some(items.len() as f64))],
        Value::Object(fields) => [("minProperties", "maxProperties", Some(fields.len() as f64))],
        _ => return,
    };
    for (least, most, measure) in measured {
        let Some(measure) = measure else { continue };
        if schema[least].as_f64().is_some_and(|bound| measure < bound) {
            found.push(format!("{at} is {value}; {least} is {}", schema[least]));
        }
        if schema[most].as_f64().is_some_and(|bound| measure > bound) {
            found.push(format!("{at} is {value}; {most} is {}", schema[most]));
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({"type": "object", "required": ["spec"], "properties": {
            "spec": {"type": "object", "required": ["size", "mode"], "properties": {
                "size": {"type": "string", "enum": ["small", "large"]},
                "mode": {"type": "string", "default": "a"},
                "count": {"type": "integer", "minimum": 1, "maximum": 3},
                "port": {"x-kubernetes-int-or-string": true},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "names": {"type": "array", "minItems": 1, "items": {"type": "string"}}
            }}
        }})
    }

    #[test]
    fn what_is_valid_has_no_breach() {
        let object = json!({"apiVersion": "a/v1", "kind": "A", "metadata": {"name": "a"}, "spec": {
            "size": "small", "count": 2, "port": "http", "labels": {"a": "b"}, "any": {"x": 1}, "names": ["a"]
        }});
        assert_eq!(breaches(&schema(), &object), [""; 0]);
    }

    #[rstest]
    #[case(json!({}), "spec is missing")]
    #[case(json!({"spec": {}}), "spec.size is missing")]
    #[case(json!({"spec": {"size": "tiny"}}), "spec.size is \"tiny\"; accepted are \"small\", \"large\"")]
    #[case(json!({"spec": {"size": "small", "count": 9}}), "spec.count is 9; maximum is 3")]
    #[case(json!({"spec": {"size": "small", "count": "2"}}), "spec.count is \"2\"; its schema says integer")]
    #[case(json!({"spec": {"size": "small", "labels": {"a": 1}}}), "spec.labels.a is 1; its schema says string")]
    #[case(json!({"spec": {"size": "small", "names": [1]}}), "spec.names[0] is 1; its schema says string")]
    #[case(json!({"spec": {"size": "small", "sizes": 1}}), "spec.sizes is no field of its schema")]
    #[case(json!({"spec": {"size": "small"}, "status": {}}), "status is no field of its schema")]
    fn a_breach_names_the_field(#[case] object: Value, #[case] told: &str) {
        assert_eq!(breaches(&schema(), &object), [told]);
    }
}
