//! What the instance says of itself.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use super::super::floors::is_lowered;
use super::super::lease::view;
use super::super::protocol::{Command, Data, FRESH, Running, Server, Work, anew, is_full};
use super::super::server::{Shown, milliseconds};
use super::super::sql::Configuration;
use super::senses::{Labels, READ};
use super::{Supervisor, report_of};
use crate::api::database::agent::{Contents, MAX_UNMADE_TEXT, Record, Report, Role, State};
use crate::api::text::shorten;
use crate::instance::postgres::identity::Identity;

/// A primary is ready while a write of its own was answered so long ago at most, be it before it was started again in place.
const ALIVE: Duration = Duration::from_secs(5);

impl Supervisor {
    /// Tells the others, and the tasks beside the loop, how things are now.
    pub(super) fn tell(&mut self) {
        let now = Instant::now();
        self.note_freshness(now);
        let (role, gone) =
            self.with(|protocol, situation| (protocol.role(situation), protocol.is_gone(situation)));
        let (server, looked) = self.server(now);
        // What waits for a restart is told together with the settings that it comes from.
        if self.process.postmaster.is_none() || self.has_read() {
            self.taken = Some(self.mounted.hash.clone());
        }
        let mut report = self.report(role, &server, now);
        report.gone = gone;
        if let Server::Running(running) = &server {
            // Until then it is known only how much of it was applied.
            report.received.take_if(|_| running.replaying);
            report.looked_ms = looked.map(|looked| milliseconds(now.saturating_duration_since(looked)));
        }
        let serves = (role == Role::Primary).then(|| self.senses.leads.borrow().unwrap_or(now));
        set(&self.senses.leads, serves);
        let mut ready = self.readiness(role, &server, now);
        let others = self.mounted.settings.others(&self.options.name);
        let others = others.map(str::to_owned).collect();
        let holds = self.protocol.leads(now.saturating_duration_since(self.began));
        // Whoever starts again in place is led to all along: it takes a cluster seconds to lead clients away and back.
        let starts_again = role == Role::None && holds && self.senses.labels.borrow().role == Role::Primary;
        let labelled = if starts_again { Role::Primary } else { role };
        if labelled == Role::Primary {
            if ready.is_ok() {
                self.of_use = self.canary();
            } else if is_recent(self.of_use, now) {
                ready = Ok(());
            }
        }
        set(
            &self.senses.labels,
            Labels {
                role: labelled,
                holds,
                others,
            },
        );
        self.tell_content(role == Role::Primary && self.furnishing.since.is_some());
        self.keep_watch(&server, now);
        self.shown.send_replace(Shown {
            report,
            made: now,
            ready,
        });
    }

    /// Keeps track of when this replica last received, and of how far the primary has written.
    fn note_freshness(&mut self, now: Instant) {
        let streaming =
            matches!(self.server(now).0, Server::Running(running) if running.primary || running.streaming);
        let flushed = self.record().map(|record| record.flushed);
        self.freshness.note(streaming, flushed, now);
    }

    /// What instances last wrote into the Lease, as far as it was seen.
    pub(super) fn record(&self) -> Option<Record> {
        let seen = self.seen.borrow();
        seen.lease.as_ref().and_then(|lease| view(lease).record)
    }

    /// Whether some instance says that it serves as the primary, or that it receives from one.
    fn is_served(&self, now: Instant) -> bool {
        let answers = self.senses.answers.borrow();
        let mut recent = answers
            .values()
            .filter(|(_, asked)| now.saturating_duration_since(*asked) <= FRESH);
        recent.any(|(report, _)| match report.role {
            Role::Primary => true,
            Role::Replica => report.streaming,
            // It follows another replica, perhaps.
            Role::None => false,
        })
    }

