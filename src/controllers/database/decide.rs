//! What is decided of a database before its children are built, from its spec and from what is observed. Pure.

use jiff::Timestamp;

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

/// What is made of a spec.
#[derive(Clone, Copy, Debug)]
pub enum Intent<'a> {
    /// It is brought about.
    CarryOut(&'a ValidDatabase, &'a Decided),
    /// It makes no sense: what serves goes on serving, and nothing is changed until somebody mends it.
    Refuse(&'a Problems),
    /// Its author asks that nothing be changed.
    Pause(&'a ValidDatabase),
}

/// Decides, at this time.
pub fn decide(
    database: &ValidDatabase,
    observed: &Observed,
    status: Option<&DatabaseStatus>,
    live: &Live<'_>,
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
    // Those that stay are brought up to date before others go, as long as all are well: of a single instance that would be an interruption.
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
    let is_moving = matches!(course, Course::Take(_)) || is_sound && !pending.is_empty();
    let scale = if is_moving {
        Scale::hold(database.instances, members, live)
    } else {
        scale(&database.name, database.instances, members, live)
    };
    Decided {
        members: scale.members,
        replicas: scale.replicas,
        room: volumes::room(database, observed, scale.replicas),
        excused,
        volume: stateful_set.and_then(Volume::of).unwrap_or(volume),
        system_identifier: known.into_iter().flatten().next(),
        course: match scale.course {
            Course::Done => course,
            scaling => scaling,
        },
        pending,
    }
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
