//! What is said of a database. Pure: time is an argument.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp, Unit};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::ResourceExt;

use super::decide::{Intent, system_identifier};
use super::desired::names;
use super::lag::coarse;
use super::lease::Missing;
use super::live::Live;
use super::verdict::{self, IS_PAUSED, Verdict};
use super::{reasons, volumes};
use crate::api::database::agent::{Lsn, ROLE_LABEL, Report, Role, State as Doing};
use crate::api::database::v1::{Database, DatabaseStatus, InstanceStatus, Loss, WritePause};
use crate::api::quantity;
use crate::controllers::common::pod::is_ready;
use crate::runtime::conditions::{Conditions, READY, State, find};

/// The primary says that a write of its own was committed less than 10 s ago, and those of clients need wait for nobody who does not stream.
pub const AVAILABLE: &str = "Available";
/// Every wanted replica streams.
pub const REPLICATION_HEALTHY: &str = "ReplicationHealthy";
/// What the spec says is what the instances go by, all of it.
pub const CONFIGURATION_APPLIED: &str = "ConfigurationApplied";
/// Something is under way.
pub const PROGRESSING: &str = "Progressing";
/// What has served before does not serve in full.
pub const DEGRADED: &str = "Degraded";
/// Backups are made as the spec asks.
pub const BACKUPS_CONFIGURED: &str = "BackupsConfigured";
/// The phase of a database whose children are being removed.
pub const DELETING: &str = "Deleting";

/// Of [`CONFIGURATION_APPLIED`]: nothing of the spec can be brought about.
const BLOCKING: [&str; 5] = [
    reasons::INVALID_SPEC,
    reasons::NAME_TAKEN,
    reasons::REJECTED,
    reasons::BLOCKED,
    reasons::REFUSED,
];

/// So late at most it is noticed that a change has begun, by clocks that differ.
const LATE: SignedDuration = SignedDuration::from_secs(5);

/// What a status is computed from.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// What was made of the spec.
    pub intent: Intent<'a>,
    /// What there is since it was carried out.
    pub live: Live<'a>,
    /// The pods of instances that are to go, and count no more.
    pub leaving: &'a [Arc<Pod>],
    /// The cluster's DNS domain.
    pub cluster_domain: &'a str,
}

impl Seen<'_> {
    /// How many instances there are to be.
    fn wanted(&self) -> i32 {
        match self.intent {
            Intent::CarryOut(_, decided) => decided.members,
            // What there is counts, and not what a spec asks for that nobody carries out.
            Intent::Pause | Intent::Refuse(_) => self.live.replicas().unwrap_or(0),
        }
    }
}

/// Computes the status. The same observations give the same status, whenever it is computed.
pub fn compute(database: &Database, seen: &Seen<'_>, now: Timestamp) -> DatabaseStatus {
    let nothing = DatabaseStatus::default();
    let before = database.status.as_ref().unwrap_or(&nothing);
    let conditions = conditions(database, before, seen, now);
    let ready = conditions.get(READY);
    let streams = state(&conditions, REPLICATION_HEALTHY) == State::True;
    let is_amiss =
        |ready: &&Condition| ready.status != "True" && !(ready.reason == reasons::ROLLING_OUT && streams);
    let error = ready.filter(is_amiss);
    let live = &seen.live;
    let version = live.primary().and_then(|primary| primary.version.clone());
    let namespace = database.namespace().unwrap_or_default();
    let decided = match seen.intent {
        Intent::CarryOut(_, decided) => decided.system_identifier.as_deref(),
        Intent::Pause | Intent::Refuse(_) => None,
    };
    let pods = live.pods.iter().chain(seen.leaving);
    DatabaseStatus {
        phase: Some(phase(&conditions, before, seen).to_owned()),
        observed_generation: database.metadata.generation,
        endpoint: Some(names::host(&database.name_any(), &namespace, seen.cluster_domain)),
        version: version.or_else(|| before.version.clone()),
        replicas: i32::try_from(live.pods.len() + seen.leaving.len()).unwrap_or(i32::MAX),
        ready_replicas: i32::try_from(live.ready()).unwrap_or(i32::MAX),
        primary: live.lease.leader().map(str::to_owned),
        timeline: live.lease.leader().and(live.lease.timeline).or(before.timeline),
        system_identifier: system_identifier(Some(before), live.lease, decided),
        instances: pods.map(|pod| instance(live, pod)).collect(),
        volume_size: volume_size(before, seen),
        last_write_pause: last_write_pause(before, live),
        last_loss: last_loss(before, live),
        error: error.map(|ready| ready.message.clone()),
        conditions: conditions.finish(),
    }
}

