//! A real API server that knows the kinds of OLM, without OLM.

#![allow(dead_code, reason = "each test binary uses what it needs of this")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use kube::Client;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::apiserver::{ApiServer, within};

pub const OLM: &str = "operators.coreos.com/v1alpha1";
pub const LIMIT: Duration = Duration::from_secs(30);

/// Without OLM's schemas: what OLM writes is in the tables of `src/olm/status`, and the end-to-end tests have OLM itself.
const KINDS: [(&str, &str); 7] = [
    (OLM, "CatalogSource"),
    (OLM, "ClusterServiceVersion"),
    (OLM, "InstallPlan"),
    (OLM, "Subscription"),
    ("operators.coreos.com/v1", "OperatorGroup"),
    ("operators.coreos.com/v2", "OperatorCondition"),
    ("packages.operators.coreos.com/v1", "PackageManifest"),
];

pub fn api(client: &Client, api_version: &str, kind: &str, namespace: Option<&str>) -> Api<DynamicObject> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

/// The server, with the kinds of OLM.
pub async fn server() -> &'static ApiServer {
    static SERVED: OnceCell<()> = OnceCell::const_new();
    let server = ApiServer::shared();
    SERVED
        .get_or_init(|| async {
            let client = server.client().await;
            for (api_version, kind) in KINDS {
                define(&client, api_version, kind).await;
            }
        })
        .await;
    server
}

async fn define(client: &Client, api_version: &str, kind: &str) {
    let (group, version) = api_version.split_once('/').unwrap();
    let (singular, plural) = (kind.to_lowercase(), format!("{}s", kind.to_lowercase()));
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"kind": kind, "singular": singular, "plural": plural},
            "versions": [{"name": version, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    });
    put(client, None, definition).await;
    let api = api(client, api_version, kind, None);
    within(LIMIT, "the definition is served", async || {
        api.list(&ListParams::default()).await.is_ok()
    })
    .await;
}

/// Creates an object, and gives it the status that comes with it.
pub async fn put(client: &Client, namespace: Option<&str>, object: Value) {
    let api_version = object["apiVersion"].as_str().unwrap();
    let kind = object["kind"].as_str().unwrap();
    let name = object["metadata"]["name"].as_str().unwrap();
    let api = api(client, api_version, kind, namespace);
    let created: DynamicObject = serde_json::from_value(object.clone()).unwrap();
    api.create(&PostParams::default(), &created).await.unwrap();
    if matches!(kind, "Deployment" | "Pod") {
        let status = Patch::Merge(json!({"status": object["status"]}));
        api.patch_status(name, &PatchParams::default(), &status)
            .await
            .unwrap();
    }
}

pub async fn change(client: &Client, namespace: &str, kind: &str, name: &str, change: Value) {
    api(client, OLM, kind, Some(namespace))
        .patch(name, &PatchParams::default(), &Patch::Merge(change))
        .await
        .unwrap();
}
