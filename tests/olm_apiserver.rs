//! Why an operator should see to the conversion of its definitions: what an API server makes of one that came without between the moment in which
//! OLM updates it and the one in which it sets up the webhook.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "support/apiserver.rs"]
mod apiserver;
#[path = "support/gadgets.rs"]
mod gadgets;

use std::time::Duration;

use apiserver::{ApiServer, within};
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt};
use roadstead::olm::{Manifests, Tree, csv, yaml};
use serde_json::json;

const LIMIT: Duration = Duration::from_secs(30);

fn api(client: &Client, version: &str) -> Api<DynamicObject> {
    api_of(client, "example.org", version)
}

fn api_of(client: &Client, group: &str, version: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk(group, version, "Gadget");
    Api::namespaced_with(client.clone(), "default", &ApiResource::from_gvk(&kind))
}

/// Puts the definition in the place of what is there, as OLM does.
async fn update(client: &Client, definition: &DynamicObject) {
    let kind = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let definitions: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
    let name = definition.name_any();
    let mut definition = definition.clone();
    match definitions.get_opt(&name).await.unwrap() {
        None => definitions.create(&PostParams::default(), &definition).await,
        Some(there) => {
            definition.metadata.resource_version = there.metadata.resource_version;
            definitions
                .replace(&name, &PostParams::default(), &definition)
                .await
        }
    }
    .unwrap();
}

/// The definition as the manifests have it.
fn in_manifests() -> DynamicObject {
    let mut tree = Tree::default();
    tree.insert("all.yaml", gadgets::documents().join("\n---\n"))
        .unwrap();
    let manifests = Manifests::of_tree(&tree).unwrap();
    let mut definitions = csv::crds(&manifests).cloned();
    let gadgets = definitions
        .find(|crd| crd["spec"]["names"]["kind"] == "Gadget")
        .unwrap();
    serde_json::from_value(gadgets).unwrap()
}

/// The same as the bundle has it.
fn in_bundle() -> DynamicObject {
    let tree = gadgets::bundle();
    let text = tree.get("bundle/manifests/example.org_gadgets.yaml").unwrap();
    yaml::parse("bundle", text).unwrap().remove(0)
}

async fn lists(client: &Client, version: &str) -> Result<usize, String> {
    let list = api(client, version).list(&ListParams::default()).await;
    list.map(|list| list.items.len())
        .map_err(|error| error.to_string())
}

/// OLM lists the existing objects in every version before it updates a definition, and does so anew when it could not write down that
/// it had (operator-lifecycle-manager, `validateV1CRDCompatibility`).
#[tokio::test]
async fn objects_can_be_listed_in_every_version_after_olm_has_updated_the_definition_and_has_to_start_over() {
    let client = ApiServer::shared().client().await;
    update(&client, &in_bundle()).await;
    within(LIMIT, "the definition is served", async || {
        lists(&client, "v1").await.is_ok()
    })
    .await;
    let gadget = json!({"apiVersion": "example.org/v1", "kind": "Gadget", "metadata": {"name": "first"}, "spec": {"toothCount": 12}});
    let gadget: DynamicObject = serde_json::from_value(gadget).unwrap();
    api(&client, "v1")
        .create(&PostParams::default(), &gadget)
        .await
        .unwrap();

    update(&client, &in_bundle()).await;
    for version in ["v1", "v1alpha1"] {
        assert_eq!(lists(&client, version).await, Ok(1), "{version}");
    }

    update(&client, &in_manifests()).await;
    within(
        LIMIT,
        "a conversion that came with the definition fails",
        async || {
            lists(&client, "v1alpha1")
                .await
                .is_err_and(|error| error.contains("conversion webhook"))
        },
    )
    .await;
    assert_eq!(
        lists(&client, "v1").await,
        Ok(1),
        "the stored version needs no conversion"
    );

    // The price: until the webhook is there, who reads another version than the stored one sees fields missing, and who writes it
    // loses them.
    update(&client, &in_bundle()).await;
    within(LIMIT, "the definition is without conversion again", async || {
        lists(&client, "v1alpha1").await.is_ok()
    })
    .await;
    let old = api(&client, "v1alpha1").get("first").await.unwrap();
    assert_eq!(old.data["spec"], json!({}));
    let label = Patch::Merge(json!({"metadata": {"labels": {"seen": "true"}}}));
    api(&client, "v1alpha1")
        .patch("first", &PatchParams::default(), &label)
        .await
        .unwrap();
    let stored = api(&client, "v1").get("first").await.unwrap();
    assert_eq!(stored.data["spec"], json!({}), "the number of teeth is gone");
}

/// So whatever still writes the old version, an operator that is about to be replaced too, destroys the spec. The stored version of a
/// definition must not change in an upgrade by OLM while anything writes.
#[tokio::test]
async fn a_write_of_the_old_version_loses_the_spec_once_another_version_is_stored_and_nothing_converts() {
    const GROUP: &str = "other.example.org";
    let client = ApiServer::shared().client().await;
    let storing = |stored: &str| {
        let mut definition = in_bundle();
        definition.metadata.name = Some(format!("gadgets.{GROUP}"));
        definition.data["spec"]["group"] = json!(GROUP);
        for version in definition.data["spec"]["versions"].as_array_mut().unwrap() {
            version["storage"] = json!(version["name"] == stored);
        }
        definition
    };
    update(&client, &storing("v1alpha1")).await;
    let old = api_of(&client, GROUP, "v1alpha1");
    within(LIMIT, "the definition is served", async || {
        old.list(&ListParams::default()).await.is_ok()
    })
    .await;
    let gadget = json!({"apiVersion": format!("{GROUP}/v1alpha1"), "kind": "Gadget", "metadata": {"name": "old"}, "spec": {"teeth": 12}});
    let gadget: DynamicObject = serde_json::from_value(gadget).unwrap();
    old.create(&PostParams::default(), &gadget).await.unwrap();

    update(&client, &storing("v1")).await;
    let mut count = 0;
    within(LIMIT, "the spec is gone", async || {
        count += 1;
        let label = Patch::Merge(json!({"metadata": {"labels": {"seen": count.to_string()}}}));
        let written = old.patch("old", &PatchParams::default(), &label).await.unwrap();
        written.data["spec"] == json!({})
    })
    .await;
}
