//! A namespace of a real API server with the sample operator in it, under the rights that its manifests give it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::events::v1::Event;
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, NamespaceResourceScope};
use roadstead::olm::Manifests;
use roadstead::runtime::backoff::Backoff;
use roadstead::runtime::client::Clients;
use roadstead::runtime::controller::ControllerOptions;
use roadstead::runtime::key::Object;
use roadstead::runtime::lease::{Leadership, LeaseConfig};
use roadstead::runtime::manager::{Manager, ManagerOptions};
use roadstead::runtime::metrics::RuntimeMetrics;
use roadstead::telemetry::metrics::Metrics;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::apiserver::{ApiServer, within};
use super::operator::api::{Greeting, Person, PersonSpec};
use super::operator::register;
use super::running::Running;

/// How long anything may take.
pub const LIMIT: Duration = Duration::from_secs(30);
/// Namespace and name of the service account, the Lease and the roles in the manifests.
const NAME: &str = "roadstead-greeter";

/// A namespace with an operator.
pub struct World {
    pub operator: Running,
    pub client: Client,
    pub namespace: String,
}

impl World {
    pub async fn new(namespace: &str) -> Self {
        Self::with(namespace, false).await
    }

    /// One whose operator works only while it holds the Lease. Of these there can be one at a time.
    pub async fn elected(namespace: &str) -> Self {
        Self::with(namespace, true).await
    }

    async fn with(namespace: &str, election: bool) -> Self {
        static INSTALLED: OnceCell<()> = OnceCell::const_new();
        let server = ApiServer::shared();
        INSTALLED.get_or_init(|| install(server)).await;
        let namespace = server.namespace(namespace).await;
        Self {
            operator: start(&namespace, election).await,
            client: server.client().await,
            namespace,
        }
    }

    pub async fn restart(&mut self) {
        self.operator.stop().await;
        self.operator = start(&self.namespace, false).await;
    }

    pub fn api<K: Object<Scope = NamespaceResourceScope>>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub async fn try_create<K: Object<Scope = NamespaceResourceScope>>(
        &self,
        name: &str,
        spec: Value,
    ) -> kube::Result<()> {
        let resource = ApiResource::erase::<K>(&());
        // Through the kind's own type a missing field would not even be sent.
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &self.namespace, &resource);
        let object = DynamicObject::new(name, &resource).data(json!({"spec": spec}));
        api.create(&PostParams::default(), &object).await.map(drop)
    }

    pub async fn person(&self, name: &str, first_name: &str, surname: &str) {
        let spec = json!({"firstName": first_name, "surname": surname});
        self.try_create::<Person>(name, spec).await.unwrap();
    }

    pub async fn greeting(&self, name: &str, spec: Value) {
        self.try_create::<Greeting>(name, spec).await.unwrap();
    }

    /// Jane and John Doe, the Greeting `does` to their family, and nothing left to do.
    pub async fn does(&self) {
        self.person("johnd", "John", "Doe").await;
        self.person("janed", "Jane", "Doe").await;
        self.greeting("does", json!({"surname": "Doe"})).await;
        self.until_greeted("does", "Hello to the Doe family: Jane, John", &["janed", "johnd"])
            .await;
        self.until_quiet().await;
    }

    pub async fn patch<K: Object<Scope = NamespaceResourceScope>>(&self, name: &str, patch: Value) {
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        self.api::<K>().patch(name, &params, &patch).await.unwrap();
    }

    pub async fn delete<K: Object<Scope = NamespaceResourceScope>>(&self, name: &str) {
        self.api::<K>()
            .delete(name, &DeleteParams::background())
            .await
            .unwrap();
    }

    pub async fn find<K: Object<Scope = NamespaceResourceScope>>(&self, name: &str) -> Option<K> {
        self.api().get_opt(name).await.unwrap()
    }

    pub async fn until_gone<K: Object<Scope = NamespaceResourceScope>>(&self, name: &str) {
        within(LIMIT, &format!("{name} is gone"), async || {
            self.find::<K>(name).await.is_none()
        })
        .await;
    }

    pub async fn until_greeted(&self, name: &str, message: &str, people: &[&str]) {
        within(LIMIT, &format!("{name} says {message:?}"), async || {
            let status = self
                .find::<Greeting>(name)
                .await
                .unwrap()
                .status
                .unwrap_or_default();
            status.message == message && status.people == people
        })
        .await;
    }

    /// The finalizers of a person.
    pub async fn finalizers(&self, person: &str) -> Vec<String> {
        let person = self.find::<Person>(person).await.unwrap();
        person.metadata.finalizers.unwrap_or_default()
    }

    pub async fn until_finalizers(&self, person: &str, finalizers: &[&str]) {
        within(LIMIT, &format!("{person} has {finalizers:?}"), async || {
            self.finalizers(person).await == finalizers
        })
        .await;
    }

    pub async fn until_event(&self, about: &str, type_: &str, reason: &str, note: &str) {
        within(LIMIT, &format!("an Event {reason} about {about}"), async || {
            let events = self.api::<Event>().list(&ListParams::default()).await.unwrap();
            events.iter().any(|event| {
                let regarding = event.regarding.as_ref().and_then(|object| object.name.as_deref());
                let said = [&event.type_, &event.reason, &event.note]
                    .map(|text| text.as_deref().unwrap_or_default());
                regarding == Some(about) && said == [type_, reason, note]
            })
        })
        .await;
    }

    /// Waits until nothing is reconciled any more.
    pub async fn until_quiet(&self) {
        let mut seen = u64::MAX;
        within(LIMIT, "everything is quiet", async || {
            let before = std::mem::replace(&mut seen, self.operator.reconciles());
            tokio::time::sleep(Duration::from_millis(400)).await;
            before == seen && before == self.operator.reconciles()
        })
        .await;
    }
}