    /// Looks more closely while the holder of the Lease may be gone, and while PostgreSQL is promoted.
    fn keep_watch(&self, server: &Server, now: Instant) {
        let seen = self.seen.borrow();
        let view = seen.lease.as_ref().map(view).unwrap_or_default();
        let age = seen
            .unchanged_since
            .map(|since| now.saturating_duration_since(since));
        let retry = self.mounted.settings.timing.retry();
        let late = age.is_none_or(|age| age > retry * 2) || view.holder.is_empty();
        let detached = matches!(server, Server::Running(running) if !running.primary && !running.streaming);
        let ours = view.holder == self.identity.to_string();
        // Once it is promoted it is looked at at once: until it says that it is the primary, nobody is led to it.
        let promotes = matches!(self.work, Some((Work::Promoting, _)));
        // Before it is started again, it goes by what the others say.
        let begins = ours && matches!(server, Server::Stopped);
        set(
            &self.senses.alert,
            (late || detached) && !ours || promotes || begins,
        );
        let primary = view
            .record
            .map(|record| record.primary)
            .filter(|primary| !primary.is_empty());
        let holder: Option<Identity> = view.holder.parse().ok();
        let suspect = primary.zip(holder).filter(|_| (late || detached) && !ours);
        set(&self.senses.suspect, suspect);
    }

    fn report(&self, role: Role, server: &Server, now: Instant) -> Report {
        let ms = |at: Instant| milliseconds(now.saturating_duration_since(at));
        let mut report = Report {
            role,
            contents: self.contents(),
            state: self.state(role, server),
            message: self.message(server),
            api_ms: self.api.map(ms),
            damaged: self.protocol.is_damaged(),
            wrote_up_to: self.found.and_then(|found| Some((found.since, found.end?))),
            settings: self.taken.clone(),
            refused: self.refused.clone(),
            certificate: self.copied.refused.clone(),
            authorities: self.copied.authorities.clone(),
            ..report_of(&self.options, &self.identity)
        };
        match (server, &self.data) {
            (Server::Running(running), _) => {
                report.system_identifier = Some(running.system_identifier.clone());
                report.led = running.primary;
                report.timeline = Some(running.timeline);
                report.checkpoint = Some(running.checkpoint);
                (report.received, report.replayed) = (Some(running.received), Some(running.replayed));
                report.end = report.received;
                (report.streaming, report.receiving) = (
                    running.streaming,
                    running.receiving && self.may_receive_from_primary(running),
                );
                report.standbys.clone_from(&running.standbys);
                report.version = Some(self.tools.programs.version.clone());
            }
            (_, Data::Present(stored)) => {
                report.system_identifier = Some(stored.system_identifier.clone());
                (report.led, report.lacks_up_to) = (!stored.standby, self.protocol.lacks());
                report.timeline = Some(stored.timeline);
                report.end = Some(stored.end);
            }
            _ => {}
        }
        self.report_configuration(&mut report);
        if role == Role::Primary {
            report.wrote_ms = self.senses.beats.borrow().committed.map(ms);
            report.wrote_ms.take_if(|_| !self.is_of_use());
            report.pause = self.standstill.last;
            self.report_content(&mut report);
        }
        report
    }

    /// Whether what it receives may come from whoever held the Lease last.
    fn may_receive_from_primary(&self, running: &Running) -> bool {
        let primary = self.record().map(|record| record.primary);
        running.upstream.is_none() || primary.is_none() || running.upstream == primary
    }

    /// What there is on the volume. While it is being made it is looked at no more, and is nothing that anybody could go by.
    fn contents(&self) -> Contents {
        match self.work {
            Some((Work::Initialising | Work::Joining | Work::Rewinding, _)) => Contents::Broken,
            _ => self.data.contents(),
        }
    }

    /// Whether PostgreSQL said what it goes by since it was last told to read its files.
    fn has_read(&self) -> bool {
        let observed = self.senses.observed.borrow();
        let asked = observed.configuration.as_ref().map(|(_, asked)| *asked);
        observed.start == self.process.starts
            && asked.is_some_and(|asked| asked >= *self.senses.reloaded.borrow() + READ)
    }

    /// What PostgreSQL goes by, as it last said since it was started, where that is of the settings that are told. Its files are written for other reasons, too:
    /// what waits for a restart does so while it reads them.
    fn configuration(&self) -> Option<Configuration> {
        let observed = self.senses.observed.borrow();
        let (configuration, _) = observed.configuration.as_ref()?;
        let is_of_these = self.taken.as_ref() == Some(&self.mounted.hash);
        (observed.start == self.process.starts && is_of_these).then(|| configuration.clone())
    }

