//! The Deployment controller, without ReplicaSets: pods belong to the Deployment itself, and a label tells their revision.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{controlled, create_pod, delete, every, is_deleting, set_condition, set_status, text};
use crate::sim::store::{Id, Store};

const REVISION: &str = "pod-template-hash";

/// Since when each Deployment has not got on, by uid: how far it was, and the time.
#[derive(Default)]
pub struct Deployments {
    progress: BTreeMap<String, (String, Instant)>,
}

/// Does what is due, and says when to look again though nothing happened.
pub fn step(store: &mut Store, memory: &mut Deployments) -> Option<Instant> {
    let mut due = None;
    for (id, deployment) in every(store, "Deployment") {
        if is_deleting(&deployment) {
            continue;
        }
        let stalls = one(store, memory, &id, &deployment);
        due = [due, stalls].into_iter().flatten().min();
    }
    due
}

/// The pods of a Deployment, as far as they count.
struct Pods {
    new: Vec<(Id, Value)>,
    old: Vec<(Id, Value)>,
}

impl Pods {
    fn of(store: &Store, deployment: &Value, revision: &str) -> Self {
        let mut pods = controlled(store, "Pod", text(deployment, "/metadata/uid"));
        pods.retain(|(_, pod)| !is_deleting(pod));
        let (new, old) = pods
            .into_iter()
            .partition(|(_, pod)| pod["metadata"]["labels"][REVISION] == revision);
        Self { new, old }
    }

    fn total(&self) -> usize {
        self.new.len() + self.old.len()
    }

    fn ready(&self) -> usize {
        self.new
            .iter()
            .chain(&self.old)
            .filter(|(_, pod)| is_ready(pod))
            .count()
    }
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions
        .into_iter()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

fn one(store: &mut Store, memory: &mut Deployments, id: &Id, deployment: &Value) -> Option<Instant> {
    let wanted = usize::try_from(deployment["spec"]["replicas"].as_i64().unwrap_or(1)).unwrap_or(0);
    let revision = revision(&deployment["spec"]["template"]);
    let pods = Pods::of(store, deployment, &revision);
    let strategy = &deployment["spec"]["strategy"]["rollingUpdate"];
    let surge = share(&strategy["maxSurge"], wanted, true);
    let missing = share(&strategy["maxUnavailable"], wanted, false);
    // As many new ones as fit, as many old ones gone as can be spared.
    let room = (wanted + surge).saturating_sub(pods.total());
    for _ in 0..wanted.saturating_sub(pods.new.len()).min(room) {
        create_pod(store, id, deployment, &[(REVISION, &revision)]);
    }
    let mut spare = pods.ready().saturating_sub(wanted.saturating_sub(missing));
    for (pod, object) in &pods.old {
        if !is_ready(object) {
            delete(store, pod, "Background", None);
        } else if spare > 0 {
            spare -= 1;
            delete(store, pod, "Background", None);
        }
    }
    // When there are too many, those that are not ready go first.
    let mut extra = pods.new.clone();
    extra.sort_by_key(|(_, pod)| !is_ready(pod));
    for (pod, _) in extra.iter().skip(wanted) {
        delete(store, pod, "Background", None);
    }
    tell(store, memory, id, deployment, &revision, wanted, missing)
}

/// A number of pods, or a share of those that are wanted.
fn share(amount: &Value, wanted: usize, up: bool) -> usize {
    match amount {
        Value::Number(number) => usize::try_from(number.as_u64().unwrap_or(0)).unwrap_or(0),
        Value::String(percent) => {
            let percent: usize = percent.trim_end_matches('%').parse().unwrap_or(0);
            if up {
                (wanted * percent).div_ceil(100)
            } else {
                wanted * percent / 100
            }
        }
        _ => 0,
    }
}

/// Ten hex digits that differ when the template does (FNV-1a).
fn revision(template: &Value) -> String {
    let hash = template
        .to_string()
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    format!("{:010x}", hash & 0xff_ffff_ffff)
}

/// Writes the status, and says when it would change by itself.
fn tell(
    store: &mut Store,
    memory: &mut Deployments,
    id: &Id,
    deployment: &Value,
    revision: &str,
    wanted: usize,
    missing: usize,
) -> Option<Instant> {
    let pods = Pods::of(store, deployment, revision);
    let (total, updated, ready) = (pods.total(), pods.new.len(), pods.ready());
    let far = format!("{revision} {total} {updated} {ready} {wanted}");
    let uid = text(deployment, "/metadata/uid").to_owned();
    let now = Instant::now();
    let (before, since) = memory.progress.entry(uid).or_insert_with(|| (String::new(), now));
    if *before != far {
        (*before, *since) = (far, now);
    }
    let patience = deployment["spec"]["progressDeadlineSeconds"]
        .as_u64()
        .unwrap_or(600);
    let stalls = *since + Duration::from_secs(patience);

    let mut conditions = deployment["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let time = store.now();
    let (available, reason) = if ready >= wanted.saturating_sub(missing) {
        ("True", "MinimumReplicasAvailable")
    } else {
        ("False", "MinimumReplicasUnavailable")
    };
    set_condition(&mut conditions, "Available", available, reason, "", &time);
    let was = conditions
        .iter()
        .find(|condition| condition["type"] == "Progressing")
        .map(|condition| text(condition, "/reason").to_owned());
    let stays = was.as_deref() == Some("NewReplicaSetAvailable") && total == updated;
    let complete = updated == wanted && total == wanted && ready == wanted;
    let (progressing, reason) = match () {
        () if complete || stays => ("True", "NewReplicaSetAvailable"),
        () if stalls <= now => ("False", "ProgressDeadlineExceeded"),
        () => ("True", "ReplicaSetUpdated"),
    };
    set_condition(&mut conditions, "Progressing", progressing, reason, "", &time);
    let mut status =
        json!({"observedGeneration": deployment["metadata"]["generation"], "conditions": conditions});
    for (field, count) in [
        ("replicas", total),
        ("updatedReplicas", updated),
        ("readyReplicas", ready),
        ("availableReplicas", ready),
        ("unavailableReplicas", wanted.saturating_sub(ready)),
    ] {
        // As in the API, no count is no field.
        if count > 0 {
            status[field] = json!(count);
        }
    }
    if status != deployment["status"] {
        set_status(store, id, &status);
    }
    (reason == "ReplicaSetUpdated").then_some(stalls)
}
