//! What is looked at all the time, each by a task of its own: nothing that hangs keeps another from being seen.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use tokio::sync::watch;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::super::bounded::RequestError;
use super::super::canary::{Beat, Canary};
use super::super::effort::Effort;
use super::super::identity::Identity;
use super::super::options::Options;
use super::super::peers::Peers;
use super::super::pods::{PodClient, ended};
use super::super::protocol::Running;
use super::super::sql::{Configuration, Local, SqlError};
use super::super::volume::Holders;
use crate::api::database::agent::{Member, Report, Role};

/// Between two looks while nothing is wrong.
const CALM: Duration = Duration::from_secs(1);
/// Between two looks while the Lease is free, or might be.
const ALERT: Duration = Duration::from_millis(200);
/// Between two looks at PostgreSQL, and while the Lease is free, or might be.
const LOOK: Duration = Duration::from_millis(250);
const LOOK_NOW: Duration = Duration::from_millis(100);
/// How often it is asked what it goes by, if nothing has changed.
const CONFIGURATION: Duration = Duration::from_secs(5);
/// Each of PostgreSQL's processes has read its configuration so long after it was told to.
pub(super) const READ: Duration = Duration::from_millis(500);
/// Between two looks at what PostgreSQL does while it says nothing.
const EFFORT: Duration = Duration::from_secs(10);
/// Between two writes of a primary's own.
const BEAT: Duration = Duration::from_secs(1);
/// The SQLSTATE of a table that is not there.
const UNDEFINED_TABLE: &str = "42P01";
/// Between two attempts to label pods, and, once they are labelled, between two looks at whether they still are.
const LABEL: Duration = Duration::from_secs(1);
const LABELLED: Duration = Duration::from_secs(30);

/// What they tell, and what they are told.
pub(super) struct Senses {
    pub(super) answers: watch::Receiver<Answers>,
    pub(super) observed: watch::Receiver<Observed>,
    pub(super) beats: watch::Receiver<Beats>,
    /// In which start PostgreSQL was last seen to do more than wait, and when.
    pub(super) effort: watch::Receiver<Option<(u64, Instant)>>,
    /// The suspect, once its container has ended.
    pub(super) ended: watch::Receiver<Option<String>>,
    /// Whether to look more often.
    pub(super) alert: watch::Sender<bool>,
    pub(super) members: watch::Sender<Vec<Member>>,
    /// Which start of PostgreSQL this is, while it runs.
    pub(super) start: watch::Sender<Option<u64>>,
    /// Since when this is the primary, if it is.
    pub(super) leads: watch::Sender<Option<Instant>>,
    /// When PostgreSQL was last told to read its files.
    pub(super) reloaded: watch::Sender<Instant>,
    pub(super) suspect: watch::Sender<Suspect>,
    pub(super) labels: watch::Sender<Labels>,
}

impl Senses {
    /// Begins their tasks. `all` are the instances, this one among them.
    pub(super) fn begin(
        options: &Options,
        all: Vec<Member>,
        (peers, pods, holders): (Peers, PodClient, Holders),
        tasks: &mut JoinSet<()>,
    ) -> Self {
        let (alert, alerted) = watch::channel(true);
        let (members, member) = watch::channel(all);
        let (start, started) = watch::channel(None);
        let (leads, leading) = watch::channel(None);
        let (reloaded, reload) = watch::channel(Instant::now());
        let (suspect, suspected) = watch::channel(None);
        let (labels, labelled) = watch::channel(Labels::default());
        let (answer, answers) = watch::channel(Answers::new());
        let (observe, observed) = watch::channel(Observed::default());
        let (wrote, beats) = watch::channel(Beats::default());
        let (work, effort) = watch::channel(None);
        let (end, ended) = watch::channel(None);
        tasks.spawn(ask_peers(
            options.name.clone(),
            peers,
            member.clone(),
            alerted.clone(),
            answer,
        ));
        tasks.spawn(watch_effort(holders, started.clone(), observed.clone(), work));
        tasks.spawn(self::observe(
            options.clone(),
            alerted,
            started,
            member,
            reload,
            observe,
        ));
        tasks.spawn(beat(options.clone(), leading, wrote));
        tasks.spawn(look_for_the_end(pods.clone(), suspected, end));
        tasks.spawn(label(options.clone(), pods, labelled));
        Self {
            answers,
            observed,
            beats,
            effort,
            ended,
            alert,
            members,
            start,
            leads,
            reloaded,
            suspect,
            labels,
        }
    }
}

/// What an instance said of itself, and when it was asked.
pub(super) type Answers = BTreeMap<String, (Report, Instant)>;

