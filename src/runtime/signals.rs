//! How the kernel and the kubelet ask a process to end.

use std::future::Future;

use tokio::signal::unix::{SignalKind, signal};
use tracing::warn;

/// Done at the first SIGTERM or SIGINT: what [`super::manager::Manager::run`] wants to be given.
///
/// Call it first of all: the kernel ignores a signal for which the first process of a container has no handler.
///
/// # Errors
/// When the kernel refuses a handler. It must be called within a tokio runtime.
pub fn shutdown() -> std::io::Result<impl Future<Output = ()> + Send> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        let name = tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        };
        warn!(signal = name, "told to stop");
    })
}
