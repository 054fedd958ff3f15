//! The cluster as the scenarios see it, and what they all do with it.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::catalog;
use crate::memory::Memory;
use crate::objects::{CRD, DATABASE, Kind, MY_PROXY, MY_PROXY_V1ALPHA1, NAMESPACE, names};
use crate::olm;
use crate::outcome::{Failure, Outcome, ensure};
use crate::wait::{Seen, until};

/// Where the operator lives under OLM.
pub const OPERATORS: &str = "operators";
/// Label of what the scenarios make, so that the next run finds the namespaces that an interrupted one left, and `make demo` the rest.
pub const OURS: &str = "roadstead.dev/e2e";
/// How often what is measured is done, and how many faults there are, unless the environment says otherwise; and how long a scenario may take then.
const ROUNDS: usize = 3;
const FAULTS: usize = 10;
const PATIENCE: Duration = Duration::from_secs(300);
/// The label on what `make demo` makes.
pub const DEMO: &str = "roadstead.dev/demo=true";

/// What `hack/e2e` made and where it is.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Registry and path before an image's name, such as `localhost:5000`.
    pub registry: String,
    /// What the tags of the operator's images end in: a hash of what they were built from.
    pub content: String,
    /// The nginx image of the operands.
    pub nginx: String,
    /// The PostgreSQL image of the operands, and its major version.
    pub postgres: String,
    pub major: String,
    /// The image of the same major version to which they are changed, mostly of a later minor one.
    pub postgres_updated: String,
    /// The image of major version 17.
    pub postgres_17: String,
    /// The sample operator's image.
    pub greeter: String,
    /// The checkout, for config/, examples/ and hack/demo.yaml.
    pub source: PathBuf,
    /// A folder for files of this run.
    pub scratch: PathBuf,
    /// How often what is measured of databases is done.
    pub rounds: usize,
    /// How many random faults a database goes through.
    pub faults: usize,
    /// What those are chosen by.
    pub seed: u64,
    /// How many scenarios run at the same time, where they leave each other alone.
    pub width: usize,
}

impl Settings {
    /// The settings that `hack/e2e` passes on; `None` when it was not it that started this program.
    pub fn from_environment() -> Outcome<Option<Self>> {
        if std::env::var_os("E2E_REGISTRY").is_none() {
            return Ok(None);
        }
        let variable = |name: &str| {
            std::env::var(name).map_err(|_| Failure::new(format!("{name} is not set; run hack/e2e")))
        };
        let number = |name: &str, default: u64| match std::env::var(name) {
            Ok(text) => {
                let number = text.parse();
                number.map_err(|_| Failure::new(format!("{name} is {text:?}, which is no number")))
            }
            Err(_) => Ok(default),
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        Ok(Some(Self {
            registry: variable("E2E_REGISTRY")?,
            content: variable("E2E_CONTENT")?,
            nginx: variable("E2E_NGINX_IMAGE")?,
            postgres: variable("E2E_POSTGRES_IMAGE")?,
            major: variable("E2E_POSTGRES_MAJOR")?,
            postgres_updated: variable("E2E_POSTGRES_UPDATED_IMAGE")?,
            postgres_17: variable("E2E_POSTGRES_17_IMAGE")?,
            greeter: variable("E2E_GREETER_IMAGE")?,
            source: variable("E2E_SOURCE")?.into(),
            scratch: variable("E2E_SCRATCH")?.into(),
            rounds: usize::try_from(number("E2E_ROUNDS", ROUNDS as u64)?)?,
            faults: usize::try_from(number("E2E_FAULTS", FAULTS as u64)?)?,
            seed: number("E2E_SEED", now.as_secs())?,
            width: usize::try_from(number("E2E_WIDTH", 1)?)?.max(1),
        }))
    }

    /// No scenario may take longer; one that hangs must not hide the others.
    pub fn patience(&self) -> Duration {
        let more = (self.rounds.div_ceil(ROUNDS)).max(self.faults.div_ceil(FAULTS));
        PATIENCE * u32::try_from(more.max(1)).unwrap_or(u32::MAX)
    }
}

/// A client, the settings, and what is measured over the whole run.
pub struct World {
    pub client: kube::Client,
    pub settings: Settings,
    pub memory: Arc<Memory>,
    /// Several scenarios use it at this moment.
    shared: AtomicBool,
}

tokio::task_local! {
    /// Of the scenario that runs in this task.
    static OWN: Arc<Own>;
}

/// What a scenario has told and made.
#[derive(Default)]
pub struct Own {
    notes: Mutex<Vec<String>>,
    namespaces: Mutex<Vec<String>>,
}

impl Own {
    /// Runs something whose notes and namespaces are these.
    pub fn of<F: Future>(self: Arc<Self>, what: F) -> impl Future<Output = F::Output> {
        OWN.scope(self, what)
    }

