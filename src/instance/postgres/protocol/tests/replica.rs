//! A replica alone: what it does from one step to the next.

use std::collections::BTreeMap;
use std::time::Duration;

use rstest::rstest;

use super::super::{Command, Data, How, Peer, Protocol, Running, Seen, Server, Situation, Stored, Work};
use super::{secs, situation};
use crate::api::database::agent::{Lsn, Member, Quorum, Record, Report, Role, Settings, Synchronous};

/// The replica a-1 of the primary a-0, which is there or has given the Lease back.
pub(super) struct Replica {
    pub(super) protocol: Protocol,
    pub(super) settings: Settings,
    pub(super) record: Record,
    pub(super) running: Running,
    pub(super) peers: BTreeMap<String, Peer>,
    pub(super) holder: String,
    pub(super) free_since: Duration,
    /// Since when a holder that is there has renewed nothing, if it does not any more.
    pub(super) silent_since: Option<Duration>,
    /// The kubelet says that the holder's container has ended.
    pub(super) ended: bool,
    pub(super) stored: Stored,
    pub(super) starting: bool,
    pub(super) stopped: bool,
    pub(super) work: Option<Work>,
    /// When the API server answered last, if that is not now.
    pub(super) api: Option<Duration>,
    pub(super) now: Duration,
}

impl Replica {
    pub(super) fn new() -> Self {
        let names = ["a-0", "a-1", "a-2"].map(str::to_owned);
        let settings = Settings {
            database: "a".into(),
            members: names
                .clone()
                .map(|name| Member {
                    name,
                    ..Member::default()
                })
                .into(),
            synchronous: Synchronous::Required,
            maximum_lag: 50,
            ..Settings::default()
        };
        let record = Record {
            primary: "a-0".into(),
            system_identifier: Some("1".into()),
            timeline: 1,
            members: names.into(),
            quorums: vec![Quorum {
                standbys: ["a-1", "a-2"].map(str::to_owned).into(),
                need: 1,
            }],
            ..Record::default()
        };
        let running = Running {
            system_identifier: "1".into(),
            timeline: 1,
            received: Lsn(100),
            replayed: Lsn(100),
            upstream: Some("a-0".into()),
            ..Running::default()
        };
        Self {
            protocol: Protocol::new(&settings),
            settings,
            record,
            running,
            peers: BTreeMap::new(),
            holder: "p-1".into(),
            free_since: secs(100),
            silent_since: None,
            ended: false,
            stored: Stored {
                system_identifier: "1".into(),
                timeline: 1,
                standby: true,
                ..Stored::default()
            },
            starting: false,
            stopped: false,
            work: None,
            api: None,
            now: secs(100),
        }
    }

    /// The Lease of a holder that may be there has run out.
    pub(super) fn falls_silent(&mut self) {
        self.now += secs(10);
        self.silent_since = Some(self.now - secs(7));
    }

    /// What another one says now.
    pub(super) fn hears(&mut self, name: &str, role: Role, received: u64) {
        let report = Report {
            name: name.to_owned(),
            role,
            system_identifier: Some("1".into()),
            timeline: Some(1),
            checkpoint: Some(1),
            received: Some(Lsn(received)),
            api_ms: Some(100),
            ..Report::default()
        };
        let peer = Peer {
            report,
            asked: self.now,
        };
        self.peers.insert(name.to_owned(), peer);
    }

    pub(super) fn step(&mut self) -> Command {
        let server = match (self.stopped, self.starting) {
            (true, _) => Server::Stopped,
            (_, true) => Server::Starting,
            _ => Server::Running(self.running.clone()),
        };
        let held = !self.holder.is_empty();
        let seen = Seen {
            holder: self.holder.clone(),
            record: Some(self.record.clone()),
            since: match self.silent_since {
                Some(since) => since,
                None if held => self.now,
                None => self.free_since,
            },
            ended: self.ended,
            ..Seen::default()
        };
        let data = Data::Present(self.stored.clone());
        self.protocol.step(&Situation {
            me: "a-1",
            identity: "u-2",
            work: self.work,
            api: self.api.or(Some(self.now)),
            ..situation(self.now, &self.settings, &seen, (&data, &server), &self.peers)
        })
    }

    /// The primary is there, and this one replays so much in each second.
    pub(super) fn seconds(&mut self, seconds: u64, replays: u64) -> Command {
        let mut command = self.step();
        for _ in 0..seconds {
            self.now += secs(1);
            self.hears("a-0", Role::Primary, 1000);
            self.running.replayed.0 += replays;
            command = self.step();
        }
        command
    }
}

