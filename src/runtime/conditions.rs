//! Conditions as the API conventions want them. Pure: the time is an argument.
//!
//! ```
//! use roadstead::runtime::conditions::{Conditions, State};
//!
//! let mut conditions = Conditions::new(&[], Some(3), jiff::Timestamp::UNIX_EPOCH);
//! conditions.set("ConfigValid", State::True, "Checked", "nginx accepts the configuration");
//! conditions.set("Available", State::False, "Starting", "0 of 2 replicas are ready");
//! conditions.ready_from(&["ConfigValid", "Available"]);
//! let conditions = conditions.finish();
//! assert_eq!((conditions[2].type_.as_str(), conditions[2].status.as_str()), ("Ready", "False"));
//! assert_eq!(conditions[2].message, "0 of 2 replicas are ready");
//! ```

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// The type of the condition that sums up all others.
pub const READY: &str = "Ready";

/// What a condition says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// Nobody knows yet.
    Unknown,
}

impl State {
    /// As the API writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }

    /// What a condition says; nothing that is known if it is not there.
    pub fn of(condition: Option<&Condition>) -> Self {
        match condition.map(|condition| condition.status.as_str()) {
            Some("True") => Self::True,
            Some("False") => Self::False,
            _ => Self::Unknown,
        }
    }
}

impl From<bool> for State {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// The condition of this type.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Builds the list of conditions of a status.
#[derive(Clone, Debug)]
pub struct Conditions {
    before: BTreeMap<String, Condition>,
    now: BTreeMap<String, Condition>,
    generation: Option<i64>,
    time: Timestamp,
}

impl Conditions {
    /// Begins with the conditions that the object has, of which only the times of transition are kept, for an object of this generation.
    pub fn new(before: &[Condition], generation: Option<i64>, time: Timestamp) -> Self {
        let before = before
            .iter()
            .map(|condition| (condition.type_.clone(), condition.clone()))
            .collect();
        // Seconds are all that the API keeps: anything finer would make every status differ from what was stored.
        let time = Timestamp::from_second(time.as_second()).unwrap_or(time);
        Self {
            before,
            now: BTreeMap::new(),
            generation,
            time,
        }
    }

    /// Says `state` of the condition `type_`. `reason` is one word in CamelCase, `message` is for people.
    ///
    /// The time of transition moves when the state differs from what the object had, and only then.
    pub fn set(&mut self, type_: &str, state: State, reason: &str, message: impl Into<String>) {
        let status = state.as_str().to_owned();
        let since = self.before.get(type_).filter(|before| before.status == status);
        let condition = Condition {
            type_: type_.to_owned(),
            last_transition_time: since.map_or(Time(self.time), |before| before.last_transition_time.clone()),
            message: message.into(),
            observed_generation: self.generation,
            reason: reason.to_owned(),
            status,
        };
        self.now.insert(type_.to_owned(), condition);
    }

    /// Derives `Ready` from the conditions that it depends on, set before: false when one is false, else unknown when one is unknown or was
    /// not set, else true. It takes reason and message from the first, in the order given, that decides.
    pub fn ready_from(&mut self, dependents: &[&str]) {
        let state_of = |type_: &str| {
            self.now
                .get(type_)
                .map_or(State::Unknown.as_str(), |condition| condition.status.as_str())
        };
        let first = |state: State| {
            dependents
                .iter()
                .find(|type_| state_of(type_) == state.as_str())
                .copied()
        };
        let (state, decisive) = match (first(State::False), first(State::Unknown)) {
            (Some(type_), _) => (State::False, Some(type_)),
            (None, Some(type_)) => (State::Unknown, Some(type_)),
            (None, None) => (State::True, None),
        };
        let (reason, message) = match decisive.map(|type_| (type_, self.now.get(type_))) {
            Some((_, Some(condition))) => (condition.reason.clone(), condition.message.clone()),
            Some((type_, None)) => (
                "NotChecked".to_owned(),
                format!("{type_} has not been determined yet"),
            ),
            None => (
                "Ready".to_owned(),
                "everything that this object asks for is in place".to_owned(),
            ),
        };
        self.set(READY, state, &reason, message);
    }

    /// What has been said of `type_` so far.
    pub fn get(&self, type_: &str) -> Option<&Condition> {
        self.now.get(type_)
    }

    /// The list, in the order of the types. A condition that was not set is not in it.
    pub fn finish(self) -> Vec<Condition> {
        self.now.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn ready(states: &[Option<State>]) -> Condition {
        let mut conditions = Conditions::new(&[], Some(1), at(0));
        let names = ["A", "B", "C"];
        for (name, state) in names.iter().zip(states) {
            if let Some(state) = state {
                conditions.set(name, *state, name, format!("{name} says so"));
            }
        }
        conditions.ready_from(&names[..states.len()]);
        conditions.get(READY).unwrap().clone()
    }

    #[rstest]
    #[case(&[], "True", "Ready")]
    #[case(&[Some(State::True), Some(State::True)], "True", "Ready")]
    #[case(&[Some(State::True), Some(State::False)], "False", "B")]
    #[case(&[Some(State::Unknown), Some(State::False)], "False", "B")]
    #[case(&[Some(State::True), Some(State::Unknown)], "Unknown", "B")]
    #[case(&[Some(State::True), None], "Unknown", "NotChecked")]
    #[case(&[Some(State::False), Some(State::False)], "False", "A")]
    fn ready_follows_from_its_dependents(
        #[case] states: &[Option<State>],
        #[case] status: &str,
        #[case] reason: &str,
    ) {
        let ready = ready(states);
        assert_eq!((ready.status.as_str(), ready.reason.as_str()), (status, reason));
    }

    #[test]
    fn the_time_of_transition_moves_with_the_state_alone() {
        let mut first = Conditions::new(&[], Some(1), at(10));
        first.set("A", State::False, "Starting", "0 of 2");
        let first = first.finish();
        let mut second = Conditions::new(&first, Some(2), at(20));
        second.set("A", State::False, "Starting", "1 of 2");
        let second = second.finish();
        assert_eq!(second[0].last_transition_time, Time(at(10)));
        assert_eq!(
            (second[0].observed_generation, second[0].message.as_str()),
            (Some(2), "1 of 2")
        );
        let mut third = Conditions::new(&second, Some(2), at(30));
        third.set("A", State::True, "Available", "2 of 2");
        assert_eq!(third.finish()[0].last_transition_time, Time(at(30)));
    }

    #[test]
    fn times_are_whole_seconds_as_the_api_keeps_them() {
        let mut conditions = Conditions::new(&[], None, Timestamp::from_millisecond(1_999).unwrap());
        conditions.set("A", State::True, "A", "");
        assert_eq!(conditions.finish()[0].last_transition_time, Time(at(1)));
    }

    #[test]
    fn the_same_said_twice_is_the_same_list() {
        let say = |before: &[Condition], time| {
            let mut conditions = Conditions::new(before, Some(1), at(time));
            conditions.set("B", State::True, "B", "b");
            conditions.set("A", State::True, "A", "a");
            conditions.ready_from(&["A", "B"]);
            conditions.finish()
        };
        let first = say(&[], 1);
        assert_eq!(say(&first, 100), first);
        assert_eq!(
            first
                .iter()
                .map(|condition| condition.type_.as_str())
                .collect::<Vec<_>>(),
            ["A", "B", "Ready"]
        );
    }
}
