//! What Kubernetes does, and what goes wrong: pods that come and go, volumes that are lost.

use std::collections::BTreeSet;

use super::super::scene::Place;
use super::super::slots::Slot;
use super::{Name, Server, Time, World, slot_of};

impl World {
    /// StatefulSets make the pods that are missing.
    pub fn make_pods(&mut self) {
        for place in self.present.places() {
            if !self.servers.contains_key(&place) {
                let (ip, id) = (self.fresh_ip(), self.fresh_id());
                self.servers.insert(place, Server::new(place, ip, id));
            }
        }
    }

    /// StatefulSets take away the last ones, with their volumes.
    pub fn take_pods(&mut self) {
        let present = self.present;
        self.servers.retain(|place, _| present.has(*place));
    }

    /// The pod goes, and comes back so many ms later under another address.
    pub fn kill(&mut self, place: Place, absent: bool, down_for: Time) {
        if !self.servers[&place].is_up() {
            return;
        }
        if self.servers[&place].is_primary() {
            let risked = self.differing(place);
            self.at_risk.extend(risked);
        }
        let until = self.now + down_for;
        let server = self.server(place);
        (server.down_until, server.absent, server.link_up) = (Some(until), absent, false);
    }

    /// Keys that not all of the shard have alike: whoever is elected, some may be as they were.
    fn differing(&self, place: Place) -> BTreeSet<Name> {
        let own = &self.servers[&place].data;
        let others = self
            .servers
            .values()
            .filter(|other| other.place.shard == place.shard && other.place != place);
        let keys = |other: &Server| -> Vec<Name> {
            let all = own.keys().chain(other.data.keys());
            all.copied()
                .filter(|key| own.get(key) != other.data.get(key))
                .collect()
        };
        others.flat_map(keys).collect()
    }

    /// And its volume with it: it comes back as another node.
    pub fn destroy(&mut self, place: Place, down_for: Time) {
        self.kill(place, true, down_for);
        let has_copy = self
            .servers
            .keys()
            .any(|other| other.shard == place.shard && *other != place);
        let risked: BTreeSet<Name> = if has_copy {
            self.differing(place)
        } else {
            self.servers[&place].data.keys().copied().collect()
        };
        self.at_risk.extend(risked);
        let id = self.fresh_id();
        let old = self.server(place);
        let mut new = Server::new(place, old.ip, id);
        (new.down_until, new.absent) = (old.down_until, old.absent);
        *old = new;
    }

    /// Those whose time has come.
    pub fn restart_pods(&mut self) {
        let is_due = |server: &&Server| server.down_until.is_some_and(|until| until <= self.now);
        let due: Vec<Place> = self
            .servers
            .values()
            .filter(is_due)
            .map(|server| server.place)
            .collect();
        for place in due {
            let (ip, now) = (self.fresh_ip(), self.now);
            let server = self.server(place);
            (server.ip, server.down_until) = (ip, None);
            // Marks and blacklists are not in nodes.conf, or as far as they are, marks are: those it had stay.
            server.forgotten.clear();
            for peer in server.peers.values_mut() {
                (peer.pong, peer.suspected) = (now, false);
                peer.reports.clear();
            }
            server.verify_config_with_data();
        }
    }
}

impl Server {
    /// verifyClusterConfigWithData: keys of slots that are another's are being imported; slots that are nobody's are its own.
    fn verify_config_with_data(&mut self) {
        if !self.is_primary() {
            return;
        }
        let slots: BTreeSet<Slot> = self.data.keys().map(|key| slot_of(*key)).collect();
        for slot in slots {
            let owner = self.owners.owner(slot);
            if owner == self.id || self.importing.contains_key(&slot) {
                continue;
            }
            if owner == 0 {
                self.owners.give_one(slot, self.id);
            } else {
                self.importing.insert(slot, owner);
            }
        }
    }
}
