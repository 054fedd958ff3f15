//! Sets of fields, and objects taken apart into them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::kinds::Kind;
use super::shape::{Shape, shape};

/// One step on the way to a field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    Field(String),
    /// An element of a keyed list: its keys, as JSON.
    Key(String),
    /// An element of a set, as JSON.
    Item(String),
}

pub type Path = Vec<Step>;

/// A set of fields, by their paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(pub BTreeSet<Path>);

impl Fields {
    pub fn minus(&self, other: &Self) -> Self {
        Self(self.0.difference(&other.0).cloned().collect())
    }

    pub fn plus(&self, other: &Self) -> Self {
        Self(self.0.union(&other.0).cloned().collect())
    }

    pub fn and(&self, other: &Self) -> Self {
        Self(self.0.intersection(&other.0).cloned().collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it has this path, or one below it.
    pub fn reaches(&self, path: &[Step]) -> bool {
        self.0.iter().any(|own| own.starts_with(path))
    }

    /// As `managedFields` has it: `fieldsV1`.
    pub fn encode(&self) -> Value {
        let mut root = json!({});
        for path in &self.0 {
            let mut at = &mut root;
            for step in path {
                let name = match step {
                    Step::Field(name) => format!("f:{name}"),
                    Step::Key(keys) => format!("k:{keys}"),
                    Step::Item(item) => format!("v:{item}"),
                };
                at = at
                    .as_object_mut()
                    .expect("built from objects")
                    .entry(name)
                    .or_insert(json!({}));
            }
            at["."] = json!({});
        }
        fn leaves_have_no_dot(value: &mut Value) {
            let Some(map) = value.as_object_mut() else { return };
            if map.len() == 1 {
                map.remove(".");
            }
            map.values_mut().for_each(leaves_have_no_dot);
        }
        leaves_have_no_dot(&mut root);
        root
    }

    pub fn decode(encoded: &Value) -> Self {
        fn walk(at: &Value, path: &mut Path, found: &mut BTreeSet<Path>) {
            let fields = at.as_object().cloned().unwrap_or_default();
            if fields.is_empty() && !path.is_empty() {
                found.insert(path.clone());
            }
            for (name, inner) in &fields {
                let step = match name.split_once(':') {
                    None => {
                        found.insert(path.clone());
                        continue;
                    }
                    Some(("f", name)) => Step::Field(name.to_owned()),
                    Some(("k", keys)) => Step::Key(keys.to_owned()),
                    Some(("v", item)) => Step::Item(item.to_owned()),
                    Some(_) => panic!("the managed field {name:?} is not simulated"),
                };
                path.push(step);
                walk(inner, path, found);
                path.pop();
            }
        }
        let mut found = BTreeSet::new();
        walk(encoded, &mut Vec::new(), &mut found);
        Self(found)
    }
}

/// Every field of an object that somebody can own, with its value. An element of a keyed list is one besides its own fields.
pub fn contents(kind: &Kind, object: &Value) -> BTreeMap<Path, Value> {
    let mut found = BTreeMap::new();
    walk(kind, object, &mut Vec::new(), &mut Vec::new(), &mut found);
    found.retain(|path, _| !is_the_servers(path));
    found
}

/// The names of all that an object has.
pub fn fields(kind: &Kind, object: &Value) -> Fields {
    Fields(contents(kind, object).into_keys().collect())
}

/// Nobody owns what identifies an object, nor what the API server writes itself.
fn is_the_servers(path: &Path) -> bool {
    const METADATA: [&str; 10] = [
        "name",
        "namespace",
        "generateName",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "managedFields",
    ];
    match path.as_slice() {
        [Step::Field(only)] => ["apiVersion", "kind", "metadata"].contains(&only.as_str()),
        [Step::Field(metadata), Step::Field(field), ..] => {
            metadata == "metadata" && METADATA.contains(&field.as_str())
        }
        _ => false,
    }
}

fn walk<'a>(
    kind: &Kind,
    value: &'a Value,
    names: &mut Vec<&'a str>,
    path: &mut Path,
    found: &mut BTreeMap<Path, Value>,
) {
    match (value, shape(kind, names, value)) {
        (Value::Object(map), Shape::Granular) if !map.is_empty() => {
            let in_metadata = names.as_slice() == ["metadata"];
            for (name, inner) in map {
                if in_metadata && name == "managedFields" {
                    continue;
                }
                names.push(name);
                path.push(Step::Field(name.clone()));
                walk(kind, inner, names, path, found);
                path.pop();
                names.pop();
            }
        }
        (Value::Array(list), Shape::Keyed(keys)) => {
            for element in list {
                path.push(Step::Key(key_of(element, &keys)));
                found.insert(path.clone(), Value::Null);
                walk(kind, element, names, path, found);
                path.pop();
            }
        }
        (Value::Array(list), Shape::Set) => {
            for element in list {
                path.push(Step::Item(element.to_string()));
                found.insert(path.clone(), element.clone());
                path.pop();
            }
        }
        _ => {
            found.insert(path.clone(), value.clone());
        }
    }
}

/// The keys of an element, as JSON.
pub fn key_of(element: &Value, keys: &[(String, Option<Value>)]) -> String {
    let mut map = Map::new();
    for (key, default) in keys {
        let value = element
            .get(key)
            .or(default.as_ref())
            .cloned()
            .unwrap_or(Value::Null);
        map.insert(key.clone(), value);
    }
    Value::Object(map).to_string()
}

/// What became other on the way from one object to another: first what is new or has another value, then what is gone.
pub fn difference(kind: &Kind, old: &Value, new: &Value) -> (Fields, Fields) {
    // Most writes leave most of an object alone.
    let differing = |object: &Value, other: &Value| {
        let fields = object.as_object().into_iter().flatten();
        let differing = fields.filter(|(name, value)| other.get(*name) != Some(value));
        differing
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect::<Value>()
    };
    let (old, new) = (differing(old, new), differing(new, old));
    let (old, new) = (contents(kind, &old), contents(kind, &new));
    let changed = new.iter().filter(|(path, value)| old.get(*path) != Some(value));
    let gone = old.keys().filter(|path| !new.contains_key(*path));
    (
        Fields(changed.map(|(path, _)| path.clone()).collect()),
        Fields(gone.cloned().collect()),
    )
}

/// Lays `applied` over `live`.
pub fn merge(kind: &Kind, live: &Value, applied: &Value) -> Value {
    merge_at(kind, &mut Vec::new(), live, applied)
}

fn merge_at<'a>(kind: &Kind, names: &mut Vec<&'a str>, live: &Value, applied: &'a Value) -> Value {
    match (live, applied, shape(kind, names, applied)) {
        (Value::Object(live), Value::Object(applied), Shape::Granular) => {
            let mut merged = live.clone();
            for (name, applied) in applied {
                names.push(name);
                let value = merge_at(kind, names, live.get(name).unwrap_or(&Value::Null), applied);
                names.pop();
                merged.insert(name.clone(), value);
            }
            Value::Object(merged)
        }
        (live, Value::Array(applied), Shape::Keyed(keys)) => {
            let live = live.as_array().cloned().unwrap_or_default();
            let find = |list: &[Value], element: &Value| {
                list.iter()
                    .position(|other| key_of(other, &keys) == key_of(element, &keys))
            };
            // Those that are applied in the order in which they are applied, behind those that are not.
            let mut merged: Vec<Value> = live
                .iter()
                .filter(|element| find(applied, element).is_none())
                .cloned()
                .collect();
            for element in applied {
                let before = find(&live, element).map_or(Value::Null, |at| live[at].clone());
                merged.push(merge_at(kind, names, &before, element));
            }
            keep_order(&live, &mut merged, &keys);
            Value::Array(merged)
        }
        (live, Value::Array(applied), Shape::Set) => {
            let mut merged = live.as_array().cloned().unwrap_or_default();
            for element in applied {
                if !merged.contains(element) {
                    merged.push(element.clone());
                }
            }
            Value::Array(merged)
        }
        (_, applied, _) => applied.clone(),
    }
}

