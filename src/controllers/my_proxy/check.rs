//! The verdict about a unit, from the Jobs that checked it. Pure.
//!
//! Nothing is remembered but the Jobs themselves: the label of a Job names the unit and the attempt, and its last Job stays until
//! the unit is active or no longer wanted. So a restart of the operator changes nothing.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{Job, JobCondition};
use k8s_openapi::api::core::v1::{ContainerState, Pod};
use kube::ResourceExt;

use super::desired::check_job::{CONTAINER, DEADLINE_SECONDS};
use super::desired::names::{ATTEMPT, CHECK};
use super::observe::Observed;
use crate::api::my_proxy::agent::REFUSED;
use crate::controllers::common::pod::{unscheduled, words};

/// How long after its deadline a Job may still be unfinished before that is worth a word.
const OVERDUE_SECONDS: i64 = DEADLINE_SECONDS + 60;
/// How long the containers of a check may be in the making before that is worth a word.
const PATIENCE_SECONDS: i64 = 20;
/// Between the end of the first attempt and the second; doubled for each one after that.
const FIRST_DELAY_SECONDS: i64 = 15;
/// The longest time between two attempts.
const MAX_DELAY_SECONDS: i64 = 600;

/// What is known about a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is the active one.
    Active,
    /// nginx accepted it; it is to become the active one.
    Passed,
    /// Nobody has asked nginx yet, or it is time to ask again.
    Due {
        /// From 1.
        attempt: u32,
    },
    /// A Job is at it.
    Running {
        /// Its name.
        job: String,
        /// From 1.
        attempt: u32,
        /// When to look again: there may be something to say of it by then.
        look: Timestamp,
        /// What its pod waits for, if it says so.
        waiting: Option<String>,
    },
    /// nginx refused it. It is asked again, because a Secret or the image behind a tag may have changed.
    Refused {
        /// nginx's own words.
        message: String,
        /// When it is asked again.
        retry: Timestamp,
    },
    /// nginx could not be asked.
    Failed {
        /// Why, if anybody knows.
        message: Option<String>,
        /// When it is tried again.
        retry: Timestamp,
    },
}

impl Verdict {
    /// When the verdict changes by itself.
    pub fn wake(&self) -> Option<Timestamp> {
        match self {
            Self::Running { look, .. } => Some(*look),
            Self::Refused { retry, .. } | Self::Failed { retry, .. } => Some(*retry),
            Self::Active | Self::Passed | Self::Due { .. } => None,
        }
    }
}

/// The last attempt at the unit with this key, if there was one.
pub fn last_attempt<'a>(key: &str, jobs: &'a [Arc<Job>]) -> Option<(u32, &'a Job)> {
    let of_key = jobs
        .iter()
        .filter(|job| job.labels().get(CHECK).is_some_and(|label| label == key));
    let attempts = of_key.map(|job| {
        (
            job.labels()
                .get(ATTEMPT)
                .and_then(|text| text.parse().ok())
                .unwrap_or(1),
            &**job,
        )
    });
    attempts.max_by_key(|(attempt, _)| *attempt)
}

/// Judges the unit with this key, which is not the active one.
pub fn judge(key: &str, observed: &Observed, now: Timestamp) -> Verdict {
    let Some((attempt, job)) = last_attempt(key, &observed.jobs) else {
        return Verdict::Due { attempt: 1 };
    };
    let pod = pod_of(job, &observed.pods);
    if finished(job, "Complete").is_some() {
        return Verdict::Passed;
    }
    let created = job.creation_timestamp().map_or(now, |time| time.0);
    let after = |seconds| {
        created
            .saturating_add(SignedDuration::from_secs(seconds))
            .unwrap_or(Timestamp::MAX)
    };
    let Some(failure) = finished(job, "Failed") else {
        // Never a second one beside it, whatever the clocks of operator and API server say: its deadline ends it.
        return running(
            job,
            attempt,
            pod,
            [after(PATIENCE_SECONDS), after(OVERDUE_SECONDS)],
            now,
        );
    };
    let ended = failure
        .last_transition_time
        .as_ref()
        .map_or(created, |time| time.0);
    let retry = ended.saturating_add(delay(attempt)).unwrap_or(Timestamp::MAX);
    if now >= retry {
        return Verdict::Due {
            attempt: attempt.saturating_add(1),
        };
    }
    match pod.and_then(ending) {
        Some((code, message)) if code == i32::from(REFUSED) => Verdict::Refused { message, retry },
        Some((code, message)) => {
            let message = if message.is_empty() {
                format!("the check ended with code {code}")
            } else {
                message
            };
            Verdict::Failed {
                message: Some(message),
                retry,
            }
        }
        // The Job controller deletes the pod of a Job that took too long, and its reason with it.
        None => Verdict::Failed {
            message: failure.message.clone(),
            retry,
        },
    }
}

