//! What was seen of a cluster at one time, and what is wanted of it.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use super::nodes::{NodeId, View};

/// How many pods there are: StatefulSet NAME and NAME-replica-1.. each have one for each shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// One, or three and more.
    pub shards: u16,
    /// Beside the primary.
    pub replicas_per_shard: u8,
}

impl Shape {
    /// Whether a pod of this place is part of it.
    pub fn has(&self, place: Place) -> bool {
        place.shard < self.shards && place.copy <= self.replicas_per_shard
    }

    /// Each place of it, shard by shard.
    pub fn places(self) -> impl Iterator<Item = Place> {
        let copies = move |shard| (0..=self.replicas_per_shard).map(move |copy| Place { shard, copy });
        (0..self.shards).flat_map(copies)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} shards with {} replicas each",
            self.shards, self.replicas_per_shard
        )
    }
}

/// Which pod: it says which shard a node is of, and nothing about its role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The ordinal of the pod.
    pub shard: u16,
    /// Which StatefulSet: 0 is NAME, others are NAME-replica-COPY.
    pub copy: u8,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "copy {} of shard {}", self.copy, self.shard)
    }
}

/// A node that answered: all that is needed to send it a command.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node {
    /// Its pod.
    pub place: Place,
    /// Its id by now.
    pub id: NodeId,
    /// Its address by now.
    pub ip: IpAddr,
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.place.fmt(f)
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}/{} {:?} at {}",
            self.place.shard, self.place.copy, self.id, self.ip
        )
    }
}

/// What `INFO replication` calls a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// `master`.
    Primary,
    /// `slave`.
    Replica,
}

/// What a node said of itself and of its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// `CLUSTER NODES`.
    pub view: View,
    /// As `INFO replication` says.
    pub role: Role,
    /// `master_link_status` is `up`; false for a primary.
    pub primary_link_up: bool,
    /// `master_sync_in_progress`: it is given all data of its primary, and holds none of its own.
    pub syncing: bool,
    /// `master_repl_offset` of a primary, `slave_repl_offset` of a replica, in bytes: 0 where a replica never had its primary's data.
    pub offset: u64,
    /// `DBSIZE`.
    pub keys: u64,
    /// In bytes.
    pub used_memory: u64,
    /// In bytes; nothing where it is unlimited.
    pub maxmemory: Option<u64>,
    /// `cluster_state` is `ok`: it serves clients.
    pub cluster_state_ok: bool,
    /// `cluster_current_epoch`.
    pub current_epoch: u64,
    /// When it said so, by its own clock, since the Unix epoch: so are pongs in its view.
    pub time: Duration,
}

/// Whether a pod said something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// There is no such pod, or none that runs; its volume may well be there.
    Absent,
    /// It runs, and gave no answer: what it knows is not known.
    Silent,
    /// This.
    Answered(Box<Report>),
}

/// A pod of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Which one.
    pub place: Place,
    /// Its address, if it has one by now.
    pub ip: Option<IpAddr>,
    /// What it said.
    pub state: State,
}

/// All that a decision rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scene {
    /// As the spec has it.
    pub wanted: Shape,
    /// As the StatefulSets have it by now: larger than wanted until what goes is empty.
    pub present: Shape,
    /// Whether it was recorded that slots were assigned once. From then on a slot that nobody owns is a loss, never a beginning.
    pub bootstrapped: bool,
    /// `spec.allowDataLoss`: what is lost may be replaced by something empty.
    pub allow_data_loss: bool,
    /// `cluster-node-timeout`.
    pub node_timeout: Duration,
    /// What a container may use, in bytes, where Redis itself has no limit.
    pub memory_limit: Option<u64>,
    /// Every pod of the present shape, those that are to go included. One that is missing here counts as absent.
    pub members: Vec<Member>,
}
