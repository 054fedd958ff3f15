//! What the holder of the Lease does: it renews, brings PostgreSQL up as the primary and keeps it so, and gives way in order.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::candidate::{HANDOVER, PATIENCE, is_new};
use super::{
    Command, Data, How, Leaving, Moment, Passing, Peer, Protocol, Running, Server, Situation, Stored, Tenure,
    Work, Write, is_fresh,
};
use crate::api::database::agent::{Contents, Lsn, Quorum, Record, Report, Role, State, Synchronous};

/// A primary that commits nothing for so long hangs: it is killed, and another takes over.
pub const HUNG: Duration = Duration::from_secs(10);
/// One that commits and answers nothing else for so long is of no use: nobody knows who streams from it, and how far it is.
const SPEECHLESS: Duration = Duration::from_secs(60);
/// What is stopped in order, or cannot be killed since its disk hangs, has so much longer.
const STOP: Duration = Duration::from_secs(20);
/// What comes before a start, for which the log is looked through and files are removed, takes less than this: with the time until a Lease of the usual duration has
/// run out, a disk that hangs is to cost less than 30 s. One that is only slow is left more time after each attempt in vain.
const BEGINNING: Duration = Duration::from_secs(20);
/// Recovery may take minutes. Where a replica could take over, it is not waited for longer than this.
const RESTART: Duration = Duration::from_secs(15);
/// Who has heard from the API server within so many milliseconds can take the Lease.
const REACHES_MS: u64 = 5000;
/// A promotion replays what is left, and writes a file. One that does neither for so long does not end.
const PROMOTION: Duration = Duration::from_secs(30);
/// A primary that ended so often before it ran will not start the next time either.
const STARTS: u32 = 3;
/// Before a primary is started, the others are given so long to say how far they are.
const HEARING: Duration = Duration::from_secs(1);
/// Recovery is left more time after each attempt in vain, up to so many times as much.
const MOST_PATIENCE: u32 = 64;

impl Protocol {
    /// Whatever else is under way: PostgreSQL must not run as a primary where this instance may not be one.
    pub(super) fn fence(&mut self, situation: &Situation<'_>) -> Option<Command> {
        let lost = self.tenure.is_some_and(|tenure| {
            let other = |holder: &str| !holder.is_empty() && holder != situation.identity;
            let taken = situation
                .lease
                .is_some_and(|seen| other(&seen.holder) && seen.since >= tenure.renewed);
            situation.now >= tenure.until || taken
        });
        let stray = self.tenure.is_none() && might_lead(situation);
        if !lost && !stray {
            return None;
        }
        match situation.server {
            Server::Stopped if situation.work.is_none() => {
                self.tenure = None;
                (self.applied, self.said) = (None, None);
                None
            }
            _ => Some(Command::Stop(How::Immediate)),
        }
    }

    /// What is to be done as long as the Lease is held.
    pub(super) fn hold(&mut self, tenure: Tenure, situation: &Situation<'_>) -> Command {
        let Some(record) = situation.lease.and_then(|seen| seen.record.clone()) else {
            // Somebody deleted the Lease and it was made anew, or spoilt what is in it. What it has to say is known from PostgreSQL alone.
            return self.claim_again(situation);
        };
        self.said = Some(record.clone());
        if !self.has_given_up(situation.now) {
            if situation.now >= tenure.tried + situation.settings.timing.retry() && !situation.writing {
                let due = self.kept_up(&record, situation);
                return self.write(Write::Renew, due, situation);
            }
            if let Some(command) = self.plead(tenure, &record, situation) {
                return command;
            }
        }
        if self.writes_too_much_alone(tenure, &record, situation) {
            self.let_others(situation);
            return Command::Stop(How::Immediate);
        }
        if self.hangs(situation) {
            return Command::Stop(How::Immediate);
        }
        match situation.work {
            Some(Work::Stopping) => Command::Wait("PostgreSQL to stop".to_owned()),
            Some(_) => Command::Wait("what is under way".to_owned()),
            None => self.drive(record, situation),
        }
    }

    fn drive(&mut self, record: Record, situation: &Situation<'_>) -> Command {
        match situation.server {
            Server::Stopped => self.start(record, situation),
            Server::Starting => self.wait_for_recovery(&record, situation),
            Server::Silent => Command::Wait("PostgreSQL to answer".to_owned()),
            Server::Running(running) if running.primary => self.lead(&record, running, situation),
            Server::Running(running) => {
                let after = record.timeline.saturating_sub(1).max(running.timeline);
                Command::Promote(after, begins_with(&record, situation))
            }
        }
    }

