//! What is found of a database, condition by condition. Pure.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::decide::Intent;
use super::desired::pod::shape;
use super::error::Error;
use super::live::{Live, waiting};
use super::{reasons, volumes};
use crate::api::database::ValidDatabase;
use crate::api::database::agent::{Report, State as Doing};
use crate::controllers::common::pod::is_ready;
use crate::runtime::apply::ApplyError;
use crate::runtime::conditions::State;

/// The version of the instance manager that this operator puts into pods.
const OWN_VERSION: &str = env!("CARGO_PKG_VERSION");
/// How long ago the primary's last write may have been committed.
pub const WRITE_MS: u64 = 10_000;
/// What is said then.
pub const IS_PAUSED: &str = "spec.paused is true: nothing is changed until it is false";

/// State, reason and message of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What it says.
    pub state: State,
    /// One word in CamelCase.
    pub reason: &'static str,
    /// For people.
    pub message: String,
}

fn verdict(state: State, reason: &'static str, message: impl Into<String>) -> Verdict {
    Verdict {
        state,
        reason,
        message: message.into(),
    }
}

/// Whether writes are taken: the primary has committed one of its own just now, and those of clients wait for nobody who does not stream.
pub fn available(live: &Live<'_>) -> Verdict {
    let Some(leader) = live.lease.leader() else {
        let message = match first_trouble(live) {
            Some(trouble) => format!("no instance is the primary; {trouble}"),
            None => "no instance is the primary".to_owned(),
        };
        return verdict(State::False, reasons::NO_PRIMARY, message);
    };
    let Some(pod) = live.pod(leader) else {
        let message = format!("the pod of the primary, {leader}, is gone");
        return verdict(State::False, reasons::PRIMARY_LOST, message);
    };
    let answer = match live.answer(leader) {
        Some(answer) => answer,
        None if !live.asks => {
            return verdict(
                State::Unknown,
                reasons::NOT_ASKED,
                "instances are not asked how they are",
            );
        }
        None => return not_running(leader, waiting(pod)),
    };
    match answer {
        Err(error) if is_ready(pod) => {
            verdict(State::Unknown, reasons::UNREACHABLE, unreachable(leader, error))
        }
        Err(_) if let Some(why) = waiting(pod) => not_running(leader, Some(why)),
        Err(error) => {
            let message = format!("the primary, {leader}, is not ready, and does not say why: {error}");
            verdict(State::False, reasons::PRIMARY_NOT_READY, message)
        }
        Ok(report) if live.primary().is_none() => {
            let message = format!("{leader} is to be the primary: {}", doing(report));
            verdict(State::False, reasons::PROMOTING, message)
        }
        Ok(report) if report.wrote_ms.is_some_and(|ago| ago < WRITE_MS) => match live.missed(report) {
            None => verdict(State::True, reasons::AVAILABLE, format!("{leader} takes writes")),
            Some(missed) => {
                let missed: Vec<_> = missed.into_iter().filter(|&name| name != leader).collect();
                let trouble = missed.iter().find_map(|name| trouble(live, live.pod(name)?));
                let how_long = if live.required {
                    "no commit is acknowledged before a replica has it"
                } else {
                    "commits wait for a replica, for some seconds before they go on without one"
                };
                let message = format!(
                    "{leader} is the primary, and {how_long}: too few stream of {}{}",
                    missed.join(", "),
                    besides(trouble)
                );
                verdict(State::False, reasons::COMMITS_WAIT, message)
            }
        },
        Ok(report) => {
            let since = report.wrote_ms.map_or("yet", |_| "for 10 s");
            let message = format!(
                "the primary, {leader}, has not committed a write {since}: {}",
                doing(report)
            );
            verdict(State::False, reasons::NO_WRITES, message)
        }
    }
}

fn not_running(leader: &str, why: Option<String>) -> Verdict {
    let message = format!("the primary, {leader}, does not run{}", because(why));
    verdict(State::False, reasons::PRIMARY_NOT_RUNNING, message)
}

