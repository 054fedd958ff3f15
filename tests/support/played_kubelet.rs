//! Plays the scheduler and the kubelet for the pods in one namespace of a real API server. What comes of a pod is as in the simulated
//! cluster: `pretence.rs` has the names that decide it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::{StreamExt as _, future};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::runtime::reflector::{self, ObjectRef, Store, reflector};
use kube::runtime::{WatchStreamExt as _, watcher};
use roadstead::controllers::my_proxy::desired::unit::FILE;
use roadstead::runtime::key::Object;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::played_agents::{PlayedAgents, mounted, ready_at};
use super::pretence::{self, Fate};

/// How often it looks.
const GLANCE: Duration = Duration::from_millis(50);
/// From a pod's creation, or from its deletion, to the next thing that happens to it.
const STEP: Duration = Duration::from_millis(200);

/// A node for one namespace; it is gone when this is dropped.
pub struct PlayedKubelet {
    mended: Arc<AtomicBool>,
    running: JoinSet<()>,
}

impl PlayedKubelet {
    /// With these agents in the pods.
    pub fn start(pods: Api<Pod>, config_maps: Api<ConfigMap>, agents: Arc<PlayedAgents>) -> Self {
        let mended = Arc::<AtomicBool>::default();
        let mut running = JoinSet::new();
        let node = Node {
            present: follow(pods.clone(), &mut running),
            config_maps: follow(config_maps, &mut running),
            pods,
            agents,
            mended: Arc::clone(&mended),
            known: BTreeMap::new(),
        };
        running.spawn(node.run());
        Self { mended, running }
    }

    /// Has what was missing be there from now on: every image can be pulled, every Secret exists.
    pub fn mend(&self) {
        self.mended.store(true, Ordering::Relaxed);
    }

    /// Panics if it did: otherwise nobody would notice.
    pub fn is_well(&mut self) {
        assert!(
            self.running.try_join_next().is_none(),
            "the played kubelet has panicked"
        );
    }
}

/// Keeps what there is of a kind.
fn follow<K: Object>(api: Api<K>, running: &mut JoinSet<()>) -> Store<K> {
    let (store, writer) = reflector::store();
    let changes = reflector(writer, watcher(api, watcher::Config::default()).default_backoff());
    running.spawn(changes.for_each(|_| future::ready(())));
    store
}

struct Node {
    pods: Api<Pod>,
    present: Store<Pod>,
    config_maps: Store<ConfigMap>,
    agents: Arc<PlayedAgents>,
    mended: Arc<AtomicBool>,
    /// By uid.
    known: BTreeMap<String, Known>,
}

struct Known {
    name: String,
    /// When it is looked at next.
    due: Instant,
    /// Whether it was told to end.
    ending: bool,
}

impl Node {
    async fn run(mut self) {
        loop {
            self.step().await;
            sleep(GLANCE).await;
        }
    }

    /// Does what is due.
    async fn step(&mut self) {
        let pods = self.present.state();
        let uids: BTreeSet<_> = pods.iter().filter_map(|pod| pod.uid()).collect();
        self.known.retain(|uid, known| {
            let stays = uids.contains(uid);
            if !stays {
                self.agents.end(&known.name);
            }
            stays
        });
        for pod in pods {
            let now = Instant::now();
            let known = self
                .known
                .entry(pod.uid().unwrap_or_default())
                .or_insert_with(|| Known {
                    name: pod.name_any(),
                    due: now + STEP,
                    ending: false,
                });
            if pod.metadata.deletion_timestamp.is_some() && !known.ending {
                known.ending = true;
                known.due = now + STEP;
            }
            if known.due <= now {
                known.due = now + STEP;
                let ending = known.ending;
                self.advance(&pod, ending).await;
            }
        }
    }

    /// One step of a pod's life.
    async fn advance(&self, pod: &Pod, ending: bool) {
        let bound = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
        let status = pod.status.as_ref();
        match status.and_then(|status| status.phase.as_deref()) {
            _ if ending => self.remove(pod).await,
            _ if !bound => self.bind(pod).await,
            Some("Succeeded" | "Failed") => {}
            // Its agent reads for itself what is mounted now.
            Some("Running") => {
                if let Some(config) = self.config(pod) {
                    pretence::give(&pod.name_any(), &config);
                }
            }
            _ => self.start(pod).await,
        }
    }

    async fn bind(&self, pod: &Pod) {
        let name = pod.name_any();
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "uid": pod.uid()},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "node"},
        });
        let params = PostParams::default();
        let bound = self
            .pods
            .create_subresource::<_, Value>("binding", &name, &params, &binding);
        unless_it_changed(bound.await);
    }

    async fn start(&self, pod: &Pod) {
        let Some(spec) = &pod.spec else { return };
        let name = pod.name_any();
        let config = self.config(pod);
        let mended = self.mended.load(Ordering::Relaxed);
        let now = jiff::Timestamp::now().to_string();
        let (fate, mut status) = pretence::start(&json!(pod), config.as_deref(), mended, &now);
        if fate == Fate::Serves {
            let containers = status["containerStatuses"].take();
            status = ready_at(self.agents.of(&name, spec).await);
            status["containerStatuses"] = containers;
        }
        // A strategic merge keeps the conditions that others have set.
        let patch = Patch::Strategic(json!({"metadata": {"uid": pod.uid()}, "status": status}));
        let params = PatchParams::default();
        unless_it_changed(self.pods.patch_status(&name, &params, &patch).await);
    }

    async fn remove(&self, pod: &Pod) {
        let name = pod.name_any();
        self.agents.end(&name);
        let params = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(Preconditions {
                uid: pod.uid(),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        unless_it_changed(self.pods.delete(&name, &params).await);
    }

    /// The configuration that a pod mounts, if there is one.
    fn config(&self, pod: &Pod) -> Option<String> {
        let key = ObjectRef::new(mounted(pod.spec.as_ref()?)?).within(&pod.namespace()?);
        self.config_maps.get(&key)?.data.as_ref()?.get(FILE).cloned()
    }
}

/// What was decided on a state that is gone is of no use; the next step sees the new one.
fn unless_it_changed<T>(result: kube::Result<T>) {
    match result {
        Err(kube::Error::Api(refusal)) if [404, 409].contains(&refusal.code) => {}
        result => drop(result.unwrap()),
    }
}
