//! What is done about what has happened, and about what the protocol says.

use std::time::Duration;

use futures::FutureExt;
use jiff::Timestamp;
use tokio::time::{Instant, sleep};

use super::super::certificates;
use super::super::floors::Floors;
use super::super::lease::{Written, view};
use super::super::protocol::{Command, Data, How, Pleading, Server, Work, Write};
use super::super::server::Request;
use super::super::volume::Volume;
use super::settings;
use super::work::WorkError;
use super::{Done, Event, Supervisor};
use crate::api::database::agent::{Member, Plea, Record};

/// How long a stop in order may take once its checkpoint is written.
const ORDERLY: Duration = Duration::from_secs(20);
/// What brought an error is not tried again before this.
pub(super) const PAUSE: Duration = Duration::from_secs(1);
/// Between two looks at a volume of which nothing could be told.
const UNREADABLE: Duration = Duration::from_secs(10);

impl Supervisor {
    pub(super) fn take(&mut self, event: Event) {
        match event {
            Event::Tick | Event::AskedToStop { .. } => {
                self.look_again();
                self.look_at_start();
                self.furnish();
                self.resume();
            }
            Event::Resumed(outcome) => self.resumed(outcome),
            Event::Removed(Ok(())) => {}
            Event::Removed(Err(error)) => {
                tracing::warn!(%error, "cannot remove data that was put aside");
                self.aside = true;
            }
            Event::Told => {
                let seen = self.seen.borrow();
                if seen.failure.is_none() {
                    self.api = self.api.max(seen.answered);
                }
            }
            Event::Files => {
                self.look_at_files();
                self.furnishing.owner.look(&self.options.password_file());
                self.remove_aside();
            }
            Event::Asked(request) => self.answer(request),
            Event::Ended(status) => {
                tracing::info!(
                    status = status.map_or_else(|error| error.to_string(), |status| status.to_string()),
                    "PostgreSQL has ended"
                );
                let answered = self.senses.observed.borrow().start == self.process.starts;
                let ended = self.process.postmaster.take().filter(|_| !self.process.killing);
                self.process.last = ended.map(|postmaster| (postmaster.last_words(), answered));
                self.senses.start.send_replace(None);
                self.promoted = None;
                self.unfurnish();
                self.kill();
            }
            Event::Worked(done) => self.worked(done),
            Event::Wrote(why, sent, outcome) => match outcome {
                Ok(Written::Written(_)) if why == Write::Release => self.protocol.released(),
                Ok(Written::Written(_)) => {
                    let sent = sent.saturating_duration_since(self.began);
                    self.protocol.renewed(sent);
                }
                Ok(Written::Conflict | Written::Gone) => tracing::info!("the Lease is another than was seen"),
                Err(error) => tracing::warn!(%error, "cannot write the Lease"),
            },
            Event::Pleaded(sent, true) => {
                let sent = sent.saturating_duration_since(self.began);
                self.protocol.confirmed(sent);
            }
            Event::Pleaded(_, false) => {}
            Event::Furnished(outcome) => self.furnished(outcome),
        }
    }

    fn worked(&mut self, done: Done) {
        match done {
            Done::Rested => {}
            Done::Looked(data) => self.inspected(data),
            Done::Cleaned(outcome) => self.cleaned(outcome),
            Done::Proved(timeline, end, Ok(goes)) => {
                self.process.ending.clear();
                self.protocol.proved(timeline, end, goes);
            }
            Done::Proved(_, end, Err(error)) => {
                tracing::warn!(%error, "cannot tell whether the log goes up to {end}");
                self.process.ending = error.to_string();
                self.protocol.unproved();
                self.pause();
            }
            Done::Stopped(data) => {
                self.process.killing = false;
                if let Some((words, answered)) = self.process.last.take() {
                    self.has_ended(words.get(), answered);
                }
                self.inspected(data);
            }
            Done::Checkpointed => {
                self.note_stop();
                if let Some(postmaster) = &self.process.postmaster {
                    postmaster.stop_fast();
                }
                self.work = Some((Work::Stopping, sleep(ORDERLY).map(|()| Done::Overdue).boxed()));
            }
            Done::Overdue => {
                tracing::warn!(seconds = ORDERLY.as_secs(), "PostgreSQL does not stop in order");
                self.kill();
            }
            Done::Found(found) => self.found = Some(found),
            Done::Made(work, outcome, data) => {
                let reached = outcome.as_ref().err().is_none_or(WorkError::has_reached);
                let why = match outcome {
                    Ok(()) => {
                        self.protocol.mended();
                        None
                    }
                    Err(error) => {
                        tracing::error!(?work, %error, "could not make data");
                        if !reached {
                            self.protocol.unmended();
                        }
                        Some(error.to_string())
                    }
                };
                self.attempts.ended(why, reached, Instant::now());
                // What there was may have been put aside.
                self.aside = true;
                self.inspected(data);
            }
            Done::Promoted(Ok(())) => {
                tracing::info!("PostgreSQL is the primary now");
                self.promoted = Some(Instant::now());
                self.configured.upstream = None;
                self.floors = Floors::default();
                self.configure();
            }
            Done::Reached(outcome) => {
                if let Err(error) = &outcome {
                    tracing::warn!(%error, "this replica receives nothing, and nothing can be done about it here");
                }
                self.protocol.reached(outcome.is_ok());
            }
            Done::Promoted(Err(error)) => {
                tracing::error!(%error, "could not promote PostgreSQL");
                self.pause();
            }
        }
    }

