//! A kind for tests, and an operator of it: for each name in its spec it makes a ConfigMap.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ObjectMeta, Patch, PatchParams};
use kube::{CustomResource, Resource, ResourceExt};
use roadstead::runtime::apply::ApplyError;
use roadstead::runtime::backoff::Backoff;
use roadstead::runtime::cache::{Cache, Watch};
use roadstead::runtime::client::Clients;
use roadstead::runtime::conditions::{Conditions, State};
use roadstead::runtime::controller::{Controller, ControllerOptions};
use roadstead::runtime::finalizers::{self, FinalizerState};
use roadstead::runtime::lease::Leadership;
use roadstead::runtime::manager::{Manager, ManagerError, ManagerOptions};
use roadstead::runtime::metrics::RuntimeMetrics;
use roadstead::runtime::predicates;
use roadstead::runtime::reconcile::{Context, Next, Reconciler};
use roadstead::runtime::retry::{ReconcileError, Retry};
use roadstead::telemetry::metrics::Metrics;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::oneshot;

use super::apiserver::{ApiServer, within};

pub const FINALIZER: &str = "test.roadstead.dev/cleanup";
pub const LABEL: &str = "test.roadstead.dev/made";

#[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "test.roadstead.dev",
    version = "v1",
    kind = "Thing",
    namespaced,
    status = "ThingStatus",
    derive = "Default"
)]
pub struct ThingSpec {
    /// One ConfigMap each.
    pub names: Vec<String>,
    /// What is in them.
    #[serde(default)]
    pub data: BTreeMap<String, String>,
    /// What the reconciler is to do wrong: `panic`, `hang` or `fail`.
    #[serde(default)]
    pub fault: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
pub struct ThingStatus {
    #[serde(default)]
    pub made: Vec<String>,
    #[serde(default)]
    pub conditions: Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition>,
}

#[derive(Debug, thiserror::Error)]
pub enum ThingError {
    #[error(transparent)]
    Apply(#[from] ApplyError),
    #[error("finalizer: {0}")]
    Finalizer(#[from] kube::Error),
    #[error("told to fail")]
    Told,
}

impl ReconcileError for ThingError {
    fn category(&self) -> &'static str {
        match self {
            Self::Apply(error) => error.category(),
            Self::Finalizer(_) => "finalizer",
            Self::Told => "told",
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::Apply(error) => error.retry(),
            Self::Finalizer(_) => Retry::Again,
            Self::Told => Retry::BackOff,
        }
    }
}

pub struct Things {
    children: Cache<ConfigMap>,
    reconciles: Arc<AtomicUsize>,
}

impl Reconciler for Things {
    type Kind = Thing;
    type Error = ThingError;

    async fn reconcile(&self, thing: Arc<Thing>, context: &Context) -> Result<Next, ThingError> {
        self.reconciles.fetch_add(1, Ordering::SeqCst);
        match thing.spec.fault.as_deref() {
            Some("panic") => panic!("told to panic"),
            Some("hang") => std::future::pending().await,
            Some("fail") => return Err(ThingError::Told),
            _ => {}
        }
        let owned = self.children.owned_by(&thing.uid().unwrap_or_default());
        match finalizers::state(thing.as_ref(), FINALIZER) {
            FinalizerState::Missing => {
                finalizers::add(context.client(), thing.as_ref(), FINALIZER).await?;
                return Ok(Next::OnChange);
            }
            FinalizerState::Deleting => {
                if context.apply().prune(thing.as_ref(), &owned, [""; 0]).await? == 0 && owned.is_empty() {
                    finalizers::remove(context.client(), thing.as_ref(), FINALIZER).await?;
                }
                return Ok(Next::OnChange);
            }
            FinalizerState::Released => return Ok(Next::OnChange),
            FinalizerState::Held => {}
        }
        for name in &thing.spec.names {
            let live = owned.iter().find(|child| child.name_any() == *name);
            context.apply().apply(child(&thing, name), live).await?;
        }
        context
            .apply()
            .prune(thing.as_ref(), &owned, &thing.spec.names)
            .await?;
        let before = thing.status.clone().unwrap_or_default();
        let mut conditions = Conditions::new(&before.conditions, thing.metadata.generation, context.now());
        conditions.set(
            "Made",
            State::True,
            "Made",
            format!("{} made", thing.spec.names.len()),
        );
        conditions.ready_from(&["Made"]);
        let status = ThingStatus {
            made: thing.spec.names.clone(),
            conditions: conditions.finish(),
        };
        context.apply().status(thing.as_ref(), &status).await?;
        Ok(Next::OnChange)
    }
}

fn child(thing: &Thing, name: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: thing.namespace(),
            labels: Some([(LABEL.to_owned(), "yes".to_owned())].into()),
            owner_references: Some(thing.controller_owner_ref(&()).into_iter().collect()),
            ..ObjectMeta::default()
        },
        data: Some(thing.spec.data.clone()),
        ..ConfigMap::default()
    }
}

