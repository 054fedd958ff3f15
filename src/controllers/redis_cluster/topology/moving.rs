//! How one slot goes from node to node: which command comes next, given the answer to the last one. Pure, so that whoever sends the commands may be
//! async, or a test; several of them may go side by side, with the commands of all in one pipeline.
//!
//! The order is that of redis-cli. The new owner takes the slot only once the old one is seen to have no key of it: Redis deletes the keys of whoever
//! hears that its slot is another's by now. And the new one marks it IMPORTING first: only then its configEpoch rises, and the others believe it.

use std::collections::VecDeque;

use super::nodes::NodeId;
use super::scene::Node;
use super::slots::Slot;
use super::step::{Move, Moving};

/// How many bytes of values go over in one MIGRATE, during which both nodes serve nobody.
const BYTES_AT_ONCE: u64 = 1024 * 1024;
/// How many keys are asked for at once.
const KEYS_AT_ONCE: usize = 100;

/// The name of a key, which may be any bytes.
pub type Key = Vec<u8>;

/// What is to be sent, and to whom. None of them does harm if sent twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// `CLUSTER SETSLOT slot IMPORTING from`. Answered with [`Answer::Done`].
    MarkImporting {
        /// To whom this is sent.
        at: Node,
        /// The slot.
        slot: Slot,
        /// Who gives it.
        from: NodeId,
    },
    /// `CLUSTER SETSLOT slot MIGRATING to`. Answered with [`Answer::Done`]; refused by whoever does not own it.
    MarkMigrating {
        /// To whom this is sent.
        at: Node,
        /// The slot.
        slot: Slot,
        /// Who gets it.
        to: NodeId,
    },
    /// `CLUSTER GETKEYSINSLOT slot count`. Answered with [`Answer::Keys`].
    KeysInSlot {
        /// To whom this is sent.
        at: Node,
        /// The slot.
        slot: Slot,
        /// At most so many.
        count: usize,
    },
    /// `MEMORY USAGE` of each, 0 for an error or a key that is gone. Answered with [`Answer::Sizes`], in bytes and in the same order.
    Sizes {
        /// To whom this is sent.
        at: Node,
        /// Of which.
        keys: Vec<Key>,
        /// `ASKING` goes before each.
        asking: bool,
    },
    /// `MIGRATE ip port "" 0 timeout [REPLACE] KEYS ..`. Answered with [`Answer::Done`], for `NOKEY` as well, or [`Answer::BusyKey`].
    MigrateKeys {
        /// To whom this is sent.
        at: Node,
        /// Where they go.
        to: Node,
        /// Which.
        keys: Vec<Key>,
        /// Whether what is there gives way.
        replace: bool,
    },
    /// `ASKING`, then `DEL key`. Answered with [`Answer::Done`].
    Delete {
        /// To whom this is sent.
        at: Node,
        /// Which.
        key: Key,
    },
    /// `CLUSTER COUNTKEYSINSLOT slot`. Answered with [`Answer::Count`].
    CountKeys {
        /// To whom this is sent.
        at: Node,
        /// The slot.
        slot: Slot,
    },
    /// `WAIT replicas 1000`. Answered with [`Answer::Done`], however many have all.
    WaitForReplicas {
        /// To whom this is sent.
        at: Node,
        /// How many there are.
        replicas: usize,
    },
    /// `CLUSTER SETSLOT slot NODE owner`. Answered with [`Answer::Done`].
    SetOwner {
        /// To whom this is sent.
        at: Node,
        /// The slot.
        slot: Slot,
        /// Who owns it from now on.
        owner: NodeId,
    },
    /// Looks at `CLUSTER NODES` for a second or two, until it says this owner. Answered with [`Answer::Done`] or [`Answer::Refused`].
    AwaitOwner {
        /// Who is looked at.
        at: Node,
        /// The slot.
        slot: Slot,
        /// Whose it should be.
        owner: NodeId,
    },
    /// `CLUSTER SETSLOT slot STABLE`. Answered with [`Answer::Done`].
    ClearMarks {
        /// To whom this is sent.
        at: Node,
        /// The slot.
        slot: Slot,
    },
}

/// What was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// OK.
    Done,
    /// Names.
    Keys(Vec<Key>),
    /// In bytes.
    Sizes(Vec<u64>),
    /// How many.
    Count(u64),
    /// `BUSYKEY`: a key is there already. Others of the same MIGRATE may have gone over.
    BusyKey,
    /// Any other error, as Redis puts it.
    Refused(String),
}

/// What comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// This.
    Send(Command),
    /// The slot has gone over.
    Done,
    /// It cannot go on: all is to be looked at anew. Nothing is lost; the marks tell what was begun.
    Stopped(String),
}

