//! What is said of a proxy. Pure: time is an argument.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;

use super::check::{Verdict, is_being_made, waiting};
use super::live::{Live, is_ready, staying};
use super::loaded::Loaded;
use super::plan::{Intent, Plan};
use super::rollout::{count, how_far, is_observed, is_rolling_out, is_stalled, wanted};
use crate::api::my_proxy::{MyProxy, MyProxyStatus};
use crate::runtime::apply::ApplyError;
use crate::runtime::conditions::{Conditions, READY, State, find};

/// nginx accepts the configuration of this very spec.
pub const CONFIG_VALID: &str = "ConfigValid";
/// As many pods serve as the spec asks for, of whichever revision. It counts pods and nothing else.
pub const AVAILABLE: &str = "Available";
/// The cluster has all that was to be written, every pod is of that revision and of the present name, and each of them serves the
/// configuration that it was given last.
pub const UP_TO_DATE: &str = "UpToDate";
/// Something is under way: a check, or a rollout.
pub const PROGRESSING: &str = "Progressing";
/// Pods have yet to take the configuration.
const LOADING: &str = "Loading";
/// What a pod serves is not known.
const UNREACHABLE: &str = "PodsUnreachable";
/// They have had time enough for it.
const STALLED: &str = "LoadingStalled";
/// How long a mounted configuration may take to be served: kubelets look every minute or so, and a Deployment has as long for a pod.
const LOADING_DEADLINE: SignedDuration = SignedDuration::from_mins(5);
/// The author asks that nothing be changed.
const PAUSED: &str = "Paused";
const IS_PAUSED: &str = "spec.paused is true: nothing is changed until it is false";
/// The phase of a proxy whose children are being removed.
pub const DELETING: &str = "Deleting";

/// What a status is computed from.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// What was made of the spec.
    pub intent: Intent<'a>,
    /// What there is since it was carried out.
    pub live: Live<'a>,
    /// What the pods serve.
    pub loaded: &'a Loaded,
    /// Since when they have been loading, if they are; now otherwise.
    pub loading_since: Timestamp,
}

/// Computes the status. The same observations give the same status, whenever it is computed.
pub fn compute(proxy: &MyProxy, seen: &Seen<'_>, now: Timestamp) -> MyProxyStatus {
    let nothing = MyProxyStatus::default();
    let before = proxy.status.as_ref().unwrap_or(&nothing);
    let mut conditions = Conditions::new(&before.conditions, proxy.metadata.generation, now);
    config_valid(&mut conditions, before, seen);
    available(&mut conditions, seen);
    rollout(&mut conditions, before, seen, now);
    // What keeps a write from being made tells more than the pods that are missing for it.
    let all = [CONFIG_VALID, UP_TO_DATE, AVAILABLE];
    let without_asking = [CONFIG_VALID, AVAILABLE];
    conditions.ready_from(match (seen.intent, seen.loaded) {
        // Where the operator does not reach pods, what Deployment and kubelet say of them has to do. And so while it is to leave them alone.
        (Intent::Pause, _) | (_, Loaded::Silent { .. }) => &without_asking,
        _ => &all,
    });
    let is_ready = State::of(conditions.get(READY)) == State::True;
    if is_ready && matches!(seen.intent, Intent::Pause) {
        conditions.set(
            READY,
            State::True,
            PAUSED,
            format!("it serves as it is; {IS_PAUSED}"),
        );
    }
    let live = seen
        .live
        .deployment
        .and_then(|deployment| deployment.status.as_ref());
    MyProxyStatus {
        pod_names: sorted_names(seen.live.present_pods()),
        phase: Some(phase(&conditions, before, seen).to_owned()),
        observed_generation: proxy.metadata.generation,
        replicas: live.and_then(|status| status.replicas).unwrap_or(0),
        ready_replicas: live.and_then(|status| status.ready_replicas).unwrap_or(0),
        selector: seen.live.deployment.and_then(selector),
        conditions: conditions.finish(),
    }
}

