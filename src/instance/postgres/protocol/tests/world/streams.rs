//! What flows: from clients to primaries, and from those to replicas.

use super::super::super::{Moment, Server};
use super::World;
use crate::api::database::agent::{Lsn, Quorum, Standby};

use std::collections::BTreeSet;

impl World {
    /// Replicas receive from their primaries what those have.
    pub(super) fn stream(&mut self) {
        for primary in 0..self.instances.len() {
            let Server::Running(running) = &self.instances[primary].server else {
                continue;
            };
            if !running.primary || self.instances[primary].hung {
                continue;
            }
            let mut standbys = Vec::new();
            for replica in 0..self.instances.len() {
                if replica != primary && self.reaches(primary, replica) && self.receive(primary, replica) {
                    let instance = &self.instances[replica];
                    let flushed = Some(Lsn(instance.volume.log.len() as u64));
                    standbys.push(Standby {
                        name: instance.name.clone(),
                        state: "streaming".into(),
                        flushed,
                        ..Standby::default()
                    });
                }
            }
            let length = self.instances[primary].volume.log.len() as u64;
            if let Server::Running(running) = &mut self.instances[primary].server {
                running.standbys = standbys;
                (running.received, running.replayed, running.redo) = (Lsn(length), Lsn(length), Lsn(length));
            }
        }
        self.stream_between_replicas();
        for index in 0..self.instances.len() {
            let upstream = match &self.instances[index].server {
                Server::Running(running) if !running.primary => running.upstream.clone(),
                _ => continue,
            };
            let from = upstream.map(|upstream| self.index(&upstream));
            let sends = |from: &usize| matches!(&self.instances[*from].server, Server::Running(running) if running.primary);
            let from = from.filter(sends).filter(|from| self.reaches(index, *from));
            let fed = from.is_some_and(|from| {
                let me = &self.instances[index].name;
                matches!(&self.instances[from].server, Server::Running(running) if running.standbys.iter().any(|standby| standby.name == *me))
            });
            // One that has parted is sent what both have, again and again.
            let flickers = from.is_some() && !fed && self.chance.below(20) == 0;
            if let Server::Running(running) = &mut self.instances[index].server {
                running.streaming = fed || flickers;
                // What it says to others is whether it receives from whoever held the Lease.
                running.receiving = running.streaming;
            }
        }
    }

    /// A replica may follow another one, which sends what it has.
    fn stream_between_replicas(&mut self) {
        for replica in 0..self.instances.len() {
            let upstream = match &self.instances[replica].server {
                Server::Running(running) if !running.primary => running.upstream.clone(),
                _ => continue,
            };
            let Some(from) = upstream.map(|upstream| self.index(&upstream)) else {
                continue;
            };
            let sends = matches!(&self.instances[from].server, Server::Running(running) if !running.primary);
            if sends && !self.instances[from].hung && self.reaches(replica, from) {
                self.receive(from, replica);
            }
        }
    }

    /// Whether the replica follows, which it only can if its log is a beginning of the primary's. It gets some of what it lacks.
    pub(super) fn receive(&mut self, primary: usize, replica: usize) -> bool {
        let name = self.instances[primary].name.clone();
        let follows = matches!(&self.instances[replica].server, Server::Running(running) if !running.primary && !running.replaying && running.upstream.as_ref() == Some(&name));
        if !follows || self.instances[replica].hung {
            return false;
        }
        let theirs = self.instances[primary].volume.clone();
        let mine = &self.instances[replica].volume.log;
        if !theirs.log.starts_with(mine) {
            return false;
        }
        let most = if self.instances[replica].slow { 2 } else { 12 };
        let some = mine.len() + self.chance.below(most) as usize;
        let log = theirs.log[..some.min(theirs.log.len())].to_vec();
        let timeline = theirs.history.last().map_or(1, |(timeline, _)| *timeline);
        let instance = &mut self.instances[replica];
        instance.volume.history = theirs.history;
        if let Server::Running(running) = &mut instance.server {
            (running.received, running.replayed, running.timeline) =
                (Lsn(log.len() as u64), Lsn(log.len() as u64), timeline);
        }
        instance.volume.log = log;
        instance.mark(timeline, true);
        true
    }

    /// Whoever takes writes gets some, and those that enough replicas have are acknowledged.
    pub(super) fn clients(&mut self) {
        for index in 0..self.instances.len() {
            let leads = matches!(&self.instances[index].server, Server::Running(running) if running.primary);
            if !leads || self.instances[index].hung {
                continue;
            }
            let entry = self.next_entry;
            self.next_entry += 1;
            let instance = &mut self.instances[index];
            let timeline = instance
                .volume
                .history
                .last()
                .map_or(1, |(timeline, _)| *timeline);
            instance.volume.log.push((timeline, entry));
            let at = instance.volume.log.len();
            self.waiting.push((index, timeline, entry, at));
        }
        let waiting = std::mem::take(&mut self.waiting);
        for (index, timeline, entry, at) in waiting {
            let instance = &self.instances[index];
            let Server::Running(running) = &instance.server else {
                continue;
            };
            if !running.primary || instance.volume.log.get(at - 1) != Some(&(timeline, entry)) {
                continue;
            }
            let having = |quorum: &Quorum| {
                let have = running
                    .standbys
                    .iter()
                    .filter(|standby| quorum.standbys.contains(&standby.name));
                have.filter(|standby| standby.flushed >= Some(Lsn(at as u64)))
                    .count()
                    >= quorum.need
            };
            let before = instance.before.as_ref().filter(|before| before.at > self.now);
            let by_earlier = before.is_some_and(|before| before.what.as_ref().is_none_or(having));
            if !instance.hung && (by_earlier || running.quorum.as_ref().is_none_or(having)) {
                self.acknowledged.push((entry, self.now));
            } else {
                self.waiting.push((index, timeline, entry, at));
            }
        }
    }

    /// Acknowledged entries that the primary does not have.
    pub fn lost(&self) -> Vec<(u64, Moment)> {
        let Some(primary) = self.primary() else {
            return self.acknowledged.clone();
        };
        let there: BTreeSet<u64> = self.instances[primary]
            .volume
            .log
            .iter()
            .map(|(_, entry)| *entry)
            .collect();
        self.acknowledged
            .iter()
            .filter(|(entry, _)| !there.contains(entry))
            .copied()
            .collect()
    }
}
