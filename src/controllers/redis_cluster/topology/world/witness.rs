//! What the operator sees of it all: `CLUSTER NODES` is written and read as text.

use std::fmt::Write;
use std::net::IpAddr;
use std::time::Duration;

use super::super::nodes::View;
use super::super::scene::{Member, Report, Role, Scene, State};
use super::{Id, NODE_TIMEOUT, Peer, Server, World, node_id};

impl World {
    /// All pods are asked.
    pub fn observe(&self) -> Scene {
        let members = self.servers.values().map(|server| self.member(server));
        Scene {
            wanted: self.wanted,
            present: self.present,
            bootstrapped: self.bootstrapped,
            allow_data_loss: self.allow_data_loss,
            node_timeout: Duration::from_millis(NODE_TIMEOUT),
            memory_limit: None,
            members: members.collect(),
        }
    }

    fn member(&self, server: &Server) -> Member {
        let state = if server.is_up() && server.silent_until <= self.now {
            State::Answered(Box::new(server.report(self.now)))
        } else if !server.is_up() && server.absent {
            State::Absent
        } else {
            State::Silent
        };
        Member {
            place: server.place,
            ip: server.is_up().then_some(server.ip),
            state,
        }
    }
}

impl Server {
    fn report(&self, now: u64) -> Report {
        let text = self.cluster_nodes();
        let view: View = text.parse().unwrap_or_else(|error| panic!("{error}: {text}"));
        Report {
            view,
            role: if self.is_primary() {
                Role::Primary
            } else {
                Role::Replica
            },
            primary_link_up: self.link_up,
            syncing: false,
            offset: self.offset,
            keys: self.data.len() as u64,
            used_memory: 1_000 * self.data.len() as u64,
            maxmemory: self.maxmemory,
            cluster_state_ok: self.is_ok(),
            current_epoch: self.current_epoch,
            time: Duration::from_millis(now),
        }
    }

    fn cluster_nodes(&self) -> String {
        let slots = |id: Id| -> String {
            let slots = self.owners.slots(id);
            if slots.is_empty() {
                String::new()
            } else {
                format!(" {}", slots.to_string().replace(',', " "))
            }
        };
        let mut text = String::new();
        for (id, peer) in &self.peers {
            text += &peer.line(*id, &slots(*id));
        }
        let own = Peer {
            ip: Some(self.ip),
            config_epoch: self.config_epoch,
            primary: self.primary,
            pong: 0,
            suspected: false,
            failed: false,
            reports: Default::default(),
        };
        let mut marks = slots(self.id);
        for (slot, to) in &self.migrating {
            let _ = write!(marks, " [{slot}->-{}]", node_id(*to));
        }
        for (slot, from) in &self.importing {
            let _ = write!(marks, " [{slot}-<-{}]", node_id(*from));
        }
        text + &own
            .line(self.id, &marks)
            .replacen(" master", " myself,master", 1)
            .replacen(" slave", " myself,slave", 1)
    }
}

impl Peer {
    fn line(&self, id: Id, slots: &str) -> String {
        let id = node_id(id);
        let ip = self.ip.as_ref().map(IpAddr::to_string).unwrap_or_default();
        let mut flags = if self.primary == 0 { "master" } else { "slave" }.to_owned();
        for (flag, is_set) in [
            (",fail?", self.suspected && !self.failed),
            (",fail", self.failed),
            (",noaddr", self.ip.is_none()),
        ] {
            if is_set {
                flags += flag;
            }
        }
        let primary = if self.primary == 0 {
            "-".to_owned()
        } else {
            node_id(self.primary).to_string()
        };
        let link = if self.suspected {
            "disconnected"
        } else {
            "connected"
        };
        let (pong, epoch) = (self.pong, self.config_epoch);
        format!("{id} {ip}:6379@16379 {flags} {primary} 0 {pong} {epoch} {link}{slots}\n")
    }
}