#[test]
fn a_replica_that_still_replays_is_left_alone_and_one_that_does_nothing_is_rewound() {
    let mut replica = Replica::new();
    let command = replica.seconds(120, 1);
    assert!(matches!(command, Command::Wait(_)), "{command:?}");
    assert_eq!(replica.seconds(11, 0), Command::Reach("a-0".to_owned()));
    replica.protocol.reached(true);
    assert_eq!(replica.step(), Command::Stop(How::Fast));
    replica.stopped = true;
    assert_eq!(replica.step(), Command::Rewind("a-0".to_owned()));
}

/// Its manager can be asked, and its PostgreSQL not be connected to.
#[test]
fn a_replica_that_cannot_reach_its_primary_stays_one_that_can_be_elected() {
    let mut replica = Replica::new();
    replica.hears("a-0", Role::Primary, 1000);
    for _ in 0..3 {
        assert_eq!(replica.seconds(11, 0), Command::Reach("a-0".to_owned()));
        replica.protocol.reached(false);
        let command = replica.step();
        assert!(matches!(command, Command::Wait(_)), "{command:?}");
    }
    // It takes connections, and yet none of this replica's.
    assert_eq!(replica.seconds(11, 0), Command::Reach("a-0".to_owned()));
    replica.protocol.reached(true);
    assert_eq!(replica.step(), Command::Stop(How::Fast));
    replica.protocol.unmended();
    replica.stopped = true;
    assert_eq!(replica.step(), Command::Follow(Some("a-0".to_owned())));
    replica.stopped = false;
    let command = replica.seconds(20, 0);
    assert!(
        matches!(command, Command::Wait(_)),
        "not so soon again: {command:?}"
    );
}

#[test]
fn a_replica_that_receives_again_while_its_primary_is_tried_is_left_alone() {
    let mut replica = Replica::new();
    replica.hears("a-0", Role::Primary, 1000);
    assert_eq!(replica.seconds(11, 0), Command::Reach("a-0".to_owned()));
    replica.protocol.reached(true);
    replica.running.streaming = true;
    assert_eq!(replica.step(), Command::Idle);
    replica.running.streaming = false;
    let command = replica.seconds(2, 0);
    assert!(matches!(command, Command::Wait(_)), "{command:?}");
}

#[rstest]
#[case::has_all(100, true)]
#[case::lacks_some(101, false)]
fn whoever_was_named_takes_over_if_it_has_all_that_there_is(#[case] end: u64, #[case] takes: bool) {
    let mut replica = Replica::new();
    replica.holder.clear();
    replica.record.handover = Some("a-1".into());
    replica.record.flushed = Lsn(end);
    replica.step();
    replica.now += secs(1);
    replica.hears("a-2", Role::Replica, 100);
    let command = replica.step();
    assert_eq!(matches!(command, Command::Write(..)), takes, "{command:?}");
    if !takes {
        let Command::Wait(why) = command else {
            panic!("{command:?}")
        };
        assert!(why.contains("a-0, which has 1 bytes more"), "{why}");
    }
}

/// Where commits wait for nobody, and this one is not too far behind.
#[rstest]
#[case::nothing_after_a_stop_in_order(100, true, None)]
#[case::some(140, false, Some((Lsn(100), Lsn(140))))]
#[case::whatever_came_after_the_last_renewal(90, false, Some((Lsn(100), Lsn(100))))]
fn what_may_be_lost_is_in_the_lease(
    #[case] flushed: u64,
    #[case] in_order: bool,
    #[case] missing: Option<(Lsn, Lsn)>,
) {
    let mut replica = Replica::new();
    replica.holder.clear();
    replica.record.stopped = in_order.then_some(jiff::Timestamp::UNIX_EPOCH);
    (replica.record.asynchronous, replica.record.flushed) = (true, Lsn(flushed));
    replica.record.quorums.clear();
    replica.step();
    replica.now += secs(1);
    let Command::Write(_, record) = replica.step() else {
        panic!("it does not take the Lease")
    };
    assert_eq!(record.missing, missing);
    let timelines = missing.map_or((0, 0), |_| (replica.record.timeline, record.timeline));
    assert_eq!((record.missing_on, record.missing_since), timelines);
}

