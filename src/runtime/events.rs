//! Events: what happened to an object, for the people who run `kubectl describe`.
//!
//! kube's recorder is not used: it counts an event with a new note as a repetition of the old one, so that the new note is lost, sends a
//! request for every repetition, and reads the machine's clock.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::time::{Instant, timeout};
use tracing::{debug, warn};

use super::client::is_not_found;
use super::clock::Clock;
use super::key::Object;
use crate::telemetry::sparing::Sparing;

/// The API's limit for a note, in bytes.
const NOTE_LIMIT: usize = 1024;
/// Leaves room for the suffix in the 253 bytes of a name.
const NAME_LIMIT: usize = 230;
/// A repetition is told to the API server no more often than this, unless something else was said of the object meanwhile: people read events
/// in the order of their times.
const REPEAT: Duration = Duration::from_secs(300);
/// After this time without repetition an event is a new one. The API server keeps events for an hour by default.
const FORGET: Duration = Duration::from_secs(1800);
/// New events for one object, of each reason: so many at once, and then one in each [`REFILL`]. What is said often leaves room for what is seldom said.
const BURST: u32 = 25;
const REFILL: Duration = Duration::from_secs(60);
/// How many events, and how many objects, are remembered. Of more, those are forgotten that were longest silent: then a repetition is told as
/// a new event, which is better than not to tell something new.
const LIMIT: usize = 4096;
/// Telling is a courtesy: it must not hold up work for long.
const PATIENCE: Duration = Duration::from_secs(5);

/// How serious an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventType {
    /// Something happened as it should.
    Normal,
    /// Somebody should have a look.
    Warning,
}

impl EventType {
    fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// Publishes events. Clones share what they remember, so that repetitions are recognised.
#[derive(Clone)]
pub struct Events {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    controller: String,
    instance: String,
    clock: Clock,
    published: AtomicU32,
    memory: Mutex<Memory>,
    cut_off: Sparing,
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events")
            .field("controller", &self.shared.controller)
            .finish_non_exhaustive()
    }
}

