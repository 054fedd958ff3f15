//! What the runtime wants to know of an error: what it is called, and when to try again.

use std::time::Duration;

/// When a reconcile that failed is to be repeated. It is repeated on every change in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// After the object's back-off, which doubles with every failure in a row.
    BackOff,
    /// After this time.
    After(Duration),
    /// Not before something changes: the object itself is at fault.
    OnChange,
    /// After the object's back-off, and it was no fault: somebody else wrote first, so everything has to be looked at again. When that
    /// does not help several times in a row, it counts as a failure after all.
    Again,
}

/// What the runtime wants to know of a controller's error.
pub trait ReconcileError: std::error::Error + Send + Sync + 'static {
    /// A short, fixed name of what went wrong, in snake case: the label of a metric.
    fn category(&self) -> &'static str;
    /// When to try again.
    fn retry(&self) -> Retry;
}
