//! `olm.csv.metadata`: what a ClusterServiceVersion says of itself to consoles. Fields that upstream does not know are left out, as it does.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::blob::{Text, null_as_default};
use crate::olm::json::Sorted;

type List<T> = Vec<T>;
type Texts<'a> = BTreeMap<Text<'a>, Text<'a>>;

/// The property's value. The order of fields is that in which a ClusterServiceVersion is written.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata<'a> {
    /// `metadata.annotations`
    #[serde(borrow, deserialize_with = "null_as_default")]
    pub annotations: Texts<'a>,
    /// `spec.apiservicedefinitions`
    #[serde(borrow, deserialize_with = "null_as_default")]
    pub api_service_definitions: Definitions<ApiService<'a>>,
    /// `spec.customresourcedefinitions`
    #[serde(borrow, deserialize_with = "null_as_default")]
    pub crd_descriptions: Definitions<Crd<'a>>,
    /// `spec.description`
    #[serde(borrow, deserialize_with = "null_as_default")]
    pub description: Text<'a>,
    /// `spec.displayName`
    #[serde(borrow, deserialize_with = "null_as_default")]
    pub display_name: Text<'a>,
    /// `spec.installModes`
    #[serde(borrow, deserialize_with = "null_as_default")]
    pub install_modes: List<InstallMode<'a>>,
    /// `spec.keywords`
    #[serde(borrow, deserialize_with = "null_as_default")]
    pub keywords: List<Text<'a>>,
    /// `metadata.labels`
    #[serde(borrow, deserialize_with = "null_as_default")]
    pub labels: Texts<'a>,
    /// `spec.links`
    #[serde(borrow, deserialize_with = "null_as_default")]
    pub links: List<Link<'a>>,
    /// `spec.maintainers`
    #[serde(borrow, deserialize_with = "null_as_default")]
    pub maintainers: List<Maintainer<'a>>,
    /// `spec.maturity`
    #[serde(borrow, deserialize_with = "null_as_default")]
    pub maturity: Text<'a>,
    /// `spec.minKubeVersion`
    #[serde(borrow, deserialize_with = "null_as_default")]
    pub min_kube_version: Text<'a>,
    /// `spec.nativeAPIs`
    #[serde(rename = "nativeAPIs", borrow, deserialize_with = "null_as_default")]
    pub native_apis: List<NativeApi<'a>>,
    /// `spec.provider`
    #[serde(borrow, deserialize_with = "null_as_default")]
    pub provider: Link<'a>,
}

/// What an operator owns, and what it needs.
#[derive(Debug, Deserialize, Serialize)]
#[serde(bound(deserialize = "T: Deserialize<'de>"))]
pub struct Definitions<T> {
    #[serde(
        default = "Vec::new",
        deserialize_with = "null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    owned: Vec<T>,
    #[serde(
        default = "Vec::new",
        deserialize_with = "null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    required: Vec<T>,
}

impl<T> Default for Definitions<T> {
    fn default() -> Self {
        Self {
            owned: Vec::new(),
            required: Vec::new(),
        }
    }
}

/// A kind of a CustomResourceDefinition.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Crd<'a> {
    #[serde(borrow, deserialize_with = "null_as_default")]
    name: Text<'a>,
    #[serde(borrow, deserialize_with = "null_as_default")]
    version: Text<'a>,
    #[serde(borrow, deserialize_with = "null_as_default")]
    kind: Text<'a>,
    #[serde(
        borrow,
        deserialize_with = "null_as_default",
        skip_serializing_if = "is_empty"
    )]
    display_name: Text<'a>,
    #[serde(
        borrow,
        deserialize_with = "null_as_default",
        skip_serializing_if = "is_empty"
    )]
    description: Text<'a>,
    #[serde(
        borrow,
        deserialize_with = "null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    resources: List<Resource<'a>>,
    #[serde(
        borrow,
        deserialize_with = "null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    status_descriptors: List<Descriptor<'a>>,
    #[serde(
        borrow,
        deserialize_with = "null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    spec_descriptors: List<Descriptor<'a>>,
    #[serde(
        borrow,
        deserialize_with = "null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    action_descriptors: List<Descriptor<'a>>,
}