    fn start(&mut self, record: Record, situation: &Situation<'_>) -> Command {
        if self.failed >= STARTS && record.others(situation.me).next().is_some() {
            self.failed = 0;
            self.let_others(situation);
        }
        if self.bereft.is_some() {
            self.let_others(situation);
        }
        if let Some(leaving) = &self.leaving {
            // Only what was stopped in order tells how far it goes, and so whether whoever is to take over has all of it.
            let (end, timeline) = match situation.data {
                Data::Present(stored) if self.has_stopped_with(&record, stored) => {
                    (Some(stored.end), stored.timeline)
                }
                _ => (None, record.flushed_on),
            };
            // It took a Lease that had been deleted, and nothing comes of what it has alone.
            let mut quorums = record.quorums.clone();
            if self.is_damaged() && record.flushed == Lsn::default() {
                quorums.retain(|quorum| *quorum != only(situation.me));
            }
            let record = Record {
                quorums,
                handover: leaving.to.clone().filter(|_| end.is_some()),
                flushed: end.unwrap_or(record.flushed),
                flushed_on: timeline,
                ..record
            };
            return self.give_back(record, situation);
        }
        match situation.data {
            Data::Present(stored) if !stored.standby => {
                if let Some(silent) = self.unheard(&record, situation) {
                    return Command::Wait(format!("{silent} to say how far it is"));
                }
                match self.doubt(&record, stored, situation) {
                    Some((timeline, end)) if self.unproven < STARTS => Command::Prove(timeline, end),
                    Some(_) if !are_behind(&record, stored, situation) => {
                        self.unproven = 0;
                        self.let_others(situation);
                        self.give_back(record, situation)
                    }
                    _ => Command::Lead(begins_with(&record, situation)),
                }
            }
            Data::Present(_) => Command::Follow(None),
            Data::Empty | Data::Broken(_) if is_new(&record, situation) => Command::Initialise,
            Data::Empty | Data::Broken(_) | Data::Unreadable(_) => self.give_back(record, situation),
        }
    }

    /// Whether PostgreSQL was stopped in order, as a primary, and its data is what it was stopped with.
    fn has_stopped_with(&self, record: &Record, stored: &Stored) -> bool {
        let is_all = (stored.timeline, stored.end) >= (record.flushed_on, record.flushed);
        stored.clean && !stored.standby && is_all && self.bereft.is_none()
    }

    /// Who has not said yet how far it is, for as long as that is waited for.
    fn unheard(&self, record: &Record, situation: &Situation<'_>) -> Option<String> {
        let is_heard = |name: &str| {
            let peer = situation
                .peers
                .get(name)
                .filter(|peer| is_fresh(peer, situation.now));
            peer.is_some_and(|Peer { report, .. }| {
                report.received.is_some() || matches!(report.contents, Contents::Nothing | Contents::Broken)
            })
        };
        let mut silent = others(record, situation).filter(|name| !is_heard(name));
        let waits = self.lasted(Passing::Stopped, situation.now) < HEARING;
        silent.next().filter(|_| waits).map(str::to_owned)
    }

    /// Up to where the log of this instance once was on disk, if that is not known to be so now and somebody else may have it: how far it said that it was, or how
    /// far a replica is, to which nothing is sent before. To start on less would be to write another log under the same number, over that of every replica.
    fn doubt(&self, record: &Record, stored: &Stored, situation: &Situation<'_>) -> Option<(u32, Lsn)> {
        let others: BTreeSet<&str> = others(record, situation).collect();
        let replicas = situation.peers.iter().filter_map(|(name, peer)| {
            let is_one = others.contains(name.as_str()) && is_fresh(peer, situation.now);
            let has = (peer.report.timeline?, peer.report.received?);
            (is_one && has.0 <= record.timeline).then_some(has)
        });
        let said = Some((record.flushed_on, record.flushed)).filter(|(timeline, _)| *timeline > 0);
        let was = said.into_iter().chain(replicas).max()?;
        let known = self.proved.max(Some((stored.timeline, stored.end)));
        (known < Some(was) && !others.is_empty()).then_some(was)
    }

