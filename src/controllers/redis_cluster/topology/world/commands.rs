//! Commands as Redis takes and refuses them.

use super::super::moving::{Answer, Command, Key};
use super::super::nodes::NodeId;
use super::super::scene::{Node, Place};
use super::super::slots::{Slot, Slots};
use super::super::step::FailOver;
use super::{Id, Name, Server, World, node_id, short, slot_of};

fn refused(why: &str) -> Answer {
    Answer::Refused(why.to_owned())
}

fn checked(is_right: bool, why: &str) -> Result<(), String> {
    is_right.then_some(()).ok_or_else(|| why.to_owned())
}

fn name(key: &Key) -> Name {
    Name::from_be_bytes([key[0], key[1]])
}

impl World {
    /// Whoever is under the address that the operator has: commands go to addresses, not to pods.
    fn served(&self, node: Node) -> Result<Place, String> {
        let place = self.by_ip(node.ip).ok_or("no route to host")?;
        checked(self.servers[&place].silent_until <= self.now, "no answer in time")?;
        Ok(place)
    }

    pub fn set_epoch(&mut self, node: Node, epoch: u64) -> Result<(), String> {
        let place = self.served(node)?;
        let server = self.server(place);
        checked(
            server.peers.is_empty(),
            "The user can assign a config epoch only when the node does not know any other node.",
        )?;
        checked(server.config_epoch == 0, "Node config epoch is already non-zero")?;
        (server.config_epoch, server.current_epoch) = (epoch, server.current_epoch.max(epoch));
        Ok(())
    }

    pub fn meet_command(&mut self, at: Node, whom: Node) -> Result<(), String> {
        let place = self.served(at)?;
        self.meet(place, whom.ip);
        Ok(())
    }

    pub fn add_slots(&mut self, node: Node, slots: &Slots) -> Result<(), String> {
        let place = self.served(node)?;
        let server = self.server(place);
        checked(server.is_primary(), "a replica")?;
        let is_busy = server
            .owners
            .iter()
            .any(|(_, owned)| !owned.intersection(slots).is_empty());
        checked(!is_busy, "Slot is already busy")?;
        server.owners.give(slots, server.id);
        server.importing.retain(|slot, _| !slots.contains(*slot));
        Ok(())
    }

    pub fn delete_slots(&mut self, node: Node, slots: &Slots) -> Result<(), String> {
        let place = self.served(node)?;
        let server = self.server(place);
        let others = slots.difference(server.owned());
        server.owners.give(&others, 0);
        Ok(())
    }

    pub fn bump_epoch(&mut self, node: Node) -> Result<(), String> {
        let place = self.served(node)?;
        self.server(place).bump_epoch();
        Ok(())
    }

    pub fn replicate_command(&mut self, replica: Node, primary: NodeId) -> Result<(), String> {
        let place = self.served(replica)?;
        let id = short(primary);
        let server = self.server(place);
        let peer = server.peers.get(&id).ok_or("Unknown node")?;
        checked(peer.primary == 0, "I can only replicate a master, not a replica.")?;
        let is_free = server.count_owned(server.id) == 0 && server.data.is_empty();
        checked(
            !server.is_primary() || is_free,
            "To set a master the node must be empty and without assigned slots.",
        )?;
        server.follow(id);
        Ok(())
    }

    pub fn fail_over(&mut self, replica: Node, how: FailOver) -> Result<(), String> {
        let place = self.served(replica)?;
        let primary = self.servers[&place].primary;
        checked(primary != 0, "You should send CLUSTER FAILOVER to a replica")?;
        let owned = self.servers[&place].count_owned(primary);
        checked(
            owned > 0 || how == FailOver::Takeover,
            "a primary without slots has no failover",
        )?;
        let wins = match how {
            FailOver::Planned => {
                checked(
                    self.reached(place, primary).is_some(),
                    "Master is down or failed, please use CLUSTER FAILOVER FORCE",
                )?;
                self.replicate();
                self.stand_for_election(place, true)
            }
            FailOver::Force => self.stand_for_election(place, true),
            FailOver::Takeover => {
                let server = self.server(place);
                let highest = server
                    .peers
                    .values()
                    .map(|peer| peer.config_epoch)
                    .max()
                    .unwrap_or(0);
                server.current_epoch = server.current_epoch.max(highest) + 1;
                let epoch = server.current_epoch;
                self.promote(place, epoch);
                true
            }
        };
        checked(wins, "not elected")
    }

