//! Before anybody holds the Lease: nothing takes the place of data that there may be.

use std::collections::BTreeMap;

use rstest::rstest;

use super::super::{Command, Data, Moment, Peer, Protocol, Running, Seen, Server, Stored, Write};
use super::{secs, situation};
use crate::api::database::agent::{Contents, Lsn, Member, Quorum, Record, Report, Settings, Synchronous};

/// The instance a-0 of three, which has waited for minutes.
struct First {
    settings: Settings,
    data: Data,
    server: Server,
    peers: BTreeMap<String, Peer>,
    now: Moment,
}

impl First {
    /// Whose volumes were there before the Database.
    fn of_retained(retained: &[&str]) -> Self {
        let members = ["a-0", "a-1", "a-2"].map(|name| Member {
            name: name.to_owned(),
            ..Member::default()
        });
        Self {
            settings: Settings {
                database: "a".to_owned(),
                members: members.into(),
                retained: retained.iter().map(|&name| name.to_owned()).collect(),
                ..Settings::default()
            },
            data: Data::Empty,
            server: Server::Stopped,
            peers: BTreeMap::new(),
            now: secs(300),
        }
    }

    fn hears(&mut self, name: &str, report: Report) {
        let peer = Peer {
            report,
            asked: self.now,
        };
        self.peers.insert(name.to_owned(), peer);
    }

    fn holds(&mut self, name: &str, contents: Contents) {
        self.hears(
            name,
            Report {
                contents,
                ..Report::default()
            },
        );
    }

    fn step(&self) -> Command {
        self.next(&mut Protocol::new(&self.settings))
    }

    fn next(&self, protocol: &mut Protocol) -> Command {
        let seen = Seen {
            since: secs(1),
            ..Seen::default()
        };
        let own = (&self.data, &self.server);
        protocol.step(&situation(self.now, &self.settings, &seen, own, &self.peers))
    }

    /// It is a replica that runs, and has received so much.
    fn replicates(&mut self, received: u64) {
        self.data = replica_data();
        self.server = Server::Running(Running {
            system_identifier: "1".to_owned(),
            timeline: 1,
            received: Lsn(received),
            replayed: Lsn(received),
            ..Running::default()
        });
    }
}

fn claims(command: &Command) -> bool {
    matches!(command, Command::Write(Write::Claim, _))
}

fn waits_for(command: &Command, words: &str) -> bool {
    matches!(command, Command::Wait(what) if what.contains(words))
}

#[test]
fn a_new_database_begins_although_an_instance_of_it_cannot_be_scheduled() {
    let mut first = First::of_retained(&[]);
    first.holds("a-1", Contents::Nothing);
    assert!(claims(&first.step()));
}

/// The last primary may need minutes for its image, or until its volume is on its node.
#[rstest]
#[case::without_data(Data::Empty)]
#[case::with_older_data(primary_data())]
fn nobody_begins_before_each_volume_of_before_the_database_was_looked_at(#[case] data: Data) {
    let mut first = First::of_retained(&["a-0", "a-1"]);
    first.data = data;
    let command = first.step();
    assert!(waits_for(&command, "a-1 to say whether"), "{command:?}");
    first.holds("a-1", Contents::Unknown);
    let command = first.step();
    assert!(waits_for(&command, "a-1 to say whether"), "{command:?}");
    first.holds("a-1", Contents::Nothing);
    let command = first.step();
    assert!(claims(&command), "{command:?}");
}

#[test]
fn a_replica_that_has_not_read_all_of_its_log_yet_is_waited_for_where_it_may_have_the_most() {
    let mut first = First::of_retained(&["a-0", "a-1"]);
    first.replicates(7);
    let replays = of_replica();
    first.hears("a-1", replays.clone());
    let command = first.step();
    assert!(waits_for(&command, "a-1 to say how far"), "{command:?}");
    first.hears(
        "a-1",
        Report {
            received: Some(Lsn(6)),
            ..replays
        },
    );
    let command = first.step();
    assert!(claims(&command), "{command:?}");
}

/// Or each of two would wait until the other one has said how far it is.
#[test]
fn a_replica_that_does_not_run_is_started_whatever_others_have() {
    let mut first = First::of_retained(&["a-0", "a-1"]);
    first.data = replica_data();
    first.hears("a-1", of_replica());
    assert_eq!(first.step(), Command::Follow(None));
}

