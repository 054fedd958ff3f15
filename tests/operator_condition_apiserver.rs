//! OLM's OperatorCondition at a real API server, by OLM's own definition of it and with no more rights than OLM gives.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "support/apiserver.rs"]
mod apiserver;

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use apiserver::{ApiServer, within};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt};
use roadstead::runtime::cache::Watch;
use roadstead::runtime::client::Clients;
use roadstead::runtime::clock::Clock;
use roadstead::runtime::controller::Controller;
use roadstead::runtime::key::ObjectKey;
use roadstead::runtime::lease::Leadership;
use roadstead::runtime::manager::{Manager, ManagerOptions};
use roadstead::runtime::metrics::RuntimeMetrics;
use roadstead::runtime::reconcile::{Context, Next, Reconciler};
use roadstead::runtime::retry::{ReconcileError, Retry};
use roadstead::runtime::upgradeable::{Gate, Hold, Keeper, NotWritten, Upgradeable};
use roadstead::telemetry::metrics::Metrics;
use serde_json::{Value, json};
use tokio::sync::{OnceCell, oneshot};
use tokio::task::JoinSet;

/// On a busy machine.
const LIMIT: Duration = Duration::from_secs(20);
const NAME: &str = "roadstead.v0.1.0";

fn conditions(client: &Client, namespace: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("operators.coreos.com", "v2", "OperatorCondition");
    Api::namespaced_with(client.clone(), namespace, &ApiResource::from_gvk(&kind))
}

/// A namespace with an OperatorCondition as OLM makes it, into which somebody has written besides.
async fn namespace(name: &str) -> (String, Client) {
    let _ = before_olm().await;
    let server = ApiServer::shared();
    let (namespace, client) = (server.namespace(name).await, server.client().await);
    create(&conditions(&client, &namespace), json!({
        "apiVersion": "operators.coreos.com/v2",
        "kind": "OperatorCondition",
        "metadata": {"name": NAME},
        "spec": {
            "deployments": ["roadstead-operator"],
            "serviceAccounts": ["roadstead-operator"],
            "conditions": [{"type": "Others", "status": "Unknown", "reason": "Quiet", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            "overrides": [{"type": "Upgradeable", "status": "True", "reason": "Now", "message": "people may say so"}],
        },
    }))
    .await;
    (namespace, client)
}

/// What a hold came to before the server knew the kind, as in a cluster without OLM. It does from here on.
async fn before_olm() -> &'static Result<Gate, NotWritten> {
    static FOUND: OnceCell<Result<Gate, NotWritten>> = OnceCell::const_new();
    FOUND
        .get_or_init(async || {
            let server = ApiServer::shared();
            let (upgradeable, _keeper) = keep(server.client().await, "default");
            let found = upgradeable.hold("Failover", "of a", LIMIT).written(LIMIT).await;
            server.install_crds_of("tests/fixtures/olm").await;
            found
        })
        .await
}

/// A leader that keeps the OperatorCondition there.
fn keep(client: Client, namespace: &str) -> (Upgradeable, JoinSet<Infallible>) {
    let upgradeable = Upgradeable::new(Some(ObjectKey::namespaced(namespace, NAME)));
    let mut keeper = JoinSet::new();
    keeper.spawn(Keeper::new(&upgradeable, client, Clock::system()).run());
    (upgradeable, keeper)
}

async fn create<K>(api: &Api<K>, object: Value)
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + serde::Serialize,
{
    let object: K = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap();
}

/// The status and reason of ours.
async fn says(api: &Api<DynamicObject>) -> String {
    let object = api.get(NAME).await.unwrap();
    let conditions = object.data["spec"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let ours = conditions
        .iter()
        .find(|condition| condition["type"] == "Upgradeable");
    ours.map_or_else(String::new, |ours| {
        format!("{} {}", ours["status"], ours["reason"]).replace('"', "")
    })
}

async fn until_it_says(api: &Api<DynamicObject>, expected: &str) {
    within(LIMIT, &format!("the condition says {expected}"), async || {
        says(api).await == expected
    })
    .await;
}

#[tokio::test]
async fn where_the_server_does_not_know_olms_kind_nobody_waits() {
    assert_eq!(before_olm().await, &Ok(Gate::Absent));
}

#[tokio::test]
async fn where_there_is_no_object_nobody_waits() {
    let _ = before_olm().await;
    let server = ApiServer::shared();
    let namespace = server.namespace("absent").await;
    let (upgradeable, _keeper) = keep(server.client().await, &namespace);
    assert_eq!(
        upgradeable.hold("Failover", "of a", LIMIT).written(LIMIT).await,
        Ok(Gate::Absent)
    );
}

#[tokio::test]
async fn the_rights_that_olm_gives_are_enough_and_what_others_wrote_stays() {
    let (namespace, admin) = namespace("rights").await;
    // operatorcondition_controller.go, ensureOperatorConditionRole
    create::<Role>(&Api::namespaced(admin.clone(), &namespace), json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": NAME},
        "rules": [{"apiGroups": ["operators.coreos.com"], "resources": ["operatorconditions"], "resourceNames": [NAME], "verbs": ["get", "update", "patch"]}],
    }))
    .await;
    create::<RoleBinding>(
        &Api::namespaced(admin.clone(), &namespace),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": NAME},
            "subjects": [{"kind": "ServiceAccount", "name": "roadstead-operator", "namespace": namespace}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": NAME},
        }),
    )
    .await;
    let mut config = ApiServer::shared().config().await;
    config.auth_info.impersonate = Some(format!("system:serviceaccount:{namespace}:roadstead-operator"));
    let (upgradeable, _keeper) = keep(Client::try_from(config).unwrap(), &namespace);
    let api = conditions(&admin, &namespace);
    until_it_says(&api, "True NothingUnderWay").await;
    let before = api.get(NAME).await.unwrap();

    // Neither is what the definition allows, or not in this length.
    let hold = upgradeable.hold("two words", &"of ä".repeat(10_000), LIMIT);
    assert_eq!(hold.written(LIMIT).await, Ok(Gate::Shut));
    assert_eq!(says(&api).await, "False OperationUnderWay");
    drop(hold);
    until_it_says(&api, "True NothingUnderWay").await;

    let after = api.get(NAME).await.unwrap();
    for field in ["deployments", "serviceAccounts", "overrides"] {
        assert_eq!(after.data["spec"][field], before.data["spec"][field], "{field}");
    }
    assert_eq!(after.data["spec"]["conditions"][0]["type"], "Others");
    assert_eq!(after.data["spec"]["conditions"].as_array().unwrap().len(), 2);
    assert_eq!(
        after.metadata.generation,
        before.metadata.generation.map(|before| before + 2),
        "two writes"
    );
}

