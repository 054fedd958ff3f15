//! The promises of MyProxy's controller against a real API server. The test plays the rest of Kubernetes: Jobs, Deployments and pods
//! are what it writes into their statuses.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test fails by panicking

#[path = "support/apiserver.rs"]
mod apiserver;

use std::sync::Arc;
use std::time::Duration;

use apiserver::{ApiServer, within};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use roadstead::api::my_proxy::MyProxy;
use roadstead::controllers::my_proxy::{self, Settings};
use roadstead::runtime::backoff::Backoff;
use roadstead::runtime::client::Clients;
use roadstead::runtime::controller::ControllerOptions;
use roadstead::runtime::key::Object;
use roadstead::runtime::lease::Leadership;
use roadstead::runtime::manager::{Manager, ManagerError, ManagerOptions};
use roadstead::runtime::metrics::RuntimeMetrics;
use roadstead::telemetry::metrics::Metrics;
use serde_json::{Value, json};
use tokio::sync::{OnceCell, oneshot};
use tokio::task::JoinHandle;

const LIMIT: Duration = Duration::from_secs(30);

#[tokio::test]
async fn from_a_spec_to_a_proxy_that_serves() {
    let world = World::new("serves").await;
    world.create("edge", spec(80)).await;
    let job = world.the_check().await;
    assert!(
        world.list::<Deployment>().await.is_empty(),
        "nothing runs before nginx accepted the configuration"
    );
    world
        .until("edge", "a check is under way", |status| {
            status["phase"] == "Creating"
        })
        .await;

    world.finish(&job, true).await;
    world.until_child::<Deployment>("edge").await;
    let pods = world.run_pods("edge", 2).await;
    world.until("edge", "ready", is_ready).await;
    let status = world.status("edge").await;
    assert_eq!(status["pod_names"], json!(pods));
    assert_eq!(
        (&status["phase"], &status["ready_replicas"]),
        (&json!("Running"), &json!(2))
    );
    assert_eq!(world.names::<Service>().await, ["edge"]);
    assert_eq!(world.names::<PodDisruptionBudget>().await, ["edge"]);
    world.until_names::<ConfigMap>(&["edge-config"]).await;
    world.until_names::<Job>(&[]).await;
    for reason in ["ConfigAccepted", "Created", "Available", "Ready"] {
        world.until_event("edge", reason).await;
    }
}

#[tokio::test]
async fn a_second_reconcile_sends_no_write_and_neither_does_a_restart() {
    let mut world = World::serving("idempotence", &["edge"]).await;
    let version = world.get::<MyProxy>("edge").await.resource_version();
    let writes = world.operator.writes();
    let service = json!({"metadata": {"annotations": {"somebody": "else"}}});
    world.patch::<Service>("edge", service).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(world.operator.writes(), writes);

    world.restart().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(world.operator.writes(), 0);
    assert_eq!(world.get::<MyProxy>("edge").await.resource_version(), version);
}

#[tokio::test]
async fn what_somebody_changes_or_deletes_is_put_right() {
    let world = World::serving("repair", &["edge"]).await;
    world
        .patch::<Service>("edge", json!({"spec": {"selector": {"app": "stranger"}}}))
        .await;
    world.delete::<ConfigMap>("edge-config").await;
    world.delete::<PodDisruptionBudget>("edge").await;
    world.until_child::<PodDisruptionBudget>("edge").await;
    within(LIMIT, "the selector is right again", async || {
        world
            .get::<Service>("edge")
            .await
            .spec
            .unwrap()
            .selector
            .unwrap()
            .get("app")
            .is_none_or(|app| app != "stranger")
    })
    .await;
    assert!(
        world.try_get::<Deployment>("edge").await.is_some(),
        "the pods stay while their configuration is checked again"
    );
    let job = world.the_check().await;
    world.finish(&job, true).await;
    world.until_child::<ConfigMap>("edge-config").await;
    world.until("edge", "ready", is_ready).await;
}

