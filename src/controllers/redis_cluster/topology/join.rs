//! New pods, and new nodes in them: they get an epoch, and are introduced. Pure.

use super::scene::Shape;
use super::step::{Meeting, Step};
use super::survey::{Seen, Survey};

/// More pods, then epochs, then introductions; then whoever knows somebody in common gets to know each other by itself.
pub(super) fn step(survey: &Survey<'_>) -> Option<Step> {
    grow(survey).or_else(|| epochs(survey)).or_else(|| meet(survey))
}

fn grow(survey: &Survey<'_>) -> Option<Step> {
    let (present, wanted) = (survey.scene.present, survey.scene.wanted);
    let to = Shape {
        shards: present.shards.max(wanted.shards),
        replicas_per_shard: present.replicas_per_shard.max(wanted.replicas_per_shard),
    };
    (to != present).then_some(Step::Grow { to })
}

/// Each its own, above all that were given: Redis takes one only from a node that knows nobody and has none.
fn epochs(survey: &Survey<'_>) -> Option<Step> {
    let highest = survey
        .nodes
        .iter()
        .map(|seen| seen.report.current_epoch)
        .max()
        .unwrap_or(0);
    let has_none = |seen: &&&Seen<'_>| {
        seen.report.view.known.is_empty() && seen.report.current_epoch == 0 && seen.own().config_epoch == 0
    };
    let new = survey.taking_part().filter(|seen| has_none(&seen));
    let epochs: Vec<_> = new
        .zip(highest + 1..)
        .map(|(seen, epoch)| (seen.node, epoch))
        .collect();
    (!epochs.is_empty()).then_some(Step::SetEpochs(epochs))
}

/// All with one, who knows most already: it tells the others of each other. Where that failed, each with each.
fn meet(survey: &Survey<'_>) -> Option<Step> {
    let taking_part: Vec<&Seen<'_>> = survey.taking_part().collect();
    let hub = hub(survey, &taking_part)?;
    let of_hub = taking_part
        .iter()
        .filter(|seen| are_strangers(hub, seen))
        .map(|seen| meeting(hub, seen));
    let mut meetings: Vec<Meeting> = of_hub.collect();
    if meetings.is_empty() {
        for (index, one) in taking_part.iter().enumerate() {
            let others = taking_part.iter().skip(index + 1);
            let strangers = others.filter(|other| are_strangers(one, other));
            meetings.extend(strangers.map(|other| meeting(one, other)));
        }
    }
    (!meetings.is_empty()).then_some(Step::Meet(meetings))
}

fn hub<'s, 'a>(survey: &Survey<'_>, taking_part: &[&'s Seen<'a>]) -> Option<&'s Seen<'a>> {
    let weight = |seen: &&&Seen<'_>| {
        let slots = survey.slots_of(seen.node.id).len();
        let acquaintances = taking_part
            .iter()
            .filter(|other| !are_strangers(seen, other))
            .count();
        (acquaintances, slots, std::cmp::Reverse(seen.node.place))
    };
    taking_part.iter().max_by_key(weight).copied()
}

fn are_strangers(one: &Seen<'_>, other: &Seen<'_>) -> bool {
    one.knows(other.node.id).is_none() || other.knows(one.node.id).is_none()
}

fn meeting(at: &Seen<'_>, whom: &Seen<'_>) -> Meeting {
    Meeting {
        at: at.node,
        whom: whom.node,
    }
}
