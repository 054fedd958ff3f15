//! Stored objects are moved to the version that is stored now, at a real API server.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "support/apiserver.rs"]
mod apiserver;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use apiserver::{ApiServer, within};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt};
use roadstead::runtime::client::{Clients, REQUEST_TIMEOUT};
use roadstead::runtime::lease::Leadership;
use roadstead::runtime::manager::{Manager, ManagerOptions};
use roadstead::runtime::metrics::RuntimeMetrics;
use roadstead::runtime::migration::{self, Conversion, MigrationOptions};
use roadstead::telemetry::metrics::Metrics;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// On a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
/// The API server has learned of a definition after this time, on a busy machine as well.
const SETTLES: Duration = Duration::from_secs(3);
const GROUP: &str = "migration.test";

/// A kind with a definition of its own, whose versions differ in nothing but their name.
struct Kind {
    plural: &'static str,
    client: Client,
    namespaces: [String; 2],
}

impl Kind {
    /// Defined with v1alpha1 as the stored version, and in two namespaces this many objects altogether.
    async fn with(plural: &'static str, objects: usize) -> Self {
        let server = ApiServer::shared();
        let client = server.client().await;
        let namespaces = [
            server.namespace(&format!("{plural}-one")).await,
            server.namespace(&format!("{plural}-two")).await,
        ];
        let kind = Self {
            plural,
            client,
            namespaces,
        };
        kind.define().await;
        stream::iter((0..objects).map(Ok))
            .try_for_each_concurrent(8, |number| kind.create("v1alpha1", number))
            .await
            .unwrap();
        kind
    }

