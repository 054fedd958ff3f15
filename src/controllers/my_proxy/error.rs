//! What can go wrong in a reconcile.

use crate::runtime::apply::ApplyError;
use crate::runtime::client::is_conflict;
use crate::runtime::retry::{ReconcileError, Retry};

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A child, a pod or the status was not written.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// The finalizer was not added or removed.
    #[error("cannot change the finalizers: {0}")]
    Finalizer(#[source] kube::Error),
    /// The object has no uid: it was not read from an API server.
    #[error("the object has no uid")]
    NoUid,
}

impl ReconcileError for Error {
    fn category(&self) -> &'static str {
        match self {
            Self::Apply(error) => error.category(),
            Self::Finalizer(_) => "finalizer",
            Self::NoUid => "no_uid",
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::Apply(error) => error.retry(),
            Self::Finalizer(error) if is_conflict(error) => Retry::Again,
            Self::Finalizer(_) => Retry::BackOff,
            Self::NoUid => Retry::OnChange,
        }
    }
}
