//! Which Events the step from one list of conditions to the next deserves. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::status::{AVAILABLE, CONFIG_VALID, PROGRESSING};
use crate::controllers::common::announce::is_news;
pub use crate::controllers::common::announce::{Announcement, tell};
use crate::runtime::conditions::{READY, State, find};
use crate::runtime::events::EventType;

/// Reasons that somebody should have a look at.
const BAD: [&str; 12] = [
    "InvalidSpec",
    "Refused",
    "CheckFailed",
    "CheckWaiting",
    "NameTaken",
    "Rejected",
    "NoPodReady",
    "Stalled",
    "Blocked",
    "RefusedByPod",
    "PodsUnreachable",
    "LoadingStalled",
];
/// Reasons that say that nothing happened yet, or that another condition tells better.
const SILENT: [&str; 3] = ["NotStarted", "Waiting", "Complete"];
/// Reasons whose message is news of its own: another mistake, not a count that moved.
const NEWS_BY_MESSAGE: [&str; 5] = ["InvalidSpec", "Refused", "NameTaken", "Rejected", "RefusedByPod"];

/// The Events for what is new in `after`.
pub fn announcements(before: &[Condition], after: &[Condition]) -> Vec<Announcement> {
    // No pod is ready at the beginning of a rollout, and that is no reason to warn.
    let under_way = State::of(find(after, PROGRESSING)) == State::True;
    let news = after
        .iter()
        .filter(|condition| is_news(before, condition, &NEWS_BY_MESSAGE));
    news.filter_map(|condition| announce(condition, under_way))
        .collect()
}

fn announce(condition: &Condition, under_way: bool) -> Option<Announcement> {
    let reason = condition.reason.as_str();
    if SILENT.contains(&reason) {
        return None;
    }
    let (reason, action) = match (condition.type_.as_str(), reason) {
        (CONFIG_VALID, "Accepted") => ("ConfigAccepted", "Check"),
        (CONFIG_VALID, "Refused") => ("ConfigRefused", "Check"),
        (CONFIG_VALID, reason) => (reason, "Check"),
        (AVAILABLE, reason) => (reason, "Serve"),
        // What is being checked was told by ConfigValid.
        (PROGRESSING, "Checking") => return None,
        (PROGRESSING, reason) => (reason, "RollOut"),
        // UpToDate says what Progressing does, and Ready repeats another condition, unless all is well.
        (READY, "Ready") => ("Ready", "Serve"),
        _ => return None,
    };
    let bad = BAD.contains(&condition.reason.as_str()) && !(under_way && condition.reason == "NoPodReady");
    let type_ = if bad {
        EventType::Warning
    } else {
        EventType::Normal
    };
    Some(Announcement {
        type_,
        reason: reason.to_owned(),
        action,
        note: condition.message.clone(),
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Condition {
        Condition {
            type_: type_.into(),
            status: status.into(),
            reason: reason.into(),
            message: message.into(),
            last_transition_time: Time(jiff::Timestamp::UNIX_EPOCH),
            observed_generation: None,
        }
    }

    fn reasons(before: &[Condition], after: &[Condition]) -> Vec<String> {
        announcements(before, after)
            .into_iter()
            .map(|announcement| announcement.reason)
            .collect()
    }

    #[test]
    fn a_refusal_is_told_once_and_again_when_the_mistake_is_another() {
        let refused = |message| [condition(CONFIG_VALID, "False", "Refused", message)];
        assert_eq!(reasons(&[], &refused("a")), ["ConfigRefused"]);
        assert!(reasons(&refused("a"), &refused("a")).is_empty());
        assert_eq!(reasons(&refused("a"), &refused("b")), ["ConfigRefused"]);
    }

    #[test]
    fn a_count_that_moves_is_no_event() {
        let waiting = |message| [condition(AVAILABLE, "False", "PodsNotReady", message)];
        assert!(reasons(&waiting("0 of 2"), &waiting("1 of 2")).is_empty());
        let well = [
            condition(AVAILABLE, "True", "Available", "2 of 2"),
            condition(READY, "True", "Ready", ""),
        ];
        assert_eq!(reasons(&waiting("1 of 2"), &well), ["Available", "Ready"]);
    }

    #[test]
    fn refusals_are_warnings() {
        let after = [
            condition(PROGRESSING, "False", "NameTaken", "x"),
            condition(CONFIG_VALID, "True", "Accepted", "y"),
        ];
        let types: Vec<_> = announcements(&[], &after)
            .into_iter()
            .map(|announcement| announcement.type_)
            .collect();
        assert_eq!(types, [EventType::Warning, EventType::Normal]);
    }
}
