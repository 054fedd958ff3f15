//! What is decided of a database before its children are built, from its spec and from what is observed. Pure.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use super::desired::pod::shape;
use super::desired::stateful_set::Volume;
use super::desired::{Decided, names, settings};
use super::lease::Held;
use super::live::Live;
use super::observe::{Observed, named};
use super::rollout::{Rollout, Wanted, rollout};
use super::scale::{Scale, scale, there};
use super::step::Course;
use super::volumes;
use crate::api::database::v1::DatabaseStatus;
use crate::api::database::{ValidDatabase, agent};
use crate::api::problem::Problems;

/// For how long no commit waits for an instance that is about to be stopped, if it is not.
const EXCUSED: SignedDuration = SignedDuration::from_secs(60);

/// What is made of a spec.
#[derive(Clone, Copy, Debug)]
pub enum Intent<'a> {
    /// It is brought about.
    CarryOut(&'a ValidDatabase, &'a Decided),
    /// It makes no sense: what serves goes on serving, and nothing is changed until somebody mends it.
    Refuse(&'a Problems),
    /// Its author asks that nothing be changed.
    Pause,
}

/// Decides, at this time. A spec `is_new` that nothing was done about yet.
pub fn decide(
    database: &ValidDatabase,
    observed: &Observed,
    status: Option<&DatabaseStatus>,
    live: &Live<'_>,
    is_new: bool,
    now: Timestamp,
) -> Decided {
    let told = named(&observed.config_maps, &names::settings(&database.name))
        .and_then(|config_map| settings::read(config_map))
        .unwrap_or_default();
    let system_identifier = system_identifier(status, live.lease, told.system_identifier.as_deref());
    let retained = match system_identifier {
        Some(_) => BTreeSet::new(),
        None => volumes::retained(database, observed),
    };
    // Those that stay are brought up to date before others go, as long as all are well: of a single instance that would be an interruption. What that takes is
    // known once the spec was written, and instances have taken it.
    let shape = shape(database);
    let wanted = Wanted {
        instances: there(live).max(database.instances),
        stay: database.instances,
        shape: &shape,
        synchronous: database.synchronous,
        excused: &told.excused,
    };
    let rollout = rollout(wanted, live, now);
    let is_known = !is_new && live.is_rolled_out(&shape) && !is_behind(database, live);
    let scale = next_scale(database, &told, live, &rollout, is_known, &retained);
    let (excused, excused_until) = excuses(&told, rollout.excused, rollout.is_sound, now);
    let stateful_set = named(&observed.stateful_sets, &database.name);
    let volume = stateful_set.and_then(|set| Volume::of(set));
    Decided {
        members: scale.members,
        replicas: scale.replicas,
        excused,
        excused_until,
        volume: volume.unwrap_or_else(|| Volume {
            size: database.storage.size.clone(),
            class: database.storage.class.clone(),
        }),
        room: volumes::room(database, observed, scale.replicas),
        system_identifier,
        retained,
        course: match scale.course {
            Course::Done => rollout.course,
            scaling => scaling,
        },
        pending: rollout.pending,
    }
}

/// PostgreSQL's identifier of the data, once anybody knows it: the status, the Lease, or the settings that instances go by. The status first: what it said once
/// holds for good, whatever instances say, since they serve nothing else.
pub fn system_identifier(
    status: Option<&DatabaseStatus>,
    lease: &Held,
    settings: Option<&str>,
) -> Option<String> {
    let said = status.and_then(|status| status.system_identifier.as_deref());
    let known = said.or(lease.system_identifier.as_deref()).or(settings);
    known.map(str::to_owned)
}

/// How many instances there are to be next, where the settings are as `told`. Whether instances have taken the rest of the spec `is_known`.
fn next_scale(
    database: &ValidDatabase,
    told: &agent::Settings,
    live: &Live<'_>,
    rollout: &Rollout,
    is_known: bool,
    retained: &BTreeSet<String>,
) -> Scale {
    let members = i32::try_from(told.members.len()).unwrap_or(i32::MAX);
    let members = Some(members).filter(|members| *members > 0);
    let has_begun = members
        .zip(live.replicas())
        .is_some_and(|(told, there)| told < there);
    let shrinks = there(live) > database.instances && !has_begun;
    let is_moving =
        matches!(rollout.course, Course::Take(_)) || rollout.is_sound && !rollout.pending.is_empty();
    // Whichever volume of before the database has the latest data, an instance begins on it, too; those that are too many go once it is known who leads.
    let begin = names::count_with(retained).max(database.instances);
    if is_moving {
        return Scale::hold(begin, members, live);
    }
    let wait = |wanted: i32, what: String| Scale {
        course: Course::Wait(what),
        ..Scale::hold(wanted, members, live)
    };
    if begin > database.instances {
        return wait(begin, older_volumes(retained, database.instances));
    }
    if shrinks && !is_known {
        let what = "instances to take the rest of the spec first".to_owned();
        return wait(database.instances, what);
    }
    scale(&database.name, database.instances, members, live)
}

/// Those for which no commit is to wait, and until when. Nobody else ends it if this operator is gone, or is told to leave the database alone; and what a rollout
/// is held up by may take for ever.
fn excuses(
    told: &agent::Settings,
    excused: BTreeSet<String>,
    is_sound: bool,
    now: Timestamp,
) -> (BTreeSet<String>, Option<Timestamp>) {
    let until = told.excused_until.filter(|until| *until > now);
    let until = until.or_else(|| now.checked_add(EXCUSED).ok().filter(|_| is_sound));
    match until {
        Some(until) if !excused.is_empty() => (excused, Some(until)),
        _ => (BTreeSet::new(), None),
    }
}

/// What is waited for where those beyond so many instances begin on the volumes of before the database.
fn older_volumes(retained: &BTreeSet<String>, instances: i32) -> String {
    let is_extra = |pod: &&str| names::ordinal(pod).is_some_and(|ordinal| ordinal >= instances);
    let extra: Vec<&str> = retained.iter().map(String::as_str).filter(is_extra).collect();
    format!(
        "somebody to lead: until then there are more instances than spec.instances says, since the volumes of {} are older than this Database, and may have \
         the latest data",
        extra.join(", ")
    )
}

/// Whether instances that stay, and answer, do not go by the present settings yet.
fn is_behind(database: &ValidDatabase, live: &Live<'_>) -> bool {
    let stays = |pod: &str| names::ordinal(pod).is_some_and(|ordinal| ordinal < database.instances);
    live.reports()
        .any(|(pod, report)| stays(pod) && report.settings.as_deref() != live.settings)
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
