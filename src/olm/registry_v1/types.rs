//! Whether fields hold what the types hold into which the API server, OLM and upstream's tools read a manifest: text, a number, a list and so on.
//!
//! Types of Kubernetes come from its own OpenAPI document, those of a ClusterServiceVersion from [`super::csv_schema`]. What no type knows is nobody's
//! concern here, and `null` is as good as nothing: so reads Go.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{CustomResourceDefinition, JSON};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::csv_schema;
use super::read::Object;
use crate::olm::contents::label;
use crate::olm::findings::{Finding, bundle as codes, shortened};
use crate::olm::manifests::{list, text};
use crate::olm::pointer::{dotted, escaped};

/// Types of which each value is another's to judge.
const ANYTHING: &str = "$anything";

/// What a manifest of each kind holds, by its API version and kind; and the types that these are made of, by their names.
struct Types {
    kinds: BTreeMap<(&'static str, &'static str), Value>,
    parts: Map<String, Value>,
    quantity: String,
}

static TYPES: LazyLock<Types> = LazyLock::new(|| {
    let mut generator = SchemaGenerator::default();
    let csv = csv_schema::of(&mut generator);
    let mut kinds = BTreeMap::from([(("operators.coreos.com/v1alpha1", "ClusterServiceVersion"), csv)]);
    add::<CustomResourceDefinition>(&mut kinds, &mut generator);
    add::<ConfigMap>(&mut kinds, &mut generator);
    add::<Secret>(&mut kinds, &mut generator);
    add::<Service>(&mut kinds, &mut generator);
    add::<ServiceAccount>(&mut kinds, &mut generator);
    add::<Role>(&mut kinds, &mut generator);
    add::<RoleBinding>(&mut kinds, &mut generator);
    add::<ClusterRole>(&mut kinds, &mut generator);
    add::<ClusterRoleBinding>(&mut kinds, &mut generator);
    add::<NetworkPolicy>(&mut kinds, &mut generator);
    add::<PodDisruptionBudget>(&mut kinds, &mut generator);
    add::<PriorityClass>(&mut kinds, &mut generator);
    let mut parts = generator.take_definitions(true);
    // The document calls it an object, and it holds a default or a choice, whatever that is
    parts.insert(JSON::schema_name().into_owned(), json!({ANYTHING: true}));
    Types {
        kinds,
        parts,
        quantity: Quantity::schema_name().into_owned(),
    }
});

fn add<K: k8s_openapi::Resource + JsonSchema>(
    kinds: &mut BTreeMap<(&'static str, &'static str), Value>,
    generator: &mut SchemaGenerator,
) {
    kinds.insert(
        (K::API_VERSION, K::KIND),
        generator.subschema_for::<K>().to_value(),
    );
}

pub(super) fn check(object: &Object, found: &mut Vec<Finding>) {
    let types = &*TYPES;
    let kind = (text(&object.body, "/apiVersion"), text(&object.body, "/kind"));
    let Some(schema) = types.kinds.get(&kind) else {
        return;
    };
    let mut wrong = Vec::new();
    types.judge(schema, &object.body, String::new(), &mut wrong);
    for Wrong { at, accepted } in wrong {
        let value = object.body.pointer(&at).unwrap_or(&Value::Null);
        let said = format!("{} is {}; it must be {accepted}", dotted(&at), shortened(value));
        if object.is_csv() {
            found.push(object.finding(&codes::CSV_FIELD, &at, said));
        } else {
            let message = format!("{}: {said}", label(&object.body));
            found.push(object.finding(&codes::MANIFEST_FIELD, &at, message));
        }
    }
}

/// A field that holds something else than its type.
struct Wrong {
    at: String,
    accepted: &'static str,
}

