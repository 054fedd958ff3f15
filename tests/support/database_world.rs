//! A namespace of a real API server with an operator of databases. The test plays the rest: pods are what it writes into their statuses, and instances
//! answer what it has them say.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::apiserver::{ApiServer, within};
use super::running::Running;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Client, CustomResourceExt as _, ResourceExt};
use roadstead::api::database::agent::{
    Lsn, RECORD, ROLE_LABEL, Report, Role, SETTINGS, Standby, State, settings_hash,
};
use roadstead::api::database::v1::Database;
use roadstead::controllers::database::instances::{Instances, Order, Target};
use roadstead::controllers::database::{self, Settings};
use roadstead::pki::authority::Identity;
use roadstead::runtime::backoff::Backoff;
use roadstead::runtime::client::{Clients, is_not_found};
use roadstead::runtime::controller::ControllerOptions;
use roadstead::runtime::key::Object;
use roadstead::runtime::lease::Leadership;
use roadstead::runtime::manager::{Manager, ManagerOptions};
use roadstead::runtime::metrics::RuntimeMetrics;
use roadstead::telemetry::metrics::Metrics;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// How long anything may take.
pub const LIMIT: Duration = Duration::from_secs(40);

pub fn condition(status: &Value, type_: &str) -> Value {
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions
        .into_iter()
        .find(|condition| condition["type"] == type_);
    found.unwrap_or(Value::Null)
}

pub fn is_ready(status: &Value) -> bool {
    condition(status, "Ready")["status"] == "True"
}

/// What instances say, by the host that they are asked for.
#[derive(Debug, Default)]
pub struct Played {
    said: Mutex<HashMap<String, Report>>,
    /// What they were told to do, by their names.
    ordered: Mutex<Vec<(String, Order)>>,
}

impl Instances for Played {
    fn report<'a>(
        &'a self,
        identity: &'a Identity,
        target: &'a Target,
    ) -> BoxFuture<'a, Result<Report, String>> {
        assert!(
            !identity.authorities.is_empty(),
            "the operator knows whom to trust"
        );
        let said = self.said.lock().unwrap().get(&target.host).cloned();
        async move { said.ok_or_else(|| "Connection refused".to_owned()) }.boxed()
    }

    fn order<'a>(
        &'a self,
        _: &'a Identity,
        target: &'a Target,
        order: &'a Order,
    ) -> BoxFuture<'a, Result<(), String>> {
        let ordered = (target.pod.clone(), order.clone());
        self.ordered.lock().unwrap().push(ordered);
        async { Ok(()) }.boxed()
    }
}

/// A namespace with an operator.
pub struct World {
    pub operator: Running,
    pub played: Arc<Played>,
    client: Client,
    pub namespace: String,
}

impl World {
    pub async fn new(namespace: &str) -> Self {
        static INSTALLED: OnceCell<()> = OnceCell::const_new();
        let server = ApiServer::shared();
        INSTALLED.get_or_init(|| install(server)).await;
        let namespace = server.namespace(namespace).await;
        let played = Arc::new(Played::default());
        Self {
            operator: start(&namespace, &played).await,
            played,
            client: server.client().await,
            namespace,
        }
    }

    /// With a database of this name and spec that serves.
    pub async fn serving(namespace: &str, name: &str, spec: Value) -> Self {
        let world = Self::new(namespace).await;
        world.create(name, spec).await;
        world.run(name).await;
        world.until(name, "ready", is_ready).await;
        world.until_quiet().await;
        world
    }

    pub async fn restart(&mut self) {
        self.operator.stop().await;
        self.operator = start(&self.namespace, &self.played).await;
    }

    pub fn api<K: Object<Scope = NamespaceResourceScope>>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub async fn create(&self, name: &str, spec: Value) {
        let object = json!({"apiVersion": "roadstead.dev/v1", "kind": "Database", "metadata": {"name": name}, "spec": spec});
        let object: Database = serde_json::from_value(object).unwrap();
        self.api().create(&PostParams::default(), &object).await.unwrap();
    }