/// Asks the others, more often while `alert` says so, and none of them waits for another. What an instance said last stays until it says something else.
async fn ask_peers(
    me: String,
    peers: Peers,
    mut members: watch::Receiver<Vec<Member>>,
    alert: watch::Receiver<bool>,
    told: watch::Sender<Answers>,
) {
    loop {
        let mut others = members.borrow_and_update().clone();
        others.retain(|member| member.name != me);
        told.send_modify(|told| told.retain(|name, _| others.iter().any(|other| other.name == *name)));
        let each = others
            .iter()
            .map(|other| ask_peer(other, &peers, alert.clone(), &told));
        tokio::select! {
            _ = join_all(each), if !others.is_empty() => return,
            changed = members.changed() => if changed.is_err() { return },
        }
    }
}

/// Asks one of them, until there is nobody to tell any more.
async fn ask_peer(
    other: &Member,
    peers: &Peers,
    mut alert: watch::Receiver<bool>,
    told: &watch::Sender<Answers>,
) {
    loop {
        for (name, answer) in peers.survey(std::slice::from_ref(other)).await {
            match answer {
                Ok(answer) => told.send_modify(|told| drop(told.insert(name, answer))),
                Err(error) => tracing::debug!(peer = name, %error, "an instance does not answer"),
            }
        }
        let pause = if *alert.borrow_and_update() { ALERT } else { CALM };
        if !rest(pause, &mut alert).await {
            return;
        }
    }
}

/// What PostgreSQL said last: of which start, and when it was asked.
#[derive(Clone, Debug, Default)]
pub(super) struct Observed {
    pub(super) start: u64,
    pub(super) running: Option<(Running, Instant)>,
    /// Of this start alone.
    pub(super) configuration: Option<(Configuration, Instant)>,
}

/// Asks the local PostgreSQL, while there is one: `start` counts its starts, and is none while it is stopped. More often while `alert` says so, since others then
/// wait for how far it is.
async fn observe(
    options: Options,
    mut alert: watch::Receiver<bool>,
    mut start: watch::Receiver<Option<u64>>,
    members: watch::Receiver<Vec<Member>>,
    reloaded: watch::Receiver<Instant>,
    told: watch::Sender<Observed>,
) {
    let mut local = Local::new(&options);
    loop {
        let Some(number) = *start.borrow_and_update() else {
            local = Local::new(&options);
            if start.changed().await.is_err() {
                return;
            }
            continue;
        };
        let all = members.borrow().clone();
        let asked = Instant::now();
        let is_due = {
            let told = told.borrow();
            let known = told.configuration.as_ref().filter(|_| told.start == number);
            known.is_none_or(|(_, at)| {
                asked.duration_since(*at) >= CONFIGURATION || *at < *reloaded.borrow() + READ
            })
        };
        let look = async {
            let running = local.observe(&all).await?;
            let configuration = if is_due {
                Some(local.configuration().await?)
            } else {
                None
            };
            Ok::<_, SqlError>((running, configuration))
        };
        tokio::select! {
            answer = look => match answer {
                Ok((running, configuration)) => told.send_modify(|told| {
                    if told.start != number {
                        told.configuration = None;
                    }
                    (told.start, told.running) = (number, Some((running, asked)));
                    if let Some(configuration) = configuration {
                        told.configuration = Some((configuration, asked));
                    }
                }),
                Err(error) => tracing::debug!(%error, "PostgreSQL does not answer"),
            },
            changed = start.changed() => {
                if changed.is_err() { return }
                continue;
            }
        }
        let pause = if *alert.borrow_and_update() {
            LOOK_NOW
        } else {
            LOOK
        };
        if !rest(pause, &mut alert).await {
            return;
        }
    }
}

/// Looks whether the PostgreSQL of this start does more than wait, as long as it does not answer; tells of which start, and when it was seen to the last time.
/// Nothing where the kernel does not tell.
async fn watch_effort(
    holders: Holders,
    mut start: watch::Receiver<Option<u64>>,
    observed: watch::Receiver<Observed>,
    told: watch::Sender<Option<(u64, Instant)>>,
) {
    let mut before: Option<(u64, Effort)> = None;
    loop {
        let number = *start.borrow_and_update();
        let answers = |number: &u64| {
            let observed = observed.borrow();
            observed.running.is_some() && observed.start == *number
        };
        let seen = match number.filter(|number| !answers(number)) {
            Some(number) => {
                // A process whose disk hangs may keep whoever looks at it.
                let look = spawn_blocking(move || Effort::find(&holders.find().unwrap_or_default()));
                look.await.ok().flatten().map(|effort| (number, effort))
            }
            None => None,
        };
        match (seen, before) {
            (None, _) => {
                before = None;
                told.send_replace(None);
            }
            (Some((start, effort)), Some((same, less))) if start == same && !effort.is_more_than(&less) => {}
            (Some((start, _)), _) => {
                before = seen;
                told.send_replace(Some((start, Instant::now())));
            }
        }
        if !rest(EFFORT, &mut start).await {
            return;
        }
    }
}

