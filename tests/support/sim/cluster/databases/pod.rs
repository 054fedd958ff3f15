//! The life of an instance's pod: the scheduler, the kubelet, and what the instance says of itself in a label.

use std::time::Duration;

use roadstead::api::database::agent::ROLE_LABEL;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::kubelet::schedule;
use super::super::{is_deleting, patch, set_condition, set_status, text};
use super::{CONNECTIONS, Databases, Instance, Phase, SYNC, mounted};
use crate::pretence::MISSING;
use crate::sim::kinds::named;
use crate::sim::store::{Id, Store};
use crate::sim::write;

/// From a pod's creation, or from its deletion, to the next thing that happens to it.
const STEP: Duration = Duration::from_secs(1);
/// The annotation of a pod after which its mounts are looked at.
const MARK: &str = "roadstead.dev/settings";

impl Databases {
    /// One step of a pod's life, if it is due.
    pub(super) fn advance(&mut self, store: &mut Store, id: &Id, pod: &Value) {
        let now = Instant::now();
        let uid = text(pod, "/metadata/uid").to_owned();
        let instance = self.pods.entry(uid.clone()).or_insert_with(|| Instance {
            id: id.clone(),
            identity: format!("{uid}-1"),
            uid,
            database: text(pod, "/metadata/labels/app.kubernetes.io~1instance").to_owned(),
            phase: Phase::Unbound,
            volume: String::new(),
            told: None,
            mark: Value::Null,
            due: now + STEP,
            ending: false,
            connections: CONNECTIONS,
            image: text(pod, "/spec/containers/0/image").to_owned(),
        });
        if is_deleting(pod) && !instance.ending {
            instance.ending = true;
            instance.due = now + STEP;
        }
        // A change of the pod has its mounts looked at again.
        let mark = &pod["metadata"]["annotations"][MARK];
        if instance.runs() && instance.mark != *mark {
            instance.due = instance.due.min(now + STEP);
        }
        if instance.due > now {
            return;
        }
        instance.due = now + SYNC;
        let is_in_order = !instance.is_killed();
        match instance.phase {
            _ if instance.ending => {
                let (key, uid) = (instance.key(), instance.uid.clone());
                if is_in_order {
                    let mut group = self.groups.remove(&key).unwrap_or_default();
                    group.stop(&key, self, store, &uid);
                    self.groups.insert(key, group);
                }
                self.pods.remove(&uid);
                let options = json!({"gracePeriodSeconds": 0});
                write::delete(store, id, &options)
                    .unwrap_or_else(|refusal| panic!("{id:?}: {}", refusal.message));
            }
            Phase::Unbound => {
                instance.phase = Phase::Bound;
                instance.due = now + STEP;
                schedule(store, id);
            }
            Phase::Bound => {
                if !self.start(store, id, pod) {
                    self.pods
                        .entry(text(pod, "/metadata/uid").to_owned())
                        .and_modify(|instance| {
                            instance.due = now + STEP;
                        });
                }
            }
            _ => {
                instance.mark = mark.clone();
                // What cannot be read is not taken.
                if let Some(told) = mounted(store, pod) {
                    instance.told = Some(told);
                }
            }
        }
    }

    /// Starts the container of a pod, if all is there that it needs.
    fn start(&mut self, store: &mut Store, id: &Id, pod: &Value) -> bool {
        let mut status = pod["status"].clone();
        let container = &pod["spec"]["containers"][0];
        let statuses = |state: Value| {
            json!([{
                "name": container["name"], "image": container["image"], "imageID": "", "ready": false, "restartCount": 0,
                "state": state,
            }])
        };
        let claim = Id::new(
            named("PersistentVolumeClaim"),
            &id.namespace,
            &format!("data-{}", id.name),
        );
        let volume = store
            .get(&claim)
            .map(|claim| text(claim, "/metadata/uid").to_owned());
        let (Some(volume), None) = (volume, self.obstacle(store, id, pod)) else {
            let (reason, message) = self
                .obstacle(store, id, pod)
                .unwrap_or(("ContainerCreating", String::new()));
            status["containerStatuses"] =
                statuses(json!({"waiting": {"reason": reason, "message": message}}));
            if status != pod["status"] {
                set_status(store, id, &status);
            }
            return false;
        };
        let now = store.now();
        status["containerStatuses"] = statuses(json!({"running": {"startedAt": now}}));
        status["phase"] = json!("Running");
        let [_, a, b, c] = u32::try_from(store.number()).unwrap_or(u32::MAX).to_be_bytes();
        status["podIP"] = json!(format!("10.{a}.{b}.{c}"));
        set_status(store, id, &status);
        let told = mounted(store, pod);
        if let Some(instance) = self.pods.get_mut(text(pod, "/metadata/uid")) {
            instance.volume = volume;
            instance.phase = Phase::Idle;
            instance.told = told;
            instance.mark = pod["metadata"]["annotations"][MARK].clone();
        }
        true
    }

    /// Reason and message of why the containers of a pod cannot start.
    fn obstacle(&self, store: &Store, id: &Id, pod: &Value) -> Option<(&'static str, String)> {
        let image = text(pod, "/spec/containers/0/image");
        if image.contains(MISSING) && !self.mended {
            let message = format!("Back-off pulling image \"{image}\"");
            return Some(("ImagePullBackOff", message));
        }
        let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
        let needed = volumes.filter(|volume| volume["secret"]["optional"] != true);
        let mut mounts = needed.filter_map(|volume| {
            let secret = volume["secret"]["secretName"]
                .as_str()
                .map(|name| ("Secret", name));
            let config_map = volume["configMap"]["name"]
                .as_str()
                .map(|name| ("ConfigMap", name));
            secret.or(config_map)
        });
        let is_there =
            |kind: &str, name: &str| store.get(&Id::new(named(kind), &id.namespace, name)).is_some();
        mounts
            .any(|(kind, name)| !is_there(kind, name))
            .then(|| ("ContainerCreating", String::new()))
    }

    /// Writes into the pod what role the instance has, and whether it serves.
    pub(super) fn show(&self, store: &mut Store, uid: &str) {
        let Some(instance) = self.pods.get(uid).filter(|instance| instance.runs()) else {
            return;
        };
        let Some(pod) = store.get(&instance.id).cloned() else {
            return;
        };
        let role = match instance.phase {
            Phase::Leading => json!("primary"),
            Phase::Replica => json!("replica"),
            _ => Value::Null,
        };
        if pod["metadata"]["labels"][ROLE_LABEL] != role {
            patch(
                store,
                &instance.id,
                &json!({"metadata": {"labels": {ROLE_LABEL: role}}}),
            );
        }
        let known = self.board.of(&instance.id.namespace, &instance.database);
        let serves = known.serving().any(|name| *name == instance.id.name) && !instance.ending;
        let mut status = pod["status"].clone();
        let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let now = store.now();
        set_condition(&mut conditions, "Initialized", "True", "", "", &now);
        let ready = if serves { "True" } else { "False" };
        for type_ in ["ContainersReady", "Ready"] {
            set_condition(&mut conditions, type_, ready, "", "", &now);
        }
        status["conditions"] = json!(conditions);
        status["containerStatuses"][0]["ready"] = json!(serves);
        if status != pod["status"] {
            set_status(store, &instance.id, &status);
        }
    }
}

impl Instance {
    /// Every second pod ends by the loss of its node, and releases nothing.
    fn is_killed(&self) -> bool {
        self.uid.bytes().last().is_some_and(|last| last % 2 == 1)
    }
}
