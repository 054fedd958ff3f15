//! Brings a step to the nodes.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use futures::future::join_all;
use tokio::time::{Instant, sleep};

use super::ask::view;
use super::go_over::{Moved, go_over};
use super::topology::scene::Node;
use super::topology::slots::Slots;
use super::topology::step::{FailOver, Meeting, Move, Step, Why};
use super::wire::{Reply, Wire, WireError, Words};

/// How long a node has to answer.
const ANSWER: Duration = Duration::from_secs(5);
/// How long a node that has nothing any more stays for clients that have not noticed.
const LEAVE: Duration = Duration::from_secs(5);
/// How long a replica has to take over once it was told: asked again before, it would begin anew.
const TAKES_OVER: Duration = Duration::from_secs(6);
/// Between two looks whether it has.
const PAUSE: Duration = Duration::from_millis(100);

/// What it takes to reach nodes. It cannot be printed, since it holds a password.
#[derive(Clone, Copy)]
pub struct Means<'a> {
    /// The way to them.
    pub wire: &'a dyn Wire,
    /// On which they listen for clients.
    pub port: u16,
    /// As whom one node sends keys to another: a user's name and password.
    pub user: Option<(&'a str, &'a str)>,
    /// `cluster-node-timeout`.
    pub node_timeout: Duration,
    /// Until when slots may go over; the others have to wait for the next time.
    pub until: Instant,
    /// Whether whoever sends is still the one who may: asked before whatever is sent.
    pub leads: &'a (dyn Fn() -> bool + Send + Sync),
}

/// Why a step was not carried out, or not wholly. All is to be looked at anew.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CarryOutError {
    /// Another one leads by now. Nothing was sent since.
    #[error("another operator leads by now")]
    NotLeading,
    /// It may have done it.
    #[error("{node}: {command:?}: {why}")]
    Wire {
        /// Who.
        node: Node,
        /// The first of the commands.
        command: Words,
        /// Why there is no answer.
        why: WireError,
    },
    /// It has not done it.
    #[error("{node}: {command:?}: {why}")]
    Refused {
        /// Who.
        node: Node,
        /// Which command.
        command: Words,
        /// In Redis' words.
        why: String,
    },
}

/// Sends the commands of a step, and says how far slots have gone over. Nothing is sent for steps that are none of the nodes' business: [`Step::Grow`], [`Step::Shrink`] and
/// [`Step::RecordBootstrapped`], and those that change nothing.
///
/// # Errors
/// The first node that did not do as it was told, and why. Others may have done it.
pub async fn carry_out(step: &Step, means: Means<'_>) -> Result<Moved, CarryOutError> {
    if !(means.leads)() {
        return Err(CarryOutError::NotLeading);
    }
    if let Step::Move(plan) = step {
        let moved = go_over(plan, means).await;
        see_off(plan, &moved, means).await;
        return Ok(moved);
    }
    let (orders, is_done) = orders(step, means.port);
    send(orders, is_done, means).await?;
    if let Step::FailOver { replica, .. } = step {
        taken_over(replica, means).await;
    }
    Ok(Moved::default())
}

/// Whether a refusal says that all is as it was to be.
type IsDone = fn(&str) -> bool;

/// What is sent to whom, and which refusals do no harm.
fn orders(step: &Step, port: u16) -> (Vec<(Node, Words)>, IsDone) {
    match step {
        Step::SetEpochs(epochs) => {
            let orders = epochs
                .iter()
                .map(|(node, epoch)| (*node, cluster("SET-CONFIG-EPOCH").and(epoch)));
            // By whoever has one, which is as good
            (orders.collect(), |_| true)
        }
        Step::Heal(meetings) | Step::Meet(meetings) => {
            (meetings.iter().map(|it| meet(*it, port)).collect(), |_| false)
        }
        Step::Assign(shares) => {
            let orders = shares.iter().map(|(node, slots)| (*node, assigned(slots)));
            (orders.collect(), |_| false)
        }
        Step::AssignLost(shares) => {
            let orders = shares.iter().flat_map(|(node, slots)| {
                let words = lost_assigned(slots).into_iter();
                words.map(|words| (*node, words))
            });
            (orders.collect(), |why| why.contains("already unassigned"))
        }
        Step::Replicate { replica, primary } => {
            (vec![(*replica, cluster("REPLICATE").and(primary.id))], |_| false)
        }
        Step::Close { node, slots } => {
            let stable = |slot| cluster("SETSLOT").and(slot).and("STABLE");
            (slots.iter().map(|slot| (*node, stable(slot))).collect(), |_| {
                false
            })
        }
        Step::Tell { node, slots, owner } => {
            let owned = |slot| cluster("SETSLOT").and(slot).and("NODE").and(owner);
            (slots.iter().map(|slot| (*node, owned(slot))).collect(), |_| false)
        }
        Step::FailOver { replica, how, .. } => (vec![(*replica, taking_over(*how))], |_| false),
        Step::Reset { node } => (vec![(*node, cluster("RESET").and("HARD"))], |_| false),
        Step::Forget(at_each) => {
            let orders = at_each
                .iter()
                .map(|(node, id)| (*node, cluster("FORGET").and(id)));
            (orders.collect(), |why| why.contains("Unknown node"))
        }
        Step::GiveUp { lost, at, .. } => {
            let orders = at.iter().map(|node| (*node, cluster("FORGET").and(lost)));
            (orders.collect(), |why| why.contains("Unknown node"))
        }
        // Of these nodes hear nothing, or of each slot by itself
        Step::Move(_)
        | Step::Grow { .. }
        | Step::Shrink { .. }
        | Step::RecordBootstrapped
        | Step::Wait(_)
        | Step::Degraded(_)
        | Step::Settled => (Vec::new(), |_| false),
    }
}

