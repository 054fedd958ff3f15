//! The Job controller: one pod, once, within the deadline.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{controlled, create_pod, delete, every, is_deleting, set_status, text};
use crate::sim::store::{Id, Store};

pub fn step(store: &mut Store) {
    for (id, job) in every(store, "Job") {
        if !is_deleting(&job) && !is_over(&job) {
            one(store, &id, &job);
        }
    }
}

/// When the next deadline is over.
pub fn due(store: &Store) -> Option<Instant> {
    let now = store.clock.now();
    let open = every(store, "Job").into_iter().filter(|(_, job)| !is_over(job));
    let left = open
        .filter_map(|(_, job)| deadline(&job))
        .map(|end| end.duration_since(now));
    let left = left.min()?.max(SignedDuration::ZERO).unsigned_abs();
    Some(Instant::now() + left + Duration::from_millis(1))
}

fn is_over(job: &Value) -> bool {
    let conditions = job["status"]["conditions"].as_array().into_iter().flatten();
    conditions
        .into_iter()
        .any(|condition| condition["type"] == "Complete" || condition["type"] == "Failed")
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
    let pods = controlled(store, "Pod", text(job, "/metadata/uid"));
    if job["status"]["startTime"].is_null() {
        let mut status = job["status"].clone();
        status["startTime"] = json!(store.now());
        set_status(store, id, &status);
    }
    if deadline(job).is_some_and(|end| end <= store.clock.now()) {
        for (pod, _) in pods {
            delete(store, &pod, "Background", None);
        }
        let why = "Job was active longer than specified deadline";
        return end(store, id, job, Some(("DeadlineExceeded", why)));
    }
    let Some((_, pod)) = pods.first() else {
        create_pod(store, id, job, &[]);
        return;
    };
    match text(pod, "/status/phase") {
        "Succeeded" => end(store, id, job, None),
        "Failed" => {
            let why = "Job has reached the specified backoff limit";
            end(store, id, job, Some(("BackoffLimitExceeded", why)));
        }
        _ => {
            let status = json!({"startTime": job["status"]["startTime"], "active": 1, "ready": 0});
            if !job["status"]["startTime"].is_null() && job["status"] != status {
                set_status(store, id, &status);
            }
        }
    }
}

/// Ends a Job, which failed for this reason or did not.
fn end(store: &mut Store, id: &Id, job: &Value, failure: Option<(&str, &str)>) {
    let now = store.now();
    let started = job["status"]["startTime"].as_str().unwrap_or(&now).to_owned();
    let condition = |type_: &str, (reason, message): (&str, &str)| json!({"type": type_, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now, "lastProbeTime": now});
    let status = match failure {
        None => {
            let why = ("CompletionsReached", "Reached expected number of succeeded pods");
            json!({
                "startTime": started, "completionTime": now, "succeeded": 1, "ready": 0,
                "conditions": [condition("SuccessCriteriaMet", why), condition("Complete", why)],
            })
        }
        Some(why) => json!({
            "startTime": started, "failed": 1, "ready": 0,
            "conditions": [condition("FailureTarget", why), condition("Failed", why)],
        }),
    };
    set_status(store, id, &status);
}