/// Has the server serve the kind, with a schema that lets everything through: so that there can be malformed objects.
pub async fn install(server: &ApiServer) {
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let crd: CustomResourceDefinition = serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.test.roadstead.dev"},
        "spec": {
            "group": "test.roadstead.dev", "scope": "Namespaced",
            "names": {"kind": "Thing", "plural": "things", "singular": "thing", "listKind": "ThingList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything, "status": anything}}},
            }],
        },
    }))
    .unwrap();
    let crds: Api<CustomResourceDefinition> = Api::all(server.client().await);
    crds.patch(
        "things.test.roadstead.dev",
        &PatchParams::apply("test").force(),
        &Patch::Apply(&crd),
    )
    .await
    .unwrap();
    let things: Api<Thing> = Api::all(server.client().await);
    within(Duration::from_secs(30), "things are served", async || {
        things.list(&Default::default()).await.is_ok()
    })
    .await;
}

/// An operator of things, running in this process.
pub struct Operator {
    metrics: Arc<Metrics>,
    reconciles: Arc<AtomicUsize>,
    stop: oneshot::Sender<()>,
    running: tokio::task::JoinHandle<Result<(), ManagerError>>,
    pub things: Cache<Thing>,
}

impl Operator {
    /// Starts one for this namespace, without election.
    pub async fn start(server: &ApiServer, namespace: &str) -> Self {
        let metrics = Arc::new(Metrics::new());
        let runtime_metrics = RuntimeMetrics::register(&metrics);
        let limit = Duration::from_secs(10);
        let clients = Clients::connect(
            server.config().await,
            Leadership::unneeded(),
            limit,
            &runtime_metrics,
        )
        .unwrap();
        let options = ManagerOptions {
            namespaces: vec![namespace.to_owned()],
            ..ManagerOptions::new("roadstead", "test")
        };
        let mut manager = Manager::new(clients, options, Arc::clone(&metrics), runtime_metrics);
        let things = manager.cache::<Thing>(Watch::all());
        let children = manager.cache::<ConfigMap>(Watch::labelled(format!("{LABEL}=yes")));
        let reconciles = Arc::new(AtomicUsize::new(0));
        let reconciler = Things {
            children: children.clone(),
            reconciles: Arc::clone(&reconciles),
        };
        let worth = predicates::generation()
            .or(predicates::finalizers())
            .or(predicates::annotations());
        let controller = Controller::new("thing", &things, reconciler)
            .when(worth)
            .owns(&children);
        manager.add(controller.options(ControllerOptions {
            timeout: Duration::from_secs(1),
            backoff: Backoff {
                base: Duration::from_millis(5),
                max: Duration::from_millis(500),
            },
            ..ControllerOptions::default()
        }));
        let (stop, stopped) = oneshot::channel();
        let running = tokio::spawn(manager.run(async {
            let _ = stopped.await;
        }));
        Self {
            metrics,
            reconciles,
            stop,
            running,
            things,
        }
    }

    /// How often it reconciled.
    pub fn reconciles(&self) -> usize {
        self.reconciles.load(Ordering::SeqCst)
    }

    /// How many requests it sent that could have changed something.
    pub fn writes(&self) -> u64 {
        let text = self.metrics.encode().unwrap();
        let requests = text
            .lines()
            .filter(|line| line.starts_with("rest_client_requests_total{"));
        let writes = requests.filter(|line| !line.contains("method=\"GET\""));
        writes
            .filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok())
            .sum()
    }

    /// The value of a metric, given its name and labels as exposed.
    pub fn metric(&self, name: &str) -> f64 {
        let text = self.metrics.encode().unwrap();
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.map_or(0.0, |value| value.parse().unwrap())
    }

    /// Has it end in order.
    pub async fn stop(self) {
        self.stop.send(()).unwrap();
        self.running.await.unwrap().unwrap();
    }
}
