//! Whether a schema is structural, as the API server asks of definitions (`ValidateStructural` of apiextensions-apiserver): what there is stands outside of
//! `allOf`, `anyOf`, `oneOf` and `not`, which only restrict it.

use serde_json::{Value, json};

use super::openapi::{self, EMBEDDED, INT_OR_STRING, PRESERVE, RULES};
use super::rules;
use crate::olm::manifests::{list, text};
use crate::olm::pointer::escaped;

/// Where a schema is wrong, as JSON pointers into it, and why.
pub(super) type Breaches = Vec<(String, String)>;

const LOGICAL: [&str; 3] = ["allOf", "anyOf", "oneOf"];
/// What a schema within a logical one may not say.
const OUTSIDE: [&str; 13] = [
    "type",
    "default",
    "additionalProperties",
    "nullable",
    "title",
    "description",
    PRESERVE,
    EMBEDDED,
    INT_OR_STRING,
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    RULES,
];

/// Where a schema would be refused.
pub(super) fn breaches(schema: &Value) -> Breaches {
    let mut found = Breaches::new();
    openapi::check(schema, &mut found);
    let mut walk = Walk(&mut found);
    walk.structural("", schema);
    walk.complete("", schema, schema);
    if found.is_empty() {
        rules::check(schema, &mut found);
    }
    found.sort();
    found.dedup();
    found
}

/// Whether something is said: what is empty, false or null is not.
pub(super) fn is_said(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    }
}

/// The schemas of a schema's properties.
pub(super) fn properties<'a>(
    at: &str,
    schema: &'a Value,
) -> impl Iterator<Item = (String, &'a str, &'a Value)> {
    let properties = schema["properties"].as_object().into_iter().flatten();
    properties.map(move |(name, schema)| {
        (
            format!("{at}/properties/{}", escaped(name)),
            name.as_str(),
            schema,
        )
    })
}

/// The logical schemas of a schema.
pub(super) fn logical<'a>(at: &str, schema: &'a Value) -> impl Iterator<Item = (String, &'a Value)> {
    let junctors = LOGICAL.into_iter().flat_map(move |junctor| {
        let inner = list(schema, &format!("/{junctor}")).iter().enumerate();
        inner.map(move |(index, schema)| (format!("{at}/{junctor}/{index}"), schema))
    });
    let not = Some(&schema["not"]).filter(|not| not.is_object());
    junctors.chain(not.map(|not| (format!("{at}/not"), not)))
}

struct Walk<'a>(&'a mut Breaches);

