//! Who takes a Lease that nobody has held yet, or that somebody deleted: the first data is made, or whoever has the most of what is there goes on.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use super::candidate::Reach;
use super::follower::{anew, foreign};
use super::holder::{STARTS, first_quorum};
use super::{Command, Data, Protocol, Seen, Server, Situation, Stored, is_fresh};
use crate::api::database::agent::{Contents, Lsn, Record, Report, Role};

/// For so long instances that do not answer are waited for before the very first data is made.
const GATHERING: Duration = Duration::from_secs(30);

/// How far an instance's data goes where nobody says who the last primary was: whoever was one goes before those who followed on the same timeline.
type Claim<'a> = (u32, bool, Lsn, Reverse<&'a str>);

impl Protocol {
    /// Nobody ever held it. The first data is made by the first instance, if nobody has any; if somebody has, its volume outlived an earlier Database of this name.
    pub(super) fn begin(&mut self, seen: &Seen, situation: &Situation<'_>) -> Command {
        let answers: BTreeMap<&str, &Report> = situation
            .peers
            .iter()
            .filter(|(_, peer)| is_fresh(peer, situation.now))
            .map(|(name, peer)| (name.as_str(), &peer.report))
            .collect();
        if let Some((name, _)) = answers.iter().find(|(_, report)| report.role == Role::Primary) {
            return Command::Wait(format!("the primary {name} to take the Lease"));
        }
        // Where there is known to be data, whoever has it may be among those that do not answer; and what is on a volume of before the Database only it can say.
        let settings = situation.settings;
        let gathers = situation.now.saturating_sub(seen.since) < GATHERING;
        let counts =
            |name: &str| gathers || settings.system_identifier.is_some() || settings.retained.contains(name);
        let says = |name: &str| {
            let report = answers.get(name);
            report.is_some_and(|report| report.contents != Contents::Unknown || report.timeline.is_some())
        };
        let others = settings.others(situation.me);
        let silent: Vec<&str> = others.filter(|name| counts(name) && !says(name)).collect();
        if !silent.is_empty() {
            return Command::Wait(format!("{} to say whether there is data", silent.join(", ")));
        }
        // What is another database's counts for nothing.
        let is_ours = |report: &Report| {
            let ours = settings.system_identifier.as_ref();
            ours.is_none() || report.system_identifier.as_ref() == ours
        };
        let ours: BTreeMap<&str, &Report> = answers
            .iter()
            .filter(|(_, report)| is_ours(report))
            .map(|(name, report)| (*name, *report))
            .collect();
        // A replica may have more than it says before it has applied all that it has. Whose PostgreSQL does not come that far is of less use than a primary's data.
        // A replica that does not run is started first, or each of two would wait for the other.
        let starts = matches!((situation.server, situation.data), (Server::Stopped, Data::Present(stored)) if stored.standby);
        let trusts_itself = !gathers && self.bereft.is_none() && matches!(situation.server, Server::Stopped);
        let mut unsure = ours.iter().filter(|(name, report)| {
            let is_one = report.timeline.is_some() && !report.led && report.received.is_none();
            is_one && counts(name) && !(trusts_itself && report.failing)
        });
        if let Some((name, _)) = unsure.next().filter(|_| !starts) {
            return Command::Wait(says_how_far(name));
        }
        match situation.data {
            Data::Unreadable(why) => Command::Fail(why.clone()),
            Data::Present(stored) => self.begin_with(stored, &ours, situation),
            Data::Empty | Data::Broken(_) => {
                if let Some((.., Reverse(name))) = claims(&ours).max() {
                    return Command::Wait(format!("{name}, which has data, to take the Lease"));
                }
                self.begin_anew(&answers, situation)
            }
        }
    }

    fn begin_anew(&mut self, answers: &BTreeMap<&str, &Report>, situation: &Situation<'_>) -> Command {
        if let Some(known) = &situation.settings.system_identifier {
            return Command::Fail(format!(
                "this database has data, with the system identifier {known}, and no volume that answers holds it; put the volumes back, or delete the Database and make it anew"
            ));
        }
        // It was somebody's data. That nothing can be made of it is no reason to put other data in its place.
        if let Data::Broken(why) = situation.data
            && situation.settings.retained.contains(situation.me)
        {
            return Command::Fail(format!(
                "the volume was there before this Database, and what is on it is of no use ({why}), nor has any other instance data; put data back, or, if it may go: {}",
                anew(situation.me)
            ));
        }
        let retained = &situation.settings.retained;
        let mut broken = answers
            .iter()
            .filter(|(name, report)| retained.contains(**name) && report.contents == Contents::Broken);
        if let Some((name, _)) = broken.next() {
            return Command::Wait(format!(
                "somebody to decide about the volume of {name}: it was there before this Database, and what is on it is of no use"
            ));
        }
        let first = situation
            .settings
            .members
            .first()
            .map(|member| member.name.as_str());
        if first != Some(situation.me) {
            return Command::Wait(format!("{} to make the first data", first.unwrap_or_default()));
        }
        self.claim(situation, first_record(1, None, &[], situation))
    }

