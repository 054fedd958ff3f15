//! One object of a review: read only if it is not too dear, and without what nobody here looks at.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::answer::shortened;
use crate::api::cost::cost;

/// What the API server has noted of who wrote which field: often half of an object, and the same in every version's metadata.
const MANAGED: &str = "managedFields";

/// An object whose `managedFields` have stayed text.
#[derive(Debug)]
pub(super) struct Object<'a> {
    pub(super) value: Value,
    pub(super) managed: Option<&'a RawValue>,
}

impl<'a> Object<'a> {
    /// Reads an object that takes at most `limit` bytes by [`cost`].
    pub(super) fn read(raw: &'a RawValue, limit: usize) -> Result<Self, String> {
        let malformed = |error: serde_json::Error| format!("it is no object of the API: {error}");
        let outline: Outline = serde_json::from_str(raw.get()).map_err(malformed)?;
        let metadata = outline.metadata.map_or("{}", RawValue::get);
        let of_metadata = |error| format!("its metadata is no object of the API: {error}");
        let Managed { managed } = serde_json::from_str(metadata).map_err(of_metadata)?;
        let cost = cost(raw.get()).saturating_sub(managed.map_or(0, |managed| cost(managed.get())));
        if cost > limit {
            return Err(format!(
                "it takes about {cost} bytes of memory; it must take at most {limit}: fewer or shorter lists and maps"
            ));
        }
        let mut value = fields_without(raw.get(), "metadata").map_err(malformed)?;
        let metadata = fields_without(metadata, MANAGED).map_err(of_metadata)?;
        value.insert("metadata".to_owned(), metadata.into());
        Ok(Self {
            value: value.into(),
            managed,
        })
    }
}

/// What the metadata of an object says that itself may be too dear to read. What cannot be read is empty.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Glimpse<'a> {
    #[serde(borrow)]
    namespace: Cow<'a, str>,
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    deletion_timestamp: Option<&'a RawValue>,
}

impl<'a> Glimpse<'a> {
    pub(super) fn of(raw: &'a RawValue) -> Self {
        let metadata = serde_json::from_str(raw.get())
            .ok()
            .and_then(|outline: Outline| outline.metadata);
        let glimpse = metadata.and_then(|metadata| serde_json::from_str(metadata.get()).ok());
        glimpse.unwrap_or_default()
    }

    /// Namespace and name, for messages.
    pub(super) fn name(&self) -> String {
        shortened(&format!("{}/{}", self.namespace, self.name), 253 + 1 + 253)
    }

    /// Whether the object is being deleted.
    pub(super) fn is_leaving(&self) -> bool {
        self.deletion_timestamp.is_some()
    }
}

/// Where in an object the dearest part is that nobody looks at. Found without reading anything else.
#[derive(Deserialize)]
struct Outline<'a> {
    #[serde(borrow, default)]
    metadata: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Managed<'a> {
    #[serde(borrow, default, rename = "managedFields")]
    managed: Option<&'a RawValue>,
}

fn fields_without(object: &str, left_out: &str) -> Result<Map<String, Value>, serde_json::Error> {
    let fields: BTreeMap<String, &RawValue> = serde_json::from_str(object)?;
    let fields = fields.into_iter().filter(|(name, _)| name != left_out);
    fields
        .map(|(name, raw)| Ok((name, serde_json::from_str(raw.get())?)))
        .collect()
}

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in self.value.as_object().into_iter().flatten() {
            match (name.as_str(), self.managed) {
                ("metadata", Some(managed)) => map.serialize_entry(name, &Metadata(value, managed))?,
                _ => map.serialize_entry(name, value)?,
            }
        }
        map.end()
    }
}

/// Metadata with what was taken out of it.
struct Metadata<'a>(&'a Value, &'a RawValue);

impl Serialize for Metadata<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in self.0.as_object().into_iter().flatten() {
            map.serialize_entry(name, value)?;
        }
        map.serialize_entry(MANAGED, self.1)?;
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn raw(text: &str) -> &RawValue {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn managed_fields_come_out_as_they_went_in() {
        let text = r#"{"kind":"A","metadata":{"name":"a","managedFields":[ {"f:a":{ }} ]},"spec":{"b":1}}"#;
        let object = Object::read(raw(text), 1 << 20).unwrap();
        assert_eq!(
            object.value,
            json!({"kind": "A", "metadata": {"name": "a"}, "spec": {"b": 1}})
        );
        let other = Object {
            value: json!({"kind": "A", "metadata": {"name": "b"}}),
            ..object
        };
        let written = serde_json::to_string(&other).unwrap();
        assert_eq!(
            written,
            r#"{"kind":"A","metadata":{"name":"b","managedFields":[ {"f:a":{ }} ]}}"#
        );
    }

    #[rstest]
    #[case::no_object("[]", "it is no object of the API")]
    #[case::no_metadata(r#"{"metadata":"x"}"#, "its metadata is no object of the API")]
    #[case::deep(&format!(r#"{{"a":{}{}}}"#, "[".repeat(200), "]".repeat(200)), "recursion limit exceeded")]
    #[case::dear(&format!(r#"{{"a":[{}0]}}"#, "{},".repeat(2000)), "it must take at most 1048576")]
    fn what_cannot_be_read_says_why(#[case] text: &str, #[case] expected: &str) {
        let error = Object::read(raw(text), 1 << 20).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}