impl Walk<'_> {
    fn tell(&mut self, at: &str, why: impl Into<String>) {
        self.0.push((at.to_owned(), why.into()));
    }

    fn forbid(&mut self, at: &str, field: &str, why: &str) {
        self.tell(&format!("{at}/{field}"), why);
    }

    /// A schema that says what is there, and not only how it is restricted.
    fn structural(&mut self, at: &str, schema: &Value) {
        let is_root = at.is_empty();
        if schema["type"] == "array" && schema["items"].is_null() {
            self.tell(at, "is an array and has no items");
        }
        if schema["items"].is_object() {
            self.structural(&format!("{at}/items"), &schema["items"]);
        }
        for (inner, _, property) in properties(at, schema) {
            self.structural(&inner, property);
        }
        let others = &schema["additionalProperties"];
        if !others.is_null() && is_root {
            self.forbid(at, "additionalProperties", "must not be used at the root");
        }
        if others.is_object() {
            self.structural(&format!("{at}/additionalProperties"), others);
        }
        self.typed(at, schema, is_root);
        let first = schema["allOf"].get(0).is_some_and(is_int_or_string);
        self.restrictions(at, schema, is_int_or_string(schema), first);
        if is_root && schema["nullable"] == true {
            self.forbid(at, "nullable", "must not be true at the root");
        }
        let is_embedded = schema[EMBEDDED] == true;
        if is_root || is_embedded {
            self.object_fields(at, schema, is_root);
        }
    }

    fn typed(&mut self, at: &str, schema: &Value, is_root: bool) {
        let (is_embedded, is_either) = (schema[EMBEDDED] == true, schema[INT_OR_STRING] == true);
        match text(schema, "/type") {
            kind if is_embedded && kind != "object" => {
                self.forbid(at, "type", "must be object beside x-kubernetes-embedded-resource");
            }
            "" if !is_either && schema[PRESERVE] != true => self.tell(at, "has no type"),
            kind if is_root && kind != "object" && !kind.is_empty() => {
                self.forbid(at, "type", "must be object at the root");
            }
            _ => {}
        }
        if is_either && schema[PRESERVE] == true {
            self.forbid(at, PRESERVE, "must not stand beside x-kubernetes-int-or-string");
        }
        if is_either && is_embedded {
            self.forbid(at, EMBEDDED, "must not stand beside x-kubernetes-int-or-string");
        }
        if is_embedded && !schema["additionalProperties"].is_null() {
            self.forbid(
                at,
                "additionalProperties",
                "must not stand beside x-kubernetes-embedded-resource",
            );
        }
        if is_embedded && schema[PRESERVE] != true && !is_said(&schema["properties"]) {
            let why = "must not be empty beside x-kubernetes-embedded-resource without x-kubernetes-preserve-unknown-fields";
            self.forbid(at, "properties", why);
        }
    }

    /// What every object has: of its metadata a schema may say only how it is named.
    fn object_fields(&mut self, at: &str, schema: &Value, is_root: bool) {
        for name in ["kind", "apiVersion", "metadata"] {
            let expected = if name == "metadata" { "object" } else { "string" };
            let field = &schema["properties"][name];
            if !field.is_null() && field["type"] != expected {
                self.tell(
                    &format!("{at}/properties/{name}/type"),
                    format!("must be {expected}"),
                );
            }
        }
        if !is_root {
            return;
        }
        let metadata = &schema["properties"]["metadata"];
        let accepted = "is not accepted: of metadata only name and generateName can be restricted";
        for (name, value) in metadata.as_object().into_iter().flatten() {
            if !["type", "default", "properties"].contains(&name.as_str()) && is_said(value) {
                self.tell(&format!("{at}/properties/metadata/{}", escaped(name)), accepted);
            }
        }
        for (inner, name, _) in properties(&format!("{at}/properties/metadata"), metadata) {
            if !["name", "generateName"].contains(&name) {
                self.tell(&inner, accepted);
            }
        }
    }

    /// The schemas within logical ones. In the one pattern of what is a number or text types may stand: in `anyOf`, or in that of the first of `allOf`.
    fn restrictions(&mut self, at: &str, schema: &Value, any_of: bool, any_of_first: bool) {
        let (pattern, first) = (format!("{at}/anyOf/"), format!("{at}/allOf/0"));
        for (inner, restriction) in logical(at, schema) {
            if !(any_of && inner.starts_with(&pattern)) {
                self.restriction(&inner, restriction, any_of_first && inner == first);
            }
        }
    }

    /// A schema within a logical one.
    fn restriction(&mut self, at: &str, schema: &Value, any_of: bool) {
        for field in OUTSIDE {
            // Nobody asks for them, as long as nothing is restricted by them
            let is_there = match field {
                "additionalProperties" => schema[field].is_object() || schema[field] == true,
                "default" | "x-kubernetes-list-type" | "x-kubernetes-map-type" => !schema[field].is_null(),
                _ => is_said(&schema[field]),
            };
            if is_there {
                self.forbid(at, field, "must stand outside of allOf, anyOf, oneOf and not");
            }
        }
        for (inner, name, property) in properties(at, schema) {
            if name == "metadata" {
                self.tell(
                    &inner,
                    "must not be restricted within allOf, anyOf, oneOf and not",
                );
            }
            self.restriction(&inner, property, false);
        }
        if schema["items"].is_object() {
            self.restriction(&format!("{at}/items"), &schema["items"], false);
        }
        self.restrictions(at, schema, any_of, false);
    }

    /// Whether what is restricted at the root is there. Further in nobody asks.
    fn complete(&mut self, at: &str, schema: &Value, outside: &Value) {
        for (inner, restriction) in logical(at, schema) {
            self.stands(&inner, restriction, outside);
        }
    }

    fn stands(&mut self, at: &str, schema: &Value, outside: &Value) {
        let missing = "restricts what the schema outside does not have";
        self.complete(at, schema, outside);
        for (inner, name, property) in properties(at, schema) {
            match &outside["properties"][name] {
                Value::Null => self.tell(&inner, missing),
                outside => self.stands(&inner, property, outside),
            }
        }
        match (&schema["items"], &outside["items"]) {
            (Value::Object(_), Value::Null) => self.tell(&format!("{at}/items"), missing),
            (items @ Value::Object(_), outside) => self.stands(&format!("{at}/items"), items, outside),
            _ => {}
        }
    }
}

/// Whether there is the pattern of what is a number or text.
fn is_int_or_string(schema: &Value) -> bool {
    let types = [json!({"type": "integer"}), json!({"type": "string"})];
    list(schema, "/anyOf") == types
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// The API server is the judge of which schemas are refused: `tests/bundle_definitions_apiserver.rs`.
    #[rstest]
    #[case(json!({"type": "string"}), "/type")]
    #[case(json!({"type": "object", "properties": {"a": {}}}), "/properties/a")]
    #[case(json!({"type": "object", "properties": {"a": {"type": "text"}}}), "/properties/a/type")]
    #[case(json!({"type": "object", "properties": {"a": {"type": "array"}}}), "/properties/a")]
    #[case(json!({"type": "object", "properties": {"a": {"$ref": "#/b", "type": "object"}}}), "/properties/a/$ref")]
    #[case(json!({"type": "object", "additionalProperties": {"type": "string"}}), "/additionalProperties")]
    #[case(json!({"type": "object", "anyOf": [{"type": "object"}]}), "/anyOf/0/type")]
    #[case(json!({"type": "object", "not": {"properties": {"a": {"enum": [1]}}}}), "/not/properties/a")]
    #[case(json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}}),
        "/properties/metadata/properties/labels")]
    #[case(json!({"type": "object", "properties": {"a/b": {"type": "string", "pattern": "(?=a)"}}}), "/properties/a~1b/pattern")]
    fn a_breach_is_named_by_its_place(#[case] schema: Value, #[case] at: &str) {
        let found = breaches(&schema);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].0, at);
    }
}
