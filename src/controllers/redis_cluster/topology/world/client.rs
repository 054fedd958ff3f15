//! Clients that write, and go where they are sent.

use std::net::IpAddr;

use super::super::scene::Place;
use super::super::slots::Slot;
use super::{Name, Server, World, slot_of};

/// Keys that clients use.
const KEYS: usize = 240;

/// What a server says to a write.
enum Reply {
    Written,
    Moved(Option<IpAddr>),
    Ask(Option<IpAddr>),
    Down,
}

impl World {
    /// A client writes a key, wherever it is sent to. What is acknowledged, is kept.
    pub fn write_something(&mut self) {
        let up = self.up();
        if up.is_empty() {
            return;
        }
        let key = self.random.below(KEYS) as Name;
        let value = self.random.next();
        let first = up[self.random.below(up.len())];
        if let Some(place) = self.write(first, key, value) {
            self.acknowledged.insert(key, value);
            // Redis serves by what it knows; whoever does not know of a failover yet takes writes that will be lost.
            if self.is_of_old(place, slot_of(key)) {
                self.at_risk.insert(key);
            } else {
                self.at_risk.remove(&key);
            }
        }
    }

    fn write(&mut self, first: Place, key: Name, value: u64) -> Option<Place> {
        let (mut place, mut asking) = (first, false);
        for _ in 0..6 {
            let reply = self.server(place).take_write(key, value, asking);
            let (ip, ask) = match reply {
                Reply::Written => return Some(place),
                Reply::Down => return None,
                Reply::Moved(ip) => (ip?, false),
                Reply::Ask(ip) => (ip?, true),
            };
            place = self.by_ip(ip)?;
            asking = ask;
        }
        None
    }

    /// Whether another claims the slot by a greater epoch, or it is no owner and another was meant to be asked.
    fn is_of_old(&self, place: Place, slot: Slot) -> bool {
        let server = &self.servers[&place];
        if !server.owns(slot) {
            return false;
        }
        let mut others = self
            .servers
            .values()
            .filter(|other| other.place != place && other.is_primary());
        others.any(|other| other.owns(slot) && other.config_epoch > server.config_epoch)
    }

    /// What is read of this key where its owner is, if it is anywhere.
    pub fn read(&self, key: Name) -> Option<u64> {
        let slot = slot_of(key);
        let mut owners = self
            .servers
            .values()
            .filter(|server| server.is_primary() && server.owns(slot));
        owners.find_map(|server| server.data.get(&key).copied())
    }

    /// Keys that clients wrote and do not find as they wrote them.
    pub fn lost(&self) -> Vec<Name> {
        let is_lost = |(key, value): &(&Name, &u64)| self.read(**key) != Some(**value);
        self.acknowledged
            .iter()
            .filter(is_lost)
            .map(|(key, _)| *key)
            .collect()
    }
}

impl Server {
    fn take_write(&mut self, key: Name, value: u64, asking: bool) -> Reply {
        let slot = slot_of(key);
        if !self.is_ok() {
            return Reply::Down;
        }
        let address = |id| self.peers.get(&id).and_then(|peer| peer.ip);
        let is_mine = self.is_primary() && self.owns(slot);
        if is_mine
            && !self.data.contains_key(&key)
            && let Some(to) = self.migrating.get(&slot)
        {
            return Reply::Ask(address(*to));
        }
        if is_mine || asking && self.importing.contains_key(&slot) {
            self.data.insert(key, value);
            self.offset += 1;
            return Reply::Written;
        }
        Reply::Moved(address(self.owners.owner(slot)))
    }
}
