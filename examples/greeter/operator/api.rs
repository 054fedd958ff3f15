//! The kinds as users write them. `greeter generate` makes crds/ of these types.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

/// Whom to greet.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "roadstead.dev",
    version = "v1alpha1",
    kind = "Greeting",
    namespaced,
    status = "GreetingStatus",
    doc = "A greeting to somebody, or to everybody of a family.",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[x_kube(validation = Rule::new("has(self.name) != has(self.surname)")
    .message("give exactly one of name, to greet somebody, and surname, to greet a family"))]
pub struct GreetingSpec {
    /// The name to greet, from 1 to 100 characters. Give either this or surname.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 100))]
    pub name: Option<String>,

    /// The family to greet: every Person of this surname in the same namespace. From 1 to 100 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 100))]
    pub surname: Option<String>,
}

/// What the operator says.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GreetingStatus {
    /// The greeting.
    #[serde(default)]
    pub message: String,

    /// The object names of the people whom the message greets, in the same order. While one is in here it cannot go.
    #[serde(default)]
    pub people: Vec<String>,

    /// Ready: whether there is somebody to greet.
    #[serde(default)]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// Who somebody is.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "roadstead.dev",
    version = "v1alpha1",
    kind = "Person",
    plural = "people",
    namespaced,
    status = "PersonStatus",
    doc = "Somebody who can be greeted. A Person cannot go while a Greeting refers to it.",
    printcolumn(name = "First name", type_ = "string", json_path = ".spec.firstName"),
    printcolumn(name = "Surname", type_ = "string", json_path = ".spec.surname"),
    printcolumn(
        name = "Greeted",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Greeted\")].status"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct PersonSpec {
    /// By which greetings call the person, from 1 to 100 characters.
    #[schemars(length(min = 1, max = 100))]
    pub first_name: String,

    /// The family that the person belongs to, from 1 to 100 characters.
    #[schemars(length(min = 1, max = 100))]
    pub surname: String,
}

/// What the operator says.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PersonStatus {
    /// Greeted: whether a Greeting refers to the person.
    #[serde(default)]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}