/// What is known of a Job that has not ended.
fn running(
    job: &Job,
    attempt: u32,
    pod: Option<&Pod>,
    [patient, overdue]: [Timestamp; 2],
    now: Timestamp,
) -> Verdict {
    let waiting = pod
        .and_then(waiting)
        .filter(|why| now >= patient || !is_being_made(why));
    let late =
        || "it should have ended by now, which is for the cluster's Job controller to see to".to_owned();
    let looks = [patient, overdue].into_iter().find(|look| now < *look);
    Verdict::Running {
        job: job.name_any(),
        attempt,
        look: looks.unwrap_or_else(|| {
            now.saturating_add(SignedDuration::from_secs(MAX_DELAY_SECONDS))
                .unwrap_or(Timestamp::MAX)
        }),
        waiting: waiting.or_else(|| (now >= overdue).then(late)),
    }
}

fn delay(attempt: u32) -> SignedDuration {
    let doubled =
        FIRST_DELAY_SECONDS.saturating_mul(1_i64.checked_shl(attempt.saturating_sub(1)).unwrap_or(i64::MAX));
    // A shift beyond 62 turns negative; the bound is reached long before.
    let seconds = if attempt > 10 {
        MAX_DELAY_SECONDS
    } else {
        doubled.min(MAX_DELAY_SECONDS)
    };
    SignedDuration::from_secs(seconds)
}

fn finished<'a>(job: &'a Job, type_: &str) -> Option<&'a JobCondition> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    conditions
        .iter()
        .find(|condition| condition.type_ == type_ && condition.status == "True")
}

fn pod_of<'a>(job: &Job, pods: &'a [Arc<Pod>]) -> Option<&'a Pod> {
    let owns = |pod: &&Arc<Pod>| {
        pod.owner_references()
            .iter()
            .any(|owner| Some(&owner.uid) == job.uid().as_ref())
    };
    pods.iter().find(owns).map(|pod| &**pod)
}

/// The states of a pod's containers, those that run first coming first.
fn states(pod: &Pod) -> impl Iterator<Item = (&str, &ContainerState)> {
    let status = pod.status.iter();
    let lists = status.flat_map(|status| [&status.init_container_statuses, &status.container_statuses]);
    lists
        .flatten()
        .flatten()
        .filter_map(|container| Some((container.name.as_str(), container.state.as_ref()?)))
}

/// Exit code and message of the container that checks or, when it did not get so far, of the one that failed before it.
fn ending(pod: &Pod) -> Option<(i32, String)> {
    let ended = |(name, state): (&str, &ContainerState)| {
        let terminated = state.terminated.as_ref()?;
        let failed_before = name != CONTAINER && terminated.exit_code != 0;
        let reason = terminated.reason.clone().unwrap_or_default();
        let message = terminated
            .message
            .clone()
            .map(|text| text.trim().to_owned())
            .filter(|text| !text.is_empty());
        let message = match (message, failed_before) {
            (Some(message), _) => message,
            (None, true) => format!(
                "container {name} ended with code {} ({reason})",
                terminated.exit_code
            ),
            (None, false) if reason != "Error" && reason != "Completed" => reason,
            (None, false) => String::new(),
        };
        (name == CONTAINER || failed_before).then_some((terminated.exit_code, message))
    };
    // A pod that never ran (evicted, say) tells why of itself.
    let of_pod = || {
        let status = pod.status.as_ref()?;
        let text = words(status.reason.as_deref(), status.message.as_deref());
        (!text.is_empty()).then_some((1, text))
    };
    states(pod).find_map(ended).or_else(of_pod)
}

/// Why a pod does not run yet, in Kubernetes' words.
pub fn waiting(pod: &Pod) -> Option<String> {
    let unscheduled =
        unscheduled(pod).map(|condition| words(condition.reason.as_deref(), condition.message.as_deref()));
    let waits = |(name, state): (&str, &ContainerState)| {
        let waiting = state.waiting.as_ref()?;
        let reason = waiting.reason.as_deref();
        reason.map(|reason| {
            format!(
                "container {name}: {}",
                words(Some(reason), waiting.message.as_deref())
            )
        })
    };
    unscheduled.or_else(|| states(pod).find_map(waits))
}

/// Whether this is what every pod waits for in its first seconds, and for ever when a volume cannot be mounted. A container behind an
/// init container says `PodInitializing`, and so does an init container itself.
pub fn is_being_made(why: &str) -> bool {
    why.contains("ContainerCreating") || why.contains("PodInitializing")
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