/// Whether every wanted replica streams, in the eyes of the primary.
pub fn replication(live: &Live<'_>, wanted: i32) -> Verdict {
    let replicas = usize::try_from(wanted.saturating_sub(1)).unwrap_or(0);
    if wanted <= 0 {
        return verdict(State::Unknown, reasons::WAITING, "there are no instances");
    }
    if replicas == 0 {
        return verdict(
            State::True,
            reasons::NO_REPLICAS,
            "a single instance has no replicas",
        );
    }
    let Some(primary) = live.primary() else {
        let available = available(live);
        let state = match available.state {
            State::False => State::False,
            _ => State::Unknown,
        };
        return verdict(state, available.reason, available.message);
    };
    let leader = live.lease.leader().unwrap_or_default();
    let others = live.pods.iter().filter(|pod| pod.name_any() != leader);
    let (streaming, not): (Vec<_>, Vec<_>) = others.partition(|pod| primary.streams_to(&pod.name_any()));
    let count = streaming.len();
    if count >= replicas {
        return verdict(
            State::True,
            reasons::STREAMING,
            format!("{count} of {replicas} replicas stream"),
        );
    }
    let first = not.first().and_then(|pod| trouble(live, pod));
    let why = besides(first);
    let message = format!("{count} of {replicas} replicas stream{why}");
    verdict(State::False, reasons::NOT_STREAMING, message)
}

/// Whether what the spec says is what instances go by.
pub fn configuration(intent: Intent<'_>, live: &Live<'_>) -> Verdict {
    let (database, decided) = match intent {
        Intent::Refuse(problems) => {
            let consequence = if live.stateful_set.is_some() {
                "what there is stays as it is"
            } else {
                "nothing is made yet"
            };
            return verdict(
                State::False,
                reasons::INVALID_SPEC,
                format!("{problems}; {consequence}"),
            );
        }
        Intent::Pause => return verdict(State::Unknown, reasons::PAUSED, IS_PAUSED),
        Intent::CarryOut(database, decided) => (database, decided),
    };
    if let Some(failure) = live.failure {
        return verdict(State::False, reason_of(failure), failure.to_string());
    }
    let refused = live
        .reports()
        .find_map(|(pod, report)| Some((pod, report.refused.as_ref()?)));
    if let Some((pod, why)) = refused {
        let message = format!("{pod} does not take its settings: {why}");
        return verdict(State::False, reasons::REFUSED, message);
    }
    let found = [
        content_unmade(live).map(|message| (reasons::CONTENT_INCOMPLETE, message)),
        not_shown(database, live).map(|message| (reasons::CERTIFICATE_REFUSED, message)),
    ];
    let mut undone: Vec<_> = found.into_iter().flatten().collect();
    let is_pressing = !undone.is_empty();
    let rolling_out = decided.course.told();
    // Only once every pod is as the spec has it: until then an image may be on its way, and the rollout is what there is to tell.
    if rolling_out.is_none() {
        let found = [
            volumes::not_grown(database, decided, live.volumes).map(|message| (reasons::NOT_GROWN, message)),
            unsupported(database, live).map(|message| (reasons::UNSUPPORTED, message)),
        ];
        undone.extend(found.into_iter().flatten());
    }
    if is_pressing && let Some(undone) = together(&undone) {
        return undone;
    }
    let taken = taken(live);
    if taken.state == State::False {
        return taken;
    }
    if let Some(told) = rolling_out {
        let pending = decided.pending.join("; ");
        let message = format!("{told}; {pending}");
        let message = message.trim_end_matches("; ");
        return verdict(State::False, reasons::ROLLING_OUT, message);
    }
    if let Some(undone) = together(&undone) {
        return undone;
    }
    if let Some(message) = volumes::resizing(database, decided, live.volumes) {
        return verdict(State::False, reasons::RESIZING, message);
    }
    if taken.state == State::True
        && let Some(not_yet) = content_made(live)
    {
        return not_yet;
    }
    if taken.state != State::True {
        return taken;
    }
    let message = [Some(taken.message.clone()), of_before(live), other_managers(live)];
    let message: Vec<String> = message.into_iter().flatten().collect();
    Verdict {
        message: message.join("; "),
        ..taken
    }
}

