//! Refusals, in the form in which the API itself refuses: clients print the message of a `Status`.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use kube::core::Status;
use serde::Serialize;

/// For the header `Content-Type`.
pub(super) const JSON: &str = "application/json";

/// A request that is no review, or cannot be taken on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Refused {
    code: StatusCode,
    message: String,
}

impl Refused {
    pub(super) fn new(code: StatusCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    /// A body that is not what it has to be.
    pub(super) fn malformed(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Typed {
    api_version: &'static str,
    kind: &'static str,
    #[serde(flatten)]
    status: Status,
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let reason = self.code.canonical_reason().unwrap_or_default().replace(' ', "");
        let status = Status::failure(&self.message, &reason).with_code(self.code.as_u16());
        let typed = Typed {
            api_version: "v1",
            kind: "Status",
            status,
        };
        match serde_json::to_vec(&typed) {
            Ok(body) => (self.code, [(header::CONTENT_TYPE, JSON)], body).into_response(),
            Err(_) => (self.code, self.message).into_response(),
        }
    }
}

/// The beginning of a text from outside, of at most `longest` characters, short enough for a message.
pub(super) fn shortened(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
