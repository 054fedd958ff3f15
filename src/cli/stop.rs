//! Work that somebody may want to end.

use super::Failure;
use crate::runtime::signals;

/// Somebody wanted it to end.
#[derive(Debug, thiserror::Error)]
#[error("it was told to stop")]
pub(super) struct Stopped;

/// Does something over the network, until it is done or somebody wants it to end.
///
/// # Errors
/// What the work fails with, or [`Stopped`].
pub(super) fn until_stopped<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let stop = signals::shutdown()?;
        tokio::select! {
            done = work => done,
            () = stop => Err(Stopped.into()),
        }
    })
}
