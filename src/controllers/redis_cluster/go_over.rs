//! Slots go from node to node: many at once, with the commands of all to one node in one go, since most of the time of each is the way there and back.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Range;
use std::time::Duration;

use futures::future::{join, join_all};
use tokio::time::{Instant, sleep};

use super::ask::view;
use super::carry_out::Means;
use super::topology::moving::{Answer, Command, Mover, Next};
use super::topology::slots::{Slot, Slots};
use super::topology::step::Move;
use super::wire::{Reply, Words};

/// So many slots are on their way at once.
const AT_ONCE: usize = 32;
/// So many MIGRATE are sent to a node in one go: it serves nobody else until all are done.
const MIGRATE_AT_ONCE: usize = 4;
/// How long a node has to answer.
const ANSWER: Duration = Duration::from_secs(30);
/// How long replicas have to get what the new owner was given, in milliseconds.
const REPLICATE_MS: u32 = 1000;
/// How long others have to hear of a new owner.
const HEARD: Duration = Duration::from_secs(2);
/// Between two looks whether they have.
const PAUSE: Duration = Duration::from_millis(50);
/// What is on its way has as long as this after its time is over; then it stays open until the next time.
const TO_FINISH: Duration = Duration::from_secs(2);

/// How far it came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Slots that have a new owner.
    pub slots: Slots,
    /// Keys that went.
    pub keys: u64,
    /// The first slot that could not go on, and why; it goes on another time.
    pub stopped: Option<(Slot, String)>,
}

/// A slot that is on its way.
struct UnderWay {
    mover: Mover,
    command: Command,
    /// Since when this command is the one.
    since: Instant,
}

/// Brings slots over until the time is over, none is left, one cannot go on, or somebody else leads.
pub(super) async fn go_over(plan: &Move, means: Means<'_>) -> Moved {
    let mut moved = Moved::default();
    let mut waiting = plan.slots.iter();
    let mut under_way: Vec<UnderWay> = Vec::new();
    while (means.leads)() {
        let now = Instant::now();
        while under_way.len() < AT_ONCE && now < means.until && moved.stopped.is_none() {
            let Some(slot) = waiting.next() else { break };
            advance(Mover::new(plan, slot), None, &mut under_way, &mut moved);
        }
        // Keys take long to go, and may go on the next time
        under_way.retain(|it| now < means.until || !migrates(&it.command));
        if under_way.is_empty() || now >= means.until + TO_FINISH {
            break;
        }
        let (round, rest) = chosen(under_way);
        under_way = rest;
        for (at, answer) in answers(round, means).await {
            match answer {
                Some(answer) => {
                    if let (Command::MigrateKeys { keys, .. }, Answer::Done) = (&at.command, &answer) {
                        moved.keys += keys.len() as u64;
                    }
                    advance(at.mover, Some(answer), &mut under_way, &mut moved);
                }
                // Asked again
                None => under_way.push(at),
            }
        }
    }
    moved
}

fn migrates(command: &Command) -> bool {
    matches!(command, Command::MigrateKeys { .. })
}

fn advance(mut mover: Mover, answer: Option<Answer>, under_way: &mut Vec<UnderWay>, moved: &mut Moved) {
    match mover.next(answer) {
        Next::Send(command) => under_way.push(UnderWay {
            mover,
            command,
            since: Instant::now(),
        }),
        Next::Done => moved.slots.insert(mover.slot()),
        Next::Stopped(why) if moved.stopped.is_none() => moved.stopped = Some((mover.slot(), why)),
        Next::Stopped(_) => {}
    }
}

/// Those that are sent now, and those that wait since too many keys of one node would go at once.
fn chosen(under_way: Vec<UnderWay>) -> (Vec<UnderWay>, Vec<UnderWay>) {
    let mut migrating: BTreeMap<IpAddr, usize> = BTreeMap::new();
    under_way.into_iter().partition(|it| {
        if !migrates(&it.command) {
            return true;
        }
        let of_node = migrating.entry(addressee(&it.command)).or_default();
        *of_node += 1;
        *of_node <= MIGRATE_AT_ONCE
    })
}

