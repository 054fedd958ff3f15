//! What is next where instances are other than the spec has them by now: replicas first, one by one, each only while all others are well; then another
//! instance takes over, and the last one follows. Pure.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::desired::names;
use super::handover;
use super::live::{Live, has_shape};
use super::step::{Course, Step};
use super::verdict;
use crate::api::database::agent::{CONTAINER, Report, Role, Standby, State as Doing};
use crate::api::database::v1::Synchronous;
use crate::controllers::common::pod::{is_held_back, is_ready, is_running};
use crate::runtime::conditions::State;

/// A pod is made anew to end its container's back-off so seldom at most, each time.
const ANEW: SignedDuration = SignedDuration::from_secs(60);

/// Whoever has said nothing for so long is taken for dead, even if its container runs. Until then it may be a busy node, or a lost packet.
const LOST: Duration = Duration::from_secs(60);

/// What instances are to be like.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// How many there are.
    pub instances: i32,
    /// How many of them are to be there in the end, those with the lowest ordinals: the others are not brought up to date.
    pub stay: i32,
    /// What shapes their pods.
    pub shape: &'a str,
    /// Whether commits wait for replicas.
    pub synchronous: Synchronous,
    /// Those for which no commit is to wait already.
    pub excused: &'a BTreeSet<String>,
}

/// What is next.
#[derive(Clone, Debug, PartialEq)]
pub struct Rollout {
    /// What comes next.
    pub course: Course,
    /// Those for which no commit is to wait, since they will be stopped.
    pub excused: BTreeSet<String>,
    /// What is not yet as it should be, in words; empty once all is.
    pub pending: Vec<String>,
    /// Whether all are well, so that one may be stopped.
    pub is_sound: bool,
}

/// An instance, and what is to be done with it.
struct Instance<'a> {
    name: String,
    pod: &'a Arc<Pod>,
    report: Option<&'a Report>,
    /// It says nothing, though its container runs, and did not long ago: what it does is not known.
    is_unknown: bool,
    /// Its pod is of an earlier shape.
    outdated: bool,
    /// It is to be there in the end.
    stays: bool,
}

impl Instance<'_> {
    fn restart(&self) -> &[String] {
        self.report.map_or(&[], |report| &report.pending_restart)
    }

    fn is_pending(&self) -> bool {
        self.stays && (self.outdated || !self.restart().is_empty())
    }

    /// Whether PostgreSQL runs in it as a replica, or becomes the primary. Such a pod is not ready while there is no primary, and is what a failover needs.
    fn may_take_over(&self) -> bool {
        let able = |report: &Report| report.role != Role::None || report.state == Doing::Promoting;
        self.is_unknown || self.report.is_some_and(able)
    }

    /// Whether it is on its way to be a replica, which may take hours that would be lost.
    fn joins(&self) -> bool {
        let joins = |state| matches!(state, Doing::Initialising | Doing::Joining | Doing::Rewinding);
        self.is_unknown || self.report.is_some_and(|report| joins(report.state))
    }

    fn why(&self) -> String {
        if self.outdated {
            "the spec asks for another pod".to_owned()
        } else {
            self.why_again()
        }
    }

    fn why_again(&self) -> String {
        format!("{} takes effect then", self.restart().join(", "))
    }

    fn step(&self) -> Step {
        if self.outdated {
            let pod = Arc::clone(self.pod);
            Step::Replace { pod, why: self.why() }
        } else {
            self.start_again()
        }
    }

    fn start_again(&self) -> Step {
        Step::Restart {
            instance: self.name.clone(),
            why: self.why_again(),
        }
    }
}

/// What is next, at this time.
pub fn rollout(wanted: Wanted<'_>, live: &Live<'_>, now: Timestamp) -> Rollout {
    let instance = |pod| -> Instance<'_> {
        let pod: &Arc<Pod> = pod;
        let name = pod.name_any();
        Instance {
            report: live.answer(&name).and_then(|answer| answer.as_ref().ok()),
            is_unknown: is_running(pod, CONTAINER) && live.silent(&name).is_some_and(|silent| silent < LOST),
            outdated: !has_shape(&pod.metadata, wanted.shape),
            stays: names::ordinal(&name).is_some_and(|ordinal| ordinal < wanted.stay),
            name,
            pod,
        }
    };
    let instances: Vec<Instance<'_>> = live.pods.iter().map(instance).collect();
    let pending: Vec<String> = instances
        .iter()
        .filter(|instance| instance.is_pending())
        .map(|instance| format!("{}: {}", instance.name, instance.why()))
        .collect();
    let unsound = unsound(wanted, live);
    let mut rollout = Rollout {
        course: Course::Done,
        excused: BTreeSet::new(),
        pending,
        is_sound: unsound.is_none(),
    };
    if let Some(step) = unblock(&instances, wanted, live, now) {
        rollout.course = Course::Take(step);
        return rollout;
    }
    if rollout.pending.is_empty() {
        return rollout;
    }
    let leader = live.lease.leader().unwrap_or_default();
    let replica = instances
        .iter()
        .rev()
        .find(|instance| instance.name != leader && instance.is_pending());
    // Of two instances, commits wait for the only replica: while it is stopped nobody could write.
    if let Some(replica) = replica
        && wanted.instances == 2
        && wanted.synchronous == Synchronous::Preferred
        && (unsound.is_none() || wanted.excused.contains(&replica.name))
    {
        rollout.excused.insert(replica.name.clone());
    }
    rollout.course = match (unsound, live.primary()) {
        (Some(what), _) => Course::Wait(what),
        (None, Some(primary)) => course(&instances, replica, primary, wanted, leader, &rollout.excused),
        (None, None) => Course::Wait("a primary".to_owned()),
    };
    rollout
}

