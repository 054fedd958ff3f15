//! What can go wrong in a reconcile.

use crate::pki::authority::IssueError;
use crate::runtime::apply::ApplyError;
use crate::runtime::client::is_conflict;
use crate::runtime::retry::{ReconcileError, Retry};

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A child or the status was not written.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// The finalizer was not added or removed.
    #[error("cannot change the finalizers: {0}")]
    Finalizer(#[source] kube::Error),
    /// A certificate could not be made.
    #[error(transparent)]
    Issue(#[from] IssueError),
    /// The settings could not be written as JSON.
    #[error("cannot write the settings as JSON: {0}")]
    Settings(#[from] serde_json::Error),
    /// The kernel gives no random numbers.
    #[error("there are no random numbers for a password")]
    Randomness,
    /// The object has no uid: it was not read from an API server.
    #[error("the object has no uid")]
    NoUid,
}

impl Error {
    /// Whether this process may not write, or knows too little: then it has nothing to say of the whole.
    pub fn is_of_the_writer(&self) -> bool {
        matches!(
            self,
            Self::Apply(ApplyError::Fenced { .. } | ApplyError::Conflict { .. })
        )
    }
}

impl ReconcileError for Error {
    fn category(&self) -> &'static str {
        match self {
            Self::Apply(error) => error.category(),
            Self::Finalizer(_) => "finalizer",
            Self::Issue(_) => "certificate",
            Self::Settings(_) => "settings",
            Self::Randomness => "randomness",
            Self::NoUid => "no_uid",
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::Apply(error) => error.retry(),
            Self::Finalizer(error) if is_conflict(error) => Retry::Again,
            Self::Finalizer(_) | Self::Issue(_) | Self::Randomness => Retry::BackOff,
            Self::Settings(_) | Self::NoUid => Retry::OnChange,
        }
    }
}
