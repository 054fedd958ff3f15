//! What nodes do by themselves: they tell each other what they know, find failures, elect replicas, and replicate.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::super::scene::Place;
use super::super::slots::{Slot, Slots};
use super::{FORGET_FOR, Id, NODE_TIMEOUT, Peer, Server, TICK, World, slot_of};

impl World {
    /// A second goes by.
    pub fn tick(&mut self) {
        self.now += TICK;
        self.restart_pods();
        let mut up: Vec<Place> = self.up();
        // Whoever speaks first differs each time.
        let first = if up.is_empty() {
            0
        } else {
            self.random.below(up.len())
        };
        up.rotate_left(first);
        for &place in &up {
            let peers: Vec<Id> = self.servers[&place].peers.keys().copied().collect();
            for id in peers {
                self.ping(place, id);
            }
        }
        for &place in &up {
            self.find_failures(place);
        }
        self.elect();
        self.replicate();
    }

    pub fn up(&self) -> Vec<Place> {
        let servers = self.servers.values().filter(|server| server.is_up());
        servers.map(|server| server.place).collect()
    }

    fn ping(&mut self, from: Place, id: Id) {
        let Some(ip) = self.servers[&from].peers.get(&id).and_then(|peer| peer.ip) else {
            return;
        };
        let Some(to) = self.by_ip(ip) else { return };
        if self.servers[&to].id != id {
            // Another node is at the address: the link is closed, and the address forgotten.
            if let Some(peer) = self.server(from).peers.get_mut(&id) {
                peer.ip = None;
            }
            return;
        }
        self.hear(to, from, true);
        self.hear(from, to, false);
        let now = self.now;
        if let Some(peer) = self.server(from).peers.get_mut(&id) {
            (peer.pong, peer.suspected, peer.failed) = (now, false, false);
        }
    }

    /// `to` hears what `from` has to say.
    pub fn hear(&mut self, to: Place, from: Place, is_ping: bool) {
        let sender = self.servers[&from].message();
        let now = self.now;
        let receiver = self.server(to);
        let Some(peer) = receiver.peers.get_mut(&sender.id) else {
            return;
        };
        if is_ping {
            peer.ip = Some(sender.ip);
        }
        peer.config_epoch = peer.config_epoch.max(sender.config_epoch);
        peer.primary = sender.primary;
        receiver.current_epoch = receiver.current_epoch.max(sender.current_epoch);
        if sender.primary != 0 {
            receiver.owners.pass_on(sender.id, 0);
        } else {
            receiver.believe(sender.id, sender.config_epoch, &sender.claims);
        }
        let collides =
            receiver.is_primary() && sender.primary == 0 && receiver.config_epoch == sender.config_epoch;
        if collides && sender.id > receiver.id {
            receiver.current_epoch += 1;
            receiver.config_epoch = receiver.current_epoch;
        }
        let updates = receiver.updates_for(&sender);
        let strangers = receiver.hear_of_others(&sender, now);
        for (id, epoch, slots) in updates {
            self.server(from).update(id, epoch, &slots);
        }
        for ip in strangers {
            self.meet(to, ip);
        }
    }

    /// `CLUSTER MEET`: whoever is at this address is known from now on, and knows who met it.
    pub fn meet(&mut self, at: Place, ip: IpAddr) {
        let Some(other) = self.by_ip(ip).filter(|other| *other != at) else {
            return;
        };
        let (caller, called) = (self.servers[&at].id, self.servers[&other].id);
        let (now, own_ip) = (self.now, self.servers[&at].ip);
        let peer = |ip| Peer {
            ip: Some(ip),
            config_epoch: 0,
            primary: 0,
            pong: now,
            suspected: false,
            failed: false,
            reports: BTreeSet::new(),
        };
        self.server(at).peers.entry(called).or_insert_with(|| peer(ip)).ip = Some(ip);
        self.server(other)
            .peers
            .entry(caller)
            .or_insert_with(|| peer(own_ip))
            .ip = Some(own_ip);
    }

