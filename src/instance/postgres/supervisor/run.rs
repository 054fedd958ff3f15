//! PostgreSQL itself: its data is made, it is started, promoted, stopped and killed, and told what to go by.

use std::time::Duration;

use futures::FutureExt;
use tokio::time::{Instant, sleep};

use super::super::config::render;
use super::super::postmaster::{LastWords, Postmaster, kill_all};
use super::super::protocol::{Data, Server, Stored, Work};
use super::super::volume::Volume;
use super::act::PAUSE;
use super::left::Left;
use super::work::{Tools, WorkError};
use super::{Done, Supervisor};
use crate::api::database::agent::{Lsn, Quorum, Synchronous};

/// PostgreSQL is asked to end at once before it is killed.
const LAST_WORDS: Duration = Duration::from_millis(300);
/// What is killed ends within this time, or is looked at again.
const KILLED: Duration = Duration::from_secs(5);
/// Who ends so soon has not come to work.
const HASTY: Duration = Duration::from_secs(2);

/// PostgreSQL, from one start to the next.
#[derive(Default)]
pub(super) struct Process {
    pub(super) postmaster: Option<Postmaster>,
    /// How often it was started, and when last.
    pub(super) starts: u64,
    started: Option<Instant>,
    /// It has ended by itself: what it said may still be coming, and whether it had answered before.
    pub(super) last: Option<(LastWords, bool)>,
    /// Why it last ended by itself, as far as it said so, or could not be started.
    pub(super) ending: String,
    /// It is being killed.
    pub(super) killing: bool,
}

/// What PostgreSQL was configured with.
#[derive(Default)]
pub(super) struct Configured {
    pub(super) upstream: Option<String>,
    pub(super) quorum: Option<Quorum>,
    /// As a replica.
    pub(super) follows: bool,
}

impl Supervisor {
    /// Makes data, as long as PostgreSQL is stopped, unless it was tried not long ago.
    pub(super) fn make(&mut self, work: Work, from: Option<String>) {
        let left = self
            .record()
            .and_then(|record| Left::of(&record, &self.data, self.found));
        if let Some(left) = left {
            // Told as soon as it is known: what comes next may take hours, or be cut off.
            let tools = self.tools.clone();
            let find = async move { Done::Found(tools.find_end(left).await) };
            self.work = Some((Work::Other, find.boxed()));
            return;
        }
        if !self.attempts.may_begin(from.as_deref(), Instant::now()) {
            return;
        }
        let host = from
            .as_ref()
            .and_then(|name| self.member(name))
            .map(|member| member.host.clone());
        if from.is_some() && host.is_none() {
            tracing::error!(from, "the settings do not say where that instance is");
            self.pause();
            return;
        }
        (self.configured.upstream, self.configured.quorum) = (None, None);
        self.configure();
        let (tools, host) = (self.tools.clone(), host.unwrap_or_default());
        let future = async move {
            let outcome = match work {
                Work::Initialising => tools.initialise().await,
                Work::Joining => tools.join(&host).await,
                _ => tools.rewind(&host).await,
            };
            let data = tools.inspect().await;
            Done::Made(work, outcome, data)
        };
        self.work = Some((work, future.boxed()));
    }

    /// Finds out whether the log goes up to there. Where the image has no program that could tell, it is taken for what it is.
    pub(super) fn prove(&mut self, timeline: u32, end: Lsn) {
        let Data::Present(stored) = &self.data else {
            return;
        };
        let checkpoint = Some(stored.end).filter(|_| stored.timeline == timeline);
        let files = (checkpoint, stored.segment);
        let tools = self.tools.clone();
        let prove = async move {
            let goes = match tools.log_goes_to((timeline, end), files).await {
                Err(error) if error.is_of_the_image() => {
                    tracing::warn!(%error, "the image has nothing to tell how far the log goes, which should go up to {end}");
                    Ok(true)
                }
                goes => goes,
            };
            Done::Proved(timeline, end, goes)
        };
        self.work = Some((Work::Other, prove.boxed()));
    }

    /// Finds out whether another instance's PostgreSQL can be connected to.
    pub(super) fn reach(&mut self, name: &str) {
        let Some(host) = self.member(name).map(|member| member.host.clone()) else {
            return;
        };
        let tools = self.tools.clone();
        let reach = async move { Done::Reached(tools.reach(&host).await) };
        self.work = Some((Work::Other, reach.boxed()));
    }

    pub(super) fn start_postgres(&mut self, upstream: Option<String>, quorum: Option<Quorum>) {
        (self.configured.upstream, self.configured.quorum) = (upstream, quorum);
        self.configure();
        let timeline = match &self.data {
            Data::Present(Stored { timeline, .. }) => *timeline,
            _ => 0,
        };
        let tools = self.tools.clone();
        let clean = async move { Done::Cleaned(tools.clean(timeline).await) };
        self.work = Some((Work::Other, clean.boxed()));
    }

