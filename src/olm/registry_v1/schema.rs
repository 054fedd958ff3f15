//! Whether an object is valid by a structural schema, as far as a person would see from both: types, required and unknown fields, bounds, choices.
//! Patterns, formats and rules in CEL are the API server's to judge.

use serde_json::Value;

use crate::olm::manifests::{list, text};

/// How an object breaks its schema, each with the field.
pub(in crate::olm) fn breaches(schema: &Value, object: &Value) -> Vec<String> {
    let mut walk = Walk {
        found: Vec::new(),
        defaults_apply: true,
    };
    for (name, value) in object.as_object().into_iter().flatten() {
        // Every object has these
        if ["apiVersion", "kind", "metadata"].contains(&name.as_str()) {
            continue;
        }
        match &schema["properties"][name] {
            Value::Null if is_open(schema) => {}
            Value::Null => walk.tell(format!("{name} is no field of its schema")),
            inner => walk.value(inner, value, name),
        }
    }
    walk.required(schema, object, "");
    walk.found
}

/// How a default does not fit the schema that it is part of. What is missing in it no other default adds.
pub(super) fn breaches_of_default(schema: &Value, default: &Value) -> Vec<String> {
    let mut walk = Walk {
        found: Vec::new(),
        defaults_apply: false,
    };
    walk.value(schema, default, "the default");
    walk.found
}

/// Whether two values are the same, however their numbers are written.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        // Large integers that differ may be the same as floats
        (Value::Number(one), Value::Number(other)) => {
            one == other || ((one.is_f64() || other.is_f64()) && one.as_f64() == other.as_f64())
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let has = |(name, one)| other.get(name).is_some_and(|other| is_same(one, other));
            one.len() == other.len() && one.iter().all(has)
        }
        _ => one == other,
    }
}

fn is_open(schema: &Value) -> bool {
    schema["x-kubernetes-preserve-unknown-fields"] == true || schema["x-kubernetes-embedded-resource"] == true
}

struct Walk {
    found: Vec<String>,
    /// Whether what is missing is there if it has a default.
    defaults_apply: bool,
}

impl Walk {
    fn tell(&mut self, breach: String) {
        self.found.push(breach);
    }

    fn value(&mut self, schema: &Value, value: &Value, at: &str) {
        if value.is_null() {
            return;
        }
        if !has_type(schema, value) {
            let accepted = match text(schema, "/type") {
                "" => "a number or text",
                accepted => accepted,
            };
            return self.tell(format!("{at} is {value}; its schema says {accepted}"));
        }
        let choices = list(schema, "/enum");
        if !choices.is_empty() && !choices.iter().any(|choice| is_same(choice, value)) {
            let choices: Vec<String> = choices.iter().map(Value::to_string).collect();
            self.tell(format!("{at} is {value}; accepted are {}", choices.join(", ")));
        }
        self.bounds(schema, value, at);
        let is_open_list = is_open(schema) && schema["items"].is_null();
        let items = value.as_array().into_iter().flatten().enumerate();
        for (index, item) in items.filter(|_| !is_open_list) {
            self.value(&schema["items"], item, &format!("{at}[{index}]"));
        }
        let Some(fields) = value.as_object() else { return };
        self.required(schema, value, &format!("{at}."));
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
                (Value::Null, Value::Object(_)) => self.value(others, value, &inner),
                (Value::Null, Value::Bool(true)) => {}
                (Value::Null, _) if is_open(schema) => {}
                (Value::Null, _) => self.tell(format!("{inner} is no field of its schema")),
                (property, _) => self.value(property, value, &inner),
            }
        }
    }

    fn required(&mut self, schema: &Value, object: &Value, before: &str) {
        for name in list(schema, "/required").iter().filter_map(Value::as_str) {
            let has_default = self.defaults_apply && !schema["properties"][name]["default"].is_null();
            if object[name].is_null() && !has_default {
                self.tell(format!("{before}{name} is missing"));
            }
        }
    }

    fn bounds(&mut self, schema: &Value, value: &Value, at: &str) {
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
                self.tell(format!("{at} is {value}; {least} is {}", schema[least]));
            }
            if schema[most].as_f64().is_some_and(|bound| measure > bound) {
                self.tell(format!("{at} is {value}; {most} is {}", schema[most]));
            }
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