    fn find_failures(&mut self, place: Place) {
        let now = self.now;
        let server = self.server(place);
        let voters = server.voters();
        let is_voter = server.is_primary();
        let mut failed = Vec::new();
        for (id, peer) in &mut server.peers {
            if now.saturating_sub(peer.pong) <= NODE_TIMEOUT {
                continue;
            }
            peer.suspected = true;
            let reports =
                peer.reports.iter().filter(|id| voters.contains(id)).count() + usize::from(is_voter);
            if !peer.failed && reports * 2 > voters.len() {
                peer.failed = true;
                failed.push(*id);
            }
        }
        for id in failed {
            let others: Vec<Id> = self.servers[&place].peers.keys().copied().collect();
            for other in others {
                let Some(other) = self.reached(place, other) else {
                    continue;
                };
                if let Some(peer) = self.server(other).peers.get_mut(&id) {
                    // Whoever has just heard of it will take this back.
                    peer.failed = true;
                }
            }
        }
    }

    fn elect(&mut self) {
        let is_candidate = |server: &&Server| {
            let has_failed = server.peers.get(&server.primary).is_some_and(|peer| peer.failed);
            server.is_up() && has_failed && server.count_owned(server.primary) > 0
        };
        let mut candidates: Vec<(u64, Place)> = self
            .servers
            .values()
            .filter(is_candidate)
            .map(|server| (server.offset, server.place))
            .collect();
        candidates.sort_unstable_by(|a, b| b.cmp(a));
        for (_, place) in candidates {
            // Another replica may have won meanwhile.
            let server = &self.servers[&place];
            if server.primary != 0 && server.count_owned(server.primary) > 0 {
                self.stand_for_election(place, false);
            }
        }
    }

    /// Whether it was elected.
    pub fn stand_for_election(&mut self, place: Place, is_forced: bool) -> bool {
        let candidate = self.server(place);
        candidate.current_epoch += 1;
        let (epoch, primary, id) = (candidate.current_epoch, candidate.primary, candidate.id);
        let of_primary = candidate.epoch_of(primary);
        let claims = candidate.owners.slots(primary).clone();
        let voters = candidate.voters();
        let mut votes = 0;
        for voter in &voters {
            let Some(voter) = self.reached(place, *voter) else {
                continue;
            };
            let voter = self.server(voter);
            let has_failed = is_forced || voter.peers.get(&primary).is_some_and(|peer| peer.failed);
            let is_stale = voter.owners.iter().any(|(owner, owned)| {
                voter.epoch_of(owner) > of_primary && !owned.intersection(&claims).is_empty()
            });
            let may = voter.is_primary() && voter.last_vote < epoch && voter.current_epoch <= epoch;
            if may && has_failed && !is_stale && voter.peers.contains_key(&id) {
                voter.last_vote = epoch;
                voter.current_epoch = epoch;
                votes += 1;
            }
        }
        let wins = votes * 2 > voters.len();
        if wins {
            self.promote(place, epoch);
        }
        wins
    }

    /// It takes all slots of its primary.
    pub fn promote(&mut self, place: Place, epoch: u64) {
        let server = self.server(place);
        let (id, primary) = (server.id, server.primary);
        server.owners.pass_on(primary, id);
        (server.primary, server.link_up, server.config_epoch) = (0, false, epoch);
        server.offset += 1;
        let peers: Vec<Id> = server.peers.keys().copied().collect();
        for id in peers {
            if let Some(other) = self.reached(place, id) {
                self.hear(other, place, false);
            }
        }
    }

    /// Replicas get what their primaries have by now.
    pub fn replicate(&mut self) {
        for place in self.up() {
            if !self.servers[&place].is_primary() {
                self.copy_from_primary(place);
            }
        }
    }

    /// The same, for those of one primary alone.
    pub fn replicate_from(&mut self, primary: Id) {
        for place in self.up() {
            if self.servers[&place].primary == primary {
                self.copy_from_primary(place);
            }
        }
    }

    fn copy_from_primary(&mut self, place: Place) {
        let primary = self.reached(place, self.servers[&place].primary);
        let primary = primary.map(|primary| &self.servers[&primary]);
        let Some(primary) = primary.filter(|primary| primary.is_primary()) else {
            self.server(place).link_up = false;
            return;
        };
        let (replica, offset) = (&self.servers[&place], primary.offset.max(1));
        // As long as the link is up, the same offset means the same data.
        if !replica.link_up || replica.offset != offset {
            let data = primary.data.clone();
            let replica = self.server(place);
            (replica.link_up, replica.data, replica.offset) = (true, data, offset);
        }
    }
}

