//! Writes the OperatorCondition.

use std::convert::Infallible;
use std::time::Duration;

use kube::api::{DynamicObject, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::Value;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::{debug, info, warn};

use super::condition::{self, Say};
use super::holds::UnderWay;
use super::turns::Turn;
use super::{Gate, Upgradeable, Written};
use crate::runtime::backoff::Backoff;
use crate::runtime::client::{is_conflict, is_not_found};
use crate::runtime::clock::Clock;
use crate::runtime::conditions::State;
use crate::runtime::key::ObjectKey;

/// How often the object is read though nothing is to be written: others may have changed it, or made it. OLM gives no right to watch it.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// What is not to shut the gate waits until this long after the last write: many short operations must not become as many writes.
const SETTLE: Duration = Duration::from_secs(5);
/// How long a request may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often a conflict is met at once.
const ATTEMPTS: u32 = 3;
/// After a failure. Somebody may be waiting.
const RETRY: Backoff = Backoff {
    base: Duration::from_millis(250),
    max: Duration::from_secs(30),
};

/// Writes what the holds of an [`Upgradeable`] come to. To be run by the leader alone.
pub struct Keeper {
    upgradeable: Upgradeable,
    target: Option<Target>,
    clock: Clock,
    /// Whose turn it is by what is written; `None` until the object was read for the first time.
    turn: Option<Turn>,
    known: Option<Known>,
    written: Option<Instant>,
    /// What went wrong last, if nothing went well since.
    trouble: Option<String>,
    failures: u32,
}

/// The OperatorCondition.
struct Target {
    api: Api<DynamicObject>,
    key: ObjectKey,
}

impl Target {
    /// The object; `None` when there is none, or its kind is not known.
    async fn read(&self) -> Result<Option<DynamicObject>, KeepError> {
        match limited("read", self.api.get(&self.key.name)).await {
            Ok(object) => Ok(Some(object)),
            Err(KeepError::Request { source, .. }) if is_not_found(&source) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Patches the object. False when somebody changed it since it was read, or took it away.
    async fn write(&self, patch: Value) -> Result<bool, KeepError> {
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        match limited("write", self.api.patch(&self.key.name, &params, &patch)).await {
            Ok(_) => Ok(true),
            Err(KeepError::Request { source, .. }) if is_conflict(&source) || is_not_found(&source) => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

/// What is known of it.
struct Known {
    looked: Instant,
    exists: bool,
    says: Option<Say>,
}

/// Why it is not as it should be.
#[derive(Debug, thiserror::Error)]
enum KeepError {
    #[error("could not {what} it: {source}")]
    Request { what: &'static str, source: kube::Error },
    #[error("could not {what} it within {} s", PATIENCE.as_secs())]
    TimedOut { what: &'static str },
    #[error("others changed it each time that it was to be written")]
    Contended,
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keeper")
            .field("upgradeable", &self.upgradeable)
            .field("turn", &self.turn)
            .finish_non_exhaustive()
    }
}

impl Keeper {
    /// Writes with `client`, whose writes must be refused when this process does not lead. `clock` tells the time at the API server.
    pub fn new(upgradeable: &Upgradeable, client: Client, clock: Clock) -> Self {
        let condition = upgradeable.shared.condition.clone();
        let target = condition.map(|key| Target {
            api: Api::namespaced_with(
                client,
                key.namespace.as_deref().unwrap_or_default(),
                &condition::resource(),
            ),
            key,
        });
        Self {
            upgradeable: upgradeable.clone(),
            target,
            clock,
            turn: None,
            known: None,
            written: None,
            trouble: None,
            failures: 0,
        }
    }

    /// Writes whenever there is something to write, and never returns. It may be dropped at any point.
    pub async fn run(mut self) -> Infallible {
        loop {
            match self.keep().await {
                Ok(until) => {
                    self.note(None);
                    tokio::select! {
                        () = self.upgradeable.shared.changed.notified() => {}
                        () = sleep_until(until) => {}
                    }
                }
                Err(error) => {
                    self.note(Some(error));
                    sleep(RETRY.delay(self.failures - 1)).await;
                }
            }
        }
    }

    /// Does what is due, and tells when something will be, if no hold begins or ends before.
    async fn keep(&mut self) -> Result<Instant, KeepError> {
        let now = Instant::now();
        let (under_way, last, expiry) = self.upgradeable.count(now);
        if self.due(under_way.as_ref(), now) <= now {
            self.look(under_way.as_ref()).await?;
        }
        let now = Instant::now();
        let next = self.next(under_way.as_ref());
        let wanted = next.and_then(|next| condition::say(next, under_way.as_ref()));
        if self.is_in_effect(wanted.as_ref()) {
            self.turn = next;
            let gate = self.gate();
            self.upgradeable.publish(Written { last, gate });
        }
        let time = self.clock.now();
        let lasts = next.and_then(|next| next.lasts(time)).map(|lasts| now + lasts);
        let due = self.due(under_way.as_ref(), now);
        Ok([expiry, lasts].into_iter().flatten().fold(due, Instant::min))
    }

    /// Whose turn it is now; nobody's before the object was read.
    fn next(&self, under_way: Option<&UnderWay>) -> Option<Turn> {
        self.turn
            .map(|turn| turn.step(under_way.is_some(), self.clock.now()))
    }

    /// When the object has to be looked at.
    fn due(&self, under_way: Option<&UnderWay>, now: Instant) -> Instant {
        if self.target.is_none() {
            return now + LOOK_AGAIN;
        }
        let Some(known) = &self.known else {
            return now;
        };
        let again = known.looked + LOOK_AGAIN;
        let wanted = self
            .next(under_way)
            .and_then(|next| condition::say(next, under_way));
        match (&known.says, &wanted) {
            (says, Some(wanted)) if known.exists && says.as_ref() != Some(wanted) => {
                let settled = self.written.map_or(now, |written| written + SETTLE);
                let shuts = wanted.state == State::False && !self.is_in_effect(Some(wanted));
                again.min(if shuts { now } else { settled })
            }
            _ => again,
        }
    }

    /// Whether updates are held back, or not, as is wanted, whatever the words; also where nobody would heed it.
    fn is_in_effect(&self, wanted: Option<&Say>) -> bool {
        let Some(known) = self.known.as_ref().filter(|known| known.exists) else {
            return self.known.is_some();
        };
        wanted.is_none_or(|wanted| known.says.as_ref().is_some_and(|says| says.state == wanted.state))
    }

    fn gate(&self) -> Gate {
        match self.known.as_ref().filter(|known| known.exists) {
            None => Gate::Absent,
            Some(known) => match &known.says {
                Some(says) if says.state == State::False => Gate::Shut,
                _ => Gate::Open,
            },
        }
    }

    /// Reads the object and writes into it what is to be said.
    async fn look(&mut self, under_way: Option<&UnderWay>) -> Result<(), KeepError> {
        let Some(target) = &self.target else {
            return Ok(());
        };
        for _ in 0..ATTEMPTS {
            let Some(object) = target.read().await? else {
                self.found(false, None);
                return Ok(());
            };
            let time = self.clock.now();
            let before = self.turn.unwrap_or_else(|| condition::inherit(&object, time));
            let turn = before.step(under_way.is_some(), time);
            let wanted = condition::say(turn, under_way);
            let patch = wanted
                .as_ref()
                .and_then(|wanted| condition::patch(&object, wanted, time));
            if let Some(patch) = patch {
                if !target.write(patch).await? {
                    continue;
                }
                self.written = Some(Instant::now());
            }
            self.turn = Some(turn);
            self.found(true, wanted.or_else(|| condition::said(&object)));
            return Ok(());
        }
        Err(KeepError::Contended)
    }

    /// Takes note of what the object says, and tells people what that means if it is another than before.
    fn found(&mut self, exists: bool, says: Option<Say>) {
        let state = |says: &Option<Say>| says.as_ref().map(|says| says.state);
        let before = self
            .known
            .as_ref()
            .map(|known| (known.exists, state(&known.says)));
        if before != Some((exists, state(&says))) {
            let condition = self.name();
            match &says {
                _ if !exists => info!(
                    condition,
                    "there is no OperatorCondition: updates cannot be held back"
                ),
                Some(says) if says.state == State::False => {
                    let (reason, operation) = (&says.reason, &says.message);
                    info!(
                        condition,
                        reason, operation, "updates of this operator are held back"
                    );
                }
                _ => info!(condition, "updates of this operator may come"),
            }
        }
        self.known = Some(Known {
            looked: Instant::now(),
            exists,
            says,
        });
    }

    /// Which OperatorCondition it is, for people.
    fn name(&self) -> String {
        self.target
            .as_ref()
            .map(|target| target.key.to_string())
            .unwrap_or_default()
    }

    /// Takes note of how it went; trouble is told once, until there is other trouble, or none.
    fn note(&mut self, error: Option<KeepError>) {
        let condition = self.name();
        let Some(error) = error.map(|error| error.to_string()) else {
            if self.trouble.take().is_some() {
                info!(condition, "the OperatorCondition is as it should be again");
            }
            self.failures = 0;
            return;
        };
        if self.trouble.as_ref() == Some(&error) {
            debug!(
                condition,
                error, "the OperatorCondition is still not as it should be"
            );
        } else {
            warn!(condition, error, "the OperatorCondition is not as it should be");
        }
        self.trouble = Some(error);
        self.failures = self.failures.saturating_add(1);
    }
}

async fn limited<T>(
    what: &'static str,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, KeepError> {
    match timeout(PATIENCE, request).await {
        Ok(answer) => answer.map_err(|source| KeepError::Request { what, source }),
        Err(_) => Err(KeepError::TimedOut { what }),
    }
}
