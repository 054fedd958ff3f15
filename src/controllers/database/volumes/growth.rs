//! The writes that bring volumes to what the spec says.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::ResourceExt;
use serde_json::json;
use tracing::debug;

use super::step::{Step, step};
use super::{Volumes, claims};
use crate::api::database::ValidDatabase;
use crate::api::database::v1::Database;
use crate::controllers::database::announce::Announcement;
use crate::controllers::database::desired::{Decided, Owner};
use crate::controllers::database::error::Error;
use crate::controllers::database::observe::Observed;
use crate::controllers::database::write::Applied;
use crate::runtime::apply::{Applier, ApplyError};
use crate::runtime::events::EventType;
use crate::runtime::key::ObjectKey;

/// What the API server refused is asked again after so long, then after twice as long, and so on up to the second.
const AGAIN: (SignedDuration, SignedDuration) = (SignedDuration::from_secs(30), SignedDuration::from_mins(5));

/// Brings the volumes of databases on their way, and remembers what the API server refused: it is asked again later, not at each change.
#[derive(Debug, Default)]
pub struct Growth {
    refused: Mutex<HashMap<ObjectKey, Refusal>>,
}

/// What the API server refused.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    /// How large the volumes should have become, in bytes, and whether the StatefulSet was to be made anew for that.
    pub(super) asked: (u64, bool),
    /// In its words.
    pub(super) said: String,
    pub(super) at: Timestamp,
    /// How often, one after the other.
    pub(super) times: u32,
}

impl Refusal {
    /// Whether it is too early to ask for the same again.
    pub(super) fn holds(&self, now: Timestamp) -> bool {
        let (first, most) = AGAIN;
        let factor = 1_i32
            .checked_shl(self.times.min(8).saturating_sub(1))
            .unwrap_or(1);
        let wait = first.saturating_mul(factor).min(most);
        (SignedDuration::ZERO..wait).contains(&now.duration_since(self.at))
    }
}

impl Growth {
    /// Forgets a database that is no more.
    pub fn forget(&self, key: &ObjectKey) {
        self.refused().remove(key);
    }

    fn refused(&self) -> MutexGuard<'_, HashMap<ObjectKey, Refusal>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does what is to be done next, after all children are written. What the API server refuses is in the answer, and no error: nothing else waits for it.
    ///
    /// # Errors
    /// When the API server could not be asked.
    pub async fn step(
        &self,
        apply: &Applier,
        owner: &Owner<'_>,
        decided: &Decided,
        observed: &Observed,
        applied: &mut Applied,
        now: Timestamp,
    ) -> Result<Volumes, Error> {
        let (key, valid) = (ObjectKey::of(owner.object), owner.database);
        let mut volumes = Volumes {
            claims: claims(&valid.name, observed, decided.replicas),
            refused: None,
        };
        let step = step(valid, decided, observed, applied.stateful_set.as_deref());
        if step == Step::Rest {
            self.forget(&key);
            return Ok(volumes);
        }
        let asked = (valid.storage.bytes, step == Step::Renew);
        let before = self.refused().get(&key).cloned();
        let before = before.filter(|before| before.asked == asked);
        if let Some(refusal) = before.as_ref().filter(|refusal| refusal.holds(now)) {
            volumes.refused = Some(refusal.said.clone());
            return Ok(volumes);
        }
        match step {
            Step::Ask(small) => ask(apply, valid, &small, applied, &mut volumes).await?,
            _ => renew(apply, owner.object, applied, &mut volumes).await?,
        }
        match &volumes.refused {
            Some(said) => {
                let refusal = Refusal {
                    asked,
                    said: said.clone(),
                    at: now,
                    times: before.map_or(0, |before| before.times).saturating_add(1),
                };
                self.refused().insert(key, refusal);
            }
            None => self.forget(&key),
        }
        Ok(volumes)
    }
}

/// Whether the API server, or whom it asks, answered and did not do it. Otherwise whether it can do anything at all is not known.
pub(super) fn is_refusal(error: &ApplyError) -> bool {
    match error {
        ApplyError::Rejected { .. } => true,
        ApplyError::Api { source, .. } => matches!(**source, kube::Error::Api(_)),
        _ => false,
    }
}

/// Asks each of them to grow: that one is refused is no reason to leave the others as they are.
async fn ask(
    apply: &Applier,
    valid: &ValidDatabase,
    small: &[Arc<PersistentVolumeClaim>],
    applied: &mut Applied,
    volumes: &mut Volumes,
) -> Result<(), Error> {
    let size = &valid.storage.size;
    for claim in small {
        match apply
            .amend(&**claim, json!({"resources": {"requests": {"storage": size}}}))
            .await
        {
            Ok(Some(asked)) => {
                let name = asked.name_any();
                let note = format!("claim {name} is asked to grow to {}", size.0);
                applied.announcements.push(announcement("VolumeGrows", note));
                let mut known = volumes.claims.iter_mut();
                if let Some(known) = known.find(|known| known.metadata.name == asked.metadata.name) {
                    *known = asked;
                }
            }
            Err(error) if is_refusal(&error) => {
                volumes.refused.get_or_insert(error.to_string());
            }
            // What has changed, or gone, comes as a change of its own.
            Ok(None) | Err(ApplyError::Conflict { .. }) => {
                debug!(claim = claim.name_any(), "it has changed meanwhile")
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Deletes the StatefulSet and nothing that it has made. Its disappearance is a change, upon which it is made anew.
async fn renew(
    apply: &Applier,
    database: &Database,
    applied: &mut Applied,
    volumes: &mut Volumes,
) -> Result<(), Error> {
    let Some(set) = &applied.stateful_set else {
        return Ok(());
    };
    match apply.release(database, &**set).await {
        Ok(true) => {
            let note = format!(
                "StatefulSet {} is made anew, for larger volumes of new instances; the pods go on",
                set.name_any()
            );
            applied.announcements.push(announcement("Renewing", note));
            Ok(())
        }
        Ok(false) | Err(ApplyError::Conflict { .. }) => Ok(()),
        Err(error) if is_refusal(&error) => {
            volumes.refused = Some(error.to_string());
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

fn announcement(reason: &str, note: String) -> Announcement {
    Announcement {
        type_: EventType::Normal,
        reason: reason.to_owned(),
        action: "Resize",
        note,
    }
}