    /// Nothing is in the way of its start any more.
    pub(super) fn cleaned(&mut self, outcome: Result<(), WorkError>) {
        let Tools {
            programs,
            options,
            volume,
        } = &self.tools;
        let started = outcome.and_then(|()| Ok(Postmaster::start(programs, options, volume)?));
        match started {
            Ok(postmaster) => {
                self.process.starts += 1;
                self.process.started = Some(Instant::now());
                self.process.postmaster = Some(postmaster);
                // These are what it reads as it starts.
                self.taken = Some(self.mounted.hash.clone());
                self.senses.start.send_replace(Some(self.process.starts));
            }
            Err(error) => {
                tracing::error!(%error, "cannot start PostgreSQL");
                self.process.ending = error.to_string();
                self.protocol.ended(&self.process.ending);
                self.pause();
            }
        }
    }

    /// What could not be begun is not tried again at once.
    pub(super) fn pause(&mut self) {
        let pause = sleep(PAUSE).map(|()| Done::Rested);
        self.work = Some((Work::Other, pause.boxed()));
    }

    pub(super) fn promote(&mut self, after: u32, quorum: Option<Quorum>) {
        let (Server::Running(running), looked) = self.server(Instant::now()) else {
            return;
        };
        // What it said before it was promoted is no reason to promote it again.
        if self.promoted.is_some() && looked < self.promoted {
            return;
        }
        self.configured.quorum.clone_from(&quorum);
        self.configured.follows = false;
        self.configure();
        let (tools, settings) = (self.tools.clone(), self.mounted.settings.clone());
        let promote =
            async move { Done::Promoted(tools.promote(running.timeline, after, &settings, quorum).await) };
        self.work = Some((Work::Promoting, promote.boxed()));
    }

    /// Stops PostgreSQL, after a checkpoint if it is a primary, so that the stop itself is short. Where it does not run, what makes its data is cut off.
    pub(super) fn stop_in_order(&mut self) {
        if matches!(self.work, Some((Work::Stopping, _))) {
            return;
        }
        if self.process.postmaster.is_none() {
            if self.work.is_some() {
                self.kill();
            }
            return;
        }
        let leads = matches!(self.server(Instant::now()).0, Server::Running(running) if running.primary);
        let tools = self.tools.clone();
        let begin = async move {
            if leads {
                tools.checkpoint().await;
            }
            Done::Checkpointed
        };
        self.work = Some((Work::Stopping, begin.boxed()));
    }

    /// Ends PostgreSQL whatever it is doing, and whatever else works with the data.
    pub(super) fn kill(&mut self) {
        if self.process.killing {
            return;
        }
        self.process.killing = true;
        let asked = self
            .process
            .postmaster
            .as_ref()
            .map(Postmaster::stop_immediately)
            .is_some();
        // What ends right after its start would be started again and again.
        let hasty = self
            .process
            .started
            .take()
            .is_some_and(|started| started.elapsed() < HASTY);
        let tools = self.tools.clone();
        let kill = async move {
            if asked {
                sleep(LAST_WORDS).await;
            } else if hasty {
                sleep(PAUSE).await;
            }
            while !is_gone(&tools.volume).await {
                tracing::error!(
                    "processes of PostgreSQL cannot be killed: the kernel keeps those that wait for a disk"
                );
            }
            Done::Stopped(tools.inspect().await)
        };
        // What was under way ends with the old future.
        self.work = Some((Work::Stopping, kill.boxed()));
    }

    /// Writes PostgreSQL's files, and has it read them if they are others.
    pub(super) fn configure(&mut self) {
        // Whom it is to follow may show another certificate than the one before.
        let renewed = self.copy_certificates();
        let upstream = self
            .configured
            .upstream
            .as_ref()
            .and_then(|name| self.member(name));
        let mut settings = self.mounted.settings.clone();
        let raised = self.floors.raised(&settings.parameters);
        settings.parameters.extend(raised);
        let files = render(&settings, &self.options, upstream, self.waits().as_ref());
        match files.write(&self.options) {
            Ok(true) => {
                self.senses.reloaded.send_replace(Instant::now());
                self.reload();
            }
            Ok(false) if renewed => self.reload(),
            Ok(false) => {}
            Err(error) => tracing::error!(%error, "cannot write PostgreSQL's configuration"),
        }
    }

    /// What PostgreSQL has commits wait for. A replica is told something as well: that commits wait at all is known only once the checkpointer has noticed,
    /// which may take it long, and the first commit after a promotion must wait already.
    fn waits(&self) -> Option<Quorum> {
        let settings = &self.mounted.settings;
        if !self.configured.follows || settings.synchronous == Synchronous::Off {
            return self.configured.quorum.clone();
        }
        let others = settings.others(&self.options.name);
        let standbys = others.map(str::to_owned).collect();
        Some(Quorum { standbys, need: 1 })
    }

    /// Has PostgreSQL read its files, if it runs.
    pub(super) fn reload(&self) {
        if let Some(postmaster) = &self.process.postmaster {
            postmaster.reload();
        }
    }
}

/// Whether nobody works with the data any more, after an attempt to end all who do.
async fn is_gone(volume: &Volume) -> bool {
    match kill_all(volume, KILLED).await {
        Ok(gone) => gone,
        Err(error) => {
            tracing::error!(%error, "cannot tell which processes work with the data");
            sleep(PAUSE).await;
            false
        }
    }
}
