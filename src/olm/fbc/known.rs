//! Documents that are changed and written again: their keys by the names that their schemas give them.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::blob::{BUNDLE, CHANNEL, DEPRECATIONS, PACKAGE};
use super::fold;
use crate::olm::manifests::text;

/// A field, and what is known of what it holds.
pub(in crate::olm) struct Known(pub &'static str, pub &'static [Known]);

const fn plain(name: &'static str) -> Known {
    Known(name, &[])
}

const PROPERTIES: Known = Known("properties", &[plain("type"), plain("value")]);
const OF_PACKAGE: &[Known] = &[
    plain("schema"),
    plain("name"),
    plain("defaultChannel"),
    plain("description"),
    Known("icon", &[plain("base64data"), plain("mediatype")]),
    PROPERTIES,
];
const OF_CHANNEL: &[Known] = &[
    plain("schema"),
    plain("name"),
    plain("package"),
    Known(
        "entries",
        &[
            plain("name"),
            plain("replaces"),
            plain("skips"),
            plain("skipRange"),
        ],
    ),
    PROPERTIES,
];
const OF_BUNDLE: &[Known] = &[
    plain("schema"),
    plain("name"),
    plain("package"),
    plain("image"),
    Known("relatedImages", &[plain("name"), plain("image")]),
    PROPERTIES,
];
const OF_DEPRECATIONS: &[Known] = &[
    plain("schema"),
    plain("package"),
    Known(
        "entries",
        &[
            Known("reference", &[plain("schema"), plain("name")]),
            plain("message"),
        ],
    ),
];
const VERSION: &[Known] = &[plain("packageName"), plain("version"), plain("release")];

/// Gives the keys of a document their names, if it is of a schema of the project's; others are their authors'.
///
/// # Errors
/// Two of its keys are the same but for their case.
pub(in crate::olm) fn canonical(document: &mut Value) -> Result<(), String> {
    let Value::Object(fields) = document else {
        return Ok(());
    };
    unique(fields)?;
    let known = match fold::get(fields, "schema").and_then(Value::as_str) {
        Some(PACKAGE) => OF_PACKAGE,
        Some(CHANNEL) => OF_CHANNEL,
        Some(BUNDLE) => OF_BUNDLE,
        Some(DEPRECATIONS) => OF_DEPRECATIONS,
        _ => return Ok(()),
    };
    name(fields, known);
    let properties = fields.get_mut("properties").and_then(Value::as_array_mut);
    for property in properties.into_iter().flatten() {
        if text(property, "/type") == PACKAGE
            && let Some(Value::Object(value)) = property.get_mut("value")
        {
            name(value, VERSION);
        }
    }
    Ok(())
}

fn unique(fields: &Map<String, Value>) -> Result<(), String> {
    let mut seen = HashMap::new();
    for key in fields.keys() {
        if let Some(first) = seen.insert(fold::common(key), key) {
            return Err(format!("duplicate key {key:?}, beside {first:?}"));
        }
    }
    Ok(())
}

/// Gives the keys of an object, and of what is known to be within it, their names. Of several that are the same but for their case upstream takes the
/// last; the others stay as they are.
pub(in crate::olm) fn name(fields: &mut Map<String, Value>, known: &[Known]) {
    for Known(name, within) in known {
        if !fields.contains_key(*name) {
            let same = fields.keys().filter(|key| fold::is_same(key, name));
            let last = same.max().cloned();
            if let Some(value) = last.and_then(|key| fields.remove(&key)) {
                fields.insert((*name).to_owned(), value);
            }
        }
        match fields.get_mut(*name) {
            Some(Value::Object(fields)) => self::name(fields, within),
            Some(Value::Array(items)) => {
                let objects = items.iter_mut().filter_map(Value::as_object_mut);
                objects.for_each(|fields| self::name(fields, within));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn known_keys_get_their_names_and_all_others_stay() {
        let mut document = json!({
            "Schema": "olm.bundle", "NAME": "a.v1", "Other": 1,
            "Properties": [
                {"Type": "olm.package", "Value": {"PackageName": "a", "Note": 1}},
                {"type": "mine", "Value": {"Version": 1}},
            ],
        });
        canonical(&mut document).unwrap();
        let expected = json!({
            "schema": "olm.bundle", "name": "a.v1", "Other": 1,
            "properties": [
                {"type": "olm.package", "value": {"packageName": "a", "Note": 1}},
                {"type": "mine", "value": {"Version": 1}},
            ],
        });
        assert_eq!(document, expected);
        let mut mine = json!({"Schema": "mine", "Name": "a"});
        canonical(&mut mine).unwrap();
        assert_eq!(mine, json!({"Schema": "mine", "Name": "a"}));
    }

    #[test]
    fn of_keys_that_are_the_same_none_is_lost() {
        let told = canonical(&mut json!({"schema": "mine", "foo": 1, "Foo": 2})).unwrap_err();
        assert_eq!(told, "duplicate key \"foo\", beside \"Foo\"");
        let mut channel = json!({"schema": "olm.channel", "entries": [{"NAME": "a", "Name": "b"}]});
        canonical(&mut channel).unwrap();
        let expected = json!({"schema": "olm.channel", "entries": [{"NAME": "a", "name": "b"}]});
        assert_eq!(channel, expected);
    }
}