    /// There is data of an earlier Database, or of one whose Lease was deleted. Whoever was its primary goes on; and where that cannot be seen, whoever has
    /// the most of the latest timeline.
    fn begin_with(
        &mut self,
        stored: &Stored,
        others: &BTreeMap<&str, &Report>,
        situation: &Situation<'_>,
    ) -> Command {
        if let Some(known) = &situation.settings.system_identifier
            && *known != stored.system_identifier
        {
            let record = Record {
                system_identifier: Some(known.clone()),
                ..Record::default()
            };
            return Command::Fail(foreign(stored, &record, situation.me));
        }
        let theirs: Vec<Claim<'_>> = claims(others).collect();
        // What is on the volume was looked at before PostgreSQL was started, and tells of a replica only how far it goes at least.
        let (timeline, led, end) = match situation.server {
            Server::Running(running) if !running.replaying => {
                let reach = (running.timeline, running.received);
                if let Some(name) = undecided(others, reach).filter(|_| !running.primary) {
                    return Command::Wait(says_how_far(name));
                }
                (running.timeline, running.primary, running.received)
            }
            Server::Stopped if stored.standby => return Command::Follow(None),
            Server::Stopped => {
                if let Some((timeline, end)) = self.doubted_by(&theirs, stored) {
                    if self.failed < STARTS {
                        return self.prove(timeline, end);
                    }
                    // Nobody can tell. The replica is known to have that.
                    self.failed = 0;
                    self.proved(timeline, end, false);
                }
                (stored.timeline, self.bereft.is_none(), stored.end)
            }
            _ => return Command::Wait("PostgreSQL to say how far it is".to_owned()),
        };
        let mine = (timeline, led, end, Reverse(situation.me));
        if let Some((.., Reverse(name))) = theirs.iter().max().filter(|theirs| **theirs > mine) {
            return Command::Wait(format!("{name}, whose data goes further, to take the Lease"));
        }
        // Nobody has more.
        self.bereft = None;
        let present: Vec<&str> = theirs.iter().map(|(.., Reverse(name))| *name).collect();
        let identifier = Some(stored.system_identifier.clone());
        let record = first_record(timeline + u32::from(!led), identifier, &present, situation);
        self.claim(situation, record)
    }

    /// How far a replica is on the timeline of this data of a stopped primary, if that is further than is known of it.
    fn doubted_by(&self, theirs: &[Claim<'_>], stored: &Stored) -> Option<(u32, Lsn)> {
        let replicas = theirs
            .iter()
            .filter(|(timeline, led, ..)| *timeline == stored.timeline && !led);
        let furthest = replicas.map(|(timeline, _, end, _)| (*timeline, *end)).max()?;
        let known = self.proved.max(Some((stored.timeline, stored.end)));
        // It may have that, though it lacks more.
        let is_open = self.bereft.is_none_or(|lacks| furthest < lacks);
        (known < Some(furthest) && is_open).then_some(furthest)
    }
}

/// What the Lease says once the first primary has it. `present` are the replicas that are there.
fn first_record(
    timeline: u32,
    system_identifier: Option<String>,
    present: &[&str],
    situation: &Situation<'_>,
) -> Record {
    let quorum = first_quorum(present, situation);
    Record {
        primary: situation.me.to_owned(),
        system_identifier,
        timeline,
        members: [situation.me.to_owned()].into(),
        asynchronous: quorum.is_none(),
        quorums: quorum.into_iter().collect(),
        ..Record::default()
    }
}

/// What those who answer go by.
fn claims<'a>(others: &BTreeMap<&'a str, &Report>) -> impl Iterator<Item = Claim<'a>> {
    others.iter().filter_map(|(name, report)| {
        let end = report.end.or(report.received).unwrap_or_default();
        let led = report.led && report.lacks.is_none();
        Some((report.timeline?, led, end, Reverse(*name)))
    })
}

/// Who was primary, lacks something that this replica lacks as well, and may have more than this replica all the same: it finds out how its log compares to what is here.
fn undecided<'a>(others: &BTreeMap<&'a str, &Report>, reach: Reach) -> Option<&'a str> {
    let mut undecided = others
        .iter()
        .filter(|(_, report)| report.received.is_none() && report.lacks.is_some_and(|lacks| reach < lacks));
    undecided.next().map(|(name, _)| *name)
}

/// For people: what is waited for, and what helps if that is for ever.
fn says_how_far(name: &str) -> String {
    format!(
        "{name} to say how far it is; if it cannot, and what it has may go: {}",
        anew(name)
    )
}