    fn report_configuration(&self, report: &mut Report) {
        if self.process.postmaster.is_none() {
            return;
        }
        let parameters = &self.mounted.settings.parameters;
        let Configuration {
            pending_restart: pending,
            refused,
            ..
        } = self.configuration().unwrap_or_default();
        let held_up = self.floors.raised(parameters).into_keys();
        let all: BTreeSet<String> = pending.keys().cloned().chain(held_up).collect();
        report.pending_restart = all.into_iter().collect();
        let mut values = pending.iter();
        report.lowered = report.led && values.any(|(name, value)| is_lowered(name, value, parameters));
        if report.refused.is_none() && !refused.is_empty() {
            let each: Vec<String> = refused.iter().map(|why| shorten(why, MAX_UNMADE_TEXT)).collect();
            report.refused = Some(each.join("; "));
        }
    }

    fn state(&self, role: Role, server: &Server) -> State {
        if let Command::Fail(_) = self.said {
            return State::Failed;
        }
        match self.work.as_ref().map(|(work, _)| *work) {
            Some(Work::Initialising) => return State::Initialising,
            Some(Work::Joining) => return State::Joining,
            Some(Work::Rewinding) => return State::Rewinding,
            Some(Work::Promoting) => return State::Promoting,
            Some(Work::Stopping) => return State::Stopping,
            Some(Work::Other) | None => {}
        }
        match server {
            Server::Stopped => State::Waiting,
            Server::Starting => State::Starting,
            Server::Silent => State::Detached,
            // Until clients can write again, after a stop in order, what it was stopped for is not over; and then it tells how long that took.
            Server::Running(_) if role == Role::Primary && self.standstill.since.is_some() => {
                State::Promoting
            }
            Server::Running(_) if role == Role::Primary => State::Leading,
            Server::Running(running) if running.streaming => State::Streaming,
            Server::Running(_) => State::Detached,
        }
    }

    fn message(&self, server: &Server) -> Option<String> {
        let said = match &self.said {
            Command::Wait(what) => Some(format!("waiting for {what}")),
            Command::Fail(why) => Some(why.clone()),
            _ => None,
        };
        if matches!(server, Server::Running(_)) {
            return said;
        }
        let all = [said, self.attempts.told(), self.complaint(server)];
        let all: Vec<String> = all.into_iter().flatten().collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// What is wrong with a PostgreSQL that does not answer, in its own words.
    fn complaint(&self, server: &Server) -> Option<String> {
        let words = self.words();
        if matches!(server, Server::Starting) && !words.is_empty() {
            return Some(format!(
                "PostgreSQL does not answer yet, and complained last: {words}"
            ));
        }
        if self.process.ending.is_empty() {
            return None;
        }
        let mut message = format!("PostgreSQL does not run: {}", self.process.ending);
        let replica = matches!(&self.data, Data::Present(stored) if stored.standby);
        if replica && !is_full(&self.process.ending) {
            let command = anew(&self.options.name);
            message += &format!("; if its data is damaged, have it copied anew: {command}");
        }
        Some(message)
    }

    /// Whether clients find in a primary what they need. One that was promoted has that from the primary before, and one that was started again in place from
    /// before. The very first has nothing for them until it is made, after a checkpoint, which may take minutes.
    fn is_of_use(&self) -> bool {
        let observed = self.senses.observed.borrow();
        let is_prepared = observed
            .running
            .as_ref()
            .is_some_and(|(running, _)| running.prepared);
        self.promoted.is_some() || self.furnishing.since.is_some() || is_prepared
    }

    pub(super) fn readiness(&self, role: Role, server: &Server, now: Instant) -> Result<(), String> {
        match (role, server) {
            (Role::Primary, _) => {
                if !self.is_of_use() {
                    return Err("the primary is being prepared".to_owned());
                }
                if is_recent(self.canary(), now) {
                    Ok(())
                } else {
                    Err("PostgreSQL answers no write".to_owned())
                }
            }
            (Role::Replica, Server::Running(_)) if self.freshness.is_old(self.is_served(now), now) => {
                Err("the replica has received nothing for too long, and the primary works".to_owned())
            }
            (Role::Replica, Server::Running(_)) => Ok(()),
            (..) => Err(self
                .message(server)
                .unwrap_or_else(|| "the instance has no role".to_owned())),
        }
    }
}

fn is_recent(alive: Option<Instant>, now: Instant) -> bool {
    alive.is_some_and(|alive| now.saturating_duration_since(alive) < ALIVE)
}

/// Sends only what is new.
fn set<T: PartialEq>(sender: &tokio::sync::watch::Sender<T>, value: T) {
    sender.send_if_modified(|before| {
        let changed = *before != value;
        *before = value;
        changed
    });
}
