//! Who has too many slots, and who gets them. Pure, and the same for the same scene: an interrupted plan goes on.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::nodes::NodeId;
use super::open::{marked, moving};
use super::scene::Node;
use super::slots::{Slots, even_counts};
use super::step::{Move, Moving, Step, Why};
use super::survey::Survey;

/// The next slots that go from a shard with more than its share to one with less.
pub(super) fn step(survey: &Survey<'_>) -> Option<Step> {
    match plan(survey)? {
        Ok(plan) => {
            Some(not_now(survey, &plan).unwrap_or_else(|| Step::Move(plan.into_move(survey, Why::Rebalance))))
        }
        Err(what) => Some(what),
    }
}

/// Slots that are to go next.
pub(super) struct Plan {
    pub from: Node,
    pub to: Node,
    pub slots: Slots,
    /// Whether the giver is to have none in the end.
    pub is_drain: bool,
}

impl Plan {
    pub(super) fn into_move(self, survey: &Survey<'_>, why: Why) -> Move {
        moving(survey, self.from, self.to, self.slots, Moving::Hot, why)
    }
}

/// What is to be over before slots move.
pub(super) fn not_now(survey: &Survey<'_>, plan: &Plan) -> Option<Step> {
    if let Some(place) = survey.unanswered().next() {
        return Some(Step::Wait(format!("{place} to answer, before slots move")));
    }
    if let Some(node) = marked(survey) {
        return Some(Step::Wait(format!("an earlier move of slots at {node} to end")));
    }
    let serves = |node: Node| {
        survey
            .seen(node.id)
            .is_some_and(|seen| seen.report.cluster_state_ok)
    };
    let unwell = [plan.from, plan.to].into_iter().find(|node| !serves(*node));
    unwell.map(|node| Step::Wait(format!("{node} to serve, before slots move")))
}

/// Those that are to have none give first; then those above their share. The lowest slots go first, to the lowest shard that lacks some.
pub(super) fn plan(survey: &Survey<'_>) -> Option<Result<Plan, Step>> {
    let mut receivers = Vec::new();
    for shard in 0..survey.scene.wanted.shards {
        match survey.primary_of(shard) {
            Some(primary) => receivers.push(primary.node),
            None => return Some(Err(Step::Wait(format!("a primary in shard {shard}")))),
        }
    }
    let targets = targets(survey, &receivers);
    let target = |id: NodeId| targets.get(&id).copied();
    let owned = |node: Node| survey.slots_of(node.id);
    let excess = |node: Node| owned(node).len().saturating_sub(target(node.id).unwrap_or(0));

    let holders = || {
        survey
            .nodes
            .iter()
            .map(|seen| seen.node)
            .filter(|node| excess(*node) > 0)
    };
    let from = holders()
        .find(|node| target(node.id).is_none())
        .or_else(|| holders().next())?;
    let lack = |node: Node| target(node.id).unwrap_or(0).saturating_sub(owned(node).len());
    let to = receivers.into_iter().find(|node| lack(*node) > 0)?;
    Some(Ok(Plan {
        from,
        to,
        slots: owned(from).lowest(excess(from).min(lack(to))),
        is_drain: target(from.id).is_none(),
    }))
}

/// How many each receiver is to have. Those that have more already are the ones to have one more, so that nothing moves for that.
fn targets(survey: &Survey<'_>, receivers: &[Node]) -> BTreeMap<NodeId, u16> {
    let mut by_count = receivers.to_vec();
    by_count.sort_by_key(|node| (Reverse(survey.slots_of(node.id).len()), node.place));
    let counts = even_counts(survey.scene.wanted.shards);
    by_count.iter().map(|node| node.id).zip(counts).collect()
}
