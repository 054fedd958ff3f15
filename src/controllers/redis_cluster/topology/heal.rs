//! Addresses: a pod that comes back has another one, and where all came back nobody can tell the others. Pure.

use super::step::{Meeting, Step};
use super::survey::{Seen, Survey};

/// Introductions of those who know each other under an address that is not so. One of both is enough: the other learns from whoever calls.
pub(super) fn step(survey: &Survey<'_>) -> Option<Step> {
    let mut meetings = Vec::new();
    for (index, one) in survey.nodes.iter().enumerate() {
        for other in survey.nodes.iter().skip(index + 1) {
            if misses(one, other) || misses(other, one) {
                meetings.push(meeting(one, other));
            }
        }
    }
    (!meetings.is_empty()).then_some(Step::Heal(meetings))
}

/// Whether one knows the other, and not where it is.
fn misses(viewer: &Seen<'_>, other: &Seen<'_>) -> bool {
    let known = viewer.knows(other.node.id);
    known.is_some_and(|known| known.ip != Some(other.node.ip))
}

/// Whoever knows the other under a wrong address has to be the one who calls: only then it takes the new one.
fn meeting(one: &Seen<'_>, other: &Seen<'_>) -> Meeting {
    let (at, whom) = if misses(one, other) {
        (one, other)
    } else {
        (other, one)
    };
    Meeting {
        at: at.node,
        whom: whom.node,
    }
}
