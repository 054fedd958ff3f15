//! Open slots: what an interrupted move of slots has left behind is brought to an end before all else that moves any. Pure.
//!
//! Marks are local to a primary and gone once it is none, so each of the two may be missing, or name a node that has failed over since:
//!
//! | owner | marks | what is done |
//! | --- | --- | --- |
//! | A | A migrating to B, or B importing | goes on from A to the present primary of B's shard |
//! | A | B importing, and not knowing that A is the owner since a failover | B is told |
//! | A | A migrating to nobody that is left | the mark is taken away |
//! | A | B importing, B is to go | keys of B go back to A |
//! | B | A migrating, or claiming it with a lower configEpoch | keys of A go to B, and A is told |
//! | nobody | A migrating to B | B gets it: A would own it, had B not taken it |
//! | nobody | B importing | a loss, see `failover` |

use std::collections::BTreeSet;

use super::nodes::NodeId;
use super::scene::Node;
use super::slots::{Slot, Slots};
use super::step::{Move, Moving, Step, Why};
use super::survey::{Seen, Survey};

/// The first thing that ends an open slot, for as many slots as it is right for.
pub(super) fn step(survey: &Survey<'_>) -> Option<Step> {
    let ends: Vec<(Slot, End)> = open_slots(survey)
        .iter()
        .filter_map(|slot| Some((slot, end(survey, slot)?)))
        .collect();
    let is_wait = |end: &End| matches!(end, End::Wait(_));
    let first = ends
        .iter()
        .min_by_key(|(_, end)| is_wait(end))
        .map(|(_, end)| end.clone())?;
    let slots: Slots = ends
        .into_iter()
        .filter(|(_, end)| *end == first)
        .map(|(slot, _)| slot)
        .collect();
    Some(match first {
        End::Close(node) => Step::Close { node, slots },
        End::Tell { node, owner } => Step::Tell { node, slots, owner },
        End::Wait(what) => Step::Wait(what),
        End::Move { from, to, how } => Step::Move(moving(survey, from, to, slots, how, Why::Finish)),
    })
}

/// Of these slots, with those who are to be told.
pub(super) fn moving(survey: &Survey<'_>, from: Node, to: Node, slots: Slots, how: Moving, why: Why) -> Move {
    let is_other =
        |seen: &&Seen<'_>| seen.is_primary() && seen.node != from && seen.node != to && !seen.is_alone();
    let replicas = survey
        .replicas_of(to.id)
        .filter(|seen| seen.report.primary_link_up);
    Move {
        from,
        to,
        slots,
        others: survey
            .nodes
            .iter()
            .filter(is_other)
            .map(|seen| seen.node)
            .collect(),
        replicas: replicas.map(|seen| seen.node).collect(),
        how,
        why,
    }
}

/// Those with a mark, or with two owners in different shards. Two in one shard are a failover that one of them has not heard of yet: Redis settles that
/// as soon as both see each other. A node that knows nobody is not part of the cluster, and `join` has to say what is to become of it.
pub(super) fn open_slots(survey: &Survey<'_>) -> Slots {
    let marked = survey.nodes.iter().flat_map(|seen| {
        let own = seen.own();
        own.migrating.keys().chain(own.importing.keys()).copied()
    });
    let contested = survey.contests.iter().filter(|contest| {
        let shard = |id| survey.seen(id).map(|seen| seen.node.place.shard);
        let is_alone = survey.seen(contest.loser).is_some_and(|seen| seen.is_alone());
        !is_alone && shard(contest.winner) != shard(contest.loser)
    });
    contested.fold(marked.collect(), |all: Slots, contest| all.union(&contest.slots))
}

/// How one slot comes to an end.
#[derive(Clone, PartialEq, Eq)]
enum End {
    Move { from: Node, to: Node, how: Moving },
    Close(Node),
    Tell { node: Node, owner: NodeId },
    Wait(String),
}

fn end(survey: &Survey<'_>, slot: Slot) -> Option<End> {
    match survey.owner(slot) {
        // Whether its owner comes back, or another takes over, is for failover to say.
        Some(owner) => survey
            .seen(owner)
            .and_then(|owner| end_owned(survey, slot, owner)),
        None => end_unowned(survey, slot),
    }
}

