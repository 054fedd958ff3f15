//! Who takes the Lease when it is free: the instances find out among themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::follower::{foreign, is_ours};
use super::holder::first_quorum;
use super::vacancy::is_predecessor;
use super::{Command, Data, Protocol, Running, Seen, Server, Situation, Write, is_fresh};
use crate::api::database::agent::{Lsn, Record, Role};

/// For so long nobody but the one that was named takes the Lease.
pub(super) const HANDOVER: Duration = Duration::from_secs(10);
/// Somebody who is as far and comes first by name has so long before the next one tries.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);
/// One that has more and does not hear from the API server has received nothing for so long before what it has is all there is.
const AT_REST: Duration = Duration::from_secs(3);

/// What was away usually is back before: until then nobody is told how to give it up.
const GIVES_UP: Duration = Duration::from_secs(60);

/// How far an instance's data goes: by these an instance is better than another.
pub(super) type Reach = (u32, Lsn);

impl Protocol {
    /// Nobody holds the Lease.
    pub(super) fn stand(&mut self, seen: &Seen, situation: &Situation<'_>) -> Command {
        if situation.writing {
            return Command::Wait("the Lease to be written".to_owned());
        }
        if situation.work.is_some() {
            return Command::Wait("what is under way".to_owned());
        }
        match &seen.record {
            Some(record) if !record.primary.is_empty() => {
                let record = self.with_last_words(record, seen);
                self.succeed(seen, &record, situation)
            }
            _ => self.begin(seen, situation),
        }
    }

    pub(super) fn claim(&mut self, situation: &Situation<'_>, record: Record) -> Command {
        self.write(Write::Claim, record, situation)
    }

    /// Somebody held it, and does not any more.
    fn succeed(&mut self, seen: &Seen, record: &Record, situation: &Situation<'_>) -> Command {
        let mine = seen.holder == situation.identity || is_predecessor(&seen.holder, situation.identity);
        let waited = situation.now.saturating_sub(seen.since);
        if let Some(to) = record.handover.as_deref().filter(|to| *to != situation.me)
            && waited < HANDOVER
        {
            return self.idle(record, situation, format!("{to} to take over"));
        }
        let is_silent = !mine && !seen.holder.is_empty() && !self.has_ended(seen);
        // It would be taken from a holder that may have been promised to be left alone. One that gave it back was not, and one that has ended needs it no more.
        if is_silent && situation.now < self.promised {
            return self.idle(
                record,
                situation,
                "a promise to the last holder to run out".to_owned(),
            );
        }
        if record.primary == situation.me {
            return self.go_on(record, situation);
        }
        let named = record.handover.as_deref() == Some(situation.me) && waited < HANDOVER;
        if is_silent {
            return self.take_from_silent(record, situation);
        }
        self.compete(record, named, false, situation)
    }

    /// It was this very instance. Its data has whatever was acknowledged, unless the volume lost it.
    fn go_on(&mut self, record: &Record, situation: &Situation<'_>) -> Command {
        if let Some((timeline, end)) = self.bereft {
            return Command::Wait(format!(
                "another instance to take over: the log of the last primary does not go up to {end} of timeline {timeline}, where it once did, so its volume is an \
                 older one, or lost that; if nobody else has it any more, kubectl delete lease {} has whoever has the most go on",
                situation.settings.database
            ));
        }
        if situation.now < self.shy && record.others(situation.me).next().is_some() {
            return Command::Wait(
                "another instance to take over, since PostgreSQL hung or did not start here".to_owned(),
            );
        }
        match (situation.server, situation.data) {
            (Server::Stopped, Data::Present(stored)) if !is_ours(stored, record) => {
                Command::Fail(foreign(stored, record, situation.me))
            }
            (Server::Stopped, Data::Present(_)) | (Server::Running(_), _) => self.claim(
                situation,
                Record {
                    handover: None,
                    ..record.clone()
                },
            ),
            (Server::Stopped, Data::Unreadable(why)) => Command::Fail(why.clone()),
            (Server::Stopped, _) if is_new(record, situation) => self.claim(situation, record.clone()),
            (Server::Stopped, _) => Command::Wait(
                "another instance to take over: the data of the last primary is gone".to_owned(),
            ),
            _ => Command::Wait("PostgreSQL to answer".to_owned()),
        }
    }

    /// The holder fell silent, and nobody knows that it has ended: its PostgreSQL may send on, and tell clients that what it sends is safe. So nobody counts
    /// who still receives from it, and it is left only once the API server has said since then that the Lease is free.
    fn take_from_silent(&mut self, record: &Record, situation: &Situation<'_>) -> Command {
        if let Server::Running(running) = situation.server
            && !running.primary
            && record.may_lead(situation.me)
        {
            let is_confirmed = self.free.is_some_and(|free| situation.api >= Some(free));
            let follows = running.upstream.as_ref() == Some(&record.primary);
            if follows && is_confirmed {
                return Command::Follow(None);
            }
            if follows || running.receiving && running.upstream.is_none() {
                return Command::Wait(format!(
                    "what {}, which fell silent, still sends to end",
                    record.primary
                ));
            }
        }
        self.compete(record, false, true, situation)
    }

