//! The Job controller: one pod, once, within the deadline.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    controlled, counts, create_pod, delete, every, has_ended, holds, is_deleting, is_ready, release,
    set_status, text,
};
use crate::sim::store::{Id, Store};

/// Has a pod stay until it is counted.
const TRACKING: &str = "batch.kubernetes.io/job-tracking";

pub fn step(store: &mut Store) {
    let jobs = every(store, "Job");
    for (id, job) in &jobs {
        if !is_deleting(job) && !is_over(job) {
            one(store, id, job);
        }
    }
    for (id, pod) in every(store, "Pod") {
        let owner = text(&pod, "/metadata/ownerReferences/0/uid");
        let mut jobs = jobs.iter().filter(|(_, job)| text(job, "/metadata/uid") == owner);
        // Nobody counts it, or somebody has.
        let is_free = jobs.all(|(_, job)| is_deleting(job) || decided(job).is_some());
        if holds(&pod, TRACKING) && is_free {
            release(store, &id, TRACKING);
        }
    }
}

/// When the next deadline is over.
pub fn due(store: &Store) -> Option<Instant> {
    let now = store.clock.now();
    let open = every(store, "Job")
        .into_iter()
        .filter(|(_, job)| decided(job).is_none());
    let left = open
        .filter_map(|(_, job)| deadline(&job))
        .map(|end| end.duration_since(now));
    let left = left.min()?.max(SignedDuration::ZERO).unsigned_abs();
    Some(Instant::now() + left + Duration::from_millis(1))
}

fn conditions(job: &Value) -> &[Value] {
    job["status"]["conditions"].as_array().map_or(&[], Vec::as_slice)
}

fn is_over(job: &Value) -> bool {
    conditions(job)
        .iter()
        .any(|condition| condition["type"] == "Complete" || condition["type"] == "Failed")
}

/// What is going to come of a Job, once its pods have ended.
fn decided(job: &Value) -> Option<&Value> {
    conditions(job).first()
}

fn deadline(job: &Value) -> Option<Timestamp> {
    let seconds = job["spec"]["activeDeadlineSeconds"].as_i64()?;
    let started: Timestamp = text(job, "/status/startTime").parse().ok()?;
    started.checked_add(SignedDuration::from_secs(seconds)).ok()
}

fn one(store: &mut Store, id: &Id, job: &Value) {
    assert_eq!(
        job["spec"]["backoffLimit"], 0,
        "Jobs that try again are not simulated: {id:?}"
    );
    let pods = || controlled(store, "Pod", text(job, "/metadata/uid"));
    let mut present: Vec<Arc<Value>> = pods().into_iter().map(|(_, pod)| pod).collect();
    let mut conditions = conditions(job).to_vec();
    match decided(job) {
        Some(decided) => {
            let is_held = |pod: &Arc<Value>| holds(pod, TRACKING) || (is_deleting(pod) && !has_ended(pod));
            if !present.iter().any(is_held) {
                let type_ = if decided["type"] == "SuccessCriteriaMet" {
                    "Complete"
                } else {
                    "Failed"
                };
                let (reason, message) = (text(decided, "/reason"), text(decided, "/message"));
                conditions.push(condition(store, type_, reason, message));
            }
        }
        None => {
            if present.is_empty() {
                create_pod(store, id, job, &[TRACKING]);
            } else if present.iter().any(|pod| has_failed(pod)) {
                let why = "Job has reached the specified backoff limit";
                conditions.push(condition(store, "FailureTarget", "BackoffLimitExceeded", why));
            } else if deadline(job).is_some_and(|end| end <= store.clock.now()) {
                for (pod, _) in pods() {
                    delete(store, &pod, "Background");
                }
                let why = "Job was active longer than specified deadline";
                conditions.push(condition(store, "FailureTarget", "DeadlineExceeded", why));
            } else if present.iter().any(|pod| pod["status"]["phase"] == "Succeeded") {
                let why = "Reached expected number of succeeded pods";
                conditions.push(condition(store, "SuccessCriteriaMet", "CompletionsReached", why));
            }
        }
    }
    present = controlled(store, "Pod", text(job, "/metadata/uid"))
        .into_iter()
        .map(|(_, pod)| pod)
        .collect();
    tell(store, id, job, &present, &conditions);
}

/// Whether it counts as a failure: also when it is deleted before it has ended.
fn has_failed(pod: &Value) -> bool {
    let phase = text(pod, "/status/phase");
    phase == "Failed" || (is_deleting(pod) && phase != "Succeeded")
}

fn condition(store: &Store, type_: &str, reason: &str, message: &str) -> Value {
    let now = store.now();
    json!({
        "type": type_, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now, "lastProbeTime": now,
    })
}

fn tell(store: &mut Store, id: &Id, job: &Value, pods: &[Arc<Value>], conditions: &[Value]) {
    let number = |is: &dyn Fn(&Value) -> bool| i64::from(pods.iter().any(|pod| is(pod)));
    let is = |type_: &str| conditions.iter().any(|condition| condition["type"] == type_);
    let mut status = counts([
        ("active", number(&|pod| !is_deleting(pod) && !has_ended(pod))),
        ("failed", i64::from(is("FailureTarget"))),
        ("succeeded", i64::from(is("SuccessCriteriaMet"))),
    ]);
    status["ready"] = json!(number(&|pod| !is_deleting(pod) && is_ready(pod)));
    status["terminating"] = json!(number(&|pod| is_deleting(pod) && !has_ended(pod)));
    status["uncountedTerminatedPods"] = json!({});
    status["startTime"] = match &job["status"]["startTime"] {
        Value::Null => json!(store.now()),
        started => started.clone(),
    };
    if !conditions.is_empty() {
        status["conditions"] = json!(conditions);
    }
    if is("Complete") {
        status["completionTime"] = json!(store.now());
    }
    if status != job["status"] {
        set_status(store, id, &status);
    }
}
