//! Whether fields hold what the types hold into which the API server, OLM and upstream's tools read a manifest: text, a number, a list and so on; whether
//! there is such a field at all; and, of a ClusterServiceVersion, whether what is required is there.
//!
//! Types of Kubernetes come from its own OpenAPI document, those of a ClusterServiceVersion from [`super::csv_schema`]. `null` is as good as nothing: so
//! reads Go.

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

use super::csv_schema::{self, ANYTHING, WRITTEN};
use super::nearest::nearest;
use super::read::Object;
use crate::olm::contents::label;
use crate::olm::findings::{Finding, bundle as codes, shortened};
use crate::olm::manifests::{list, text};
use crate::olm::pointer::{dotted, escaped};

/// Fields that are there since a later Kubernetes than the one whose document this is; up to 1.37.
const NEWER: [(&str, &[&str]); 17] = [
    ("ClusterTrustBundleProjection", &["user"]),
    ("ConfigMapVolumeSource", &["defaultUser"]),
    ("Container", &["restartPolicyRules"]),
    ("DownwardAPIVolumeFile", &["user"]),
    ("DownwardAPIVolumeSource", &["defaultUser"]),
    ("EmptyDirVolumeSource", &["mode"]),
    ("EnvVarSource", &["fileKeyRef"]),
    ("EphemeralContainer", &["restartPolicyRules"]),
    ("GRPCAction", &["mode"]),
    ("HTTPGetAction", &["protocol"]),
    ("KeyToPath", &["user"]),
    (
        "PodSpec",
        &[
            "evictionResponders",
            "hostnameOverride",
            "schedulingGroup",
            "workloadRef",
        ],
    ),
    ("ProjectedVolumeSource", &["defaultUser"]),
    ("SecretVolumeSource", &["defaultUser"]),
    ("ServiceAccountTokenProjection", &["user"]),
    ("VolumeMount", &["bindMountOptions"]),
    ("VolumeProjection", &["podCertificate"]),
];
const TEXT: &str = "text";
/// Where the API server takes the empty text, or 0, of what is required.
const TAKEN_EMPTY: [(&str, &str); 4] = [
    ("HTTPHeader", "value"),
    ("ISCSIVolumeSource", "lun"),
    ("SleepAction", "seconds"),
    ("Sysctl", "value"),
];

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
    amend(&mut parts);
    // The document calls it an object, and it holds a default or a choice, whatever that is
    parts.insert(JSON::schema_name().into_owned(), json!({ANYTHING: true}));
    Types {
        kinds,
        parts,
        quantity: Quantity::schema_name().into_owned(),
    }
});

fn amend(parts: &mut Map<String, Value>) {
    const CORE: &str = "io.k8s.api.core.v1.";
    for (part, fields) in NEWER {
        let Some(part) = parts.get_mut(&format!("{CORE}{part}")) else {
            continue;
        };
        for field in fields {
            part["properties"][field] = json!({ANYTHING: true});
        }
    }
    for (part, field) in TAKEN_EMPTY {
        let Some(part) = parts.get_mut(&format!("{CORE}{part}")) else {
            continue;
        };
        let others = list(part, "/required").iter().filter(|other| *other != field);
        part["required"] = others.cloned().collect();
        part[WRITTEN] = json!([field]);
    }
}

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
    let mut walk = Walk {
        types,
        is_csv: object.is_csv(),
        wrong: Vec::new(),
    };
    walk.judge(schema, &object.body, String::new());
    for wrong in walk.wrong {
        found.push(wrong.told_of(object));
    }
}

/// A field with which something is wrong, and what.
struct Wrong {
    at: String,
    why: Why,
}

enum Why {
    /// It holds something else than its type.
    Type { accepted: &'static str },
    /// It is required. What is there under almost that name is meant for it.
    Missing {
        /// Whether that is refused.
        is_refused: bool,
        meant: Option<String>,
    },
    /// There is no such field, but perhaps one that is almost called so.
    Unknown { near: Option<String> },
}

impl Wrong {
    fn told_of(self, object: &Object) -> Finding {
        let Self { at, why } = self;
        let value = object.body.pointer(&at);
        let field = dotted(&at);
        let parent = at.rsplit_once('/').map_or("", |(parent, _)| parent);
        let is_csv = object.is_csv();
        let (code, pointer, said) = match why {
            Why::Type { accepted } => {
                let value = value.unwrap_or(&Value::Null);
                let quotes = if accepted == TEXT && (value.is_number() || value.is_boolean()) {
                    ": put it in quotes"
                } else {
                    ""
                };
                let said = format!("{field} is {}; it must be {accepted}{quotes}", shortened(value));
                let code = if is_csv {
                    &codes::CSV_FIELD
                } else {
                    &codes::MANIFEST_FIELD
                };
                (code, &*at, said)
            }
            Why::Missing { is_refused, meant } => {
                let is = if value.is_some_and(Value::is_string) {
                    "empty"
                } else {
                    "missing"
                };
                let meant =
                    meant.map_or_else(String::new, |name| format!("; perhaps {name} is meant for it"));
                let code = if is_refused {
                    &codes::CSV_FIELD
                } else {
                    &codes::CSV_FIELD_MISSING
                };
                (code, parent, format!("{field} is {is}{meant}"))
            }
            Why::Unknown { near } => {
                let others = object.body.pointer(parent);
                let near = near.map_or_else(String::new, |name| {
                    let too = others.and_then(|others| others.get(&name));
                    let too = too.map_or("", |_| ", which is there, too");
                    format!("; perhaps {name} is meant{too}")
                });
                let code = if is_csv {
                    &codes::CSV_FIELD_UNKNOWN
                } else {
                    &codes::MANIFEST_FIELD_UNKNOWN
                };
                (code, &*at, format!("{field} is no known field{near}"))
            }
        };
        if is_csv {
            object.finding(code, pointer, said)
        } else {
            object.finding(code, pointer, format!("{}: {said}", label(&object.body)))
        }
    }
}

struct Walk<'a> {
    types: &'a Types,
    /// Of other objects nobody writes what is missing, and rules of their own tell what is refused.
    is_csv: bool,
    wrong: Vec<Wrong>,
}

