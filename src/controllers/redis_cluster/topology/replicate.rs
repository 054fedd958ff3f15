//! Who follows whom. Pure.

use super::step::{Step, Trouble};
use super::survey::{Seen, Survey};

/// The first node that does not follow the primary of its shard, and is to.
pub(super) fn step(survey: &Survey<'_>) -> Option<Step> {
    let members = survey.nodes.iter().filter(|seen| survey.stays(seen.node.place));
    let steps: Vec<Step> = members.filter_map(|seen| follow(survey, seen)).collect();
    let change = steps.iter().position(Step::is_change);
    steps.into_iter().nth(change.unwrap_or(0))
}

fn follow(survey: &Survey<'_>, replica: &Seen<'_>) -> Option<Step> {
    let shard = replica.node.place.shard;
    let primary = survey.primary_of(shard);
    let is_right =
        |primary: &Seen<'_>| primary.node == replica.node || replica.own().primary == Some(primary.node.id);
    // Slots that are with two nodes of a shard are brought together by `rebalance`; the second one follows after that.
    if primary.as_ref().is_some_and(is_right) || !replica.own().slots.is_empty() {
        return None;
    }
    // Whoever is silent may be the primary, with all the data.
    if let Some(place) = survey.unanswered().find(|place| place.shard == shard) {
        return Some(Step::Wait(format!(
            "{place} to answer, before {} follows another",
            replica.node
        )));
    }
    let Some(primary) = primary else {
        return Some(promote(survey, replica));
    };
    if replica.is_primary() && replica.report.keys > 0 {
        let (node, keys) = (replica.node, replica.report.keys);
        return Some(Step::Degraded(Trouble::StrayKeys { node, keys }));
    }
    if would_lose(survey, replica, &primary) {
        return Some(Step::Wait(format!(
            "the former primary of {}, whose data it has",
            replica.node
        )));
    }
    (!replica.has_marks()).then_some(Step::Replicate {
        replica: replica.node,
        primary: primary.node,
    })
}

/// No node of the shard is a primary: they follow one that is gone, and never had a slot, or one of another shard, which has all that they have.
fn promote(survey: &Survey<'_>, replica: &Seen<'_>) -> Step {
    let primary = replica.own().primary;
    if let Some(place) = survey.unanswered().next() {
        return Step::Wait(format!("{place} to answer, before {} leaves", replica.node));
    }
    if replica.report.keys == 0 || primary.is_some_and(|id| survey.seen(id).is_some()) {
        return Step::Reset { node: replica.node };
    }
    Step::Wait(format!("a primary in the shard of {}", replica.node))
}

/// Whoever follows another is emptied first. A replica whose primary is gone may have the last copy, unless the new one owns what it was a copy of.
fn would_lose(survey: &Survey<'_>, replica: &Seen<'_>, primary: &Seen<'_>) -> bool {
    let former = replica.own().primary;
    let former_is_there = former.is_some_and(|id| survey.seen(id).is_some());
    replica.report.keys > 0 && !former_is_there && survey.slots_of(primary.node.id).is_empty()
}
