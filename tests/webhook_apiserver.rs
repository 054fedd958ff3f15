//! The webhooks as a real API server asks them: conversion both ways, what a client leaves out, refusals, and what happens when nobody answers.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test fails by panicking

#[path = "support/apiserver.rs"]
mod apiserver;
#[path = "support/webhook_tls.rs"]
mod webhook_tls;

use std::time::Duration;

use apiserver::{ApiServer, within};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::core::crd::merge_crds;
use kube::{Client, CustomResourceExt, ResourceExt};
use roadstead::api::conversion::KEPT;
use roadstead::api::my_proxy::{self, v1, v1alpha1};
use roadstead::webhook::{CONVERT, Limits, WebhookMetrics, mutate_path, routes, validate_path};
use serde_json::{Value, json};
use webhook_tls::{Authority, Served};

const MANY: usize = 1000;

/// The version that is stored, and the one that is made of it.
const WAYS: [[&str; 2]; 2] = [["v1alpha1", "v1"], ["v1", "v1alpha1"]];
const DEFINITION: &str = "myproxies.roadstead.dev";
const CONFIGURATION: &str = "roadstead";

struct Ground {
    /// One of [`WAYS`].
    way: [&'static str; 2],
    client: Client,
    authority: Authority,
    server: Served,
    namespace: String,
}

impl Ground {
    async fn prepare(way: [&'static str; 2]) -> Self {
        let api = ApiServer::shared();
        let authority = Authority::new();
        let ground = Self {
            way,
            client: api.client().await,
            server: begin(&authority, 0).await,
            authority,
            namespace: api.namespace(&format!("storing-{}", way[0])).await,
        };
        ground.install().await;
        ground
    }

    fn reached_by(&self, path: &str) -> Value {
        json!({
            "url": format!("https://{}{path}", self.server.address),
            "caBundle": ByteString(self.authority.pem.clone().into_bytes()),
        })
    }

    async fn install(&self) {
        let definitions = vec![v1alpha1::MyProxy::crd(), v1::MyProxy::crd()];
        let mut crd = serde_json::to_value(merge_crds(definitions, self.way[0]).unwrap()).unwrap();
        crd["spec"]["conversion"] = json!({
            "strategy": "Webhook",
            "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": self.reached_by(CONVERT)},
        });
        let crds: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let crd: CustomResourceDefinition = serde_json::from_value(crd).unwrap();
        crds.create(&PostParams::default(), &crd).await.unwrap();
        self.configure().await;
        let probe = self.late();
        within(Duration::from_secs(30), "both versions are served", async || {
            probe.list(&ListParams::default()).await.is_ok()
        })
        .await;
        let bad = early(
            "probe",
            json!({"replicas": 5, "upstreams": [{"name": "a", "servers": [{"host": "1.2.3", "port": 1}]}]}),
        );
        let dry = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        within(Duration::from_secs(30), "objects are validated", async || {
            self.early().create(&dry, &bad).await.is_err()
        })
        .await;
    }

    async fn configure(&self) {
        let webhook = |path: String, name: &str| {
            json!({
                "name": format!("{name}.roadstead.dev"), "clientConfig": self.reached_by(&path), "sideEffects": "None",
                "admissionReviewVersions": ["v1"], "failurePolicy": "Fail", "timeoutSeconds": 10,
                "rules": [{
                    "apiGroups": ["roadstead.dev"], "apiVersions": ["v1alpha1", "v1"], "operations": ["CREATE", "UPDATE"],
                    "resources": ["myproxies"],
                }],
            })
        };
        let named = |webhook: Value| json!({"metadata": {"name": CONFIGURATION}, "webhooks": [webhook]});
        let validating = named(webhook(validate_path("myproxies"), "validate"));
        let api: Api<ValidatingWebhookConfiguration> = Api::all(self.client.clone());
        api.create(
            &PostParams::default(),
            &serde_json::from_value(validating).unwrap(),
        )
        .await
        .unwrap();
        let mutating = named(webhook(mutate_path("myproxies"), "mutate"));
        let api: Api<MutatingWebhookConfiguration> = Api::all(self.client.clone());
        api.create(&PostParams::default(), &serde_json::from_value(mutating).unwrap())
            .await
            .unwrap();
    }

