//! What keeps an instance from giving way, and what must not: a volume that cannot be read, a copy that takes hours, a start that does not come to an end.

use std::collections::BTreeMap;

use rstest::rstest;

use super::super::{
    Command, Data, How, Peer, Protocol, Running, Seen, Server, Situation, Stored, Work, Write,
};
use super::{secs, situation};
use crate::api::database::agent::{Plea, Record, Report, Role, Settings};

/// The instance a-0, which sees a Lease that names a primary.
struct Instance {
    protocol: Protocol,
    settings: Settings,
    holder: &'static str,
    primary: &'static str,
    server: Server,
    data: Data,
    work: Option<Work>,
    writing: bool,
}

impl Instance {
    fn new(holder: &'static str, primary: &'static str) -> Self {
        let settings = Settings::default();
        Self {
            protocol: Protocol::new(&settings),
            settings,
            holder,
            primary,
            server: Server::Stopped,
            data: Data::Empty,
            work: None,
            writing: false,
        }
    }

    fn holder() -> Self {
        let mut holder = Self::new("u-1", "a-0");
        holder.protocol.renewed(secs(100));
        holder
    }

    fn step(&mut self) -> Command {
        self.ask(Protocol::step)
    }

    fn ask<T>(&mut self, ask: impl FnOnce(&mut Protocol, &Situation<'_>) -> T) -> T {
        let now = secs(100);
        let record = Record {
            primary: self.primary.to_owned(),
            system_identifier: Some("1".to_owned()),
            members: ["a-0", "a-1", "a-2"].map(str::to_owned).into(),
            ..Record::default()
        };
        let seen = Seen {
            holder: self.holder.to_owned(),
            record: Some(record),
            since: now,
            ..Seen::default()
        };
        let report = Report {
            role: Role::Primary,
            ..Report::default()
        };
        let peer = Peer { report, asked: now };
        let peers = BTreeMap::from([(self.primary.to_owned(), peer)]);
        let situation = Situation {
            writing: self.writing,
            work: self.work,
            ..situation(now, &self.settings, &seen, (&self.data, &self.server), &peers)
        };
        ask(&mut self.protocol, &situation)
    }
}

/// etcd is full, for instance: whoever took over could not say so either.
#[rstest]
#[case::nothing(false)]
#[case::writes_alone(true)]
fn a_holder_is_left_alone_by_whom_the_api_server_answers_if_that_takes_no_writes(#[case] hears: bool) {
    let mut peer = Instance::new("v-1", "a-1");
    let plea = Plea {
        holder: "v-1".to_owned(),
        transitions: 0,
        lease_ms: 6000,
        hears,
    };
    let promised = peer.ask(|protocol, situation| protocol.promise(&plea, situation));
    assert_eq!(promised.is_ok(), hears, "{promised:?}");
}

/// The holder counts on what it asks for, and may have heard of other times than whom it asks.
#[rstest]
#[case::shorter(1000, 6)]
#[case::longer(30_000, 30)]
#[case::longer_than_any(600_000, 60)]
fn a_promise_lasts_as_long_as_it_is_asked_for(#[case] lease_ms: u64, #[case] seconds: u64) {
    let mut peer = Instance::new("v-1", "a-1");
    let plea = Plea {
        holder: "v-1".to_owned(),
        transitions: 0,
        lease_ms,
        hears: true,
    };
    let promised = peer.ask(|protocol, situation| protocol.promise(&plea, situation));
    assert_eq!(promised, Ok(()));
    assert_eq!(peer.protocol.promised, secs(100 + seconds));
}

#[test]
fn a_holder_whose_volume_cannot_be_read_gives_the_lease_back_and_takes_it_no_more() {
    let mut holder = Instance::holder();
    holder.data = Data::Unreadable("Input/output error".to_owned());
    holder.work = Some(Work::Stopping);
    assert!(
        matches!(holder.step(), Command::Wait(_)),
        "while PostgreSQL is being killed"
    );
    holder.work = None;
    let command = holder.step();
    assert!(
        matches!(command, Command::Write(Write::Release, _)),
        "{command:?}"
    );
    holder.protocol.released();
    holder.holder = "";
    let command = holder.step();
    assert_eq!(command, Command::Fail("Input/output error".to_owned()));
}

#[rstest]
#[case::as_a_replica("a-1")]
#[case::as_the_last_primary("a-0")]
fn who_finds_the_data_of_another_database_tells_the_commands_that_have_it_copied_anew(
    #[case] primary: &'static str,
) {
    let mut instance = Instance::new(if primary == "a-0" { "" } else { "v-1" }, primary);
    instance.data = Data::Present(Stored {
        system_identifier: "2".to_owned(),
        standby: true,
        ..Stored::default()
    });
    let Command::Fail(why) = instance.step() else {
        panic!("it goes on with the data of another database");
    };
    assert!(
        why.contains("of another database: its system identifier is 2, and this database's is 1;"),
        "{why}"
    );
    // Without `--wait=false` the first one would wait for the second.
    assert!(
        why.ends_with(": kubectl delete --wait=false pvc data-a-0 && kubectl delete pod a-0"),
        "{why}"
    );
}

#[test]
fn whoever_cannot_read_the_volume_and_is_asked_to_stop_gives_the_lease_back_and_ends() {
    let mut holder = Instance::holder();
    holder.data = Data::Unreadable("Input/output error".to_owned());
    holder.work = Some(Work::Other);
    holder.protocol.asked_to_stop(false);
    assert_eq!(holder.step(), Command::Stop(How::Fast), "it does not look on");
    holder.work = None;
    let command = holder.step();
    assert!(
        matches!(command, Command::Write(Write::Release, _)),
        "{command:?}"
    );
    holder.protocol.released();
    holder.holder = "";
    assert_eq!(holder.step(), Command::Exit);
}

#[rstest]
#[case::starting(Server::Starting, None, false)]
#[case::silent(Server::Silent, None, false)]
#[case::in_a_hurry(Server::Silent, None, true)]
#[case::making_the_first_data(Server::Stopped, Some(Work::Initialising), false)]
fn a_holder_that_is_asked_to_stop_waits_for_nothing_that_may_take_minutes(
    #[case] server: Server,
    #[case] work: Option<Work>,
    #[case] hurry: bool,
) {
    let mut holder = Instance::holder();
    (holder.server, holder.work) = (server, work);
    let before = holder.step();
    assert!(matches!(before, Command::Wait(_)), "{before:?}");
    holder.protocol.asked_to_stop(hurry);
    let how = if hurry { How::Immediate } else { How::Fast };
    assert_eq!(holder.step(), Command::Stop(how));
    holder.work = Some(Work::Stopping);
    let after = holder.step();
    assert!(matches!(after, Command::Wait(_)), "{after:?}");
}

#[rstest]
#[case::joining(Work::Joining)]
#[case::rewinding(Work::Rewinding)]
#[case::looking(Work::Other)]
fn a_replica_that_is_asked_to_stop_makes_its_data_no_further(#[case] work: Work) {
    let mut replica = Instance::new("v-1", "a-1");
    replica.work = Some(work);
    replica.protocol.asked_to_stop(false);
    assert_eq!(replica.step(), Command::Stop(How::Fast));
    replica.work = None;
    assert_eq!(replica.step(), Command::Exit);
}

#[test]
fn what_is_copied_from_whoever_is_not_the_primary_any_more_is_cut_off() {
    let mut replica = Instance::new("v-1", "a-1");
    assert_eq!(replica.step(), Command::Join("a-1".to_owned()));
    replica.work = Some(Work::Joining);
    assert!(matches!(replica.step(), Command::Wait(_)), "as long as it is");
    (replica.holder, replica.primary) = ("w-1", "a-2");
    assert_eq!(replica.step(), Command::Stop(How::Fast));
    replica.work = Some(Work::Stopping);
    assert!(matches!(replica.step(), Command::Wait(_)));
    (replica.work, replica.data) = (None, Data::Broken("unfinished".to_owned()));
    assert_eq!(replica.step(), Command::Join("a-2".to_owned()));
}

/// What has given way before it does not hold back: it is running and streaming when asked.
#[test]
fn a_replica_that_streams_and_is_asked_to_stop_stops_in_order() {
    let mut replica = Instance::new("v-1", "a-1");
    replica.server = Server::Running(Running {
        upstream: Some("a-1".to_owned()),
        streaming: true,
        ..Running::default()
    });
    replica.protocol.asked_to_stop(false);
    assert_eq!(replica.step(), Command::Stop(How::Fast));
}

/// Whoever took the Lease may have led, or may have died before it did: only a person knows that it does not come back.
#[test]
fn a_former_primary_whose_successor_is_gone_says_what_helps() {
    let mut former = Instance::new("", "a-1");
    former.settings.database = "a".to_owned();
    former.protocol.free = Some(secs(40));
    former.data = Data::Present(Stored {
        system_identifier: "1".to_owned(),
        ..Stored::default()
    });
    let Command::Wait(what) = former.step() else {
        panic!("it leads");
    };
    assert!(
        what.starts_with("a-1, which") && what.contains("kubectl delete lease a"),
        "{what}"
    );
}

/// What may still write, or start PostgreSQL again, is not gone.
#[rstest]
#[case::stopped_and_leaves(Server::Stopped, None, true, true)]
#[case::stopped_and_stays(Server::Stopped, None, false, false)]
#[case::runs(Server::Running(Running::default()), None, true, false)]
#[case::starts(Server::Starting, None, true, false)]
#[case::still_being_stopped(Server::Stopped, Some(Work::Stopping), true, false)]
fn only_one_that_has_ended_for_good_says_that_it_is_gone(
    #[case] server: Server,
    #[case] work: Option<Work>,
    #[case] leaves: bool,
    #[case] expected: bool,
) {
    let mut instance = Instance::holder();
    (instance.server, instance.work) = (server, work);
    if leaves {
        instance.protocol.asked_to_stop(false);
    }
    let gone = instance.ask(|protocol, situation| protocol.is_gone(situation));
    assert_eq!(gone, expected);
}

/// It was asked to stop while its claim was under way.
#[test]
fn one_that_is_to_end_and_gets_the_lease_gives_it_back_and_starts_nothing() {
    let mut instance = Instance::new("u-1", "a-0");
    instance.data = Data::Present(Stored {
        system_identifier: "1".to_owned(),
        timeline: 1,
        ..Stored::default()
    });
    instance.protocol.asked_to_stop(false);
    instance.protocol.renewed(secs(100));
    let command = instance.step();
    assert!(
        matches!(command, Command::Write(Write::Release, _)),
        "{command:?}"
    );
}
