//! Versions of a definition that its operator opens, in the bundle.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "support/gadgets.rs"]
mod gadgets;

use roadstead::olm::bundle::Installer;
use roadstead::olm::manifests::{list, text};
use roadstead::olm::{Tree, yaml};
use rstest::rstest;
use serde_json::{Value, json};

fn file(tree: &Tree, name: &str) -> Value {
    let content = tree.get(format!("bundle/manifests/{name}")).unwrap();
    yaml::parse(name, content).unwrap().remove(0)
}

/// With the annotation `roadstead.dev/opened-by-operator` on the definition of gadgets.
fn opened_by_the_operator(versions: &str) -> Vec<String> {
    let annotated = |document: String| {
        let before = "    cert-manager.io/inject-ca-from: gadgets-system/serving-cert\nspec:";
        let after = format!("    roadstead.dev/opened-by-operator: {versions}\nspec:");
        document.replacen(before, &after, 1)
    };
    gadgets::documents().into_iter().map(annotated).collect()
}

/// The manifests may have it closed already, for those who install without OLM.
#[rstest]
#[case::by_olm(Installer::Olm, false, &["v1"])]
#[case::by_olm_v1(Installer::OlmV1, true, &["v1", "v1alpha1"])]
fn a_version_that_the_operator_opens_is_closed_and_not_owned_unless_olm_v1_installs_the_bundle(
    #[case] installer: Installer,
    #[case] is_open: bool,
    #[case] owns: &[&str],
    #[values(true, false)] was_open: bool,
) {
    let version = |served: bool| format!("name: v1alpha1\n      served: {served}");
    let documents = opened_by_the_operator("v1alpha1").join("\n---\n");
    assert!(documents.contains(&version(true)));
    let documents = documents.replace(&version(true), &version(was_open));
    let tree = gadgets::bundle_for(installer, &[documents]).unwrap();
    let document = |file: &str| -> Value {
        let text = tree.get(format!("bundle/manifests/{file}")).unwrap();
        yaml::parse(file, text).unwrap().pop().unwrap()
    };
    let crd = document("example.org_gadgets.yaml");
    let served: Vec<_> = list(&crd, "/spec/versions")
        .iter()
        .map(|version| (text(version, "/name"), version["served"] == json!(true)))
        .collect();
    assert_eq!(served, [("v1alpha1", is_open), ("v1", true)]);
    let annotation = &crd["metadata"]["annotations"]["roadstead.dev/opened-by-operator"];
    assert_eq!(annotation.is_null(), is_open, "the operator would go by it");
    let csv = document("gadgets.clusterserviceversion.yaml");
    let owned: Vec<_> = list(&csv, "/spec/customresourcedefinitions/owned")
        .iter()
        .filter(|owned| text(owned, "/kind") == "Gadget")
        .map(|owned| text(owned, "/version"))
        .collect();
    assert_eq!(owned, owns);
}

/// Until the operator has healed it, what needs it fails: with none, the API server would drop what another version says in other words.
#[test]
fn a_definition_whose_operator_sees_to_it_keeps_its_conversion_without_an_authority() {
    let with_authority =
        |document: String| document.replace("path: /convert}", "path: /convert}\n        caBundle: bm9uZQ==");
    let documents: Vec<String> = opened_by_the_operator("v1alpha1")
        .into_iter()
        .map(with_authority)
        .collect();
    assert!(documents.iter().any(|document| document.contains("bm9uZQ==")));
    let tree = gadgets::bundle_of(&documents).unwrap();
    let conversion = file(&tree, "example.org_gadgets.yaml")["spec"]["conversion"].clone();
    assert_eq!(conversion["strategy"], "Webhook");
    let client = &conversion["webhook"]["clientConfig"];
    assert_eq!(text(client, "/service/path"), "/convert");
    assert_eq!(client.get("caBundle"), None);
    assert_eq!(
        file(&tree, "example.org_cranks.yaml")["spec"].get("conversion"),
        None,
        "nobody would heal that"
    );
}

#[rstest]
#[case::stored("v1")]
#[case::absent("v9")]
fn a_version_that_cannot_be_opened_is_refused(
    #[case] version: &str,
    #[values(Installer::Olm, Installer::OlmV1)] installer: Installer,
) {
    let error = gadgets::bundle_for(installer, &opened_by_the_operator(version)).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "CustomResourceDefinition gadgets.example.org: the annotation roadstead.dev/opened-by-operator is {version:?}; it must name versions of it that are not stored, such as v1"
        )
    );
}

#[rstest]
fn a_definition_that_nothing_converts_is_refused(
    #[values(Installer::Olm, Installer::OlmV1)] installer: Installer,
) {
    let documents: Vec<String> = opened_by_the_operator("v1alpha1")
        .into_iter()
        .map(|document| document.replace("strategy: Webhook", "strategy: None"))
        .collect();
    let error = gadgets::bundle_for(installer, &documents).unwrap_err();
    assert_eq!(
        error.to_string(),
        "CustomResourceDefinition gadgets.example.org: spec.conversion.strategy is \"None\"; with the annotation roadstead.dev/opened-by-operator it \
         must be Webhook, with the Service that converts"
    );
}
