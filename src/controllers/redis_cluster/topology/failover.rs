//! Slots whose owner did not answer, or that nobody owns. Pure.
//!
//! Redis elects a replica by itself as long as most primaries are there. It is helped where it cannot, and only if nobody who might know more is silent.

use std::cmp::Reverse;

use super::nodes::NodeId;
use super::scene::Node;
use super::slots::Slots;
use super::step::{FailOver, Step, Trouble};
use super::survey::{Seen, Survey};

/// How many node timeouts Redis gets for an election of its own.
const ELECTION: u32 = 4;

/// What helps the first shard that can be helped; otherwise, what has to come about.
pub(super) fn step(survey: &Survey<'_>) -> Option<Step> {
    if !survey.scene.bootstrapped {
        return None;
    }
    let lost = survey.owners.iter().filter(|(id, _)| survey.seen(**id).is_none());
    let steps: Vec<Step> = lost.map(|(id, slots)| owner_lost(survey, *id, slots)).collect();
    let change = steps.iter().position(Step::is_change);
    let of_lost = steps.into_iter().nth(change.unwrap_or(0));
    of_lost.or_else(|| uncovered(survey))
}

/// The owner of these slots did not answer.
fn owner_lost(survey: &Survey<'_>, id: NodeId, slots: &Slots) -> Step {
    let mut candidates: Vec<Seen<'_>> = survey.replicas_of(id).collect();
    candidates.sort_by_key(|seen| {
        (
            has_data(seen),
            seen.report.offset,
            seen.report.keys,
            Reverse(seen.node.place),
        )
    });
    candidates.reverse();
    match candidates.first() {
        None => without_replica(survey, id, slots),
        Some(best) if has_data(best) => with_replica(survey, id, best),
        Some(best) => with_empty_replica(survey, id, slots, best),
    }
}

/// Whether it ever had its primary's data. One that was started again has it from its files, and no offset.
fn has_data(replica: &Seen<'_>) -> bool {
    (replica.report.offset > 0 || replica.report.keys > 0) && !replica.report.syncing
}

/// Its volume may come back with its pod. Once all pods answered and none of them is it, it cannot.
fn without_replica(survey: &Survey<'_>, id: NodeId, slots: &Slots) -> Step {
    let (lost, slots) = (id, slots.clone());
    if let Some(place) = survey.unanswered().next() {
        return Step::Wait(format!(
            "{place} to answer: the owner of the slots {slots} has not"
        ));
    }
    if !survey.scene.allow_data_loss {
        let shard = survey.shard_of(id);
        return Step::Degraded(Trouble::ShardLost { shard, id, slots });
    }
    let at = who_knows(survey, id);
    Step::GiveUp { lost, slots, at }
}

/// Those that have to forget a node.
pub(super) fn who_knows(survey: &Survey<'_>, id: NodeId) -> Vec<Node> {
    let know = survey.nodes.iter().filter(|seen| seen.knows(id).is_some());
    know.map(|seen| seen.node).collect()
}

/// The data was lost before a replica had it. A replica cannot forget its primary, but it can take its place.
fn with_empty_replica(survey: &Survey<'_>, id: NodeId, slots: &Slots, replica: &Seen<'_>) -> Step {
    match without_replica(survey, id, slots) {
        Step::GiveUp { lost, slots, .. } => Step::FailOver {
            replica: replica.node,
            primary: lost,
            how: FailOver::Takeover,
            why: format!("its primary is lost with all data of the slots {slots}"),
        },
        other => other,
    }
}

fn with_replica(survey: &Survey<'_>, id: NodeId, best: &Seen<'_>) -> Step {
    if !survey.is_lost(id) {
        return Step::Wait(format!(
            "the primary of {}, or its replicas to miss it",
            best.node
        ));
    }
    let how = if has_quorum(survey) {
        if survey.unheard(id) <= survey.scene.node_timeout * ELECTION {
            return Step::Wait(format!("the election of {} or another replica", best.node));
        }
        FailOver::Force
    } else {
        if let Some(place) = survey.unanswered().find(|place| survey.is_silent(*place)) {
            return Step::Wait(format!(
                "{place} to answer: most primaries are missing, and it may know more"
            ));
        }
        if let Some(what) = is_out_of_date(survey, id, best) {
            return Step::Wait(what);
        }
        FailOver::Takeover
    };
    Step::FailOver {
        replica: best.node,
        primary: id,
        how,
        why: match how {
            FailOver::Takeover => {
                "its primary is gone, and so are most primaries, whose votes it needs".to_owned()
            }
            _ => "its primary is gone, and Redis elected nobody".to_owned(),
        },
    }
}

/// A replica that takes over without votes gets what by its own view was its primary's, at an epoch above all that it knows: whoever missed a move of slots would take them from
/// their owner, who deletes their keys then.
fn is_out_of_date(survey: &Survey<'_>, id: NodeId, replica: &Seen<'_>) -> Option<String> {
    let claimed = replica
        .knows(id)
        .map(|known| known.slots.clone())
        .unwrap_or_default();
    let beyond = claimed.difference(survey.slots_of(id));
    let newest = survey.nodes.iter().map(|seen| seen.report.current_epoch).max();
    if !beyond.is_empty() {
        return Some(format!("{} to hear who owns the slots {beyond}", replica.node));
    }
    (newest > Some(replica.report.current_epoch))
        .then(|| format!("{} to hear of the newest epoch", replica.node))
}

/// Whether those primaries that vote are more than half.
fn has_quorum(survey: &Survey<'_>) -> bool {
    let voters = survey
        .owners
        .keys()
        .filter(|id| survey.seen(**id).is_some())
        .count();
    voters * 2 > survey.owners.len()
}

/// Nobody owns them: in a cluster that was complete once, that is a loss.
fn uncovered(survey: &Survey<'_>) -> Option<Step> {
    let uncovered = survey.uncovered();
    if uncovered.is_empty() {
        return None;
    }
    let abandoned = survey.abandoned();
    if abandoned != uncovered {
        return Some(Step::Wait(format!(
            "all to agree who owns the slots {}",
            uncovered.difference(&abandoned)
        )));
    }
    if let Some(place) = survey.unanswered().next() {
        return Some(Step::Wait(format!(
            "{place} to answer: nobody else owns the slots {uncovered}"
        )));
    }
    // Whoever is to get them has to have joined first.
    (!survey.scene.allow_data_loss).then_some(Step::Degraded(Trouble::SlotsUncovered { slots: uncovered }))
}

#[cfg(test)]
#[path = "failover_tests.rs"]
mod tests;
