//! Slots of a new cluster. Never again once that was recorded, but for those that were lost, where the spec allows that. Pure.

use super::adopt::interrupted;
use super::failover::who_knows;
use super::scene::Node;
use super::slots::{Slots, even_counts};
use super::step::Step;
use super::survey::Survey;

/// What is missing of an even share for each shard, and then the record of it.
pub(super) fn step(survey: &Survey<'_>) -> Option<Step> {
    if survey.scene.bootstrapped {
        return lost(survey);
    }
    if let Some(place) = survey.unanswered().next() {
        return Some(Step::Wait(format!(
            "{place} to answer, before slots are assigned"
        )));
    }
    // A pod that came back as another node in the midst of it. No key was ever written: not all slots were there.
    if let Some(lost) = survey.owners.keys().find(|id| survey.seen(**id).is_none()) {
        if !survey.is_lost(*lost) {
            let what = format!(
                "the node {lost}, which has slots and is no pod of this cluster, not to be heard of any more"
            );
            return Some(Step::Wait(what));
        }
        let at = who_knows(survey, *lost).into_iter();
        return Some(Step::Forget(at.map(|at| (at, *lost)).collect()));
    }
    let uncovered = survey.uncovered();
    if uncovered.is_empty() {
        return Some(Step::RecordBootstrapped);
    }
    let shares = interrupted(survey)?;
    let missing: Vec<(Node, Slots)> = (0u16..)
        .zip(shares)
        .filter_map(|(shard, share)| Some((survey.primary_of(shard)?.node, share.intersection(&uncovered))))
        .filter(|(_, slots)| !slots.is_empty())
        .collect();
    Some(if missing.is_empty() {
        Step::wait(format!("a primary for the slots {uncovered}"))
    } else {
        Step::Assign(missing)
    })
}

/// Slots that nobody owns, which is only so for long where they were given up.
fn lost(survey: &Survey<'_>) -> Option<Step> {
    let lost = survey.uncovered();
    let is_certain = survey.is_complete() && survey.scene.allow_data_loss && survey.abandoned() == lost;
    (is_certain && !lost.is_empty()).then(|| assign_lost(survey, lost))
}

/// To those who have keys of them already, as an interrupted move leaves them; the rest to shards that have least.
fn assign_lost(survey: &Survey<'_>, lost: Slots) -> Step {
    let mut shares = Vec::new();
    let mut rest = lost;
    for seen in &survey.nodes {
        let importing: Slots = seen.own().importing.keys().copied().collect();
        let share = rest.intersection(&importing);
        rest = rest.difference(&share);
        shares.push((seen.node, share));
    }
    let primaries = (0..survey.scene.wanted.shards).filter_map(|shard| survey.primary_of(shard));
    let mut receivers: Vec<(u16, Node)> = primaries
        .map(|seen| (survey.slots_of(seen.node.id).len(), seen.node))
        .collect();
    receivers.sort_unstable_by_key(|(count, node)| (*count, node.place));
    let even = even_counts(survey.scene.wanted.shards)
        .first()
        .copied()
        .unwrap_or_default();
    for (count, node) in &receivers {
        let share = rest.lowest(even.saturating_sub(*count));
        rest = rest.difference(&share);
        shares.push((*node, share));
    }
    // Others may have more than their share until slots are evened out, so that some are still left.
    if let Some((_, node)) = receivers.first() {
        shares.push((*node, rest));
    }
    shares.retain(|(_, share)| !share.is_empty());
    if shares.is_empty() {
        return Step::wait("a primary for slots that were lost");
    }
    Step::AssignLost(shares)
}