/// Its data may go on where that of the new primary does not, and it would undo what was acknowledged since.
#[rstest]
#[case::away(false, &["a-1"])]
#[case::here(true, &["a-1", "a-2"])]
fn whoever_is_away_for_an_election_leads_nobody_before_it_has_streamed(
    #[case] here: bool,
    #[case] expected: &[&str],
) {
    let mut replica = Replica::new();
    replica.holder.clear();
    replica.record.asynchronous = true;
    replica.record.quorums.clear();
    replica.step();
    replica.now += secs(1);
    if here {
        replica.hears("a-2", Role::Replica, 100);
    }
    let Command::Write(_, record) = replica.step() else {
        panic!("it does not take the Lease")
    };
    assert_eq!(
        record.members,
        expected.iter().map(|&name| name.to_owned()).collect()
    );
    replica.record.members = ["a-0".to_owned()].into();
    let Command::Wait(why) = replica.step() else {
        panic!("it takes the Lease")
    };
    assert!(why.contains("a-0, or another that has streamed from it"), "{why}");
}

/// An operator that was away for two failovers tells it still.
#[test]
fn what_was_lost_stays_in_the_lease_when_a_later_holder_loses_nothing() {
    let mut replica = Replica::new();
    replica.holder.clear();
    replica.record.quorums.clear();
    (replica.record.missing, replica.record.missing_since) = (Some((Lsn(1), Lsn(2))), 1);
    replica.step();
    replica.now += secs(1);
    let Command::Write(_, record) = replica.step() else {
        panic!("it does not take the Lease")
    };
    assert_eq!(
        (record.missing, record.missing_since),
        (Some((Lsn(1), Lsn(2))), 1)
    );
}

#[test]
fn who_lacks_a_quorum_says_what_helps_if_it_is_lost_once_it_has_been_away_for_long() {
    let mut replica = Replica::new();
    replica.holder.clear();
    replica.step();
    for (after, tells) in [(1, false), (60, true)] {
        replica.now += secs(after);
        let Command::Wait(why) = replica.step() else {
            panic!("it takes the Lease")
        };
        assert!(why.starts_with("a-2: "), "{why}");
        assert_eq!(why.contains("kubectl delete lease a "), tells, "{why}");
    }
}

/// It holds the Lease, and PostgreSQL recovers.
#[rstest]
#[case::nobody_answers(&[], false)]
#[case::one_of_two_that_have_to_be_asked(&[("a-2", 100)], false)]
#[case::both(&[("a-0", 100), ("a-2", 100)], true)]
fn recovery_is_given_up_only_where_others_can_take_over(
    #[case] others: &[(&str, u64)],
    #[case] given_up: bool,
) {
    let mut holder = Replica::new();
    holder.record.primary = "a-1".into();
    holder.record.quorums[0].standbys = ["a-0", "a-2"].map(str::to_owned).into();
    holder.holder = "u-2".into();
    (holder.starting, holder.stored.standby) = (true, false);
    let mut command = Command::Exit;
    for _ in 0..40 {
        holder.now += Duration::from_millis(500);
        for (name, received) in others {
            holder.hears(name, Role::Replica, *received);
        }
        holder.protocol.renewed(holder.now);
        command = holder.step();
        if matches!(command, Command::Stop(_)) {
            break;
        }
    }
    assert_eq!(command == Command::Stop(How::Immediate), given_up, "{command:?}");
}

#[test]
fn a_promotion_that_still_replays_is_not_given_up() {
    let mut holder = Replica::new();
    holder.record.primary = "a-1".into();
    holder.holder = "u-2".into();
    holder.work = Some(Work::Promoting);
    let mut wait = |replays: u64| {
        let mut command = Command::Exit;
        for _ in 0..62 {
            holder.now += Duration::from_millis(500);
            holder.running.replayed.0 += replays;
            holder.protocol.renewed(holder.now);
            command = holder.step();
        }
        command
    };
    assert!(!matches!(wait(1), Command::Stop(_)));
    assert_eq!(wait(0), Command::Stop(How::Immediate));
}

/// Between that moment and the end of the last primary it may have received, alone, what was acknowledged last.
#[test]
fn what_another_one_said_counts_only_if_it_was_so_since_the_lease_is_free() {
    let mut replica = Replica::new();
    replica.holder.clear();
    replica.step();
    let takes = |replica: &mut Replica, looked_ms: u64| {
        replica.hears("a-2", Role::Replica, 100);
        let peer = replica.peers.get_mut("a-2").unwrap();
        peer.report.looked_ms = Some(looked_ms);
        matches!(replica.step(), Command::Write(..))
    };
    replica.now += Duration::from_millis(300);
    assert!(!takes(&mut replica, 301));
    assert!(takes(&mut replica, 300));
}