#[tokio::test]
async fn what_nginx_refuses_is_told_and_the_old_configuration_stays_while_replicas_change() {
    let world = World::serving("refusal", &["edge"]).await;
    let before = world.get::<ConfigMap>("edge-config").await.data;
    let mut bad = spec(81);
    bad["replicas"] = json!(3);
    world.patch::<MyProxy>("edge", json!({"spec": bad})).await;
    let job = world.the_check().await;
    world.check_pod(&job, 3, "[emerg] cannot load certificate").await;
    world.finish(&job, false).await;
    world
        .until("edge", "refused", |status| {
            condition(status, "ConfigValid")["reason"] == "Refused"
        })
        .await;
    let message = condition(&world.status("edge").await, "ConfigValid")["message"].clone();
    assert_eq!(
        message,
        "nginx refuses the configuration: [emerg] cannot load certificate; the last good configuration keeps serving"
    );
    world.until_event("edge", "ConfigRefused").await;
    assert_eq!(world.get::<ConfigMap>("edge-config").await.data, before);
    assert_eq!(
        world.get::<Deployment>("edge").await.spec.unwrap().replicas,
        Some(3)
    );

    // And back: at once, without another check.
    world.patch::<MyProxy>("edge", json!({"spec": spec(80)})).await;
    world
        .until("edge", "accepted", |status| {
            condition(status, "ConfigValid")["status"] == "True"
        })
        .await;
    world.until_names::<Job>(&[]).await;
    world.until_names::<ConfigMap>(&["edge-config"]).await;
    assert_eq!(world.get::<ConfigMap>("edge-config").await.data, before);
}

#[tokio::test]
async fn an_accepted_change_reaches_the_pods_without_a_rollout() {
    let world = World::serving("reload", &["edge"]).await;
    let generation = world.get::<Deployment>("edge").await.metadata.generation;
    let before = world.get::<ConfigMap>("edge-config").await.annotations()["roadstead.dev/config"].clone();
    world.patch::<MyProxy>("edge", json!({"spec": spec(81)})).await;
    let job = world.the_check().await;
    world.finish(&job, true).await;
    within(LIMIT, "every pod is told", async || {
        let key = world.get::<ConfigMap>("edge-config").await.annotations()["roadstead.dev/config"].clone();
        let pods = world.list::<Pod>().await;
        key != before
            && pods
                .iter()
                .all(|pod| pod.annotations().get("roadstead.dev/config") == Some(&key))
    })
    .await;
    assert_eq!(
        world.get::<Deployment>("edge").await.metadata.generation,
        generation,
        "the Deployment's spec is untouched"
    );
}

#[tokio::test]
async fn a_spec_that_makes_no_sense_is_told_and_mended() {
    let world = World::serving("invalid", &["edge"]).await;
    let twice = json!([{"path": "/a", "upstream": "up"}, {"path": "/a/", "upstream": "up"}]);
    world
        .patch::<MyProxy>("edge", json!({"spec": {"routes": twice}}))
        .await;
    world
        .until("edge", "told", |status| {
            condition(status, "ConfigValid")["reason"] == "InvalidSpec"
        })
        .await;
    let status = world.status("edge").await;
    let message = condition(&status, "Ready")["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        message.starts_with("spec.routes[1].path is \"/a/\"; it must be unlike"),
        "{message}"
    );
    assert_eq!(
        (
            condition(&status, "Available")["status"].as_str(),
            status["pod_names"].as_array().map(Vec::len)
        ),
        (Some("True"), Some(2))
    );
    world.until_event("edge", "InvalidSpec").await;
    world.patch::<MyProxy>("edge", json!({"spec": spec(80)})).await;
    world.until("edge", "ready again", is_ready).await;
}

