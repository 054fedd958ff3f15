//! Lists of objects, as `kubectl get --output yaml` and some charts write them: each item stands for itself.

use serde_json::Value;

use super::manifests::{api_version, is_kind, list, name, text};

/// How deep lists may be within lists. One is what tools write.
const DEEPEST: usize = 8;

/// The object, or those of a list and of the lists in it, in their order.
///
/// # Errors
/// An item that is no object, items that are no list, or lists that are too deep, each as a message that names the field.
pub(super) fn objects(body: Value) -> Result<Vec<Value>, String> {
    let (mut objects, mut left) = (Vec::new(), vec![("items".to_owned(), 0, body)]);
    while let Some((place, depth, body)) = left.pop() {
        if !is_list(&body) {
            objects.push(body);
            continue;
        }
        if depth == DEEPEST {
            return Err(format!(
                "{place} is a list within {depth} others; accepted are {DEEPEST} within each other"
            ));
        }
        let items = items(&place, depth, body)?;
        left.extend(items.into_iter().rev());
    }
    Ok(objects)
}

/// The items with their places, which are within that of the list but for the first one.
fn items(place: &str, depth: usize, body: Value) -> Result<Vec<(String, usize, Value)>, String> {
    let field = if depth == 0 {
        place.to_owned()
    } else {
        format!("{place}.items")
    };
    match &body["items"] {
        Value::Null | Value::Array(_) => {}
        other => {
            return Err(format!(
                "{}: {field} is {other}; accepted is a list of objects",
                text(&body, "/kind")
            ));
        }
    }
    let mut items = Vec::new();
    for (index, item) in list(&body, "/items").iter().enumerate() {
        let place = format!("{field}[{index}]");
        items.push((place.clone(), depth + 1, whole(&place, item, &body)?));
    }
    Ok(items)
}

/// An item with `apiVersion` and `kind`, which lists of one kind (`ConfigMapList`) may say themselves alone.
fn whole(place: &str, item: &Value, list: &Value) -> Result<Value, String> {
    let mut item = item.clone();
    let kind = text(list, "/kind").strip_suffix("List").unwrap_or_default();
    if let Some(fields) = item.as_object_mut()
        && !kind.is_empty()
    {
        for (field, value) in [("apiVersion", text(list, "/apiVersion")), ("kind", kind)] {
            fields.entry(field).or_insert_with(|| value.into());
        }
    }
    for field in ["apiVersion", "kind"] {
        if text(&item, &format!("/{field}")).is_empty() {
            return Err(format!(
                "{}: {place}.{field} is missing; accepted are objects of Kubernetes",
                text(list, "/kind")
            ));
        }
    }
    Ok(item)
}

/// Those of one kind hold their items beside `kind`, and have no name, by which they are no objects of a kind that is called so.
fn is_list(body: &Value) -> bool {
    let is_of_one_kind =
        text(body, "/kind").ends_with("List") && body["items"].is_array() && name(body).is_empty();
    is_kind(body, "", "List") && api_version(body) == "v1" || is_of_one_kind
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn object(name: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
    }

    fn list_of(items: Value) -> Value {
        json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": items})
    }

    #[rstest]
    #[case::an_object(object("a"), &["a"])]
    #[case::a_list(list_of(json!([object("a"), object("b")])), &["a", "b"])]
    #[case::lists_within(list_of(json!([object("a"), list_of(json!([object("b"), object("c")])), object("d")])), &["a", "b", "c", "d"])]
    #[case::of_one_kind(json!({"apiVersion": "v1", "kind": "ConfigMapList", "items": [{"metadata": {"name": "a"}}]}), &["a"])]
    #[case::empty(list_of(json!([])), &[])]
    #[case::of_go(list_of(Value::Null), &[])]
    fn the_items_of_a_list_stand_for_themselves(#[case] body: Value, #[case] expected: &[&str]) {
        let objects = objects(body).unwrap();
        assert_eq!(objects.iter().map(name).collect::<Vec<_>>(), expected);
        assert!(objects.iter().all(|object| is_kind(object, "", "ConfigMap")));
    }

    /// A kind of somebody's own may be called so.
    #[test]
    fn an_object_whose_kind_ends_like_a_list_is_one() {
        let body = json!({"apiVersion": "example.org/v1", "kind": "AllowList", "metadata": {"name": "a"}, "items": [1]});
        assert_eq!(objects(body.clone()).unwrap(), [body]);
    }

    #[rstest]
    #[case(list_of(json!("a")), "List: items is \"a\"; accepted is a list of objects")]
    #[case(list_of(json!([object("a"), {"kind": "ConfigMap"}])), "List: items[1].apiVersion is missing; accepted are objects of Kubernetes")]
    #[case(list_of(json!([list_of(json!(["a"]))])), "List: items[0].items[0].apiVersion is missing; accepted are objects of Kubernetes")]
    fn what_is_no_list_of_objects_is_told_by_its_field(#[case] body: Value, #[case] told: &str) {
        assert_eq!(objects(body).unwrap_err(), told);
    }

    #[test]
    fn lists_within_lists_come_to_an_end() {
        let nested = |depth| (0..depth).fold(object("a"), |inner, _| list_of(json!([inner])));
        assert_eq!(objects(nested(DEEPEST)).unwrap(), [object("a")]);
        let told = objects(nested(DEEPEST + 1)).unwrap_err();
        assert!(
            told.starts_with("items[0].items[0]") && told.ends_with("accepted are 8 within each other"),
            "{told}"
        );
    }
}