/// What became of each. An answer that is not there yet is none.
async fn answers(round: Vec<UnderWay>, means: Means<'_>) -> Vec<(UnderWay, Option<Answer>)> {
    let (looks, orders): (Vec<_>, Vec<_>) = round
        .into_iter()
        .partition(|it| matches!(it.command, Command::AwaitOwner { .. }));
    // Nobody else is kept waiting
    let pause = if orders.is_empty() { PAUSE } else { Duration::ZERO };
    let looked = by_node(looks).into_iter().map(|(ip, all)| looked(ip, all, means));
    let ordered = by_node(orders)
        .into_iter()
        .map(|(ip, all)| ordered(ip, all, means));
    let (looked, ordered) = join(join_all(looked), join_all(ordered)).await;
    let answers: Vec<_> = looked.into_iter().chain(ordered).flatten().collect();
    if answers.iter().any(|(_, answer)| answer.is_none()) {
        sleep(pause).await;
    }
    answers
}

fn by_node(round: Vec<UnderWay>) -> BTreeMap<IpAddr, Vec<UnderWay>> {
    let mut by_node: BTreeMap<IpAddr, Vec<UnderWay>> = BTreeMap::new();
    for it in round {
        by_node.entry(addressee(&it.command)).or_default().push(it);
    }
    by_node
}

/// Sends commands, all in one go. Those that wait for replicas wait together, behind all others: nothing is answered meanwhile.
async fn ordered(ip: IpAddr, mut orders: Vec<UnderWay>, means: Means<'_>) -> Vec<(UnderWay, Option<Answer>)> {
    orders.sort_by_key(|it| waits(&it.command));
    let mut sent = Vec::new();
    let mut places = Vec::new();
    for it in &orders {
        let own = words(&it.command, means);
        let is_said = waits(&it.command) && sent.ends_with(&own);
        let begin = if is_said {
            sent.len() - own.len()
        } else {
            sent.len()
        };
        places.push(begin..begin + own.len());
        if !is_said {
            sent.extend(own);
        }
    }
    let left = (means.until + TO_FINISH).saturating_duration_since(Instant::now());
    let patience = match orders.iter().any(|it| migrates(&it.command)) {
        true => ANSWER,
        false => left.clamp(TO_FINISH, ANSWER),
    };
    match means.wire.send(ip, &sent, patience).await {
        Ok(replies) => {
            let one = |(it, place): (UnderWay, Range<usize>)| {
                let own = replies.get(place).unwrap_or_default().to_vec();
                let answer = answer(&it.command, own);
                (it, Some(answer))
            };
            orders.into_iter().zip(places).map(one).collect()
        }
        Err(why) => {
            let refused = Answer::Refused(why.to_string());
            orders.into_iter().map(|it| (it, Some(refused.clone()))).collect()
        }
    }
}

fn waits(command: &Command) -> bool {
    matches!(command, Command::WaitForReplicas { .. })
}

/// Looks once whether a node knows by now whose slots are.
async fn looked(ip: IpAddr, looks: Vec<UnderWay>, means: Means<'_>) -> Vec<(UnderWay, Option<Answer>)> {
    let view = view(means.wire, ip, HEARD).await;
    let knows = |command: &Command| match (command, &view) {
        (Command::AwaitOwner { slot, owner, .. }, Some(view)) => {
            view.of(*owner).is_some_and(|known| known.slots.contains(*slot))
        }
        _ => false,
    };
    let one = |it: UnderWay| {
        let answer = match knows(&it.command) {
            true => Some(Answer::Done),
            false if it.since.elapsed() >= HEARD => {
                Some(Answer::Refused("it has not heard of it".to_owned()))
            }
            false => None,
        };
        (it, answer)
    };
    looks.into_iter().map(one).collect()
}

fn addressee(command: &Command) -> IpAddr {
    match command {
        Command::MarkImporting { at, .. }
        | Command::MarkMigrating { at, .. }
        | Command::KeysInSlot { at, .. }
        | Command::Sizes { at, .. }
        | Command::MigrateKeys { at, .. }
        | Command::Delete { at, .. }
        | Command::CountKeys { at, .. }
        | Command::WaitForReplicas { at, .. }
        | Command::SetOwner { at, .. }
        | Command::AwaitOwner { at, .. }
        | Command::ClearMarks { at, .. } => at.ip,
    }
}

/// How long each way of a MIGRATE may take: a node that serves nobody for longer than the node timeout is taken for dead by the others.
fn migrate_ms(means: Means<'_>) -> u128 {
    (means.node_timeout / 2).as_millis()
}