    fn wait_for_recovery(&mut self, record: &Record, situation: &Situation<'_>) -> Command {
        let patience = RESTART * MOST_PATIENCE.min(1 << self.retreats.min(31));
        let long = self.lasted(Passing::Starting, situation.now) > patience;
        if long && someone_could_lead(record, situation) {
            self.let_others(situation);
            return Command::Stop(How::Immediate);
        }
        Command::Wait("PostgreSQL to recover".to_owned())
    }

    /// Whether what comes before a start takes too long: it waits for the disk.
    fn has_begun_for_long(&self, situation: &Situation<'_>) -> bool {
        let begun = self.busy.filter(|_| matches!(situation.server, Server::Stopped));
        let patience = BEGINNING * MOST_PATIENCE.min(1 << self.delays.min(31));
        begun.is_some_and(|begun| situation.now.saturating_sub(begun) > patience)
    }

    fn lead(&mut self, record: &Record, running: &Running, situation: &Situation<'_>) -> Command {
        if let Some(command) = self.leave(record, situation) {
            return command;
        }
        if self.restarting {
            return Command::Stop(How::Fast);
        }
        let kept = self.kept_up(record, situation);
        if is_news(record, &kept) && !situation.writing {
            return self.write(Write::Renew, kept, situation);
        }
        if let Some(wanted) = self.due(record, running, situation) {
            return Command::Synchronise(wanted);
        }
        Command::Idle
    }

    /// Stops in order if somebody asked for it.
    fn leave(&mut self, record: &Record, situation: &Situation<'_>) -> Option<Command> {
        let leaving = self.leaving.as_ref()?;
        let to = match &leaving.to {
            Some(to) => Some(to.clone()),
            None => self.successor(None, situation),
        };
        if to.is_none() && !leaving.exit {
            self.leaving = None;
            return None;
        }
        // Whatever was acknowledged is on a replica, and the sooner the Lease is given back, the sooner that one takes it.
        let covered = to.is_some() && !record.asynchronous && self.could_be_succeeded(situation);
        let how = if leaving.hurry && covered {
            How::Immediate
        } else {
            How::Fast
        };
        self.leaving = Some(Leaving {
            to,
            ..leaving.clone()
        });
        Some(Command::Stop(how))
    }

    /// Who would take over: the replica that is asked for, or the furthest.
    pub(super) fn successor(&self, wanted: Option<&str>, situation: &Situation<'_>) -> Option<String> {
        let Server::Running(running) = situation.server else {
            return None;
        };
        let able = running.standbys.iter().filter(|standby| {
            let peer = situation.peers.get(&standby.name);
            let follows = peer.is_some_and(|peer| {
                let reaches_the_lease = peer.report.api_ms.is_some_and(|ms| ms < REACHES_MS);
                is_fresh(peer, situation.now) && peer.report.state == State::Streaming && reaches_the_lease
            });
            standby.streams() && follows && wanted.is_none_or(|wanted| wanted == standby.name)
        });
        let best = able.max_by_key(|standby| {
            (
                standby.synchronous,
                standby.flushed,
                std::cmp::Reverse(&standby.name),
            )
        });
        best.map(|standby| standby.name.clone())
    }

    /// Whether those that stream could tell among themselves that they have all that was acknowledged: for some seconds after a change of what commits wait
    /// for they could not without this instance.
    pub(super) fn could_be_succeeded(&self, situation: &Situation<'_>) -> bool {
        let Server::Running(running) = situation.server else {
            return false;
        };
        let streaming = running.standbys.iter().filter(|standby| standby.streams());
        let present: BTreeSet<&str> = streaming.map(|standby| standby.name.as_str()).collect();
        let record = situation.lease.and_then(|seen| seen.record.as_ref());
        record.is_some_and(|record| record.quorums.iter().all(|quorum| quorum.overlaps(&present)))
    }

    fn give_back(&mut self, record: Record, situation: &Situation<'_>) -> Command {
        if situation.writing {
            return Command::Wait("the write of the Lease that is under way".to_owned());
        }
        self.write(Write::Release, record, situation)
    }