/// A kind of an aggregated API.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ApiService<'a> {
    #[serde(borrow, deserialize_with = "null_as_default")]
    name: Text<'a>,
    #[serde(borrow, deserialize_with = "null_as_default")]
    group: Text<'a>,
    #[serde(borrow, deserialize_with = "null_as_default")]
    version: Text<'a>,
    #[serde(borrow, deserialize_with = "null_as_default")]
    kind: Text<'a>,
    #[serde(
        borrow,
        deserialize_with = "null_as_default",
        skip_serializing_if = "is_empty"
    )]
    deployment_name: Text<'a>,
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "is_zero")]
    container_port: i32,
    #[serde(
        borrow,
        deserialize_with = "null_as_default",
        skip_serializing_if = "is_empty"
    )]
    display_name: Text<'a>,
    #[serde(
        borrow,
        deserialize_with = "null_as_default",
        skip_serializing_if = "is_empty"
    )]
    description: Text<'a>,
    #[serde(
        borrow,
        deserialize_with = "null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    resources: List<Resource<'a>>,
    #[serde(
        borrow,
        deserialize_with = "null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    status_descriptors: List<Descriptor<'a>>,
    #[serde(
        borrow,
        deserialize_with = "null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    spec_descriptors: List<Descriptor<'a>>,
    #[serde(
        borrow,
        deserialize_with = "null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    action_descriptors: List<Descriptor<'a>>,
}

/// A kind of object that an operator makes.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Resource<'a> {
    #[serde(borrow, deserialize_with = "null_as_default")]
    name: Text<'a>,
    #[serde(borrow, deserialize_with = "null_as_default")]
    kind: Text<'a>,
    #[serde(borrow, deserialize_with = "null_as_default")]
    version: Text<'a>,
}

/// What a console shows of a field.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Descriptor<'a> {
    #[serde(borrow, deserialize_with = "null_as_default")]
    path: Text<'a>,
    #[serde(
        borrow,
        deserialize_with = "null_as_default",
        skip_serializing_if = "is_empty"
    )]
    display_name: Text<'a>,
    #[serde(
        borrow,
        deserialize_with = "null_as_default",
        skip_serializing_if = "is_empty"
    )]
    description: Text<'a>,
    #[serde(
        rename = "x-descriptors",
        borrow,
        deserialize_with = "null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    x_descriptors: List<Text<'a>>,
    #[serde(borrow, serialize_with = "sorted", skip_serializing_if = "Option::is_none")]
    value: Option<&'a RawValue>,
}

/// Of which namespaces an operator can be told.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct InstallMode<'a> {
    #[serde(rename = "type", borrow, deserialize_with = "null_as_default")]
    kind: Text<'a>,
    #[serde(deserialize_with = "null_as_default")]
    supported: bool,
}

/// A name and where it leads.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Link<'a> {
    #[serde(
        borrow,
        deserialize_with = "null_as_default",
        skip_serializing_if = "is_empty"
    )]
    name: Text<'a>,
    #[serde(
        borrow,
        deserialize_with = "null_as_default",
        skip_serializing_if = "is_empty"
    )]
    url: Text<'a>,
}

/// Who looks after it.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Maintainer<'a> {
    #[serde(
        borrow,
        deserialize_with = "null_as_default",
        skip_serializing_if = "is_empty"
    )]
    name: Text<'a>,
    #[serde(
        borrow,
        deserialize_with = "null_as_default",
        skip_serializing_if = "is_empty"
    )]
    email: Text<'a>,
}

/// A kind of the API server's own.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct NativeApi<'a> {
    #[serde(borrow, deserialize_with = "null_as_default")]
    group: Text<'a>,
    #[serde(borrow, deserialize_with = "null_as_default")]
    version: Text<'a>,
    #[serde(borrow, deserialize_with = "null_as_default")]
    kind: Text<'a>,
}

/// As upstream keeps whatever is in a document.
fn sorted<S: Serializer>(value: &Option<&RawValue>, serializer: S) -> Result<S::Ok, S::Error> {
    let text = value.map_or("null", RawValue::get);
    let value: Value = serde_json::from_str(text).map_err(serde::ser::Error::custom)?;
    Sorted(&value).serialize(serializer)
}

fn is_empty(text: &Text<'_>) -> bool {
    text.is_empty()
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(number: &i32) -> bool {
    *number == 0
}
