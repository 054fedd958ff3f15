//! Whether a live object already says what a desired one asks for. Pure.
//!
//! The API server fills in defaults and other controllers add fields of their own, so live says more than desired; what counts is that
//! nothing desired is missing or different. That is read from the JSON alone, without a schema, by the rules of server-side apply:
//! objects are merged, lists that are keyed are merged by key, all other lists are one value.
//!
//! A wrong "no" costs one request that changes nothing, a wrong "yes" would leave somebody's change in place: so in doubt it is "no".

use serde_json::{Map, Value};

use super::quantity;

/// The keys by which the API merges the lists of objects under these fields; the first set that an element has in full is taken.
const LIST_KEYS: [(&str, &[&[&str]]); 15] = [
    ("ownerReferences", &[&["uid"]]),
    ("conditions", &[&["type"]]),
    ("containers", &[&["name"]]),
    ("initContainers", &[&["name"]]),
    ("ephemeralContainers", &[&["name"]]),
    ("volumes", &[&["name"]]),
    ("env", &[&["name"]]),
    ("imagePullSecrets", &[&["name"]]),
    ("secrets", &[&["name"]]),
    ("resourceClaims", &[&["name"]]),
    ("volumeMounts", &[&["mountPath"]]),
    ("volumeDevices", &[&["devicePath"]]),
    ("hostAliases", &[&["ip"]]),
    (
        "topologySpreadConstraints",
        &[&["topologyKey", "whenUnsatisfiable"]],
    ),
    (
        "ports",
        &[
            &["containerPort", "protocol"],
            &["port", "protocol"],
            &["containerPort"],
            &["port"],
        ],
    ),
];

/// Fields whose values are quantities.
const QUANTITIES: [&str; 6] = ["limits", "requests", "sizeLimit", "capacity", "hard", "divisor"];

/// Maps that the API merges as one value: a label more selects something else.
const ATOMIC: [&str; 2] = ["selector", "nodeSelector"];

/// Whether `live` has everything that `desired` has.
pub(super) fn covers(live: &Value, desired: &Value) -> bool {
    value_covers("", live, desired, false)
}

fn value_covers(field: &str, live: &Value, desired: &Value, quantity: bool) -> bool {
    match (live, desired) {
        (Value::Object(live), Value::Object(desired)) => object_covers(live, desired, quantity),
        (Value::Array(live), Value::Array(desired)) => list_covers(field, live, desired),
        (Value::String(live), Value::String(desired)) => {
            live == desired || (quantity && quantity::same(live, desired))
        }
        (Value::Number(live), Value::Number(desired)) => live == desired || live.as_f64() == desired.as_f64(),
        _ => live == desired,
    }
}

fn object_covers(live: &Map<String, Value>, desired: &Map<String, Value>, quantity: bool) -> bool {
    desired.iter().all(|(field, desired)| match live.get(field) {
        Some(live) if ATOMIC.contains(&field.as_str()) => live == desired,
        Some(live) => value_covers(
            field,
            live,
            desired,
            quantity || QUANTITIES.contains(&field.as_str()),
        ),
        None => says_nothing(field, desired),
    })
}

/// What the API server leaves out when it stores it: nulls, empty lists and empty maps of strings. An empty object elsewhere (`emptyDir: {}`)
/// says something by being there.
fn says_nothing(field: &str, desired: &Value) -> bool {
    const MAPS: [&str; 7] = [
        "labels",
        "annotations",
        "matchLabels",
        "nodeSelector",
        "data",
        "limits",
        "requests",
    ];
    match desired {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty() && MAPS.contains(&field),
        _ => false,
    }
}

fn list_covers(field: &str, live: &[Value], desired: &[Value]) -> bool {
    if field == "finalizers" {
        return desired.iter().all(|desired| live.contains(desired));
    }
    if let Some((_, keys)) = LIST_KEYS.iter().find(|(name, _)| *name == field) {
        return desired.iter().all(|desired| {
            let same_key = |live: &&Value| {
                keys.iter()
                    .find(|keys| has(desired, keys))
                    .is_some_and(|keys| agree(live, desired, keys))
            };
            live.iter()
                .find(same_key)
                .is_some_and(|live| value_covers("", live, desired, false))
        });
    }
    live.len() == desired.len()
        && live
            .iter()
            .zip(desired)
            .all(|(live, desired)| value_covers("", live, desired, false))
}

fn has(element: &Value, keys: &[&str]) -> bool {
    keys.iter().all(|key| element.get(*key).is_some())
}

