//! What is decided of a database before its children are built, from its spec and from what is observed. Pure.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use super::desired::pod::shape;
use super::desired::stateful_set::Volume;
use super::desired::{Decided, names, settings};
use super::live::Live;
use super::observe::{Observed, named};
use super::rollout::{Rollout, Wanted, rollout};
use super::scale::{Scale, scale, there};
use super::step::Course;
use super::volumes;
use crate::api::database::ValidDatabase;
use crate::api::database::v1::DatabaseStatus;
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
    (live, is_new): (&Live<'_>, bool),
    now: Timestamp,
) -> Decided {
    let stateful_set = named(&observed.stateful_sets, &database.name).map(|set| &**set);
    let told = named(&observed.config_maps, &names::settings(&database.name))
        .and_then(|config_map| settings::read(config_map))
        .unwrap_or_default();
    let volume = Volume {
        size: database.storage.size.clone(),
        class: database.storage.class.clone(),
    };
    // The status first: what it said once holds for good.
    let known = [
        status.and_then(|status| status.system_identifier.clone()),
        live.lease.system_identifier.clone(),
        told.system_identifier.clone(),
    ];
    // Those that stay are brought up to date before others go, as long as all are well: of a single instance that would be an interruption. What that takes is
    // known once the spec was written, and instances have taken it.
    let wanted = Wanted {
        instances: there(live).max(database.instances),
        stay: database.instances,
        shape: &shape(database),
        synchronous: database.synchronous,
        excused: &told.excused,
    };
    let Rollout {
        course,
        excused,
        pending,
        is_sound,
    } = rollout(wanted, live, now);
    let members = i32::try_from(told.members.len()).unwrap_or(i32::MAX);
    let members = Some(members).filter(|members| *members > 0);
    let has_begun = members
        .zip(live.replicas())
        .is_some_and(|(told, there)| told < there);
    let shrinks = wanted.instances > database.instances && !has_begun;
    let is_unknown = is_new || !live.is_rolled_out(wanted.shape) || is_behind(database, live);
    let is_moving = matches!(course, Course::Take(_)) || (is_sound && !pending.is_empty());
    let system_identifier = known.into_iter().flatten().next();
    let retained = match system_identifier {
        Some(_) => BTreeSet::new(),
        None => volumes::retained(database, observed),
    };
    // Whichever volume of before the database has the latest data, an instance begins on it, too; those that are too many go once it is known who leads.
    let begin = names::count_with(&retained).max(database.instances);
    let scale = match (is_moving, shrinks && is_unknown) {
        (true, _) => Scale::hold(begin, members, live),
        (false, _) if begin > database.instances => Scale {
            course: Course::Wait(older_volumes(&retained, database.instances)),
            ..Scale::hold(begin, members, live)
        },
        (false, true) => Scale {
            course: Course::Wait("instances to take the rest of the spec first".to_owned()),
            ..Scale::hold(database.instances, members, live)
        },
        (false, false) => scale(&database.name, database.instances, members, live),
    };
    // Nobody else ends it if this operator is gone, or is told to leave the database alone. What a rollout is held up by may take for ever.
    let until = told.excused_until.filter(|until| *until > now);
    let until = until.or_else(|| now.checked_add(EXCUSED).ok().filter(|_| is_sound));
    let excused = if until.is_some() { excused } else { BTreeSet::new() };
    Decided {
        members: scale.members,
        replicas: scale.replicas,
        excused_until: until.filter(|_| !excused.is_empty()),
        room: volumes::room(database, observed, scale.replicas),
        excused,
        volume: stateful_set.and_then(Volume::of).unwrap_or(volume),
        retained,
        system_identifier,
        course: match scale.course {
            Course::Done => course,
            scaling => scaling,
        },
        pending,
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