    /// It ended by itself. Whatever it called fatal while it ran was said to somebody who connected, but for a panic.
    fn has_ended(&mut self, words: String, answered: bool) {
        self.process.ending = words;
        if answered && !self.process.ending.starts_with("PANIC") {
            self.process.ending.clear();
        }
        self.protocol.ended(&self.process.ending);
    }

    fn inspected(&mut self, data: Result<Data, WorkError>) {
        self.data = data.unwrap_or_else(|error| {
            tracing::error!(%error, "cannot tell what is on the volume");
            Data::Unreadable(error.to_string())
        });
        let unreadable = matches!(self.data, Data::Unreadable(_));
        self.look = unreadable.then(|| Instant::now() + UNREADABLE);
    }

    /// Looks again at a volume of which nothing could be told. Until then it works at nothing: whoever holds the Lease gives it back, and whoever is asked
    /// to end does.
    fn look_again(&mut self) {
        let due = self.look.is_some_and(|at| at <= Instant::now());
        if !due || self.work.is_some() || self.process.postmaster.is_some() {
            return;
        }
        self.look = None;
        let tools = self.tools.clone();
        let again = async move { Done::Looked(tools.inspect().await) };
        self.work = Some((Work::Other, again.boxed()));
    }

    /// What can be told of a PostgreSQL that does not answer yet.
    fn look_at_start(&mut self) {
        let (Server::Starting, _) = self.server(Instant::now()) else {
            return;
        };
        let works = *self.senses.effort.borrow();
        if let Some((_, at)) = works.filter(|(start, _)| *start == self.process.starts) {
            self.protocol.works(at.saturating_duration_since(self.began));
        }
        if is_removed(&self.words())
            && let Some(upstream) = &self.configured.upstream
        {
            self.protocol.starves(upstream);
        }
    }

    /// What PostgreSQL has called fatal since it was started.
    pub(super) fn words(&self) -> String {
        self.process
            .postmaster
            .as_ref()
            .map(|postmaster| postmaster.last_words().get())
            .unwrap_or_default()
    }

    pub(super) fn carry_out(&mut self, command: Command) {
        let routine = matches!(command, Command::Write(Write::Renew, _) | Command::Plead(_));
        if !routine && command != self.said {
            tracing::info!("{}", told(&command));
            self.said = command.clone();
        }
        match command {
            Command::Idle | Command::Wait(_) | Command::Fail(_) => {}
            Command::Write(why, record) => self.write(why, record),
            Command::Plead(pleading) => self.plead(pleading),
            Command::Initialise => self.make(Work::Initialising, None),
            Command::Join(from) => self.make(Work::Joining, Some(from)),
            Command::Rewind(from) => self.make(Work::Rewinding, Some(from)),
            Command::Lead(quorum) => {
                (self.floors, self.configured.follows) = (Floors::default(), false);
                self.start_postgres(None, quorum);
            }
            Command::Follow(upstream) if self.process.postmaster.is_none() => {
                self.floors = match &self.data {
                    Data::Present(stored) => stored.floors.clone(),
                    _ => Floors::default(),
                };
                self.configured.follows = true;
                self.start_postgres(upstream, None);
            }
            Command::Follow(upstream) => {
                self.configured.upstream = upstream;
                self.configure();
            }
            Command::Promote(after, quorum) => self.promote(after, quorum),
            Command::Synchronise(quorum) => {
                self.configured.quorum = quorum;
                self.configure();
            }
            Command::Prove(timeline, end) => self.prove(timeline, end),
            Command::Reach(name) => self.reach(&name),
            Command::Stop(How::Fast) => self.stop_in_order(),
            Command::Stop(How::Immediate) => self.kill(),
            Command::Exit => self.leave = true,
        }
    }

    fn write(&mut self, why: Write, mut record: Record) {
        let Some(seen) = self.judged.clone() else {
            return;
        };
        match why {
            // What was killed on its way there did not stop in order.
            Write::Release => {
                record.stopped = self.standstill.since.filter(|_| self.has_stopped_as_primary())
            }
            Write::Claim => self.standstill.since = record.stopped,
            Write::Renew => {}
        }
        let (lease, holder) = (self.lease.clone(), self.identity.to_string());
        let timing = self.mounted.settings.timing;
        let sent = Instant::now();
        let write = async move {
            let outcome = lease
                .write(&seen, &holder, &record, timing, Timestamp::now(), why)
                .await;
            if outcome.is_err() && why != Write::Renew {
                // Whether it took effect shows in what is read next.
                sleep(PAUSE).await;
            }
            (why, sent, outcome)
        };
        self.writing = Some(write.boxed());
    }

