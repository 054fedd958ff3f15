//! The instances of databases: the pods in which they run, what is on their volumes, and what each is doing. [`group`] has those of one database agree
//! on who leads, by the Lease that the operator made, and [`asked`] answers the operator.
//!
//! As little as the operator can tell from real ones, at whose protocol other tests look: nothing hangs here and no request of theirs is lost. Time passes
//! where it does in reality: a pod starts, data is copied, a promotion, a primary whose pod was killed is missed.

pub mod asked;
pub mod board;
mod group;
mod lease;
mod pod;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use roadstead::api::database::agent::{CONTAINER, SETTINGS, Settings, State, settings_hash};
use serde_json::Value;
use tokio::time::Instant;

use super::{every, text};
use crate::sim::kinds::named;
use crate::sim::store::{Id, Store};
use board::{Board, Key};
use group::{Acknowledged, Group};

/// How often mounts are looked at again by themselves.
const SYNC: Duration = Duration::from_secs(60);
/// What PostgreSQL has of itself.
const CONNECTIONS: u64 = 100;

/// Whether an instance of a database runs in this pod.
pub fn is_instance(pod: &Value) -> bool {
    pod["spec"]["containers"][0]["name"] == CONTAINER
}

/// What PostgreSQL is doing in a pod, or what the pod waits for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Phase {
    /// The pod has no node yet.
    Unbound,
    /// Its container does not run yet.
    Bound,
    /// The instance manager runs, and PostgreSQL does not.
    Idle,
    /// It does this until then.
    Busy(State, Instant),
    /// It runs as a replica.
    Replica,
    /// It is the primary.
    Leading,
}

/// What is on a volume.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Disk {
    pub identifier: String,
    pub timeline: u32,
    /// How many commits it has.
    pub commits: u64,
    /// How many connections the primary allowed when this was last heard from it.
    pub floor: u64,
}

/// Settings as they are mounted.
#[derive(Clone, Debug)]
pub struct Told {
    pub hash: String,
    pub settings: Settings,
}

impl Told {
    fn connections(&self) -> u64 {
        let asked = self.settings.parameters.get("max_connections");
        asked.and_then(|asked| asked.parse().ok()).unwrap_or(CONNECTIONS)
    }

    fn names(&self) -> BTreeSet<&str> {
        self.settings
            .members
            .iter()
            .map(|member| member.name.as_str())
            .collect()
    }
}

/// A pod.
#[derive(Clone, Debug)]
pub struct Instance {
    pub id: Id,
    pub uid: String,
    /// What names the process in the Lease.
    pub identity: String,
    pub database: String,
    pub phase: Phase,
    /// The volume, by the uid of its claim.
    volume: String,
    pub told: Option<Told>,
    /// The annotation under which the settings were mounted.
    mark: Value,
    /// When something happens to the pod.
    due: Instant,
    ending: bool,
    /// With how many connections PostgreSQL was started.
    pub connections: u64,
    pub image: String,
}

impl Instance {
    fn name(&self) -> &str {
        &self.id.name
    }

    /// Whether its manager runs.
    fn runs(&self) -> bool {
        !matches!(self.phase, Phase::Unbound | Phase::Bound)
    }

    fn key(&self) -> Key {
        (self.id.namespace.clone(), self.database.clone())
    }
}

/// All of them.
#[derive(Default)]
pub struct Databases {
    pods: BTreeMap<String, Instance>,
    disks: BTreeMap<String, Disk>,
    groups: BTreeMap<Key, Group>,
    mended: bool,
    /// How many databases were begun: PostgreSQL draws their identifiers.
    begun: u64,
    /// How many commits were acknowledged, by the identifier of the data.
    acknowledged: Acknowledged,
    pub board: Board,
}

impl Databases {
    /// Has what was missing be there from now on.
    pub fn mend(&mut self) {
        self.mended = true;
    }

    /// Does what is due, and says when something is due next.
    pub fn step(&mut self, store: &mut Store) -> Option<Instant> {
        let mut pods = every(store, "Pod");
        pods.retain(|(_, pod)| is_instance(pod));
        self.pods
            .retain(|uid, _| pods.iter().any(|(_, pod)| text(pod, "/metadata/uid") == uid));
        for (id, pod) in &pods {
            self.advance(store, id, pod);
        }
        let keys: BTreeSet<Key> = self.pods.values().map(Instance::key).collect();
        self.groups.retain(|key, _| keys.contains(key));
        let mut due: Vec<Instant> = Vec::new();
        for key in keys {
            let mut group = self.groups.remove(&key).unwrap_or_default();
            due.extend(group.govern(&key, self, store));
            self.groups.insert(key, group);
        }
        self.refresh();
        for uid in self.pods.keys().cloned().collect::<Vec<_>>() {
            self.show(store, &uid);
        }
        due.extend(self.pods.values().map(|instance| instance.due));
        due.into_iter().min()
    }

    /// Puts on the board what is so.
    fn refresh(&self) {
        let known = |(key, group): (&Key, &Group)| (key.clone(), group.known(key, self));
        self.board.put(self.groups.iter().map(known).collect());
    }

    /// Those of one database, by name.
    fn of(&self, key: &Key) -> Vec<&Instance> {
        let of_it = self.pods.values().filter(|instance| instance.key() == *key);
        let mut of_it: Vec<_> = of_it.collect();
        of_it.sort_by(|left, right| left.name().cmp(right.name()));
        of_it
    }

    fn disk(&self, instance: &Instance) -> Option<&Disk> {
        self.disks.get(&instance.volume)
    }
}

/// The settings that a pod mounts, if there are any that can be read.
fn mounted(store: &Store, pod: &Value) -> Option<Told> {
    let volumes = pod["spec"]["volumes"].as_array()?;
    let volume = volumes.iter().find(|volume| volume["name"] == "settings")?;
    let id = Id::new(
        named("ConfigMap"),
        text(pod, "/metadata/namespace"),
        text(volume, "/configMap/name"),
    );
    let file = store.get(&id)?["data"][SETTINGS].as_str()?;
    Some(Told {
        hash: settings_hash(file),
        settings: serde_json::from_str(file).ok()?,
    })
}
