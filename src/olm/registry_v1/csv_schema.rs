//! The types of a ClusterServiceVersion (`operators/v1alpha1` of operator-framework/api), as a schema.
//!
//! Nobody sees the file as it is: OLM reads it into those types and writes them, with an empty text, 0 or `false` for what is missing, and `null` for
//! a list. So of what upstream's definition requires, `required` is what is refused in that form, and [`WRITTEN`] what is taken. Left out is what a rule of its own
//! tells: webhooks, the types of install modes, related images, and what is owned.

use k8s_openapi::api::admissionregistration::v1::RuleWithOperations;
use k8s_openapi::api::apps::v1::DeploymentSpec;
use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

/// Fields that are required, and without which OLM's copy is taken all the same.
pub(super) const WRITTEN: &str = "$written";
/// Types of which each value is another's to judge.
pub(super) const ANYTHING: &str = "$anything";

/// The whole object. What it has of Kubernetes is in the generator.
pub(super) fn of(generator: &mut SchemaGenerator) -> Value {
    let definition = definition();
    let definitions = object([
        ("owned", list(definition.clone())),
        (
            "required",
            list(requiring(definition, &["name", "version", "kind"])),
        ),
    ]);
    let services = list(api_service());
    let services = object([("owned", services.clone()), ("required", services)]);
    let mode = object(texts(["type"]).chain([("supported", boolean())]));
    let native = requiring(object(texts(["group", "version", "kind"])), &["version", "kind"]);
    let spec = texts([
        "version",
        "release",
        "maturity",
        "minKubeVersion",
        "displayName",
        "description",
        "replaces",
    ])
    .chain([
        ("install", install(generator)),
        ("customresourcedefinitions", definitions),
        ("apiservicedefinitions", services),
        ("webhookdefinitions", list(webhook(generator))),
        ("nativeAPIs", list(written(native, &["group"]))),
        ("keywords", list(text())),
        ("maintainers", list(object(texts(["name", "email"])))),
        ("provider", object(texts(["name", "url"]))),
        ("links", list(object(texts(["name", "url"])))),
        ("icon", list(whole(["base64data", "mediatype"]))),
        ("installModes", list(written(mode, &["supported"]))),
        ("labels", map(text())),
        ("annotations", map(text())),
        ("selector", selector()),
        ("cleanup", written(object([("enabled", boolean())]), &["enabled"])),
        ("skips", list(text())),
        (
            "relatedImages",
            list(written(object(texts(["name", "image"])), &["name"])),
        ),
    ]);
    let all = texts(["apiVersion", "kind"]).chain([
        ("metadata", part::<ObjectMeta>(generator)),
        ("spec", requiring(object(spec), &["displayName", "install"])),
        // OLM writes it
        ("status", anything()),
    ]);
    requiring(object(all), &["spec"])
}

fn install(generator: &mut SchemaGenerator) -> Value {
    let rules = list(part::<PolicyRule>(generator));
    let permissions = object(texts(["serviceAccountName"]).chain([("rules", rules)]));
    let permissions = list(requiring(permissions, &["serviceAccountName", "rules"]));
    let deployment = texts(["name"]).chain([
        ("label", map(text())),
        ("spec", part::<DeploymentSpec>(generator)),
    ]);
    let strategy = object([
        (
            "deployments",
            list(requiring(object(deployment), &["name", "spec"])),
        ),
        ("permissions", permissions.clone()),
        ("clusterPermissions", permissions),
    ]);
    let strategy = requiring(strategy, &["deployments"]);
    requiring(
        object([("strategy", text()), ("spec", strategy)]),
        &["strategy", "spec"],
    )
}

/// A definition that is owned or required.
fn definition() -> Value {
    let fields = texts(["name", "version", "kind", "displayName", "description"]);
    object(fields.chain(shown()))
}

/// An API of a server of its own that is owned or required.
fn api_service() -> Value {
    let fields = texts([
        "name",
        "group",
        "version",
        "kind",
        "deploymentName",
        "displayName",
        "description",
    ])
    .chain([("containerPort", whole_number())]);
    let service = object(fields.chain(shown()));
    written(requiring(service, &["group", "version", "kind"]), &["name"])
}

/// What consoles show of either.
fn shown() -> [(&'static str, Value); 4] {
    let descriptor = texts(["path", "displayName", "description"])
        .chain([("x-descriptors", list(text())), ("value", anything())]);
    let descriptors = list(written(object(descriptor), &["path"]));
    [
        ("resources", list(whole(["name", "kind", "version"]))),
        ("specDescriptors", descriptors.clone()),
        ("statusDescriptors", descriptors.clone()),
        ("actionDescriptors", descriptors),
    ]
}

/// As Kubernetes has it; but nobody goes by this one, so nobody refuses it.
fn selector() -> Value {
    let expression = object(texts(["key", "operator"]).chain([("values", list(text()))]));
    object([
        ("matchLabels", map(text())),
        (
            "matchExpressions",
            list(written(expression, &["key", "operator"])),
        ),
    ])
}

fn webhook(generator: &mut SchemaGenerator) -> Value {
    let fields = texts([
        "generateName",
        "type",
        "deploymentName",
        "failurePolicy",
        "matchPolicy",
        "sideEffects",
        "reinvocationPolicy",
        "webhookPath",
    ])
    .chain([
        ("containerPort", whole_number()),
        ("targetPort", json!({"x-kubernetes-int-or-string": true})),
        ("rules", list(part::<RuleWithOperations>(generator))),
        ("objectSelector", part::<LabelSelector>(generator)),
        ("timeoutSeconds", whole_number()),
        ("admissionReviewVersions", list(text())),
        ("conversionCRDs", list(text())),
    ]);
    object(fields)
}

fn part<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    generator.subschema_for::<T>().to_value()
}

fn texts<const N: usize>(names: [&'static str; N]) -> impl Iterator<Item = (&'static str, Value)> {
    names.into_iter().map(|name| (name, text()))
}

fn text() -> Value {
    json!({"type": "string"})
}

fn boolean() -> Value {
    json!({"type": "boolean"})
}

fn whole_number() -> Value {
    json!({"type": "integer", "format": "int32"})
}

fn object(fields: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    let fields = fields.into_iter().map(|(name, schema)| (name.to_owned(), schema));
    json!({"type": "object", "properties": fields.collect::<Map<_, _>>()})
}

/// Texts alone, all of which are [`WRITTEN`].
fn whole<const N: usize>(names: [&'static str; N]) -> Value {
    written(object(texts(names)), &names)
}

fn requiring(mut schema: Value, names: &[&str]) -> Value {
    schema["required"] = json!(names);
    schema
}

fn written(mut schema: Value, names: &[&str]) -> Value {
    schema[WRITTEN] = json!(names);
    schema
}

fn anything() -> Value {
    json!({ANYTHING: true})
}

fn map(values: Value) -> Value {
    json!({"type": "object", "additionalProperties": values})
}

fn list(items: Value) -> Value {
    json!({"type": "array", "items": items})
}
