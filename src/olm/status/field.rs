//! Fields of objects as the API server writes them. What is not there reads as empty: OLM leaves out what it does not know yet.

use jiff::Timestamp;
use serde_json::Value;

use super::GRACE;
pub(super) use crate::olm::manifests::{list, name, text};

/// The texts of the list at a JSON pointer.
pub(super) fn texts<'a>(value: &'a Value, pointer: &str) -> Vec<&'a str> {
    list(value, pointer).iter().filter_map(Value::as_str).collect()
}

/// The number at a JSON pointer; 0 when there is none.
pub(super) fn number(value: &Value, pointer: &str) -> i64 {
    value.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
}

/// The time at a JSON pointer.
pub(super) fn time(value: &Value, pointer: &str) -> Option<Timestamp> {
    text(value, pointer).parse().ok()
}

/// Whether what the time at a JSON pointer tells of happened so lately that OLM may not have come to it.
pub(super) fn is_new(value: &Value, pointer: &str, now: Timestamp) -> bool {
    time(value, pointer).is_some_and(|then| now.duration_since(then) < GRACE)
}

pub(super) fn namespace(object: &Value) -> &str {
    text(object, "/metadata/namespace")
}

/// `NAMESPACE/NAME`.
pub(super) fn path(object: &Value) -> String {
    format!("{}/{}", namespace(object), name(object))
}

/// The entry of `status.conditions` of this type.
pub(super) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    list(object, "/status/conditions")
        .iter()
        .find(|condition| text(condition, "/type") == kind)
}

/// The same, if its status is this one.
pub(super) fn condition_is<'a>(object: &'a Value, kind: &str, status: &str) -> Option<&'a Value> {
    condition(object, kind).filter(|condition| text(condition, "/status") == status)
}

/// Reason and message of a condition, or of a status that is like one.
pub(super) fn said(condition: &Value) -> String {
    match (text(condition, "/reason"), text(condition, "/message")) {
        (reason, "") => reason.to_owned(),
        ("", message) => message.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    }
}