#[tokio::test]
async fn the_api_server_refuses_what_the_schema_can_tell() {
    let world = World::new("schema").await;
    for (name, spec, part) in [
        ("edge", json!({"name": "Edge"}), "spec.name"),
        ("edge", json!({"replicas": -1}), "spec.replicas"),
        (
            "edge",
            json!({"routes": [{"path": "/", "upstream": "no"}]}),
            "each of routes must name one of upstreams",
        ),
        (
            "edge",
            json!({"routes": [{"path": "/a;b", "upstream": "no"}]}),
            "spec.routes[0].path",
        ),
        ("1edge", json!({}), "metadata.name must be a DNS label"),
    ] {
        let error = world.try_create(name, spec).await.unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    let largest: Vec<_> = (0..128)
        .map(|i| json!({"path": format!("/{i}"), "upstream": format!("u{}", i % 64)}))
        .collect();
    let upstreams: Vec<_> = (0..64)
        .map(|i| json!({"name": format!("u{i}"), "servers": [{"host": "a", "port": 80}]}))
        .collect();
    world
        .try_create("largest", json!({"routes": largest, "upstreams": upstreams}))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_name_that_is_taken_is_told_and_taken_over_once_it_is_free() {
    let world = World::serving("taken", &["first"]).await;
    let mut wanting = spec(80);
    wanting["name"] = json!("first");
    world.create("second", wanting).await;
    let job = world.the_check().await;
    world.finish(&job, true).await;
    world
        .until("second", "told", |status| {
            condition(status, "Ready")["reason"] == "NameTaken"
        })
        .await;
    let message = condition(&world.status("second").await, "Ready")["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        message.starts_with("Deployment taken/first exists and belongs to MyProxy first"),
        "{message}"
    );
    world.until_event("second", "NameTaken").await;
    world.delete::<MyProxy>("first").await;
    within(LIMIT, "the second has the name", async || {
        let deployment = world.try_get::<Deployment>("first").await;
        deployment.is_some_and(|deployment| {
            deployment
                .owner_references()
                .iter()
                .any(|owner| owner.name == "second")
        })
    })
    .await;
}

#[tokio::test]
async fn a_renamed_deployment_goes_once_its_successor_serves() {
    let world = World::serving("rename", &["edge"]).await;
    world
        .patch::<MyProxy>("edge", json!({"spec": {"name": "front"}}))
        .await;
    world.until_child::<Deployment>("front").await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    world.until_names::<Deployment>(&["edge", "front"]).await;
    let pods = world.run_pods("front", 2).await;
    world.until_names::<Deployment>(&["front"]).await;
    world
        .until("edge", "the new pods are named", |status| {
            status["pod_names"] == json!(pods)
        })
        .await;
}

#[tokio::test]
async fn a_proxy_is_ready_again_only_once_its_rollout_is_over() {
    let world = World::serving("rollout", &["edge"]).await;
    world
        .patch::<MyProxy>("edge", json!({"spec": {"resources": {"limits": {"cpu": "2"}}}}))
        .await;
    world
        .until("edge", "rolling out", |status| {
            condition(status, "Ready")["reason"] == "RollingOut"
        })
        .await;
    let status = world.status("edge").await;
    assert_eq!(condition(&status, "Available")["status"], "True");
    let generation = world.get::<Deployment>("edge").await.metadata.generation;
    let done = json!({"observedGeneration": generation, "updatedReplicas": 2});
    let half = json!({"observedGeneration": generation, "updatedReplicas": 1});
    world.patch_status::<Deployment>("edge", half).await;
    world
        .until("edge", "half way", |status| {
            condition(status, "Ready")["message"] == "1 of 2 pods are up to date"
        })
        .await;
    world.patch_status::<Deployment>("edge", done).await;
    world.until("edge", "ready", is_ready).await;
}

#[tokio::test]
async fn a_write_that_is_rejected_is_told_and_takes_nothing_from_the_pods_that_serve() {
    let world = World::serving("rejected", &["edge"]).await;
    let pods = world.status("edge").await["pod_names"].clone();
    // More is asked for than may be used: only the API server's own rules for pods tell.
    let resources = json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}});
    world
        .patch::<MyProxy>("edge", json!({"spec": {"resources": resources}}))
        .await;
    world
        .until("edge", "told", |status| {
            condition(status, "Ready")["reason"] == "Rejected"
        })
        .await;
    let status = world.status("edge").await;
    assert_eq!(condition(&status, "Progressing")["reason"], "Rejected");
    assert_eq!(condition(&status, "Available")["status"], "True");
    assert_eq!((&status["pod_names"], &status["replicas"]), (&pods, &json!(2)));
    world
        .patch::<MyProxy>("edge", json!({"spec": {"resources": null}}))
        .await;
    world.until("edge", "ready again", is_ready).await;
}

#[tokio::test]
async fn pod_names_follow_the_pods() {
    let world = World::serving("pods", &["edge"]).await;
    let names = world.status("edge").await["pod_names"].clone();
    // One that is going away, but not yet gone.
    let pod = names[0].as_str().unwrap();
    world
        .patch::<Pod>(
            pod,
            json!({"metadata": {"finalizers": ["test.roadstead.dev/stay"]}}),
        )
        .await;
    world.delete::<Pod>(pod).await;
    world
        .until("edge", "one is left", |status| {
            status["pod_names"] == json!([names[1]])
        })
        .await;
}

