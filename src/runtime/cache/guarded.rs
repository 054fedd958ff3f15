//! Decoding that survives what it cannot decode.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::DynamicResourceScope;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::runtime::key::Object;

/// The annotation in which `kubectl apply` keeps a whole copy of the object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// An object of kind `K` as it came from the API server, or why it could not be read.
///
/// One malformed object must not end the watch of all the others, as it does when a list is decoded as a whole. What no controller
/// reads and what can be larger than all the rest, the managed fields and kubectl's copy, is dropped before the object is built.
#[derive(Clone, Debug)]
pub(super) struct Guarded<K> {
    pub(super) object: Result<K, String>,
    metadata: ObjectMeta,
}

impl<'de, K: Object> Deserialize<'de> for Guarded<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut value = Value::deserialize(deserializer)?;
        strip(&mut value);
        match K::deserialize(&value) {
            Ok(object) => Ok(Self {
                metadata: ObjectMeta::default(),
                object: Ok(object),
            }),
            Err(error) => {
                let metadata = value
                    .get("metadata")
                    .map_or_else(|| Ok(ObjectMeta::default()), ObjectMeta::deserialize);
                Ok(Self {
                    metadata: metadata.map_err(serde::de::Error::custom)?,
                    object: Err(error.to_string()),
                })
            }
        }
    }
}

fn strip(value: &mut Value) {
    let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    metadata.remove("managedFields");
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.remove(LAST_APPLIED);
    }
}

/// The same for an object that was built already.
pub(super) fn strip_object<K: Resource>(object: &mut K) {
    let metadata = object.meta_mut();
    metadata.managed_fields = None;
    if let Some(annotations) = &mut metadata.annotations {
        annotations.remove(LAST_APPLIED);
    }
}

impl<K: Object> Resource for Guarded<K> {
    type DynamicType = ();
    // So that one piece of code can watch kinds with and without namespaces.
    type Scope = DynamicResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        K::kind(&())
    }
    fn group((): &()) -> Cow<'_, str> {
        K::group(&())
    }
    fn version((): &()) -> Cow<'_, str> {
        K::version(&())
    }
    fn plural((): &()) -> Cow<'_, str> {
        K::plural(&())
    }
    fn meta(&self) -> &ObjectMeta {
        self.object.as_ref().map_or(&self.metadata, K::meta)
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.object.as_mut().map_or(&mut self.metadata, K::meta_mut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    #[test]
    fn a_malformed_object_is_known_by_its_name_and_its_fault() {
        let bad: Guarded<ConfigMap> =
            serde_json::from_value(json!({"metadata": {"name": "a", "namespace": "ns"}, "data": "no map"}))
                .unwrap();
        assert_eq!(bad.meta().name.as_deref(), Some("a"));
        assert!(bad.object.unwrap_err().contains("invalid type"));
    }

    #[test]
    fn what_nobody_reads_is_not_kept() {
        let object: Guarded<ConfigMap> = serde_json::from_value(json!({"metadata": {
            "name": "a", "managedFields": [{"manager": "kubectl"}], "annotations": {LAST_APPLIED: "{}", "kept": "yes"},
        }}))
        .unwrap();
        let metadata = object.object.unwrap().metadata;
        assert_eq!(metadata.managed_fields, None);
        assert_eq!(
            metadata.annotations,
            Some([("kept".to_owned(), "yes".to_owned())].into())
        );
    }
}
