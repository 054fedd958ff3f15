//! Keeps OLM from updating the operator in the middle of something dangerous.
//!
//! OLM names an OperatorCondition in the pod's variable `OPERATOR_CONDITION_NAME`. While the condition `Upgradeable` in its spec is
//! `False`, OLM leaves the next version's ClusterServiceVersion in the phase `Pending`. That holds back the next version's Deployment and
//! nothing else: its CustomResourceDefinitions are applied before.
//!
//! Whoever begins something that must not be cut off by an update takes a [`Hold`] from the [`Upgradeable`] of its context and keeps it
//! until the end, over as many reconciles as that takes: a failover, a resharding, a migration of stored objects. The leader's [`Keeper`]
//! writes what all of them come to.
//!
//! An update is never held back for ever, because it may be what mends the operator:
//!
//! * A hold ends by itself after the time that it was given, even if a bug in its holder keeps it.
//! * Whatever is held, updates are let through for [`NOTICED`] once they have been held back for [`LONGEST`]. Pauses shorter than that do not
//!   count as such, since OLM looks at the condition every five minutes or so. The longest operations that are worth waiting for, such as
//!   the migration of many objects, are done in an hour or two; and an update that comes in the evening should be there in the morning.
//! * What a leader that died held back is let through after [`TAKEN_UP`], unless its successor takes it up.
//! * People overrule it by `spec.overrides` of the OperatorCondition, which is theirs and is neither read nor written here.
//!
//! Where OLM names no OperatorCondition, or there is none of that name, as under OLM v1, nothing is written and nobody waits.
//!
//! A condition that says `True` is written too, before anything is under way: from then on OLM takes every later write for news that it has yet to
//! look at, and holds updates back from the moment of the write on, not only once it has copied it into the status.

mod condition;
mod holds;
mod keeper;
#[cfg(test)]
mod keeper_tests;
mod turns;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout};
use tracing::warn;

pub use keeper::Keeper;

use super::key::ObjectKey;
use crate::telemetry::sparing::Sparing;
use holds::{Holds, UnderWay};

/// The type of the condition.
pub const UPGRADEABLE: &str = "Upgradeable";
/// Updates are never held back for longer than this without being let through for [`NOTICED`].
pub const LONGEST: Duration = Duration::from_secs(6 * 3600);
/// In this time OLM has looked at the condition twice at least: it does so every five minutes, give or take a fifth.
pub const NOTICED: Duration = Duration::from_secs(15 * 60);
/// In this time a new leader has come to every object once.
pub const TAKEN_UP: Duration = Duration::from_secs(2 * 60);

/// Holds updates of this operator back. Clones do it together.
#[derive(Clone)]
pub struct Upgradeable {
    shared: Arc<Shared>,
}

struct Shared {
    /// The OperatorCondition, if OLM has named one.
    condition: Option<ObjectKey>,
    holds: Mutex<Holds>,
    /// Wakes the keeper.
    changed: Notify,
    written: watch::Sender<Written>,
    too_many: Sparing,
}

/// What is written.
#[derive(Clone, Copy, Debug)]
struct Written {
    /// The last hold that counts in it.
    last: u64,
    gate: Gate,
}

/// What becomes of an update now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// OLM holds it back.
    Shut,
    /// It may come at any time: the hold has run out, or updates have been held back for too long.
    Open,
    /// There is no OperatorCondition, so nobody would heed it.
    Absent,
}

/// It is not known in time whether updates are held back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the OperatorCondition {condition} could not be written within {} ms", .limit.as_millis())]
pub struct NotWritten {
    condition: String,
    limit: Duration,
}

impl std::fmt::Debug for Upgradeable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Upgradeable")
            .field("condition", &self.shared.condition)
            .finish_non_exhaustive()
    }
}

impl Upgradeable {
    /// Goes by the OperatorCondition of this key; without one, holds are taken and nobody heeds them.
    pub fn new(condition: Option<ObjectKey>) -> Self {
        let nobody_to_wait_for = Written {
            last: u64::MAX,
            gate: Gate::Absent,
        };
        let nothing_yet = Written {
            last: 0,
            gate: Gate::Open,
        };
        let written = if condition.is_some() {
            nothing_yet
        } else {
            nobody_to_wait_for
        };
        Self {
            shared: Arc::new(Shared {
                condition,
                holds: Mutex::default(),
                changed: Notify::new(),
                written: watch::Sender::new(written),
                too_many: Sparing::default(),
            }),
        }
    }

    /// Holds updates back until the hold is dropped, for `limit` at most.
    ///
    /// `reason` is one word in CamelCase, such as `Failover`; `message` names for people what is under way and of which object, in 200 bytes
    /// at most. `limit` is how long it can take when all goes as badly as it may: after that a bug is more likely. Over [`LONGEST`] counts
    /// as that.
    ///
    /// Of more than 4096 holds at once the last ones do not count, which is logged.
    pub fn hold(&self, reason: &str, message: &str, limit: Duration) -> Hold {
        let now = Instant::now();
        let (number, last) = {
            let mut holds = self.holds();
            let number = holds.begin(reason, message, limit, now);
            (number, holds.last())
        };
        if number.is_none()
            && let Some(times) = self.shared.too_many.admit(now)
        {
            warn!(
                reason,
                operation = message,
                times,
                "too many operations at once: updates are not held back for this one"
            );
        }
        self.shared.changed.notify_one();
        Hold {
            upgradeable: self.clone(),
            number,
            last,
        }
    }

    /// What is under way at `now`, the last hold that counts in it, and when the next one runs out. What has run out is logged, once.
    fn count(&self, now: Instant) -> (Option<UnderWay>, u64, Option<Instant>) {
        let (over, seen) = {
            let mut holds = self.holds();
            let over = holds.expire(now);
            (over, (holds.under_way(), holds.last(), holds.next_expiry()))
        };
        for held in over {
            let (reason, operation) = (&held.reason, &held.message);
            warn!(
                reason,
                operation, "an operation has not ended in its time, and holds updates back no more"
            );
        }
        seen
    }

    fn publish(&self, written: Written) {
        self.shared.written.send_replace(written);
    }

    fn holds(&self) -> MutexGuard<'_, Holds> {
        self.shared.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Something is under way that an update must not cut off. It has ended when this is dropped.
#[must_use = "updates are held back only as long as this is kept"]
pub struct Hold {
    upgradeable: Upgradeable,
    number: Option<u64>,
    /// When this is in effect, the hold is.
    last: u64,
}

impl std::fmt::Debug for Hold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Hold").field(&self.number).finish()
    }
}

impl Hold {
    /// Waits until it is written that updates are held back, for `limit` at most: to be asked before what is dangerous begins. Whether it is to
    /// begin all the same where that is not so is up to the holder. Where nobody would heed it, this returns at once.
    ///
    /// # Errors
    /// When it could not be written within `limit`, or not be found out whether there is an OperatorCondition.
    pub async fn written(&self, limit: Duration) -> Result<Gate, NotWritten> {
        let mut written = self.upgradeable.shared.written.subscribe();
        let not_written = || NotWritten {
            condition: self
                .upgradeable
                .shared
                .condition
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default(),
            limit,
        };
        let counts = written.wait_for(|written| written.last >= self.last);
        match timeout(limit, counts).await {
            Ok(Ok(written)) => Ok(written.gate),
            // The sender lives as long as this hold, so it is the time.
            Ok(Err(_)) | Err(_) => Err(not_written()),
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let Some(number) = self.number else {
            return;
        };
        if self.upgradeable.holds().end(number) {
            self.upgradeable.shared.changed.notify_one();
        }
    }
}
