//! Whether an OpenAPI schema is structural, as the API server asks of definitions (`ValidateStructural`, `ValidateCustomResourceDefinitionOpenAPISchema`).

use serde_json::Value;

use super::pointer::escaped;
use crate::olm::manifests::{list, text};

const TYPES: [&str; 6] = ["object", "array", "string", "integer", "number", "boolean"];
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
/// What the API server does not let a schema say at all.
const FORBIDDEN: [&str; 6] = [
    "$ref",
    "definitions",
    "dependencies",
    "patternProperties",
    "additionalItems",
    "id",
];
/// What a schema within `allOf` and the like may not say: it only restricts what stands outside.
const OUTSIDE: [&str; 6] = [
    "type",
    "default",
    "additionalProperties",
    "nullable",
    "title",
    "description",
];
const LOGICAL: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// Where a schema is not structural, as JSON pointers into it, and why.
pub(super) fn breaches(schema: &Value) -> Vec<(String, String)> {
    let mut walk = Walk(Vec::new());
    if schema["type"] != "object" {
        walk.tell("/type", "must be object");
    }
    walk.structural("", schema);
    walk.metadata(schema);
    walk.0
}

struct Walk(Vec<(String, String)>);

impl Walk {
    fn tell(&mut self, at: &str, why: impl Into<String>) {
        self.0.push((at.to_owned(), why.into()));
    }