/// Of a primary's data nothing tells that it is as it was: it may be of a snapshot.
#[test]
fn a_primarys_data_waits_for_a_replica_that_replays_and_not_for_one_that_is_damaged() {
    let mut first = First::of_retained(&["a-0", "a-1"]);
    first.data = primary_data();
    first.hears("a-1", of_replica());
    let command = first.step();
    let way_out = "kubectl delete --wait=false pvc data-a-1";
    assert!(
        waits_for(&command, "a-1 to say how far") && waits_for(&command, way_out),
        "{command:?}"
    );
    let damaged = Report {
        damaged: true,
        end: Some(Lsn(0)),
        ..of_replica()
    };
    first.hears("a-1", damaged);
    assert!(claims(&first.step()));
}

#[test]
fn the_data_of_another_database_is_not_waited_for() {
    let mut first = First::of_retained(&["a-0", "a-1"]);
    first.settings.system_identifier = Some("1".to_owned());
    first.data = primary_data();
    first.hears("a-1", of_replica());
    first.holds("a-2", Contents::Nothing);
    assert!(waits_for(&first.step(), "a-1 to say how far"));
    let foreign = Report {
        system_identifier: Some("2".to_owned()),
        ..of_replica()
    };
    first.hears("a-1", foreign);
    assert!(claims(&first.step()));
}

/// A primary's data of which only the last checkpoint is known, and that it does not go as far as it once did, may go further than a replica. It says so itself
/// only where it can compare the two: on the same timeline.
#[rstest]
#[case::it_may_have_more(1, 8, false)]
#[case::what_the_replica_has_it_lacks(1, 9, true)]
#[case::the_replica_is_where_it_never_led(2, 8, true)]
fn a_replica_waits_for_an_older_volume_that_may_have_more(
    #[case] timeline: u32,
    #[case] received: u64,
    #[case] leads: bool,
) {
    let mut first = First::of_retained(&["a-0", "a-1"]);
    first.replicates(received);
    if let Server::Running(running) = &mut first.server {
        running.timeline = timeline;
    }
    let lacks = Report {
        led: true,
        lacks_up_to: Some((timeline, Lsn(9))),
        ..of_replica()
    };
    first.hears("a-1", lacks);
    let command = first.step();
    assert_eq!(claims(&command), leads, "{command:?}");
    assert_eq!(waits_for(&command, "a-1 to say how far"), !leads, "{command:?}");
}

/// Whatever it lacks, and however little is known of it.
#[test]
fn an_older_volume_leads_where_a_replica_has_no_more_than_its_last_checkpoint() {
    let mut first = First::of_retained(&["a-0", "a-1"]);
    first.data = Data::Present(Stored {
        end: Lsn(5),
        ..stored()
    });
    let replica = Report {
        received: Some(Lsn(5)),
        ..of_replica()
    };
    first.hears("a-1", replica);
    let mut bereft = Protocol::new(&first.settings);
    bereft.proved(1, Lsn(9), false);
    assert!(claims(&first.next(&mut bereft)));
}

/// Whoever led on its timeline was given up together with the Lease, and may come back.
#[test]
fn a_replica_that_leads_after_a_deleted_lease_says_what_it_may_lack_and_a_primary_lacks_nothing() {
    let mut first = First::of_retained(&["a-0", "a-1"]);
    first.replicates(7);
    let behind = Report {
        received: Some(Lsn(0)),
        end: Some(Lsn(0)),
        ..of_replica()
    };
    first.hears("a-1", behind);
    let claimed = |first: &First| match first.step() {
        Command::Write(Write::Claim, record) => (record.missing, record.missing_on, record.missing_since),
        command => panic!("{command:?}"),
    };
    assert_eq!(claimed(&first), (Some((Lsn(7), Lsn(7))), 1, 2));
    (first.data, first.server) = (primary_data(), Server::Stopped);
    assert_eq!(claimed(&first), (None, 0, 0));
}

/// Nobody knows by which rule what it has of before was acknowledged. What nothing comes of keeps nobody from leading.
#[test]
fn what_is_of_before_a_deleted_lease_the_others_have_to_get_before_they_lead() {
    let mut first = First::of_retained(&["a-0", "a-1"]);
    first.data = primary_data();
    first.settings.synchronous = Synchronous::Required;
    let replica = Report {
        received: Some(Lsn(0)),
        end: Some(Lsn(0)),
        ..of_replica()
    };
    first.hears("a-1", replica);
    let mut protocol = Protocol::new(&first.settings);
    let Command::Write(Write::Claim, record) = first.next(&mut protocol) else {
        panic!("it does not lead");
    };
    let of = |name: &str| Quorum {
        standbys: [name.to_owned()].into(),
        need: 1,
    };
    assert_eq!(record.quorums, [of("a-0"), of("a-1")]);
    protocol.renewed(first.now);
    for _ in 0..3 {
        protocol.ended("PANIC: could not locate a valid checkpoint record");
    }
    let seen = Seen {
        holder: "u-1".to_owned(),
        record: Some(Record {
            members: ["a-0", "a-1"].map(str::to_owned).into(),
            ..record
        }),
        since: first.now,
        ..Seen::default()
    };
    let own = (&first.data, &first.server);
    let command = protocol.step(&situation(first.now, &first.settings, &seen, own, &first.peers));
    let Command::Write(Write::Release, record) = command else {
        panic!("{command:?}");
    };
    assert_eq!(record.quorums, [of("a-1")]);
}

