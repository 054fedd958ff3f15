//! What an object says that another version of it cannot: kept apart, and put back later. On plain JSON, whatever the kind.
//!
//! A loss names a place, what stood there, and what conversion there and back makes of that. Put back is it only where the latter is still so:
//! elsewhere somebody has changed the place since, and wins.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One step on the way to a place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Step {
    /// The field of this name.
    Field(String),
    /// The element of a keyed list that has these values.
    Element(Map<String, Value>),
}

/// A place that another version cannot hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Loss {
    at: Vec<Step>,
    /// What stood there; nothing if conversion there and back adds something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    is: Option<Value>,
    /// What conversion there and back leaves there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    left: Option<Value>,
}

/// What has to be put into `back` so that it becomes `full`. `schema` is the structural schema of both; it tells which lists are keyed.
pub(super) fn losses(schema: &Value, full: &Value, back: &Value) -> Vec<Loss> {
    let mut found = Vec::new();
    compare(schema, full, back, &mut Vec::new(), &mut found);
    found
}

fn compare(schema: &Value, full: &Value, back: &Value, at: &mut Vec<Step>, found: &mut Vec<Loss>) {
    match (full, back) {
        (Value::Object(full), Value::Object(back)) => {
            let added = back.keys().filter(|field| !full.contains_key(*field));
            for field in full.keys().chain(added) {
                at.push(Step::Field(field.clone()));
                match (full.get(field), back.get(field)) {
                    (Some(full), Some(back)) => compare(of_field(schema, field), full, back, at, found),
                    (full, back) => note(full, back, at, found),
                }
                at.pop();
            }
        }
        (Value::Array(elements), Value::Array(others)) => match pairs(schema, elements, others) {
            Some(pairs) => {
                for (key, full, back) in pairs {
                    at.push(Step::Element(key));
                    compare(&schema["items"], full, back, at, found);
                    at.pop();
                }
            }
            None if elements == others => {}
            None => note(Some(full), Some(back), at, found),
        },
        _ if full == back => {}
        _ => note(Some(full), Some(back), at, found),
    }
}

fn note(full: Option<&Value>, back: Option<&Value>, at: &[Step], found: &mut Vec<Loss>) {
    found.push(Loss {
        at: at.to_vec(),
        is: full.cloned(),
        left: back.cloned(),
    });
}

fn of_field<'a>(schema: &'a Value, field: &str) -> &'a Value {
    match schema["properties"].get(field) {
        Some(known) => known,
        None => &schema["additionalProperties"],
    }
}

/// An element in two versions, and its key.
type Both<'a> = (Map<String, Value>, &'a Value, &'a Value);

/// The elements of two keyed lists with the same keys in the same order; otherwise a list is one value.
fn pairs<'a>(schema: &Value, full: &'a [Value], back: &'a [Value]) -> Option<Vec<Both<'a>>> {
    let names = schema["x-kubernetes-list-map-keys"].as_array()?;
    let key = |element: &Value| -> Option<Map<String, Value>> {
        let values = names.iter().map(|name| {
            let name = name.as_str()?;
            Some((name.to_owned(), element.get(name)?.clone()))
        });
        values.collect()
    };
    let keys: Option<Vec<_>> = full.iter().map(key).collect();
    let others: Option<Vec<_>> = back.iter().map(key).collect();
    let keys = keys.filter(|keys| Some(keys) == others.as_ref())?;
    let is_unique = keys.iter().enumerate().all(|(at, key)| !keys[..at].contains(key));
    is_unique.then(|| {
        let elements = keys.into_iter().zip(full.iter().zip(back));
        elements.map(|(key, (full, back))| (key, full, back)).collect()
    })
}

/// Puts back what is lost where nobody has changed it since.
pub(super) fn restore(target: &mut Value, losses: Vec<Loss>) {
    for Loss { at, is, left } in losses {
        put_back(target, &at, is, left.as_ref());
    }
}