    fn early(&self) -> Api<v1alpha1::MyProxy> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    fn late(&self) -> Api<v1::MyProxy> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Objects as they are stored, and as they are converted.
    fn both_ways(&self) -> [Api<DynamicObject>; 2] {
        self.way.map(|version| {
            let resource = ApiResource {
                version: version.to_owned(),
                api_version: format!("roadstead.dev/{version}"),
                ..ApiResource::erase::<v1::MyProxy>(&())
            };
            Api::namespaced_with(self.client.clone(), &self.namespace, &resource)
        })
    }

    /// Takes the definition away with all its objects, so that another one can be installed.
    async fn remove(self) {
        let (client, params) = (&self.client, DeleteParams::default());
        let validating: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
        drop(validating.delete(CONFIGURATION, &params).await.unwrap());
        let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
        drop(mutating.delete(CONFIGURATION, &params).await.unwrap());
        let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
        drop(crds.delete(DEFINITION, &params).await.unwrap());
        let probe = self.late();
        within(Duration::from_secs(60), "neither version is served", async || {
            let is_defined = crds.get_opt(DEFINITION).await.unwrap().is_some();
            !is_defined && probe.list(&ListParams::default()).await.is_err()
        })
        .await;
        self.server.stop().await;
    }
}

async fn begin(authority: &Authority, port: u16) -> Served {
    let limits = Limits {
        linger: Duration::from_millis(100),
        ..Limits::default()
    };
    let routes = routes([my_proxy::served()], limits, WebhookMetrics::default());
    Served::begin_at(authority, limits, routes, port).await
}

fn early(name: &str, spec: Value) -> v1alpha1::MyProxy {
    v1alpha1::MyProxy::new(name, serde_json::from_value(spec).unwrap())
}

fn refusal<T: std::fmt::Debug>(outcome: kube::Result<T>) -> (u16, String, Vec<String>) {
    let kube::Error::Api(status) = outcome.unwrap_err() else {
        panic!("no refusal of the API server")
    };
    let causes = status.details.iter().flat_map(|details| details.causes.clone());
    let causes = causes
        .map(|cause| format!("{}: {}", cause.field, cause.message))
        .collect();
    (status.code, status.message.clone(), causes)
}

/// One story for each version that may be stored, one after the other: all of it is about one definition, of which a cluster has one.
#[test]
fn an_api_server_converts_and_admits_by_way_of_the_webhooks() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    ApiServer::shared();
    runtime.block_on(async {
        for way in WAYS {
            let mut ground = Ground::prepare(way).await;
            both_versions_say_the_same(&ground).await;
            what_v1alpha1_cannot_say_survives_a_client_that_replaces_the_object(&ground).await;
            a_bad_object_is_refused_in_the_words_of_its_client(&ground).await;
            a_list_that_is_not_read_in_pages_works(&ground).await;
            ground = a_server_that_is_away_is_told_of_and_nothing_is_lost(ground).await;
            ground.remove().await;
        }
    });
}

async fn both_versions_say_the_same(ground: &Ground) {
    let spec = json!({"name": "front", "tls_secret": "cert", "replicas": 3});
    ground
        .early()
        .create(&PostParams::default(), &early("web", spec))
        .await
        .unwrap();
    let late = ground.late().get("web").await.unwrap();
    assert_eq!(late.spec.deployment_name.as_deref(), Some("front"));
    assert_eq!(late.spec.tls.as_ref().unwrap().secret_name, "cert");
    let back = ground.early().get("web").await.unwrap();
    assert_eq!(
        (back.spec.name.as_deref(), back.spec.replicas),
        (Some("front"), 3)
    );
    assert!(back.annotations().is_empty(), "{:?}", back.annotations());
}

async fn what_v1alpha1_cannot_say_survives_a_client_that_replaces_the_object(ground: &Ground) {
    let mut late = ground.late().get("web").await.unwrap();
    late.spec.paused = true;
    ground
        .late()
        .replace("web", &PostParams::default(), &late)
        .await
        .unwrap();
    let mut known = ground.early().get("web").await.unwrap();
    assert!(known.annotations().contains_key(KEPT));
    // As a client does that makes the whole object from what it knows, such as `kubectl replace` of a file.
    known.metadata.annotations = None;
    known.metadata.managed_fields = None;
    known.spec.replicas = 4;
    ground
        .early()
        .replace("web", &PostParams::default(), &known)
        .await
        .unwrap();
    let late = ground.late().get("web").await.unwrap();
    assert_eq!((late.spec.paused, late.spec.replicas), (true, 4));
    let unpause = json!({"spec": {"paused": false}});
    ground
        .late()
        .patch("web", &PatchParams::default(), &Patch::Merge(&unpause))
        .await
        .unwrap();
    assert!(
        !ground.late().get("web").await.unwrap().spec.paused,
        "what v1 says wins"
    );
}

