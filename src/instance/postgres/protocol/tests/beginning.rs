//! Before anybody holds the Lease: nothing takes the place of data that there may be.

use std::collections::BTreeMap;

use rstest::rstest;

use super::super::{Command, Data, Moment, Peer, Protocol, Running, Seen, Server, Stored, Write};
use super::{secs, situation};
use crate::api::database::agent::{Contents, Lsn, Member, Record, Report, Settings};

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
        let seen = Seen {
            since: secs(1),
            ..Seen::default()
        };
        let mut protocol = Protocol::new(&self.settings);
        let own = (&self.data, &self.server);
        protocol.step(&situation(self.now, &self.settings, &seen, own, &self.peers))
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
    first.data = primary_data();
    first.server = Server::Running(Running {
        system_identifier: "1".to_owned(),
        timeline: 1,
        received: Lsn(7),
        replayed: Lsn(7),
        ..Running::default()
    });
    let replays = Report {
        contents: Contents::Data,
        timeline: Some(1),
        end: Some(Lsn(5)),
        ..Report::default()
    };
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

fn primary_data() -> Data {
    Data::Present(Stored {
        system_identifier: "1".to_owned(),
        timeline: 1,
        ..Stored::default()
    })
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