    pub fn reset_hard(&mut self, node: Node) -> Result<(), String> {
        let place = self.served(node)?;
        let id = self.fresh_id();
        let server = self.server(place);
        checked(
            !server.is_primary() || server.data.is_empty(),
            "CLUSTER RESET can't be called with master nodes containing keys",
        )?;
        let mut new = Server::new(place, server.ip, id);
        new.maxmemory = server.maxmemory;
        *server = new;
        Ok(())
    }

    pub fn forget(&mut self, at: Node, id: NodeId) -> Result<(), String> {
        let place = self.served(at)?;
        let (id, now) = (short(id), self.now);
        let server = self.server(place);
        checked(server.id != id, "I tried hard but I can't forget myself...")?;
        checked(server.primary != id, "Can't forget my master!")?;
        server.peers.remove(&id).ok_or("Unknown node")?;
        server.owners.pass_on(id, 0);
        server.forgotten.insert(id, now);
        Ok(())
    }

    /// What a mover sends.
    pub fn answer(&mut self, command: &Command) -> Answer {
        match self.try_answer(command) {
            Ok(answer) => answer,
            Err(why) => Answer::Refused(why),
        }
    }

    fn try_answer(&mut self, command: &Command) -> Result<Answer, String> {
        match command {
            Command::MarkImporting { at, slot, from } => {
                let place = self.served(*at)?;
                self.server(place).mark_importing(*slot, short(*from))?;
            }
            Command::MarkMigrating { at, slot, to } => {
                let place = self.served(*at)?;
                self.server(place).mark_migrating(*slot, short(*to))?;
            }
            Command::KeysInSlot { at, slot, count } => {
                let place = self.served(*at)?;
                let keys = self.servers[&place].keys_in(*slot).into_iter().take(*count);
                return Ok(Answer::Keys(keys.map(|key| key.to_be_bytes().to_vec()).collect()));
            }
            Command::Sizes { keys, .. } => {
                let size = |key: &Key| {
                    if name(key).is_multiple_of(5) {
                        2_000_000
                    } else {
                        300_000
                    }
                };
                return Ok(Answer::Sizes(keys.iter().map(size).collect()));
            }
            Command::MigrateKeys {
                at,
                to,
                keys,
                replace,
            } => return self.migrate(*at, *to, keys, *replace),
            Command::Delete { at, key } => {
                let place = self.served(*at)?;
                let server = self.server(place);
                checked(server.takes(slot_of(name(key)), true), "MOVED")?;
                server.data.remove(&name(key));
                server.offset += 1;
            }
            Command::CountKeys { at, slot } => {
                let place = self.served(*at)?;
                return Ok(Answer::Count(self.servers[&place].keys_in(*slot).len() as u64));
            }
            Command::WaitForReplicas { at, .. } => {
                let place = self.served(*at)?;
                self.replicate_from(self.servers[&place].id);
            }
            Command::SetOwner { at, slot, owner } => {
                let place = self.served(*at)?;
                self.server(place).set_slot_node(*slot, short(*owner))?;
            }
            Command::AwaitOwner { at, slot, owner } => {
                let place = self.served(*at)?;
                self.tell_of(short(*owner), place);
                let seen = self.servers[&place].owners.owner(*slot);
                return Ok(if node_id(seen) == *owner {
                    Answer::Done
                } else {
                    refused("not yet")
                });
            }
            Command::ClearMarks { at, slot } => {
                let place = self.served(*at)?;
                let server = self.server(place);
                checked(server.is_primary(), "Please use SETSLOT only with masters.")?;
                server.migrating.remove(slot);
                server.importing.remove(slot);
            }
        }
        Ok(Answer::Done)
    }