    /// A schema that says what is there, and not only how it is restricted.
    fn structural(&mut self, at: &str, schema: &Value) {
        if !schema.is_object() {
            return self.tell(at, "must be a schema");
        }
        let is_open = schema[INT_OR_STRING] == true || schema[PRESERVE] == true;
        match text(schema, "/type") {
            "" if is_open => {}
            "" => self.tell(at, "has no type"),
            _ if schema[INT_OR_STRING] == true => {
                self.tell(
                    &format!("{at}/type"),
                    format!("must be left out beside {INT_OR_STRING}"),
                );
            }
            known if TYPES.contains(&known) => {}
            other => self.tell(
                &format!("{at}/type"),
                format!("is {other:?}; accepted are {}", TYPES.join(", ")),
            ),
        }
        self.common(at, schema);
        self.lists(at, schema);
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            self.structural(&format!("{at}/properties/{}", escaped(name)), property);
        }
        if schema["additionalProperties"].is_object() {
            self.structural(
                &format!("{at}/additionalProperties"),
                &schema["additionalProperties"],
            );
        }
        if schema["items"].is_object() {
            self.structural(&format!("{at}/items"), &schema["items"]);
        }
        self.logical(at, schema);
    }

    /// What no schema may say, wherever it stands.
    fn common(&mut self, at: &str, schema: &Value) {
        for field in FORBIDDEN {
            if !schema[field].is_null() {
                self.tell(&format!("{at}/{field}"), "is not accepted");
            }
        }
        if schema["uniqueItems"] == true {
            self.tell(
                &format!("{at}/uniqueItems"),
                "must not be true; write x-kubernetes-list-type: set",
            );
        }
        if schema[PRESERVE] == false {
            self.tell(&format!("{at}/{PRESERVE}"), "must be true or left out");
        }
        if schema["additionalProperties"] == false {
            self.tell(&format!("{at}/additionalProperties"), "must not be false");
        }
        if schema["properties"].is_object() && !schema["additionalProperties"].is_null() {
            self.tell(
                &format!("{at}/additionalProperties"),
                "must not stand beside properties",
            );
        }
        if schema["items"].is_array() {
            self.tell(&format!("{at}/items"), "must be one schema, not a list");
        }
    }

    fn lists(&mut self, at: &str, schema: &Value) {
        if schema["type"] == "array" && schema["items"].is_null() {
            self.tell(at, "is an array and has no items");
        }
        let kind = text(schema, "/x-kubernetes-list-type");
        if !["", "atomic", "set", "map"].contains(&kind) {
            let why = format!("is {kind:?}; accepted are atomic, set and map");
            self.tell(&format!("{at}/x-kubernetes-list-type"), why);
        }
        let keys = list(schema, "/x-kubernetes-list-map-keys");
        if (kind == "map") == keys.is_empty() {
            let why = "and x-kubernetes-list-type: map go together";
            self.tell(&format!("{at}/x-kubernetes-list-map-keys"), why);
        }
        for key in keys.iter().filter_map(Value::as_str) {
            let item = &schema["items"];
            let property = &item["properties"][key];
            let is_required = list(item, "/required").iter().any(|required| required == key);
            if property.is_null() {
                let why = format!("names {key}, which its items do not have");
                self.tell(&format!("{at}/x-kubernetes-list-map-keys"), why);
            } else if !is_required && property["default"].is_null() {
                let why = format!("names {key}, which is neither required nor has a default");
                self.tell(&format!("{at}/x-kubernetes-list-map-keys"), why);
            }
        }
    }

    fn logical(&mut self, at: &str, schema: &Value) {
        for junctor in LOGICAL {
            for (index, inner) in list(schema, &format!("/{junctor}")).iter().enumerate() {
                self.restriction(&format!("{at}/{junctor}/{index}"), inner, schema);
            }
        }
        if schema["not"].is_object() {
            self.restriction(&format!("{at}/not"), &schema["not"], schema);
        }
    }

    /// A schema within a logical one. `outside` is what it restricts.
    fn restriction(&mut self, at: &str, schema: &Value, outside: &Value) {
        for field in OUTSIDE {
            // The one pattern in which a type may stand here
            let is_pattern = field == "type" && outside[INT_OR_STRING] == true;
            if !schema[field].is_null() && !is_pattern {
                self.tell(
                    &format!("{at}/{field}"),
                    "must stand outside of allOf, anyOf, oneOf and not",
                );
            }
        }
        self.common(at, schema);
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let inner = format!("{at}/properties/{}", escaped(name));
            let stands_for = &outside["properties"][name];
            if stands_for.is_null() && outside["additionalProperties"].is_null() && outside[PRESERVE] != true
            {
                self.tell(&inner, "restricts what the schema outside does not have");
            }
            self.restriction(&inner, property, stands_for);
        }
        if schema["items"].is_object() {
            self.restriction(&format!("{at}/items"), &schema["items"], &outside["items"]);
        }
        self.logical_within(at, schema, outside);
    }

    fn logical_within(&mut self, at: &str, schema: &Value, outside: &Value) {
        for junctor in LOGICAL {
            for (index, inner) in list(schema, &format!("/{junctor}")).iter().enumerate() {
                self.restriction(&format!("{at}/{junctor}/{index}"), inner, outside);
            }
        }
        if schema["not"].is_object() {
            self.restriction(&format!("{at}/not"), &schema["not"], outside);
        }
    }

    /// Of an object's metadata a schema may say only how it is named.
    fn metadata(&mut self, schema: &Value) {
        let metadata = &schema["properties"]["metadata"];
        for name in metadata["properties"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, _)| name)
        {
            if !["name", "generateName"].contains(&name.as_str()) {
                let at = format!("/properties/metadata/properties/{}", escaped(name));
                self.tell(
                    &at,
                    "is not accepted: of metadata only name and generateName can be restricted",
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(json!({"type": "object"}))]
    #[case(json!({"type": "object", "properties": {
        "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "port": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"],
            "items": {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}},
        "either": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
            "oneOf": [{"required": ["a"]}, {"properties": {"b": {"enum": ["x"]}}}]},
        "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 10}}}
    }}))]
    fn what_is_structural_has_no_breach(#[case] schema: Value) {
        assert_eq!(breaches(&schema), []);
    }

    #[rstest]
    #[case(json!({"type": "string"}), "/type")]
    #[case(json!({"type": "object", "properties": {"a": {}}}), "/properties/a")]
    #[case(json!({"type": "object", "properties": {"a": {"type": "text"}}}), "/properties/a/type")]
    #[case(json!({"type": "object", "properties": {"a": {"type": "array"}}}), "/properties/a")]
    #[case(json!({"type": "object", "properties": {"a": {"$ref": "#/b", "type": "object"}}}), "/properties/a/$ref")]
    #[case(json!({"type": "object", "properties": {}, "additionalProperties": {"type": "string"}}), "/additionalProperties")]
    #[case(json!({"type": "object", "anyOf": [{"type": "object"}]}), "/anyOf/0/type")]
    #[case(json!({"type": "object", "not": {"properties": {"a": {"enum": [1]}}}}), "/not/properties/a")]
    #[case(json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}}),
        "/properties/metadata/properties/labels")]
    #[case(json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "object"},
        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}}}), "/properties/a/x-kubernetes-list-map-keys")]
    #[case(json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}, "uniqueItems": true}}}),
        "/properties/a/uniqueItems")]
    fn a_breach_is_named_by_its_place(#[case] schema: Value, #[case] at: &str) {
        let found = breaches(&schema);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].0, at);
    }
}