async fn a_bad_object_is_refused_in_the_words_of_its_client(ground: &Ground) {
    // The schema lets these pass.
    let bad = early("bad", json!({"tls_secret": "a..b", "routes": []}));
    let (code, message, causes) = refusal(ground.early().create(&PostParams::default(), &bad).await);
    assert_eq!(code, 422);
    assert_eq!(
        message,
        "admission webhook \"validate.roadstead.dev\" denied the request: spec.tls_secret is \"a..b\"; it must be the name of a Secret in the same namespace"
    );
    assert_eq!(
        causes,
        ["spec.tls_secret: \"a..b\"; it must be the name of a Secret in the same namespace"]
    );
    let patch = json!({"spec": {"tls": {"secretName": "a..b"}}});
    let (_, message, _) = refusal(
        ground
            .late()
            .patch("web", &PatchParams::default(), &Patch::Merge(&patch))
            .await,
    );
    assert!(message.contains("spec.tls.secretName is \"a..b\""), "{message}");
}

async fn a_list_that_is_not_read_in_pages_works(ground: &Ground) {
    let [stored, converted] = ground.both_ways();
    let spec = json!({"upstreams": (0..30).map(|at| json!({
        "name": format!("upstream-{at}"), "servers": [{"host": format!("server-{at}.example.com"), "port": 8080}],
    })).collect::<Vec<_>>()});
    let creating = futures::stream::iter(0..MANY).map(|at| {
        let one = json!({
            "apiVersion": format!("roadstead.dev/{}", ground.way[0]), "kind": "MyProxy",
            "metadata": {"name": format!("many-{at}")}, "spec": spec,
        });
        let (api, one) = (stored.clone(), serde_json::from_value(one).unwrap());
        async move { api.create(&PostParams::default(), &one).await }
    });
    creating
        .buffer_unordered(16)
        .try_collect::<Vec<_>>()
        .await
        .unwrap();
    let started = std::time::Instant::now();
    let all = converted.list(&ListParams::default()).await.unwrap();
    println!(
        "a list of {} objects took {:?}",
        all.items.len(),
        started.elapsed()
    );
    assert_eq!(all.items.len(), MANY + 1);
    assert!(
        all.items
            .iter()
            .skip(1)
            .all(|one| one.data["spec"]["upstreams"][29].is_object() || one.name_any() == "web")
    );
}

async fn a_server_that_is_away_is_told_of_and_nothing_is_lost(mut ground: Ground) -> Ground {
    let address = ground.server.address;
    let [stored, converted] = ground.both_ways();
    let before = converted.get("web").await.unwrap();
    ground.server.stop().await;
    let (code, message, _) = refusal(converted.get("web").await);
    assert_eq!(code, 500);
    let told = format!(
        "conversion webhook for roadstead.dev/{}, Kind=MyProxy failed",
        ground.way[0]
    );
    assert!(message.contains(&told), "{message}");
    let patch = json!({"spec": {"replicas": 9}});
    let outcome = stored
        .patch("web", &PatchParams::default(), &Patch::Merge(&patch))
        .await;
    let (_, message, _) = refusal(outcome);
    assert!(message.contains("failed calling webhook"), "{message}");
    assert_eq!(
        stored.get("web").await.unwrap().data["spec"]["replicas"],
        4,
        "the stored version needs no webhook"
    );
    let status = json!({"status": {"replicas": 4}});
    stored
        .patch_status("web", &PatchParams::default(), &Patch::Merge(&status))
        .await
        .expect("a status is not admitted");
    stored
        .delete("many-0", &DeleteParams::default())
        .await
        .expect("neither is a deletion");

    ground.server = begin(&ground.authority, address.port()).await;
    within(Duration::from_secs(30), "the webhook answers again", async || {
        converted.get("web").await.is_ok()
    })
    .await;
    let after = converted.get("web").await.unwrap();
    assert_eq!(after.data["spec"], before.data["spec"]);
    ground
}
