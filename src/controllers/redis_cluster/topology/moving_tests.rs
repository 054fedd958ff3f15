use rstest::rstest;

use super::super::step::Why;
use super::super::testing::{node, slot, slots};
use super::*;

fn plan(how: Moving, replicas: usize, others: u16) -> Move {
    Move {
        from: node(0, 0),
        to: node(1, 0),
        slots: slots("7"),
        others: (2..2 + others).map(|shard| node(shard, 0)).collect(),
        replicas: (1..=replicas).map(|copy| node(1, copy as u8)).collect(),
        how,
        why: Why::Rebalance,
    }
}

/// A command in short: what, and to which shard.
fn short(command: &Command) -> String {
    let (what, at) = match command {
        Command::MarkImporting { at, .. } => ("importing".into(), at),
        Command::MarkMigrating { at, .. } => ("migrating".into(), at),
        Command::KeysInSlot { at, .. } => ("keys".into(), at),
        Command::Sizes { at, .. } => ("sizes".into(), at),
        Command::MigrateKeys {
            at, keys, replace, ..
        } => {
            let how = if *replace { "replace" } else { "keep" };
            (format!("{how} {}", keys.len()), at)
        }
        Command::Delete { at, .. } => ("delete".into(), at),
        Command::CountKeys { at, .. } => ("count".into(), at),
        Command::WaitForReplicas { at, .. } => ("wait".into(), at),
        Command::SetOwner { at, .. } => ("owner".into(), at),
        Command::AwaitOwner { at, .. } => ("await".into(), at),
        Command::ClearMarks { at, .. } => ("stable".into(), at),
    };
    format!("{what}@{}/{}", at.place.shard, at.place.copy)
}

/// All commands, where these are the answers; Done where there are none left.
fn run(plan: &Move, mut answer: impl FnMut(&str) -> Answer) -> (Vec<String>, Next) {
    let mut mover = Mover::new(plan, slot(7));
    let mut sent = Vec::new();
    let mut last = None;
    for _ in 0..100 {
        match mover.next(last.take()) {
            Next::Send(command) => {
                sent.push(short(&command));
                last = Some(answer(sent.last().unwrap()));
            }
            end => return (sent, end),
        }
    }
    panic!("no end: {sent:?}");
}

/// A slot with so many keys of so many bytes, which go as they are told to.
fn keys(sizes: Vec<u64>) -> impl FnMut(&str) -> Answer {
    let mut left = sizes;
    move |sent| match sent.split(['@', ' ']).next().unwrap() {
        "keys" => Answer::Keys((0..left.len() as u8).map(|key| vec![key]).collect()),
        "sizes" => Answer::Sizes(left.clone()),
        "replace" | "keep" => {
            let count: usize = sent.split([' ', '@']).nth(1).unwrap().parse().unwrap();
            left.drain(..count);
            Answer::Done
        }
        "count" => Answer::Count(left.len() as u64),
        _ => Answer::Done,
    }
}

#[test]
fn the_taker_imports_before_the_giver_gives_and_owns_before_the_giver_does_not() {
    let (sent, end) = run(&plan(Moving::Hot, 1, 2), keys(vec![10, 10]));
    let expected = "importing@1/0 migrating@0/0 keys@0/0 sizes@0/0 replace 2@0/0 keys@0/0 wait@1/0 migrating@0/0 count@0/0 owner@1/0 \
                    await@1/1 owner@0/0 owner@2/0 owner@3/0";
    assert_eq!(sent.join(" "), expected);
    assert_eq!(end, Next::Done);
}

#[rstest]
#[case::small_ones_together(vec![10; 100], "100")]
#[case::as_many_as_a_mebibyte(vec![400_000; 5], "2 2 1")]
#[case::a_big_one_by_itself(vec![10, 5_000_000, 10], "1 1 1")]
fn keys_go_in_batches_of_a_mebibyte(#[case] sizes: Vec<u64>, #[case] batches: &str) {
    let (sent, end) = run(&plan(Moving::Hot, 0, 0), keys(sizes));
    let batch = |sent: &String| Some(sent.strip_prefix("replace ")?.split_once('@')?.0.to_owned());
    assert_eq!(
        sent.iter().filter_map(batch).collect::<Vec<_>>().join(" "),
        batches
    );
    assert_eq!(end, Next::Done);
}

#[test]
fn a_slot_is_never_given_away_while_its_owner_holds_keys_of_it() {
    let mut counts = vec![0, 3, 1];
    let (sent, end) = run(&plan(Moving::Hot, 0, 0), |sent| match sent {
        "keys@0/0" => Answer::Keys(Vec::new()),
        "count@0/0" => Answer::Count(counts.pop().unwrap()),
        _ => Answer::Done,
    });
    assert_eq!(end, Next::Done);
    let owned = sent.iter().position(|sent| sent.starts_with("owner")).unwrap();
    assert_eq!(
        sent[..owned].iter().filter(|sent| *sent == "count@0/0").count(),
        3
    );
    assert_eq!(sent[owned - 1], "count@0/0", "nothing comes in between");
}