    /// Whoever has the most takes it, once it is certain that this is everything.
    fn compete(&mut self, record: &Record, named: bool, silent: bool, situation: &Situation<'_>) -> Command {
        let running = match situation.server {
            Server::Running(running) if !running.primary => running,
            _ => return self.idle(record, situation, self.no_use(record, situation)),
        };
        if record
            .system_identifier
            .as_ref()
            .is_some_and(|ours| *ours != running.system_identifier)
        {
            return Command::Fail("PostgreSQL serves the data of another database".to_owned());
        }
        if !record.may_lead(situation.me) {
            return Command::Wait(format!(
                "{}, or another that has streamed from it, to take the Lease{}",
                record.primary,
                self.unless_lost("what they had", situation)
            ));
        }
        if self.free.is_none_or(|free| situation.looked < free) {
            return Command::Wait("PostgreSQL to say how far it is".to_owned());
        }
        if running.replaying {
            return Command::Wait("PostgreSQL to apply what it has".to_owned());
        }
        let able = self.able(record, silent, situation);
        let present: BTreeSet<&str> = able.keys().copied().chain([situation.me]).collect();
        if let Some(unheard) = unheard(record, &present) {
            return Command::Wait(format!(
                "{unheard}: without hearing from them nobody knows whether all that was acknowledged is here{}",
                self.unless_lost("what they had", situation)
            ));
        }
        if let Some(reason) = shortfall(record, running, named, situation) {
            return Command::Wait(reason);
        }
        let reach: Reach = (running.timeline, running.received);
        let further: BTreeMap<&str, Reach> = able
            .iter()
            .filter(|(_, theirs)| **theirs > reach)
            .map(|(name, theirs)| (*name, *theirs))
            .collect();
        if let Some(command) = self.catch_up(&further, running, situation) {
            return command;
        }
        let earlier = able
            .iter()
            .filter(|(name, theirs)| **theirs == reach && **name < situation.me)
            .count();
        let turn = self.free.unwrap_or(situation.now) + PATIENCE * u32::try_from(earlier).unwrap_or(u32::MAX);
        if situation.now < turn && !named {
            return Command::Wait("others, which have as much of the data, to take the Lease".to_owned());
        }
        let others: Vec<&str> = able.keys().copied().collect();
        self.claim(situation, succession(record, running, &others, situation))
    }

    /// Whoever has more takes it. If none of them hears from the API server, what they have can be had from them.
    fn catch_up(
        &mut self,
        further: &BTreeMap<&str, Reach>,
        running: &Running,
        situation: &Situation<'_>,
    ) -> Option<Command> {
        let before = self.further.take();
        if let Some(name) = further.keys().find(|name| !is_cut_off(name, situation)) {
            let what = format!("{name}, which has more of the data, to take the Lease");
            return Some(Command::Wait(what));
        }
        let (name, theirs) = further.iter().max_by_key(|(_, theirs)| **theirs)?;
        let same = before.filter(|(before, reach, _)| before == name && reach == theirs);
        let since = same.map_or(situation.now, |(.., since)| since);
        self.further = Some(((*name).to_owned(), *theirs, since));
        // It cannot know that the holder fell silent, and goes on receiving if that still sends.
        let is_at_rest = situation.now.saturating_sub(since) >= AT_REST;
        let follows = running.upstream.as_deref() == Some(*name);
        Some(if is_at_rest && !follows {
            Command::Follow(Some((*name).to_owned()))
        } else {
            Command::Wait(format!(
                "what {name} has more, which does not hear from the API server and cannot take the Lease"
            ))
        })
    }