fn put_back(target: &mut Value, at: &[Step], is: Option<Value>, left: Option<&Value>) {
    match (at, target) {
        ([Step::Field(field)], Value::Object(fields)) => {
            if fields.get(field) != left {
                return;
            }
            match is {
                Some(value) => fields.insert(field.clone(), value),
                None => fields.remove(field),
            };
        }
        ([Step::Field(field), rest @ ..], Value::Object(fields)) => {
            if let Some(inner) = fields.get_mut(field) {
                put_back(inner, rest, is, left);
            }
        }
        ([Step::Element(key), rest @ ..], Value::Array(elements)) => {
            if let Some(element) = find(elements, key) {
                put_back(element, rest, is, left);
            }
        }
        _ => {}
    }
}

fn find<'a>(elements: &'a mut [Value], key: &Map<String, Value>) -> Option<&'a mut Value> {
    let has_key = |element: &&mut Value| key.iter().all(|(name, value)| element.get(name) == Some(value));
    elements.iter_mut().find(has_key)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Objects with a keyed list, in which there are objects with another one.
    fn schema() -> Value {
        let inner = json!({
            "x-kubernetes-list-map-keys": ["name"],
            "items": {"properties": {"name": {}, "a": {}, "b": {}}},
        });
        json!({"properties": {
            "a": {}, "b": {"properties": {"a": {}}},
            "list": {"x-kubernetes-list-map-keys": ["name"], "items": {"properties": {"name": {}, "a": {}, "list": inner}}},
        }})
    }

    fn scalar() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(json!(1)),
            Just(json!("x")),
            Just(json!([1, 2])),
            Just(json!({"c": 1})),
        ]
    }

    fn element(inner: bool) -> BoxedStrategy<Value> {
        let lists = if inner {
            list(false).boxed()
        } else {
            Just(json!([])).boxed()
        };
        let parts = (
            prop::sample::select(vec!["x", "y", "z"]),
            prop::option::of(scalar()),
            prop::option::of(lists),
        );
        parts
            .prop_map(|(name, a, list)| {
                let mut element = json!({"name": name});
                a.into_iter().for_each(|a| element["a"] = a);
                list.into_iter().for_each(|list| element["list"] = list);
                element
            })
            .boxed()
    }

    fn list(inner: bool) -> impl Strategy<Value = Value> {
        prop::collection::vec(element(inner), 0..4).prop_map(Value::from)
    }

    fn object() -> impl Strategy<Value = Value> {
        let parts = (
            prop::option::of(scalar()),
            prop::option::of(scalar()),
            prop::option::of(list(true)),
        );
        parts.prop_map(|(a, b, list)| {
            let mut object = json!({});
            a.into_iter().for_each(|a| object["a"] = a);
            b.into_iter().for_each(|b| object["b"] = json!({"a": b}));
            list.into_iter().for_each(|list| object["list"] = list);
            object
        })
    }

    proptest! {
        #[test]
        fn whatever_is_lost_can_be_put_back(full in object(), back in object()) {
            let lost = losses(&schema(), &full, &back);
            let text = serde_json::to_string(&lost).unwrap();
            let read: Vec<Loss> = serde_json::from_str(&text).unwrap();
            let mut restored = back.clone();
            restore(&mut restored, read);
            prop_assert_eq!(restored, full);
        }

        #[test]
        fn what_is_put_back_into_something_else_never_panics(full in object(), back in object(), other in object()) {
            restore(&mut other.clone(), losses(&schema(), &full, &back));
        }
    }

    #[test]
    fn what_somebody_changed_since_stays() {
        let full = json!({"a": "rich", "list": [{"name": "x", "a": 1, "b": 2}, {"name": "y", "b": 2}]});
        let back = json!({"a": "poor", "list": [{"name": "x", "a": 1}, {"name": "y"}]});
        let lost = losses(&schema(), &full, &back);
        let mut changed = json!({"a": "other", "list": [{"name": "z"}, {"name": "x", "a": 5}]});
        restore(&mut changed, lost);
        let expected = json!({"a": "other", "list": [{"name": "z"}, {"name": "x", "a": 5, "b": 2}]});
        assert_eq!(
            changed, expected,
            "an element is known by its key, wherever it stands"
        );
    }
}
