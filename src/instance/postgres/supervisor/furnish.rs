//! What every primary has: its owner, the owner's database and what instances need.

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::time::Instant;

use super::super::secrets::Password;
use super::super::sql::{Local, SqlError};
use super::act::PAUSE;
use super::owner::Owner;
use super::{Supervisor, slow_to_fail};
use crate::api::database::agent::Role;

/// How far that is.
#[derive(Default)]
pub(super) struct Furnishing {
    pub(super) owner: Owner,
    /// The owner's password that this primary was told, or is being told, once it is any.
    told: Option<Option<Password>>,
    pub(super) making: Option<BoxFuture<'static, Result<(), SqlError>>>,
    /// Since when it has everything, and a checkpoint of its timeline.
    pub(super) since: Option<Instant>,
}

impl Supervisor {
    /// Makes what every primary has, once for each primary, and again when the owner's password is another; and a checkpoint whenever one is needed.
    pub(super) fn furnish(&mut self) {
        // As it was told last: the role is worked out once in each turn.
        if self.shown.borrow().report.role != Role::Primary {
            self.unfurnish();
            return;
        }
        if self.furnishing.making.is_some() {
            return;
        }
        let Some(password) = self.furnishing.owner.password() else {
            return;
        };
        let awaits_checkpoint = self.protocol.awaits_checkpoint();
        if self.furnishing.told.as_ref() == Some(&password) && !awaits_checkpoint {
            return;
        }
        // Another password alone waits for none: on a large primary it takes minutes.
        let has_to_be_written = self.furnishing.since.is_none() || awaits_checkpoint;
        let (options, settings) = (self.options.clone(), self.mounted.settings.clone());
        self.furnishing.told = Some(password.clone());
        let prepare = async move {
            let mut local = Local::new(&options);
            // Until then nobody can be rewound to this timeline; so nothing that waits for a replica may come before it.
            if has_to_be_written {
                local.checkpoint().await?;
            }
            local
                .prepare(&settings, password.as_ref().map(Password::as_str))
                .await
        };
        self.furnishing.making = Some(slow_to_fail(prepare, PAUSE).boxed());
    }

    pub(super) fn furnished(&mut self, outcome: Result<(), SqlError>) {
        match outcome {
            Ok(()) => {
                tracing::info!("the owner, its database and what instances need are there");
                self.furnishing.since.get_or_insert_with(Instant::now);
            }
            Err(error) => {
                tracing::warn!(%error, "cannot make what every primary has");
                self.furnishing.told = None;
            }
        }
    }

    /// Another primary has nothing yet.
    pub(super) fn unfurnish(&mut self) {
        let Furnishing {
            told, making, since, ..
        } = &mut self.furnishing;
        (*told, *making, *since) = (None, None, None);
    }
}