fn set_slot(slot: Slot, what: &str) -> Words {
    Words::of(["CLUSTER", "SETSLOT"]).and(slot).and(what)
}

/// A command as what is sent for it: one, or several.
fn words(command: &Command, means: Means<'_>) -> Vec<Words> {
    match command {
        Command::MarkImporting { slot, from, .. } => vec![set_slot(*slot, "IMPORTING").and(from)],
        Command::MarkMigrating { slot, to, .. } => vec![set_slot(*slot, "MIGRATING").and(to)],
        Command::KeysInSlot { slot, count, .. } => {
            vec![Words::of(["CLUSTER", "GETKEYSINSLOT"]).and(slot).and(count)]
        }
        Command::Sizes { keys, asking, .. } => {
            let one = |key: &Vec<u8>| {
                let asking = asking.then(|| Words::of(["ASKING"]));
                asking
                    .into_iter()
                    .chain([Words::of(["MEMORY", "USAGE"]).bytes(key)])
            };
            keys.iter().flat_map(one).collect()
        }
        Command::MigrateKeys {
            to, keys, replace, ..
        } => {
            let begin = Words::of(["MIGRATE"])
                .and(to.ip)
                .and(means.port)
                .and("")
                .and(0)
                .and(migrate_ms(means));
            let replacing = if *replace { begin.and("REPLACE") } else { begin };
            let known = match means.user {
                Some((name, password)) => replacing.and("AUTH2").and(name).and(password),
                None => replacing,
            };
            vec![keys.iter().fold(known.and("KEYS"), |words, key| words.bytes(key))]
        }
        Command::Delete { key, .. } => vec![Words::of(["ASKING"]), Words::of(["DEL"]).bytes(key)],
        Command::CountKeys { slot, .. } => vec![Words::of(["CLUSTER", "COUNTKEYSINSLOT"]).and(slot)],
        // It waits for what was before the last command of this connection, on which the keys did not come
        Command::WaitForReplicas { replicas, .. } => {
            vec![
                Words::of(["PING"]),
                Words::of(["WAIT"]).and(replicas).and(REPLICATE_MS),
            ]
        }
        Command::SetOwner { slot, owner, .. } => vec![set_slot(*slot, "NODE").and(owner)],
        // Looked at, not ordered
        Command::AwaitOwner { .. } => Vec::new(),
        Command::ClearMarks { slot, .. } => vec![set_slot(*slot, "STABLE")],
    }
}

/// What the replies to a command say.
fn answer(command: &Command, replies: Vec<Reply>) -> Answer {
    let refused = replies.iter().find_map(|reply| match reply {
        Reply::Refused(why) => Some(why.clone()),
        _ => None,
    });
    match (command, refused) {
        // A key that is gone, or of no size that anybody knows, is one of none
        (Command::Sizes { asking, .. }, _) => {
            let each = if *asking { 2 } else { 1 };
            let sizes = replies.iter().skip(each - 1).step_by(each);
            Answer::Sizes(sizes.map(|size| size.count().unwrap_or_default()).collect())
        }
        (Command::MigrateKeys { .. }, Some(why)) if why.contains("BUSYKEY") => Answer::BusyKey,
        (_, Some(why)) => Answer::Refused(why),
        (Command::KeysInSlot { .. }, None) => match replies.into_iter().next() {
            Some(Reply::List(keys)) => Answer::Keys(keys.into_iter().filter_map(key).collect()),
            other => unexpected(other),
        },
        (Command::CountKeys { .. }, None) => match replies.first().and_then(Reply::count) {
            Some(count) => Answer::Count(count),
            None => unexpected(replies.into_iter().next()),
        },
        (_, None) => Answer::Done,
    }
}

fn key(reply: Reply) -> Option<Vec<u8>> {
    match reply {
        Reply::Text(key) => Some(key),
        _ => None,
    }
}

fn unexpected(reply: Option<Reply>) -> Answer {
    let kind = match reply {
        Some(Reply::Text(_)) => "a text",
        Some(Reply::Number(_)) => "a number",
        Some(Reply::List(_)) => "a list",
        Some(Reply::Refused(_) | Reply::Nothing) | None => "nothing",
    };
    Answer::Refused(format!("{kind} is no answer to this"))
}

#[cfg(test)]
#[path = "go_over_tests.rs"]
mod tests;
