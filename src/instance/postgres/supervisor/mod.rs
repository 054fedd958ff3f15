//! The life of the container: sees what there is, asks the protocol what to do, and does it.
//!
//! One loop holds all of it and waits for nothing: whatever takes time is a future beside it. So the end of a tenure is never noticed late.

mod act;
mod attempts;
mod content;
mod freshness;
mod furnish;
mod grace;
mod left;
#[cfg(test)]
mod making_tests;
mod owner;
mod pace;
mod pause;
mod run;
mod senses;
#[cfg(test)]
mod senses_tests;
mod settings;
mod show;
mod situation;
#[cfg(test)]
mod tests;
mod watchdog;
mod work;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use self::attempts::Attempts;
use self::freshness::Freshness;
use self::furnish::Furnishing;
use self::left::Found;
use self::pace::Pace;
use self::pause::Standstill;
use self::run::{Configured, Process};
use self::senses::Senses;
use self::settings::Mounted;
use self::watchdog::Watchdog;
use self::work::{Tools, WorkError};
use super::certificates::{self, Copied};
use super::floors::Floors;
use super::identity::{Identity, NoRandom};
use super::lease::{self, LeaseClient, LeaseError, Written};
use super::options::Options;
use super::peers::Peers;
use super::pods::PodClient;
use super::postmaster::Postmaster;
use super::program::ProgramError;
use super::programs::Programs;
use super::protocol::{Command, Data, Protocol, Work, Write};
use super::server::{self, Request, Shown};
use super::sql::SqlError;
use super::tls::Tls;
use super::volume::{Volume, VolumeError};
use crate::api::database::agent::{Lsn, Report, Settings};
use crate::instance::orphans::reap_orphans;
use crate::runtime::clock::Clock;

/// The loop turns at least so often.
const TICK: Duration = Duration::from_millis(100);
/// Between two looks at the mounted files.
const FILES: Duration = Duration::from_secs(1);
/// Between two attempts at what has to be there before anything else: settings, the volume's lock, PostgreSQL's programs.
const AGAIN: Duration = Duration::from_secs(1);
/// PostgreSQL has fallen silent if it has not answered for so long.
const SILENT: Duration = Duration::from_secs(5);
/// How long it may take to look at the own pod once the end is asked for.
const OWN_POD: Duration = Duration::from_millis(500);
/// Requests that wait for an answer.
const REQUESTS: usize = 16;