fn end_owned(survey: &Survey<'_>, slot: Slot, owner: Seen<'_>) -> Option<End> {
    // In its own shard, whoever claims it as well has only not heard of a failover yet.
    let is_former = |seen: &&Seen<'_>| {
        let (own, is_shards) = (seen.own(), seen.node.place.shard == owner.node.place.shard);
        let claims = own.slots.contains(slot);
        seen.node != owner.node
            && if claims {
                !is_shards
            } else {
                own.migrating.contains_key(&slot)
            }
    };
    if let Some(former) = survey.nodes.iter().find(is_former) {
        return carry(former, &owner, Moving::Cold);
    }
    if owner.own().importing.contains_key(&slot) {
        return Some(End::Close(owner.node));
    }
    if let Some(importer) = survey.nodes.iter().find(|seen| is_mistaken(seen, &owner, slot)) {
        let (node, owner) = (importer.node, owner.node.id);
        return Some(End::Tell { node, owner });
    }
    if let Some(to) = owner.own().migrating.get(&slot) {
        return end_migrating(survey, &owner, *to);
    }
    let importer = survey
        .nodes
        .iter()
        .find(|seen| seen.own().importing.contains_key(&slot))?;
    if survey.stays(importer.node.place) {
        carry(&owner, importer, Moving::Hot)
    } else {
        carry(importer, &owner, Moving::Cold)
    }
}

/// Whether it imports the slot, and has another for the owner, or nobody: as long as it imports it, it takes that from nobody but us.
fn is_mistaken(importer: &Seen<'_>, owner: &Seen<'_>, slot: Slot) -> bool {
    let known = importer.knows(owner.node.id);
    let is_known = known.is_some_and(|known| known.flags.primary);
    let has_it = known.is_some_and(|known| known.slots.contains(slot));
    importer.own().importing.contains_key(&slot) && is_known && !has_it
}

fn end_migrating(survey: &Survey<'_>, owner: &Seen<'_>, to: NodeId) -> Option<End> {
    match target(survey, to) {
        Some(target) if target.node == owner.node => Some(End::Close(owner.node)),
        Some(target) => carry(owner, &target, Moving::Hot),
        None if survey.is_complete() => Some(End::Close(owner.node)),
        None => Some(End::Wait(format!(
            "the node {to}, which was to get slots of {}",
            owner.node
        ))),
    }
}

fn end_unowned(survey: &Survey<'_>, slot: Slot) -> Option<End> {
    if !survey.is_complete() || !survey.abandoned().contains(slot) {
        return None;
    }
    let giver = survey
        .nodes
        .iter()
        .find(|seen| seen.own().migrating.contains_key(&slot))?;
    let target = target(survey, *giver.own().migrating.get(&slot)?)?;
    (target.node != giver.node).then_some(End::Move {
        from: giver.node,
        to: target.node,
        how: Moving::Claim,
    })
}

/// Whoever is the primary by now in the shard of a node that a mark names.
fn target<'a>(survey: &Survey<'a>, id: NodeId) -> Option<Seen<'a>> {
    let itself = survey.seen(id).filter(Seen::is_primary);
    itself.or_else(|| survey.primary_of(survey.shard_of(id)?))
}

/// Keys move only while Redis serves them. Where it does not, what keeps it from that comes first.
fn carry(from: &Seen<'_>, to: &Seen<'_>, how: Moving) -> Option<End> {
    let serves = |seen: &Seen<'_>| seen.report.cluster_state_ok;
    let (from, to) = (serves(from) && serves(to)).then_some((from.node, to.node))?;
    Some(End::Move { from, to, how })
}

/// Who has marks, for whoever must not go on while there are any.
pub(super) fn marked(survey: &Survey<'_>) -> Option<Node> {
    let contested: BTreeSet<NodeId> = survey.contests.iter().map(|contest| contest.loser).collect();
    let is_open = |seen: &&Seen<'_>| seen.has_marks() || contested.contains(&seen.node.id);
    survey.nodes.iter().find(is_open).map(|seen| seen.node)
}

#[cfg(test)]
#[path = "open_tests.rs"]
mod tests;
