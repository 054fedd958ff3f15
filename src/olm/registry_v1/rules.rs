//! What CEL makes of the rules of a schema (`x-kubernetes-validations`). The API server asks that only of schemas in which nothing else is wrong.

use serde_json::Value;

use super::openapi::{EMBEDDED, RULES};
use super::structural::{Breaches, properties};
use crate::olm::cel::{self, Environment, Type};
use crate::olm::manifests::{list, text};

/// Where a schema has rules that are refused.
pub(super) fn check(schema: &Value, found: &mut Breaches) {
    let place = Place {
        is_resource: true,
        has_past: true,
    };
    walk("", schema, place, found);
}

/// What is known of where a schema stands.
#[derive(Clone, Copy)]
struct Place {
    /// An object of its own has this schema.
    is_resource: bool,
    /// Of a value it is known which one it was before: not so within the items of lists that have no keys.
    has_past: bool,
}

fn walk(at: &str, schema: &Value, place: Place, found: &mut Breaches) {
    rules(at, schema, place, found);
    let inside = |schema: &Value, has_past: bool| Place {
        is_resource: schema[EMBEDDED] == true,
        has_past: place.has_past && has_past,
    };
    for (inner, _, property) in properties(at, schema) {
        walk(&inner, property, inside(property, true), found);
    }
    let (values, items) = (&schema["additionalProperties"], &schema["items"]);
    if values.is_object() {
        let inner = format!("{at}/additionalProperties");
        walk(&inner, values, inside(values, true), found);
    }
    if items.is_object() {
        let has_keys = schema["x-kubernetes-list-type"] == "map";
        walk(&format!("{at}/items"), items, inside(items, has_keys), found);
    }
}

fn rules(at: &str, schema: &Value, place: Place, found: &mut Breaches) {
    let rules = list(schema, &format!("/{RULES}"));
    if !rules.is_empty() && Type::of(schema, place.is_resource).is_none() {
        let why = "must not be set where the schema has no type: rules see nothing of its values";
        return found.push((format!("{at}/{RULES}"), why.to_owned()));
    }
    for (index, rule) in rules.iter().enumerate() {
        let optional = rule["optionalOldSelf"].as_bool();
        let environment = Environment::Kubernetes {
            schema,
            is_resource: place.is_resource,
            is_old_optional: optional == Some(true),
        };
        let mut tell = |field: &str, why: String| found.push((format!("{at}/{RULES}/{index}/{field}"), why));
        match cel::check(text(rule, "/rule"), environment, &Type::Bool) {
            Err(why) => tell("rule", format!("is no rule of CEL: {why}")),
            Ok(rule) if rule.uses_old == Some(true) && !place.has_past => {
                let why = "must not look at oldSelf within a list that is not of x-kubernetes-list-type map";
                tell("rule", why.to_owned());
            }
            Ok(rule) if rule.uses_old == Some(false) && optional.is_some() => {
                let why = "must not be set for a rule that does not look at oldSelf";
                tell("optionalOldSelf", why.to_owned());
            }
            Ok(_) => {}
        }
        let message = text(rule, "/messageExpression");
        if !message.is_empty()
            && let Err(why) = cel::check(message, environment, &Type::String)
        {
            tell("messageExpression", format!("is no expression of CEL: {why}"));
        }
    }
}