    pub fn notes(&self) -> Vec<String> {
        lock(&self.notes).clone()
    }

    pub fn namespaces(&self) -> Vec<String> {
        lock(&self.namespaces).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    pub async fn new(settings: Settings) -> Outcome<Arc<Self>> {
        let config = kube::Config::infer().await?;
        let client = kube::Client::try_from(config)?;
        client.apiserver_version().await?;
        let memory = Memory::watch(client.clone());
        let world = Arc::new(Self {
            client,
            settings,
            memory,
            shared: AtomicBool::new(false),
        });
        world.prepare().await?;
        Ok(world)
    }

    /// The operator's namespace enforces the restricted standard for the whole run, so that every scenario shows
    /// that the operator, its catalog and OLM's Jobs get by with it.
    async fn prepare(&self) -> Outcome {
        self.make_namespace(OPERATORS).await?;
        // What an earlier run installed came from images that have been built again since
        olm::clean(self).await?;
        catalog::remove(self).await
    }

    /// Keeps a figure to be printed below the scenario's line.
    pub fn note(&self, text: impl Into<String>) {
        let text = text.into();
        // What begins tasks of its own tells nothing from there
        let _ = OWN.try_with(|own| lock(&own.notes).push(text));
    }

    /// A note that `make soak` collects: a name in words and dots, a value, and its unit.
    pub fn figure(&self, name: &str, value: f64, unit: &str) {
        self.note(format!("figure {name} {value:.1} {unit}"));
    }

    /// A figure for each time that something was done.
    pub fn seconds(&self, name: &str, each: &[Duration]) {
        for time in each {
            self.note(format!("figure {name} {:.2} s", time.as_secs_f64()));
        }
    }

    /// Whether several scenarios use what is installed, so that nobody may take it away.
    pub fn is_shared(&self) -> bool {
        self.shared.load(Ordering::Relaxed)
    }

    pub fn share(&self, shared: bool) {
        self.shared.store(shared, Ordering::Relaxed);
    }

    /// The operator's image of one version.
    pub fn operator_image(&self, version: &str) -> String {
        self.image(
            "roadstead-operator",
            &format!("v{version}-{}", self.settings.content),
        )
    }

    /// An image in the cluster's registry.
    pub fn image(&self, name: &str, tag: &str) -> String {
        format!("{}/{name}:{tag}", self.settings.registry)
    }

    // ---- objects ----------------------------------------------------------------------------------------------

    /// The objects of a kind in a namespace (ignored for a kind without).
    pub fn api(&self, kind: Kind, namespace: &str) -> Api<DynamicObject> {
        if kind.namespaced {
            Api::namespaced_with(self.client.clone(), namespace, &kind.resource())
        } else {
            Api::all_with(self.client.clone(), &kind.resource())
        }
    }

    /// The objects of a kind in all namespaces.
    pub fn everywhere(&self, kind: Kind) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &kind.resource())
    }

    pub async fn get(&self, kind: Kind, namespace: &str, name: &str) -> Outcome<DynamicObject> {
        self.find(kind, namespace, name)
            .await?
            .ok_or_else(|| Failure::new(format!("there is no {} {namespace}/{name}", kind.kind)))
    }