/// The kinds, the roles of the manifests, and a stranger.
async fn install(server: &ApiServer) {
    server.install_crds_of("examples/greeter/crds").await;
    let client = server.client().await;
    let namespace = Namespace {
        metadata: ObjectMeta {
            name: Some(NAME.to_owned()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces
        .create(&PostParams::default(), &namespace)
        .await
        .unwrap();
    let manifests = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/greeter/manifests");
    for manifest in Manifests::read(&manifests).unwrap().iter() {
        let object: DynamicObject = serde_json::from_value(manifest.body.clone()).unwrap();
        let types = object.types.clone().unwrap();
        if !types.api_version.starts_with("rbac.") {
            continue;
        }
        let resource = ApiResource::from_gvk(&types.try_into().unwrap());
        let api: Api<DynamicObject> = match &object.metadata.namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        api.create(&PostParams::default(), &object).await.unwrap();
    }
    // Somebody of the same surname in a namespace of its own, whom no Greeting may greet or hold.
    let (first_name, surname) = ("Stranger".to_owned(), "Doe".to_owned());
    let stranger = Person::new("stranger", PersonSpec { first_name, surname });
    let people: Api<Person> = Api::namespaced(client, NAME);
    people.create(&PostParams::default(), &stranger).await.unwrap();
}

/// The sample operator, running in this process.
pub async fn start(namespace: &str, election: bool) -> Running {
    let metrics = Arc::new(Metrics::new());
    let runtime_metrics = RuntimeMetrics::register(&metrics);
    let mut config = ApiServer::shared().config().await;
    config.auth_info.impersonate = Some(format!("system:serviceaccount:{NAME}:{NAME}"));
    let leadership = if election {
        Leadership::standby()
    } else {
        Leadership::unneeded()
    };
    let clients = Clients::connect(config, leadership, Duration::from_secs(10), &runtime_metrics).unwrap();
    let options = ManagerOptions {
        // Not all of them, for other tests have theirs; the second is where the stranger lives.
        namespaces: vec![namespace.to_owned(), NAME.to_owned()],
        lease: election.then(|| LeaseConfig::new(NAME, NAME, namespace)),
        ..ManagerOptions::new(NAME, "test")
    };
    let mut manager = Manager::new(clients, options, Arc::clone(&metrics), runtime_metrics);
    let backoff = Backoff {
        base: Duration::from_millis(5),
        max: Duration::from_secs(1),
    };
    register(
        &mut manager,
        ControllerOptions {
            backoff,
            ..ControllerOptions::default()
        },
    );
    Running::begin(manager, metrics)
}