    /// Whether PostgreSQL, or its disk, hangs: a primary that committed nothing for too long, or a promotion that does not end.
    fn hangs(&mut self, situation: &Situation<'_>) -> bool {
        let now = situation.now;
        if self.lasted(Passing::Promoting, now).min(self.still(now)) > PROMOTION {
            self.let_others(situation);
            return true;
        }
        if self.has_begun_for_long(situation) {
            self.delays = self.delays.saturating_add(1);
            self.let_others(situation);
            return true;
        }
        // One that has just begun has not had the time to write.
        let sign = self
            .leading
            .map(|leading| situation.canary.map_or(leading, |canary| canary.max(leading)));
        // One that is being stopped answers nobody, and has longer.
        let patience = match situation.work {
            Some(Work::Stopping) => HUNG + STOP,
            _ => HUNG,
        };
        let is_alive = sign.is_some_and(|sign| now.saturating_sub(sign) <= HUNG);
        let silent = self.lasted(Passing::Silent, now);
        let hung = silent > patience && (!is_alive || silent > SPEECHLESS)
            || situation.work.is_none() && sign.is_some() && !is_alive;
        if hung {
            self.let_others(situation);
        }
        hung
    }

    /// Once PostgreSQL has ended, somebody else is to take over, if there is anybody.
    fn let_others(&mut self, situation: &Situation<'_>) {
        if self.leaving.is_none() {
            self.retreats = self.retreats.saturating_add(1);
        }
        self.leaving.get_or_insert_default();
        let claimed = situation.lease.map_or(Duration::ZERO, |seen| seen.claimed);
        let lease = claimed.max(situation.settings.timing.lease());
        self.shy = situation.now + HANDOVER.max(lease + PATIENCE * 2);
    }

    /// PostgreSQL was killed for others to take over. A disk that hangs may keep its processes from ending, and then the Lease cannot be given back: it is
    /// not renewed either, so that it runs out. What was killed does nothing more than the kernel was asked to before, and tells nobody.
    fn has_given_up(&self, now: Moment) -> bool {
        self.leaving.is_some() && now < self.shy
    }

    /// What the Lease is to say now.
    pub(super) fn kept_up(&mut self, record: &Record, situation: &Situation<'_>) -> Record {
        let mut kept = record.clone();
        let Server::Running(running) = situation.server else {
            return kept;
        };
        if !running.primary {
            return kept;
        }
        kept.system_identifier = Some(running.system_identifier.clone());
        kept.timeline = kept.timeline.max(running.timeline);
        (kept.flushed, kept.flushed_on) = (running.received, running.timeline);
        (kept.handover, kept.stopped) = (None, None);
        let settings = situation.settings;
        kept.members
            .retain(|name| settings.has_member(name) || name == situation.me);
        let streaming = running.standbys.iter().filter(|standby| standby.streams());
        let streaming = streaming.map(|standby| standby.name.clone());
        kept.members
            .extend(streaming.filter(|name| settings.has_member(name)));
        self.keep_quorums(&mut kept, running, situation);
        kept
    }

    /// The Lease lost what it had to say, and this instance still may be primary: it says it again, as carefully as can be.
    fn claim_again(&mut self, situation: &Situation<'_>) -> Command {
        if situation.writing {
            return Command::Wait("the Lease to be written".to_owned());
        }
        let running = match (situation.server, &self.said) {
            (Server::Running(running), _) if running.primary => running,
            // It recovers, or is promoted
            (_, Some(said)) => return self.write(Write::Claim, said.clone(), situation),
            _ => {
                return Command::Wait(
                    "PostgreSQL to be the primary, for the Lease to say something".to_owned(),
                );
            }
        };
        let members = situation
            .settings
            .members
            .iter()
            .map(|member| member.name.clone())
            .collect();
        // Without that, nobody knows what commits have waited for before.
        let said = self.said.clone().unwrap_or_else(|| Record {
            members,
            asynchronous: true,
            ..Record::default()
        });
        let mut quorums = said.quorums;
        quorums.retain(|before| Some(before) != running.quorum.as_ref());
        quorums.extend(running.quorum.clone());
        let record = Record {
            primary: situation.me.to_owned(),
            system_identifier: Some(running.system_identifier.clone()),
            timeline: running.timeline.max(said.timeline),
            members: said.members,
            asynchronous: said.asynchronous || running.quorum.is_none(),
            quorums,
            flushed: running.received,
            flushed_on: running.timeline,
            missing: said.missing,
            missing_since: said.missing_since,
            missing_on: said.missing_on,
            ..Record::default()
        };
        self.write(Write::Claim, record, situation)
    }