/// Why the manager ends without having been asked to.
#[derive(Debug, thiserror::Error)]
pub enum InstanceError {
    /// The port for probes and instances is not to be had.
    #[error("cannot listen on port {port}: {source}")]
    Listen {
        /// The port.
        port: u16,
        /// Why.
        source: io::Error,
    },
    /// There is no way to the API server.
    #[error("cannot reach the cluster: {0}")]
    Cluster(String),
    /// The system gives no thread for the watchdog.
    #[error(transparent)]
    System(#[from] io::Error),
    /// The system has no random numbers.
    #[error(transparent)]
    NoRandom(#[from] NoRandom),
    /// What runs as long as the instance does has ended, which is a defect: nothing that it saw or did would be seen or done any more.
    #[error("a task of the instance manager has ended{0}")]
    TaskEnded(String),
}

/// Runs an instance until it is asked to stop, which is when `stop` is done. `clock` is compared with times that the operator has written.
///
/// # Errors
/// When it cannot begin at all. What may pass is waited for, and its probes say what that is.
pub async fn run(
    options: Options,
    client: Client,
    clock: Clock,
    stop: impl Future<Output = ()>,
) -> Result<(), InstanceError> {
    let identity = Identity::new(options.uid.as_str())?;
    // When the kubelet tells of the end of this container, it tells of this number as well. Where there is no such file, others wait for the Lease to run out.
    if let Err(error) = std::fs::write(&options.termination_log, identity.nonce()) {
        tracing::warn!(%error, "cannot say in the termination log which process this is");
    }
    let tls = Tls::default();
    let (shown, show) = watch::channel(Shown {
        report: report_of(&options, &identity),
        ..Shown::default()
    });
    let (ask, requests) = mpsc::channel(REQUESTS);
    let listener = listen(&options).await?;
    // All end with this function.
    let mut tasks = JoinSet::new();
    let follow = tls.clone().follow(options.tls.clone());
    tasks.spawn(async move {
        follow.await;
    });
    let desk = tls.clone();
    tasks.spawn(async move {
        server::serve(listener, &desk, show, ask, std::future::pending()).await;
    });
    tasks.spawn(async {
        reap_orphans().await;
        // It has nothing to do where this is not the first process.
        std::future::pending().await
    });
    let pods = PodClient::new(client.clone(), &options.namespace, OWN_POD);
    let own = (options.name.clone(), options.uid.clone());
    let stop = async move {
        stop.await;
        grace::is_short(&pods.read(&own.0).await, &own.1)
    };
    let mut stop = std::pin::pin!(stop);
    let (mounted, tools) = tokio::select! {
        _ = &mut stop => return Ok(()),
        begun = begin(&options, &shown) => begun,
    };
    let watchdog = Watchdog::begin(tools.volume.holders_of_lock())?;
    let mut supervisor = Supervisor::new(
        options,
        identity,
        (client, clock),
        tls,
        (mounted, tools, watchdog),
        (shown, requests),
        &mut tasks,
    );
    until_one_ends(supervisor.live(stop), &mut tasks).await
}

/// Lives until that is over, or one of the tasks that should never end does.
async fn until_one_ends(
    life: impl Future<Output = ()>,
    tasks: &mut JoinSet<()>,
) -> Result<(), InstanceError> {
    tokio::select! {
        () = life => Ok(()),
        Some(ended) = tasks.join_next() => {
            let why = ended.err().map(|error| format!(": {error}"));
            Err(InstanceError::TaskEnded(why.unwrap_or_default()))
        }
    }
}

async fn listen(options: &Options) -> Result<TcpListener, InstanceError> {
    let port = options.control_port;
    let listener = match options.address {
        Some(address) => TcpListener::bind((address, port)).await,
        None => super::super::listen(port).await,
    };
    listener.map_err(|source| InstanceError::Listen { port, source })
}

fn report_of(options: &Options, identity: &Identity) -> Report {
    Report {
        name: options.name.clone(),
        identity: identity.to_string(),
        manager: env!("CARGO_PKG_VERSION").to_owned(),
        ..Report::default()
    }
}

/// Gets hold of what there has to be before anything else.
async fn begin(options: &Options, shown: &watch::Sender<Shown>) -> (Mounted, Tools) {
    let mut said = String::new();
    loop {
        // Nobody has said yet what time it is elsewhere.
        match prerequisites(options, Timestamp::now()).await {
            Ok(ready) => return ready,
            Err(reason) => {
                if reason != said {
                    tracing::warn!(reason, "cannot begin yet");
                    said.clone_from(&reason);
                }
                shown.send_modify(|shown| {
                    shown.made = Instant::now();
                    shown.report.message = Some(reason.clone());
                    shown.ready = Err(reason);
                });
            }
        }
        sleep(AGAIN).await;
    }
}

async fn prerequisites(options: &Options, now: Timestamp) -> Result<(Mounted, Tools), String> {
    let mounted = settings::read(options, now).map_err(|error| error.to_string())?;
    certificates::copy(options, &[], now).map_err(|error| error.to_string())?;
    let programs = Programs::find(options, mounted.settings.major)
        .await
        .map_err(|error| error.to_string())?;
    let volume = Volume::lock(options).map_err(|error| error.to_string())?;
    let tools = Tools {
        options: options.clone(),
        programs,
        volume: Arc::new(volume),
    };
    Ok((mounted, tools))
}

/// How a piece of work ended.
enum Done {
    /// Nothing was done for a moment.
    Rested,
    /// What is on the volume.
    Looked(Result<Data, WorkError>),
    /// What might be in the way of a start was taken away.
    Cleaned(Result<(), WorkError>),
    /// Whether the log goes up to there on that timeline.
    Proved(u32, Lsn, Result<bool, ProgramError>),
    /// PostgreSQL has ended, whatever it was; and what is on the volume then.
    Stopped(Result<Data, WorkError>),
    /// What a stop in order begins with.
    Checkpointed,
    /// It did not stop in order.
    Overdue,
    /// Data was made; and what is on the volume now.
    Made(Work, Result<(), WorkError>, Result<Data, WorkError>),
    /// Up to where this instance wrote as a primary.
    Found(Found),
    Promoted(Result<(), WorkError>),
    /// Whether another instance's PostgreSQL can be connected to.
    Reached(Result<(), WorkError>),
}

/// A write of the Lease: why, when it was sent, and what came of it.
type Attempt = (Write, Instant, Result<Written, LeaseError>);

/// What has happened.
enum Event {
    Tick,
    Files,
    Told,
    Asked(Request),
    Ended(io::Result<std::process::ExitStatus>),
    Worked(Done),
    Wrote(Write, Instant, Result<Written, LeaseError>),
    Pleaded(Instant, bool),
    Furnished(Result<(), SqlError>),
    Resumed(Result<(), SqlError>),
    Removed(Result<(), VolumeError>),
    AskedToStop { hurry: bool },
}

struct Supervisor {
    options: Options,
    tools: Tools,
    identity: Identity,
    began: Instant,
    mounted: Mounted,
    /// Why the mounted settings are not those that are gone by, if they are not.
    refused: Option<String>,
    /// What became of the certificates.
    copied: Copied,
    protocol: Protocol,
    /// What time it is at the API server.
    clock: Clock,
    lease: LeaseClient,
    /// By what the requests to the API server go.
    pace: Pace,
    seen: watch::Receiver<lease::Seen>,
    /// The Lease by which the protocol was last asked.
    judged: Option<Lease>,
    /// When the API server last answered without complaint.
    api: Option<Instant>,
    peers: Peers,
    senses: Senses,
    requests: mpsc::Receiver<Request>,
    content: content::Handle,
    shown: watch::Sender<Shown>,
    process: Process,
    configured: Configured,
    /// What PostgreSQL must have at least, as a replica.
    floors: Floors,
    /// The hash of the settings of which it is known what PostgreSQL makes of them.
    taken: Option<String>,
    data: Data,
    /// When to look at the volume again, if nothing could be told of it.
    look: Option<Instant>,
    attempts: Attempts,
    /// What was last looked for, see [`Report::wrote_up_to`].
    found: Option<Found>,
    freshness: Freshness,
    watchdog: Watchdog,
    work: Option<(Work, BoxFuture<'static, Done>)>,
    writing: Option<BoxFuture<'static, Attempt>>,
    pleading: Option<BoxFuture<'static, (Instant, bool)>>,
    /// There may be data that was put aside.
    aside: bool,
    /// It is being removed.
    removing: Option<BoxFuture<'static, Result<(), VolumeError>>>,
    /// It was a replica before, and is the primary since then.
    promoted: Option<Instant>,
    furnishing: Furnishing,
    standstill: Standstill,
    /// When clients last found in this primary what they need.
    of_use: Option<Instant>,
    said: Command,
    leave: bool,
}

impl Supervisor {
    fn new(
        options: Options,
        identity: Identity,
        (client, clock): (Client, Clock),
        tls: Tls,
        (mounted, tools, watchdog): (Mounted, Tools, Watchdog),
        (shown, requests): (watch::Sender<Shown>, mpsc::Receiver<Request>),
        tasks: &mut JoinSet<()>,
    ) -> Self {
        let Settings {
            timing,
            database,
            members,
            ..
        } = &mounted.settings;
        let pace = Pace::of(*timing);
        let lease = LeaseClient::new(client.clone(), &options.namespace, database, pace.limit());
        let follow = lease.clone().follow(pace.retry());
        tasks.spawn(async move {
            follow.await;
        });
        let content = content::begin(&options, client.clone(), tasks);
        let pods = PodClient::new(client, &options.namespace, pace.limit());
        let peers = Peers::on_port(tls, options.control_port);
        let found = left::kept(&options);
        let holders = tools.volume.holders_of_lock();
        let senses = Senses::begin(&options, members.clone(), (peers.clone(), pods, holders), tasks);
        Self {
            protocol: Protocol::new(&mounted.settings),
            began: Instant::now(),
            refused: None,
            copied: Copied::default(),
            seen: lease.subscribe(),
            judged: None,
            api: None,
            process: Process::default(),
            configured: Configured::default(),
            floors: Floors::default(),
            taken: None,
            data: Data::Unreadable("the volume was not looked at yet".to_owned()),
            look: None,
            attempts: Attempts::default(),
            found,
            freshness: Freshness::default(),
            work: None,
            writing: None,
            pleading: None,
            aside: true,
            removing: None,
            promoted: None,
            furnishing: Furnishing::default(),
            standstill: Standstill::default(),
            of_use: None,
            said: Command::Wait(String::new()),
            leave: false,
            options,
            clock,
            tools,
            identity,
            mounted,
            lease,
            pace,
            peers,
            senses,
            requests,
            content,
            shown,
            watchdog,
        }
    }

    async fn live(&mut self, stop: impl Future<Output = bool>) {
        let mut stop = std::pin::pin!(stop);
        let (mut ticks, mut files) = (interval(TICK), interval(FILES));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        files.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // What an earlier process of this pod has left is ended before anything is begun.
        self.kill();
        let mut told_to_stop = false;
        while !self.leave {
            let event = tokio::select! {
                hurry = &mut stop, if !told_to_stop => Event::AskedToStop { hurry },
                _ = ticks.tick() => Event::Tick,
                _ = files.tick() => Event::Files,
                _ = self.seen.changed() => Event::Told,
                _ = self.senses.answers.changed() => Event::Told,
                _ = self.senses.observed.changed() => Event::Told,
                _ = self.senses.ended.changed() => Event::Told,
                Some(request) = self.requests.recv() => Event::Asked(request),
                status = end_of(&mut self.process.postmaster) => Event::Ended(status),
                done = work_of(&mut self.work) => Event::Worked(done),
                (why, sent, outcome) = maybe(&mut self.writing) => Event::Wrote(why, sent, outcome),
                (sent, granted) = maybe(&mut self.pleading) => Event::Pleaded(sent, granted),
                outcome = maybe(&mut self.furnishing.making) => Event::Furnished(outcome),
                outcome = maybe(&mut self.standstill.resuming) => Event::Resumed(outcome),
                outcome = maybe(&mut self.removing) => Event::Removed(outcome),
            };
            if let Event::AskedToStop { hurry } = event {
                told_to_stop = true;
                tracing::info!(hurry, "asked to stop");
                self.protocol.asked_to_stop(hurry);
            }
            self.take(event);
            self.show_a_turn();
            let command = self.with(|protocol, situation| protocol.step(situation));
            self.carry_out(command);
            self.tell();
            self.show_a_turn();
        }
    }
}

/// What is being worked on, once it is done.
async fn work_of(work: &mut Option<(Work, BoxFuture<'static, Done>)>) -> Done {
    let Some((_, future)) = work else {
        return std::future::pending().await;
    };
    let done = future.await;
    *work = None;
    done
}

/// What a future brings, if there is one; it is done then.
async fn maybe<T>(slot: &mut Option<BoxFuture<'static, T>>) -> T {
    let Some(future) = slot else {
        return std::future::pending().await;
    };
    let outcome = future.await;
    *slot = None;
    outcome
}

/// The outcome of an attempt; a failure after so long, since it is tried again as soon as it is known.
async fn slow_to_fail<T, E>(attempt: impl Future<Output = Result<T, E>>, pause: Duration) -> Result<T, E> {
    let outcome = attempt.await;
    if outcome.is_err() {
        sleep(pause).await;
    }
    outcome
}

async fn end_of(postmaster: &mut Option<Postmaster>) -> io::Result<std::process::ExitStatus> {
    match postmaster {
        Some(postmaster) => postmaster.wait().await,
        None => std::future::pending().await,
    }
}
