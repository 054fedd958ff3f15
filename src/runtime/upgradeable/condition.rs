//! What the OperatorCondition says, and what there is to write. Pure: time is an argument.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::DynamicObject;
use kube::core::{ApiResource, GroupVersionKind};
use serde::Deserialize;
use serde_json::{Value, json};

use super::holds::UnderWay;
use super::turns::Turn;
use super::{LONGEST, UPGRADEABLE};
use crate::runtime::conditions::{Conditions, State};

/// The reason where updates were held back for too long. The next leader goes by it.
const HELD_TOO_LONG: &str = "HeldTooLong";
/// The reason where nothing is under way.
const IDLE: &str = "NothingUnderWay";

/// OLM's kind. Not as a type: that would lose what a later version of it says besides.
pub(super) fn resource() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(
        "operators.coreos.com",
        "v2",
        "OperatorCondition",
    ))
}

/// What is to be said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Say {
    pub(super) state: State,
    pub(super) reason: String,
    pub(super) message: String,
}

impl Say {
    fn of(state: State, reason: &str, message: String) -> Self {
        Self {
            state,
            reason: reason.to_owned(),
            message,
        }
    }
}

/// What is to be said in this turn; `None` when what stands there is to stay.
pub(super) fn say(turn: Turn, under_way: Option<&UnderWay>) -> Option<Say> {
    match (turn, under_way) {
        (Turn::Inherited { .. }, _) => None,
        (Turn::Shut { .. }, Some(UnderWay { reason, message })) => {
            Some(Say::of(State::False, reason, message.clone()))
        }
        (Turn::Forced { .. }, _) => {
            let hours = LONGEST.as_secs() / 3600;
            let message = format!(
                "updates were held back for {hours} hours, the longest time there is, and are let through for a while"
            );
            Some(Say::of(State::True, HELD_TOO_LONG, message))
        }
        (Turn::Shut { .. } | Turn::Open | Turn::Pause { .. }, _) => {
            let message = "nothing is under way that an update would endanger";
            Some(Say::of(State::True, IDLE, message.to_owned()))
        }
    }
}

/// What a leader begins with, by what the one before it left there.
pub(super) fn inherit(object: &DynamicObject, now: Timestamp) -> Turn {
    let Some(present) = present(object) else {
        return Turn::Open;
    };
    let since = present.last_transition_time.0;
    match (present.status.as_str(), present.reason.as_str()) {
        ("False", _) => Turn::Inherited { since, from: now },
        ("True", HELD_TOO_LONG) => Turn::Forced { from: since },
        _ => Turn::Open,
    }
}

/// What the object says of us, if it says anything.
pub(super) fn said(object: &DynamicObject) -> Option<Say> {
    let present = present(object)?;
    Some(Say::of(
        State::of(Some(&present)),
        &present.reason,
        present.message,
    ))
}

/// A JSON merge patch by which `object` says so, guarded by the version that was looked at; `None` when it does already.
///
/// The list is replaced as a whole, so the conditions of others go into it as they are.
pub(super) fn patch(object: &DynamicObject, say: &Say, now: Timestamp) -> Option<Value> {
    let present = present(object);
    let says_so = present.as_ref().is_some_and(|present| {
        present.status == say.state.as_str() && present.reason == say.reason && present.message == say.message
    });
    if says_so {
        return None;
    }
    // What it observed is for OLM to add, in the status.
    let mut wanted = Conditions::new(present.as_slice(), None, now);
    wanted.set(UPGRADEABLE, say.state, &say.reason, say.message.as_str());
    let others = list(object)
        .iter()
        .filter(|condition| !is_ours(condition))
        .cloned();
    let conditions: Vec<Value> = others
        .chain(wanted.finish().iter().map(|ours| json!(ours)))
        .collect();
    Some(json!({
        "metadata": {"uid": object.metadata.uid, "resourceVersion": object.metadata.resource_version},
        "spec": {"conditions": conditions},
    }))
}

fn present(object: &DynamicObject) -> Option<Condition> {
    let ours = list(object).iter().find(|condition| is_ours(condition))?;
    Condition::deserialize(ours).ok()
}

fn list(object: &DynamicObject) -> &[Value] {
    object.data["spec"]["conditions"]
        .as_array()
        .map_or(&[], Vec::as_slice)
}

