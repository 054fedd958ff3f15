//! A primary alone: what it does from one step to the next.

use std::collections::BTreeMap;

use rstest::rstest;

use super::super::{
    Command, Data, How, Peer, Protocol, Running, Seen, Server, Situation, Stored, Work, Write,
};
use super::*;
use crate::api::database::agent::{Lsn, Member, Quorum, Record, Settings, Standby, State};

fn of(names: &[&str]) -> Quorum {
    let standbys = names.iter().map(|&name| name.to_owned()).collect();
    Quorum { standbys, need: 1 }
}

/// The primary a-0, whose commits wait for these, with these streaming.
struct Primary {
    protocol: Protocol,
    settings: Settings,
    record: Record,
    running: Running,
    now: Duration,
    peers: BTreeMap<String, Peer>,
    stopped: bool,
    silent: bool,
    canary: Option<Duration>,
    work: Option<Work>,
}

impl Primary {
    /// PostgreSQL ends, and is there again.
    fn restart(&mut self) -> Command {
        self.stopped = true;
        self.step(&[], true);
        (self.stopped, self.canary) = (false, None);
        self.step(&["a-1"], true)
    }

    fn new(waits: &[&str]) -> Self {
        let members = ["a-0", "a-1", "a-2"].map(str::to_owned);
        let settings = Settings {
            members: members
                .clone()
                .map(|name| Member {
                    name,
                    ..Member::default()
                })
                .into(),
            synchronous: Synchronous::Required,
            ..Settings::default()
        };
        let mut protocol = Protocol::new(&settings);
        protocol.renewed(secs(100));
        let record = Record {
            primary: "a-0".into(),
            system_identifier: Some("1".into()),
            timeline: 1,
            members: members.into(),
            quorums: vec![of(waits)],
            flushed: Lsn(1),
            ..Record::default()
        };
        let running = Running {
            primary: true,
            system_identifier: "1".into(),
            timeline: 1,
            received: Lsn(1),
            quorum: Some(of(waits)),
            ..Running::default()
        };
        Self {
            protocol,
            settings,
            record,
            running,
            now: secs(100),
            peers: BTreeMap::new(),
            stopped: false,
            silent: false,
            canary: None,
            work: None,
        }
    }

    /// What a replica says now.
    fn hears(&mut self, name: &str, timeline: u32, received: u64) {
        let peer = self.peers.entry(name.to_owned()).or_default();
        peer.asked = self.now;
        (peer.report.timeline, peer.report.received) = (Some(timeline), Some(Lsn(received)));
    }

    /// What it does now, with these streaming.
    fn step(&mut self, streaming: &[&str], writing: bool) -> Command {
        let mut protocol = std::mem::take(&mut self.protocol);
        protocol.renewed(self.now);
        let command = self.step_of(&mut protocol, streaming, writing);
        self.protocol = protocol;
        command
    }

    fn step_of(&mut self, protocol: &mut Protocol, streaming: &[&str], writing: bool) -> Command {
        self.ask(protocol, streaming, writing, Protocol::step)
    }

    /// What it says when somebody asks it to hand over, with these streaming.
    fn hand_over(&mut self, to: &str, streaming: &[&str]) -> Result<(), String> {
        for name in streaming {
            let peer = self.peers.entry((*name).to_owned()).or_default();
            (peer.asked, peer.report.state) = (self.now, State::Streaming);
        }
        let mut protocol = std::mem::take(&mut self.protocol);
        let answer = self.ask(&mut protocol, streaming, false, |protocol, situation| {
            protocol.asked_to_hand_over(Some(to), situation)
        });
        self.protocol = protocol;
        answer
    }