/// Where one slot is on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    Begin,
    Importing,
    Migrating,
    ColdImporting,
    Keys,
    Sizes(Vec<Key>),
    Carry(Vec<Key>),
    Delete,
    Replicas,
    StillOwner,
    Count,
    OwnerAtTarget,
    OwnerAtReplica,
    OwnerAtSource,
    OwnerAtOther(usize),
    Clear,
    Over,
}

/// One slot that goes over.
#[derive(Clone, Debug)]
pub struct Mover {
    plan: Move,
    slot: Slot,
    phase: Phase,
    /// Keys that go next, each with its size in bytes.
    pending: VecDeque<(Key, u64)>,
    /// Some of a batch was there already, so that each goes by itself.
    one_by_one: bool,
}

impl Mover {
    /// Of this slot, as the plan has it.
    pub fn new(plan: &Move, slot: Slot) -> Self {
        Self {
            plan: plan.clone(),
            slot,
            phase: Phase::Begin,
            pending: VecDeque::new(),
            one_by_one: false,
        }
    }

    /// Which one.
    pub fn slot(&self) -> Slot {
        self.slot
    }

    /// The next command, given the answer to the last one; nothing at first.
    pub fn next(&mut self, answer: Option<Answer>) -> Next {
        match (std::mem::replace(&mut self.phase, Phase::Over), answer) {
            (Phase::Begin, _) => self.begin(),
            (Phase::Over, _) => Next::Done,
            (phase, Some(answer)) => self.after(phase, answer),
            (phase, None) => stopped(&phase, "no answer"),
        }
    }

    fn after(&mut self, phase: Phase, answer: Answer) -> Next {
        match (phase, answer) {
            (Phase::Importing, Answer::Done) if self.plan.how == Moving::Claim => self.own_at_target(),
            (Phase::Importing, Answer::Done) => self.mark_migrating(Phase::Migrating),
            (Phase::Migrating | Phase::ColdImporting, Answer::Done) => self.ask_for_keys(),
            // It knows already that it is not the owner. Commands on keys of such a slot are taken only where it is being imported.
            (Phase::Migrating, Answer::Refused(_)) if self.is_cold() => {
                self.mark_importing(self.plan.from, self.plan.to, Phase::ColdImporting)
            }
            (Phase::Keys, Answer::Keys(keys)) if keys.is_empty() => self.all_gone(),
            (Phase::Keys, Answer::Keys(keys)) => self.ask_for_sizes(keys),
            (Phase::Sizes(keys), Answer::Sizes(sizes)) => {
                let sizes = sizes.into_iter().chain(std::iter::repeat(0));
                self.pending = keys.into_iter().zip(sizes).collect();
                self.carry()
            }
            (Phase::Carry(_) | Phase::Delete, Answer::Done) => self.carry(),
            (Phase::Carry(keys), Answer::BusyKey) if self.is_cold() => self.busy(keys),
            (Phase::Replicas, Answer::Done | Answer::Refused(_)) => self.mark_migrating(Phase::StillOwner),
            (Phase::StillOwner, Answer::Done) => self.count(),
            (Phase::Count, Answer::Count(0)) if self.is_cold() => self.own_at_source(),
            (Phase::Count, Answer::Count(0)) => self.own_at_target(),
            (Phase::Count, Answer::Count(_)) => self.ask_for_keys(),
            (Phase::OwnerAtTarget, Answer::Done) => self.await_replica(),
            // Without a replica that has heard of it the slot would be lost with its owner; but one that is cut off must not keep it for ever.
            (Phase::OwnerAtReplica, _) if self.plan.how == Moving::Claim => self.own_at_other(0),
            (Phase::OwnerAtReplica, _) => self.own_at_source(),
            (Phase::OwnerAtSource, Answer::Done) if self.is_cold() => self.clear(),
            (Phase::OwnerAtSource, Answer::Done) => self.own_at_other(0),
            // It is a replica by now, and will hear of it from its primary.
            (Phase::OwnerAtSource, Answer::Refused(why)) if why.contains("only with masters") => {
                self.own_at_other(0)
            }
            // They hear of it sooner or later from the owner itself.
            (Phase::OwnerAtOther(index), _) => self.own_at_other(index + 1),
            (Phase::Clear, Answer::Done) => Next::Done,
            (phase, Answer::Refused(why)) => stopped(&phase, &why),
            (phase, _) => stopped(&phase, "what was answered is no answer to this"),
        }
    }

    fn is_cold(&self) -> bool {
        self.plan.how == Moving::Cold
    }

    fn send(&mut self, phase: Phase, command: Command) -> Next {
        self.phase = phase;
        Next::Send(command)
    }

    fn begin(&mut self) -> Next {
        if self.is_cold() {
            self.mark_migrating(Phase::Migrating)
        } else {
            self.mark_importing(self.plan.to, self.plan.from, Phase::Importing)
        }
    }