fn cluster(what: &str) -> Words {
    Words::of(["CLUSTER", what])
}

fn meet(Meeting { at, whom }: Meeting, port: u16) -> (Node, Words) {
    (at, cluster("MEET").and(whom.ip).and(port))
}

fn assigned(slots: &Slots) -> Words {
    slots
        .ranges()
        .fold(cluster("ADDSLOTSRANGE"), |words, (first, last)| {
            words.and(first).and(last)
        })
}

/// What the node has for another's it has to give up before it takes it, each slot by itself, since it refuses all if one is nobody's.
fn lost_assigned(slots: &Slots) -> Vec<Words> {
    let given_up = slots.iter().map(|slot| cluster("DELSLOTS").and(slot));
    given_up.chain([assigned(slots), cluster("BUMPEPOCH")]).collect()
}

fn taking_over(how: FailOver) -> Words {
    match how {
        FailOver::Planned => cluster("FAILOVER"),
        FailOver::Force => cluster("FAILOVER").and("FORCE"),
        FailOver::Takeover => cluster("FAILOVER").and("TAKEOVER"),
    }
}

/// Sends each its commands, in order, and all at once.
async fn send(orders: Vec<(Node, Words)>, is_done: IsDone, means: Means<'_>) -> Result<(), CarryOutError> {
    let mut by_node: BTreeMap<IpAddr, (Node, Vec<Words>)> = BTreeMap::new();
    for (node, words) in orders {
        let (_, of_node) = by_node.entry(node.ip).or_insert_with(|| (node, Vec::new()));
        of_node.push(words);
    }
    let sent = by_node.values().map(|(node, commands)| async move {
        let answers = means.wire.send(node.ip, commands, ANSWER).await;
        let answers = answers.map_err(|why| CarryOutError::Wire {
            node: *node,
            command: commands.first().cloned().unwrap_or_else(|| cluster("")),
            why,
        })?;
        let refused = commands
            .iter()
            .zip(answers)
            .find_map(|(command, answer)| match answer {
                Reply::Refused(why) if !is_done(&why) => Some((command.clone(), why)),
                _ => None,
            });
        refused.map_or(Ok(()), |(command, why)| {
            Err(CarryOutError::Refused {
                node: *node,
                command,
                why,
            })
        })
    });
    join_all(sent).await.into_iter().collect()
}

/// Waits for a while until a replica is the primary. Whether it is, the next look tells.
async fn taken_over(replica: &Node, means: Means<'_>) {
    let end = Instant::now() + TAKES_OVER;
    while Instant::now() < end {
        let view = view(means.wire, replica.ip, ANSWER).await;
        if view.is_some_and(|view| view.myself.flags.primary) {
            return;
        }
        sleep(PAUSE).await;
    }
}

/// A node that was drained leads clients to the new owners as long as it is part of the cluster; so it stays for a while once it has nothing. What becomes of it is decided after that, by
/// another look.
async fn see_off(plan: &Move, moved: &Moved, means: Means<'_>) {
    if plan.why != Why::Drain || moved.slots.is_empty() {
        return;
    }
    let view = view(means.wire, plan.from.ip, ANSWER).await;
    if view.is_some_and(|view| view.myself.slots.is_empty()) {
        sleep(LEAVE).await;
    }
}
