//! Ids that no pod has any more. Pure.

use std::collections::BTreeSet;

use super::nodes::NodeId;
use super::step::Step;
use super::survey::{Seen, Survey};

/// All of them at once, at all who know one: the others would be told again after 60 s.
pub(super) fn step(survey: &Survey<'_>) -> Option<Step> {
    let ghosts = survey.ghosts();
    let first = *ghosts.first()?;
    if let Some(place) = survey.unanswered().find(|place| survey.stays(*place)) {
        return Some(Step::Wait(format!(
            "{place} to answer: it may be the node {first}"
        )));
    }
    // A pod that is to go may be it, or may never have come to be: that is for `drain` to say.
    if !survey.is_complete() {
        return None;
    }
    let ids: BTreeSet<NodeId> = ghosts.into_iter().filter(|id| is_nobody(survey, *id)).collect();
    if ids.is_empty() {
        return Some(Step::Wait(format!(
            "all to miss the node {first}, before it is forgotten"
        )));
    }
    let at_each = survey.nodes.iter().flat_map(|seen| {
        let known = ids.iter().filter(|id| seen.knows(**id).is_some());
        known.map(|id| (seen.node, *id))
    });
    Some(Step::Forget(at_each.collect()))
}

/// Whether no view gives it slots, nobody follows it, and nobody has heard of it of late.
fn is_nobody(survey: &Survey<'_>, id: NodeId) -> bool {
    let has_slots = |seen: &Seen<'_>| seen.knows(id).is_some_and(|known| !known.slots.is_empty());
    let is_followed = |seen: &Seen<'_>| seen.own().primary == Some(id);
    survey.is_lost(id)
        && !survey
            .nodes
            .iter()
            .any(|seen| has_slots(seen) || is_followed(seen))
}