    pub async fn get<K: Object<Scope = NamespaceResourceScope>>(&self, name: &str) -> K {
        self.api().get(name).await.unwrap()
    }

    pub async fn try_get<K: Object<Scope = NamespaceResourceScope>>(&self, name: &str) -> Option<K> {
        self.api().get_opt(name).await.unwrap()
    }

    /// The names of those of the operator's children.
    pub async fn names<K: Object<Scope = NamespaceResourceScope>>(&self) -> Vec<String> {
        let ours = ListParams::default().labels("app.kubernetes.io/managed-by=roadstead");
        let found = self.api::<K>().list(&ours).await.unwrap();
        let mut names: Vec<_> = found.iter().map(|object| object.name_any()).collect();
        names.sort();
        names
    }

    pub async fn patch<K: Object<Scope = NamespaceResourceScope>>(&self, name: &str, patch: Value) {
        let patched = self
            .api::<K>()
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        patched.unwrap();
    }

    pub async fn delete<K: Object<Scope = NamespaceResourceScope>>(&self, name: &str) {
        self.api::<K>()
            .delete(name, &DeleteParams::background())
            .await
            .unwrap();
    }

    pub async fn status(&self, name: &str) -> Value {
        serde_json::to_value(self.get::<Database>(name).await.status).unwrap()
    }

