//! A namespace of a real API server with an operator of proxies. Where neither controllers nor a kubelet run, the test plays them: Jobs,
//! Deployments and pods are what it writes into their statuses.

use std::sync::Arc;
use std::time::Duration;

use super::apiserver::{ApiServer, within};
use super::played_agents::{PlayedAgents, ready_at};
use super::running::Running;
use super::sample_proxy::settings;
pub use super::sample_proxy::{condition, spec};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use roadstead::api::my_proxy::MyProxy;
use roadstead::controllers::my_proxy;
use roadstead::controllers::my_proxy::agents::HttpAgents;
use roadstead::runtime::backoff::Backoff;
use roadstead::runtime::client::Clients;
use roadstead::runtime::controller::ControllerOptions;
use roadstead::runtime::key::Object;
use roadstead::runtime::lease::Leadership;
use roadstead::runtime::manager::{Manager, ManagerOptions};
use roadstead::runtime::metrics::RuntimeMetrics;
use roadstead::telemetry::metrics::Metrics;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// How long anything may take.
pub const LIMIT: Duration = Duration::from_secs(30);

pub fn is_ready(status: &Value) -> bool {
    condition(status, "Ready")["status"] == "True" && condition(status, "Progressing")["status"] == "False"
}

/// A namespace with an operator.
pub struct World {
    pub operator: Running,
    pub agents: Arc<PlayedAgents>,
    client: Client,
    pub namespace: String,
}

impl World {
    pub async fn new(namespace: &str) -> Self {
        static INSTALLED: OnceCell<()> = OnceCell::const_new();
        let server = ApiServer::shared();
        INSTALLED.get_or_init(|| server.install_crds()).await;
        let namespace = server.namespace(namespace).await;
        let client = server.client().await;
        let agents = Arc::new(PlayedAgents::new(Api::namespaced(client.clone(), &namespace)));
        Self {
            operator: start(&namespace, agents.port().await).await,
            agents,
            client,
            namespace,
        }
    }