/// What the status of a proxy is while it is deleted, from the pods that are left.
pub fn deleting(proxy: &MyProxy, pods: &[Arc<Pod>], now: Timestamp) -> MyProxyStatus {
    let before = proxy.status.clone().unwrap_or_default();
    let mut conditions = Conditions::new(&before.conditions, proxy.metadata.generation, now);
    if let Some(said) = find(&before.conditions, CONFIG_VALID) {
        keep(&mut conditions, said);
    }
    let message = "the proxy is being deleted";
    conditions.set(AVAILABLE, State::False, "Deleting", message);
    conditions.set(UP_TO_DATE, State::False, "Deleting", message);
    conditions.set(PROGRESSING, State::True, "Deleting", message);
    conditions.set(READY, State::False, "Deleting", message);
    let left: Vec<_> = staying(pods).collect();
    MyProxyStatus {
        pod_names: sorted_names(left.iter().copied()),
        phase: Some(DELETING.to_owned()),
        observed_generation: proxy.metadata.generation,
        replicas: i32::try_from(left.len()).unwrap_or(i32::MAX),
        ready_replicas: i32::try_from(left.iter().filter(|pod| is_ready(pod)).count()).unwrap_or(i32::MAX),
        selector: before.selector,
        conditions: conditions.finish(),
    }
}

/// Whether it was said that a pod does not tell what it serves.
pub fn knows_of_silence(proxy: &MyProxy) -> bool {
    let before = proxy.status.as_ref();
    let said = before.and_then(|before| find(&before.conditions, UP_TO_DATE));
    said.is_some_and(|condition| condition.reason == UNREACHABLE)
}

/// Says again what was said before.
fn keep(conditions: &mut Conditions, said: &Condition) {
    conditions.set(
        &said.type_,
        State::of(Some(said)),
        &said.reason,
        said.message.clone(),
    );
}

fn sorted_names<'a>(pods: impl Iterator<Item = &'a Arc<Pod>>) -> Vec<String> {
    let mut names: Vec<_> = pods.map(|pod| pod.name_any()).collect();
    names.sort();
    names
}

fn selector(deployment: &Deployment) -> Option<String> {
    let labels = deployment.spec.as_ref()?.selector.match_labels.as_ref()?;
    Some(
        labels
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect::<Vec<_>>()
            .join(","),
    )
}

fn config_valid(conditions: &mut Conditions, before: &MyProxyStatus, seen: &Seen<'_>) {
    let plan = match seen.intent {
        Intent::CarryOut(plan) => plan,
        Intent::Refuse(problems) => {
            let message = with_consequence(&problems.to_string(), seen.live.deployment.is_some());
            return conditions.set(CONFIG_VALID, State::False, "InvalidSpec", message);
        }
        // What was said of the configuration that is active is true still.
        Intent::Pause => {
            return match find(&before.conditions, CONFIG_VALID) {
                Some(said) if State::of(Some(said)) == State::True => keep(conditions, said),
                _ => conditions.set(CONFIG_VALID, State::Unknown, PAUSED, IS_PAUSED),
            };
        }
    };
    // Pods keep what they have loaded, even if the ConfigMap that it came from is lost.
    let serves = plan.active.is_some() || seen.live.deployment.is_some();
    // What the last attempt said stays until the next one has said something.
    let last = find(&before.conditions, CONFIG_VALID)
        .filter(|condition| matches!(condition.reason.as_str(), "Refused" | "CheckFailed"));
    match &plan.verdict {
        Verdict::Active | Verdict::Passed => {
            conditions.set(
                CONFIG_VALID,
                State::True,
                "Accepted",
                "nginx accepts the configuration",
            );
        }
        Verdict::Due { attempt } | Verdict::Running { attempt, .. } if *attempt > 1 && last.is_some() => {
            if let Some(last) = last {
                keep(conditions, last);
            }
        }
        Verdict::Running {
            job,
            waiting: Some(waiting),
            ..
        } => {
            let message = format!("Job {job} waits to run nginx -t: {}", explain(plan, waiting));
            conditions.set(
                CONFIG_VALID,
                State::Unknown,
                "CheckWaiting",
                with_consequence(&message, serves),
            );
        }
        // At the deadline the pod goes before the Job has failed, and with it what it waited for.
        Verdict::Running { job, .. } if waited_for(before, job).is_some() => {
            let message = waited_for(before, job).unwrap_or_default();
            conditions.set(CONFIG_VALID, State::Unknown, "CheckWaiting", message);
        }
        Verdict::Due { .. } | Verdict::Running { .. } => {
            conditions.set(
                CONFIG_VALID,
                State::Unknown,
                "Checking",
                "nginx -t is being run on the configuration",
            );
        }
        Verdict::Refused { message, .. } => {
            let message = with_consequence(&format!("nginx refuses the configuration: {message}"), serves);
            conditions.set(CONFIG_VALID, State::False, "Refused", message);
        }
        Verdict::Failed { message, .. } => {
            let waited = find(&before.conditions, CONFIG_VALID)
                .filter(|said| matches!(said.reason.as_str(), "CheckWaiting" | "CheckFailed"));
            // The pod that could tell is gone; what it waited for was said while it was there.
            let message = match (message, waited) {
                (_, Some(waited)) if waited.reason == "CheckFailed" => waited.message.clone(),
                (_, Some(waited)) => format!("nginx -t could not be run in time: {}", waited.message),
                (Some(message), None) => {
                    with_consequence(&format!("nginx -t could not be run: {message}"), serves)
                }
                (None, None) => with_consequence("nginx -t could not be run", serves),
            };
            conditions.set(CONFIG_VALID, State::Unknown, "CheckFailed", message);
        }
    }
}

