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
///
/// Nothing else that reads the same is touched: a placeholder such as `controller` is the name of other things, too.
pub fn replace(deployment: &mut Value, old: &str, new: &str) -> usize {
    let mut replaced = 0;
    let mut put = |place: Option<&mut Value>| {
        if let Some(Value::String(found)) = place
            && found == old
        {
            new.clone_into(found);
            replaced += 1;
        }
    };
    for field in ["initContainers", "containers"] {
        let containers = deployment.pointer_mut(&format!("/spec/template/spec/{field}"));
        for container in containers.and_then(Value::as_array_mut).into_iter().flatten() {
            put(container.get_mut("image"));
            let variables = container.get_mut("env").and_then(Value::as_array_mut);
            for variable in variables.into_iter().flatten() {
                put(variable.get_mut("value"));
            }
        }
    }
    replaced
}

fn containers(deployment: &Value) -> impl Iterator<Item = &Value> {
    let all = |field: &str| list(deployment, &format!("/spec/template/spec/{field}"));
    all("initContainers").iter().chain(all("containers"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_reads_like_the_image_stays() {
        let before = json!({"metadata": {"name": "o"}, "spec": {"template": {"metadata": {"labels": {"app": "o"}},
            "spec": {"serviceAccountName": "o", "initContainers": [{"name": "o", "image": "o"}], "containers": [{"name": "o", "image": "o", "args": ["o"]}]}}}});
        let mut after = before.clone();
        assert_eq!(replace(&mut after, "o", "r/o:v2"), 2);
        for pointer in ["/initContainers/0/image", "/containers/0/image"] {
            let image = after
                .pointer_mut(&format!("/spec/template/spec{pointer}"))
                .unwrap();
            assert_eq!(image.take(), "r/o:v2");
            *image = json!("o");
        }
        assert_eq!(after, before);
    }

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