    fn ask<T>(
        &mut self,
        protocol: &mut Protocol,
        streaming: &[&str],
        writing: bool,
        ask: impl FnOnce(&mut Protocol, &Situation<'_>) -> T,
    ) -> T {
        let standby = |name: &&str| Standby {
            name: (*name).to_owned(),
            state: "streaming".into(),
            flushed: Some(Lsn(1)),
            ..Standby::default()
        };
        self.running.standbys = streaming.iter().map(standby).collect();
        let seen = Seen {
            holder: "u-1".into(),
            record: Some(self.record.clone()),
            since: self.now,
            ..Seen::default()
        };
        let stored = Stored {
            system_identifier: "1".into(),
            timeline: 1,
            end: Lsn(100),
            ..Stored::default()
        };
        let server = match self.stopped {
            true => Server::Stopped,
            false if self.silent => Server::Silent,
            false => Server::Running(self.running.clone()),
        };
        let data = Data::Present(stored);
        let situation = Situation {
            canary: self.canary,
            writing,
            work: self.work,
            ..situation(self.now, &self.settings, &seen, (&data, &server), &self.peers)
        };
        ask(protocol, &situation)
    }

    /// The quorums that it has the Lease say a second later, which it does then.
    fn written(&mut self, streaming: &[&str]) -> Vec<Quorum> {
        self.now += secs(1);
        match self.step(streaming, false) {
            Command::Write(Write::Renew, record) => self.record = record,
            other => panic!("{other:?}"),
        }
        self.record.quorums.clone()
    }
}

#[test]
fn a_primary_without_the_lease_is_stopped_at_once() {
    let mut primary = Primary::new(&["a-1"]);
    let settings = primary.settings.clone();
    assert_eq!(
        primary.step_of(&mut Protocol::new(&settings), &["a-1"], false),
        Command::Stop(How::Immediate)
    );
}

#[test]
fn whom_a_renewal_names_that_nobody_answered_has_to_promise_too() {
    let mut primary = Primary::new(&[]);
    primary.settings.synchronous = Synchronous::Preferred;
    primary.record.members = ["a-0".to_owned()].into();
    (primary.record.quorums, primary.running.quorum) = (Vec::new(), None);
    let mut protocol = std::mem::take(&mut primary.protocol);
    primary.now += secs(1);
    let command = primary.step_of(&mut protocol, &["a-1"], false);
    let Command::Write(Write::Renew, record) = command else {
        panic!("{command:?}");
    };
    assert!(record.members.contains("a-1"));
    // The Lease, as it was seen last, names nobody else.
    primary.now += secs(2);
    let command = primary.step_of(&mut protocol, &["a-1"], true);
    let Command::Plead(pleading) = command else {
        panic!("it takes itself for the only one: {command:?}");
    };
    assert_eq!(pleading.others, ["a-1".to_owned()].into());
}

#[test]
fn who_has_stopped_for_good_does_not_wait_for_the_api_server() {
    let mut primary = Primary::new(&[]);
    primary.record.members = ["a-0".to_owned()].into();
    (primary.record.quorums, primary.running.quorum) = (Vec::new(), None);
    let mut protocol = std::mem::take(&mut primary.protocol);
    protocol.asked_to_stop(false);
    primary.stopped = true;
    let mut last = Command::Wait(String::new());
    for _ in 0..6 {
        primary.now += secs(1);
        last = primary.step_of(&mut protocol, &[], true);
    }
    assert_eq!(last, Command::Exit);
}

/// What commits wait for has been the same for long, and its first write is still to come.
#[test]
fn a_primary_that_was_started_again_is_not_taken_for_one_that_hangs() {
    let mut primary = Primary::new(&["a-1"]);
    primary.written(&["a-1"]);
    primary.now += secs(60);
    let started_again = primary.restart();
    assert!(!matches!(started_again, Command::Stop(_)), "{started_again:?}");
    primary.written(&["a-1"]);
    primary.now += secs(10);
    primary.written(&["a-1"]);
    assert_eq!(
        primary.step(&["a-1"], false),
        Command::Stop(How::Immediate),
        "now it hangs"
    );
}

#[test]
fn a_primary_that_is_stopped_in_order_has_the_time_for_it_and_not_for_ever() {
    let mut primary = Primary::new(&["a-1"]);
    primary.canary = Some(primary.now);
    primary.written(&["a-1"]);
    (primary.silent, primary.work) = (true, Some(Work::Stopping));
    assert!(!matches!(primary.step(&[], true), Command::Stop(_)), "not yet");
    primary.now += secs(15);
    assert!(!matches!(primary.step(&[], true), Command::Stop(_)), "nor now");
    primary.now += secs(16);
    assert_eq!(primary.step(&[], true), Command::Stop(How::Immediate));
}

#[rstest]
#[case::another_is_there(Synchronous::Required, &["a-1"], Some(&["a-2"][..]))]
#[case::nobody_else(Synchronous::Required, &["a-1", "a-2"], Some(&["a-1", "a-2"][..]))]
#[case::nobody_has_to_be(Synchronous::Preferred, &["a-1", "a-2"], None)]
fn no_commit_waits_for_whom_is_excused_as_long_as_it_need_not(
    #[case] synchronous: Synchronous,
    #[case] excused: &[&str],
    #[case] waits: Option<&[&str]>,
) {
    let mut primary = Primary::new(&["a-1", "a-2"]);
    primary.settings.synchronous = synchronous;
    primary.settings.excused = excused.iter().map(|&name| name.to_owned()).collect();
    let streaming = ["a-1", "a-2"];
    primary.written(&streaming);
    let wanted = waits.map(of);
    assert!(primary.record.asynchronous == wanted.is_none());
    let command = primary.step(&streaming, false);
    if wanted == primary.running.quorum {
        assert_eq!(command, Command::Idle);
    } else {
        assert_eq!(command, Command::Synchronise(wanted));
    }
}

#[test]
fn no_commit_waits_for_whom_the_settings_name_no_more() {
    let mut primary = Primary::new(&["a-1", "a-2"]);
    primary.settings.members.pop();
    primary.written(&["a-1", "a-2"]);
    assert_eq!(
        primary.step(&["a-1", "a-2"], false),
        Command::Synchronise(Some(of(&["a-1"])))
    );
    primary.running.quorum = Some(of(&["a-1"]));
    primary.written(&["a-1", "a-2"]);
    primary.now += secs(3);
    assert_eq!(primary.written(&["a-1", "a-2"]), [of(&["a-1"])]);
    assert!(!primary.record.members.contains("a-2"));
}

#[test]
fn nobody_is_handed_over_to_who_could_not_take_it() {
    let mut primary = Primary::new(&["a-1"]);
    primary.written(&["a-1", "a-2"]);
    // Under the primary before this one, commits waited for this one or another.
    primary.record.quorums = vec![of(&["a-0", "a-2"]), of(&["a-1", "a-2"])];
    let refused = primary.hand_over("a-1", &["a-1", "a-2"]).unwrap_err();
    assert!(refused.contains("in a moment"), "{refused}");
    primary.record.quorums.remove(0);
    primary.hand_over("a-1", &["a-1", "a-2"]).unwrap_err();
    primary.peers.get_mut("a-1").unwrap().report.api_ms = Some(60_000);
    let refused = primary.hand_over("a-1", &["a-1", "a-2"]).unwrap_err();
    assert!(refused.contains("does not stream"), "{refused}");
    primary.peers.get_mut("a-1").unwrap().report.api_ms = Some(100);
    assert_eq!(primary.hand_over("a-1", &["a-1", "a-2"]), Ok(()));
}

#[test]
fn a_primary_that_is_asked_to_starts_again_in_order_and_keeps_the_lease() {
    let mut primary = Primary::new(&["a-1"]);
    primary.written(&["a-1"]);
    primary.protocol.restarting = true;
    assert_eq!(primary.step(&["a-1"], false), Command::Stop(How::Fast));
    primary.stopped = true;
    primary.hears("a-1", 1, 0);
    primary.hears("a-2", 1, 0);
    assert_eq!(primary.step(&[], false), Command::Lead(Some(of(&["a-1"]))));
    primary.stopped = false;
    assert_eq!(primary.step(&["a-1"], false), Command::Idle);
}

#[rstest]
#[case::of_a_lease_that_says_nothing(0, 0, (1, 90), None)]
#[case::its_checkpoint_is_there(1, 80, (1, 80), None)]
#[case::it_said_that_it_had_more(1, 120, (1, 80), Some((1, 120)))]
#[case::a_replica_has_more(1, 120, (1, 130), Some((1, 130)))]
#[case::it_led_on_a_later_timeline(2, 40, (1, 130), Some((2, 40)))]
#[case::a_replica_is_where_nobody_led(1, 80, (4, 500), None)]
fn a_primary_is_started_again_only_if_its_log_goes_as_far_as_anybody_knows_that_it_did(
    #[case] flushed_on: u32,
    #[case] flushed: u64,
    #[case] (timeline, received): (u32, u64),
    #[case] doubt: Option<(u32, u64)>,
) {
    let mut primary = Primary::new(&["a-1"]);
    (primary.stopped, primary.record.timeline) = (true, 3);
    (primary.record.flushed_on, primary.record.flushed) = (flushed_on, Lsn(flushed));
    let command = primary.step(&[], false);
    assert!(matches!(command, Command::Wait(what) if what.contains("to say how far it is")));
    primary.now += secs(1);
    primary.step(&[], false);
    primary.hears("a-1", timeline, received);
    let lead = Command::Lead(Some(of(&["a-1"])));
    let Some((timeline, end)) = doubt else {
        assert_eq!(primary.step(&[], false), lead);
        return;
    };
    assert_eq!(primary.step(&[], false), Command::Prove(timeline, Lsn(end)));
    let mut bereft = primary.protocol.clone();
    primary.protocol.proved(timeline, Lsn(end), true);
    assert_eq!(primary.step(&[], false), lead);
    bereft.proved(timeline, Lsn(end), false);
    primary.protocol = bereft;
    assert!(matches!(
        primary.step(&[], false),
        Command::Write(Write::Release, _)
    ));
}

/// Those seconds that it takes to find that PostgreSQL answers nothing at all are among those for which it may write nothing.
#[test]
fn a_primary_that_answers_nothing_hangs_as_soon_as_one_that_only_writes_nothing() {
    let mut primary = Primary::new(&["a-1"]);
    primary.canary = Some(primary.now);
    primary.written(&["a-1"]);
    primary.now += secs(5);
    primary.silent = true;
    assert!(!matches!(primary.step(&[], true), Command::Stop(_)), "not yet");
    primary.now += secs(6);
    assert_eq!(primary.step(&[], true), Command::Stop(How::Immediate));
}

/// On a node that has too much to do, say: others would fare no better for that.
#[test]
fn a_primary_that_commits_and_answers_nothing_else_goes_on_for_a_minute() {
    let mut primary = Primary::new(&["a-1"]);
    primary.canary = Some(primary.now);
    primary.written(&["a-1"]);
    primary.silent = true;
    let gives_up = (1..120).find(|_| {
        primary.now += secs(1);
        primary.canary = Some(primary.now);
        primary.step(&[], true) == Command::Stop(How::Immediate)
    });
    assert_eq!(gives_up, Some(62));
}

#[test]
fn the_lease_says_what_commits_wait_for_before_they_do() {
    let mut primary = Primary::new(&["a-1"]);
    primary.written(&["a-1"]);
    let both = of(&["a-1", "a-2"]);
    let command = primary.step(&["a-1", "a-2"], true);
    assert!(
        !matches!(command, Command::Synchronise(_)),
        "while the Lease is being written"
    );
    assert_eq!(primary.written(&["a-1", "a-2"]), [of(&["a-1"]), both.clone()]);
    assert_eq!(
        primary.step(&["a-1", "a-2"], false),
        Command::Synchronise(Some(both))
    );
}

#[test]
fn what_commits_waited_for_stays_in_the_lease_until_postgresql_has_gone_by_another_rule_for_a_while() {
    let mut primary = Primary::new(&["a-1"]);
    primary.written(&["a-1"]);
    primary.written(&["a-1", "a-2"]);
    let both = of(&["a-1", "a-2"]);
    primary.running.quorum = Some(both.clone());
    for _ in 0..2 {
        assert_eq!(primary.written(&["a-1", "a-2"]), [of(&["a-1"]), both.clone()]);
    }
    assert_eq!(primary.written(&["a-1", "a-2"]), [both]);
}

/// Nothing is started before its disk answers, and a loop that waits for it well renews the Lease for ever. A disk that is only slow is given more time
/// when it is tried again.
#[test]
fn a_disk_that_hangs_before_a_start_costs_the_lease() {
    let mut primary = Primary::new(&["a-1"]);
    for patience in [20, 40] {
        primary.stopped = true;
        primary.protocol.leaving = None;
        primary.step(&[], true);
        primary.work = Some(Work::Other);
        let begun = primary.now;
        while primary.now <= begun + secs(patience) {
            let command = primary.step(&[], true);
            assert!(
                matches!(command, Command::Wait(_)),
                "{:?}: {command:?}",
                primary.now - begun
            );
            primary.now += secs(1);
        }
        assert_eq!(primary.step(&[], true), Command::Stop(How::Immediate));
        primary.work = None;
    }
    assert!(matches!(
        primary.step(&[], false),
        Command::Write(Write::Release, _)
    ));
}