/// It may be the only one that has what it has: the others wait, and are told how to go on without it.
#[test]
fn a_primarys_data_whose_log_cannot_be_read_is_looked_at_again_and_again() {
    let mut first = First::of_retained(&["a-0", "a-1"]);
    first.data = primary_data();
    let replica = Report {
        received: Some(Lsn(9)),
        end: Some(Lsn(9)),
        ..of_replica()
    };
    first.hears("a-1", replica);
    let mut primary = Protocol::new(&first.settings);
    for _ in 0..10 {
        assert_eq!(first.next(&mut primary), Command::Prove(1, Lsn(9)));
        primary.unproved();
    }
    assert_eq!(primary.lacks(), None);

    let mut first = First::of_retained(&["a-0", "a-1"]);
    first.replicates(9);
    let primary = Report {
        led: true,
        message: Some("pg_waldump failed".to_owned()),
        ..of_replica()
    };
    first.hears("a-1", primary);
    let command = first.step();
    let told = "a-1, which may have more, to take the Lease (pg_waldump failed)";
    assert!(
        waits_for(&command, told) && waits_for(&command, "kubectl delete --wait=false pvc data-a-1"),
        "{command:?}"
    );
}

#[test]
fn data_that_was_somebodys_is_replaced_only_once_a_person_has_given_it_up() {
    let mut first = First::of_retained(&["a-0"]);
    first.data = Data::Broken("global/pg_control is no control file".to_owned());
    let Command::Fail(why) = first.step() else {
        panic!("it makes other data in its place");
    };
    let commands = "kubectl delete --wait=false pvc data-a-0 && kubectl delete pod a-0";
    assert!(why.contains("pg_control") && why.contains(commands), "{why}");

    let mut first = First::of_retained(&["a-1"]);
    first.holds("a-1", Contents::Broken);
    let command = first.step();
    assert!(waits_for(&command, "the volume of a-1"), "{command:?}");

    // What this very Database has begun and not finished is begun again.
    let mut first = First::of_retained(&[]);
    first.data = Data::Broken("unfinished: initdb".to_owned());
    assert!(claims(&first.step()));
}

fn replica_data() -> Data {
    Data::Present(Stored {
        standby: true,
        ..stored()
    })
}

/// Of one that has not applied yet all that it has.
fn of_replica() -> Report {
    Report {
        contents: Contents::Data,
        system_identifier: Some("1".to_owned()),
        timeline: Some(1),
        end: Some(Lsn(5)),
        ..Report::default()
    }
}

fn primary_data() -> Data {
    Data::Present(stored())
}

fn stored() -> Stored {
    Stored {
        system_identifier: "1".to_owned(),
        timeline: 1,
        ..Stored::default()
    }
}

/// What the Lease said may have been spoilt, or be of an early copy of it.
#[rstest]
#[case::nobody_knows_of_any(None, true)]
#[case::the_status_does(Some("1"), false)]
fn data_is_made_only_if_neither_lease_nor_status_knows_of_any(
    #[case] known: Option<&str>,
    #[case] makes: bool,
) {
    let mut first = First::of_retained(&[]);
    first.settings.system_identifier = known.map(str::to_owned);
    let step = |holder: &str, protocol: &mut Protocol| {
        let record = Record {
            primary: "a-0".to_owned(),
            members: ["a-0".to_owned()].into(),
            ..Record::default()
        };
        let seen = Seen {
            holder: holder.to_owned(),
            record: Some(record),
            since: first.now,
            ..Seen::default()
        };
        let own = (&first.data, &first.server);
        protocol.step(&situation(first.now, &first.settings, &seen, own, &first.peers))
    };
    let mut protocol = Protocol::new(&first.settings);
    assert_eq!(claims(&step("", &mut protocol)), makes);
    protocol.renewed(first.now);
    assert_eq!(step("u-1", &mut protocol) == Command::Initialise, makes);
}
