//! What a trial makes, when it may begin, which way an upgrade takes, and what goes at the end: no more than it has made.

mod beginning;
mod removing;
mod upgrading;

use std::path::Path;

use serde_json::{Value, json};

use super::Trial;
use crate::olm::Tree;
use crate::olm::catalog::{Catalog, Edges, Rendered};

const NAMESPACE: &str = "workshop";

fn trial() -> Trial {
    Trial {
        package: "widgets".to_owned(),
        namespace: NAMESPACE.to_owned(),
    }
}

/// A bundle of the package that owns one definition.
fn rendered(version: &str) -> Rendered {
    let csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": format!("widgets.v{version}")},
        "spec": {"version": version, "customresourcedefinitions": {"owned": [owned("widgets.example.org")]}},
    });
    let annotations = json!({"annotations": {"operators.operatorframework.io.bundle.package.v1": "widgets"}});
    let mut tree = Tree::default();
    tree.insert("bundle/manifests/csv.yaml", csv.to_string()).unwrap();
    tree.insert("bundle/metadata/annotations.yaml", annotations.to_string())
        .unwrap();
    Rendered::of_tree(&tree, Path::new("bundle"), |_, _| {
        Ok(format!("example.org/widgets:{version}"))
    })
    .unwrap()
}

/// The catalog of these versions, one after the other.
fn catalog(versions: &[&str]) -> Catalog {
    let mut catalog = Catalog::empty("widgets");
    for version in versions {
        super::extend(&mut catalog, rendered(version), "stable", &Edges::default()).unwrap();
    }
    catalog
}

fn owned(name: &str) -> Value {
    json!({"name": name, "kind": "Widget", "version": "v1"})
}

/// Of somebody else, unless it is marked as the trial's own.
fn object(kind: &str, name: &str) -> Value {
    json!({"kind": kind, "metadata": {"name": name, "namespace": NAMESPACE, "uid": format!("uid-of-{name}")}})
}

fn ours(mut object: Value) -> Value {
    object["metadata"]["labels"] = json!({super::LABEL: "widgets"});
    object
}

fn subscription(name: &str, package: &str, installed: &str) -> Value {
    let mut object = object("Subscription", name);
    object["spec"] = json!({"name": package});
    object["status"] = json!({"installedCSV": installed, "currentCSV": installed});
    object
}

fn csv(name: &str, owns: &[&str]) -> Value {
    let mut object = object("ClusterServiceVersion", name);
    let owns: Vec<Value> = owns.iter().map(|name| owned(name)).collect();
    object["spec"] = json!({"customresourcedefinitions": {"owned": owns}});
    object
}

#[test]
fn a_name_of_a_trial_is_a_name_of_a_service() {
    let named = |package: &str| Trial {
        package: package.to_owned(),
        namespace: NAMESPACE.to_owned(),
    };
    assert_eq!(named("widgets").name(), "trial-widgets");
    assert_eq!(named("3scale").name(), "trial-3scale");
    assert_eq!(named("my.widgets").name(), "trial-my-widgets");
    let long = named(&format!("{}.{}", "a".repeat(49), "b".repeat(13))).name();
    assert_eq!(long, format!("trial-{}", "a".repeat(49)));
}

/// The restricted standard, and nothing that a pod could do with the rights of the namespace.
#[test]
fn what_serves_the_catalog_has_no_rights_and_goes_with_the_catalog_source() {
    let trial = trial();
    let mut source = trial.source(&["pull".to_owned()]);
    source["metadata"]["uid"] = json!("1-2-3");
    let objects = [
        trial.content("schema: olm.package", &source).unwrap(),
        trial.service(&source),
        trial.server("schema: olm.package", "example.org/roadstead:v1", &source),
    ];
    for object in &objects {
        assert_eq!(
            object["metadata"]["ownerReferences"][0]["uid"], "1-2-3",
            "{object}"
        );
        assert!(trial.owns(object));
    }
    assert!(trial.owns(&source) && trial.owns(&trial.group(&[])));
    assert!(trial.owns(&trial.subscription("stable", "widgets.v1.0.0")));
    insta::assert_json_snapshot!(
        "objects",
        [
            &objects[..],
            &[source, trial.subscription("stable", "widgets.v1.0.0")]
        ]
        .concat()
    );
}

#[test]
fn another_catalog_makes_another_pod_and_the_same_one_none() {
    let trial = trial();
    assert_eq!(trial.other_server("a"), trial.other_server("a"));
    assert_ne!(trial.other_server("a"), trial.other_server("b"));
    let template = "/spec/template/metadata/annotations";
    let made = trial.server("a", "image", &trial.source(&[]));
    assert_eq!(made.pointer(template), trial.other_server("a").pointer(template));
}

#[test]
fn a_catalog_that_no_config_map_holds_is_refused_with_what_helps() {
    let error = trial()
        .content(&"x".repeat(1 << 20), &Value::Null)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("1048576 bytes") && error.contains("catalog push"),
        "{error}"
    );
}