fn conditions(database: &Database, before: &DatabaseStatus, seen: &Seen<'_>, now: Timestamp) -> Conditions {
    let (live, wanted) = (&seen.live, seen.wanted());
    let mut conditions = Conditions::new(&before.conditions, database.metadata.generation, now);
    let found = [
        (AVAILABLE, verdict::available(live)),
        (REPLICATION_HEALTHY, verdict::replication(live, wanted)),
        (CONFIGURATION_APPLIED, verdict::configuration(seen.intent, live)),
        (PROGRESSING, verdict::progressing(seen.intent, live, wanted)),
    ];
    for (type_, verdict) in found {
        set(&mut conditions, type_, verdict);
    }
    if database.spec.backup.enabled {
        let message = "spec.backup: this version makes no backups yet";
        conditions.set(BACKUPS_CONFIGURED, State::False, reasons::UNSUPPORTED, message);
    }
    ready(&mut conditions, before, seen, wanted);
    degraded(&mut conditions, before, live);
    conditions
}

/// What the status of a database is while it is deleted, from the pods that are left.
pub fn deleting(database: &Database, pods: &[Arc<Pod>], now: Timestamp) -> DatabaseStatus {
    let before = database.status.clone().unwrap_or_default();
    let mut conditions = Conditions::new(&before.conditions, database.metadata.generation, now);
    let message = "the database is being deleted";
    for type_ in [AVAILABLE, REPLICATION_HEALTHY, CONFIGURATION_APPLIED, READY] {
        conditions.set(type_, State::False, reasons::DELETING, message);
    }
    conditions.set(DEGRADED, State::False, reasons::DELETING, message);
    conditions.set(PROGRESSING, State::True, reasons::DELETING, message);
    let left = |pod: &Arc<Pod>| {
        before
            .instances
            .iter()
            .find(|instance| instance.name == pod.name_any())
            .cloned()
            .unwrap_or_else(|| InstanceStatus {
                name: pod.name_any(),
                ..InstanceStatus::default()
            })
    };
    let ready = pods.iter().filter(|pod| is_ready(pod)).count();
    DatabaseStatus {
        phase: Some(DELETING.to_owned()),
        observed_generation: database.metadata.generation,
        replicas: i32::try_from(pods.len()).unwrap_or(i32::MAX),
        ready_replicas: i32::try_from(ready).unwrap_or(i32::MAX),
        instances: pods.iter().map(left).collect(),
        error: None,
        conditions: conditions.finish(),
        ..before
    }
}

/// Whether a status says that all is well.
pub fn is_ready_in(status: &DatabaseStatus) -> bool {
    State::of(find(&status.conditions, READY)) == State::True
}

/// Whether it says that instances, or what is in them, are not yet as they were told to be.
pub fn is_loading_in(status: &DatabaseStatus) -> bool {
    find(&status.conditions, CONFIGURATION_APPLIED).is_some_and(|applied| applied.reason == reasons::LOADING)
}

/// Whether it says that all has been well at least once: until then [`DEGRADED`] gives that it has not as its reason. The phase does not tell, since one that is
/// paused, or whose spec is invalid, is called so from the beginning.
pub fn has_served(status: &DatabaseStatus) -> bool {
    find(&status.conditions, DEGRADED).is_some_and(|degraded| degraded.reason != reasons::CREATING)
}

/// Whether it has served before, and this condition says that it does not now.
pub fn is_degraded(status: &DatabaseStatus, type_: &str) -> bool {
    let state = |type_| State::of(find(&status.conditions, type_));
    state(DEGRADED) == State::True && state(type_) == State::False
}

fn set(conditions: &mut Conditions, type_: &str, verdict: Verdict) {
    conditions.set(type_, verdict.state, verdict.reason, verdict.message);
}

fn state(conditions: &Conditions, type_: &str) -> State {
    State::of(conditions.get(type_))
}

fn reason<'a>(conditions: &'a Conditions, type_: &str) -> &'a str {
    conditions
        .get(type_)
        .map_or("", |condition| condition.reason.as_str())
}

/// Whether nothing of the spec can be brought about. One write that the API server could not do takes nothing from a database that serves: the next one may
/// be done.
fn is_blocked(conditions: &Conditions, before: &DatabaseStatus) -> bool {
    let was = find(&before.conditions, CONFIGURATION_APPLIED)
        .is_some_and(|applied| applied.reason == reasons::BLOCKED);
    let reason = reason(conditions, CONFIGURATION_APPLIED);
    BLOCKING.contains(&reason) && (reason != reasons::BLOCKED || was)
}