    pub async fn until(&self, name: &str, what: &str, holds: impl Fn(&Value) -> bool) {
        let last = Mutex::new(Value::Null);
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

    pub async fn until_child<K: Object<Scope = NamespaceResourceScope>>(&self, name: &str) {
        within(LIMIT, &format!("{} {name} is there", K::kind(&())), async || {
            self.try_get::<K>(name).await.is_some()
        })
        .await;
    }

    pub async fn until_event(&self, name: &str, reason: &str) {
        within(LIMIT, &format!("an Event {reason}"), async || {
            let events = self.api::<Event>().list(&ListParams::default()).await.unwrap();
            events.iter().any(|event| {
                let about = event.regarding.as_ref();
                about.is_some_and(|object| object.name.as_deref() == Some(name))
                    && event.reason.as_deref() == Some(reason)
            })
        })
        .await;
    }

    pub async fn until_quiet(&self) {
        let quiet = tokio::time::timeout(LIMIT, self.operator.until_quiet());
        quiet.await.expect("nothing is written any more");
    }

    /// Plays Kubernetes and the instances: as many pods run as there should be, the first leads, and the others follow.
    pub async fn run(&self, name: &str) {
        self.until_child::<StatefulSet>(name).await;
        let set = self.get::<StatefulSet>(name).await;
        let replicas = set.spec.as_ref().unwrap().replicas.unwrap();
        self.observe(&set).await;
        for ordinal in 0..replicas {
            self.start_pod(&set, ordinal).await;
        }
        self.lead(name, 0).await;
        // Once the identifier is known, the settings are others.
        within(LIMIT, "settings have the identifier", async || {
            let settings = self.get::<ConfigMap>(&format!("{name}-settings")).await;
            settings.data.unwrap()[SETTINGS].contains(r#""systemIdentifier": "7""#)
        })
        .await;
        self.answer(name, 0).await;
    }

    /// Plays the StatefulSet's controller, unless there is one: it has seen the StatefulSet as it is.
    async fn observe(&self, set: &StatefulSet) {
        let observed = set.status.as_ref().and_then(|status| status.observed_generation);
        if observed == set.metadata.generation {
            return;
        }
        let status = json!({"status": {"replicas": 0, "observedGeneration": set.metadata.generation}});
        let patched = self
            .api::<StatefulSet>()
            .patch_status(&set.name_any(), &PatchParams::default(), &Patch::Merge(status))
            .await;
        patched.unwrap();
    }

    async fn start_pod(&self, set: &StatefulSet, ordinal: i32) {
        let name = format!("{}-{ordinal}", set.name_any());
        let template = set.spec.as_ref().unwrap().template.clone();
        let metadata = template.metadata.unwrap();
        let mut labels = metadata.labels.unwrap();
        let role = if ordinal == 0 { "primary" } else { "replica" };
        labels.insert(ROLE_LABEL.to_owned(), role.to_owned());
        labels.insert("statefulset.kubernetes.io/pod-name".to_owned(), name.clone());
        let owner = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": set.name_any(), "uid": set.uid(), "controller": true});
        let pod = json!({
            "metadata": {"name": name, "labels": labels, "annotations": metadata.annotations, "ownerReferences": [owner]},
            "spec": {"containers": [{"name": "postgres", "image": "x"}], "automountServiceAccountToken": false},
        });
        let pod: Pod = serde_json::from_value(pod).unwrap();
        if self.try_get::<Pod>(&name).await.is_none() {
            self.api().create(&PostParams::default(), &pod).await.unwrap();
        }
        let address = format!("10.0.0.{}", ordinal + 1);
        let status = json!({"status": {
            "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
            "podIP": address, "podIPs": [{"ip": address}],
        }});
        let patched = self
            .api::<Pod>()
            .patch_status(&name, &PatchParams::default(), &Patch::Merge(status))
            .await;
        // The operator may have deleted it meanwhile.
        assert!(patched.map_or_else(|error| is_not_found(&error), |_| true));
    }

    /// Plays the instance that takes the Lease: it replaces it as a whole, as instances do.
    pub async fn lead(&self, name: &str, ordinal: i32) {
        let mut lease = self.get::<Lease>(name).await;
        let timeline = ordinal + 1;
        let record =
            json!({"primary": format!("{name}-{ordinal}"), "systemIdentifier": "7", "timeline": timeline});
        lease
            .annotations_mut()
            .insert(RECORD.to_owned(), record.to_string());
        let spec = json!({
            "holderIdentity": format!("uid-{ordinal}"), "leaseDurationSeconds": 6, "leaseTransitions": ordinal,
            "renewTime": "2026-01-01T00:00:00.000000Z",
        });
        lease.spec = serde_json::from_value(spec).unwrap();
        self.api()
            .replace(name, &PostParams::default(), &lease)
            .await
            .unwrap();
    }

    /// Makes those pods that are missing, as the StatefulSet has them now, and has the instances go by the present settings.
    pub async fn follow(&self, name: &str, leader: i32) {
        let set = self.get::<StatefulSet>(name).await;
        self.observe(&set).await;
        for ordinal in 0..set.spec.as_ref().unwrap().replicas.unwrap() {
            self.start_pod(&set, ordinal).await;
        }
        self.answer(name, leader).await;
    }

    /// Has an instance say something else.
    pub fn say(&self, instance: &str, change: impl FnOnce(&mut Report)) {
        let mut said = self.played.said.lock().unwrap();
        let found = said.values_mut().find(|report| report.name == instance);
        change(found.expect("the instance runs"));
    }

    /// What instances were told to do since this was last asked.
    pub fn ordered(&self) -> Vec<(String, Order)> {
        std::mem::take(&mut self.played.ordered.lock().unwrap())
    }

    /// Has the instances say that this one leads, and that they go by the settings as they are.
    pub async fn answer(&self, name: &str, leader: i32) {
        let settings = self.get::<ConfigMap>(&format!("{name}-settings")).await;
        let hash = settings_hash(&settings.data.unwrap()[SETTINGS]);
        let replicas = self
            .get::<StatefulSet>(name)
            .await
            .spec
            .unwrap()
            .replicas
            .unwrap();
        let standbys: Vec<Standby> = (0..replicas)
            .filter(|ordinal| *ordinal != leader)
            .map(|ordinal| Standby {
                name: format!("{name}-{ordinal}"),
                state: "streaming".to_owned(),
                flushed: Some(Lsn(1 << 20)),
                ..Standby::default()
            })
            .collect();
        let mut said = self.played.said.lock().unwrap();
        said.clear();
        for ordinal in 0..replicas {
            let leads = ordinal == leader;
            let report = Report {
                name: format!("{name}-{ordinal}"),
                identity: format!("uid-{ordinal}"),
                role: if leads { Role::Primary } else { Role::Replica },
                state: if leads { State::Leading } else { State::Streaming },
                wrote_ms: leads.then_some(10),
                received: Some(Lsn(1 << 20)),
                standbys: if leads { standbys.clone() } else { Vec::new() },
                version: Some("17.6".to_owned()),
                settings: Some(hash.clone()),
                made: leads.then(|| hash.clone()),
                ..Report::default()
            };
            let host = format!(
                "{name}-{ordinal}.{name}-instances.{}.svc.cluster.local",
                self.namespace
            );
            said.insert(host, report);
        }
    }

    /// Has the primary say that something could not be made inside.
    pub fn lack(&self, unmade: &str) {
        let mut said = self.played.said.lock().unwrap();
        for report in said.values_mut().filter(|report| report.role == Role::Primary) {
            report.made = None;
            report.unmade = vec![unmade.to_owned()];
        }
    }
}

/// What the operator is called that has the controller's rights and no others.
const OPERATOR: &str = "database-operator";

/// Gives the operator what the controller and the runtime's Events need.
async fn allow(client: Client) {
    let mut rules = database::rules();
    let events =
        json!({"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]});
    rules.push(serde_json::from_value(events).unwrap());
    let role = json!({"metadata": {"name": OPERATOR}, "rules": rules});
    let group = "rbac.authorization.k8s.io";
    let binding = json!({
        "metadata": {"name": OPERATOR},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": OPERATOR},
        "subjects": [{"apiGroup": group, "kind": "User", "name": OPERATOR}],
    });
    let roles: Api<ClusterRole> = Api::all(client.clone());
    let role = serde_json::from_value(role).unwrap();
    roles.create(&PostParams::default(), &role).await.unwrap();
    let bindings: Api<ClusterRoleBinding> = Api::all(client);
    let binding = serde_json::from_value(binding).unwrap();
    bindings.create(&PostParams::default(), &binding).await.unwrap();
}

/// The definition with v1 alone, and the operator's rights.
async fn install(server: &ApiServer) {
    allow(server.client().await).await;
    let crds: Api<CustomResourceDefinition> = Api::all(server.client().await);
    let crd = Database::crd();
    let name = crd.name_any();
    crds.patch(&name, &PatchParams::apply("test").force(), &Patch::Apply(&crd))
        .await
        .unwrap();
    within(LIMIT, "Database is served", async || {
        let crd = crds.get(&name).await.unwrap();
        let conditions = crd
            .status
            .and_then(|status| status.conditions)
            .unwrap_or_default();
        conditions
            .iter()
            .any(|condition| condition.type_ == "Established" && condition.status == "True")
    })
    .await;
}

/// An operator of the databases in this namespace, without election, that may do what its rules say and nothing else.
async fn start(namespace: &str, played: &Arc<Played>) -> Running {
    let metrics = Arc::new(Metrics::new());
    let runtime_metrics = RuntimeMetrics::register(&metrics);
    let mut config = ApiServer::shared().config().await;
    config.auth_info.impersonate = Some(OPERATOR.to_owned());
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
        agent_image: "registry.example/operator:v1".to_owned(),
        cluster_domain: "cluster.local".to_owned(),
        ..Settings::default()
    };
    let backoff = Backoff {
        base: Duration::from_millis(5),
        max: Duration::from_secs(1),
    };
    let options = ControllerOptions {
        backoff,
        ..ControllerOptions::default()
    };
    database::register(
        &mut manager,
        settings,
        Some(Arc::clone(played) as Arc<dyn Instances>),
        options,
    );
    Running::begin(manager, metrics)
}
