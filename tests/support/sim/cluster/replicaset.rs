//! The ReplicaSet controller: as many pods of one template as there are to be.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    controlled, count, counts, create_pod, delete, every, has_ended, is_deleting, is_ready, set_status, text,
};
use crate::sim::store::{Id, Store};

pub fn step(store: &mut Store) {
    for (id, set) in every(store, "ReplicaSet") {
        if !is_deleting(&set) {
            manage(store, &id, &set);
        }
        tell(store, &id, &set);
    }
}

/// Its pods, as far as they count.
fn pods(store: &Store, set: &Value) -> Vec<(Id, Arc<Value>)> {
    let mut pods = controlled(store, "Pod", text(set, "/metadata/uid"));
    pods.retain(|(_, pod)| !is_deleting(pod) && !has_ended(pod));
    pods
}

fn manage(store: &mut Store, id: &Id, set: &Value) {
    let mut present = pods(store, set);
    let wanted = usize::try_from(count(&set["spec"]["replicas"])).unwrap_or(0);
    for _ in present.len()..wanted {
        create_pod(store, id, set, &[]);
    }
    // Of too many, those that are farthest from being ready go first, then the newest.
    present.sort_by_key(|(pod, object)| (progress(object), std::cmp::Reverse(pod.clone())));
    for (pod, _) in &present[..present.len().saturating_sub(wanted)] {
        delete(store, pod, "Background");
    }
}

/// How far a pod has got.
fn progress(pod: &Value) -> [bool; 3] {
    let (bound, runs) = (
        pod["spec"]["nodeName"].is_string(),
        pod["status"]["phase"] == "Running",
    );
    [bound, runs, is_ready(pod)]
}

fn tell(store: &mut Store, id: &Id, set: &Value) {
    let pods = pods(store, set);
    let all = i64::try_from(pods.len()).unwrap_or(i64::MAX);
    let ready = pods.iter().filter(|(_, pod)| is_ready(pod)).count();
    let ready = i64::try_from(ready).unwrap_or(i64::MAX);
    let mut status = counts([
        ("fullyLabeledReplicas", all),
        ("readyReplicas", ready),
        ("availableReplicas", ready),
    ]);
    status["replicas"] = json!(all);
    status["observedGeneration"] = set["metadata"]["generation"].clone();
    if status != set["status"] {
        set_status(store, id, &status);
    }
}
