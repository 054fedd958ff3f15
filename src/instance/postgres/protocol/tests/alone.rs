//! A primary whose commits wait for nobody, and that nobody hears.

use rstest::rstest;

use super::super::{Command, Data, How, Protocol, Running, Seen, Server, Stored, Write};
use super::*;
use crate::api::database::agent::{Lsn, Record, Standby};

/// The primary a-0, from which a-1 streams, and which has renewed the Lease at 100 s.
struct Alone {
    protocol: Protocol,
    settings: Settings,
    record: Record,
    running: Running,
}

impl Alone {
    fn new() -> Self {
        let settings = Settings {
            synchronous: Synchronous::Off,
            maximum_lag: 50,
            ..Settings::default()
        };
        let mut protocol = Protocol::new(&settings);
        protocol.renewed(secs(100));
        let record = Record {
            primary: "a-0".into(),
            system_identifier: Some("1".into()),
            timeline: 1,
            members: ["a-0", "a-1"].map(str::to_owned).into(),
            asynchronous: true,
            flushed: Lsn(1000),
            flushed_on: 1,
            ..Record::default()
        };
        let standby = Standby {
            name: "a-1".into(),
            state: "streaming".into(),
            flushed: Some(Lsn(1000)),
            ..Standby::default()
        };
        let running = Running {
            primary: true,
            system_identifier: "1".into(),
            timeline: 1,
            received: Lsn(1000),
            standbys: vec![standby],
            ..Running::default()
        };
        let mut alone = Self {
            protocol,
            settings,
            record,
            running,
        };
        alone.stops(100_000);
        alone.running.standbys.clear();
        alone
    }

    /// Whether it ends its PostgreSQL, so many milliseconds after it began.
    fn stops(&mut self, at: u64) -> bool {
        let lease = Seen {
            holder: "u-1".into(),
            record: Some(self.record.clone()),
            claimed: secs(6),
            since: secs(100),
            ..Seen::default()
        };
        let server = Server::Running(self.running.clone());
        let peers = BTreeMap::new();
        let now = Duration::from_millis(at);
        let mut known = situation(now, &self.settings, &lease, (&Data::Empty, &server), &peers);
        (known.writing, known.pleading, known.canary) = (true, true, Some(now));
        self.protocol.step(&known) == Command::Stop(How::Immediate)
    }
}

/// A renewal is tried after a second, and the others are asked after two.
#[rstest]
#[case::soon(2400, 1026, false)]
#[case::after_two_and_a_half_seconds(2500, 1026, true)]
#[case::with_no_more_than_half_of_what_may_be_lost(3900, 1025, false)]
#[case::whatever_it_wrote_when_its_time_is_up(4000, 1000, true)]
fn it_stops_before_it_has_written_more_than_may_be_lost(
    #[case] after: u64,
    #[case] flushed: u64,
    #[case] stops: bool,
) {
    let mut alone = Alone::new();
    alone.running.received = Lsn(flushed);
    assert_eq!(alone.stops(100_000 + after), stops);
}

/// It is not renewed either, so that another one is elected as soon as it is given back, or has run out.
#[test]
fn it_does_not_start_again_before_others_had_their_turn() {
    let mut alone = Alone::new();
    alone.running.received = Lsn(1030);
    assert!(alone.stops(102_500));
    let lease = Seen {
        holder: "u-1".into(),
        record: Some(alone.record.clone()),
        ..Seen::default()
    };
    let stored = Data::Present(Stored {
        system_identifier: "1".into(),
        timeline: 1,
        end: Lsn(1030),
        ..Stored::default()
    });
    let peers = BTreeMap::new();
    let stopped = (&stored, &Server::Stopped);
    let known = situation(secs(103), &alone.settings, &lease, stopped, &peers);
    let command = alone.protocol.step(&known);
    assert!(
        matches!(command, Command::Write(Write::Release, _)),
        "{command:?}"
    );
}

#[test]
fn it_goes_on_as_long_as_the_others_promise() {
    let mut alone = Alone::new();
    alone.running.received = Lsn(2000);
    alone.protocol.asks = alone.settings.timing;
    alone.protocol.confirmed(secs(102));
    assert!(!alone.stops(103_000));
    assert!(alone.stops(104_500), "half a second more than two after they did");
}

#[test]
fn it_goes_on_where_commits_waited_for_a_replica() {
    let mut alone = Alone::new();
    (alone.running.received, alone.record.asynchronous) = (Lsn(2000), false);
    assert!(!alone.stops(103_000));
}

/// Nothing would be won by that: whoever is there could not take over.
#[test]
fn it_goes_on_where_nobody_else_is_near() {
    let mut alone = Alone::new();
    (alone.running.received, alone.record.flushed) = (Lsn(2000), Lsn(1051));
    assert!(!alone.stops(103_000), "the only replica lacks too much");
    alone.record.flushed = Lsn(1000);
    alone.record.members = ["a-0".to_owned()].into();
    alone.protocol.named.clear();
    assert!(!alone.stops(103_000), "there is no other");
}