/// What was said that this Job waits for.
fn waited_for(before: &MyProxyStatus, job: &str) -> Option<String> {
    let mut conditions = before.conditions.iter();
    let about =
        |condition: &&Condition| condition.reason == "CheckWaiting" && condition.message.contains(job);
    conditions.find(about).map(|condition| condition.message.clone())
}

fn with_consequence(message: &str, serves: bool) -> String {
    let consequence = if serves {
        "the last good configuration keeps serving"
    } else {
        "nothing serves yet"
    };
    format!("{message}; {consequence}")
}

/// What a check waits for. Why a container is still being made the kubelet tells in an Event only: nearly always an image is being pulled,
/// or a Secret is missing.
fn explain(plan: &Plan, waiting: &str) -> String {
    match &plan.unit.tls_secret {
        _ if !is_being_made(waiting) => waiting.to_owned(),
        Some(secret) => format!(
            "its pod is still being set up; Secret {secret} with tls.crt and tls.key has to exist for that ({waiting})"
        ),
        None => format!("its pod is still being set up ({waiting})"),
    }
}

fn available(conditions: &mut Conditions, seen: &Seen<'_>) {
    let Some(deployment) = seen.live.deployment else {
        let message = "no pod is started before nginx accepts the configuration";
        return conditions.set(AVAILABLE, State::False, "NotStarted", message);
    };
    let available = |deployment: &Deployment| count(deployment, |status| status.available_replicas);
    // The Service leads to pods of earlier names too.
    let earlier = seen.live.earlier.iter().map(|deployment| available(deployment));
    let (ready, wanted) = (
        earlier.fold(available(deployment), i32::saturating_add),
        wanted(deployment),
    );
    let message = format!("{ready} of {wanted} pods are ready");
    // Not `rollout::is_available`: that the spec was not looked at yet takes nothing from the pods that serve.
    match (ready >= wanted, ready) {
        (true, _) if wanted == 0 => {
            conditions.set(AVAILABLE, State::True, "ScaledToZero", "no pods are wanted")
        }
        (true, _) => conditions.set(AVAILABLE, State::True, "Available", message),
        (false, ready) => {
            let reason = if ready == 0 { "NoPodReady" } else { "PodsNotReady" };
            let message = match why_pods_wait(seen) {
                Some(why) => format!("{message}; {why}"),
                None => message,
            };
            conditions.set(AVAILABLE, State::False, reason, message);
        }
    }
}

/// Sets [`UP_TO_DATE`] and [`PROGRESSING`]: how far what was planned has got.
fn rollout(conditions: &mut Conditions, before: &MyProxyStatus, seen: &Seen<'_>, now: Timestamp) {
    // Only the first attempt gets on; those after it make sure that nothing changed.
    let checking = seen.intent.plan().is_some_and(|plan| {
        matches!(
            plan.verdict,
            Verdict::Due { attempt: 1 } | Verdict::Running { attempt: 1, .. }
        )
    });
    let (up_to_date, progressing, reason, message) = match seen.live.deployment {
        _ if let Some(failure) = seen.live.failure => (
            State::False,
            State::False,
            reason_of(failure),
            failure.to_string(),
        ),
        _ if matches!(seen.intent, Intent::Pause) => {
            (State::Unknown, State::False, PAUSED, IS_PAUSED.to_owned())
        }
        Some(deployment) if is_stalled(deployment) => {
            let why = why_pods_wait(seen).unwrap_or_else(|| "new pods do not become ready".to_owned());
            let message = format!("the rollout does not get on: {why}");
            (State::False, State::False, "Stalled", message)
        }
        Some(deployment) if !is_observed(deployment) => {
            let message = format!("Deployment {} has not been looked at yet", deployment.name_any());
            (State::False, State::True, "RollingOut", message)
        }
        Some(deployment) if is_rolling_out(deployment) => {
            (State::False, State::True, "RollingOut", how_far(deployment))
        }
        Some(deployment) if !seen.live.earlier.is_empty() => {
            let message = format!("Deployment {} takes over", deployment.name_any());
            (State::False, State::True, "Renaming", message)
        }
        Some(_) => loaded(seen, before, now),
        None => (
            State::Unknown,
            State::False,
            "Waiting",
            "the configuration has to be accepted first".to_owned(),
        ),
    };
    conditions.set(UP_TO_DATE, up_to_date, reason, message.clone());
    if checking && matches!(reason, "Complete" | "Waiting") {
        let message = "nginx -t is being run on the configuration";
        conditions.set(PROGRESSING, State::True, "Checking", message);
    } else {
        conditions.set(PROGRESSING, progressing, reason, message);
    }
}