    /// The others that could take it, and how far they are: only what was so since the Lease is free, and, where its holder fell `silent`, since they left it, as
    /// they may have received more until then.
    fn able<'a>(&self, record: &Record, silent: bool, situation: &Situation<'a>) -> BTreeMap<&'a str, Reach> {
        let since = self.free.unwrap_or(situation.now);
        let peers = situation.peers.iter().filter(|(name, peer)| {
            let report = &peer.report;
            let looked = report.looked_ms.map_or(Duration::ZERO, Duration::from_millis);
            peer.asked >= since.saturating_add(looked)
                && is_fresh(peer, situation.now)
                && record.may_lead(name)
                && report.system_identifier == record.system_identifier
                && report.role != Role::Primary
                && !(silent && report.receiving)
        });
        peers
            .filter_map(|(name, peer)| Some((name.as_str(), (peer.report.timeline?, peer.report.received?))))
            .collect()
    }

    /// For people: what this instance waits for, whose data is not a replica's that runs.
    fn no_use(&self, record: &Record, situation: &Situation<'_>) -> String {
        match situation.data {
            // It was a primary, and may have what nobody else has; but so may whoever took the Lease after it.
            Data::Present(stored) if !stored.standby && matches!(situation.server, Server::Stopped) => {
                format!(
                    "{}, which took the Lease after it, or a replica that has all the data{}",
                    record.primary,
                    self.unless_lost("that", situation)
                )
            }
            _ => "its own data to be of use".to_owned(),
        }
    }

    /// For people: how to go on without what is waited for, once that has lasted.
    fn unless_lost(&self, what: &str, situation: &Situation<'_>) -> String {
        let since = self.free.unwrap_or(situation.now);
        if situation.now.saturating_sub(since) < GIVES_UP {
            return String::new();
        }
        let database = &situation.settings.database;
        format!(
            "; if {what} is gone for good, kubectl delete lease {database} has whoever has the most go on without it"
        )
    }

    /// Not its turn to take the Lease; whatever it can do meanwhile, so that its turn may come.
    fn idle(&mut self, record: &Record, situation: &Situation<'_>, wait: String) -> Command {
        match (situation.server, situation.data) {
            (Server::Stopped, Data::Present(stored))
                if stored.standby && situation.work.is_none() && is_ours(stored, record) =>
            {
                // Whom it follows need not be there: with somebody to ask, PostgreSQL says when it has applied all that it has.
                let primary = Some(record.primary.clone());
                Command::Follow(primary.filter(|primary| primary != situation.me))
            }
            _ => Command::Wait(wait),
        }
    }
}

/// Whether another one has not heard from the API server for so long that it could not take the Lease.
fn is_cut_off(name: &str, situation: &Situation<'_>) -> bool {
    let silent = situation.peers.get(name).and_then(|peer| peer.report.api_ms);
    silent.is_some_and(|ms| Duration::from_millis(ms) > situation.settings.timing.lease())
}

/// Whether nobody knows of any data of this database, so that it may be made.
pub(super) fn is_new(record: &Record, situation: &Situation<'_>) -> bool {
    record.system_identifier.is_none() && situation.settings.system_identifier.is_none()
}

/// What the Lease says from now on: this instance takes over from another, and only these `others` could have done so.
fn succession(record: &Record, running: &Running, others: &[&str], situation: &Situation<'_>) -> Record {
    let quorum = first_quorum(others, situation);
    // Whoever is not here may go on where this timeline does not, however far: until it has streamed from here, it leads nobody.
    let members = others.iter().copied().chain([situation.me]);
    let members = members.map(str::to_owned).collect();
    let mut quorums = record.quorums.clone();
    quorums.retain(|before| Some(before) != quorum.as_ref());
    let asynchronous = record.asynchronous || quorum.is_none();
    quorums.extend(quorum);
    // What the last holder wrote after it had renewed the Lease for the last time nobody knows, unless it stopped in order.
    let is_given_back = situation.lease.is_some_and(|seen| seen.holder.is_empty());
    let is_all = is_given_back && record.stopped.is_some() && record.flushed <= running.received;
    let timeline = record.timeline.max(running.timeline) + 1;
    let (missing, missing_since, missing_on) = if record.asynchronous && !is_all {
        let known = record.flushed.max(running.received);
        (Some((running.received, known)), timeline, running.timeline)
    } else {
        // It stays for an operator, or an instance, that was away.
        (record.missing, record.missing_since, record.missing_on)
    };
    Record {
        missing,
        missing_since,
        missing_on,
        members,
        primary: situation.me.to_owned(),
        timeline,
        asynchronous,
        quorums,
        handover: None,
        // It has said nothing of its own yet.
        flushed_on: 0,
        ..record.clone()
    }
}

/// Those of whom one may have what was acknowledged and is not here, if there are any: with those that are `present` it is not certain.
fn unheard(record: &Record, present: &BTreeSet<&str>) -> Option<String> {
    let mut quorums = record.quorums.iter();
    let quorum = quorums.find(|quorum| !quorum.overlaps(present))?;
    let standbys = quorum.standbys.iter().map(String::as_str);
    let unheard: Vec<&str> = standbys.filter(|name| !present.contains(name)).collect();
    Some(unheard.join(", "))
}

/// What the last primary has more than this instance, if that is too much.
fn shortfall(record: &Record, running: &Running, named: bool, situation: &Situation<'_>) -> Option<String> {
    let behind = record.flushed.ahead_of(running.received);
    // It stopped in order and is still there: it has that, and goes on if nobody else can.
    if named && behind > 0 {
        return Some(format!(
            "the last primary {}, which has {behind} bytes more than this instance, to go on",
            record.primary
        ));
    }
    (record.asynchronous && behind > situation.settings.maximum_lag).then(|| {
        format!(
            "the last primary {}: this instance is {behind} bytes behind it, more than the {} that may be lost (spec.maximumLagOnFailover)",
            record.primary, situation.settings.maximum_lag
        )
    })
}
