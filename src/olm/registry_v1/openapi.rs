//! What the API server accepts in the schema of a definition, field by field (`ValidateCustomResourceDefinitionOpenAPISchema` of apiextensions-apiserver).

use std::collections::BTreeSet;

use serde_json::Value;

use super::structural::{Breaches, is_said, logical, properties};
use super::{field_path, schema};
use crate::olm::manifests::{list, text};
use crate::olm::pattern;

pub(super) const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
pub(super) const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
pub(super) const EMBEDDED: &str = "x-kubernetes-embedded-resource";
const LIST_TYPE: &str = "x-kubernetes-list-type";
const MAP_TYPE: &str = "x-kubernetes-map-type";
const MAP_KEYS: &str = "x-kubernetes-list-map-keys";
pub(super) const RULES: &str = "x-kubernetes-validations";
const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
/// What no schema may say.
const FORBIDDEN: [&str; 7] = [
    "$ref",
    "$schema",
    "additionalItems",
    "definitions",
    "dependencies",
    "id",
    "patternProperties",
];

/// Where a schema says what is not accepted.
pub(super) fn check(schema: &Value, found: &mut Breaches) {
    let place = Place {
        is_root: true,
        ..Place::default()
    };
    Walk(found).schema("", schema, place);
}

/// What is known of where a schema stands.
#[derive(Clone, Copy, Default)]
struct Place {
    is_root: bool,
    /// Within the metadata of an object.
    in_metadata: bool,
    /// Why there may be no default, if there may be none.
    no_default: Option<&'static str>,
    /// Within a logical schema.
    is_logical: bool,
}

struct Walk<'a>(&'a mut Breaches);