/// Writes are taken, every replica streams, all instances are there and are as the spec has them, so that whoever waits for it after a change waits for the
/// change. What this version does not do yet takes nothing from it: that is said by [`CONFIGURATION_APPLIED`].
fn ready(conditions: &mut Conditions, before: &DatabaseStatus, seen: &Seen<'_>, wanted: i32) {
    let all = [CONFIGURATION_APPLIED, AVAILABLE, REPLICATION_HEALTHY];
    let is_blocked = is_blocked(conditions, before);
    conditions.ready_from(if is_blocked { &all } else { &all[1..] });
    // While it is brought to another shape, replicas are away by turns: one reason for all of that.
    if !is_blocked
        && state(conditions, AVAILABLE) == State::True
        && let Some(told) = rolling_out(seen)
    {
        // One that is stuck says why
        let replication = conditions.get(REPLICATION_HEALTHY);
        let replication = replication.filter(|replication| replication.status != "True");
        let message = match replication {
            Some(replication) => format!("{told}; {}", replication.message),
            None => told,
        };
        conditions.set(READY, State::False, reasons::ROLLING_OUT, message);
    }
    if state(conditions, READY) != State::True {
        return;
    }
    let ready = seen.live.ready();
    let taken = verdict::taken(&seen.live);
    if i32::try_from(ready).unwrap_or(i32::MAX) < wanted {
        let message = format!(
            "{ready} of {wanted} instances are ready{}",
            verdict::not_ready(&seen.live)
        );
        conditions.set(READY, State::False, reasons::NOT_READY, message);
    } else if taken.state != State::True {
        set(conditions, READY, taken);
    } else if matches!(seen.intent, Intent::Pause) {
        let message = format!("it serves as it is; {IS_PAUSED}");
        conditions.set(READY, State::True, reasons::PAUSED, message);
    }
}

/// How far instances are on their way to what the spec says of them, if they are on one.
fn rolling_out(seen: &Seen<'_>) -> Option<String> {
    match seen.intent {
        Intent::CarryOut(_, decided) => decided.course.told(),
        Intent::Pause | Intent::Refuse(_) => None,
    }
}

fn degraded(conditions: &mut Conditions, before: &DatabaseStatus, live: &Live<'_>) {
    let worst = [State::False, State::Unknown].into_iter().find_map(|wanted| {
        let mut types = [AVAILABLE, REPLICATION_HEALTHY].into_iter();
        let found = types.find(|type_| state(conditions, type_) == wanted)?;
        Some((wanted, conditions.get(found)?.clone()))
    });
    match worst {
        None => {
            let message = "writes are taken and every replica streams";
            conditions.set(DEGRADED, State::False, reasons::AS_EXPECTED, message);
        }
        Some(_) if !has_served(before) => {
            let message = "it has not served in full yet";
            conditions.set(DEGRADED, State::False, reasons::CREATING, message);
        }
        Some((_, why)) if why.type_ == REPLICATION_HEALTHY && live.only_grows() => {
            let message = format!("all that streamed before do; {}", why.message);
            conditions.set(DEGRADED, State::False, reasons::GROWING, message);
        }
        Some((State::False, why)) => conditions.set(DEGRADED, State::True, &why.reason, why.message),
        Some((_, why)) => conditions.set(DEGRADED, State::Unknown, &why.reason, why.message),
    }
}

/// What volumes were made with, or asked for, at most: of the present claims, and of the template of those to come.
fn volume_size(before: &DatabaseStatus, seen: &Seen<'_>) -> Option<String> {
    let template = match seen.intent {
        Intent::CarryOut(_, decided) if seen.live.stateful_set.is_some() => Some(&decided.volume.size),
        _ => None,
    };
    let claims = seen
        .live
        .volumes
        .claims
        .iter()
        .filter_map(|claim| volumes::asks(claim));
    let sizes = claims.chain(template).map(|size| size.0.clone());
    // Where a write failed, nobody has looked at the claims
    let known = before.volume_size.clone();
    let known = known.filter(|_| seen.live.failure.is_some());
    let sizes = sizes.chain(known);
    let largest = sizes.max_by_key(|size| quantity::bytes(size));
    largest.or_else(|| before.volume_size.clone())
}

