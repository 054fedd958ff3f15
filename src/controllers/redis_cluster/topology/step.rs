//! What comes next. Pure.

use std::collections::BTreeSet;
use std::fmt;

use super::nodes::NodeId;
use super::scene::{Node, Scene, Shape};
use super::slots::Slots;
use super::survey::{Index, Survey};
use super::{adopt, assign, drain, failover, forget, heal, join, open, rebalance, replicate, settle};

/// One kind of change, or why there is none. After it was carried out, wholly or in part, all is looked at anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The StatefulSets get more pods.
    Grow {
        /// As they are to be.
        to: Shape,
    },
    /// The StatefulSets lose their last pods, which hold nothing and are no part of the cluster any more.
    Shrink {
        /// As they are to be.
        to: Shape,
    },
    /// `CLUSTER SET-CONFIG-EPOCH`, at each its own. A refusal does no harm.
    SetEpochs(Vec<(Node, u64)>),
    /// `CLUSTER MEET`, so that nodes which know each other learn where they are by now.
    Heal(Vec<Meeting>),
    /// `CLUSTER MEET`, so that nodes get to know each other.
    Meet(Vec<Meeting>),
    /// `CLUSTER ADDSLOTSRANGE` in a cluster that never had any. "Slot is already busy" calls for another look.
    Assign(Vec<(Node, Slots)>),
    /// It is recorded that slots are assigned, before anything else is done.
    RecordBootstrapped,
    /// `CLUSTER REPLICATE` at the replica.
    Replicate {
        /// Who follows from now on.
        replica: Node,
        /// Whom.
        primary: Node,
    },
    /// Slots go over, each by [`super::moving::Mover`]. Any number of them may be left for the next time.
    Move(Move),
    /// `CLUSTER SETSLOT STABLE`: marks that lead nowhere are taken away.
    Close {
        /// Where.
        node: Node,
        /// Of which slots.
        slots: Slots,
    },
    /// `CLUSTER SETSLOT NODE`: a node that imports slots believes nobody about them, so that a new owner has to be told to it. Until then it serves
    /// nobody.
    Tell {
        /// Who is told.
        node: Node,
        /// Of which slots.
        slots: Slots,
        /// Whose they are by now.
        owner: NodeId,
    },
    /// `CLUSTER FAILOVER` at the replica.
    FailOver {
        /// Who takes over.
        replica: Node,
        /// From whom.
        primary: NodeId,
        /// How.
        how: FailOver,
        /// For people.
        why: String,
    },
    /// `CLUSTER RESET HARD`: it leaves, and its id with it. Redis refuses this to a primary that holds keys.
    Reset {
        /// Who.
        node: Node,
    },
    /// `CLUSTER FORGET` at each, of an id that is nobody's, all within 60 s: after that whoever still knows one tells the others again.
    Forget(Vec<(Node, NodeId)>),
    /// The same, of a node that owns slots and is lost for good: only where the spec allows data to be lost.
    GiveUp {
        /// Its id.
        lost: NodeId,
        /// What is lost.
        slots: Slots,
        /// At whom.
        at: Vec<Node>,
    },
    /// Slots that were given up: only where the spec allows data to be lost. `CLUSTER DELSLOTS` of each first, for what the node itself has for
    /// another's, which it will not take otherwise; then `CLUSTER ADDSLOTSRANGE`; then `CLUSTER BUMPEPOCH`, without which whoever has them for
    /// another's would stay with that.
    AssignLost(Vec<(Node, Slots)>),
    /// Something has to come about by itself first; what that is.
    Wait(String),
    /// Something that a person has to decide on, or mend.
    Degraded(Trouble),
    /// Nothing is to be done.
    Settled,
}

/// `CLUSTER MEET` at `at`, of the address of `whom`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meeting {
    /// Who is told.
    pub at: Node,
    /// Whom it is to meet.
    pub whom: Node,
}

/// Slots that go from one node to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// Who has them, or has keys of them.
    pub from: Node,
    /// Who is to have them.
    pub to: Node,
    /// Which, the lowest first.
    pub slots: Slots,
    /// Other primaries, which are told of the new owner.
    pub others: Vec<Node>,
    /// Replicas of `to`, one of which has to know that it owns a slot before `from` says so.
    pub replicas: Vec<Node>,
    /// What is to be done with each.
    pub how: Moving,
    /// For people.
    pub why: Why,
}

/// In which way a slot goes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moving {
    /// `from` owns it, and serves its keys until they have gone over.
    Hot,
    /// `to` owns it already; keys that `from` has left go there, but for those that `to` has as well.
    Cold,
    /// Nobody owns it, though `from` was giving it to `to`, which gets it.
    Claim,
}

/// Why slots go over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// That was begun once.
    Finish,
    /// The node is to go.
    Drain,
    /// Others have fewer.
    Rebalance,
}

/// In which way a replica takes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailOver {
    /// The primary stops writes until the replica has all.
    Planned,
    /// `FORCE`: without the primary, by votes of the others.
    Force,
    /// `TAKEOVER`: without anybody.
    Takeover,
}