fn agree(live: &Value, desired: &Value, keys: &[&str]) -> bool {
    keys.iter().all(|key| live.get(*key) == desired.get(*key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::json;

    #[rstest]
    #[case::defaults_filled_in(json!({"a": 1, "default": 2}), json!({"a": 1}), true)]
    #[case::a_changed_value(json!({"a": 2}), json!({"a": 1}), false)]
    #[case::a_removed_field(json!({}), json!({"a": false}), false)]
    #[case::another_type(json!({"a": "1"}), json!({"a": 1}), false)]
    #[case::a_nested_change(json!({"a": {"b": {"c": 1}}}), json!({"a": {"b": {"c": 2}}}), false)]
    #[case::arguments_in_another_order(json!({"args": ["a", "b"]}), json!({"args": ["b", "a"]}), false)]
    #[case::an_argument_more(json!({"args": ["a", "b"]}), json!({"args": ["a"]}), false)]
    #[case::a_list_without_key_that_grew(json!({"rules": [{"a": 1}, {"b": 1}]}), json!({"rules": [{"a": 1}]}), false)]
    #[case::an_injected_container(
        json!({"containers": [{"name": "sidecar"}, {"name": "web", "image": "i", "imagePullPolicy": "Always"}]}),
        json!({"containers": [{"name": "web", "image": "i"}]}), true)]
    #[case::a_container_that_is_gone(json!({"containers": []}), json!({"containers": [{"name": "web"}]}), false)]
    #[case::another_owner_beside_ours(
        json!({"ownerReferences": [{"uid": "2"}, {"uid": "1", "kind": "A"}]}),
        json!({"ownerReferences": [{"uid": "1", "kind": "A"}]}), true)]
    #[case::one_port_number_with_two_protocols(
        json!({"ports": [{"containerPort": 53, "protocol": "TCP"}, {"containerPort": 53, "protocol": "UDP", "name": "dns"}]}),
        json!({"ports": [{"containerPort": 53, "protocol": "UDP", "name": "dns"}]}), true)]
    #[case::a_defaulted_protocol(
        json!({"ports": [{"port": 80, "protocol": "TCP", "targetPort": 8080}]}),
        json!({"ports": [{"port": 80, "targetPort": 8080}]}), true)]
    #[case::a_finalizer_of_another(json!({"finalizers": ["a", "b"]}), json!({"finalizers": ["b"]}), true)]
    #[case::a_normalised_quantity(json!({"limits": {"cpu": "1"}}), json!({"limits": {"cpu": "1000m"}}), true)]
    #[case::a_changed_quantity(json!({"limits": {"cpu": "2"}}), json!({"limits": {"cpu": "1000m"}}), false)]
    #[case::what_looks_like_a_quantity_and_is_text(json!({"data": {"a": "1"}}), json!({"data": {"a": "1.0"}}), false)]
    #[case::a_selector_with_a_label_more(json!({"selector": {"a": "1", "b": "2"}}), json!({"selector": {"a": "1"}}), false)]
    #[case::an_empty_volume_source(json!({"name": "v", "hostPath": {}}), json!({"name": "v", "emptyDir": {}}), false)]
    #[case::an_empty_map_of_labels(json!({}), json!({"labels": {}, "args": [], "status": null}), true)]
    fn live_covers_desired(#[case] live: Value, #[case] desired: Value, #[case] expected: bool) {
        assert_eq!(covers(&live, &desired), expected);
    }

    fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[a-c]{0,3}".prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-d]", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    /// Every place in `value`, as a path.
    fn leaves(value: &Value, path: String, found: &mut Vec<String>) {
        match value {
            Value::Object(map) => map
                .iter()
                .for_each(|(key, inner)| leaves(inner, format!("{path}/{key}"), found)),
            Value::Array(list) => list
                .iter()
                .enumerate()
                .for_each(|(at, inner)| leaves(inner, format!("{path}/{at}"), found)),
            _ => found.push(path),
        }
    }

    proptest! {
        #[test]
        fn everything_covers_itself(value in json_value()) {
            prop_assert!(covers(&value, &value));
        }

        /// Whatever the server or others add to objects, an object still covers what it covered before.
        #[test]
        fn added_fields_never_matter(value in json_value(), extra in json_value()) {
            fn add(value: &mut Value, extra: &Value) {
                match value {
                    Value::Object(map) => {
                        map.values_mut().for_each(|inner| add(inner, extra));
                        map.insert("added".to_owned(), extra.clone());
                    }
                    Value::Array(list) => list.iter_mut().for_each(|inner| add(inner, extra)),
                    _ => {}
                }
            }
            let mut live = value.clone();
            add(&mut live, &extra);
            prop_assert!(covers(&live, &value));
        }

        /// Whichever single value somebody changes, it is noticed.
        #[test]
        fn a_changed_value_is_always_noticed(value in json_value(), which in any::<prop::sample::Index>()) {
            let mut places = Vec::new();
            leaves(&value, String::new(), &mut places);
            prop_assume!(!places.is_empty());
            let mut live = value.clone();
            *live.pointer_mut(&places[which.index(places.len())]).unwrap() = json!("changed by somebody");
            prop_assert!(!covers(&live, &value));
        }
    }
}
