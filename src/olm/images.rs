//! The images an operator needs: its own and those of what it runs. Mirrors read them from `relatedImages`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::manifests::{list, text};

/// Environment variables that tell an operator about images, by a plain value: those with this prefix, and its own.
const PREFIX: &str = "RELATED_IMAGE_";
const OWN: &str = "OPERATOR_IMAGE";

/// `relatedImages` of the given Deployments: `{name, image}`, each image once, in the order in which they are found.
///
/// An image of a variable is named after it (`RELATED_IMAGE_NGINX` is `nginx`), another after its container.
pub fn related(deployments: &[Value]) -> Vec<Value> {
    let mut seen = BTreeSet::new();
    let mut related = Vec::new();
    let mut add = |name: String, image: &str| {
        if !image.is_empty() && seen.insert(image.to_owned()) {
            related.push(json!({"name": name, "image": image}));
        }
    };
    for container in deployments.iter().flat_map(containers) {
        add(text(container, "/name").to_owned(), text(container, "/image"));
        for variable in list(container, "/env") {
            let name = text(variable, "/name");
            let own = (name == OWN).then_some("operator");
            if let Some(short) = own.or_else(|| name.strip_prefix(PREFIX)) {
                add(
                    short.to_ascii_lowercase().replace('_', "-"),
                    text(variable, "/value"),
                );
            }
        }
    }
    related
}

/// Puts `new` wherever a container's image or a variable is `old`, so that an operator hears of its own image too. Returns how many
/// places that were.
pub fn replace(deployment: &mut Value, old: &str, new: &str) -> usize {
    match deployment {
        Value::String(found) if found == old => {
            new.clone_into(found);
            1
        }
        Value::Array(items) => items.iter_mut().map(|item| replace(item, old, new)).sum(),
        Value::Object(map) => map.values_mut().map(|value| replace(value, old, new)).sum(),
        _ => 0,
    }
}

fn containers(deployment: &Value) -> impl Iterator<Item = &Value> {
    let all = |field: &str| list(deployment, &format!("/spec/template/spec/{field}"));
    all("initContainers").iter().chain(all("containers"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_image_is_named_once_and_follows_a_change_of_image() {
        let mut deployment = json!({"spec": {"template": {"spec": {"containers": [{
            "name": "operator",
            "image": "r/o:v1",
            "env": [
                {"name": "OPERATOR_IMAGE", "value": "r/o:v1"},
                {"name": "OPERATOR_IMAGE_PULL_POLICY", "value": "Always"},
                {"name": "RELATED_IMAGE_NGINX", "value": "nginx:1.29"},
                {"name": "RELATED_IMAGE_PG_16", "value": "postgres:16"},
                {"name": "POD_NAME", "valueFrom": {}},
            ],
        }]}}}});
        assert_eq!(replace(&mut deployment, "r/o:v1", "localhost:5000/o:v2"), 2);
        assert_eq!(
            related(&[deployment]),
            [
                json!({"name": "operator", "image": "localhost:5000/o:v2"}),
                json!({"name": "nginx", "image": "nginx:1.29"}),
                json!({"name": "pg-16", "image": "postgres:16"}),
            ]
        );
    }
}