#[tokio::test]
async fn deletion_cleans_up_with_the_operator_away_meanwhile() {
    let mut world = World::serving("deletion", &["edge"]).await;
    world.operator.stop().await;
    world.delete::<MyProxy>("edge").await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(
        world.try_get::<MyProxy>("edge").await.is_some(),
        "it waits for its operator"
    );
    world.operator = Operator::start(&world.namespace).await;
    world.until_gone().await;
}

#[tokio::test]
async fn deletion_of_a_proxy_whose_check_never_ended_leaves_nothing() {
    let world = World::new("half").await;
    world.create("edge", spec(80)).await;
    world.the_check().await;
    world.delete::<MyProxy>("edge").await;
    world.until_gone().await;
}

fn spec(port: u16) -> Value {
    json!({
        "replicas": 2,
        "upstreams": [{"name": "up", "servers": [{"host": "backend", "port": port}]}],
        "routes": [{"path": "/", "upstream": "up"}],
    })
}

fn condition<'a>(status: &'a Value, type_: &str) -> &'a Value {
    let conditions = status["conditions"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    conditions
        .iter()
        .find(|condition| condition["type"] == type_)
        .unwrap_or(&Value::Null)
}

fn is_ready(status: &Value) -> bool {
    condition(status, "Ready")["status"] == "True" && condition(status, "Progressing")["status"] == "False"
}

/// A namespace with an operator.
struct World {
    operator: Operator,
    client: Client,
    namespace: String,
}

impl World {
    async fn new(namespace: &str) -> Self {
        static INSTALLED: OnceCell<()> = OnceCell::const_new();
        let server = ApiServer::shared();
        INSTALLED.get_or_init(|| server.install_crds()).await;
        let namespace = server.namespace(namespace).await;
        Self {
            operator: Operator::start(&namespace).await,
            client: server.client().await,
            namespace,
        }
    }

    /// With proxies of these names that serve already.
    async fn serving(namespace: &str, names: &[&str]) -> Self {
        let world = Self::new(namespace).await;
        for name in names {
            world.create(name, spec(80)).await;
            let job = world.the_check().await;
            world.finish(&job, true).await;
            world.until_child::<Deployment>(name).await;
            world.run_pods(name, 2).await;
            world.until(name, "ready", is_ready).await;
            world.until_names::<Job>(&[]).await;
        }
        world.until_quiet().await;
        world
    }

    async fn restart(&mut self) {
        self.operator.stop().await;
        self.operator = Operator::start(&self.namespace).await;
    }

    fn api<K: Object<Scope = kube::core::NamespaceResourceScope>>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    async fn try_create(&self, name: &str, spec: Value) -> kube::Result<MyProxy> {
        let object = json!({"apiVersion": "roadstead.dev/v1alpha1", "kind": "MyProxy", "metadata": {"name": name}, "spec": spec});
        // Through the API's own types a wrong number would not even be sent.
        let object: kube::api::DynamicObject = serde_json::from_value(object).unwrap();
        let resource = kube::core::ApiResource::erase::<MyProxy>(&());
        let api: Api<kube::api::DynamicObject> =
            Api::namespaced_with(self.client.clone(), &self.namespace, &resource);
        api.create(&PostParams::default(), &object).await?;
        Ok(self.get(name).await)
    }

    async fn create(&self, name: &str, spec: Value) {
        self.try_create(name, spec).await.unwrap();
    }

    async fn get<K: Object<Scope = kube::core::NamespaceResourceScope>>(&self, name: &str) -> K {
        self.api().get(name).await.unwrap()
    }

    async fn try_get<K: Object<Scope = kube::core::NamespaceResourceScope>>(&self, name: &str) -> Option<K> {
        self.api().get_opt(name).await.unwrap()
    }

    async fn list<K: Object<Scope = kube::core::NamespaceResourceScope>>(&self) -> Vec<K> {
        let ours = ListParams::default().labels("app.kubernetes.io/managed-by=roadstead");
        self.api().list(&ours).await.unwrap().items
    }

    async fn names<K: Object<Scope = kube::core::NamespaceResourceScope>>(&self) -> Vec<String> {
        let mut names: Vec<_> = self
            .list::<K>()
            .await
            .iter()
            .map(|object| object.name_any())
            .collect();
        names.sort();
        names
    }

    async fn patch<K: Object<Scope = kube::core::NamespaceResourceScope>>(&self, name: &str, patch: Value) {
        self.api::<K>()
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }

