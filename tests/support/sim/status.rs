//! Refusals, in the API server's words.

use serde_json::{Value, json};

use super::kinds::Kind;

/// A refusal: a code, a reason and a message.
#[derive(Clone, Debug)]
pub struct Refusal {
    pub code: u16,
    pub reason: &'static str,
    pub message: String,
    /// Seconds, as in the header Retry-After.
    pub retry_after: Option<u64>,
}

impl Refusal {
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            retry_after: None,
        }
    }

    pub fn not_found(kind: &Kind, name: &str) -> Self {
        Self::new(
            404,
            "NotFound",
            format!("{} \"{name}\" not found", kind.resource()),
        )
    }

    pub fn already_exists(kind: &Kind, name: &str) -> Self {
        Self::new(
            409,
            "AlreadyExists",
            format!("{} \"{name}\" already exists", kind.resource()),
        )
    }

    pub fn conflict(kind: &Kind, name: &str, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} \"{name}\": {why}",
            kind.resource()
        );
        Self::new(409, "Conflict", message)
    }

    /// Somebody wrote since.
    pub fn modified(kind: &Kind, name: &str) -> Self {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(kind, name, why)
    }

    pub fn invalid(kind: &Kind, name: &str, problems: &[String]) -> Self {
        let problems = match problems {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let full = if kind.group.is_empty() {
            kind.kind.to_owned()
        } else {
            format!("{}.{}", kind.kind, kind.group)
        };
        Self::new(
            422,
            "Invalid",
            format!("{full} \"{name}\" is invalid: {problems}"),
        )
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// The history does not reach back so far.
    pub fn expired() -> Self {
        Self::new(
            410,
            "Expired",
            "too old resource version: the simulation has forgotten it",
        )
    }

    /// As a `Status` object.
    pub fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        if let Some(seconds) = self.retry_after {
            status["details"] = json!({"retryAfterSeconds": seconds});
        }
        status
    }
}