    pub async fn find(&self, kind: Kind, namespace: &str, name: &str) -> Outcome<Option<DynamicObject>> {
        match self.api(kind, namespace).get(name).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The objects of a kind with a label (`key=value`, or empty for all); none where the kind is not served.
    pub async fn list(&self, kind: Kind, namespace: &str, label: &str) -> Outcome<Vec<DynamicObject>> {
        listed(&self.api(kind, namespace), label).await
    }

    /// As [`World::list`], in all namespaces.
    pub async fn list_everywhere(&self, kind: Kind, label: &str) -> Outcome<Vec<DynamicObject>> {
        listed(&self.everywhere(kind), label).await
    }

    /// The Events about an object, oldest first, as (type, reason, note).
    pub async fn events(
        &self,
        namespace: &str,
        kind: &str,
        name: &str,
    ) -> Outcome<Vec<(String, String, String)>> {
        let api: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let about = format!("involvedObject.kind={kind},involvedObject.name={name}");
        let mut events = api.list(&ListParams::default().fields(&about)).await?.items;
        events.sort_by_key(|it| {
            it.event_time
                .as_ref()
                .map(|time| time.0)
                .or(it.first_timestamp.as_ref().map(|time| time.0))
        });
        let field = |text: Option<String>| text.unwrap_or_default();
        Ok(events
            .into_iter()
            .map(|it| (field(it.type_), field(it.reason), field(it.message)))
            .collect())
    }

    /// Server-side apply of manifests, as a user with `kubectl apply --server-side`.
    pub async fn apply(&self, namespace: &str, manifest: Value) -> Outcome<DynamicObject> {
        let kind = Kind::of(&manifest).ok_or_else(|| {
            Failure::new(format!(
                "a manifest of a kind that the tests do not know: {manifest}"
            ))
        })?;
        let name = manifest
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .ok_or_else(|| Failure::new(format!("a manifest without a name: {manifest}")))?;
        let params = PatchParams::apply("e2e").force();
        Ok(self
            .api(kind, namespace)
            .patch(name, &params, &Patch::Apply(&manifest))
            .await?)
    }

    /// A merge patch, as a user with `kubectl patch --type=merge`.
    pub async fn merge(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
        patch: Value,
    ) -> Outcome<DynamicObject> {
        Ok(self
            .api(kind, namespace)
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await?)
    }

    /// Asks for the deletion of an object that may not exist; does not wait until it is gone.
    pub async fn delete(&self, kind: Kind, namespace: &str, name: &str) -> Outcome {
        match self
            .api(kind, namespace)
            .delete(name, &DeleteParams::background())
            .await
        {
            Ok(_) => Ok(()),
            Err(error) if is_absent(&error) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    pub async fn wait_gone(&self, kind: Kind, namespace: &str, name: &str, limit: Duration) -> Outcome {
        until(
            format!("{} {namespace}/{name} to be gone", kind.kind),
            limit,
            || async {
                Ok(match self.find(kind, namespace, name).await? {
                    None => Seen::There(()),
                    Some(object) => Seen::NotYet(format!(
                        "it is there, deletionTimestamp {:?}, finalizers {:?}",
                        object.metadata.deletion_timestamp, object.metadata.finalizers
                    )),
                })
            },
        )
        .await
    }

    // ---- namespaces -------------------------------------------------------------------------------------------

    async fn make_namespace(&self, name: &str) -> Outcome {
        let labels = json!({"pod-security.kubernetes.io/enforce": "restricted"});
        self.apply(
            "",
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}),
        )
        .await?;
        Ok(())
    }

    /// The name of a scenario's own namespace.
    pub fn namespace_of(scenario: &str) -> String {
        format!("roadstead-e2e-{scenario}")
    }

    /// A namespace of the scenario's own, which enforces the restricted standard. Removed by [`World::clean`].
    pub async fn namespace(&self, name: &str) -> Outcome<String> {
        let name = Self::namespace_of(name);
        self.wait_gone_if_terminating(&name).await?;
        self.make_namespace(&name).await?;
        self.claim(&name).await?;
        let _ = OWN.try_with(|own| lock(&own.namespaces).push(name.clone()));
        Ok(name)
    }

    /// Marks a namespace that something else made for a scenario, so that it goes with the others when the scenario fails.
    pub async fn claim(&self, name: &str) -> Outcome {
        let mark = json!({"metadata": {"labels": {OURS: "true"}}});
        self.merge(NAMESPACE, "", name, mark).await.map(drop)
    }

    /// For a namespace that an earlier run may have left, and that is being removed.
    pub async fn wait_gone_if_terminating(&self, name: &str) -> Outcome {
        match self.find(NAMESPACE, "", name).await? {
            Some(namespace) if namespace.metadata.deletion_timestamp.is_some() => {
                self.wait_gone(NAMESPACE, "", name, Duration::from_secs(60)).await
            }
            _ => Ok(()),
        }
    }

    /// Removes the namespaces of earlier scenarios, and their MyProxies and Databases even when no operator is there to clean up.
    pub async fn remove_namespaces(&self) -> Outcome {
        let mut namespaces = names(&self.list(NAMESPACE, "", &format!("{OURS}=true")).await?);
        // `make demo` leaves its own on the same cluster
        namespaces.extend(names(&self.list(NAMESPACE, "", DEMO).await?));
        self.remove(&namespaces).await
    }

    /// Removes these namespaces, as [`World::remove_namespaces`] does.
    pub async fn remove(&self, namespaces: &[String]) -> Outcome {
        for namespace in namespaces {
            // Without an operator only the version is served in which objects are stored
            for kind in [MY_PROXY, MY_PROXY_V1ALPHA1, DATABASE] {
                self.remove_operands(kind, namespace).await?;
            }
            self.delete(NAMESPACE, "", namespace).await?;
        }
        Ok(())
    }

    async fn remove_operands(&self, kind: Kind, namespace: &str) -> Outcome {
        let operands = match self.list(kind, namespace, "").await {
            Ok(operands) => operands,
            // A scenario that failed may have left a conversion that leads nowhere; what is deleted need not be whole
            Err(_) => {
                let nobody = json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}});
                let definition = format!("{}.{}", kind.plural, kind.group);
                self.merge(CRD, "", &definition, nobody).await?;
                until("the API server to have taken that up", olm::SOON, || async {
                    self.list(kind, namespace, "").await.map(Seen::There)
                })
                .await?
            }
        };
        for operand in names(&operands) {
            self.delete(kind, namespace, &operand).await?;
            let finalizers = json!({"metadata": {"finalizers": null}});
            // It may have gone between the two
            let _ = self.merge(kind, namespace, &operand, finalizers).await;
        }
        Ok(())
    }

    // ---- programs ---------------------------------------------------------------------------------------------

    /// Runs a program with a deadline and returns its standard output; fails with its standard error.
    pub async fn run(&self, program: &str, arguments: &[&str]) -> Outcome<String> {
        self.run_within(Duration::from_secs(120), program, arguments)
            .await
    }

    /// As [`World::run`], with another deadline.
    pub async fn run_within(&self, limit: Duration, program: &str, arguments: &[&str]) -> Outcome<String> {
        let command = Command::new(program)
            .args(arguments)
            .current_dir(&self.settings.source)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let shown = format!("{program} {}", arguments.join(" "));
        let output = tokio::time::timeout(limit, command)
            .await
            .map_err(|_| Failure::new(format!("`{shown}` was not done after {} s", limit.as_secs())))?
            .map_err(|error| Failure::new(format!("`{shown}` cannot be run: {error}")))?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "`{shown}` failed: {}", errors.trim());
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// `kubectl` with the arguments in one string, as they stand in README.md.
    pub async fn kubectl(&self, arguments: &str) -> Outcome<String> {
        self.run("kubectl", &arguments.split_whitespace().collect::<Vec<_>>())
            .await
    }
}

/// No such object, or no such kind: the latter comes without a reason.
fn is_absent(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

async fn listed(api: &Api<DynamicObject>, label: &str) -> Outcome<Vec<DynamicObject>> {
    match api.list(&ListParams::default().labels(label)).await {
        Ok(list) => Ok(list.items),
        Err(error) if is_absent(&error) => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}
