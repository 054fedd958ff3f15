//! A holder of the Lease that renews nothing any more, and of which nobody knows that it has ended.

use rstest::rstest;

use super::super::Command;
use super::replica::Replica;
use super::secs;
use crate::api::database::agent::{Lsn, Role};

/// Its PostgreSQL may run on without its manager, and tell clients that what it sends is safe: all of that has to be known before anybody takes over.
#[test]
fn from_a_holder_that_fell_silent_nobody_takes_over_who_still_receives_from_it() {
    let mut replica = Replica::new();
    (replica.running.streaming, replica.running.receiving) = (true, true);
    replica.step();
    replica.falls_silent();
    replica.hears("a-2", Role::Replica, 100);
    assert_eq!(replica.step(), Command::Follow(None));
    replica.running.upstream = None;
    replica.running.streaming = false;
    let command = replica.step();
    assert!(
        matches!(&command, Command::Wait(what) if what.contains("still sends to end")),
        "{command:?}"
    );
    replica.running.receiving = false;
    replica.hears("a-2", Role::Replica, 100);
    replica.peers.get_mut("a-2").unwrap().report.receiving = true;
    // Of two that acknowledge, the other one may have more by now.
    let command = replica.step();
    assert!(
        matches!(&command, Command::Wait(what) if what.starts_with("a-2: without hearing")),
        "{command:?}"
    );
    replica.hears("a-2", Role::Replica, 100);
    assert!(matches!(replica.step(), Command::Write(..)));
}

/// It cannot tell whether the holder fell silent, or it does not hear.
#[test]
fn a_replica_that_does_not_hear_from_the_api_server_goes_on_receiving() {
    let mut replica = Replica::new();
    (replica.running.streaming, replica.running.receiving) = (true, true);
    replica.step();
    replica.api = Some(replica.now);
    replica.falls_silent();
    for _ in 0..10 {
        replica.now += secs(1);
        let command = replica.step();
        assert!(matches!(command, Command::Wait(_)), "{command:?}");
    }
    replica.api = None;
    assert_eq!(replica.step(), Command::Follow(None));
}

/// What says that a holder has ended.
#[derive(Clone, Copy, PartialEq)]
enum End {
    /// It gave the Lease back.
    Lease,
    /// The kubelet says so of its container.
    Container,
    /// It says so itself.
    Report,
}

/// The holder says that it has ended, as the Lease names it or otherwise.
fn says_its_end(replica: &mut Replica, identity: &str, end: u64) {
    replica.hears("a-0", Role::None, end);
    let report = &mut replica.peers.get_mut("a-0").unwrap().report;
    (report.gone, report.identity) = (true, identity.to_owned());
    (report.received, report.end) = (None, Some(Lsn(end)));
}

/// Nobody sends any more: that takes no time.
#[rstest]
#[case::it_gave_the_lease_back(End::Lease)]
#[case::its_container_has_ended(End::Container)]
#[case::it_says_so(End::Report)]
fn whoever_takes_over_from_one_that_has_ended_follows_it_until_then(#[case] end: End) {
    let mut replica = Replica::new();
    replica.running.receiving = true;
    replica.step();
    match end {
        End::Lease => replica.holder.clear(),
        End::Container => replica.ended = true,
        End::Report => says_its_end(&mut replica, "p-1", 100),
    }
    replica.now += secs(1);
    replica.step();
    replica.hears("a-2", Role::Replica, 50);
    assert!(matches!(replica.step(), Command::Write(..)));
}

/// The number after the dash is a process's own.
#[rstest]
#[case::another_process_of_its_pod("p-2")]
#[case::another_pod("q-1")]
fn the_end_of_one_that_does_not_hold_the_lease_frees_nothing(#[case] identity: &str) {
    let mut replica = Replica::new();
    says_its_end(&mut replica, identity, 100);
    replica.step();
    replica.now += secs(1);
    replica.hears("a-2", Role::Replica, 50);
    let command = replica.step();
    assert!(!matches!(command, Command::Write(..)), "{command:?}");
}

#[test]
fn that_a_holder_has_ended_is_known_still_when_the_next_pod_of_its_name_answers() {
    let mut replica = Replica::new();
    says_its_end(&mut replica, "p-1", 100);
    replica.step();
    replica.now += secs(1);
    replica.hears("a-0", Role::None, 50);
    replica.hears("a-2", Role::Replica, 50);
    assert!(matches!(replica.step(), Command::Write(..)));
}

/// It could not write down how far it went, and says so.
#[rstest]
#[case::no_further_than_may_be_lost(1, 140, true)]
#[case::further(1, 151, false)]
#[case::further_and_it_had_written_nothing_of_its_own(0, 151, false)]
fn where_commits_waited_for_nobody_who_takes_over_goes_by_how_far_the_last_holder_says_it_went(
    #[case] flushed_on: u32,
    #[case] end: u64,
    #[case] takes: bool,
) {
    let mut replica = Replica::new();
    (
        replica.record.asynchronous,
        replica.record.flushed,
        replica.record.flushed_on,
    ) = (true, Lsn(100), flushed_on);
    replica.record.quorums.clear();
    says_its_end(&mut replica, "p-1", end);
    replica.step();
    replica.now += secs(1);
    let command = replica.step();
    match command {
        Command::Write(_, record) if takes => assert_eq!(record.missing, Some((Lsn(100), Lsn(end)))),
        Command::Wait(why) if !takes => assert!(why.contains("51 bytes behind it"), "{why}"),
        other => panic!("{other:?}"),
    }
}