    async fn patch_status<K: Object<Scope = kube::core::NamespaceResourceScope>>(
        &self,
        name: &str,
        status: Value,
    ) {
        let patch = Patch::Merge(json!({"status": status}));
        self.api::<K>()
            .patch_status(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    async fn delete<K: Object<Scope = kube::core::NamespaceResourceScope>>(&self, name: &str) {
        self.api::<K>()
            .delete(name, &DeleteParams::background())
            .await
            .unwrap();
    }

    async fn status(&self, name: &str) -> Value {
        serde_json::to_value(self.get::<MyProxy>(name).await.status).unwrap()
    }

    async fn until(&self, name: &str, what: &str, holds: impl Fn(&Value) -> bool) {
        let last = std::sync::Mutex::new(Value::Null);
        let what_of = format!("{name}: {what}");
        let waiting = within(LIMIT, &what_of, async || {
            let status = self.status(name).await;
            let holds = holds(&status);
            *last.lock().unwrap() = status;
            holds
        });
        tokio::time::timeout(LIMIT - Duration::from_secs(1), waiting)
            .await
            .unwrap_or_else(|_| panic!("{name}: not {what}: {:#}", last.lock().unwrap()));
    }

    async fn until_child<K: Object<Scope = kube::core::NamespaceResourceScope>>(&self, name: &str) {
        within(LIMIT, &format!("{} {name} is there", K::kind(&())), async || {
            self.try_get::<K>(name).await.is_some()
        })
        .await;
    }

    async fn until_names<K: Object<Scope = kube::core::NamespaceResourceScope>>(&self, names: &[&str]) {
        within(LIMIT, &format!("{} are {names:?}", K::plural(&())), async || {
            self.names::<K>().await == names
        })
        .await;
    }

    async fn until_event(&self, name: &str, reason: &str) {
        within(LIMIT, &format!("an Event {reason}"), async || {
            let events = self.api::<Event>().list(&ListParams::default()).await.unwrap();
            let about = |event: &Event| {
                event
                    .regarding
                    .as_ref()
                    .is_some_and(|object| object.name.as_deref() == Some(name))
            };
            events
                .iter()
                .any(|event| about(event) && event.reason.as_deref() == Some(reason))
        })
        .await;
    }

    async fn until_quiet(&self) {
        let mut seen = u64::MAX;
        within(LIMIT, "nothing is written any more", async || {
            let before = std::mem::replace(&mut seen, self.operator.writes());
            tokio::time::sleep(Duration::from_millis(400)).await;
            before == seen && before == self.operator.writes()
        })
        .await;
    }

    async fn until_gone(&self) {
        within(LIMIT, "the proxy and its children are gone", async || {
            self.list::<MyProxy>().await.is_empty()
                && self
                    .api::<MyProxy>()
                    .list(&ListParams::default())
                    .await
                    .unwrap()
                    .items
                    .is_empty()
                && self.names::<Deployment>().await.is_empty()
                && self.names::<Service>().await.is_empty()
                && self.names::<ConfigMap>().await.is_empty()
                && self.names::<Job>().await.is_empty()
                && self.names::<PodDisruptionBudget>().await.is_empty()
        })
        .await;
    }

    /// The one check that is not over.
    async fn the_check(&self) -> Job {
        let open = async || {
            let jobs = self.list::<Job>().await;
            jobs.into_iter().find(|job| {
                job.status
                    .as_ref()
                    .is_none_or(|status| status.conditions.is_none())
            })
        };
        within(LIMIT, "a check is started", async || open().await.is_some()).await;
        open().await.unwrap()
    }

    /// Plays the Job controller at the end of a check.
    async fn finish(&self, job: &Job, well: bool) {
        let now = jiff::Timestamp::now().to_string();
        let condition = |type_: &str| json!({"type": type_, "status": "True", "reason": "Test", "lastTransitionTime": now, "lastProbeTime": now});
        let status = if well {
            json!({
                "startTime": now, "completionTime": now, "succeeded": 1, "uncountedTerminatedPods": {},
                "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
            })
        } else {
            json!({
                "startTime": now, "failed": 1, "uncountedTerminatedPods": {},
                "conditions": [condition("FailureTarget"), condition("Failed")],
            })
        };
        self.patch_status::<Job>(&job.name_any(), status).await;
    }

    /// Plays the kubelet at the end of a check.
    async fn check_pod(&self, job: &Job, code: i32, message: &str) {
        let labels = job
            .spec
            .as_ref()
            .unwrap()
            .template
            .metadata
            .as_ref()
            .unwrap()
            .labels
            .clone()
            .unwrap();
        let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": job.name_any(), "uid": job.uid(), "controller": true});
        let name = format!("{}-pod", job.name_any());
        self.create_pod(&name, json!(labels), &owner).await;
        let state = json!({"terminated": {"exitCode": code, "message": message, "reason": "Error"}});
        let container = json!({"name": "check", "image": "x", "imageID": "", "ready": false, "restartCount": 0, "state": state});
        self.patch_status::<Pod>(
            &name,
            json!({"phase": "Failed", "containerStatuses": [container]}),
        )
        .await;
    }

    /// Plays the Deployment controller and the kubelet; gives the pods' names.
    async fn run_pods(&self, deployment: &str, count: usize) -> Vec<String> {
        let live = self.get::<Deployment>(deployment).await;
        let labels = live
            .spec
            .as_ref()
            .unwrap()
            .template
            .metadata
            .as_ref()
            .unwrap()
            .labels
            .clone()
            .unwrap();
        let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": deployment, "uid": "0", "controller": true});
        let names: Vec<_> = (0..count).map(|i| format!("{deployment}-{i}")).collect();
        for name in &names {
            self.create_pod(name, json!(labels), &owner).await;
            self.patch_status::<Pod>(name, json!({"phase": "Running"})).await;
        }
        let status = json!({
            "observedGeneration": live.metadata.generation, "replicas": count, "updatedReplicas": count,
            "readyReplicas": count, "availableReplicas": count,
        });
        self.patch_status::<Deployment>(deployment, status).await;
        names
    }

    async fn create_pod(&self, name: &str, labels: Value, owner: &Value) {
        let pod = json!({
            "metadata": {"name": name, "labels": labels, "ownerReferences": [owner]},
            "spec": {"containers": [{"name": "nginx", "image": "x"}], "automountServiceAccountToken": false},
        });
        self.api::<Pod>()
            .create(&PostParams::default(), &serde_json::from_value(pod).unwrap())
            .await
            .unwrap();
    }
}

/// An operator of proxies, running in this process, without election.
struct Operator {
    metrics: Arc<Metrics>,
    stop: Option<oneshot::Sender<()>>,
    running: Option<JoinHandle<Result<(), ManagerError>>>,
}

impl Operator {
    async fn start(namespace: &str) -> Self {
        let metrics = Arc::new(Metrics::new());
        let runtime_metrics = RuntimeMetrics::register(&metrics);
        let config = ApiServer::shared().config().await;
        let clients = Clients::connect(
            config,
            Leadership::unneeded(),
            Duration::from_secs(10),
            &runtime_metrics,
        )
        .unwrap();
        let options = ManagerOptions {
            namespaces: vec![namespace.to_owned()],
            ..ManagerOptions::new("roadstead", "test")
        };
        let mut manager = Manager::new(clients, options, Arc::clone(&metrics), runtime_metrics);
        let settings = Settings {
            nginx_image: "nginx:1.29".into(),
            agent_image: "registry.example/operator:v1".into(),
            cluster_domain: "cluster.local".into(),
        };
        let backoff = Backoff {
            base: Duration::from_millis(5),
            max: Duration::from_secs(1),
        };
        my_proxy::register(
            &mut manager,
            settings,
            ControllerOptions {
                backoff,
                ..ControllerOptions::default()
            },
        );
        let (stop, stopped) = oneshot::channel();
        let running = tokio::spawn(manager.run(async {
            let _ = stopped.await;
        }));
        Self {
            metrics,
            stop: Some(stop),
            running: Some(running),
        }
    }

    /// How many requests it sent that could have changed something.
    fn writes(&self) -> u64 {
        let text = self.metrics.encode().unwrap();
        let requests = text
            .lines()
            .filter(|line| line.starts_with("rest_client_requests_total{"));
        let writes = requests.filter(|line| !line.contains("method=\"GET\""));
        writes
            .filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok())
            .sum()
    }

    async fn stop(&mut self) {
        if let (Some(stop), Some(running)) = (self.stop.take(), self.running.take()) {
            let _ = stop.send(());
            running.await.unwrap().unwrap();
        }
    }
}
