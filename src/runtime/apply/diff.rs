//! The smallest merge patch (RFC 7386) from one JSON value to another. Pure.

use serde_json::{Map, Value};

/// What to patch `from` with so that it becomes `to`; `None` when they are equal already.
///
/// Nulls inside `to` mean absence, as they do in a merge patch.
pub(super) fn merge_patch(from: &Value, to: &Value) -> Option<Value> {
    let (Value::Object(from), Value::Object(to)) = (from, to) else {
        return (from != to).then(|| to.clone());
    };
    let mut patch = Map::new();
    for (field, to) in to.iter().filter(|(_, to)| !to.is_null()) {
        // Against a field that is absent, an object still has to be cleaned of its nulls: they would be sent as such.
        let empty = Value::Object(Map::new());
        let step = match from.get(field) {
            Some(from) => merge_patch(from, to),
            None if to.is_object() => Some(merge_patch(&empty, to).unwrap_or(empty)),
            None => Some(to.clone()),
        };
        if let Some(step) = step {
            patch.insert(field.clone(), step);
        }
    }
    let removed = from
        .iter()
        .filter(|(field, old)| !old.is_null() && to.get(*field).is_none_or(Value::is_null));
    patch.extend(removed.map(|(field, _)| (field.clone(), Value::Null)));
    (!patch.is_empty()).then_some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::json;

    #[rstest]
    #[case(json!({"a": 1}), json!({"a": 1}), None)]
    #[case(json!({"a": 1, "b": 2}), json!({"a": 1}), Some(json!({"b": null})))]
    #[case(json!({"a": {"b": 1, "c": 2}}), json!({"a": {"b": 2, "c": 2}}), Some(json!({"a": {"b": 2}})))]
    #[case(json!({"a": [1, 2]}), json!({"a": [1]}), Some(json!({"a": [1]})))]
    #[case(json!({}), json!({"a": null}), None)]
    #[case(json!({"a": 1}), json!({"a": null}), Some(json!({"a": null})))]
    #[case(json!({}), json!({"a": {}}), Some(json!({"a": {}})))]
    #[case(json!(null), json!({"a": 1}), Some(json!({"a": 1})))]
    fn the_patch_says_what_differs(#[case] from: Value, #[case] to: Value, #[case] expected: Option<Value>) {
        assert_eq!(merge_patch(&from, &to), expected);
    }

    /// The algorithm of the RFC, written down as it stands there.
    fn apply(target: &mut Value, patch: &Value) {
        let Value::Object(patch) = patch else {
            *target = patch.clone();
            return;
        };
        if !target.is_object() {
            *target = json!({});
        }
        let target = target.as_object_mut().unwrap();
        for (field, value) in patch {
            if value.is_null() {
                target.remove(field);
            } else {
                apply(target.entry(field).or_insert(Value::Null), value);
            }
        }
    }

    fn object() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            (0..3_i32).prop_map(Value::from),
            Just(json!([1, 2]))
        ];
        let inner = leaf.prop_recursive(3, 16, 3, |inner| {
            prop::collection::btree_map("[a-c]", inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect()))
        });
        prop::collection::btree_map("[a-c]", inner, 0..4)
            .prop_map(|map| Value::Object(map.into_iter().collect()))
    }

    proptest! {
        #[test]
        fn the_patch_leads_from_one_to_the_other(from in object(), to in object()) {
            let mut result = from.clone();
            if let Some(patch) = merge_patch(&from, &to) {
                apply(&mut result, &patch);
            }
            prop_assert_eq!(result, to);
        }
    }
}
