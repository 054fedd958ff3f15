//! What can go wrong when a child or a status is written.

use super::super::client::{is_conflict, is_fenced};
use super::super::key::ObjectKey;
use super::super::retry::Retry;

/// Why an object was not written.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// An object of that name exists and belongs to somebody else.
    #[error(
        "{kind} {key} exists and belongs to {owner}: rename it or this object, or delete it if nobody needs it"
    )]
    NotOurs {
        /// Its kind.
        kind: String,
        /// Its name.
        key: ObjectKey,
        /// Whose it is, for people.
        owner: String,
    },
    /// Somebody else wrote first; look at everything again.
    #[error("{kind} {key} changed meanwhile")]
    Conflict {
        /// Its kind.
        kind: String,
        /// Its name.
        key: ObjectKey,
    },
    /// The API server finds the object invalid, or a policy forbids it (400, 403 or 422).
    #[error("the API server rejected {kind} {key}: {message}")]
    Rejected {
        /// Its kind.
        kind: String,
        /// Its name.
        key: ObjectKey,
        /// What the API server said.
        message: String,
    },
    /// This process does not lead.
    #[error("{kind} {key} was not written: {source}")]
    Fenced {
        /// Its kind.
        kind: String,
        /// Its name.
        key: ObjectKey,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
    /// The API server could not be reached, or failed.
    #[error("cannot write {kind} {key}: {source}")]
    Api {
        /// Its kind.
        kind: String,
        /// Its name.
        key: ObjectKey,
        /// What went wrong.
        #[source]
        source: Box<kube::Error>,
    },
    /// The object cannot be written as JSON.
    #[error("cannot write {kind} {key} as JSON: {source}")]
    Encode {
        /// Its kind.
        kind: String,
        /// Its name.
        key: ObjectKey,
        /// What went wrong.
        #[source]
        source: serde_json::Error,
    },
}

impl ApplyError {
    pub(super) fn from_api(kind: &str, key: &ObjectKey, source: kube::Error) -> Self {
        let (kind, key) = (kind.to_owned(), key.clone());
        if is_conflict(&source) {
            return Self::Conflict { kind, key };
        }
        if is_fenced(&source) {
            return Self::Fenced {
                kind,
                key,
                source: source.into(),
            };
        }
        match source {
            kube::Error::Api(status) if matches!(status.code, 400 | 403 | 422) => Self::Rejected {
                kind,
                key,
                message: status.message,
            },
            source => Self::Api {
                kind,
                key,
                source: source.into(),
            },
        }
    }

    /// Whether the object has a field that cannot be changed and would have to be. Nothing but the text of the answer says so.
    pub(super) fn is_about_an_immutable_field(&self) -> bool {
        matches!(self, Self::Rejected { message, .. } if message.contains("field is immutable"))
    }

    /// A short name of what went wrong, for [`super::super::retry::ReconcileError::category`].
    pub fn category(&self) -> &'static str {
        match self {
            Self::NotOurs { .. } => "not_ours",
            Self::Conflict { .. } => "conflict",
            Self::Rejected { .. } => "rejected",
            Self::Fenced { .. } => "fenced",
            Self::Api { .. } => "api",
            Self::Encode { .. } => "encode",
        }
    }

    /// When to try again, for [`super::super::retry::ReconcileError::retry`].
    pub fn retry(&self) -> Retry {
        match self {
            Self::Conflict { .. } => Retry::Again,
            // The stranger is not watched, so nothing would tell of its going.
            Self::NotOurs { .. } | Self::Rejected { .. } | Self::Fenced { .. } | Self::Api { .. } => {
                Retry::BackOff
            }
            Self::Encode { .. } => Retry::OnChange,
        }
    }
}
