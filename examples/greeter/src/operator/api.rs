//! The kinds as users write them. `greeter generate` makes crds/ of these types.
#![allow(clippy::duplicated_attributes, reason = "two columns may be of the same type")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

/// Whom to greet.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(group = "roadstead.dev", version = "v1alpha1", kind = "Greeting")]
#[kube(namespaced, status = "GreetingStatus", derive = "PartialEq")]
#[kube(doc = "A greeting to somebody, or to everybody of a family.")]
#[kube(printcolumn(
    name = "Ready",
    type_ = "string",
    json_path = r#".status.conditions[?(@.type=="Ready")].status"#
))]
#[kube(printcolumn(name = "Message", type_ = "string", json_path = ".status.message"))]
#[kube(printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"))]
#[x_kube(validation = Rule::new("has(self.name) != has(self.surname)")
    .message("give exactly one of name (to greet somebody) and surname (to greet a family)"))]
pub struct GreetingSpec {
    /// The name to greet, from 1 to 100 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 100))]
    pub name: Option<String>,
    /// The family to greet: every Person of this surname in the same namespace. From 1 to 100 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 100))]
    pub surname: Option<String>,
}

/// What the operator says of a Greeting.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GreetingStatus {
    /// The greeting.
    #[serde(default)]
    pub message: String,
    /// The object names of the people whom the message greets, in its order. A Person that is in here cannot go.
    #[serde(default)]
    pub people: Vec<String>,
    /// Ready: whether somebody is greeted.
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
    plural = "people"
)]
#[kube(namespaced, status = "PersonStatus", derive = "PartialEq")]
#[kube(doc = "Somebody who can be greeted. A Person cannot go while a Greeting refers to it.")]
#[kube(printcolumn(name = "First name", type_ = "string", json_path = ".spec.firstName"))]
#[kube(printcolumn(name = "Surname", type_ = "string", json_path = ".spec.surname"))]
#[kube(printcolumn(
    name = "Greeted",
    type_ = "string",
    json_path = r#".status.conditions[?(@.type=="Greeted")].status"#
))]
#[kube(printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"))]
#[serde(rename_all = "camelCase")]
pub struct PersonSpec {
    /// How greetings call the person, from 1 to 100 characters.
    #[schemars(length(min = 1, max = 100))]
    pub first_name: String,
    /// The person's family, from 1 to 100 characters.
    #[schemars(length(min = 1, max = 100))]
    pub surname: String,
}

/// What the operator says of a Person.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PersonStatus {
    /// Greeted: whether a Greeting refers to the person.
    #[serde(default)]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}
