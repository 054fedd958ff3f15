//! People who use a namespace, through a plain client: of a simulated API server or of a real one.

#![allow(dead_code, reason = "each test binary uses what it needs of this")]

use std::sync::Arc;

use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::sim::kinds::{KINDS, Kind, named};
use crate::sim::store::{Id, Objects};
use crate::subjects::Subject;

pub struct People {
    subject: &'static Subject,
    client: Client,
    namespace: String,
}

impl People {
    /// Those who use this operator in this namespace.
    pub fn of(subject: &'static Subject, client: Client, namespace: &str) -> Self {
        Self {
            subject,
            client,
            namespace: namespace.to_owned(),
        }
    }

    fn api(&self, kind: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.namespace, &named(kind).api_resource())
    }

    pub async fn create(&self, kind: &str, name: &str, spec: Value) -> kube::Result<()> {
        let object = json!({
            "apiVersion": named(kind).api_version(), "kind": kind, "metadata": {"name": name}, "spec": spec,
        });
        self.put(kind, object).await.map(drop)
    }

    /// Creates this very object; gives it as it is then.
    pub async fn put(&self, kind: &str, object: Value) -> kube::Result<Value> {
        let object = serde_json::from_value(object).expect("an object");
        let created = self.api(kind).create(&PostParams::default(), &object).await?;
        Ok(json!(created))
    }

    pub async fn patch(&self, kind: &str, name: &str, patch: Value) -> kube::Result<()> {
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        self.api(kind).patch(name, &params, &patch).await.map(drop)
    }

    pub async fn drop_status(&self, kind: &str, name: &str) -> kube::Result<()> {
        let (params, patch) = (PatchParams::default(), Patch::Merge(json!({"status": null})));
        self.api(kind).patch_status(name, &params, &patch).await.map(drop)
    }

    pub async fn delete(&self, kind: &str, name: &str) -> kube::Result<()> {
        let params = DeleteParams::background();
        self.api(kind).delete(name, &params).await.map(drop)
    }

    /// Every object in the namespace that may concern them; what is only said about objects is left out.
    pub async fn look(&self) -> kube::Result<Objects> {
        let mut objects = Objects::new();
        let concerns = |kind: &&Kind| {
            let theirs = self.subject.kinds.iter().any(|known| kind.is(known.name()));
            let rules = (self.subject.role)();
            let of_operator = rules.iter().any(|rule| {
                rule.resources
                    .iter()
                    .flatten()
                    .any(|plural| plural == kind.plural)
            });
            let concerns = of_operator || kind.is("ReplicaSet");
            theirs || (kind.decode.is_some() && concerns && !kind.is("Event") && !kind.is("Lease"))
        };
        for kind in KINDS.iter().filter(concerns) {
            for object in self.api(kind.kind).list(&ListParams::default()).await? {
                let mut object = json!(object);
                object["apiVersion"] = json!(kind.api_version());
                object["kind"] = json!(kind.kind);
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                let id = Id::new(kind, &self.namespace, name);
                objects.insert(id, Arc::new(object));
            }
        }
        Ok(objects)
    }
}
