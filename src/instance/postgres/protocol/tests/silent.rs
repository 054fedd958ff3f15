//! A holder of the Lease that renews nothing any more, and of which nobody knows that it has ended.

use rstest::rstest;

use super::super::Command;
use super::replica::Replica;
use super::secs;
use crate::api::database::agent::Role;

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

/// Nobody sends any more: that takes no time.
#[rstest]
#[case::it_gave_the_lease_back(false)]
#[case::its_container_has_ended(true)]
fn whoever_takes_over_from_one_that_has_ended_follows_it_until_then(#[case] ended: bool) {
    let mut replica = Replica::new();
    replica.running.receiving = true;
    replica.step();
    replica.ended = ended;
    if !ended {
        replica.holder.clear();
    }
    replica.now += secs(1);
    replica.step();
    replica.hears("a-2", Role::Replica, 50);
    assert!(matches!(replica.step(), Command::Write(..)));
}