    /// With proxies of these names that serve already.
    pub async fn serving(namespace: &str, names: &[&str]) -> Self {
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

    pub async fn restart(&mut self) {
        self.operator.stop().await;
        self.operator = start(&self.namespace, self.agents.port().await).await;
    }

    pub fn api<K: Object<Scope = kube::core::NamespaceResourceScope>>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub async fn try_create(&self, name: &str, spec: Value) -> kube::Result<MyProxy> {
        let object = json!({"apiVersion": "roadstead.dev/v1", "kind": "MyProxy", "metadata": {"name": name}, "spec": spec});
        // Through the API's own types a wrong number would not even be sent.
        let object: kube::api::DynamicObject = serde_json::from_value(object).unwrap();
        let resource = kube::core::ApiResource::erase::<MyProxy>(&());
        let api: Api<kube::api::DynamicObject> =
            Api::namespaced_with(self.client.clone(), &self.namespace, &resource);
        api.create(&PostParams::default(), &object).await?;
        Ok(self.get(name).await)
    }

    pub async fn create(&self, name: &str, spec: Value) {
        self.try_create(name, spec).await.unwrap();
    }

    pub async fn get<K: Object<Scope = kube::core::NamespaceResourceScope>>(&self, name: &str) -> K {
        self.api().get(name).await.unwrap()
    }

    pub async fn try_get<K: Object<Scope = kube::core::NamespaceResourceScope>>(
        &self,
        name: &str,
    ) -> Option<K> {
        self.api().get_opt(name).await.unwrap()
    }

    pub async fn list<K: Object<Scope = kube::core::NamespaceResourceScope>>(&self) -> Vec<K> {
        let ours = ListParams::default().labels("app.kubernetes.io/managed-by=roadstead");
        self.api().list(&ours).await.unwrap().items
    }

    pub async fn names<K: Object<Scope = kube::core::NamespaceResourceScope>>(&self) -> Vec<String> {
        let mut names: Vec<_> = self
            .list::<K>()
            .await
            .iter()
            .map(|object| object.name_any())
            .collect();
        names.sort();
        names
    }

    pub async fn patch<K: Object<Scope = kube::core::NamespaceResourceScope>>(
        &self,
        name: &str,
        patch: Value,
    ) {
        self.api::<K>()
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }

    pub async fn patch_status<K: Object<Scope = kube::core::NamespaceResourceScope>>(
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

    pub async fn delete<K: Object<Scope = kube::core::NamespaceResourceScope>>(&self, name: &str) {
        self.api::<K>()
            .delete(name, &DeleteParams::background())
            .await
            .unwrap();
    }

    pub async fn status(&self, name: &str) -> Value {
        serde_json::to_value(self.get::<MyProxy>(name).await.status).unwrap()
    }

    pub async fn until(&self, name: &str, what: &str, holds: impl Fn(&Value) -> bool) {
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

    /// The same, of what is said of its present spec.
    pub async fn until_said(&self, name: &str, what: &str, holds: impl Fn(&Value) -> bool) {
        let generation = self.get::<MyProxy>(name).await.metadata.generation;
        let current = |status: &Value| status["observedGeneration"].as_i64() == generation;
        self.until(name, what, |status| current(status) && holds(status))
            .await;
    }

    pub async fn until_child<K: Object<Scope = kube::core::NamespaceResourceScope>>(&self, name: &str) {
        within(LIMIT, &format!("{} {name} is there", K::kind(&())), async || {
            self.try_get::<K>(name).await.is_some()
        })
        .await;
    }

    pub async fn until_names<K: Object<Scope = kube::core::NamespaceResourceScope>>(&self, names: &[&str]) {
        within(LIMIT, &format!("{} are {names:?}", K::plural(&())), async || {
            self.names::<K>().await == names
        })
        .await;
    }

    pub async fn until_event(&self, name: &str, reason: &str) {
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

    pub async fn until_quiet(&self) {
        let quiet = tokio::time::timeout(LIMIT, self.operator.until_quiet());
        quiet.await.expect("nothing is written any more");
    }

    pub async fn until_gone(&self) {
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
    pub async fn the_check(&self) -> Job {
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
    pub async fn finish(&self, job: &Job, well: bool) {
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
    pub async fn check_pod(&self, job: &Job, code: i32, message: &str) {
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
    pub async fn run_pods(&self, deployment: &str, count: usize) -> Vec<String> {
        let live = self.get::<Deployment>(deployment).await;
        let template = live.spec.unwrap().template;
        let labels = template.metadata.unwrap().labels.unwrap();
        let spec = template.spec.unwrap();
        let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": deployment, "uid": "0", "controller": true});
        let names: Vec<_> = (0..count).map(|i| format!("{deployment}-{i}")).collect();
        for name in &names {
            self.create_pod(name, json!(labels), &owner).await;
            self.is_ready_at(name, self.agents.of(name, &spec).await).await;
        }
        let status = json!({
            "observedGeneration": live.metadata.generation, "replicas": count, "updatedReplicas": count,
            "readyReplicas": count, "availableReplicas": count,
        });
        self.patch_status::<Deployment>(deployment, status).await;
        names
    }

    /// Plays the kubelet: the pod is ready, and has this address.
    pub async fn is_ready_at(&self, pod: &str, address: std::net::IpAddr) {
        self.patch_status::<Pod>(pod, ready_at(address)).await;
    }

    pub async fn create_pod(&self, name: &str, labels: Value, owner: &Value) {
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

/// An operator of the proxies in this namespace, without election; it asks agents on this port.
pub async fn start(namespace: &str, agents: u16) -> Running {
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
    let backoff = Backoff {
        base: Duration::from_millis(5),
        max: Duration::from_secs(1),
    };
    my_proxy::register(
        &mut manager,
        settings(),
        Some(Arc::new(HttpAgents::on_port(agents))),
        ControllerOptions {
            backoff,
            ..ControllerOptions::default()
        },
    );
    Running::begin(manager, metrics)
}
