//! The Lease of a database as its instances read and write it, and who may take it.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use roadstead::api::database::agent::{Lsn, RECORD, Record, State};
use serde_json::{Value, json};

use super::super::{text, writer};
use super::board::Key;
use super::{Databases, Instance, Phase};
use crate::sim::kinds::named;
use crate::sim::store::{Id, Store};
use crate::sim::write;

/// The Lease as it is.
pub struct Lease {
    id: Id,
    object: Value,
    /// What instances keep in it.
    pub record: Record,
}

impl Lease {
    pub fn read(store: &Store, (namespace, database): &Key) -> Option<Self> {
        let id = Id::new(named("Lease"), namespace, database);
        let object = Value::clone(store.get(&id)?);
        let record = object["metadata"]["annotations"][RECORD].as_str();
        let record = record.and_then(|text| serde_json::from_str(text).ok());
        Some(Self {
            id,
            record: record.unwrap_or_default(),
            object,
        })
    }

    pub fn holder(&self) -> &str {
        text(&self.object, "/spec/holderIdentity")
    }

    /// Writes the Lease as a whole, as instances do.
    pub fn write(mut self, store: &mut Store, holder: &str, record: Record) {
        if self.holder() == holder && self.record == record {
            return;
        }
        let transitions = self.object["spec"]["leaseTransitions"].as_i64().unwrap_or(0);
        self.object["spec"] = json!({
            "holderIdentity": holder, "leaseDurationSeconds": 6, "leaseTransitions": transitions + 1,
        });
        self.object["metadata"]["annotations"][RECORD] = json!(json!(record).to_string());
        let written = write::update(store, &self.id, &self.object, false, &writer(false));
        written.unwrap_or_else(|refusal| panic!("{:?}: {}", self.id, refusal.message));
    }
}

/// Who may take the Lease, by what is in it. Before the very first data is made, those that are not there are waited for until `is_gathered` says that this was long enough.
pub fn choose(key: &Key, world: &Databases, record: &Record, is_gathered: bool) -> Option<Instance> {
    let of_it = world.of(key);
    let present: Vec<&Instance> = of_it
        .into_iter()
        .filter(|instance| instance.runs() && !instance.ending && instance.told.is_some())
        .collect();
    let told = present.first()?.told.as_ref()?;
    let known = record
        .system_identifier
        .as_ref()
        .or(told.settings.system_identifier.as_ref());
    let rank = |instance: &&Instance| {
        let disk = world.disk(instance);
        let name = Reverse(instance.id.name.clone());
        (disk.map(|disk| (disk.timeline, disk.commits)), name)
    };
    let fits = |instance: &&Instance| {
        let disk = world.disk(instance);
        disk.is_some_and(|disk| known.is_none_or(|known| *known == disk.identifier))
    };
    if record.primary.is_empty() {
        let names: BTreeSet<&str> = present.iter().map(|instance| instance.name()).collect();
        let leads = |instance: &&Instance| {
            matches!(
                instance.phase,
                Phase::Leading | Phase::Busy(State::Promoting | State::Stopping | State::Initialising, _)
            )
        };
        let lacks_some = !told.names().is_subset(&names);
        if lacks_some && (known.is_some() || !is_gathered) || present.iter().any(leads) {
            return None;
        }
        let best = present.iter().copied().filter(fits).max_by_key(rank);
        let first = || {
            let mut first = present.iter().copied();
            first.find(|instance| instance.name().ends_with("-0") && known.is_none())
        };
        return best.or_else(first).cloned();
    }
    // Before it had made the first data, it begins once more.
    let begins = |instance: &&Instance| known.is_none() && world.disk(instance).is_none();
    let last = present.iter().copied();
    let last: Vec<&Instance> = last
        .filter(|instance| instance.name() == record.primary)
        .filter(|instance| fits(instance) || begins(instance))
        .collect();
    let is_behind = |instance: &Instance| {
        let commits = world.disk(instance).map_or(0, |disk| disk.commits);
        record.stopped.is_some() && Lsn(commits) < record.flushed
    };
    let replicas: Vec<&Instance> = present
        .iter()
        .copied()
        .filter(fits)
        .filter(|instance| instance.name() != record.primary && record.may_lead(instance.name()))
        .filter(|instance| !is_behind(instance))
        .collect();
    let here: BTreeSet<&str> = replicas.iter().map(|instance| instance.name()).collect();
    let is_safe = record.stopped.is_some()
        || !record.asynchronous && record.quorums.iter().all(|quorum| quorum.overlaps(&here));
    let candidates: Vec<&Instance> = match (last.is_empty(), is_safe) {
        (false, _) => last.into_iter().chain(replicas).collect(),
        (true, true) => replicas,
        (true, false) => return None,
    };
    let wished = record.handover.as_deref();
    let wished = candidates.iter().find(|instance| Some(instance.name()) == wished);
    let best = wished
        .copied()
        .or_else(|| candidates.iter().copied().max_by_key(rank));
    best.cloned()
}