impl Events {
    /// Publishes in the name of `controller`, of which this process is the one called `instance`.
    pub fn new(client: Client, controller: &str, instance: &str, clock: Clock) -> Self {
        let shared = Shared {
            client,
            controller: controller.to_owned(),
            instance: instance.to_owned(),
            clock,
            published: AtomicU32::new(0),
            memory: Mutex::default(),
            cut_off: Sparing::default(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Says of `object` that `reason` (one word in CamelCase) came of `action` (likewise); `note` says the rest.
    ///
    /// The same said again is counted, and sent at most every five minutes; of too much at once about one object some is dropped, which is
    /// logged. A failure to publish is logged and otherwise ignored: no work depends on an event.
    pub async fn publish<K: Object>(
        &self,
        object: &K,
        type_: EventType,
        reason: &str,
        action: &str,
        note: &str,
    ) {
        let key = Key {
            uid: object.uid().unwrap_or_default(),
            type_,
            reason: reason.to_owned(),
            action: action.to_owned(),
            note: shorten(note).to_owned(),
        };
        let step = self.lock().step(&key, Instant::now());
        let namespace = object.namespace().unwrap_or_else(|| "default".to_owned());
        let sent = match step {
            Step::Count => return,
            Step::Drop => return self.note_drop(&key, &namespace, &object.name_any()),
            Step::Create => timeout(PATIENCE, self.create(object, &namespace, &key)).await,
            Step::Repeat { name, count } => {
                timeout(PATIENCE, self.repeat(object, &namespace, &key, &name, count)).await
            }
        };
        match sent {
            Ok(Ok(name)) => self.lock().sent(&key, name, Instant::now()),
            Ok(Err(error)) => debug!(%error, reason, "event not published"),
            Err(_) => debug!(reason, "event not published in time"),
        }
    }

    fn note_drop(&self, key: &Key, namespace: &str, name: &str) {
        if let Some(dropped) = self.shared.cut_off.admit(Instant::now()) {
            let reason = &key.reason;
            warn!(
                namespace,
                name, reason, dropped, "too many new events about one object; not published"
            );
        }
    }

    async fn create<K: Object>(&self, object: &K, namespace: &str, key: &Key) -> Result<String, kube::Error> {
        let event = self.render(object.object_ref(&()), namespace, key, self.shared.clock.now());
        self.api(namespace).create(&PostParams::default(), &event).await?;
        Ok(event.name_any())
    }

    async fn repeat<K: Object>(
        &self,
        object: &K,
        namespace: &str,
        key: &Key,
        name: &str,
        count: i32,
    ) -> Result<String, kube::Error> {
        let series = EventSeries {
            count,
            last_observed_time: MicroTime(self.shared.clock.now()),
        };
        let patch = Patch::Merge(json!({"series": series}));
        match self
            .api(namespace)
            .patch(name, &PatchParams::default(), &patch)
            .await
        {
            Ok(_) => Ok(name.to_owned()),
            Err(error) if is_not_found(&error) => self.create(object, namespace, key).await,
            Err(error) => Err(error),
        }
    }

    fn api(&self, namespace: &str) -> Api<Event> {
        Api::namespaced(self.shared.client.clone(), namespace)
    }

    fn render(&self, regarding: ObjectReference, namespace: &str, key: &Key, now: Timestamp) -> Event {
        let about = regarding.name.as_deref().unwrap_or_default();
        // The time tells events of one object apart, as client-go does it; the count does where the clock stands still.
        let suffix = now.as_nanosecond() + i128::from(self.shared.published.fetch_add(1, Ordering::Relaxed));
        let name = format!("{}.{suffix:x}", &about[..about.floor_char_boundary(NAME_LIMIT)]);
        Event {
            action: Some(key.action.clone()),
            event_time: Some(MicroTime(now)),
            metadata: ObjectMeta {
                name: Some(name),
                namespace: Some(namespace.to_owned()),
                ..ObjectMeta::default()
            },
            note: Some(key.note.clone()),
            reason: Some(key.reason.clone()),
            regarding: Some(regarding),
            reporting_controller: Some(self.shared.controller.clone()),
            reporting_instance: Some(self.shared.instance.clone()),
            type_: Some(key.type_.as_str().to_owned()),
            ..Event::default()
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Memory> {
        self.shared.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What makes two events the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    uid: String,
    type_: EventType,
    reason: String,
    action: String,
    note: String,
}

/// What was said lately. Without clock and client.
#[derive(Debug, Default)]
struct Memory {
    said: BTreeMap<Key, Said>,
    /// By uid of the object, and reason: what is left of its burst.
    budgets: BTreeMap<(String, String), Budget>,
}

#[derive(Debug)]
struct Said {
    /// The name of the event, once it was created.
    name: Option<String>,
    count: i32,
    last_sent: Option<Instant>,
    last_said: Instant,
}

#[derive(Debug)]
struct Budget {
    left: u32,
    filled: Instant,
}

#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// It was said before, and not long ago.
    Count,
    /// Too much is said of this object.
    Drop,
    Create,
    Repeat {
        name: String,
        count: i32,
    },
}

impl Memory {
    /// What to do when `key` is said at `now`.
    fn step(&mut self, key: &Key, now: Instant) -> Step {
        self.forget(now);
        let came_between = self.came_between(key);
        let Some(said) = self.said.get_mut(key) else {
            if !spend(&mut self.budgets, key, now) {
                return Step::Drop;
            }
            make_room(&mut self.said, |said| said.last_said);
            self.said.insert(
                key.clone(),
                Said {
                    name: None,
                    count: 1,
                    last_sent: None,
                    last_said: now,
                },
            );
            return Step::Create;
        };
        said.last_said = now;
        said.count = said.count.saturating_add(1);
        let lately = |sent: Instant| now.duration_since(sent) < REPEAT;
        if said.last_sent.is_some_and(lately) && !(came_between && spend(&mut self.budgets, key, now)) {
            return Step::Count;
        }
        match &said.name {
            Some(name) => Step::Repeat {
                name: name.clone(),
                count: said.count,
            },
            None if spend(&mut self.budgets, key, now) => Step::Create,
            None => Step::Drop,
        }
    }

    /// Whether something else was said of the object since `key` was.
    fn came_between(&self, key: &Key) -> bool {
        let Some(said) = self.said.get(key) else {
            return false;
        };
        let first = Key {
            uid: key.uid.clone(),
            type_: EventType::Normal,
            reason: String::new(),
            action: String::new(),
            note: String::new(),
        };
        let of_object = self
            .said
            .range(first..)
            .take_while(|(other, _)| other.uid == key.uid);
        of_object
            .into_iter()
            .any(|(_, other)| other.last_said > said.last_said)
    }

    fn sent(&mut self, key: &Key, name: String, now: Instant) {
        if let Some(said) = self.said.get_mut(key) {
            said.name = Some(name);
            said.last_sent = Some(now);
        }
    }

    fn forget(&mut self, now: Instant) {
        self.said
            .retain(|_, said| now.duration_since(said.last_said) < FORGET);
        // A budget that would be full again says nothing.
        let full = REFILL.saturating_mul(BURST);
        self.budgets
            .retain(|_, budget| now.duration_since(budget.filled) < full);
    }
}

/// Forgets the longest silent entry if there is no room for one more.
fn make_room<K: Ord + Clone, V>(remembered: &mut BTreeMap<K, V>, last: impl Fn(&V) -> Instant) {
    if remembered.len() < LIMIT {
        return;
    }
    let oldest = remembered.iter().min_by_key(|(_, entry)| last(entry));
    if let Some(key) = oldest.map(|(key, _)| key.clone()) {
        remembered.remove(&key);
    }
}

/// Whether one more new event of this object and reason may be sent.
fn spend(budgets: &mut BTreeMap<(String, String), Budget>, key: &Key, now: Instant) -> bool {
    let of = (key.uid.clone(), key.reason.clone());
    if !budgets.contains_key(&of) {
        make_room(budgets, |budget| budget.filled);
    }
    let budget = budgets.entry(of).or_insert(Budget {
        left: BURST,
        filled: now,
    });
    let elapsed = now.duration_since(budget.filled);
    let refilled = u32::try_from(elapsed.as_secs() / REFILL.as_secs()).unwrap_or(u32::MAX);
    if refilled > 0 {
        budget.left = budget.left.saturating_add(refilled).min(BURST);
        budget.filled += REFILL.saturating_mul(refilled);
    }
    let granted = budget.left > 0;
    budget.left = budget.left.saturating_sub(1);
    granted
}

/// The longest beginning of `note` that the API takes.
fn shorten(note: &str) -> &str {
    &note[..note.floor_char_boundary(NOTE_LIMIT)]
}

#[cfg(test)]
#[path = "events_tests.rs"]
mod tests;