#[rstest]
#[case::the_taker_cannot_import("importing@1/0", "")]
#[case::the_giver_is_no_owner("migrating@0/0", "")]
#[case::keys_do_not_go_over("replace 1@0/0", "")]
#[case::the_taker_does_not_take_it("owner@1/0", "owner@1/0")]
#[case::the_giver_does_not_give_it("owner@0/0", "owner@1/0 owner@0/0")]
fn what_is_refused_stops_the_move_where_it_is(#[case] refused: &str, #[case] owners: &str) {
    let mut answer = keys(vec![10]);
    let (sent, end) = run(&plan(Moving::Hot, 0, 1), |sent| match sent {
        sent if sent == refused => Answer::Refused("ERR".into()),
        sent => answer(sent),
    });
    assert!(matches!(end, Next::Stopped(_)), "{end:?}");
    let told: Vec<String> = sent
        .into_iter()
        .filter(|sent| sent.starts_with("owner"))
        .collect();
    assert_eq!(told.join(" "), owners);
}

#[rstest]
#[case::the_giver_is_a_replica_by_now("owner@0/0", "ERR Please use SETSLOT only with masters.")]
#[case::another_is_a_replica_by_now("owner@2/0", "ERR Please use SETSLOT only with masters.")]
#[case::no_replica_has_heard_of_it("await@1/1", "not yet")]
#[case::replicas_are_behind("wait@1/0", "ERR")]
fn what_others_will_hear_of_anyway_does_not_stop_it(#[case] refused: &str, #[case] why: &str) {
    let mut answer = keys(vec![10]);
    let (sent, end) = run(&plan(Moving::Hot, 1, 2), |sent| match sent {
        sent if sent == refused => Answer::Refused(why.into()),
        sent => answer(sent),
    });
    assert_eq!(end, Next::Done);
    assert_eq!(sent.last().unwrap(), "owner@3/0");
}

/// A failover in the midst of it: the giver owns it no more, and may have no key of it, while the new primary has.
#[test]
fn a_giver_that_lost_the_slot_to_its_replica_does_not_give_it_away() {
    let mut marked = 0;
    let mut answer = keys(vec![10]);
    let (sent, end) = run(&plan(Moving::Hot, 0, 0), |sent| {
        marked += usize::from(sent == "migrating@0/0");
        match sent {
            "migrating@0/0" if marked == 2 => {
                Answer::Refused("ERR Please use SETSLOT only with masters.".into())
            }
            sent => answer(sent),
        }
    });
    assert!(matches!(end, Next::Stopped(_)));
    assert!(!sent.iter().any(|sent| sent.starts_with("owner")));
}

#[test]
fn what_a_former_owner_has_left_never_replaces_what_the_owner_has() {
    let mut left = 3;
    let (sent, end) = run(&plan(Moving::Cold, 1, 1), |sent| match sent {
        "migrating@0/0" => Answer::Refused("ERR I'm not the owner of hash slot 7".into()),
        "keys@0/0" => Answer::Keys((0..left).map(|key| vec![key]).collect()),
        "sizes@0/0" => Answer::Sizes(vec![10; left.into()]),
        "keep 3@0/0" => {
            left -= 1;
            Answer::BusyKey
        }
        "keep 1@0/0" => Answer::BusyKey,
        "delete@0/0" => {
            left -= 1;
            Answer::Done
        }
        "count@0/0" => Answer::Count(left.into()),
        _ => Answer::Done,
    });
    let expected = "migrating@0/0 importing@0/0 keys@0/0 sizes@0/0 keep 3@0/0 keys@0/0 sizes@0/0 keep 1@0/0 delete@0/0 keep 1@0/0 \
                    delete@0/0 keys@0/0 count@0/0 owner@0/0 stable@0/0";
    assert_eq!(sent.join(" "), expected);
    assert_eq!(end, Next::Done);
}

#[test]
fn a_slot_of_nobody_is_taken_by_whoever_was_to_get_it_and_the_others_are_told() {
    let (sent, end) = run(&plan(Moving::Claim, 0, 2), |_| Answer::Done);
    assert_eq!(sent.join(" "), "importing@1/0 owner@1/0 owner@2/0 owner@3/0");
    assert_eq!(end, Next::Done);
}

#[test]
fn an_answer_to_another_question_stops_it() {
    let (_, end) = run(&plan(Moving::Hot, 0, 0), |_| Answer::Count(0));
    assert!(matches!(end, Next::Stopped(why) if why.contains("no answer to this")));
    let mut mover = Mover::new(&plan(Moving::Hot, 0, 0), slot(7));
    assert!(matches!(mover.next(None), Next::Send(_)));
    assert!(matches!(mover.next(None), Next::Stopped(_)));
    assert_eq!(mover.next(None), Next::Done, "there is nothing left to send");
}