/// Of a Deployment that is rolled out: whether its pods serve what they were given, whether that gets on, reason and message.
fn loaded(seen: &Seen<'_>, before: &MyProxyStatus, now: Timestamp) -> (State, State, &'static str, String) {
    // An operator that was started again does not know for how long, but it knows what was said.
    let stalled = find(&before.conditions, UP_TO_DATE).is_some_and(|condition| condition.reason == STALLED);
    let stalled = stalled || now.duration_since(seen.loading_since) > LOADING_DEADLINE;
    match seen.loaded {
        Loaded::NothingToServe => {
            let message = "the configuration has to be accepted first".to_owned();
            (State::Unknown, State::False, "Waiting", message)
        }
        Loaded::NotAsked | Loaded::Everywhere => {
            let message = "all pods are up to date".to_owned();
            (State::True, State::False, "Complete", message)
        }
        Loaded::Loading {
            serving,
            pods,
            waiting,
        } => {
            let message = format!("{serving} of {pods} pods serve the configuration");
            match waiting {
                Some(pod) if stalled => {
                    let message = format!(
                        "{message}; pod {pod} has not taken it for minutes: look at its log and its node"
                    );
                    (State::False, State::False, STALLED, message)
                }
                _ => (State::False, State::True, LOADING, message),
            }
        }
        Loaded::Refused { pod, reason } => {
            let message = format!("pod {pod} keeps what it served before: {reason}");
            (State::False, State::False, "RefusedByPod", message)
        }
        Loaded::Silent { pod, error } => {
            let message = format!(
                "what pod {pod} serves is not known: {error} (does a NetworkPolicy or a mesh keep the operator from its pods? With --ask-pods=false it does not ask)"
            );
            (State::Unknown, State::False, UNREACHABLE, message)
        }
    }
}

/// Why nothing gets on: what people can mend by a name of its own.
fn reason_of(failure: &ApplyError) -> &'static str {
    match failure {
        ApplyError::NotOurs { .. } => "NameTaken",
        ApplyError::Rejected { .. } => "Rejected",
        _ => "Blocked",
    }
}

/// The first reason that a pod which proxies gives for not running.
fn why_pods_wait(seen: &Seen<'_>) -> Option<String> {
    seen.live.present_pods().find_map(|pod| {
        waiting(pod)
            .filter(|why| !is_being_made(why))
            .map(|why| format!("pod {}: {why}", pod.name_any()))
    })
}

fn phase(conditions: &Conditions, before: &MyProxyStatus, seen: &Seen<'_>) -> &'static str {
    let is = |type_: &str, state: State| {
        conditions
            .get(type_)
            .is_some_and(|condition| condition.status == state.as_str())
    };
    let served_before = matches!(before.phase.as_deref(), Some("Running" | "Updating" | "Degraded"));
    let (available, progressing) = (is(AVAILABLE, State::True), is(PROGRESSING, State::True));
    match (available, progressing) {
        (true, true) => "Updating",
        (true, false) if is(READY, State::True) => "Running",
        (true, false) => "Degraded",
        (false, true) if served_before => "Updating",
        (false, true) => "Creating",
        (false, false) if served_before && seen.live.deployment.is_some() => "Degraded",
        (false, false) if matches!(seen.intent, Intent::Pause) => "Creating",
        (false, false) => "Failed",
    }
}

#[cfg(test)]
#[path = "status_rollout_tests.rs"]
mod rollout_tests;
#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
