//! Restarts that are asked for, and how long nobody could write because of one, or because of a handover.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use tokio::time::Instant;

use super::super::protocol::Server;
use super::super::sql::{Local, SqlError};
use super::{Supervisor, slow_to_fail};
use crate::api::database::agent::{Pause, Restart, Role};

/// A first write that failed is tried again after this time.
const AGAIN: Duration = Duration::from_millis(200);

/// A primary was stopped in order.
#[derive(Default)]
pub(super) struct Standstill {
    /// Since when no write is accepted, until one is again.
    pub(super) since: Option<Timestamp>,
    /// The first write since then.
    pub(super) resuming: Option<BoxFuture<'static, Result<(), SqlError>>>,
    /// How long the last one was.
    pub(super) last: Option<Pause>,
}

impl Supervisor {
    /// Has PostgreSQL started again, if it has settings that wait for that. So whoever asks twice gets one restart.
    pub(super) fn restart(&mut self, restart: &Restart) -> Result<(), String> {
        let waits = !self.shown.borrow().report.pending_restart.is_empty();
        if !waits {
            return Err(format!("no setting waits for a restart: {}", restart.why));
        }
        self.with(|protocol, situation| protocol.asked_to_restart(situation))
    }

    /// A primary is about to be stopped in order: from now on it accepts no write.
    pub(super) fn note_stop(&mut self) {
        let (server, _) = self.server(Instant::now());
        if matches!(server, Server::Running(running) if running.primary) {
            self.standstill.since = Some(Timestamp::now());
        }
    }

    /// Writes once there is a primary again, as clients would.
    pub(super) fn resume(&mut self) {
        let leads = self.shown.borrow().report.role == Role::Primary;
        if !leads || self.standstill.since.is_none() {
            self.standstill.resuming = None;
            return;
        }
        if self.standstill.resuming.is_some() {
            return;
        }
        let options = self.options.clone();
        let write = async move { Local::new(&options).write().await };
        self.standstill.resuming = Some(slow_to_fail(write, AGAIN).boxed());
    }

    pub(super) fn resumed(&mut self, outcome: Result<(), SqlError>) {
        match outcome {
            Ok(()) => {
                let Some(stopped) = self.standstill.since.take() else {
                    return;
                };
                let ended = Timestamp::now();
                let milliseconds = u64::try_from(ended.duration_since(stopped).as_millis()).unwrap_or(0);
                tracing::info!(milliseconds, "writes are accepted again");
                self.standstill.last = Some(Pause { milliseconds, ended });
            }
            Err(error) => tracing::info!(%error, "no write is accepted yet"),
        }
    }
}
