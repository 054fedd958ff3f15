//! The scheduler, the kubelet and, in the pods, the agent with its nginx.

use std::collections::BTreeMap;
use std::time::Duration;

use roadstead::controllers::my_proxy::desired::unit::{FILE, KEY};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{databases, every, is_deleting, set_condition, set_status, text, writer};
use crate::pretence::{self, Fate};
use crate::sim::kinds::named;
use crate::sim::store::{Id, Store};
use crate::sim::write;

/// From a pod's creation, or from its deletion, to the next thing that happens to it.
const STEP: Duration = Duration::from_secs(1);
/// How often mounts are looked at again by themselves.
const SYNC: Duration = Duration::from_secs(75);

/// What the node knows of its pods, by uid.
#[derive(Default)]
pub struct Kubelet {
    pods: BTreeMap<String, Known>,
    mended: bool,
}

struct Known {
    namespace: String,
    name: String,
    /// When it is looked at next.
    due: Instant,
    /// The configuration that nginx has loaded, and the annotation under which it was mounted.
    loaded: Option<(String, Value)>,
    /// Whether it was told to end.
    ending: bool,
}

impl Kubelet {
    pub fn mend(&mut self) {
        self.mended = true;
    }

    pub fn serving(&self) -> BTreeMap<(String, String), String> {
        let running = self.pods.values().filter(|pod| !pod.ending);
        running
            .filter_map(|pod| {
                let (config, _) = pod.loaded.clone()?;
                Some(((pod.namespace.clone(), pod.name.clone()), config))
            })
            .collect()
    }

    /// Does what is due, and says when something is due next.
    pub fn step(&mut self, store: &mut Store) -> Option<Instant> {
        let mut pods = every(store, "Pod");
        pods.retain(|(_, pod)| !databases::is_instance(pod));
        self.pods
            .retain(|uid, _| pods.iter().any(|(_, pod)| text(pod, "/metadata/uid") == uid));
        let now = Instant::now();
        for (id, pod) in pods {
            let known = self
                .pods
                .entry(text(&pod, "/metadata/uid").to_owned())
                .or_insert_with(|| Known {
                    namespace: id.namespace.clone(),
                    name: id.name.clone(),
                    due: now + STEP,
                    loaded: None,
                    ending: false,
                });
            if is_deleting(&pod) && !known.ending {
                known.ending = true;
                known.due = now + STEP;
            }
            // A change of the pod has its mounts looked at again.
            let marked = pod["metadata"]["annotations"][KEY].clone();
            if known.loaded.as_ref().is_some_and(|(_, mark)| *mark != marked) {
                known.due = known.due.min(now + STEP);
            }
            if known.due <= now {
                known.due = now + known.advance(store, &id, &pod, self.mended);
            }
        }
        self.pods.values().map(|known| known.due).min()
    }
}

impl Known {
    /// One step of a pod's life; gives the time until the next one.
    fn advance(&mut self, store: &mut Store, id: &Id, pod: &Value, mended: bool) -> Duration {
        if self.ending {
            let options = json!({"gracePeriodSeconds": 0});
            write::delete(store, id, &options)
                .unwrap_or_else(|refusal| panic!("{id:?}: {}", refusal.message));
            return SYNC;
        }
        if pod["spec"]["nodeName"].is_null() {
            schedule(store, id);
            return STEP;
        }
        match text(pod, "/status/phase") {
            "Succeeded" | "Failed" => SYNC,
            "Running" => {
                self.reload(store, pod);
                SYNC
            }
            _ => self.start(store, id, pod, mended),
        }
    }

    fn start(&mut self, store: &mut Store, id: &Id, pod: &Value, mended: bool) -> Duration {
        let now = store.now();
        let config = mounted(store, pod);
        let (fate, told) = pretence::start(pod, config.as_deref(), mended, &now);
        let mut status = pod["status"].clone();
        for (field, value) in told.as_object().into_iter().flatten() {
            status[field] = value.clone();
        }
        if fate == Fate::Serves {
            self.loaded = config.map(|config| (config, pod["metadata"]["annotations"][KEY].clone()));
            let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
            for type_ in ["Initialized", "ContainersReady", "Ready"] {
                set_condition(&mut conditions, type_, "True", "", "", &now);
            }
            status["conditions"] = json!(conditions);
            let [_, a, b, c] = u32::try_from(store.number()).unwrap_or(u32::MAX).to_be_bytes();
            status["podIP"] = json!(format!("10.{a}.{b}.{c}"));
        }
        set_status(store, id, &status);
        if fate == Fate::Waits { STEP } else { SYNC }
    }

    /// Takes over what is mounted now.
    fn reload(&mut self, store: &Store, pod: &Value) {
        let Some(config) = mounted(store, pod) else { return };
        pretence::give(&self.name, &config);
        self.loaded = Some((config, pod["metadata"]["annotations"][KEY].clone()));
    }
}

pub(super) fn schedule(store: &mut Store, id: &Id) {
    let bind = json!({"spec": {"nodeName": "node"}});
    write::merge_patch(store, id, &bind, false, &writer(false))
        .unwrap_or_else(|refusal| panic!("{id:?}: {}", refusal.message));
    let Some(mut status) = store.get(id).map(|pod| pod["status"].clone()) else {
        return;
    };
    let mut conditions = Vec::new();
    let now = store.now();
    set_condition(&mut conditions, "PodScheduled", "True", "", "", &now);
    status["conditions"] = json!(conditions);
    set_status(store, id, &status);
}

/// The configuration that a pod mounts, if there is one.
fn mounted(store: &Store, pod: &Value) -> Option<String> {
    let volumes = pod["spec"]["volumes"].as_array()?;
    let volume = volumes.iter().find(|volume| volume["name"] == "config")?;
    let id = Id::new(
        named("ConfigMap"),
        text(pod, "/metadata/namespace"),
        text(volume, "/configMap/name"),
    );
    Some(store.get(&id)?["data"][FILE].as_str()?.to_owned())
}
