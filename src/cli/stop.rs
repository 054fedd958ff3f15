//! Work that somebody may want to end.

use std::process;
use std::sync::LazyLock;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

use super::{Failure, Outcome};
use crate::olm::oci;
use crate::runtime::signals;

/// Who is told when somebody wants the end: work that ends by itself then.
static WANTED: LazyLock<watch::Sender<()>> = LazyLock::new(|| watch::Sender::new(()));

/// Somebody wanted it to end.
#[derive(Debug, thiserror::Error)]
#[error("it was told to stop")]
pub(super) struct Stopped;

/// From here on SIGINT and SIGTERM end whatever [`until_stopped`] does; where it does nothing, they end the process, which removes first what it has on the disk
/// for a while. One thread listens for all: a signal that was ever listened to ends nothing by itself any more.
///
/// # Errors
/// When the kernel refuses a handler or a thread.
pub(super) fn listen() -> Outcome {
    let runtime = runtime()?;
    let mut told = runtime.block_on(async { signals::shutdown() })?;
    let listener = move || {
        loop {
            runtime.block_on(told);
            if WANTED.receiver_count() == 0 {
                oci::remove_what_is_unfinished();
                eprintln!("roadstead: {Stopped}");
                process::exit(1);
            }
            WANTED.send_replace(());
            match runtime.block_on(async { signals::shutdown() }) {
                Ok(again) => told = again,
                Err(_) => break,
            }
        }
    };
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(listener)?;
    Ok(())
}

/// Does something over the network, until it is done or somebody wants it to end: see [`listen`].
///
/// # Errors
/// What the work fails with, or [`Stopped`].
pub(super) fn until_stopped<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let mut wanted = WANTED.subscribe();
    runtime()?.block_on(async {
        tokio::select! {
            done = work => done,
            // Its sender is never dropped
            _ = wanted.changed() => Err(Stopped.into()),
        }
    })
}

fn runtime() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}