    /// A ping of that node reaches this one, if they can reach each other.
    fn tell_of(&mut self, id: Id, place: Place) {
        let from = self.up().into_iter().find(|from| self.servers[from].id == id);
        let own = self.servers[&place].id;
        if let Some(from) = from
            && self.reached(from, own) == Some(place)
        {
            self.hear(place, from, true);
        }
    }

    fn migrate(&mut self, at: Node, to: Node, keys: &[Key], replace: bool) -> Result<Answer, String> {
        let (from, target) = (self.served(at)?, self.by_ip(to.ip).ok_or("IOERR")?);
        let mut is_busy = false;
        for key in keys.iter().map(name) {
            let slot = slot_of(key);
            checked(self.servers[&from].takes(slot, true), "MOVED or CLUSTERDOWN")?;
            let Some(value) = self.servers[&from].data.get(&key).copied() else {
                continue;
            };
            checked(
                self.servers[&target].takes(slot, true),
                "Target instance replied with error: MOVED",
            )?;
            if self.servers[&target].data.contains_key(&key) && !replace {
                is_busy = true;
                continue;
            }
            for (place, value) in [(target, Some(value)), (from, None)] {
                let server = self.server(place);
                server.offset += 1;
                match value {
                    Some(value) => server.data.insert(key, value),
                    None => server.data.remove(&key),
                };
            }
        }
        Ok(if is_busy { Answer::BusyKey } else { Answer::Done })
    }
}

impl Server {
    /// Whether a command on a key of this slot is taken here, after ASKING.
    fn takes(&self, slot: Slot, asking: bool) -> bool {
        let owns = self.is_primary() && self.owns(slot);
        self.is_ok() && (owns || asking && self.importing.contains_key(&slot))
    }

    fn check_primary(&self) -> Result<(), String> {
        checked(self.is_primary(), "Please use SETSLOT only with masters.")
    }

    fn check_primary_known(&self, id: Id) -> Result<(), String> {
        let primary = if id == self.id {
            Some(self.primary)
        } else {
            self.peers.get(&id).map(|peer| peer.primary)
        };
        checked(
            primary.ok_or("I don't know about node")? == 0,
            "Target node is not a master",
        )
    }

    fn mark_importing(&mut self, slot: Slot, from: Id) -> Result<(), String> {
        self.check_primary()?;
        checked(!self.owns(slot), "I'm already the owner of hash slot")?;
        self.check_primary_known(from)?;
        self.importing.insert(slot, from);
        Ok(())
    }

    fn mark_migrating(&mut self, slot: Slot, to: Id) -> Result<(), String> {
        self.check_primary()?;
        checked(self.owns(slot), "I'm not the owner of hash slot")?;
        self.check_primary_known(to)?;
        self.migrating.insert(slot, to);
        Ok(())
    }

    fn set_slot_node(&mut self, slot: Slot, id: Id) -> Result<(), String> {
        self.check_primary()?;
        self.check_primary_known(id)?;
        let is_empty = self.keys_in(slot).is_empty();
        checked(
            !self.owns(slot) || id == self.id || is_empty,
            "Can't assign hashslot to a different node while I still hold keys",
        )?;
        if is_empty {
            self.migrating.remove(&slot);
        }
        self.owners.give_one(slot, id);
        if id == self.id && self.importing.remove(&slot).is_some() {
            self.bump_epoch();
        }
        Ok(())
    }

    /// clusterBumpConfigEpochWithoutConsensus.
    fn bump_epoch(&mut self) {
        let others = self.peers.values().map(|peer| peer.config_epoch);
        let highest = others
            .chain([self.current_epoch, self.config_epoch])
            .max()
            .unwrap_or(0);
        if self.config_epoch == 0 || self.config_epoch != highest {
            self.current_epoch = highest + 1;
            self.config_epoch = self.current_epoch;
        }
    }
}