/// What came of the writes of a primary's own.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Beats {
    pub(super) committed: Option<Instant>,
    /// Committed, or at least answered.
    pub(super) alive: Option<Instant>,
}

/// Writes as long as `leads` says that this is a primary, and since when. What takes long counts once it is done.
pub(super) async fn beat(
    options: Options,
    mut leads: watch::Receiver<Option<Instant>>,
    told: watch::Sender<Beats>,
) {
    let mut canary = Canary::new(&options);
    let mut ticks = interval(BEAT);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        if leads.borrow_and_update().is_none() {
            told.send_replace(Beats::default());
            canary = Canary::new(&options);
            if leads.changed().await.is_err() {
                return;
            }
            continue;
        }
        ticks.tick().await;
        let beat = tokio::select! {
            beat = canary.beat() => beat,
            // One of a PostgreSQL that has ended holds up none of the next.
            changed = leads.changed() => if changed.is_err() { return } else { continue },
        };
        let now = Instant::now();
        match beat {
            Beat::Committed => told.send_modify(|beats| {
                *beats = Beats {
                    committed: Some(now),
                    alive: Some(now),
                }
            }),
            Beat::Answered { code, message } => {
                // The very first primary has no table yet.
                if code != UNDEFINED_TABLE {
                    tracing::warn!(code, message, "a write of our own was refused");
                }
                told.send_modify(|beats| beats.alive = Some(now));
            }
            Beat::Silent(reason) => tracing::warn!(reason, "a write of our own was not answered"),
        }
    }
}

/// Whom to look for: the pod that should have the holder of the Lease in it.
pub(super) type Suspect = Option<(String, Identity)>;

/// Looks whether the kubelet says that the suspect's container has ended; says whose has.
async fn look_for_the_end(
    pods: PodClient,
    mut suspect: watch::Receiver<Suspect>,
    told: watch::Sender<Option<String>>,
) {
    loop {
        let Some((name, identity)) = suspect.borrow_and_update().clone() else {
            if suspect.changed().await.is_err() {
                return;
            }
            continue;
        };
        match pods.read(&name).await {
            Ok(Some(pod)) if ended(&pod, &identity) => {
                told.send_replace(Some(identity.to_string()));
            }
            Ok(_) => {}
            Err(error) => tracing::debug!(pod = name, %error, "cannot look at the pod of the Lease's holder"),
        }
        if !rest(ALERT, &mut suspect).await {
            return;
        }
    }
}

/// What the labels of pods are to say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Labels {
    pub(super) role: Role,
    /// Whether this instance holds the Lease, so that no other is a primary.
    pub(super) holds: bool,
    /// The names of the other instances.
    pub(super) others: Vec<String>,
}

/// Has the labels of pods say what they are to say. Whoever holds the Lease takes the label of a primary from the others at once, while it is still promoted: nobody is
/// to be led to the one before, who may go on without knowing better. What it is itself it says once it is that.
pub(super) async fn label(options: Options, pods: PodClient, mut wanted: watch::Receiver<Labels>) {
    // Of whom it is known, and since when, that they have no such label.
    let mut taken: Option<(Vec<String>, Instant)> = None;
    loop {
        let labels = wanted.borrow_and_update().clone();
        taken.take_if(|(others, at)| !labels.holds || *others != labels.others || at.elapsed() >= LABELLED);
        let mut done = true;
        if labels.holds && taken.is_none() {
            let each = labels
                .others
                .iter()
                .map(|other| async { is_done(other, pods.take_role(other, Role::Primary).await) });
            done = join_all(each).await.into_iter().all(|done| done);
            taken = done.then(|| (labels.others.clone(), Instant::now()));
        }
        let own = pods
            .set_role(&options.name, Some(&options.uid), labels.role)
            .await;
        done &= is_done(&options.name, own);
        if !rest(if done { LABELLED } else { LABEL }, &mut wanted).await {
            return;
        }
    }
}

/// Whether a pod is labelled as it should be.
fn is_done<T>(name: &str, labelled: Result<T, RequestError>) -> bool {
    if let Err(error) = &labelled {
        tracing::warn!(pod = name, %error, "cannot label the pod");
    }
    labelled.is_ok()
}

/// Waits for so long, or for news. False if there will be none any more.
async fn rest<T>(pause: Duration, news: &mut watch::Receiver<T>) -> bool {
    tokio::select! {
        () = sleep(pause) => true,
        changed = news.changed() => changed.is_ok(),
    }
}