    async fn define(&self) {
        let version = |name: &str| {
            let schema =
                json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
            json!({"name": name, "served": true, "storage": name == "v1alpha1", "schema": schema})
        };
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": self.definition_name()},
            "spec": {
                "group": GROUP,
                "scope": "Namespaced",
                "names": {"plural": self.plural, "singular": self.plural, "kind": self.plural.to_uppercase(), "listKind": format!("{}LIST", self.plural.to_uppercase())},
                "versions": [version("v1alpha1"), version("v1")],
            },
        });
        let definition: CustomResourceDefinition = serde_json::from_value(definition).unwrap();
        self.definitions()
            .create(&PostParams::default(), &definition)
            .await
            .unwrap();
        within(LIMIT, "the kind is served", async || {
            self.api("v1alpha1", 0).list(&ListParams::default()).await.is_ok()
        })
        .await;
    }

    fn definition_name(&self) -> String {
        format!("{}.{GROUP}", self.plural)
    }

    fn definitions(&self) -> Api<CustomResourceDefinition> {
        Api::all(self.client.clone())
    }

    fn resource(&self, version: &str) -> ApiResource {
        let kind = GroupVersionKind::gvk(GROUP, version, &self.plural.to_uppercase());
        ApiResource::from_gvk_with_plural(&kind, self.plural)
    }

    fn api(&self, version: &str, namespace: usize) -> Api<DynamicObject> {
        Api::namespaced_with(
            self.client.clone(),
            &self.namespaces[namespace],
            &self.resource(version),
        )
    }

    async fn create(&self, version: &str, number: usize) -> Result<(), kube::Error> {
        let object = DynamicObject::new(&format!("o{number}"), &self.resource(version))
            .data(json!({"spec": {"number": number}}));
        let api = self.api(version, number % 2);
        api.create(&PostParams::default(), &object).await.map(drop)
    }

    /// Every object's version of the last write, read in this version of the kind.
    async fn written(&self, version: &str) -> BTreeMap<String, String> {
        let everywhere: Api<DynamicObject> = Api::all_with(self.client.clone(), &self.resource(version));
        let listed = everywhere.list(&ListParams::default()).await.unwrap();
        listed
            .into_iter()
            .map(|object| (object.name_any(), object.resource_version().unwrap()))
            .collect()
    }

    /// Writes the definition with this done to its versions.
    async fn change(&self, change: impl Fn(&mut Vec<Value>)) {
        let name = self.definition_name();
        let definition = self.definitions().get(&name).await.unwrap();
        let mut versions = json!(definition.spec.versions);
        change(versions.as_array_mut().unwrap());
        let patch = Patch::Merge(json!({"spec": {"versions": versions}}));
        self.definitions()
            .patch(&name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    async fn store(&self, stored: &str) {
        self.change(|versions| {
            for version in versions {
                version["storage"] = json!(version["name"] == stored);
            }
        })
        .await;
    }

    /// Until the API server stores as the definition says: it learns of that by itself, after the definition is written. Object 0 is moved by that.
    async fn until_stored_anew(&self, version: &str) {
        let api = self.api(version, 0);
        let before = api.get("o0").await.unwrap();
        within(
            LIMIT,
            "what is written is stored in the other version",
            async || {
                let written = api.replace("o0", &PostParams::default(), &before).await.unwrap();
                written.resource_version() != before.resource_version()
            },
        )
        .await;
    }

    async fn stored_versions(&self) -> Vec<String> {
        let definition = self.definitions().get(&self.definition_name()).await.unwrap();
        definition.status.unwrap().stored_versions.unwrap_or_default()
    }

    async fn until_stored(&self, versions: &[&str]) {
        within(
            LIMIT,
            &format!("the stored versions are {versions:?}"),
            async || self.stored_versions().await == versions,
        )
        .await;
    }

    /// A leader that moves the objects of this kind, until it is aborted.
    async fn lead(&self) -> JoinHandle<()> {
        let config = ApiServer::shared().config().await;
        let metrics = Arc::new(Metrics::new());
        let runtime_metrics = RuntimeMetrics::register(&metrics);
        let clients =
            Clients::connect(config, Leadership::unneeded(), REQUEST_TIMEOUT, &runtime_metrics).unwrap();
        let mut manager = Manager::new(
            clients,
            ManagerOptions::new("mover", "test"),
            metrics,
            runtime_metrics,
        );
        migration::register(
            &mut manager,
            &[self.definition_name()],
            MigrationOptions {
                settles: SETTLES,
                ..MigrationOptions::new(Conversion::Unneeded)
            },
        );
        tokio::spawn(async move { manager.run(std::future::pending()).await.unwrap() })
    }
}

/// An API server takes a version out of a definition only if no object is said to be stored in it, and cannot read one that is.
#[tokio::test]
async fn every_stored_object_is_moved_and_then_the_earlier_version_can_go() {
    const MANY: usize = 230;
    let kind = Kind::with("movables", MANY).await;
    kind.store("v1").await;
    kind.until_stored_anew("v1").await;
    let before = kind.written("v1").await;
    assert_eq!(kind.stored_versions().await, ["v1alpha1", "v1"]);

    let leader = kind.lead().await;
    kind.until_stored(&["v1"]).await;
    let after = kind.written("v1").await;
    let unmoved: Vec<&String> = after
        .iter()
        .filter(|(name, written)| before[*name] == **written)
        .map(|(name, _)| name)
        .collect();
    assert_eq!(
        unmoved,
        ["o0"],
        "only what was stored in v1 already is not written"
    );

    kind.change(|versions| versions.retain(|version| version["name"] == "v1"))
        .await;
    let numbers = stream::iter(0..MANY).then(async |number| {
        let object = kind.api("v1", number % 2).get(&format!("o{number}")).await;
        object.unwrap().data["spec"]["number"].as_u64().unwrap()
    });
    let numbers: Vec<u64> = numbers.collect().await;
    assert_eq!(numbers, (0..MANY as u64).collect::<Vec<_>>());
    leader.abort();
}

#[tokio::test]
async fn a_leader_that_was_cut_off_is_followed_by_one_that_moves_the_rest_and_nothing_twice() {
    let kind = Kind::with("severables", 150).await;
    kind.store("v1").await;
    let before = kind.written("v1").await;
    let first = kind.lead().await;
    let mut half_way = before.clone();
    within(LIMIT, "some objects are moved", async || {
        half_way = kind.written("v1").await;
        half_way.iter().any(|(name, written)| before[name] != *written)
    })
    .await;
    first.abort();
    drop(first.await);
    let cut_off = kind.written("v1").await;

    let second = kind.lead().await;
    kind.until_stored(&["v1"]).await;
    let after = kind.written("v1").await;
    for (name, written) in &after {
        assert_ne!(before[name], *written, "{name} was moved");
        if cut_off[name] != before[name] {
            assert_eq!(cut_off[name], *written, "{name} was moved only once");
        }
    }
    second.abort();
}

/// As after going back to a version of an operator that stores the earlier one.
#[tokio::test]
async fn what_is_turned_around_is_moved_back() {
    let kind = Kind::with("reversibles", 3).await;
    let leader = kind.lead().await;
    kind.store("v1").await;
    kind.until_stored(&["v1"]).await;
    kind.store("v1alpha1").await;
    assert_eq!(kind.stored_versions().await, ["v1", "v1alpha1"]);
    kind.until_stored(&["v1alpha1"]).await;
    kind.change(|versions| versions.retain(|version| version["name"] == "v1alpha1"))
        .await;
    assert_eq!(kind.written("v1alpha1").await.len(), 3);
    leader.abort();
}
