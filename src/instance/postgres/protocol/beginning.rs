//! Who takes a Lease that nobody has held yet, or that somebody deleted: the first data is made, or whoever has the most of what is there goes on.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use super::candidate::Reach;
use super::follower::{anew, foreign};
use super::holder::{first_quorum, only};
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
        // A replica that does not run is started first, or each of two would wait for the other.
        if let (Server::Stopped, Data::Present(stored)) = (situation.server, situation.data)
            && stored.standby
        {
            return self.begin_with(stored, &ours, situation);
        }
        // However much it is, nothing comes of it, as long as there is other data.
        let mut of_use = ours.clone();
        of_use.retain(|_, report| !report.damaged);
        let is_damaged = self.is_damaged();
        if is_damaged && claims(&of_use).next().is_none() {
            of_use.clone_from(&ours);
        }
        // It may have more than it says before it has applied all that it has.
        let mut unsure = of_use.iter().filter(|(name, report)| {
            let has_data = report.contents == Contents::Data && report.timeline.is_some();
            has_data && !report.led && report.received.is_none() && counts(name)
        });
        if let Some((name, report)) = unsure.next() {
            return Command::Wait(says_how_far(name, report));
        }
        match situation.data {
            Data::Unreadable(why) => Command::Fail(why.clone()),
            Data::Present(_) if self.may_be_led(seen, situation) => Command::Wait(
                "the time to run out for which somebody may have held a Lease that was deleted".to_owned(),
            ),
            Data::Present(_)
                if is_damaged
                    && of_use
                        .values()
                        .any(|report| report.timeline.is_some() && !report.damaged) =>
            {
                Command::Wait("others, of whose data PostgreSQL can make more, to take the Lease".to_owned())
            }
            Data::Present(stored) => self.begin_with(stored, &of_use, situation),
            Data::Empty | Data::Broken(_) => match claims(&ours).max() {
                Some(theirs) => Command::Wait(takes_the_lease("has data", theirs, &ours)),
                None => self.begin_anew(&answers, situation),
            },
        }
    }

    /// Whether somebody who held a Lease that was deleted may still be primary: it goes on until it would have had to renew it, or for as long as it was promised.
    fn may_be_led(&self, seen: &Seen, situation: &Situation<'_>) -> bool {
        let claimed = situation.settings.timing.lease().max(self.claimed);
        situation.now < self.promised.max(seen.since + claimed)
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
                if let Some((name, report)) = undecided(others, reach).filter(|_| !running.primary) {
                    return Command::Wait(says_how_far(name, report));
                }
                (running.timeline, running.primary, running.received)
            }
            Server::Stopped if stored.standby => return Command::Follow(None),
            Server::Stopped => {
                let furthest = furthest_of(&theirs, stored.timeline);
                // As long as nobody can tell, the others wait: it may be the only one that has what it has.
                if let Some((timeline, end)) = furthest.filter(|reach| self.is_in_doubt(*reach, stored)) {
                    return Command::Prove(timeline, end);
                }
                let has_it = furthest.is_some_and(|reach| reach <= self.known(stored));
                (stored.timeline, has_it || self.bereft.is_none(), stored.end)
            }
            _ => return Command::Wait("PostgreSQL to say how far it is".to_owned()),
        };
        let mine = (timeline, led, end, Reverse(situation.me));
        if let Some(theirs) = theirs.into_iter().max().filter(|theirs| *theirs > mine) {
            return Command::Wait(takes_the_lease("may have more", theirs, others));
        }
        // Nobody has more.
        self.bereft = None;
        let present: Vec<&str> = claims(others).map(|(.., Reverse(name))| name).collect();
        let identifier = Some(stored.system_identifier.clone());
        let mut record = first_record(timeline + u32::from(!led), identifier, &present, situation);
        // Somebody led on its timeline, and may have written more than anybody here has: it was given up together with the Lease.
        if !led {
            record.missing = Some((end, end));
            (record.missing_on, record.missing_since) = (timeline, record.timeline);
        }
        self.claim(situation, record)
    }

    /// How far the log of this data of a stopped primary is known to go.
    fn known(&self, stored: &Stored) -> Reach {
        let checkpoint = (stored.timeline, stored.end);
        self.proved.map_or(checkpoint, |proved| proved.max(checkpoint))
    }

    /// Whether it is to be found out whether the log of this data goes up to there. It may, though it lacks more.
    fn is_in_doubt(&self, reach: Reach, stored: &Stored) -> bool {
        self.known(stored) < reach && self.bereft.is_none_or(|lacks| reach < lacks)
    }
}

/// How far the furthest replica is on a timeline.
fn furthest_of(theirs: &[Claim<'_>], timeline: u32) -> Option<Reach> {
    let replicas = theirs.iter().filter(|(on, led, ..)| *on == timeline && !led);
    replicas.map(|(on, _, end, _)| (*on, *end)).max()
}

/// What the Lease says once the first primary has it. `present` are the replicas that are there.
fn first_record(
    timeline: u32,
    system_identifier: Option<String>,
    present: &[&str],
    situation: &Situation<'_>,
) -> Record {
    let quorum = first_quorum(present, situation);
    // What it has of before the others need not have yet, and nobody knows by which rule it was acknowledged.
    let of_before = system_identifier.is_some().then(|| only(situation.me));
    Record {
        primary: situation.me.to_owned(),
        system_identifier,
        timeline,
        members: [situation.me.to_owned()].into(),
        asynchronous: quorum.is_none(),
        quorums: of_before.into_iter().chain(quorum).collect(),
        ..Record::default()
    }
}

/// What those who answer go by.
fn claims<'a>(others: &BTreeMap<&'a str, &Report>) -> impl Iterator<Item = Claim<'a>> {
    others.iter().filter_map(|(name, report)| {
        let end = report.end.or(report.received).unwrap_or_default();
        let led = report.led && report.lacks_up_to.is_none();
        Some((report.timeline?, led, end, Reverse(*name)))
    })
}

/// Who was primary on the timeline of a replica, lacks something that this replica lacks as well, and may have more than it all the same: it finds out how its
/// log compares to what is here.
fn undecided<'a>(others: &BTreeMap<&'a str, &'a Report>, reach: Reach) -> Option<(&'a str, &'a Report)> {
    let mut undecided = others.iter().filter(|(_, report)| {
        let is_stopped = report.timeline == Some(reach.0) && report.received.is_none();
        is_stopped && report.lacks_up_to.is_some_and(|lacks| reach < lacks)
    });
    undecided.next().map(|(name, report)| (*name, *report))
}

/// For people: what is waited for, what is known of it, and what helps if that is for ever.
fn says_how_far(name: &str, report: &Report) -> String {
    let says = report
        .message
        .as_ref()
        .map_or_else(String::new, |message| format!(" ({message})"));
    format!(
        "{name} to say how far it is{says}; if it cannot, and what it has may go: {}",
        anew(name)
    )
}

/// The same, where it is known to have the most and not why it does not lead.
fn takes_the_lease(why: &str, (.., Reverse(name)): Claim<'_>, others: &BTreeMap<&str, &Report>) -> String {
    let message = others.get(name).and_then(|report| report.message.as_ref());
    let says = message.map_or_else(String::new, |message| format!(" ({message})"));
    format!(
        "{name}, which {why}, to take the Lease{says}; if it cannot, and what it has may go: {}",
        anew(name)
    )
}