/// A list whose elements are the same ones as before stays as it was.
fn keep_order(live: &[Value], merged: &mut [Value], keys: &[(String, Option<Value>)]) {
    let place = |element: &Value| {
        let own = key_of(element, keys);
        live.iter()
            .position(|other| key_of(other, keys) == own)
            .unwrap_or(usize::MAX)
    };
    merged.sort_by_key(place);
}

/// Takes these fields out of an object. What is empty then goes too.
pub fn without(kind: &Kind, object: &Value, gone: &Fields) -> Value {
    strip(kind, &mut Vec::new(), &mut Vec::new(), object, gone).unwrap_or_else(|| json!({}))
}

fn strip<'a>(
    kind: &Kind,
    names: &mut Vec<&'a str>,
    path: &mut Path,
    value: &'a Value,
    gone: &Fields,
) -> Option<Value> {
    if gone.0.contains(path) {
        return None;
    }
    if !gone.reaches(path) {
        return Some(value.clone());
    }
    match (value, shape(kind, names, value)) {
        (Value::Object(map), _) => {
            let mut left = Map::new();
            for (name, inner) in map {
                names.push(name);
                path.push(Step::Field(name.clone()));
                if let Some(inner) = strip(kind, names, path, inner, gone) {
                    left.insert(name.clone(), inner);
                }
                path.pop();
                names.pop();
            }
            (!left.is_empty()).then_some(Value::Object(left))
        }
        (Value::Array(list), shape) => {
            let mut left = Vec::new();
            for element in list {
                path.push(match &shape {
                    Shape::Keyed(keys) => Step::Key(key_of(element, keys)),
                    _ => Step::Item(element.to_string()),
                });
                left.extend(strip(kind, names, path, element, gone));
                path.pop();
            }
            (!left.is_empty()).then_some(Value::Array(left))
        }
        _ => Some(value.clone()),
    }
}
