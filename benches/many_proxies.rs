//! What many proxies cost the operator: a real API server, the operator as a process of its own, and the rest of Kubernetes played, Jobs,
//! Deployments and pods being what is written into their statuses.
//!
//!     cargo bench --bench many_proxies          PROXIES=500 by default
//!
//! Prints `figure NAME VALUE UNIT` lines.

#![allow(
    missing_docs,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a measurement that fails says so by a panic"
)]

#[path = "../tests/support/apiserver.rs"]
#[allow(dead_code, reason = "each binary uses what it needs of this")]
mod apiserver;

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use apiserver::ApiServer;
use futures::{StreamExt, stream};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use roadstead::api::my_proxy::MyProxy;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const NAMESPACE: &str = "many";
/// How long all proxies together may take to become ready, or to take a change.
const LIMIT: Duration = Duration::from_secs(600);
/// Requests of the test under way at the same time.
const AT_ONCE: usize = 16;

#[tokio::main]
async fn main() {
    let count: usize = std::env::var("PROXIES").map_or(500, |text| text.parse().expect("PROXIES: a number"));
    let server = ApiServer::shared();
    server.install_crds().await;
    server.namespace(NAMESPACE).await;
    let client = server.client().await;
    let operator = Operator::start(&server.kubeconfig());
    tokio::spawn(play(client.clone()));

    let proxies: Api<MyProxy> = Api::namespaced(client, NAMESPACE);
    let started = Instant::now();
    each(count, async |number| {
        let proxy = json!({
            "apiVersion": "roadstead.dev/v1", "kind": "MyProxy", "metadata": {"name": name(number)},
            "spec": {
                "upstreams": [{"name": "up", "servers": [{"host": "backend", "port": 80}]}],
                "routes": [{"path": "/", "upstream": "up"}],
            },
        });
        let proxy = serde_json::from_value(proxy).unwrap();
        proxies.create(&PostParams::default(), &proxy).await.unwrap();
    })
    .await;
    until_ready(&proxies, count).await;
    figure("many.created_to_ready", started.elapsed().as_secs_f64(), "s");

    let started = Instant::now();
    each(count, async |number| {
        let patch = Patch::Merge(json!({"spec": {"replicas": 3}}));
        proxies
            .patch(&name(number), &PatchParams::default(), &patch)
            .await
            .unwrap();
    })
    .await;
    until_ready(&proxies, count).await;
    figure("many.scaled_to_ready", started.elapsed().as_secs_f64(), "s");

    figure("many.proxies", count as f64, "objects");
    figure("many.memory_peak", operator.mebibytes("VmHWM"), "MiB");
    figure("many.memory_anonymous", operator.mebibytes("RssAnon"), "MiB");
}

fn name(number: usize) -> String {
    format!("proxy-{number:04}")
}

fn figure(name: &str, value: f64, unit: &str) {
    println!("figure {name} {value:.1} {unit}");
}

async fn each(count: usize, act: impl AsyncFn(usize)) {
    stream::iter(0..count)
        .for_each_concurrent(AT_ONCE, |number| act(number))
        .await;
}