impl Types {
    fn judge(&self, schema: &Value, value: &Value, at: String, wrong: &mut Vec<Wrong>) {
        if value.is_null() || schema.get(ANYTHING).is_some() {
            return;
        }
        if let Some(name) = named(schema) {
            let part = self.parts.get(name).filter(|_| name != self.quantity);
            if let Some(part) = part {
                self.judge(part, value, at, wrong);
            } else if name == self.quantity && !is_quantity(value) {
                wrong.push(Wrong {
                    at,
                    accepted: "a quantity such as 500m or 1Gi",
                });
            }
            return;
        }
        for part in list(schema, "/allOf") {
            self.judge(part, value, at.clone(), wrong);
        }
        // A schema, or a list of them or a boolean
        if let Some(choices) = schema["oneOf"].as_array() {
            return match choices
                .iter()
                .find(|choice| self.refusal(choice, value).is_none())
            {
                Some(choice) => self.judge(choice, value, at, wrong),
                None => wrong.push(Wrong {
                    at,
                    accepted: choices
                        .last()
                        .and_then(|choice| self.refusal(choice, value))
                        .unwrap_or_default(),
                }),
            };
        }
        match self.refusal(schema, value) {
            Some(accepted) => wrong.push(Wrong { at, accepted }),
            None => self.judge_parts(schema, value, &at, wrong),
        }
    }

    fn judge_parts(&self, schema: &Value, value: &Value, at: &str, wrong: &mut Vec<Wrong>) {
        match value {
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.judge(&schema["items"], item, format!("{at}/{index}"), wrong);
                }
            }
            Value::Object(fields) => {
                for (name, inner) in fields {
                    let known = schema["properties"].get(name);
                    if let Some(schema) = known.or_else(|| schema.get("additionalProperties")) {
                        self.judge(schema, inner, format!("{at}/{}", escaped(name)), wrong);
                    }
                }
            }
            _ => {}
        }
    }

    /// What would be accepted instead, if the value by itself is not.
    fn refusal(&self, schema: &Value, value: &Value) -> Option<&'static str> {
        if let Some(name) = named(schema) {
            return self.parts.get(name).and_then(|part| self.refusal(part, value));
        }
        if schema["x-kubernetes-int-or-string"] == true {
            return (!value.is_string() && !is_whole(value)).then_some("a whole number or text");
        }
        let is_small = || {
            value
                .as_f64()
                .is_some_and(|number| i32::MIN as f64 <= number && number <= i32::MAX as f64)
        };
        let (fits, accepted) = match (text(schema, "/type"), text(schema, "/format")) {
            ("string", "date-time") => (
                value
                    .as_str()
                    .is_some_and(|text| text.parse::<Timestamp>().is_ok()),
                "a time such as 2026-01-31T12:00:00Z",
            ),
            ("string", _) => (value.is_string(), "text"),
            ("boolean", _) => (value.is_boolean(), "true or false"),
            ("integer", "int32") => (is_whole(value) && is_small(), "a whole number of 32 bits"),
            ("integer", _) => (is_whole(value), "a whole number"),
            ("number", _) => (value.is_number(), "a number"),
            ("array", _) => (value.is_array(), "a list"),
            ("object", _) => (value.is_object(), "an object"),
            _ => (true, ""),
        };
        (!fits).then_some(accepted)
    }
}

/// The name of the type that a schema leaves it to.
fn named(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.strip_prefix("#/$defs/")
}

/// However it is written.
fn is_whole(value: &Value) -> bool {
    value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0)
}

/// A number with a suffix of thousands or of 1024, or an exponent, as `resource.ParseQuantity` reads it.
fn is_quantity(value: &Value) -> bool {
    let Some(text) = value.as_str() else {
        return value.is_number();
    };
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let end = unsigned
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let is_number = number.bytes().any(|byte| byte.is_ascii_digit()) && number.matches('.').count() <= 1;
    let is_exponent = |suffix: &str| {
        let power = suffix.strip_prefix(['e', 'E']);
        power.is_some_and(|power| power.parse::<i32>().is_ok())
    };
    const SUFFIXES: [&str; 16] = [
        "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei",
    ];
    is_number && (SUFFIXES.contains(&suffix) || is_exponent(suffix))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(json!(1), true)]
    #[case(json!(0.5), true)]
    #[case(json!("1"), true)]
    #[case(json!("500m"), true)]
    #[case(json!("1.5Gi"), true)]
    #[case(json!(".5"), true)]
    #[case(json!("-1e3"), true)]
    #[case(json!("1E"), true)]
    #[case(json!("x y"), false)]
    #[case(json!("1 Gi"), false)]
    #[case(json!("1gi"), false)]
    #[case(json!("1.2.3"), false)]
    #[case(json!(""), false)]
    #[case(json!("."), false)]
    #[case(json!(true), false)]
    fn quantities_are_known_by_their_form(#[case] value: Value, #[case] is_one: bool) {
        assert_eq!(is_quantity(&value), is_one);
    }
}
