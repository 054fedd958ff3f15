//! The rest of a cluster, as small models: the garbage collector, the controllers of Deployments, ReplicaSets, StatefulSets and Jobs, a kubelet that
//! runs agents and their nginx, and one that runs instances of databases, which elect their primary. Each looks at what there is and does what is due; what takes time in a cluster takes virtual time here.
//!
//! `tests/people_apiserver.rs` holds the controllers to what Kubernetes' own do: both pass the list in `tests/support/controllers/`.

mod agents;
pub mod databases;
mod deployment;
mod gc;
mod job;
mod kubelet;
mod replicaset;
mod rollout;
mod stateful_set;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use roadstead::controllers::database::instances::Instances;
use roadstead::controllers::my_proxy::agents::Agents;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};

use super::Sim;
use super::kinds::named;
use super::ownership::Writer;
use super::store::{Id, Store};
use super::write;
use agents::PlayedAgents;
use databases::asked::PlayedInstances;
use databases::board::Board;

/// How long the controllers take to notice something.
const REACTION: Duration = Duration::from_millis(50);

/// What the models remember besides the objects.
#[derive(Default)]
struct Memory {
    kubelet: kubelet::Kubelet,
    databases: databases::Databases,
}

/// The rest of a cluster; it stops when it is dropped.
pub struct Cluster {
    sim: Sim,
    memory: Arc<Mutex<Memory>>,
    /// Somebody has told an instance what to do.
    told: Arc<Notify>,
    running: JoinHandle<()>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.running.abort();
    }
}

impl Cluster {
    pub fn start(sim: &Sim) -> Self {
        let memory = Arc::<Mutex<Memory>>::default();
        let told = Arc::<Notify>::default();
        let running = tokio::spawn(run(sim.clone(), Arc::clone(&memory), Arc::clone(&told)));
        Self {
            sim: sim.clone(),
            memory,
            told,
            running,
        }
    }

    /// What an operator asks what pods serve.
    pub fn agents(&self) -> Arc<dyn Agents> {
        Arc::new(PlayedAgents {
            sim: self.sim.clone(),
            memory: Arc::clone(&self.memory),
        })
    }

    /// What an operator asks what instances of databases do, and by which it tells them what to do.
    pub fn instances(&self) -> Arc<dyn Instances> {
        Arc::new(PlayedInstances {
            sim: self.sim.clone(),
            memory: Arc::clone(&self.memory),
            told: Arc::clone(&self.told),
        })
    }

    /// What is so of the instances of databases at this moment. It may be read wherever something is written.
    pub fn board(&self) -> Board {
        let memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.databases.board.clone()
    }

    /// The configuration that nginx has in each pod that runs, by the pod's namespace and name.
    pub fn serving(&self) -> BTreeMap<(String, String), String> {
        let memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.kubelet.serving()
    }

    /// Has what was missing be there from now on: every image can be pulled, every Secret exists.
    pub fn mend(&self) {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.kubelet.mend();
        memory.databases.mend();
    }

    /// Panics if the models did: otherwise nobody would notice.
    pub fn is_well(&self) {
        assert!(!self.running.is_finished(), "a model of the cluster has panicked");
    }
}

