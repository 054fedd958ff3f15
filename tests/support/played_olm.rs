//! OLM and the garbage collector, as far as a trial has to do with them: a Subscription gets what its catalog has, once its plan is approved, and what is owned
//! goes after its owner.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use roadstead::olm::catalog::Catalog;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::olm_kinds::{OLM, api};

const PACKAGE: &str = "widgets";
const TRIAL: &str = "trial-widgets";
const EVERY: Duration = Duration::from_millis(100);

/// It plays until it is dropped.
pub struct Olm(JoinHandle<()>);

impl Drop for Olm {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Olm {
    pub fn play(client: &Client, namespace: &str) -> Self {
        let stage = Stage {
            client: client.clone(),
            namespace: namespace.to_owned(),
        };
        Self(tokio::spawn(async move {
            loop {
                stage.install().await;
                stage.collect().await;
                tokio::time::sleep(EVERY).await;
            }
        }))
    }
}

struct Stage {
    client: Client,
    namespace: String,
}

impl Stage {
    fn api(&self, kind: &str) -> Api<DynamicObject> {
        let group = match kind {
            "ConfigMap" | "Service" => "v1",
            "Deployment" => "apps/v1",
            "PackageManifest" => "packages.operators.coreos.com/v1",
            _ => OLM,
        };
        api(&self.client, group, kind, Some(&self.namespace))
    }

    /// What cannot be read is looked for the next time.
    async fn find(&self, kind: &str, name: &str) -> Option<Value> {
        let found = self.api(kind).get_opt(name).await.ok()??;
        Some(serde_json::to_value(found).unwrap())
    }

    /// What somebody has deleted meanwhile is not changed any more.
    async fn change(&self, kind: &str, name: &str, change: Value) {
        let patch = Patch::Merge(change);
        drop(self.api(kind).patch(name, &PatchParams::default(), &patch).await);
    }

    /// What is there already stays.
    async fn make(&self, object: Value) {
        let (kind, name) = (
            object["kind"].as_str().unwrap(),
            object["metadata"]["name"].as_str().unwrap(),
        );
        let made: DynamicObject = serde_json::from_value(object.clone()).unwrap();
        drop(self.api(kind).create(&PostParams::default(), &made).await);
        if kind == "Deployment" {
            let status = Patch::Merge(json!({"status": object["status"]}));
            drop(
                self.api(kind)
                    .patch_status(name, &PatchParams::default(), &status)
                    .await,
            );
        }
    }

    async fn install(&self) {
        let Some(subscription) = self.find("Subscription", PACKAGE).await else {
            return;
        };
        let Some(content) = self.find("ConfigMap", TRIAL).await else {
            return;
        };
        let text = content["data"]["catalog.yaml"].as_str().unwrap();
        let catalog = Catalog::of_text(TRIAL, text, PACKAGE).unwrap();
        let channel = subscription["spec"]["channel"].as_str().unwrap();
        let head = catalog.get_channel(channel).unwrap().head().unwrap().name.clone();
        self.show(channel, &head).await;
        if subscription["status"]["installedCSV"] != json!(head) {
            self.bring(&head, &subscription["status"]["installedCSV"]).await;
        }
    }

    /// The catalog answers.
    async fn show(&self, channel: &str, head: &str) {
        let status = json!({"status": {"connectionState": {"lastObservedState": "READY"}}});
        self.change("CatalogSource", TRIAL, status).await;
        let status = json!({"catalogSource": TRIAL, "catalogSourceNamespace": self.namespace, "defaultChannel": channel,
            "channels": [{"name": channel, "currentCSV": head, "entries": [{"name": head}]}]});
        if self.find("PackageManifest", PACKAGE).await.is_none() {
            let labels = json!({"catalog": TRIAL, "catalog-namespace": self.namespace});
            self.make(
                json!({"apiVersion": "packages.operators.coreos.com/v1", "kind": "PackageManifest",
                "metadata": {"name": PACKAGE, "labels": labels}, "status": status}),
            )
            .await;
        }
        self.change("PackageManifest", PACKAGE, json!({"status": status}))
            .await;
    }

    /// A plan that has to be approved, as where another Subscription of the namespace is manual, and then the version.
    async fn bring(&self, head: &str, before: &Value) {
        let name = format!("install-{}", head.replace('.', "-"));
        let Some(plan) = self.find("InstallPlan", &name).await else {
            self.make(json!({"apiVersion": OLM, "kind": "InstallPlan", "metadata": {"name": name},
                "spec": {"approval": "Manual", "approved": false, "clusterServiceVersionNames": [head]}, "status": {"phase": "RequiresApproval"}}))
                .await;
            let status = json!({"status": {"state": "UpgradePending", "currentCSV": head, "installPlanRef": {"name": name}}});
            return self.change("Subscription", PACKAGE, status).await;
        };
        if plan["spec"]["approved"] != json!(true) {
            return;
        }
        self.make(json!({"apiVersion": OLM, "kind": "ClusterServiceVersion", "metadata": {"name": head},
            "spec": {"install": {"spec": {"deployments": [{"name": PACKAGE}]}}, "installModes": [{"type": "AllNamespaces", "supported": true}],
                "customresourcedefinitions": {"owned": [{"name": "widgets.example.org", "version": "v1", "kind": "Widget"}]}},
            "status": {"phase": "Succeeded"}}))
            .await;
        if self.find("Deployment", PACKAGE).await.is_none() {
            self.make(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": PACKAGE},
                "spec": {"replicas": 1, "selector": {"matchLabels": {"app": PACKAGE}}, "template": {
                    "metadata": {"labels": {"app": PACKAGE}}, "spec": {"containers": [{"name": "manager", "image": "example.org/manager"}]}}},
                "status": {"observedGeneration": 1, "replicas": 1, "readyReplicas": 1, "updatedReplicas": 1, "availableReplicas": 1}}))
                .await;
        }
        if let Some(before) = before.as_str() {
            drop(
                self.api("ClusterServiceVersion")
                    .delete(before, &DeleteParams::default())
                    .await,
            );
        }
        self.change("InstallPlan", &name, json!({"status": {"phase": "Complete"}}))
            .await;
        // The group that was made is filled in by OLM, too
        let group = api(
            &self.client,
            "operators.coreos.com/v1",
            "OperatorGroup",
            Some(&self.namespace),
        );
        let all = Patch::Merge(json!({"status": {"namespaces": [""]}}));
        drop(group.patch(TRIAL, &PatchParams::default(), &all).await);
        let reference = json!({"name": TRIAL, "namespace": self.namespace});
        let status = json!({"status": {"state": "AtLatestKnown", "installedCSV": head, "currentCSV": head,
            "catalogHealth": [{"catalogSourceRef": reference, "healthy": true}]}});
        self.change("Subscription", PACKAGE, status).await;
    }

    /// What is owned goes after its owner.
    async fn collect(&self) {
        if self.find("CatalogSource", TRIAL).await.is_none() {
            for kind in ["Deployment", "Service", "ConfigMap"] {
                drop(self.api(kind).delete(TRIAL, &DeleteParams::default()).await);
            }
        }
        let Ok(csvs) = self.api("ClusterServiceVersion").list(&Default::default()).await else {
            return;
        };
        if !csvs.iter().any(|csv| {
            csv.metadata
                .name
                .as_deref()
                .is_some_and(|name| name.starts_with(PACKAGE))
        }) {
            drop(
                self.api("Deployment")
                    .delete(PACKAGE, &DeleteParams::default())
                    .await,
            );
        }
    }
}