/// What a person has to decide on, or mend.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// There is data that this cluster did not put there.
    #[error("{node} has {keys} keys and the slots {slots:?}, and was not set up by this operator")]
    AdoptionRequired {
        /// Where.
        node: Node,
        /// How many keys.
        keys: u64,
        /// Which slots it owns.
        slots: Slots,
    },
    /// A pod that joins brings data of its own, as from a restored volume.
    #[error("{node} knows nobody of the cluster, but has {keys} keys and the slots {slots:?}")]
    ForeignData {
        /// Where.
        node: Node,
        /// How many keys.
        keys: u64,
        /// Which slots it owns.
        slots: Slots,
    },
    /// Two pods have one id, as from a copied volume.
    #[error("{one} and {other} both are the node {}", .one.id)]
    SameId {
        /// One of them.
        one: Node,
        /// The other one.
        other: Node,
    },
    /// A primary and all that it had is gone.
    #[error("the node {id}{} is lost with all data of the slots {slots}", told_shard(.shard))]
    ShardLost {
        /// Whose ordinal, if that is known.
        shard: Option<u16>,
        /// Its id.
        id: NodeId,
        /// What it owned.
        slots: Slots,
    },
    /// Nobody owns them.
    #[error("nobody owns the slots {slots}")]
    SlotsUncovered {
        /// Which.
        slots: Slots,
    },
    /// What is drained does not fit.
    #[error("{needed} bytes are to go to shards that have room for {available}")]
    ScaleInBlocked {
        /// In bytes.
        needed: u64,
        /// In bytes.
        available: u64,
    },
    /// Redis finds the slot of such keys when it starts, so a restart of the pod helps.
    #[error(
        "{node} has {keys} keys and no slot that they could be of; after a restart it will know which slots they are of"
    )]
    StrayKeys {
        /// Where.
        node: Node,
        /// How many.
        keys: u64,
    },
}

fn told_shard(shard: &Option<u16>) -> String {
    shard.map_or(String::new(), |shard| format!(" of shard {shard}"))
}

/// A stage: what it has to do, if anything.
type Stage = fn(&Survey<'_>) -> Option<Step>;

/// In this order: each rests on those before it having nothing left to do.
const STAGES: [Stage; 11] = [
    adopt::step,
    heal::step,
    open::step,
    failover::step,
    join::step,
    assign::step,
    replicate::step,
    drain::step,
    forget::step,
    rebalance::step,
    settle::step,
];

/// What comes next.
pub fn next(scene: &Scene) -> Step {
    let index = Index::of(scene);
    let survey = Survey::of(scene, &index);
    let step = STAGES.iter().find_map(|stage| stage(&survey));
    step.unwrap_or(Step::Settled)
}

impl Step {
    /// Something is to come about first.
    pub(super) fn wait(what: impl Into<String>) -> Self {
        Self::Wait(what.into())
    }

    /// Whether it changes anything.
    pub fn is_change(&self) -> bool {
        !matches!(self, Self::Wait(_) | Self::Degraded(_) | Self::Settled)
    }
}

impl fmt::Display for Step {
    /// In words, as something that is under way.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Grow { to } => write!(f, "pods are added for {to}"),
            Self::Shrink { to } => write!(f, "pods are taken away, down to {to}"),
            Self::SetEpochs(epochs) => write!(f, "{} new nodes get an epoch", epochs.len()),
            Self::Heal(meetings) => write!(f, "{} addresses are told anew", meetings.len()),
            Self::Meet(meetings) => write!(f, "{} nodes are introduced", meetings.len()),
            Self::Assign(shares) => write!(f, "slots are assigned to {} shards", shares.len()),
            Self::RecordBootstrapped => write!(f, "it is recorded that slots are assigned"),
            Self::Replicate { replica, primary } => write!(f, "{replica} follows {primary}"),
            Self::Move(moving) => moving.fmt(f),
            Self::Close { node, slots } => write!(f, "marks of the slots {slots} are taken from {node}"),
            Self::Tell { node, slots, .. } => write!(f, "{node} is told who owns the slots {slots}"),
            Self::FailOver { replica, why, .. } => write!(f, "{replica} takes over: {why}"),
            Self::Reset { node } => write!(f, "{node} leaves"),
            Self::Forget(at_each) => {
                let ids: BTreeSet<NodeId> = at_each.iter().map(|(_, id)| *id).collect();
                write!(f, "{} nodes that are gone are forgotten", ids.len())
            }
            Self::GiveUp { lost, slots, .. } => {
                write!(f, "the node {lost} is given up, and slots {slots} with it")
            }
            Self::AssignLost(shares) => write!(f, "lost slots are assigned to {} shards", shares.len()),
            Self::Wait(what) => write!(f, "waiting for {what}"),
            Self::Degraded(trouble) => trouble.fmt(f),
            Self::Settled => write!(f, "all is as it should be"),
        }
    }
}

impl fmt::Display for Move {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, slots, .. } = self;
        let why = match self.why {
            Why::Finish => "which was begun once",
            Why::Drain => "which is to go",
            Why::Rebalance => "which has more than others",
        };
        write!(f, "{} slots go to {to} from {from}, {why}", slots.len())
    }
}

#[cfg(test)]
#[path = "step_tests.rs"]
mod tests;
