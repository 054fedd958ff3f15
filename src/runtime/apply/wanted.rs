//! What an object is to be, and what of a live one somebody wrote. Pure.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::APPLIED;
use crate::runtime::key::Object;

/// What an object is to be, as JSON, with its hash among its annotations.
pub(super) struct Wanted {
    pub(super) json: Value,
    pub(super) hash: String,
}

impl Wanted {
    pub(super) fn new<K: Object>(desired: &K) -> Result<Self, serde_json::Error> {
        let mut json = serde_json::to_value(desired)?;
        json["apiVersion"] = json!(K::api_version(&()));
        json["kind"] = json!(K::kind(&()));
        if let Some(object) = json.as_object_mut() {
            object.remove("status");
        }
        if let Some(metadata) = json.get_mut("metadata").and_then(Value::as_object_mut) {
            for of_the_server in [
                "uid",
                "resourceVersion",
                "generation",
                "creationTimestamp",
                "managedFields",
            ] {
                metadata.remove(of_the_server);
            }
        }
        let hash = hash(&json);
        json["metadata"]["annotations"][APPLIED] = json!(hash);
        Ok(Self { json, hash })
    }

    /// The same, for an object whose metadata has these fields alone: else the API server answers with a conflict.
    pub(super) fn guarded(&self, fields: &[(&str, Value)]) -> Value {
        let mut json = self.json.clone();
        for (field, value) in fields {
            json["metadata"][field] = value.clone();
        }
        json
    }
}

/// A live object without what changes when nobody changes it.
pub(super) fn essence(live: &Value) -> String {
    let mut live = live.clone();
    if let Some(object) = live.as_object_mut() {
        object.remove("status");
    }
    if let Some(metadata) = live.get_mut("metadata").and_then(Value::as_object_mut) {
        for volatile in ["resourceVersion", "generation", "managedFields"] {
            metadata.remove(volatile);
        }
    }
    hash(&live)
}

fn hash(json: &Value) -> String {
    let digest = Sha256::digest(json.to_string());
    // 64 bits are plenty to tell one version of an object from another.
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;

    fn config_map(value: Option<&str>) -> ConfigMap {
        let mut object = ConfigMap::default();
        object.metadata.name = Some("a".into());
        object.data = value.map(|value| [("a".to_owned(), value.to_owned())].into());
        object
    }

    #[test]
    fn what_is_sent_names_its_kind_and_carries_its_hash() {
        let Wanted { json, hash } = Wanted::new(&config_map(None)).unwrap();
        assert_eq!(
            (json["apiVersion"].as_str(), json["kind"].as_str()),
            (Some("v1"), Some("ConfigMap"))
        );
        assert_eq!(json["metadata"]["annotations"][APPLIED], hash.as_str());
        assert_eq!(hash.len(), 16);
    }

    #[test]
    fn the_hash_depends_on_what_is_desired_alone() {
        let mut changed = config_map(None);
        changed.data = Some([("a".to_owned(), "b".to_owned())].into());
        let mut seen = config_map(None);
        seen.metadata.resource_version = Some("7".into());
        seen.metadata.uid = Some("1".into());
        let hash = |object: &ConfigMap| Wanted::new(object).unwrap().hash;
        assert_ne!(hash(&config_map(None)), hash(&changed));
        assert_eq!(hash(&config_map(None)), hash(&seen));
    }

    #[test]
    fn the_essence_of_an_object_is_what_somebody_wrote() {
        let with = |version: &str, value: &str| {
            let mut object = config_map(None);
            object.metadata.resource_version = Some(version.into());
            object.data = Some([("a".to_owned(), value.to_owned())].into());
            essence(&serde_json::to_value(object).unwrap())
        };
        assert_eq!(with("1", "x"), with("2", "x"));
        assert_ne!(with("1", "x"), with("1", "y"));
    }
}