async fn until_ready(proxies: &Api<MyProxy>, count: usize) {
    let deadline = Instant::now() + LIMIT;
    loop {
        let all = proxies.list(&ListParams::default()).await.unwrap();
        let ready = all.iter().filter(|proxy| is_ready(proxy)).count();
        if ready == count {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "{ready} of {count} proxies are ready after {} s",
            LIMIT.as_secs()
        );
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

fn is_ready(proxy: &MyProxy) -> bool {
    let Some(status) = &proxy.status else { return false };
    let mut conditions = status.conditions.iter();
    status.observed_generation == proxy.metadata.generation
        && conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

// ---- the operator ---------------------------------------------------------------------------------------------

struct Operator(Child);

impl Operator {
    fn start(kubeconfig: &std::path::Path) -> Self {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", env!("CARGO_BIN_EXE_roadstead"), "run"]);
        // The pods are played, and nobody answers for them.
        command.arg("--ask-pods=false");
        command.args([
            "--metrics-address=127.0.0.1:0",
            "--health-address=127.0.0.1:0",
            "--admin-address=127.0.0.1:0",
        ]);
        command.args(["--watch-namespace", NAMESPACE]);
        command
            .env("KUBECONFIG", kubeconfig)
            .env("POD_NAMESPACE", NAMESPACE)
            .env("OPERATOR_IMAGE", "operator:bench")
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Self(command.spawn().expect("setpriv, of util-linux"))
    }

    /// A size from `/proc/PID/status`.
    fn mebibytes(&self, field: &str) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        let kibibytes: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kibibytes / 1024.0
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

// ---- the rest of Kubernetes -----------------------------------------------------------------------------------

/// Ends every check well, and gives every Deployment the pods that it asks for.
async fn play(client: Client) {
    let (jobs, deployments, pods): (Api<Job>, Api<Deployment>, Api<Pod>) = (
        Api::namespaced(client.clone(), NAMESPACE),
        Api::namespaced(client.clone(), NAMESPACE),
        Api::namespaced(client, NAMESPACE),
    );
    loop {
        let open = list(&jobs).await.into_iter().filter(is_open);
        stream::iter(open)
            .for_each_concurrent(AT_ONCE, |job| complete(&jobs, job))
            .await;
        let behind = list(&deployments).await.into_iter().filter(is_behind);
        stream::iter(behind)
            .for_each_concurrent(AT_ONCE, |deployment| roll_out(&deployments, &pods, deployment))
            .await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn list<K: Clone + DeserializeOwned + std::fmt::Debug>(api: &Api<K>) -> Vec<K> {
    api.list(&ListParams::default()).await.unwrap().items
}

fn is_open(job: &Job) -> bool {
    job.status
        .as_ref()
        .is_none_or(|status| status.conditions.is_none())
}

fn is_behind(deployment: &Deployment) -> bool {
    let seen = deployment
        .status
        .as_ref()
        .and_then(|status| status.observed_generation);
    seen != deployment.metadata.generation
}

async fn complete(jobs: &Api<Job>, job: Job) {
    let now = jiff::Timestamp::now().to_string();
    let condition = |type_: &str| json!({"type": type_, "status": "True", "reason": "Bench", "lastTransitionTime": now, "lastProbeTime": now});
    let status = json!({"status": {
        "startTime": now, "completionTime": now, "succeeded": 1, "uncountedTerminatedPods": {},
        "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
    }});
    // It may be gone by now.
    let _ = jobs
        .patch_status(&job.name_any(), &PatchParams::default(), &Patch::Merge(status))
        .await;
}

async fn roll_out(deployments: &Api<Deployment>, pods: &Api<Pod>, deployment: Deployment) {
    let spec = deployment.spec.as_ref().unwrap();
    let wanted = spec.replicas.unwrap_or(1);
    let template = spec.template.metadata.as_ref().unwrap();
    for number in 0..wanted {
        let pod = json!({
            "metadata": {"name": format!("{}-{number}", deployment.name_any()), "labels": template.labels},
            "spec": {"containers": [{"name": "nginx", "image": "x"}], "automountServiceAccountToken": false},
        });
        // It is there already when the Deployment was scaled up.
        let _ = pods
            .create(&PostParams::default(), &serde_json::from_value(pod).unwrap())
            .await;
    }
    let status: Value = json!({"status": {
        "observedGeneration": deployment.metadata.generation, "replicas": wanted, "updatedReplicas": wanted,
        "readyReplicas": wanted, "availableReplicas": wanted,
    }});
    let _ = deployments
        .patch_status(
            &deployment.name_any(),
            &PatchParams::default(),
            &Patch::Merge(status),
        )
        .await;
}
