//! What is sent for a command, and what the replies to it mean.

use std::time::Duration;

use futures::future::BoxFuture;
use rstest::rstest;

use super::*;
use crate::controllers::redis_cluster::topology::nodes::NodeId;
use crate::controllers::redis_cluster::topology::scene::{Node, Place};
use crate::controllers::redis_cluster::topology::step::{Moving, Why};
use crate::controllers::redis_cluster::wire::{Wire, WireError};

/// Nobody.
#[derive(Debug)]
struct Silent;

impl Wire for Silent {
    fn send<'a>(
        &'a self,
        _to: IpAddr,
        _commands: &'a [Words],
        _patience: Duration,
    ) -> BoxFuture<'a, Result<Vec<Reply>, WireError>> {
        Box::pin(async { Err(WireError::Unreachable("gone".to_owned())) })
    }
}

fn means(user: Option<(&'static str, &'static str)>) -> Means<'static> {
    Means {
        wire: &Silent,
        port: 6379,
        user,
        node_timeout: Duration::from_secs(5),
        until: Instant::now(),
        leads: &|| true,
    }
}

fn node(shard: u16) -> Node {
    Node {
        place: Place { shard, copy: 0 },
        id: NodeId([u8::try_from(shard).unwrap(); 20]),
        ip: IpAddr::from([10, 0, 0, 1]),
    }
}

fn migrate(replace: bool) -> Command {
    Command::MigrateKeys {
        at: node(0),
        to: node(1),
        keys: vec![b"a".to_vec(), vec![0xff]],
        replace,
    }
}

fn sizes(asking: bool) -> Command {
    Command::Sizes {
        at: node(0),
        keys: vec![b"a".to_vec(), b"b".to_vec()],
        asking,
    }
}

fn told(sent: &[Words]) -> Vec<String> {
    let text = |Words(words): &Words| {
        let words: Vec<String> = words.iter().map(|word| word.escape_ascii().to_string()).collect();
        words.join(" ")
    };
    sent.iter().map(text).collect()
}

#[rstest]
#[case::bare(migrate(false), None, &["MIGRATE 10.0.0.1 6379  0 2500 KEYS a \\xff"])]
#[case::as_a_user(migrate(true), Some(("op", "secret")), &["MIGRATE 10.0.0.1 6379  0 2500 REPLACE AUTH2 op secret KEYS a \\xff"])]
#[case::sizes(sizes(false), None, &["MEMORY USAGE a", "MEMORY USAGE b"])]
#[case::sizes_of_what_is_anothers(sizes(true), None, &["ASKING", "MEMORY USAGE a", "ASKING", "MEMORY USAGE b"])]
#[case::replicas(Command::WaitForReplicas { at: node(0), replicas: 2 }, None, &["PING", "WAIT 2 1000"])]
#[case::delete(Command::Delete { at: node(0), key: b"a".to_vec() }, None, &["ASKING", "DEL a"])]
fn a_command_is_what_redis_takes(
    #[case] command: Command,
    #[case] user: Option<(&'static str, &'static str)>,
    #[case] expected: &[&str],
) {
    assert_eq!(told(&words(&command, means(user))), expected);
}

#[rstest]
#[case::gone(migrate(true), vec![Reply::Text(b"NOKEY".to_vec())], Answer::Done)]
#[case::there_already(
    migrate(false),
    vec![Reply::Refused("ERR Target instance replied with error: BUSYKEY Target key name already exists.".to_owned())],
    Answer::BusyKey
)]
#[case::refused(migrate(false), vec![Reply::Refused("IOERR error or timeout".to_owned())], Answer::Refused("IOERR error or timeout".to_owned()))]
#[case::a_key_that_is_gone(sizes(false), vec![Reply::Number(72), Reply::Nothing], Answer::Sizes(vec![72, 0]))]
#[case::after_asking(
    sizes(true),
    vec![Reply::Text(b"OK".to_vec()), Reply::Number(72), Reply::Text(b"OK".to_vec()), Reply::Number(8)],
    Answer::Sizes(vec![72, 8])
)]
#[case::no_list(
    Command::KeysInSlot { at: node(0), slot: "5".parse().unwrap(), count: 1 },
    vec![Reply::Number(1)],
    Answer::Refused("a number is no answer to this".to_owned())
)]
fn what_redis_replies_is_what_the_mover_is_told(
    #[case] command: Command,
    #[case] replies: Vec<Reply>,
    #[case] expected: Answer,
) {
    assert_eq!(answer(&command, replies), expected);
}

/// Passwords, and somebody's keys.
#[test]
fn what_is_secret_in_a_command_is_not_printed() {
    let printed = format!("{:?}", words(&migrate(true), means(Some(("op", "secret")))));
    assert_eq!(printed, "[MIGRATE]");
    let printed = format!("{:?}", Words::of(["DEL", "somebody's"]));
    assert_eq!(printed, "DEL");
}

/// A hundred slots that go to a shard without replicas.
fn plan() -> Move {
    Move {
        from: node(0),
        to: node(1),
        slots: "0-99".parse().unwrap(),
        others: Vec::new(),
        replicas: Vec::new(),
        how: Moving::Hot,
        why: Why::Rebalance,
    }
}

/// Whoever cannot be reached keeps nobody waiting.
#[tokio::test]
async fn where_nobody_answers_it_stops_at_the_first_slots() {
    let means = Means {
        until: Instant::now() + Duration::from_secs(9),
        ..means(None)
    };
    let moved = go_over(&plan(), means).await;
    let (slot, why) = moved.stopped.unwrap();
    assert_eq!((slot.number(), moved.slots.len()), (0, 0));
    assert_eq!(why, "it cannot be reached: gone, while it was opened");
}

/// Whoever does not lead any more sends nothing.
#[tokio::test]
async fn whoever_does_not_lead_any_more_moves_nothing() {
    let means = Means {
        until: Instant::now() + Duration::from_secs(9),
        leads: &|| false,
        ..means(None)
    };
    assert_eq!(go_over(&plan(), means).await, Moved::default());
}
