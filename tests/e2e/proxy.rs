//! A MyProxy as its author sees it: manifest, status, Events, and what its Service answers.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, DynamicObject, ListParams};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::objects::{
    CONFIG_MAP, DEPLOYMENT, JOB, Kind, MY_PROXY, MY_PROXY_V1ALPHA1, PDB, SERVICE, condition, text,
};
use crate::outcome::{Failure, Outcome, ensure};
use crate::wait::{Seen, until};
use crate::world::World;

/// Check Job, rollout, and nginx's start.
pub const SERVING: Duration = Duration::from_secs(90);
/// The label by which a Deployment's pods are found.
const APP: &str = "app";

/// A MyProxy in a namespace of its own, with something behind it to proxy to.
pub struct Proxy<'a> {
    pub world: &'a World,
    pub namespace: String,
    pub name: &'static str,
    /// The version in which it is read and written.
    pub kind: Kind,
}

impl<'a> Proxy<'a> {
    /// Makes the namespace and the service `hello`, which answers 200 to everything; no proxy yet.
    pub async fn prepare(world: &'a World, scenario: &str) -> Outcome<Self> {
        let proxy = Self {
            world,
            namespace: world.namespace(scenario).await?,
            name: "edge",
            kind: MY_PROXY,
        };
        proxy.start_upstream().await?;
        Ok(proxy)
    }

    /// As [`Proxy::prepare`], and a proxy that serves.
    pub async fn serving(world: &'a World, scenario: &str) -> Outcome<Self> {
        Self::serving_with(world, scenario, json!({})).await
    }

    /// As [`Proxy::serving`], with these fields of the spec on top.
    pub async fn serving_with(world: &'a World, scenario: &str, spec: Value) -> Outcome<Self> {
        Self::prepare(world, scenario).await?.brought_about(spec).await
    }

    /// As [`Proxy::serving`], in the version that the first release knew.
    pub async fn serving_v1alpha1(world: &'a World, scenario: &str) -> Outcome<Self> {
        let proxy = Self {
            kind: MY_PROXY_V1ALPHA1,
            ..Self::prepare(world, scenario).await?
        };
        proxy.brought_about(json!({})).await
    }

    async fn brought_about(self, spec: Value) -> Outcome<Self> {
        self.apply(spec).await?;
        self.comes_up().await?;
        Ok(self)
    }

