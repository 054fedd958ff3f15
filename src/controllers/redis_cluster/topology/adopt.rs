//! Before all else: whether this cluster may be touched at all. Pure.

use std::collections::BTreeSet;

use super::nodes::NodeId;
use super::slots::{Slots, even_shares};
use super::step::{Step, Trouble};
use super::survey::{Seen, Survey};

/// A refusal, if there is a reason for one.
pub(super) fn step(survey: &Survey<'_>) -> Option<Step> {
    let trouble = same_id(survey)
        .or_else(|| foreign(survey))
        .or_else(|| stranger(survey));
    trouble.map(Step::Degraded)
}

fn same_id(survey: &Survey<'_>) -> Option<Trouble> {
    survey.nodes.iter().find_map(|seen| {
        let other = survey.seen(seen.node.id)?;
        (other.node.place != seen.node.place).then_some(Trouble::SameId {
            one: other.node,
            other: seen.node,
        })
    })
}

/// A cluster that nobody set up may have slots only as an interrupted bootstrap leaves them, and keys only where it has slots: clients may have been
/// faster than the record of it.
fn foreign(survey: &Survey<'_>) -> Option<Trouble> {
    if survey.scene.bootstrapped {
        return None;
    }
    let fits = interrupted(survey).is_some();
    let is_ours = |seen: &&Seen<'_>| {
        let own = seen.own();
        (fits || own.slots.is_empty()) && (seen.report.keys == 0 || !own.slots.is_empty())
    };
    let foreign = survey.nodes.iter().find(|seen| !is_ours(seen));
    // Slots of somebody who is no pod of ours show in the views of those that are.
    let beyond = || survey.nodes.first().filter(|_| !fits);
    foreign.or_else(beyond).map(|seen| Trouble::AdoptionRequired {
        node: seen.node,
        keys: seen.report.keys,
        slots: seen.own().slots.clone(),
    })
}

/// A node that nobody knows, that knows none of the others, and has something or somebody, as from a restored volume: introduced, it would win over the cluster what it has, or lose it,
/// and bring whomever it knows.
fn stranger(survey: &Survey<'_>) -> Option<Trouble> {
    if !survey.scene.bootstrapped {
        return None;
    }
    let ids: BTreeSet<NodeId> = survey.nodes.iter().map(|seen| seen.node.id).collect();
    let is_stranger = |seen: &&Seen<'_>| {
        let (id, own) = (seen.node.id, seen.own());
        let mut others = survey.nodes.iter().filter(|other| other.node.id != id);
        let has_something = seen.report.keys > 0 || !own.slots.is_empty() || !seen.is_alone();
        let is_known = others.any(|other| other.knows(id).is_some() || seen.knows(other.node.id).is_some());
        has_something && !is_known
    };
    let stranger = survey.nodes.iter().find(is_stranger)?;
    // A cluster of one node knows nobody either: where nobody else who is here has slots, it is the cluster.
    let has_slots = |id: &&NodeId| **id != stranger.node.id && ids.contains(*id);
    survey.owners.keys().find(has_slots)?;
    Some(Trouble::ForeignData {
        node: stranger.node,
        keys: stranger.report.keys,
        slots: stranger.own().slots.clone(),
    })
}

/// The shares that an interrupted bootstrap was handing out, by shard: of the wanted number of shards, or of another one if the spec changed since.
/// Nothing if slots are otherwise than a bootstrap leaves them.
pub(super) fn interrupted(survey: &Survey<'_>) -> Option<Vec<Slots>> {
    let scene = survey.scene;
    let others = (1..=scene.present.shards).rev();
    let mut candidates = std::iter::once(scene.wanted.shards).chain(others);
    candidates.find_map(|shards| {
        let shares = even_shares(shards);
        let fits = survey
            .owners
            .iter()
            .all(|(id, slots)| fits(survey, &shares, *id, slots));
        fits.then_some(shares)
    })
}

/// Whether a node has the share of its shard: one command assigns all of it, or nothing. Where its pod has come back as another node, its shard is not
/// known, and any share will do.
fn fits(survey: &Survey<'_>, shares: &[Slots], id: NodeId, slots: &Slots) -> bool {
    match survey.seen(id) {
        Some(seen) => shares.get(usize::from(seen.node.place.shard)) == Some(slots),
        None => shares.contains(slots),
    }
}