/// What a message says.
struct Message {
    id: Id,
    ip: IpAddr,
    primary: Id,
    current_epoch: u64,
    config_epoch: u64,
    is_voter: bool,
    claims: Slots,
    others: Vec<(Id, Option<IpAddr>, bool)>,
}

impl Server {
    fn message(&self) -> Message {
        let owned = self.owned();
        let is_voter = self.is_primary() && !owned.is_empty();
        let claims = if is_voter { owned.clone() } else { Slots::none() };
        let others = self.peers.iter();
        Message {
            id: self.id,
            ip: self.ip,
            primary: self.primary,
            current_epoch: self.current_epoch,
            config_epoch: self.epoch_of(if self.is_primary() { self.id } else { self.primary }),
            is_voter,
            claims,
            others: others
                .map(|(id, peer)| (*id, peer.ip, peer.suspected || peer.failed))
                .collect(),
        }
    }

    /// clusterUpdateSlotsConfigWith.
    fn believe(&mut self, sender: Id, epoch: u64, claims: &Slots) {
        if sender == self.id {
            return;
        }
        let current = if self.is_primary() { self.id } else { self.primary };
        let mut taken = claims.difference(self.owners.slots(sender));
        if taken.is_empty() {
            return;
        }
        taken = taken.difference(&self.importing.keys().copied().collect());
        for (owner, owned) in self.owners.iter() {
            if self.epoch_of(owner) >= epoch {
                taken = taken.difference(owned);
            }
        }
        let migrated = taken.intersection(self.owners.slots(current)).len();
        let lost = taken.intersection(self.owned());
        let dirty = self.slots_with_keys(&lost);
        self.owners.give(&taken, sender);
        // cluster-allow-replica-migration is no: only whoever lost all to one that has nothing else follows it.
        if migrated > 0 && self.count_owned(current) == 0 && claims.len() == migrated {
            self.follow(sender);
        } else {
            dirty.into_iter().for_each(|slot| self.delete_slot(slot));
        }
    }

    fn slots_with_keys(&self, among: &Slots) -> BTreeSet<Slot> {
        if among.is_empty() {
            return BTreeSet::new();
        }
        let slots = self.data.keys().map(|key| slot_of(*key));
        slots.filter(|slot| among.contains(*slot)).collect()
    }

    pub fn follow(&mut self, primary: Id) {
        (self.primary, self.link_up) = (primary, false);
        self.migrating.clear();
        self.importing.clear();
    }

    /// Slots that the sender claims, and another has by a greater epoch: what it is to be told of that one.
    fn updates_for(&self, sender: &Message) -> Vec<(Id, u64, Slots)> {
        let contested = sender.claims.difference(self.owners.slots(sender.id));
        if contested.is_empty() {
            return Vec::new();
        }
        let is_rival = |(id, owned): &(Id, &Slots)| {
            self.epoch_of(*id) > sender.config_epoch && !owned.intersection(&contested).is_empty()
        };
        let rivals = self.owners.iter().filter(is_rival);
        rivals
            .map(|(id, owned)| (id, self.epoch_of(id), owned.clone()))
            .collect()
    }

    fn update(&mut self, id: Id, epoch: u64, slots: &Slots) {
        let Some(peer) = self.peers.get_mut(&id).filter(|peer| peer.config_epoch < epoch) else {
            return;
        };
        (peer.config_epoch, peer.primary) = (epoch, 0);
        self.believe(id, epoch, slots);
    }

    /// Addresses of those that it has not known.
    fn hear_of_others(&mut self, sender: &Message, now: u64) -> Vec<IpAddr> {
        self.forgotten
            .retain(|_, since| now.saturating_sub(*since) < FORGET_FOR);
        let mut strangers = Vec::new();
        for (id, ip, is_missed) in &sender.others {
            if let Some(peer) = self.peers.get_mut(id) {
                if *is_missed && sender.is_voter {
                    peer.reports.insert(sender.id);
                } else {
                    peer.reports.remove(&sender.id);
                }
                if (peer.suspected || peer.failed) && !is_missed && ip.is_some() {
                    peer.ip = *ip;
                }
            } else if *id != self.id && !self.forgotten.contains_key(id) {
                strangers.extend(*ip);
            }
        }
        strangers
    }
}