    /// The name of a field in the version in which it is read.
    fn field(&self, v1: &'static str, v1alpha1: &'static str) -> &'static str {
        if self.kind == MY_PROXY { v1 } else { v1alpha1 }
    }

    /// The service that the demonstration proxies to, from the demonstration's own manifests.
    async fn start_upstream(&self) -> Outcome {
        for manifest in self.upstream_manifests()? {
            self.world.apply(&self.namespace, manifest).await?;
        }
        until("the upstream to serve", SERVING, || async {
            let hello = self.world.get(DEPLOYMENT, &self.namespace, "hello").await?;
            let ready = hello
                .data
                .pointer("/status/readyReplicas")
                .cloned()
                .unwrap_or_default();
            Ok(Seen::equal(&ready, &json!(1)))
        })
        .await
    }

    fn upstream_manifests(&self) -> Outcome<Vec<Value>> {
        let text = std::fs::read_to_string(self.world.settings.source.join("hack/demo.yaml"))?;
        let text = text.replace("image: IMAGE", &format!("image: {}", self.world.settings.nginx));
        let documents = serde_yaml::Deserializer::from_str(&text).map(Value::deserialize);
        let mut manifests = documents.collect::<Result<Vec<_>, _>>()?;
        manifests.retain(|manifest| manifest["metadata"]["name"] == "hello");
        Ok(manifests)
    }

    /// Applies the proxy: everything under `/` goes to `hello`, and the fields of `spec` on top.
    pub async fn apply(&self, spec: Value) -> Outcome<DynamicObject> {
        let mut whole = json!({
            "upstreams": [{"name": "hello", "servers": [{"host": "hello", "port": 80}]}],
            "routes": [{"path": "/", "upstream": "hello"}],
        });
        if let (Some(whole), Value::Object(fields)) = (whole.as_object_mut(), spec) {
            whole.extend(fields);
        }
        let manifest = json!({
            "apiVersion": format!("roadstead.dev/{}", self.kind.version), "kind": "MyProxy",
            "metadata": {"name": self.name}, "spec": whole,
        });
        self.world.apply(&self.namespace, manifest).await
    }

    /// `kubectl patch --type=merge` of the spec.
    pub async fn patch(&self, spec: Value) -> Outcome {
        self.world
            .merge(self.kind, &self.namespace, self.name, json!({"spec": spec}))
            .await
            .map(drop)
    }

    pub async fn get(&self) -> Outcome<DynamicObject> {
        self.world.get(self.kind, &self.namespace, self.name).await
    }

    // ---- status -----------------------------------------------------------------------------------------------

    /// Waits until the proxy is Ready with regard to its newest spec.
    pub async fn ready(&self) -> Outcome {
        self.condition("Ready", "True").await.map(drop)
    }

    /// Waits until the condition has this status with regard to the newest spec; returns its reason and message.
    pub async fn condition(&self, kind: &str, wanted: &str) -> Outcome<(String, String)> {
        until(
            format!(
                "{kind} of MyProxy {}/{} to be {wanted}",
                self.namespace, self.name
            ),
            SERVING,
            || async {
                let proxy = self.get().await?;
                let observed = proxy
                    .data
                    .pointer(self.field("/status/observedGeneration", "/status/observed_generation"))
                    .and_then(Value::as_i64);
                let current = observed == proxy.metadata.generation;
                let seen = condition(&proxy, kind);
                let instead = format!(
                    "{:?} ({}: {}), generation {observed:?} of {:?}",
                    seen.status, seen.reason, seen.message, proxy.metadata.generation
                );
                let found = (seen.reason.to_owned(), seen.message.to_owned());
                Ok(Seen::when(current && seen.status == wanted, found, instead))
            },
        )
        .await
    }

    pub async fn pod_names(&self) -> Outcome<Vec<String>> {
        let proxy = self.get().await?;
        let names = proxy
            .data
            .pointer(self.field("/status/podNames", "/status/pod_names"))
            .cloned()
            .unwrap_or_else(|| json!([]));
        Ok(serde_json::from_value(names)?)
    }

    /// The pods that are not going away, by name.
    pub async fn pods(&self) -> Outcome<BTreeMap<String, Pod>> {
        let api: Api<Pod> = Api::namespaced(self.world.client.clone(), &self.namespace);
        let pods = api
            .list(&ListParams::default().labels(&format!("{APP}={}", self.name)))
            .await?;
        let living = pods
            .items
            .into_iter()
            .filter(|pod| pod.metadata.deletion_timestamp.is_none());
        Ok(living.map(|pod| (pod.name_any(), pod)).collect())
    }

    /// Every child that the proxy has now, as `Kind/name`, with its resourceVersion; the proxy itself as well.
    pub async fn versions(&self) -> Outcome<BTreeMap<String, String>> {
        let mut versions = BTreeMap::new();
        let mut keep = |kind: Kind, object: &DynamicObject| {
            versions.insert(
                format!("{}/{}", kind.kind, object.name_any()),
                object.resource_version().unwrap_or_default(),
            );
        };
        keep(self.kind, &self.get().await?);
        for kind in [DEPLOYMENT, SERVICE, CONFIG_MAP, PDB, JOB] {
            for child in self
                .world
                .list(kind, &self.namespace, "app.kubernetes.io/managed-by=roadstead")
                .await?
            {
                keep(kind, &child);
            }
        }
        Ok(versions)
    }

    /// See [`World::events`].
    pub async fn events(&self) -> Outcome<Vec<(String, String, String)>> {
        self.world.events(&self.namespace, "MyProxy", self.name).await
    }

    // ---- requests ---------------------------------------------------------------------------------------------

    /// The Service's ClusterIP.
    pub async fn address(&self) -> Outcome<String> {
        let service = self.world.get(SERVICE, &self.namespace, self.name).await?;
        let address = text(&service, "/spec/clusterIP");
        ensure!(
            !address.is_empty(),
            "Service {}/{} has no ClusterIP",
            self.namespace,
            self.name
        );
        Ok(address.to_owned())
    }

    /// The status code and the body of a GET through the Service.
    pub async fn request(&self, path: &str) -> Outcome<(u16, String)> {
        self.fetch(&format!("http://{}{path}", self.address().await?))
            .await
    }

    /// As [`Proxy::request`], over HTTPS without a look at the certificate's issuer.
    pub async fn request_tls(&self, path: &str) -> Outcome<(u16, String)> {
        self.fetch(&format!("https://{}{path}", self.address().await?))
            .await
    }

    async fn fetch(&self, url: &str) -> Outcome<(u16, String)> {
        let arguments = [
            "--silent",
            "--show-error",
            "--insecure",
            "--noproxy",
            "*",
            "--max-time",
            "5",
            "--write-out",
            "\n%{http_code}",
            url,
        ];
        let output = self.world.run("curl", &arguments).await?;
        let (body, code) = output.rsplit_once('\n').unwrap_or(("", &output));
        let code = code
            .parse()
            .map_err(|_| Failure::new(format!("GET {url}: curl printed {output:?}")))?;
        Ok((code, body.to_owned()))
    }

    /// Waits until the proxy is Ready and its Service leads to it. Every node learns on its own, a moment after the pods are ready, that a
    /// Service has endpoints, and refuses connections until then. From here on [`Proxy::serves`] must not fail.
    pub async fn comes_up(&self) -> Outcome {
        self.ready().await?;
        until("the Service to lead to the proxy", SERVING, || async {
            self.serves().await.map(Seen::There)
        })
        .await
    }

    /// Fails unless a GET of `/` is answered with 200 by the upstream.
    pub async fn serves(&self) -> Outcome {
        let (code, body) = self.request("/").await?;
        ensure!(
            code == 200 && body.starts_with("hello from"),
            "GET / of {} answered {code} {body:?}",
            self.name
        );
        Ok(())
    }
}
