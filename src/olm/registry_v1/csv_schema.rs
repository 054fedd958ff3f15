//! The types of a ClusterServiceVersion (`operators/v1alpha1` of operator-framework/api), as a schema.

use k8s_openapi::api::admissionregistration::v1::RuleWithOperations;
use k8s_openapi::api::apps::v1::DeploymentSpec;
use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

/// The whole object. What it has of Kubernetes is in the generator.
pub(super) fn of(generator: &mut SchemaGenerator) -> Value {
    let described = list(described_kind());
    let described = object([("owned", described.clone()), ("required", described)]);
    let mode = texts(["type"]).chain([("supported", boolean())]);
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
        ("customresourcedefinitions", described.clone()),
        ("apiservicedefinitions", described),
        ("webhookdefinitions", list(webhook(generator))),
        ("nativeAPIs", list(object(texts(["group", "version", "kind"])))),
        ("keywords", list(text())),
        ("maintainers", list(object(texts(["name", "email"])))),
        ("provider", object(texts(["name", "url"]))),
        ("links", list(object(texts(["name", "url"])))),
        ("icon", list(object(texts(["base64data", "mediatype"])))),
        ("installModes", list(object(mode))),
        ("labels", map(text())),
        ("annotations", map(text())),
        ("selector", part::<LabelSelector>(generator)),
        ("cleanup", object([("enabled", boolean())])),
        ("skips", list(text())),
        ("relatedImages", list(object(texts(["name", "image"])))),
    ]);
    object([
        ("metadata", part::<ObjectMeta>(generator)),
        ("spec", object(spec)),
    ])
}

fn install(generator: &mut SchemaGenerator) -> Value {
    let rules = list(part::<PolicyRule>(generator));
    let permissions = list(object(texts(["serviceAccountName"]).chain([("rules", rules)])));
    let deployment = texts(["name"]).chain([
        ("label", map(text())),
        ("spec", part::<DeploymentSpec>(generator)),
    ]);
    let strategy = object([
        ("deployments", list(object(deployment))),
        ("permissions", permissions.clone()),
        ("clusterPermissions", permissions),
    ]);
    object([("strategy", text()), ("spec", strategy)])
}

/// A definition or an API that is owned or required: the fields of both, since those of one name hold the same.
fn described_kind() -> Value {
    let descriptor = texts(["path", "displayName", "description"]).chain([("x-descriptors", list(text()))]);
    let descriptors = list(object(descriptor));
    let fields = texts([
        "name",
        "group",
        "version",
        "kind",
        "deploymentName",
        "displayName",
        "description",
    ])
    .chain([
        ("containerPort", whole_number()),
        ("resources", list(object(texts(["name", "kind", "version"])))),
        ("specDescriptors", descriptors.clone()),
        ("statusDescriptors", descriptors.clone()),
        ("actionDescriptors", descriptors),
    ]);
    object(fields)
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

fn map(values: Value) -> Value {
    json!({"type": "object", "additionalProperties": values})
}

fn list(items: Value) -> Value {
    json!({"type": "array", "items": items})
}
