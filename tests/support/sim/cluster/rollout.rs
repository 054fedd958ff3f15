//! What the Deployment controller says of how far a rollout has got.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::deployment::{REVISION, Set, Sets, Size};
use super::{count, counts, set_status, text, writer};
use crate::sim::store::{Id, Store};
use crate::sim::write;

const PROGRESSING: &str = "Progressing";
const COMPLETE: &str = "NewReplicaSetAvailable";
const STALLED: &str = "ProgressDeadlineExceeded";

/// Whether a status says of the present spec that all pods are as they should.
pub fn is_complete(status: &Value, deployment: &Value, size: &Size) -> bool {
    let all = ["updatedReplicas", "replicas", "availableReplicas"];
    all.iter().all(|field| count(&status[*field]) == size.wanted)
        && status["observedGeneration"] == deployment["metadata"]["generation"]
}

/// Notes which revision is the present one, and says so if it has just been made.
pub fn note(store: &mut Store, id: &Id, revision: &str, is_new: bool) {
    let Some(deployment) = store.get(id).cloned() else {
        return;
    };
    if deployment["metadata"]["annotations"][REVISION] == revision {
        return;
    }
    let mut deployment = Value::clone(&deployment);
    deployment["metadata"]["annotations"][REVISION] = json!(revision);
    if is_new {
        let status = &mut deployment["status"];
        say(status, PROGRESSING, "True", "NewReplicaSetCreated", &store.now());
    }
    let written = write::update(store, id, &deployment, true, &writer(true));
    written.unwrap_or_else(|refusal| panic!("the revision of {id:?}: {}", refusal.message));
}

/// Writes the counts, and whether enough pods are available.
pub fn tell_counts(store: &mut Store, id: &Id, size: &Size, sets: &Sets) {
    if let Some(deployment) = store.get(id).cloned() {
        let status = status(store, &deployment, size, sets);
        write(store, id, &deployment, &status);
    }
}

/// Writes the status, and says when it would change by itself.
pub fn tell(store: &mut Store, id: &Id, size: &Size, sets: &Sets) -> Option<Instant> {
    let deployment = store.get(id)?.clone();
    let mut status = status(store, &deployment, size, sets);
    let stays = reason(&status) == COMPLETE && status["replicas"] == status["updatedReplicas"];
    let stalls = stalls(&deployment, &status);
    let (before, now) = (&deployment["status"], store.now());
    if !stays && is_complete(&status, &deployment, size) {
        say(&mut status, PROGRESSING, "True", COMPLETE, &now);
    } else if !stays && gets_on(before, &status) {
        // The time is noted even when nothing else changes: from it the deadline is counted.
        renew(&mut status, "ReplicaSetUpdated", &now);
    } else if !stays && stalls.is_some_and(|at| at < store.clock.now()) {
        say(&mut status, PROGRESSING, "False", STALLED, &now);
    }
    write(store, id, &deployment, &status);
    let left = self::stalls(&deployment, &status)?.duration_since(store.clock.now());
    let left = left.max(SignedDuration::ZERO).unsigned_abs();
    Some(Instant::now() + left + Duration::from_millis(1))
}

fn write(store: &mut Store, id: &Id, deployment: &Value, status: &Value) {
    if *status != deployment["status"] {
        set_status(store, id, status);
    }
}

/// With the conditions that were there, and whether enough pods are available.
fn status(store: &Store, deployment: &Value, size: &Size, sets: &Sets) -> Value {
    let available = sets.status("availableReplicas");
    let wanted: i64 = sets.all().map(Set::wanted).sum();
    let mut status = counts([
        ("replicas", sets.status("replicas")),
        (
            "updatedReplicas",
            sets.new.as_ref().map_or(0, |new| new.status("replicas")),
        ),
        ("readyReplicas", sets.status("readyReplicas")),
        ("availableReplicas", available),
        ("unavailableReplicas", wanted - available),
    ]);
    status["observedGeneration"] = deployment["metadata"]["generation"].clone();
    let said = deployment["status"]["conditions"].as_array();
    status["conditions"] = json!(said.cloned().unwrap_or_default());
    let (is, reason) = if available >= size.fewest() {
        ("True", "MinimumReplicasAvailable")
    } else {
        ("False", "MinimumReplicasUnavailable")
    };
    say(&mut status, "Available", is, reason, &store.now());
    status
}

/// Whether there are more new pods, fewer old ones, or more that are ready.
fn gets_on(before: &Value, after: &Value) -> bool {
    let more = |field: &str| count(&after[field]) > count(&before[field]);
    let old = |status: &Value| count(&status["replicas"]) - count(&status["updatedReplicas"]);
    more("updatedReplicas") || old(after) < old(before) || more("readyReplicas")
}

fn progress(status: &Value) -> Option<&Value> {
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    conditions.find(|condition| condition["type"] == PROGRESSING)
}

fn reason(status: &Value) -> &str {
    progress(status).map_or("", |progress| text(progress, "/reason"))
}

/// When a rollout that goes on does so no more unless something is done.
fn stalls(deployment: &Value, status: &Value) -> Option<Timestamp> {
    if [COMPLETE, STALLED].contains(&reason(status)) {
        return None;
    }
    let since: Timestamp = text(progress(status)?, "/lastUpdateTime").parse().ok()?;
    let patience = deployment["spec"]["progressDeadlineSeconds"].as_i64()?;
    since.checked_add(SignedDuration::from_secs(patience)).ok()
}

/// Sets a condition, unless it says so already.
fn say(status: &mut Value, type_: &str, is: &str, reason: &str, now: &str) {
    let mut since = json!(now);
    let Some(conditions) = status_conditions(status) else {
        return;
    };
    if let Some(place) = conditions.iter().position(|condition| condition["type"] == type_) {
        let old = &conditions[place];
        if old["status"] == is && old["reason"] == reason {
            return;
        }
        if old["status"] == is {
            since = old["lastTransitionTime"].clone();
        }
        conditions.remove(place);
    }
    conditions.push(json!({
        "type": type_, "status": is, "reason": reason, "message": "", "lastTransitionTime": since, "lastUpdateTime": now,
    }));
}

/// Says that it progresses, and that something was done now.
fn renew(status: &mut Value, reason: &str, now: &str) {
    say(status, PROGRESSING, "True", reason, now);
    for condition in status_conditions(status).into_iter().flatten() {
        if condition["type"] == PROGRESSING {
            condition["lastUpdateTime"] = json!(now);
        }
    }
}

fn status_conditions(status: &mut Value) -> Option<&mut Vec<Value>> {
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    status["conditions"].as_array_mut()
}