#[tokio::test]
async fn who_was_overtaken_looks_again() {
    let (namespace, client) = namespace("overtaken").await;
    let (upgradeable, _keeper) = keep(client.clone(), &namespace);
    let api = conditions(&client, &namespace);
    let busy = tokio::spawn({
        let api = api.clone();
        async move {
            for count in 0..200 {
                let label = Patch::Merge(json!({"metadata": {"labels": {"count": count.to_string()}}}));
                api.patch(NAME, &PatchParams::default(), &label).await.unwrap();
            }
        }
    });
    let hold = upgradeable.hold("Failover", "of a", 2 * LIMIT);
    assert_eq!(hold.written(2 * LIMIT).await, Ok(Gate::Shut));
    assert_eq!(says(&api).await, "False Failover");
    busy.await.unwrap();
}

/// Does something dangerous for as long as its object says so.
#[derive(Default)]
struct Daring {
    hold: Mutex<Option<Hold>>,
}

#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct DaringError(#[from] NotWritten);

impl ReconcileError for DaringError {
    fn category(&self) -> &'static str {
        "not_held"
    }
    fn retry(&self) -> Retry {
        Retry::BackOff
    }
}

impl Reconciler for Daring {
    type Kind = ConfigMap;
    type Error = DaringError;

    async fn reconcile(&self, object: Arc<ConfigMap>, context: &Context) -> Result<Next, DaringError> {
        let dares = object
            .data
            .as_ref()
            .is_some_and(|data| data.contains_key("dares"));
        let hold = dares.then(|| context.upgradeable().hold("Dare", &object.name_any(), LIMIT * 10));
        if let Some(hold) = &hold {
            hold.written(LIMIT).await?;
        }
        *self.hold.lock().unwrap() = hold;
        Ok(Next::OnChange)
    }
}

#[tokio::test]
async fn a_reconciler_holds_updates_back_and_an_operator_that_stops_leaves_what_the_next_one_ends() {
    let (namespace, client) = namespace("managed").await;
    let api = conditions(&client, &namespace);
    let objects: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
    create(&objects, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "it", "labels": {"daring": "yes"}}})).await;

    let (stop, operator) = operate(&namespace).await;
    until_it_says(&api, "True NothingUnderWay").await;
    let dare = Patch::Merge(json!({"data": {"dares": "yes"}}));
    objects.patch("it", &PatchParams::default(), &dare).await.unwrap();
    until_it_says(&api, "False Dare").await;
    stop.send(()).unwrap();
    operator.await.unwrap();
    assert_eq!(says(&api).await, "False Dare", "it is still under way");

    let before = api.get(NAME).await.unwrap().metadata.generation;
    let (stop, operator) = operate(&namespace).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(
        api.get(NAME).await.unwrap().metadata.generation,
        before,
        "taken up without a gap"
    );
    let rest = Patch::Merge(json!({"data": {"dares": null}}));
    objects.patch("it", &PatchParams::default(), &rest).await.unwrap();
    until_it_says(&api, "True NothingUnderWay").await;
    stop.send(()).unwrap();
    operator.await.unwrap();
}

/// An operator of that namespace, until it is told to stop.
async fn operate(namespace: &str) -> (oneshot::Sender<()>, tokio::task::JoinHandle<()>) {
    let metrics = Arc::new(Metrics::new());
    let runtime_metrics = RuntimeMetrics::register(&metrics);
    let config = ApiServer::shared().config().await;
    let clients = Clients::connect(config, Leadership::unneeded(), LIMIT, &runtime_metrics).unwrap();
    let options = ManagerOptions {
        namespaces: vec![namespace.to_owned()],
        operator_condition: Some(ObjectKey::namespaced(namespace, NAME)),
        ..ManagerOptions::new("daring", "test")
    };
    let mut manager = Manager::new(clients, options, metrics, runtime_metrics);
    let objects = manager.cache::<ConfigMap>(Watch::labelled("daring=yes"));
    manager.add(Controller::new("daring", &objects, Daring::default()));
    let (stop, stopped) = oneshot::channel();
    let running = tokio::spawn(async move {
        let told = async { drop(stopped.await) };
        manager.run(told).await.unwrap();
    });
    (stop, running)
}
