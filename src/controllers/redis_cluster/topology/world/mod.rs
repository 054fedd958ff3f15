//! A Redis Cluster in memory, with what of Redis 7.0.15 matters to a controller: each node has a view of its own, which gossip brings together; slots go
//! by configEpoch, and whoever loses one deletes its keys; failures are found and replicas elected; keys are served, asked for and moved.
//!
//! Simpler than Redis: a replica has all that it lacks at each tick, handshakes and planned failovers take no time, no answer of a MIGRATE is lost, nothing but pods is cut off, and nobody
//! deletes keys. `tests/redis_cluster.rs` is there for that.
//!
//! Deterministic: whatever happens by chance comes from a seed.

mod client;
mod commands;
mod drive;
mod gossip;
mod owners;
mod pods;
mod random;
mod scenarios;
mod storms;
mod witness;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use self::owners::Owners;
use self::random::Random;
use super::nodes::NodeId;
use super::scene::{Place, Shape};
use super::slots::{SLOTS, Slot, Slots};

/// A node id, in short: 0 is nobody.
pub type Id = u16;
/// In ms since the Unix epoch.
pub type Time = u64;
/// A key of clients.
pub type Name = u16;

/// `cluster-node-timeout`, in ms.
pub const NODE_TIMEOUT: Time = 5_000;
/// How long a forgotten id is not believed again, in ms.
const FORGET_FOR: Time = 60_000;
/// What one tick takes, in ms.
pub const TICK: Time = 1_000;

/// As Redis has it. The order of ids stays.
pub fn node_id(id: Id) -> NodeId {
    let mut bytes = [0; 20];
    for (byte, part) in bytes.iter_mut().zip(id.to_be_bytes()) {
        *byte = part;
    }
    NodeId(bytes)
}

/// The way back.
pub fn short(id: NodeId) -> Id {
    Id::from_be_bytes([id.0[0], id.0[1]])
}

/// How many keys share a slot.
const KEYS_PER_SLOT: u16 = 3;
/// How far apart the slots of successive keys are.
const STRIDE: u16 = 2_557;
/// The way back from a slot to its keys: the product of both is 1, modulo [`SLOTS`].
const BACK: u16 = 6_997;

/// The slot of a key: several share one.
pub fn slot_of(key: Name) -> Slot {
    slot((key / KEYS_PER_SLOT).wrapping_mul(STRIDE) % SLOTS)
}

pub fn slot(number: u16) -> Slot {
    Slot::try_from(number).unwrap()
}

/// What a node knows of another.
#[derive(Clone, Debug)]
pub struct Peer {
    pub ip: Option<IpAddr>,
    pub config_epoch: u64,
    pub primary: Id,
    pub pong: Time,
    pub suspected: bool,
    pub failed: bool,
    /// Primaries that do not reach it.
    pub reports: BTreeSet<Id>,
}

/// A pod, its volume, and the server that runs in it.
#[derive(Clone, Debug)]
pub struct Server {
    pub place: Place,
    pub ip: IpAddr,
    /// Nothing while it runs.
    pub down_until: Option<Time>,
    /// While it does not run, there is no pod either.
    pub absent: bool,
    /// It does not answer the operator until then.
    pub silent_until: Time,
    pub id: Id,
    pub current_epoch: u64,
    pub config_epoch: u64,
    pub last_vote: u64,
    /// Whom it replicates; 0 for a primary.
    pub primary: Id,
    pub link_up: bool,
    pub peers: BTreeMap<Id, Peer>,
    pub owners: Owners,
    pub migrating: BTreeMap<Slot, Id>,
    pub importing: BTreeMap<Slot, Id>,
    pub forgotten: BTreeMap<Id, Time>,
    pub data: BTreeMap<Name, u64>,
    pub offset: u64,
    pub maxmemory: Option<u64>,
}

impl Server {
    fn new(place: Place, ip: IpAddr, id: Id) -> Self {
        Self {
            place,
            ip,
            down_until: None,
            absent: false,
            silent_until: 0,
            id,
            current_epoch: 0,
            config_epoch: 0,
            last_vote: 0,
            primary: 0,
            link_up: false,
            peers: BTreeMap::new(),
            owners: Owners::default(),
            migrating: BTreeMap::new(),
            importing: BTreeMap::new(),
            forgotten: BTreeMap::new(),
            data: BTreeMap::new(),
            offset: 0,
            maxmemory: None,
        }
    }

    pub fn is_up(&self) -> bool {
        self.down_until.is_none()
    }

    pub fn is_primary(&self) -> bool {
        self.primary == 0
    }

    pub fn owned(&self) -> &Slots {
        self.owners.slots(self.id)
    }

    pub fn owns(&self, slot: Slot) -> bool {
        self.owned().contains(slot)
    }