    pub(super) fn write(&mut self, why: Write, record: Record, situation: &Situation<'_>) -> Command {
        self.claims = situation.settings.timing;
        if let Some(tenure) = &mut self.tenure {
            tenure.tried = situation.now;
            // It may take effect and its answer be lost: then the others wait for no longer than it says.
            if self.claims.lease_ms < tenure.timing.lease_ms {
                tenure.timing = self.claims;
                tenure.until = tenure.until.min(situation.now + self.claims.renew_deadline());
            }
        }
        self.written = record.others(situation.me).map(str::to_owned).collect();
        self.named.extend(self.written.iter().cloned());
        Command::Write(why, record)
    }
}

/// What commits wait for at first, by the Lease. A quorum with this instance in it is that of a primary before: nobody streams from itself, so a commit would
/// wait until that quorum is given up.
fn begins_with(record: &Record, situation: &Situation<'_>) -> Option<Quorum> {
    let newest = record.quorums.last();
    newest
        .filter(|quorum| !quorum.standbys.contains(situation.me))
        .cloned()
}

/// What commits are to wait for when a new primary begins. `present` are the replicas that are there.
pub(super) fn first_quorum(present: &[&str], situation: &Situation<'_>) -> Option<Quorum> {
    let of = |names: Vec<String>| {
        let standbys: BTreeSet<String> = names.into_iter().collect();
        (!standbys.is_empty()).then_some(Quorum { standbys, need: 1 })
    };
    let present = of(present.iter().map(|&name| name.to_owned()).collect());
    let others = || {
        let others = situation.settings.others(situation.me);
        of(others.map(str::to_owned).collect())
    };
    match situation.settings.synchronous {
        Synchronous::Off => None,
        Synchronous::Preferred => present,
        Synchronous::Required => present.or_else(others),
    }
}

/// Everybody else who may take the Lease, and is to be there.
pub(super) fn others<'a>(record: &'a Record, situation: &Situation<'a>) -> impl Iterator<Item = &'a str> {
    let settings = situation.settings;
    record
        .others(situation.me)
        .filter(|name| settings.has_member(name))
}

/// What only this instance satisfies.
pub(super) fn only(me: &str) -> Quorum {
    Quorum {
        standbys: [me.to_owned()].into(),
        need: 1,
    }
}

/// Whether all others say how far they are, and nobody is further than this data is known to go: then nobody has what it may have lost, nor a log that could be
/// written over, and it need not be told how far its own goes.
fn are_behind(record: &Record, stored: &Stored, situation: &Situation<'_>) -> bool {
    let is_behind = |report: &Report| match (report.timeline, report.received) {
        (Some(timeline), Some(received)) => (timeline, received) <= (stored.timeline, stored.end),
        _ => matches!(report.contents, Contents::Nothing | Contents::Broken),
    };
    others(record, situation).all(|name| {
        let peer = situation.peers.get(name);
        peer.is_some_and(|peer| is_fresh(peer, situation.now) && is_behind(&peer.report))
    })
}

/// Whether PostgreSQL takes writes, or might at any moment.
fn might_lead(situation: &Situation<'_>) -> bool {
    match situation.server {
        Server::Running(running) => running.primary,
        Server::Starting | Server::Silent => {
            matches!(situation.data, Data::Present(stored) if !stored.standby)
        }
        Server::Stopped => false,
    }
}

/// Whether the replicas that answer could tell without this instance that one of them has whatever was acknowledged.
fn someone_could_lead(record: &Record, situation: &Situation<'_>) -> bool {
    let able = situation.peers.iter().filter(|(name, peer)| {
        is_fresh(peer, situation.now) && peer.report.role == Role::Replica && record.may_lead(name)
    });
    let able: BTreeMap<&str, Lsn> = able
        .filter_map(|(name, peer)| Some((name.as_str(), peer.report.received?)))
        .collect();
    let Some(furthest) = able.values().max() else {
        return false;
    };
    let present = able.keys().copied().collect();
    let behind = record.flushed.ahead_of(*furthest);
    record.quorums.iter().all(|quorum| quorum.overlaps(&present))
        && !(record.asynchronous && behind > situation.settings.maximum_lag)
}

/// Whether what the Lease is to say should not wait for the next renewal.
fn is_news(record: &Record, kept: &Record) -> bool {
    *record
        != Record {
            flushed: record.flushed,
            ..kept.clone()
        }
}
