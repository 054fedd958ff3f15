//! Events about an object: what one says, and whether a condition is news.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::runtime::apply::Outcome;
use crate::runtime::conditions::find;
use crate::runtime::events::EventType;
use crate::runtime::key::Object;
use crate::runtime::reconcile::Context;

/// An Event to be published about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// Normal, or a Warning.
    pub type_: EventType,
    /// One word in CamelCase.
    pub reason: String,
    /// What the operator was doing.
    pub action: &'static str,
    /// For people.
    pub note: String,
}

/// That a workload of this kind and name was written, if it was.
pub fn workload_written(kind: &str, name: &str, outcome: Outcome) -> Option<Announcement> {
    let (reason, note) = match outcome {
        Outcome::Created => ("Created", format!("{kind} {name} was created")),
        Outcome::Updated => ("Updated", format!("{kind} {name} was updated")),
        Outcome::Unchanged | Outcome::Terminating => return None,
    };
    Some(Announcement {
        type_: EventType::Normal,
        reason: reason.to_owned(),
        action: "RollOut",
        note,
    })
}

/// Publishes them.
pub async fn tell<K: Object>(object: &K, context: &Context, announcements: Vec<Announcement>) {
    for Announcement {
        type_,
        reason,
        action,
        note,
    } in announcements
    {
        context
            .events()
            .publish(object, type_, &reason, action, &note)
            .await;
    }
}

/// Whether a condition says something else than `before`. Of a reason among `by_message` the message counts too: it is another mistake, not a
/// count that moved.
pub fn is_news(before: &[Condition], condition: &Condition, by_message: &[&str]) -> bool {
    let Some(old) = find(before, &condition.type_) else {
        return true;
    };
    let by_message = by_message.contains(&condition.reason.as_str()) && old.message != condition.message;
    old.status != condition.status || old.reason != condition.reason || by_message
}