    pub fn count_owned(&self, id: Id) -> usize {
        self.owners.slots(id).len().into()
    }

    pub fn keys_in(&self, slot: Slot) -> Vec<Name> {
        let first = slot.number().wrapping_mul(BACK) % SLOTS * KEYS_PER_SLOT;
        let keys = self.data.range(first..first + KEYS_PER_SLOT);
        keys.map(|(key, _)| *key).collect()
    }

    fn epoch_of(&self, id: Id) -> u64 {
        if id == self.id {
            self.config_epoch
        } else {
            self.peers.get(&id).map_or(0, |peer| peer.config_epoch)
        }
    }

    /// Primaries that have slots, as it sees them.
    fn voters(&self) -> Vec<Id> {
        self.owners.iter().map(|(id, _)| id).collect()
    }

    /// Whether it serves clients: every slot is somebody's who is there, and most primaries are.
    pub fn is_ok(&self) -> bool {
        let voters = self.voters();
        let failed = |id: &&Id| self.peers.get(*id).is_some_and(|peer| peer.failed);
        let missed = |id: &&Id| {
            self.peers
                .get(*id)
                .is_some_and(|peer| peer.failed || peer.suspected)
        };
        let reached = voters.len() - voters.iter().filter(missed).count();
        self.owners.are_complete() && !voters.iter().any(|id| failed(&id)) && reached * 2 > voters.len()
    }

    fn delete_slot(&mut self, slot: Slot) {
        self.data.retain(|key, _| slot_of(*key) != slot);
        self.offset += 1;
    }
}

/// All pods, and what clients know.
#[derive(Clone, Debug)]
pub struct World {
    pub servers: BTreeMap<Place, Server>,
    pub wanted: Shape,
    pub present: Shape,
    pub bootstrapped: bool,
    pub allow_data_loss: bool,
    pub now: Time,
    pub random: Random,
    last_id: Id,
    last_ip: u32,
    /// What clients wrote, and were told is written.
    pub acknowledged: BTreeMap<Name, u64>,
    /// Keys that Redis itself may lose: a primary went before all its replicas had them, or an owner of old took a write.
    pub at_risk: BTreeSet<Name>,
    /// How many changes the operator made.
    pub changes: usize,
    /// What it said in the end, in words, for whoever reads why a test failed.
    pub history: Vec<String>,
    /// Whether clients write in between.
    pub has_clients: bool,
}

impl World {
    /// Pods of this shape, empty.
    pub fn new(seed: u64, shards: u16, replicas_per_shard: u8) -> Self {
        let shape = Shape {
            shards,
            replicas_per_shard,
        };
        let mut world = Self {
            servers: BTreeMap::new(),
            wanted: shape,
            present: shape,
            bootstrapped: false,
            allow_data_loss: false,
            now: 1_000_000_000,
            random: Random::new(seed),
            last_id: 0,
            last_ip: 0,
            acknowledged: BTreeMap::new(),
            at_risk: BTreeSet::new(),
            changes: 0,
            history: Vec::new(),
            has_clients: true,
        };
        world.make_pods();
        world
    }

    /// One that is settled, with keys.
    pub fn settled(seed: u64, shards: u16, replicas_per_shard: u8) -> Self {
        let mut world = Self::new(seed, shards, replicas_per_shard);
        world.settle(200);
        for _ in 0..300 {
            world.write_something();
        }
        world.settle(20);
        world
    }

    fn fresh_id(&mut self) -> Id {
        // Not ascending, as those of Redis are not: the lesser one gives way where two have one epoch.
        self.last_id += 1;
        self.last_id.wrapping_mul(40_503) | 1
    }

    fn fresh_ip(&mut self) -> IpAddr {
        self.last_ip += 1;
        IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + self.last_ip))
    }

    pub fn at(&self, shard: u16, copy: u8) -> &Server {
        &self.servers[&Place { shard, copy }]
    }

    pub fn at_mut(&mut self, shard: u16, copy: u8) -> &mut Server {
        self.servers.get_mut(&Place { shard, copy }).unwrap()
    }

    /// Who runs under this address.
    pub fn by_ip(&self, ip: IpAddr) -> Option<Place> {
        let mut servers = self.servers.values();
        servers
            .find(|server| server.is_up() && server.ip == ip)
            .map(|server| server.place)
    }

    /// Who runs under this id, if `viewer` knows its address.
    fn reached(&self, viewer: Place, id: Id) -> Option<Place> {
        let place = self.by_ip(self.servers[&viewer].peers.get(&id)?.ip?)?;
        (self.servers[&place].id == id).then_some(place)
    }

    fn server(&mut self, place: Place) -> &mut Server {
        self.servers.get_mut(&place).unwrap()
    }
}