fn is_ours(condition: &Value) -> bool {
    condition["type"] == UPGRADEABLE
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn condition(type_: &str, status: &str, reason: &str, second: i64) -> Value {
        let time = at(second).to_string();
        json!({"type": type_, "status": status, "reason": reason, "message": "of a", "lastTransitionTime": time})
    }

    fn object(conditions: Value) -> DynamicObject {
        let object = json!({
            "apiVersion": "operators.coreos.com/v2",
            "kind": "OperatorCondition",
            "metadata": {"name": "roadstead.v0.1.0", "namespace": "operators", "uid": "1", "resourceVersion": "7"},
            "spec": {"deployments": ["roadstead-operator"], "conditions": conditions},
        });
        serde_json::from_value(object).unwrap()
    }

    fn failover() -> UnderWay {
        UnderWay {
            reason: "Failover".into(),
            message: "of a".into(),
        }
    }

    fn shut() -> Say {
        say(Turn::Shut { since: at(0) }, Some(&failover())).unwrap()
    }

    #[rstest]
    #[case::idle(Turn::Open, Some(("True", "NothingUnderWay")))]
    #[case::under_way(Turn::Shut { since: at(0) }, Some(("False", "Failover")))]
    #[case::a_pause(Turn::Pause { since: at(0), from: at(1) }, Some(("True", "NothingUnderWay")))]
    #[case::too_long(Turn::Forced { from: at(0) }, Some(("True", "HeldTooLong")))]
    #[case::inherited(Turn::Inherited { since: at(0), from: at(1) }, None)]
    fn what_is_said_follows_from_the_turn(#[case] turn: Turn, #[case] expected: Option<(&str, &str)>) {
        let said = say(turn, Some(&failover()));
        let said = said
            .as_ref()
            .map(|said| (said.state.as_str(), said.reason.as_str()));
        assert_eq!(said, expected);
    }

    #[rstest]
    #[case::nothing(json!([]), Turn::Open)]
    #[case::null(Value::Null, Turn::Open)]
    #[case::open(json!([condition(UPGRADEABLE, "True", IDLE, 5)]), Turn::Open)]
    #[case::unknown(json!([condition(UPGRADEABLE, "Unknown", "Failover", 5)]), Turn::Open)]
    #[case::shut(json!([condition(UPGRADEABLE, "False", "Failover", 5)]), Turn::Inherited { since: at(5), from: at(9) })]
    #[case::forced(json!([condition(UPGRADEABLE, "True", HELD_TOO_LONG, 5)]), Turn::Forced { from: at(5) })]
    #[case::of_others(json!([condition("Degraded", "False", "Fine", 5)]), Turn::Open)]
    fn a_new_leader_goes_by_what_the_last_one_said(#[case] conditions: Value, #[case] expected: Turn) {
        assert_eq!(inherit(&object(conditions), at(9)), expected);
    }

    #[test]
    fn what_is_said_already_is_not_written() {
        let there = object(json!([condition(UPGRADEABLE, "False", "Failover", 5)]));
        assert_eq!(patch(&there, &shut(), at(9)), None);
    }

    #[rstest]
    #[case::where_there_was_none(json!([]), 9)]
    #[case::where_the_list_is_missing(Value::Null, 9)]
    #[case::where_the_state_changes(json!([condition(UPGRADEABLE, "True", IDLE, 5)]), 9)]
    #[case::where_the_reason_alone_changes(json!([condition(UPGRADEABLE, "False", "Resharding", 5)]), 5)]
    #[case::where_it_stands_twice(json!([condition(UPGRADEABLE, "True", IDLE, 5), condition(UPGRADEABLE, "False", "Failover", 6)]), 9)]
    fn it_is_written_once_and_its_time_moves_with_the_state_alone(
        #[case] conditions: Value,
        #[case] since: i64,
    ) {
        let written = patch(&object(conditions), &shut(), at(9)).unwrap();
        let ours = condition(UPGRADEABLE, "False", "Failover", since);
        assert_eq!(written["spec"], json!({"conditions": [ours]}));
    }

    #[test]
    fn what_others_say_stays_to_the_letter_and_the_version_that_was_read_guards_it() {
        let mut theirs = condition("example.org/Quiet", "Unknown", "Waiting", 1);
        theirs["later"] = json!({"field": 1});
        let there = object(json!([theirs, condition(UPGRADEABLE, "True", IDLE, 5)]));
        let written = patch(&there, &shut(), at(9)).unwrap();
        assert_eq!(written["spec"]["conditions"][0], theirs);
        assert_eq!(written["metadata"], json!({"uid": "1", "resourceVersion": "7"}));
    }
}