fn course(
    instances: &[Instance<'_>],
    replica: Option<&Instance<'_>>,
    primary: &Report,
    wanted: Wanted<'_>,
    leader: &str,
    excused: &BTreeSet<String>,
) -> Course {
    let Some(own) = instances.iter().find(|instance| instance.name == leader) else {
        return Course::Wait("the primary's pod".to_owned());
    };
    // With less than before, it goes first, whatever its pod is like: until then replicas hold on to what it has, however often they are started again.
    if primary.lowered && wanted.instances > 1 {
        return match handover::too_far(primary) {
            Some(what) => Course::Wait(what),
            None => Course::Take(own.start_again()),
        };
    }
    if let Some(replica) = replica {
        let waited_for = |standby: &Standby| standby.synchronous && excused.contains(&standby.name);
        if primary.standbys.iter().any(waited_for) {
            return Course::Wait(format!("commits to wait for {} no more", replica.name));
        }
        return Course::Take(replica.step());
    }
    if !own.is_pending() {
        return Course::Done;
    }
    if wanted.instances == 1 {
        return Course::Take(own.step());
    }
    let is_there = |name: &str| instances.iter().any(|instance| instance.name == name);
    let stays = |name: &str| {
        instances
            .iter()
            .any(|instance| instance.name == name && instance.stays)
    };
    // One that is to go would have to hand over once more.
    match handover::successor(primary, stays).or_else(|_| handover::successor(primary, is_there)) {
        Ok(to) => Course::Take(Step::HandOver {
            from: leader.to_owned(),
            to,
            why: own.why(),
        }),
        Err(what) => Course::Wait(what),
    }
}

/// Pods that are not ready, nor about to be, are made anew whatever the others do: those that the spec wants otherwise by now, but for the last replica that
/// streams, and those that the kubelet makes wait after their containers were killed.
fn unblock(instances: &[Instance<'_>], wanted: Wanted<'_>, live: &Live<'_>, now: Timestamp) -> Option<Step> {
    let stays = |instance: &&Instance<'_>| instance.pod.metadata.deletion_timestamp.is_none();
    let age = |pod: &Pod| {
        let created = pod.metadata.creation_timestamp.as_ref();
        created.map_or(SignedDuration::ZERO, |created| now.duration_since(created.0))
    };
    let mut candidates = instances.iter().filter(stays);
    candidates.find_map(|instance| {
        let pod = Arc::clone(instance.pod);
        let may = wanted.instances == 1
            || !instance.joins()
                && live.lease.leader() != Some(&instance.name)
                && (live.primary().is_some() || !instance.may_take_over());
        // The probes of a node that is cut off or busy fail. Whatever they say, one replica has what is acknowledged.
        let spared = live.primary().is_some_and(|primary| {
            let mut others = primary
                .standbys
                .iter()
                .filter(|other| other.name != instance.name);
            primary.streams_to(&instance.name) && !others.any(Standby::streams)
        });
        if instance.outdated && !is_ready(&pod) && may && !spared && live.is_rolled_out(wanted.shape) {
            let why = "it is not ready, and the spec asks for another one".to_owned();
            return Some(Step::Replace { pod, why });
        }
        if is_held_back(&pod) && age(&pod) >= ANEW {
            let why = "its container was killed again and again, and is held back".to_owned();
            return Some(Step::Replace { pod, why });
        }
        None
    })
}

/// What is not well, or not known: nothing is stopped before it is.
fn unsound(wanted: Wanted<'_>, live: &Live<'_>) -> Option<String> {
    if !live.is_rolled_out(wanted.shape) {
        return Some("the StatefulSet to have the pods of the present spec".to_owned());
    }
    let pods = i32::try_from(live.pods.len()).unwrap_or(i32::MAX);
    if pods != wanted.instances {
        return Some(format!("{} instances to have a pod: {pods} do", wanted.instances));
    }
    let unwell = live.pods.iter().find(|pod| {
        let goes = pod.metadata.deletion_timestamp.is_some();
        goes || !is_ready(pod)
    });
    if let Some(pod) = unwell {
        return Some(format!("{} to be ready", pod.name_any()));
    }
    let verdicts = [
        verdict::available(live),
        verdict::replication(live, wanted.instances),
        verdict::taken(live),
    ];
    let bad = verdicts.into_iter().find(|verdict| verdict.state != State::True);
    if let Some(bad) = bad {
        return Some(format!("all to be well: {}", bad.message));
    }
    let busy = live
        .reports()
        .find(|(_, report)| !matches!(report.state, Doing::Leading | Doing::Streaming));
    busy.map(|(name, report)| format!("{name} to be done with what it does: {}", report.state.name()))
}

#[cfg(test)]
#[path = "rollout_tests.rs"]
mod tests;
