//! Fewer shards, or fewer replicas: what is to go is emptied, leaves the cluster, is forgotten, and only then its pods go. Pure.

use super::failover::who_knows;
use super::forget;
use super::open::marked;
use super::rebalance::{not_now, plan};
use super::scene::Node;
use super::step::{FailOver, Step, Trouble, Why};
use super::survey::{Seen, Survey};

/// Of the memory that is free elsewhere, this part stays free: one fifth.
const HEADROOM: u64 = 5;

/// The next step on that way.
pub(super) fn step(survey: &Survey<'_>) -> Option<Step> {
    move_away(survey).or_else(|| leave(survey))
}

/// Whoever is to have no slots, and has some, gives them away. In a shard that stays, that takes a failover, not a move.
fn move_away(survey: &Survey<'_>) -> Option<Step> {
    if let Some(step) = hand_over(survey) {
        return Some(step);
    }
    let plan = match plan(survey)? {
        Ok(plan) if plan.is_drain => plan,
        // Nobody has slots who should not.
        Ok(_) => return None,
        Err(what) => return has_leaving_owner(survey).then_some(what),
    };
    let step = not_now(survey, &plan).or_else(|| no_room(survey));
    Some(step.unwrap_or_else(|| Step::Move(plan.into_move(survey, Why::Drain))))
}

fn has_leaving_owner(survey: &Survey<'_>) -> bool {
    let mut leaving = leaving(survey);
    leaving.any(|seen| survey.owners.contains_key(&seen.node.id))
}

fn leaving<'s, 'a>(survey: &'s Survey<'a>) -> impl Iterator<Item = &'s Seen<'a>> {
    survey.nodes.iter().filter(|seen| !survey.stays(seen.node.place))
}

/// A primary whose copy is to go, in a shard that stays, hands over to a copy that stays.
fn hand_over(survey: &Survey<'_>) -> Option<Step> {
    let goes = |seen: &&Seen<'_>| seen.node.place.shard < survey.scene.wanted.shards && seen.is_primary();
    // Redis has no failover of a primary without slots: such a one just leaves.
    let primary = leaving(survey)
        .filter(goes)
        .find(|seen| survey.owners.contains_key(&seen.node.id))?;
    let id = primary.node.id;
    let mut staying = survey
        .replicas_of(id)
        .filter(|replica| survey.stays(replica.node.place));
    let Some(replica) = staying.find(|replica| replica.report.primary_link_up) else {
        return Some(Step::Wait(format!(
            "a replica that can take over from {}",
            primary.node
        )));
    };
    Some(Step::FailOver {
        replica: replica.node,
        primary: id,
        how: FailOver::Planned,
        why: format!("{} is to go", primary.node),
    })
}

/// What is drained has to fit into the memory that is free elsewhere. A node without any limit has room for all.
fn no_room(survey: &Survey<'_>) -> Option<Step> {
    let drained = leaving(survey).filter(|seen| survey.owners.contains_key(&seen.node.id));
    let needed: u64 = drained.map(|seen| seen.report.used_memory).sum();
    let mut free: u64 = 0;
    for shard in 0..survey.scene.wanted.shards {
        let report = survey.primary_of(shard)?.report;
        let limit = report.maxmemory.or(survey.scene.memory_limit)?;
        free = free.saturating_add(limit.saturating_sub(report.used_memory));
    }
    let available = free - free / HEADROOM;
    (needed > available).then_some(Step::Degraded(Trouble::ScaleInBlocked { needed, available }))
}

/// Whoever is to go has nothing any more. Each step of this is for good, so nobody may be silent, and all have to agree.
fn leave(survey: &Survey<'_>) -> Option<Step> {
    if survey.scene.present == survey.scene.wanted {
        return None;
    }
    if let Some(step) = unknown(survey).or_else(|| not_empty(survey)) {
        return Some(step);
    }
    let next = leaving(survey).filter(|seen| !is_out(survey, seen));
    // Primaries last: their replicas would miss them.
    if let Some(next) = next.min_by_key(|seen| (seen.is_primary(), seen.node.place)) {
        return Some(Step::Reset { node: next.node });
    }
    let to = survey.scene.wanted;
    Some(forget::step(survey).unwrap_or(Step::Shrink { to }))
}

/// Whether it has left. A node that was never introduced has nothing to leave.
fn is_out(survey: &Survey<'_>, seen: &Seen<'_>) -> bool {
    seen.is_alone() && who_knows(survey, seen.node.id) == [seen.node]
}

/// Somebody may know more: a pod that did not answer, unless there is none, it is to go, and no id is left that could be its own.
fn unknown(survey: &Survey<'_>) -> Option<Step> {
    let is_nobody = |place| !survey.stays(place) && !survey.is_silent(place) && survey.ghosts().is_empty();
    let place = survey.unanswered().find(|place| !is_nobody(*place))?;
    Some(Step::Wait(format!(
        "{place} to answer, before pods are taken away"
    )))
}

fn not_empty(survey: &Survey<'_>) -> Option<Step> {
    if has_leaving_owner(survey) {
        return Some(Step::wait("all slots to have gone, before pods are taken away"));
    }
    if let Some(node) = marked(survey) {
        return Some(Step::Wait(format!("the move of slots at {node} to end")));
    }
    let has_keys = |seen: &&Seen<'_>| seen.is_primary() && seen.report.keys > 0;
    if let Some(seen) = leaving(survey).find(has_keys) {
        let (node, keys): (Node, u64) = (seen.node, seen.report.keys);
        return Some(Step::Degraded(Trouble::StrayKeys { node, keys }));
    }
    let seen = survey.who_disagrees()?;
    Some(Step::Wait(format!(
        "{} to know who owns which slots, before pods are taken away",
        seen.node
    )))
}

#[cfg(test)]
#[path = "drain_tests.rs"]
mod tests;