impl Walk<'_> {
    fn tell(&mut self, at: String, why: Why) {
        self.wrong.push(Wrong { at, why });
    }

    fn judge(&mut self, schema: &Value, value: &Value, at: String) {
        if value.is_null() || schema.get(ANYTHING).is_some() {
            return;
        }
        if let Some(name) = named(schema) {
            let types = self.types;
            let part = types.parts.get(name).filter(|_| name != types.quantity);
            if let Some(part) = part {
                self.judge(part, value, at);
            } else if name == types.quantity && !is_quantity(value) {
                let accepted = "a quantity such as 500m or 1Gi";
                self.tell(at, Why::Type { accepted });
            }
            return;
        }
        for part in list(schema, "/allOf") {
            self.judge(part, value, at.clone());
        }
        // A schema, or a list of them or a boolean
        if let Some(choices) = schema["oneOf"].as_array() {
            let refusal = |choice| self.types.refusal(choice, value);
            if let Some(choice) = choices.iter().find(|choice| refusal(choice).is_none()) {
                return self.judge(choice, value, at);
            }
            let accepted = choices.last().and_then(refusal).unwrap_or_default();
            return self.tell(at, Why::Type { accepted });
        }
        match self.types.refusal(schema, value) {
            Some(accepted) => self.tell(at, Why::Type { accepted }),
            None => self.judge_parts(schema, value, &at),
        }
    }

    fn judge_parts(&mut self, schema: &Value, value: &Value, at: &str) {
        match value {
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.judge(&schema["items"], item, format!("{at}/{index}"));
                }
            }
            Value::Object(fields) => self.judge_fields(schema, fields, at),
            _ => {}
        }
    }

    fn judge_fields(&mut self, schema: &Value, fields: &Map<String, Value>, at: &str) {
        let below = |name: &str| format!("{at}/{}", escaped(name));
        let known = schema["properties"].as_object();
        let others = schema.get("additionalProperties");
        let mut unknown = Vec::new();
        for (name, inner) in fields {
            let schema = known.and_then(|known| known.get(name));
            match schema.or(others) {
                Some(schema) => self.judge(schema, inner, below(name)),
                // An object of which no field is known may have any
                None if known.is_some() => unknown.push(name.as_str()),
                None => {}
            }
        }
        for (name, is_refused) in self.required(schema) {
            // Go cannot tell an empty text from none
            let is_there = match fields.get(name) {
                None | Some(Value::Null) => false,
                Some(Value::String(text)) => !(is_refused && text.is_empty()),
                Some(_) => true,
            };
            // Nor does it mind capitals; that others do is told of what is unknown
            let is_read = unknown.iter().any(|other| other.eq_ignore_ascii_case(name));
            if is_there || is_read {
                continue;
            }
            let meant = nearest(name, unknown.iter().copied()).map(str::to_owned);
            unknown.retain(|other| meant.as_deref() != Some(other));
            self.tell(below(name), Why::Missing { is_refused, meant });
        }
        for name in unknown {
            let others = known.into_iter().flatten();
            let near = nearest(name, others.map(|(known, _)| known.as_str()));
            let near = near.map(str::to_owned);
            self.tell(below(name), Why::Unknown { near });
        }
    }

    /// What has to be there, and whether it is refused otherwise.
    fn required<'s>(&self, schema: &'s Value) -> impl Iterator<Item = (&'s str, bool)> + use<'s> {
        let names = |key: &str| {
            schema[key]
                .as_array()
                .filter(|_| self.is_csv)
                .into_iter()
                .flatten()
        };
        let refused = names("required")
            .filter_map(Value::as_str)
            .map(|name| (name, true));
        let written = names(WRITTEN).filter_map(Value::as_str).map(|name| (name, false));
        refused.chain(written)
    }
}

impl Types {
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
            ("string", _) => (value.is_string(), TEXT),
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