async fn run(sim: Sim, memory: Arc<Mutex<Memory>>, told: Arc<Notify>) {
    let mut news = sim.news();
    loop {
        let (due, seen) = sim.with(|store| {
            let mut memory = memory.lock().unwrap_or_else(PoisonError::into_inner);
            // What one model does concerns the others, so a step that changed something is followed by another one.
            let seen = store.newest_but_leases();
            (step(store, &mut memory), seen)
        });
        let due = due.unwrap_or_else(|| Instant::now() + Duration::from_secs(3600));
        let something_else = async {
            // Leases are renewed all the time, and concern nobody here.
            while sim.with(|store| store.newest_but_leases()) == seen {
                if news.changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            biased;
            () = something_else => {}
            () = told.notified() => {}
            () = sleep_until(due) => {}
        }
        sleep(REACTION).await;
    }
}

/// Has each model do what is due; gives the time when something is due though nothing happened.
fn step(store: &mut Store, memory: &mut Memory) -> Option<Instant> {
    gc::step(store);
    job::step(store);
    let stalls = deployment::step(store);
    replicaset::step(store);
    stateful_set::step(store);
    let pods = memory.kubelet.step(store);
    let instances = memory.databases.step(store);
    [stalls, pods, instances, job::due(store)]
        .into_iter()
        .flatten()
        .min()
}

/// In whose name the models write.
fn writer(status: bool) -> Writer {
    Writer {
        manager: "kube-controller-manager".to_owned(),
        applies: false,
        status,
    }
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn is_deleting(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// The objects of a kind that the object with this uid controls.
fn controlled(store: &Store, kind: &str, uid: &str) -> Vec<(Id, Arc<Value>)> {
    let all = store.of_kind(named(kind), None);
    let owned = all.filter(|(_, object)| {
        let owners = object["metadata"]["ownerReferences"]
            .as_array()
            .into_iter()
            .flatten();
        owners
            .into_iter()
            .any(|owner| owner["uid"] == uid && owner["controller"] == true)
    });
    owned.map(|(id, object)| (id.clone(), object.clone())).collect()
}

fn every(store: &Store, kind: &str) -> Vec<(Id, Arc<Value>)> {
    let all = store.of_kind(named(kind), None);
    all.map(|(id, object)| (id.clone(), object.clone())).collect()
}

/// The reference to the object that controls another one.
fn controller(owner: &Id, object: &Value) -> Value {
    let kind = owner.kind();
    json!([{
        "apiVersion": kind.api_version(), "kind": kind.kind, "name": owner.name, "uid": object["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true,
    }])
}

/// Creates a pod from the template of its owner, held by these finalizers.
fn create_pod(store: &mut Store, owner: &Id, object: &Value, finalizers: &[&str]) {
    let mut pod = object["spec"]["template"].clone();
    pod["metadata"]["generateName"] = json!(format!("{}-", owner.name));
    pod["metadata"]["ownerReferences"] = controller(owner, object);
    pod["metadata"]["finalizers"] = json!(finalizers);
    let created = write::create(store, named("Pod"), &owner.namespace, &pod, &writer(false));
    created.unwrap_or_else(|refusal| panic!("a pod of {owner:?}: {}", refusal.message));
}

fn set_status(store: &mut Store, id: &Id, status: &Value) {
    let Some(object) = store.get(id).cloned() else {
        return;
    };
    let mut object = Value::clone(&object);
    object["status"] = status.clone();
    let written = write::update(store, id, &object, true, &writer(true));
    written.unwrap_or_else(|refusal| panic!("the status of {id:?}: {}", refusal.message));
}

/// Lays a merge patch over an object.
fn patch(store: &mut Store, id: &Id, patch: &Value) {
    let patched = write::merge_patch(store, id, patch, false, &writer(false));
    patched.unwrap_or_else(|refusal| panic!("{id:?}: {}", refusal.message));
}

/// Takes a finalizer from an object, if that is there.
fn release(store: &mut Store, id: &Id, finalizer: &str) {
    let Some(object) = store.get(id) else { return };
    let held = object["metadata"]["finalizers"].as_array().into_iter().flatten();
    let kept: Vec<&Value> = held.filter(|held| *held != finalizer).collect();
    let released = json!({"metadata": {"uid": object["metadata"]["uid"], "finalizers": kept}});
    patch(store, id, &released);
}

fn holds(object: &Value, finalizer: &str) -> bool {
    let mut held = object["metadata"]["finalizers"].as_array().into_iter().flatten();
    held.any(|held| held == finalizer)
}

fn delete(store: &mut Store, id: &Id, policy: &str) {
    let options = json!({"propagationPolicy": policy});
    let deleted = write::delete(store, id, &options);
    deleted.unwrap_or_else(|refusal| panic!("the deletion of {id:?}: {}", refusal.message));
}

fn is_ready(pod: &Value) -> bool {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// Whether none of its containers runs any more, or ever will.
fn has_ended(pod: &Value) -> bool {
    ["Succeeded", "Failed"].contains(&text(pod, "/status/phase"))
}

fn count(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

/// The counts of a status that are there: as in the API, no count is no field.
fn counts<const N: usize>(counts: [(&str, i64); N]) -> Value {
    let there = counts.into_iter().filter(|(_, count)| *count > 0);
    Value::Object(
        there
            .map(|(field, count)| (field.to_owned(), json!(count)))
            .collect(),
    )
}

/// Sets or replaces the condition of this type; keeps the time when its status stays.
fn set_condition(
    conditions: &mut Vec<Value>,
    type_: &str,
    status: &str,
    reason: &str,
    message: &str,
    now: &str,
) {
    let mut condition = json!({
        "type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": now,
    });
    match conditions.iter_mut().find(|condition| condition["type"] == type_) {
        Some(old) => {
            if old["status"] == status {
                condition["lastTransitionTime"] = old["lastTransitionTime"].clone();
            }
            *old = condition;
        }
        None => conditions.push(condition),
    }
}