    /// Whether its data is that of a primary that was stopped in order.
    fn has_stopped_as_primary(&self) -> bool {
        matches!(&self.data, Data::Present(stored) if stored.clean && !stored.standby)
    }

    fn plead(&mut self, Pleading { others, hears, lease }: Pleading) {
        let Some(transitions) = self
            .seen
            .borrow()
            .lease
            .as_ref()
            .map(|seen| view(seen).transitions)
        else {
            return;
        };
        let known = &self.mounted.settings.members;
        let members: Vec<Member> = known
            .iter()
            .filter(|member| others.contains(&member.name))
            .cloned()
            .collect();
        let all = members.len() == others.len();
        let plea = Plea {
            holder: self.identity.to_string(),
            transitions,
            hears,
            lease_ms: u64::try_from(lease.as_millis()).unwrap_or(u64::MAX),
        };
        let (peers, sent) = (self.peers.clone(), Instant::now());
        let ask = async move {
            let answers = peers.plead(&members, &plea).await;
            for (name, answer) in &answers {
                if let Err(error) = answer {
                    tracing::warn!(peer = name, %error, "does not promise to leave the Lease alone");
                }
            }
            (sent, all && answers.values().all(Result::is_ok))
        };
        self.pleading = Some(ask.boxed());
    }

    fn look_at_files(&mut self) {
        match settings::read(&self.options, self.clock.now()) {
            Ok(mounted) if mounted != self.mounted => {
                tracing::info!(settings = mounted.hash, "other settings");
                self.senses.members.send_replace(mounted.settings.members.clone());
                self.pace.keep(mounted.settings.timing);
                self.mounted = mounted;
                self.refused = None;
                self.configure();
            }
            Ok(_) => self.refused = None,
            Err(error) => {
                if self.refused.is_none() {
                    tracing::error!(%error, "the settings are not taken; the ones before are gone by");
                }
                self.refused = Some(error.to_string());
            }
        }
        if self.copy_certificates() {
            tracing::info!("other certificates");
            self.reload();
        }
    }

    /// Whether PostgreSQL has to read them again.
    pub(super) fn copy_certificates(&mut self) -> bool {
        let answers = self.senses.answers.borrow().clone();
        let others: Vec<_> = answers
            .values()
            .map(|(report, _)| report.authorities.as_str())
            .collect();
        let copied = match certificates::copy(&self.options, &others, Timestamp::now()) {
            Ok(copied) => copied,
            Err(error) => {
                tracing::error!(%error, "the certificates are not taken; the ones before are gone by");
                return false;
            }
        };
        if let Some(why) = &copied.refused
            && copied.refused != self.copied.refused
        {
            tracing::warn!(why, "the certificate that the spec names is not shown");
        }
        self.copied = copied;
        self.copied.changed
    }

    /// What was put aside has been of use once the data that took its place is.
    fn remove_aside(&mut self) {
        let Server::Running(running) = self.server(Instant::now()).0 else {
            return;
        };
        if !running.streaming && !running.primary {
            return;
        }
        self.attempts.succeeded();
        if self.aside && self.removing.is_none() {
            self.aside = false;
            self.removing = Some(Volume::remove_aside(self.options.clone()).boxed());
        }
    }

    fn answer(&mut self, request: Request) {
        // Whoever asked may have gone.
        match request {
            Request::Plea { plea, answer } => {
                let granted = self.with(|protocol, situation| protocol.promise(&plea, situation));
                let _ = answer.send(granted);
            }
            Request::Handover { handover, answer } => {
                tracing::info!(to = handover.to, why = handover.why, "asked to hand over");
                let granted = self.with(|protocol, situation| {
                    protocol.asked_to_hand_over(handover.to.as_deref(), situation)
                });
                let _ = answer.send(granted);
            }
            Request::Restart { restart, answer } => {
                let granted = self.restart(&restart);
                tracing::info!(why = restart.why, ?granted, "asked to start PostgreSQL again");
                let _ = answer.send(granted);
            }
        }
    }

    pub(super) fn member(&self, name: &str) -> Option<&Member> {
        self.mounted
            .settings
            .members
            .iter()
            .find(|member| member.name == name)
    }
}

/// Whether PostgreSQL complains, in these words, that the one it follows does not have any more what it lacks.
fn is_removed(words: &str) -> bool {
    words.contains("requested WAL segment") && words.contains("has already been removed")
}

/// For people.
fn told(command: &Command) -> String {
    match command {
        Command::Idle => "all is as it should be".to_owned(),
        Command::Wait(what) => format!("waiting for {what}"),
        Command::Fail(why) => format!("cannot go on: {why}"),
        Command::Write(why, record) => format!("{why:?} the Lease: {record:?}"),
        other => format!("{other:?}"),
    }
}