/// All that somebody has to mend, under the reason of the first.
fn together(undone: &[(&'static str, String)]) -> Option<Verdict> {
    let (reason, _) = undone.first()?;
    let messages: Vec<&str> = undone.iter().map(|(_, message)| message.as_str()).collect();
    Some(verdict(State::False, reason, messages.join("; ")))
}

/// What the spec asks for and this version does not do: it takes the minor version that is in the image.
fn unsupported(database: &ValidDatabase, live: &Live<'_>) -> Option<String> {
    let runs = live.primary()?.version.as_deref()?;
    let is_other = database.version.contains('.') && runs != database.version;
    is_other.then(|| format!("spec.version: PostgreSQL {runs} runs, since that is in the image"))
}

/// Which pods an earlier operator has made.
fn of_before(live: &Live<'_>) -> Option<String> {
    let outdated = live.outdated();
    (!outdated.is_empty()).then(|| {
        format!(
            "the pods of {} are as an earlier operator made them, and get what is new when they are made anew for another reason",
            outdated.join(", ")
        )
    })
}

/// Which instance managers run that are not of this operator's version.
fn other_managers(live: &Live<'_>) -> Option<String> {
    let other = |(pod, report): (&str, &Report)| {
        let is_other = !report.manager.is_empty() && report.manager != OWN_VERSION;
        is_other.then(|| format!("{pod} runs instance manager {}", report.manager))
    };
    let others: Vec<String> = live.reports().filter_map(other).collect();
    let when = match others.len() {
        0 => return None,
        1 => "its pod is",
        _ => "their pods are",
    };
    Some(format!(
        "{}; {OWN_VERSION} is installed when {when} next recreated",
        others.join(", ")
    ))
}

/// What the primary could not make of users, databases and extensions.
fn content_unmade(live: &Live<'_>) -> Option<String> {
    let unmade = &live.primary()?.unmade;
    (!unmade.is_empty()).then(|| unmade.join("; "))
}

/// Why the certificate that the author names is not shown, in the words of an instance to which it was given.
fn not_shown(database: &ValidDatabase, live: &Live<'_>) -> Option<String> {
    let secret = database.tls.certificate_secret.as_ref()?;
    let shape = shape(database);
    let mut given = live.reports().filter(|(pod, _)| live.has_shape(pod, &shape));
    let why = given.find_map(|(_, report)| report.certificate.as_ref())?;
    Some(format!(
        "spec.tls.certificateSecret: Secret {secret} is not taken: {why}"
    ))
}

/// That users, databases and extensions of the present settings are not known to be all there, if they are not.
fn content_made(live: &Live<'_>) -> Option<Verdict> {
    let Some(primary) = live.primary() else {
        let message = "there is no primary that could say what users and databases there are";
        return Some(verdict(State::Unknown, reasons::WAITING, message));
    };
    let is_made = live.settings.is_some() && primary.made.as_deref() == live.settings;
    let message = "the primary has not made all users, databases and extensions yet";
    (!is_made).then(|| verdict(State::False, reasons::LOADING, message))
}

/// Whether every instance says that it goes by the present settings.
pub fn taken(live: &Live<'_>) -> Verdict {
    if !live.asks {
        return verdict(
            State::Unknown,
            reasons::NOT_ASKED,
            "instances are not asked what they go by",
        );
    }
    let pods = live.pods.len();
    let behind = live
        .reports()
        .filter(|(_, report)| report.settings.as_deref() != live.settings)
        .count();
    let runs = |pod: &str| live.pod(pod).is_none_or(|pod| waiting(pod).is_none());
    let silent = live
        .asked
        .iter()
        .filter(|asked| runs(&asked.pod))
        .find_map(|asked| Some((&asked.pod, asked.answer.as_ref().err()?)));
    let known = live.reports().count();
    match silent {
        _ if behind > 0 => {
            let message = format!(
                "{} of {pods} instances go by the present settings",
                known - behind
            );
            verdict(State::False, reasons::LOADING, message)
        }
        Some((pod, error)) => verdict(State::Unknown, reasons::UNREACHABLE, unreachable(pod, error)),
        None if known == 0 || known < pods => {
            let trouble = live.pods.iter().find_map(|pod| kept_from_running(pod));
            let message = format!("{known} of {pods} instances run{}", because(trouble));
            verdict(State::Unknown, reasons::WAITING, message)
        }
        None => verdict(
            State::True,
            reasons::APPLIED,
            "all instances go by the present settings",
        ),
    }
}

/// Whether something is under way, and what.
pub fn progressing(intent: Intent<'_>, live: &Live<'_>, wanted: i32) -> Verdict {
    let (database, decided) = match intent {
        Intent::Pause => return verdict(State::False, reasons::PAUSED, IS_PAUSED),
        Intent::Refuse(_) => {
            return verdict(
                State::False,
                reasons::INVALID_SPEC,
                "the spec has to be mended first",
            );
        }
        Intent::CarryOut(database, decided) => (database, decided),
    };
    if let Some(failure) = live.failure {
        return verdict(State::False, reason_of(failure), failure.to_string());
    }
    let moves = |report: &Report| {
        matches!(
            report.state,
            Doing::Initialising
                | Doing::Joining
                | Doing::Rewinding
                | Doing::Starting
                | Doing::Promoting
                | Doing::Stopping
        )
    };
    if let Some(told) = decided.course.told() {
        return verdict(State::True, reasons::ROLLING_OUT, told);
    }
    // Whoever holds the Lease and does nothing is about to: the Lease as it is known may be older than the answers.
    let holds = |pod: &str| live.lease.leader() == Some(pod);
    let mut reports = live.reports();
    let moving = reports.find(|(pod, report)| moves(report) || report.state == Doing::Waiting && holds(pod));
    if let Some((pod, report)) = moving {
        let reason = match report.state {
            Doing::Waiting => reasons::PROMOTING,
            state => state.name(),
        };
        return verdict(State::True, reason, format!("{pod}: {}", doing(report)));
    }
    // In between neither the one nor the other says so.
    if let Some(stopped) = live.lease.stopped {
        let message = format!("the primary was stopped in order at {stopped:.0}, and there is none since");
        return verdict(State::True, reasons::PROMOTING, message);
    }
    let pods = i32::try_from(live.pods.len()).unwrap_or(i32::MAX);
    if pods < wanted {
        let message = format!("{pods} of {wanted} instances have a pod");
        return verdict(State::True, reasons::SCALING, message);
    }
    let starting = live
        .pods
        .iter()
        .find(|pod| live.answer(&pod.name_any()).is_none() && !is_ready(pod));
    if let Some(pod) = starting.filter(|_| live.asks) {
        let message = format!("{} starts{}", pod.name_any(), because(waiting(pod)));
        return verdict(State::True, reasons::STARTING, message);
    }
    let taken = taken(live);
    if taken.reason == reasons::LOADING {
        return verdict(State::True, taken.reason, taken.message);
    }
    if let Some(message) = volumes::resizing(database, decided, live.volumes) {
        return verdict(State::True, reasons::RESIZING, message);
    }
    verdict(State::False, reasons::COMPLETE, "nothing is under way")
}

/// Why a write failed: what people can mend by a name of its own.
fn reason_of(failure: &Error) -> &'static str {
    match failure {
        Error::Apply(ApplyError::NotOurs { .. }) => reasons::NAME_TAKEN,
        Error::Apply(ApplyError::Rejected { .. }) => reasons::REJECTED,
        _ => reasons::BLOCKED,
    }
}

/// What is known of the first instance that is not ready.
pub fn not_ready(live: &Live<'_>) -> String {
    let mut not = live.pods.iter().filter(|pod| !is_ready(pod));
    besides(not.find_map(|pod| trouble(live, pod)))
}

/// What keeps all instances from being the primary: one that waits for another, or for a person, knows more of it than one that is on its way.
fn first_trouble(live: &Live<'_>) -> Option<String> {
    let rank = |pod: &&Arc<Pod>| match live.answer(&pod.name_any()) {
        Some(Ok(report)) if report.state == Doing::Failed => 0,
        Some(Ok(report)) if report.state == Doing::Waiting => 1,
        _ => 2,
    };
    let mut pods: Vec<&Arc<Pod>> = live.pods.iter().collect();
    pods.sort_by_key(rank);
    pods.into_iter().find_map(|pod| trouble(live, pod))
}

/// What is known of an instance that does not serve.
fn trouble(live: &Live<'_>, pod: &Pod) -> Option<String> {
    let name = pod.name_any();
    match live.answer(&name) {
        Some(Ok(report)) => Some(format!("{name}: {}", doing(report))),
        Some(Err(error)) => kept_from_running(pod).or_else(|| Some(unreachable(&name, error))),
        None => kept_from_running(pod),
    }
}

/// Why a pod does not run, with its name.
fn kept_from_running(pod: &Pod) -> Option<String> {
    Some(format!("{}: {}", pod.name_any(), waiting(pod)?))
}

fn doing(report: &Report) -> String {
    let state = report.state.name();
    match &report.message {
        Some(message) => format!("{state}, {message}"),
        None => state.to_owned(),
    }
}

fn unreachable(pod: &str, error: &str) -> String {
    format!("{pod} does not say how it is: {error}")
}

fn because(why: Option<String>) -> String {
    why.map(|why| format!(": {why}")).unwrap_or_default()
}

fn besides(what: Option<String>) -> String {
    what.map(|what| format!("; {what}")).unwrap_or_default()
}
