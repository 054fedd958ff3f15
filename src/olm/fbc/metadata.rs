//! `olm.csv.metadata`: what a ClusterServiceVersion says of itself to consoles. Fields that upstream does not know are left out, as it does.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::blob::{Text, raw};
use crate::olm::json;

type List<T> = Vec<T>;
type Texts<'a> = BTreeMap<Text<'a>, Text<'a>>;

/// The property's value. The order of fields is that in which a ClusterServiceVersion is written.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata<'a> {
    /// `metadata.annotations`
    #[serde(borrow)]
    pub annotations: Texts<'a>,
    /// `spec.apiservicedefinitions`
    #[serde(borrow)]
    pub api_service_definitions: Definitions<ApiService<'a>>,
    /// `spec.customresourcedefinitions`
    #[serde(borrow)]
    pub crd_descriptions: Definitions<Crd<'a>>,
    /// `spec.description`
    #[serde(borrow)]
    pub description: Text<'a>,
    /// `spec.displayName`
    #[serde(borrow)]
    pub display_name: Text<'a>,
    /// `spec.installModes`
    #[serde(borrow)]
    pub install_modes: List<InstallMode<'a>>,
    /// `spec.keywords`
    #[serde(borrow)]
    pub keywords: List<Text<'a>>,
    /// `metadata.labels`
    #[serde(borrow)]
    pub labels: Texts<'a>,
    /// `spec.links`
    #[serde(borrow)]
    pub links: List<Link<'a>>,
    /// `spec.maintainers`
    #[serde(borrow)]
    pub maintainers: List<Maintainer<'a>>,
    /// `spec.maturity`
    #[serde(borrow)]
    pub maturity: Text<'a>,
    /// `spec.minKubeVersion`
    #[serde(borrow)]
    pub min_kube_version: Text<'a>,
    /// `spec.nativeAPIs`
    #[serde(rename = "nativeAPIs", borrow)]
    pub native_apis: List<NativeApi<'a>>,
    /// `spec.provider`
    #[serde(borrow)]
    pub provider: Link<'a>,
}

/// What an operator owns, and what it needs.
#[derive(Debug, Deserialize, Serialize)]
#[serde(bound(deserialize = "T: Deserialize<'de>"))]
pub struct Definitions<T> {
    #[serde(default = "Vec::new", skip_serializing_if = "Vec::is_empty")]
    owned: Vec<T>,
    #[serde(default = "Vec::new", skip_serializing_if = "Vec::is_empty")]
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
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    version: Text<'a>,
    #[serde(borrow)]
    kind: Text<'a>,
    #[serde(borrow, skip_serializing_if = "is_empty")]
    display_name: Text<'a>,
    #[serde(borrow, skip_serializing_if = "is_empty")]
    description: Text<'a>,
    #[serde(borrow, skip_serializing_if = "Vec::is_empty")]
    resources: List<Resource<'a>>,
    #[serde(borrow, skip_serializing_if = "Vec::is_empty")]
    status_descriptors: List<Descriptor<'a>>,
    #[serde(borrow, skip_serializing_if = "Vec::is_empty")]
    spec_descriptors: List<Descriptor<'a>>,
    #[serde(borrow, skip_serializing_if = "Vec::is_empty")]
    action_descriptors: List<Descriptor<'a>>,
}

/// A kind of an aggregated API.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ApiService<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    group: Text<'a>,
    #[serde(borrow)]
    version: Text<'a>,
    #[serde(borrow)]
    kind: Text<'a>,
    #[serde(borrow, skip_serializing_if = "is_empty")]
    deployment_name: Text<'a>,
    #[serde(skip_serializing_if = "is_zero")]
    container_port: i32,
    #[serde(borrow, skip_serializing_if = "is_empty")]
    display_name: Text<'a>,
    #[serde(borrow, skip_serializing_if = "is_empty")]
    description: Text<'a>,
    #[serde(borrow, skip_serializing_if = "Vec::is_empty")]
    resources: List<Resource<'a>>,
    #[serde(borrow, skip_serializing_if = "Vec::is_empty")]
    status_descriptors: List<Descriptor<'a>>,
    #[serde(borrow, skip_serializing_if = "Vec::is_empty")]
    spec_descriptors: List<Descriptor<'a>>,
    #[serde(borrow, skip_serializing_if = "Vec::is_empty")]
    action_descriptors: List<Descriptor<'a>>,
}

/// A kind of object that an operator makes.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Resource<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    kind: Text<'a>,
    #[serde(borrow)]
    version: Text<'a>,
}

/// What a console shows of a field.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Descriptor<'a> {
    #[serde(borrow)]
    path: Text<'a>,
    #[serde(borrow, skip_serializing_if = "is_empty")]
    display_name: Text<'a>,
    #[serde(borrow, skip_serializing_if = "is_empty")]
    description: Text<'a>,
    #[serde(rename = "x-descriptors", borrow, skip_serializing_if = "Vec::is_empty")]
    x_descriptors: List<Text<'a>>,
    #[serde(
        borrow,
        deserialize_with = "readable",
        serialize_with = "canonical",
        skip_serializing_if = "Option::is_none"
    )]
    value: Option<&'a RawValue>,
}

/// Of which namespaces an operator can be told.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct InstallMode<'a> {
    #[serde(rename = "type", borrow)]
    kind: Text<'a>,
    supported: bool,
}

/// A name and where it leads.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Link<'a> {
    #[serde(borrow, skip_serializing_if = "is_empty")]
    name: Text<'a>,
    #[serde(borrow, skip_serializing_if = "is_empty")]
    url: Text<'a>,
}

/// Who looks after it.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Maintainer<'a> {
    #[serde(borrow, skip_serializing_if = "is_empty")]
    name: Text<'a>,
    #[serde(borrow, skip_serializing_if = "is_empty")]
    email: Text<'a>,
}

/// A kind of the API server's own.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct NativeApi<'a> {
    #[serde(borrow)]
    group: Text<'a>,
    #[serde(borrow)]
    version: Text<'a>,
    #[serde(borrow)]
    kind: Text<'a>,
}

/// Whatever is there, if upstream can read it.
fn readable<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    let value = raw(deserializer)?;
    let read = value.map_or(Ok(()), |value| json::check_numbers(value.get()));
    read.map_err(serde::de::Error::custom)?;
    Ok(value)
}

/// As upstream keeps whatever is in a document.
fn canonical<S: Serializer>(value: &Option<&RawValue>, serializer: S) -> Result<S::Ok, S::Error> {
    let Some(value) = value else {
        return serializer.serialize_none();
    };
    let text = json::canonical_for_pages(value).and_then(RawValue::from_string);
    text.map_err(serde::ser::Error::custom)?.serialize(serializer)
}

fn is_empty(text: &Text<'_>) -> bool {
    text.is_empty()
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(number: &i32) -> bool {
    *number == 0
}