/// The longest of the change that is under way or was last: something is, in this sense, for as long as it is said that something is.
fn last_write_pause(before: &DatabaseStatus, live: &Live<'_>) -> Option<WritePause> {
    let told = live.reports().filter_map(|(_, report)| report.pause);
    let told = told.map(|pause| WritePause {
        milliseconds: i64::try_from(pause.milliseconds).unwrap_or(i64::MAX),
        // As the API server keeps times.
        ended_at: Time(pause.ended.round(Unit::Second).unwrap_or(pause.ended)),
    });
    let Some(told) = told.max_by_key(|pause| pause.ended_at.clone()) else {
        return before.last_write_pause.clone();
    };
    let Some(known) = before.last_write_pause.clone() else {
        return Some(told);
    };
    let progressing = find(&before.conditions, PROGRESSING);
    let since = progressing.map(|condition| condition.last_transition_time.0);
    let since = since.unwrap_or(Timestamp::MIN);
    let is_under_way = State::of(progressing) == State::True;
    // What ended before that was weighed then.
    let is_of_this = |pause: &WritePause| {
        let ended = pause.ended_at.0;
        is_under_way && ended.saturating_add(LATE).unwrap_or(ended) >= since
    };
    let is_new =
        told.ended_at > known.ended_at && (is_of_this(&told) || !is_under_way && told.ended_at.0 > since);
    let is_less = is_of_this(&known) && known.milliseconds >= told.milliseconds;
    Some(if is_new && !is_less { told } else { known })
}

/// Told once a primary goes on without it, and kept when the Lease is gone that says it. Where it ended is told for good once somebody knows.
fn last_loss(before: &DatabaseStatus, live: &Live<'_>) -> Option<Loss> {
    let known = before.last_loss.as_ref();
    let missing = live.lease.leader().and(live.lease.missing);
    let told = missing.map(|Missing { from, to, since }| Loss {
        timeline: since,
        from: from.to_string(),
        to: (to > from).then(|| to.to_string()),
        measured: false,
    });
    let loss = told.or_else(|| known.cloned())?;
    if let Some(known) = known.filter(|known| known.measured && known.timeline == loss.timeline) {
        return Some(known.clone());
    }
    // What was written further once is on an older volume now.
    let reached: Option<Lsn> = loss.to.as_ref().unwrap_or(&loss.from).parse().ok();
    let ends = live.reports().filter_map(|(_, report)| report.wrote_up_to);
    let ends = ends.filter(|(since, end)| i64::from(*since) == loss.timeline && Some(*end) >= reached);
    match ends.map(|(_, end)| end).max() {
        Some(end) => Some(Loss {
            to: Some(end.to_string()),
            measured: true,
            ..loss
        }),
        None => Some(loss),
    }
}

fn phase(conditions: &Conditions, before: &DatabaseStatus, seen: &Seen<'_>) -> &'static str {
    let is = |type_: &str| state(conditions, type_) == State::True;
    let failed = || {
        let mut reports = seen.live.reports().peekable();
        reports.peek().is_some() && reports.all(|(_, report)| report.state == Doing::Failed)
    };
    if matches!(seen.intent, Intent::Pause) {
        "Paused"
    } else if is(READY) {
        "Running"
    } else if is_blocked(conditions, before) && !is(AVAILABLE) || failed() {
        "Failed"
    } else if !has_served(before) && (is(PROGRESSING) || !is(AVAILABLE)) {
        "Creating"
    } else if is_blocked(conditions, before) && is(REPLICATION_HEALTHY) {
        "Blocked"
    } else if is(AVAILABLE) && is(PROGRESSING) {
        "Updating"
    } else {
        "Degraded"
    }
}

/// What is known of one instance.
fn instance(live: &Live<'_>, pod: &Pod) -> InstanceStatus {
    let name = pod.name_any();
    let report = live.answer(&name).and_then(|answer| answer.as_ref().ok());
    let role = match report {
        Some(report) => report.role.label().map(str::to_owned),
        // What it said of itself last.
        None => pod.labels().get(ROLE_LABEL).cloned(),
    };
    InstanceStatus {
        role,
        state: report.map(|report| report.state.name().to_owned()),
        lag: report.and_then(|report| lag(live.primary(), report)),
        timeline: report.and_then(|report| report.timeline).map(i64::from),
        name,
    }
}

/// How far a replica's replay is behind, in bytes, as [`coarse`] as it is told.
fn lag(primary: Option<&Report>, replica: &Report) -> Option<i64> {
    if replica.role != Role::Replica {
        return None;
    }
    let (ahead, replayed): (Lsn, Lsn) = (primary?.received?, replica.replayed?);
    i64::try_from(coarse(ahead.ahead_of(replayed))).ok()
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "configuration_tests.rs"]
mod configuration_tests;