/// Until then it says how much it has applied, and may have all that was acknowledged nevertheless.
#[rstest]
#[case::as_long_as_it_applies(1)]
#[case::while_something_holds_it_up(0)]
fn a_replica_competes_only_once_it_has_applied_what_it_had(#[case] applies: u64) {
    let mut replica = Replica::new();
    replica.holder.clear();
    replica.running.replaying = true;
    for _ in 0..20 {
        replica.now += secs(1);
        replica.running.replayed.0 += applies;
        replica.hears("a-2", Role::Replica, 50);
        let command = replica.step();
        let Command::Wait(why) = command else {
            panic!("{command:?}")
        };
        assert_eq!(why, "PostgreSQL to apply what it has");
    }
    replica.running.replaying = false;
    replica.hears("a-2", Role::Replica, 50);
    assert!(matches!(replica.step(), Command::Write(..)));
}

/// Whatever it is that keeps failing here, such as settings that PostgreSQL does not take: somebody else may do better.
#[test]
fn promotions_that_fail_one_after_the_other_are_given_up_like_one_that_lasts() {
    let mut holder = Replica::new();
    holder.record.primary = "a-1".into();
    holder.holder = "u-2".into();
    let mut attempts = 0;
    let given_up = (0..80).find(|turn| {
        holder.now += Duration::from_millis(500);
        holder.protocol.renewed(holder.now);
        holder.work = (turn % 7 != 0).then_some(Work::Promoting);
        match holder.step() {
            Command::Stop(how) => how == How::Immediate,
            Command::Promote(..) => {
                attempts += 1;
                false
            }
            _ => false,
        }
    });
    assert!(attempts > 1);
    assert!(given_up.is_some_and(|turn| turn <= 62), "{given_up:?}");
}

/// A process that has just begun may have promised that before, to a holder that needs it no more.
#[rstest]
#[case::it_has_ended(true)]
#[case::nobody_knows(false)]
fn a_promise_holds_for_a_holder_that_may_be_there(#[case] ended: bool) {
    let mut replica = Replica::new();
    let settings = replica.settings.clone();
    replica.now = Duration::ZERO;
    replica.protocol = Protocol::new(&settings);
    replica.ended = ended;
    replica.step();
    replica.now += secs(1);
    replica.hears("a-2", Role::Replica, 50);
    assert_eq!(matches!(replica.step(), Command::Write(..)), ended);
}

/// It was copied, say, and the primary has removed meanwhile what was written while the copy was made. It says so before it ever answers.
#[rstest]
#[case::of_the_primary_that_it_follows("a-0", true)]
#[case::of_one_before("a-2", false)]
fn a_replica_that_can_never_answer_for_want_of_log_is_copied_anew(#[case] of: &str, #[case] copied: bool) {
    let mut replica = Replica::new();
    replica.starting = true;
    let command = replica.seconds(2, 0);
    assert!(matches!(command, Command::Wait(_)), "{command:?}");
    replica.protocol.starves(of);
    assert_eq!(replica.step() == Command::Stop(How::Immediate), copied);
    replica.stopped = true;
    let next = match copied {
        true => Command::Join("a-0".to_owned()),
        false => Command::Follow(Some("a-0".to_owned())),
    };
    assert_eq!(replica.step(), next);
}

#[test]
fn a_replica_that_recovers_has_all_the_time_that_it_needs_and_one_that_does_nothing_is_started_again() {
    let mut replica = Replica::new();
    replica.starting = true;
    // Where the kernel does not tell, nobody knows.
    let command = replica.seconds(3600, 0);
    assert_eq!(command, Command::Wait("PostgreSQL to answer".to_owned()));
    for _ in 0..100 {
        replica.protocol.works(replica.now);
        let command = replica.seconds(590, 0);
        let Command::Wait(why) = command else {
            panic!("{command:?}")
        };
        assert!(why.contains("is started again if that lasts"), "{why}");
    }
    replica.now += secs(11);
    assert_eq!(replica.step(), Command::Stop(How::Immediate));
    replica.stopped = true;
    assert_eq!(replica.step(), Command::Follow(Some("a-0".to_owned())));
    // The next start has as much.
    replica.stopped = false;
    let command = replica.seconds(590, 0);
    assert!(matches!(command, Command::Wait(_)), "{command:?}");
}
