//! What commits wait for, and how that is changed so that the Lease is never too hopeful.
//!
//! A change is written into the Lease before PostgreSQL is told, beside what was there before. That is taken out once PostgreSQL has gone by the new one for a
//! while, since each of its processes learns of it by itself, and once those who are waited for now have whatever was acknowledged until then, since a replica
//! that streams may be far behind. So in between whoever takes the Lease has to meet both.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Moment, Protocol, Running, Situation};
use crate::api::database::agent::{Lsn, Quorum, Record, Synchronous};

/// Every process of PostgreSQL has learned of a change after this time.
const SETTLED: Duration = Duration::from_secs(2);
/// A replica that has not streamed for so long is not waited for any more, if there is another.
const DROPPED: Duration = Duration::from_secs(3);
/// If there is no other: where commits only wait while a replica streams, they stop waiting after this time.
const STEP_DOWN: Duration = Duration::from_secs(5);

/// What PostgreSQL goes by.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Applied {
    pub(super) quorum: Option<Quorum>,
    pub(super) since: Moment,
    /// How far it had flushed when each of its processes did, once they do: what it acknowledged before that, it may have by another rule.
    pub(super) from: Option<Lsn>,
    /// How far it had flushed when it was told to have commits wait where none had waited. Whether they do is up to the checkpointer, which takes notice
    /// before it begins a checkpoint; one that began later ends this.
    unnoticed: Option<Lsn>,
}

impl Protocol {
    /// Has the Lease say what commits wait for now, what they are to wait for, and what they may still wait for.
    pub(super) fn keep_quorums(&mut self, record: &mut Record, running: &Running, situation: &Situation<'_>) {
        self.note_applied(running, record.asynchronous, situation.now);
        let wanted = self.wanted(running, situation);
        let mut told: Vec<Quorum> = Vec::new();
        let settled = self.is_settled(running);
        // Where nobody is waited for, it counts how far somebody is behind.
        let covered = running.quorum.is_none() || self.is_covered(running);
        if !(settled && covered) {
            told.extend(record.quorums.iter().cloned());
        }
        for quorum in [&running.quorum, &wanted].into_iter().flatten() {
            told.retain(|other| other != quorum);
            told.push(quorum.clone());
        }
        record.quorums = told;
        let waits = running.quorum.is_some() && wanted.is_some();
        record.asynchronous = !waits || (record.asynchronous && !(settled && self.is_covered(running)));
    }

    /// What PostgreSQL is to be told, if the Lease allows for it already.
    pub(super) fn due(
        &mut self,
        record: &Record,
        running: &Running,
        situation: &Situation<'_>,
    ) -> Option<Option<Quorum>> {
        let wanted = self.wanted(running, situation);
        let allowed = match &wanted {
            Some(quorum) => record.quorums.contains(quorum),
            None => record.asynchronous,
        };
        (wanted != running.quorum && allowed).then_some(wanted)
    }

    fn wanted(&mut self, running: &Running, situation: &Situation<'_>) -> Option<Quorum> {
        let is_member = |name: &String| situation.settings.has_member(name);
        let streaming: BTreeSet<String> = running
            .standbys
            .iter()
            .filter(|standby| standby.streams())
            .map(|standby| standby.name.clone())
            .filter(is_member)
            .collect();
        let present = running.quorum.clone().unwrap_or_default().standbys;
        self.away
            .retain(|name, _| present.contains(name) && !streaming.contains(name));
        for name in present.difference(&streaming) {
            self.away.entry(name.clone()).or_insert(situation.now);
        }
        let gone_for = |name: &String| {
            self.away
                .get(name)
                .map_or(Duration::ZERO, |since| situation.now.saturating_sub(*since))
        };
        let patience = if streaming.is_empty() { STEP_DOWN } else { DROPPED };
        let missed = present
            .difference(&streaming)
            .filter(|name| gone_for(name) <= patience && is_member(name));
        let mut standbys: BTreeSet<String> = streaming.iter().chain(missed).cloned().collect();
        let excused = &situation.settings.excused;
        let suffice = situation.settings.synchronous == Synchronous::Preferred;
        if suffice || standbys.iter().any(|name| !excused.contains(name)) {
            standbys.retain(|name| !excused.contains(name));
        }
        match situation.settings.synchronous {
            Synchronous::Off => return None,
            Synchronous::Preferred => {}
            // Rather nobody writes than that a commit is where one instance alone has it.
            Synchronous::Required if standbys.is_empty() => standbys = self.all_others(present, situation),
            Synchronous::Required => {}
        }
        (!standbys.is_empty()).then_some(Quorum { standbys, need: 1 })
    }

    fn all_others(&self, present: BTreeSet<String>, situation: &Situation<'_>) -> BTreeSet<String> {
        if !present.is_empty() {
            return present;
        }
        let others = situation.settings.others(situation.me);
        others.map(str::to_owned).collect()
    }

    /// `asynchronous` is whether commits may not have waited before, as far as the Lease tells.
    fn note_applied(&mut self, running: &Running, asynchronous: bool, now: Moment) {
        if self
            .applied
            .as_ref()
            .is_none_or(|applied| applied.quorum != running.quorum)
        {
            let unnoticed = match self.applied.take() {
                _ if running.quorum.is_none() => None,
                None if asynchronous => Some(running.received),
                Some(before) if before.quorum.is_none() => Some(running.received),
                before => before.and_then(|before| before.unnoticed),
            };
            self.applied = Some(Applied {
                quorum: running.quorum.clone(),
                since: now,
                from: None,
                unnoticed,
            });
        }
        if let Some(applied) = &mut self.applied {
            applied.unnoticed.take_if(|told| running.redo > *told);
            if applied.unnoticed.is_none() && now.saturating_sub(applied.since) >= SETTLED {
                applied.from.get_or_insert(running.received);
            }
        }
    }

    /// Whether the primary needs a checkpoint, so that it is certain that commits wait.
    pub fn awaits_checkpoint(&self) -> bool {
        self.applied
            .as_ref()
            .is_some_and(|applied| applied.unnoticed.is_some())
    }

    fn is_settled(&self, running: &Running) -> bool {
        let applied = self
            .applied
            .as_ref()
            .filter(|applied| applied.quorum == running.quorum);
        applied.is_some_and(|applied| applied.from.is_some())
    }

    /// Whether everything that may have been acknowledged by another rule is where the present one would have it: whoever goes by that finds it.
    fn is_covered(&self, running: &Running) -> bool {
        let from = self.applied.as_ref().and_then(|applied| applied.from);
        let (Some(from), Some(quorum)) = (from, &running.quorum) else {
            return false;
        };
        let having = running.standbys.iter().filter(|standby| {
            quorum.standbys.contains(&standby.name) && standby.flushed.is_some_and(|flushed| flushed >= from)
        });
        having.count() >= quorum.need
    }
}