    fn mark_importing(&mut self, at: Node, from: Node, phase: Phase) -> Next {
        let (slot, from) = (self.slot, from.id);
        self.send(phase, Command::MarkImporting { at, slot, from })
    }

    /// Redis takes this from the owner only, so that it tells as well whether that is still so.
    fn mark_migrating(&mut self, phase: Phase) -> Next {
        let (at, slot, to) = (self.plan.from, self.slot, self.plan.to.id);
        self.send(phase, Command::MarkMigrating { at, slot, to })
    }

    fn ask_for_keys(&mut self) -> Next {
        let (at, slot, count) = (self.plan.from, self.slot, KEYS_AT_ONCE);
        self.send(Phase::Keys, Command::KeysInSlot { at, slot, count })
    }

    fn ask_for_sizes(&mut self, keys: Vec<Key>) -> Next {
        let (at, asking) = (self.plan.from, self.is_cold());
        self.send(Phase::Sizes(keys.clone()), Command::Sizes { at, keys, asking })
    }

    /// As many as fit into one MIGRATE, one at least; and once all have gone, a look for more.
    fn carry(&mut self) -> Next {
        let mut keys = Vec::new();
        let mut bytes: u64 = 0;
        while let Some((key, size)) = self.pending.pop_front() {
            bytes = bytes.saturating_add(size);
            if !keys.is_empty() && (self.one_by_one || bytes > BYTES_AT_ONCE) {
                self.pending.push_front((key, size));
                break;
            }
            keys.push(key);
        }
        if keys.is_empty() {
            return self.ask_for_keys();
        }
        // While it owns the slot, what it has of a key is the latest. Once the other one does, it is the other way round.
        let (at, to, replace) = (self.plan.from, self.plan.to, !self.is_cold());
        self.send(
            Phase::Carry(keys.clone()),
            Command::MigrateKeys {
                at,
                to,
                keys,
                replace,
            },
        )
    }

    /// The owner has it already, and what it has is right. Which one of several it is, is not said.
    fn busy(&mut self, keys: Vec<Key>) -> Next {
        self.one_by_one = true;
        let mut keys = keys.into_iter();
        match (keys.next(), keys.len()) {
            (Some(key), 0) => {
                let at = self.plan.from;
                self.send(Phase::Delete, Command::Delete { at, key })
            }
            // Some of them may have gone: all are asked for again.
            _ => self.ask_for_keys(),
        }
    }

    fn all_gone(&mut self) -> Next {
        if self.is_cold() {
            return self.count();
        }
        let (at, replicas) = (self.plan.to, self.plan.replicas.len());
        if replicas == 0 {
            return self.mark_migrating(Phase::StillOwner);
        }
        self.send(Phase::Replicas, Command::WaitForReplicas { at, replicas })
    }

    fn count(&mut self) -> Next {
        let (at, slot) = (self.plan.from, self.slot);
        self.send(Phase::Count, Command::CountKeys { at, slot })
    }

    fn set_owner(&mut self, at: Node, phase: Phase) -> Next {
        let (slot, owner) = (self.slot, self.plan.to.id);
        self.send(phase, Command::SetOwner { at, slot, owner })
    }

    fn own_at_target(&mut self) -> Next {
        self.set_owner(self.plan.to, Phase::OwnerAtTarget)
    }

    fn await_replica(&mut self) -> Next {
        let (slot, owner) = (self.slot, self.plan.to.id);
        match self.plan.replicas.first() {
            Some(&at) => self.send(Phase::OwnerAtReplica, Command::AwaitOwner { at, slot, owner }),
            None => self.after(Phase::OwnerAtReplica, Answer::Done),
        }
    }

    fn own_at_source(&mut self) -> Next {
        self.set_owner(self.plan.from, Phase::OwnerAtSource)
    }

    fn own_at_other(&mut self, index: usize) -> Next {
        match self.plan.others.get(index) {
            Some(&at) => self.set_owner(at, Phase::OwnerAtOther(index)),
            None => Next::Done,
        }
    }

    fn clear(&mut self) -> Next {
        let (at, slot) = (self.plan.from, self.slot);
        self.send(Phase::Clear, Command::ClearMarks { at, slot })
    }
}

fn stopped(phase: &Phase, why: &str) -> Next {
    let during = match phase {
        Phase::Begin | Phase::Importing | Phase::Migrating | Phase::ColdImporting => "while it was opened",
        Phase::Keys | Phase::Sizes(_) | Phase::Carry(_) | Phase::Delete => "while keys went over",
        Phase::Replicas | Phase::StillOwner | Phase::Count => "before it changed hands",
        _ => "while it changed hands",
    };
    Next::Stopped(format!("{why}, {during}"))
}

#[cfg(test)]
#[path = "moving_tests.rs"]
mod tests;