impl Walk<'_> {
    fn tell(&mut self, at: &str, field: &str, why: impl Into<String>) {
        let at = if field.is_empty() {
            at.to_owned()
        } else {
            format!("{at}/{field}")
        };
        self.0.push((at, why.into()));
    }

    fn schema(&mut self, at: &str, schema: &Value, place: Place) {
        if !schema.is_object() {
            return self.tell(at, "", "must be a schema");
        }
        self.fields(at, schema, place);
        self.list(at, schema);
        self.map_keys(at, schema);
        self.rules(at, schema);
        let inner = Place {
            is_root: false,
            ..place
        };
        self.others(at, schema, inner);
        for (inner_at, name, property) in properties(at, schema) {
            let is_object = place.is_root || schema[EMBEDDED] == true;
            let is_own = ["apiVersion", "kind", "metadata"].contains(&name);
            let inner = Place {
                in_metadata: inner.in_metadata || is_object && is_own,
                no_default: inner
                    .no_default
                    .or((place.is_root && is_own).then_some("in what every object has")),
                ..inner
            };
            self.schema(&inner_at, property, inner);
        }
        if schema["items"].is_object() {
            self.schema(&format!("{at}/items"), &schema["items"], inner);
        }
        for (inner_at, restriction) in logical(at, schema) {
            let inner = Place {
                is_logical: true,
                ..inner
            };
            self.schema(&inner_at, restriction, inner);
        }
    }

    fn fields(&mut self, at: &str, schema: &Value, place: Place) {
        for field in FORBIDDEN {
            let is_there = match field {
                "$ref" | "additionalItems" | "dependencies" => !schema[field].is_null(),
                _ => is_said(&schema[field]),
            };
            if is_there {
                self.tell(at, field, "is not accepted");
            }
        }
        let kind = text(schema, "/type");
        if !kind.is_empty() && !TYPES.contains(&kind) {
            self.tell(
                at,
                "type",
                format!("is {kind:?}; accepted are {}", TYPES.join(", ")),
            );
        }
        match (&schema["default"], place.no_default) {
            (Value::Null, _) => {}
            (_, Some(why)) => self.tell(at, "default", format!("must not be set {why}")),
            (default, None) if !place.is_logical && !place.in_metadata => {
                for why in schema::breaches_of_default(schema, default) {
                    self.tell(at, "default", format!("does not fit: {why}"));
                }
            }
            _ => {}
        }
        if schema["uniqueItems"] == true {
            self.tell(
                at,
                "uniqueItems",
                "must not be true; write x-kubernetes-list-type: set",
            );
        }
        if schema[PRESERVE] == false {
            self.tell(at, PRESERVE, "must be true or left out");
        }
        if place.in_metadata && schema[EMBEDDED] == true {
            self.tell(at, EMBEDDED, "must not be used within metadata");
        }
        if schema["items"].is_array() {
            self.tell(at, "items", "must be one schema, not a list");
        }
        if let Some(why) = pattern::is_none(text(schema, "/pattern")) {
            self.tell(at, "pattern", format!("is no regular expression of Go: {why}"));
        }
    }

    fn others(&mut self, at: &str, schema: &Value, place: Place) {
        let others = &schema["additionalProperties"];
        if is_said(&schema["properties"]) && (others.is_object() || *others == false) {
            self.tell(at, "additionalProperties", "must not stand beside properties");
        }
        if others.is_object() {
            let no_default = place
                .in_metadata
                .then_some("within additionalProperties of metadata");
            let place = Place {
                no_default: place.no_default.or(no_default),
                ..place
            };
            self.schema(&format!("{at}/additionalProperties"), others, place);
        }
    }

    fn list(&mut self, at: &str, schema: &Value) {
        for (field, of, accepted) in [
            (LIST_TYPE, "array", &["atomic", "set", "map"] as &[&str]),
            (MAP_TYPE, "object", &["atomic", "granular"]),
        ] {
            let Some(kind) = schema[field].as_str() else {
                continue;
            };
            if schema["type"] != of {
                self.tell(at, "type", format!("must be {of} beside {field}"));
            }
            if !accepted.contains(&kind) {
                self.tell(
                    at,
                    field,
                    format!("is {kind:?}; accepted are {}", accepted.join(", ")),
                );
            }
        }
        let (kind, items) = (text(schema, "/x-kubernetes-list-type"), &schema["items"]);
        if kind == "set" {
            let inner = text(items, "/x-kubernetes-list-type");
            if items["type"] == "array" && !["", "atomic"].contains(&inner) {
                self.tell(at, &format!("items/{LIST_TYPE}"), "must be atomic in a set");
            }
            if items["type"] == "object" && items[MAP_TYPE] != "atomic" {
                self.tell(
                    at,
                    "items",
                    format!("must say {MAP_TYPE}: atomic, as items of a set"),
                );
            }
        }
        if ["set", "map"].contains(&kind) && items["nullable"] == true {
            self.tell(at, "items/nullable", format!("must not be true in a {kind}"));
        }
    }

    fn map_keys(&mut self, at: &str, schema: &Value) {
        let (keys, items) = (list(schema, &format!("/{MAP_KEYS}")), &schema["items"]);
        if (schema[LIST_TYPE] == "map") == keys.is_empty() {
            self.tell(at, MAP_KEYS, format!("and {LIST_TYPE}: map go together"));
        }
        if schema[LIST_TYPE] != "map" {
            return;
        }
        if items["type"] != "object" {
            return self.tell(
                at,
                "items/type",
                format!("must be object beside {LIST_TYPE}: map"),
            );
        }
        let mut seen = BTreeSet::new();
        for key in keys.iter().filter_map(Value::as_str) {
            let property = &items["properties"][key];
            let is_required = list(items, "/required").iter().any(|required| required == key);
            if property.is_null() {
                self.tell(at, MAP_KEYS, format!("names {key}, which its items do not have"));
            } else if ["array", "object"].contains(&text(property, "/type")) {
                self.tell(at, MAP_KEYS, format!("names {key}, which is no single value"));
            } else if property["nullable"] == true {
                self.tell(at, MAP_KEYS, format!("names {key}, which may be null"));
            } else if !is_required && property["default"].is_null() {
                self.tell(
                    at,
                    MAP_KEYS,
                    format!("names {key}, which is neither required nor has a default"),
                );
            }
            if !seen.insert(key) {
                self.tell(at, MAP_KEYS, format!("names {key} twice"));
            }
        }
    }

    /// The fields of rules, but for what CEL makes of them.
    fn rules(&mut self, at: &str, schema: &Value) {
        for (index, rule) in list(schema, &format!("/{RULES}")).iter().enumerate() {
            let at = format!("{at}/{RULES}/{index}");
            let said = |field: &str| text(rule, &format!("/{field}"));
            let has_lines = |text: &str| text.trim().contains(['\n', '\r']);
            if said("rule").trim().is_empty() {
                self.tell(&at, "rule", "is missing");
            } else if has_lines(said("rule")) && said("message").trim().is_empty() {
                self.tell(&at, "message", "must be set where the rule has several lines");
            }
            for field in ["message", "messageExpression", "fieldPath"] {
                if !said(field).is_empty() && said(field).trim().is_empty() {
                    self.tell(&at, field, "must not be empty");
                }
                if field != "messageExpression" && has_lines(said(field)) {
                    self.tell(&at, field, "must not have several lines");
                }
            }
            let path = said("fieldPath");
            if !path.trim().is_empty() && !field_path::leads(path, schema) {
                self.tell(
                    &at,
                    "fieldPath",
                    format!("is {path:?}, which leads to no field of this schema"),
                );
            }
            let reasons = [
                "FieldValueForbidden",
                "FieldValueInvalid",
                "FieldValueDuplicate",
                "FieldValueRequired",
            ];
            if !said("reason").is_empty() && !reasons.contains(&said("reason")) {
                self.tell(
                    &at,
                    "reason",
                    format!("is {:?}; accepted are {}", said("reason"), reasons.join(", ")),
                );
            }
        }
    }
}
