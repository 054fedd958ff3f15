//! A simulated cluster with an operator in it, the people who use it, and what has to be true of both.

mod ground;
mod operator;
pub mod oracles;
pub mod snapshot;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use roadstead::runtime::clock::Clock;
use roadstead::runtime::manager::ManagerError;
use serde_json::Value;
use tokio::sync::watch as channel;
use tokio::time::{Instant, sleep};

use super::Sim;
use super::cluster::Cluster;
use super::faults::{Chance, Faults};
use super::kinds::named;
use super::store::Id;
use crate::mutator::is_all_well;
use crate::people::People;
use crate::running::Running;
use crate::subjects::Subject;
pub use operator::{OPERATORS, USER};

/// The namespace of the people's objects.
pub const NAMESPACE: &str = "shop";
/// How much virtual time anything may take: a check that fails is repeated after 10 minutes at most, a lease expires within 15 s.
const LIMIT: Duration = Duration::from_secs(900);
/// The same in bad weather.
const LIMIT_IN_STORMS: Duration = Duration::from_secs(1800);
/// The same where nothing is missing and at most one thing goes wrong.
pub const LIMIT_IN_PEACE: Duration = Duration::from_secs(150);
/// Nothing more is to come when nothing has happened for so long.
const QUIET: Duration = Duration::from_secs(30);
/// The same in bad weather, in which an operator may see nothing for a minute, and wait for half a one before it looks again.
const QUIET_IN_STORMS: Duration = Duration::from_secs(130);
/// How often something that is waited for is looked at.
const GLANCE: Duration = Duration::from_millis(200);
/// The same, where it is to last.
const LONG_GLANCE: Duration = Duration::from_secs(2);

/// A cluster with, at most times, an operator.
pub struct World {
    pub subject: &'static Subject,
    pub sim: Sim,
    pub cluster: Cluster,
    pub people: People,
    operator: Option<Running>,
    crashed: Option<channel::Receiver<bool>>,
    /// Takes the place of an operator that has crashed.
    standby: Option<Running>,
    /// By how many seconds the operator's clock is ahead.
    ahead: Arc<AtomicI64>,
    /// What happens to the requests of an operator that is started again.
    weather: Faults,
    quiet: Duration,
    pub limit: Duration,
    started: usize,
}

impl World {
    /// With an operator to whose requests nothing happens.
    pub fn new(subject: &'static Subject) -> Self {
        let mut world = Self::without_operator(subject);
        world.start(&Faults::default(), None);
        world
    }

    /// With an operator to all of whose requests `weather` may do something.
    pub fn in_weather(subject: &'static Subject, weather: Faults) -> Self {
        let mut world = Self::without_operator(subject);
        world.start(&weather, None);
        world.weather = weather;
        world.quiet = QUIET_IN_STORMS;
        world.limit = LIMIT_IN_STORMS;
        world
    }

    pub fn without_operator(subject: &'static Subject) -> Self {
        let sim = Sim::new();
        let world = Self {
            subject,
            cluster: Cluster::start(&sim),
            people: People::of(subject, sim.client("user"), NAMESPACE),
            sim,
            operator: None,
            crashed: None,
            standby: None,
            ahead: Arc::default(),
            weather: Faults::default(),
            quiet: QUIET,
            limit: LIMIT,
            started: 0,
        };
        (subject.watched)(&world);
        world
    }

    /// Starts an operator; when `crashed` says so it is killed, and another one takes its place.
    pub fn start(&mut self, faults: &Faults, crashed: Option<channel::Receiver<bool>>) {
        self.operator = Some(self.another(USER, faults));
        self.crashed = crashed;
    }

    /// Starts one that waits for the lease, and takes the place of one that crashes.
    pub fn stand_by(&mut self, faults: &Faults) {
        self.standby = Some(self.another(USER, faults));
    }

    /// Starts one more, with `faults` between it and the API server, in whose log its requests are those of `user`.
    pub fn another(&mut self, user: &str, faults: &Faults) -> Running {
        self.started += 1;
        let instance = format!("{}-{}", self.subject.name, self.started);
        let seconds = Arc::clone(&self.ahead);
        let right = self.sim.clock();
        let clock = Clock::telling(move || {
            let ahead = SignedDuration::from_secs(seconds.load(Ordering::Relaxed));
            right.now().saturating_add(ahead).unwrap_or(Timestamp::MAX)
        });
        operator::start(self, user, &instance, faults, clock)
    }

    /// Sets the operator's clock forward by so many seconds, or back.
    pub fn set_clock(&self, seconds: i64) {
        self.ahead.fetch_add(seconds, Ordering::Relaxed);
    }

    /// From here on the operator's clock, which is right at first, is set to some other time within a day whenever anything changes.
    pub fn jump_at_every_change(&self, seed: u64) {
        let (ahead, mut chance) = (Arc::clone(&self.ahead), Chance::new(seed));
        self.sim.always(move |_| {
            let seconds = i64::try_from(chance.below(172_800)).unwrap_or(0) - 86_400;
            ahead.store(seconds, Ordering::Relaxed);
        });
    }

    /// Ends the operator in order.
    pub async fn stop(&mut self) {
        self.no_panics();
        if let Some(mut operator) = self.operator.take() {
            operator.stop().await;
        }
    }

    /// Ends the operator on the spot, and starts another one.
    pub fn crash(&mut self) {
        self.no_panics();
        self.crashed = None;
        self.operator = match self.standby.take() {
            Some(standby) => Some(standby),
            None => Some(self.another(USER, &self.weather.clone())),
        };
    }

    /// Ends the operator on the spot, and starts another one to whose requests nothing happens.
    pub fn start_anew(&mut self) {
        self.no_panics();
        self.start(&Faults::default(), None);
    }

    /// Has people create a good object of each kind, and waits until all is well.
    pub async fn populate(&mut self, name: &str) {
        let subject = self.subject;
        for kind in subject.kinds {
            let created = self.people.create(kind.name(), name, kind.base()).await;
            created.expect("a good spec");
        }
        self.until("all is well", |world| {
            world.sim.with(|store| is_all_well(subject, store.objects()))
        })
        .await;
        self.until_quiet().await;
    }

    fn no_panics(&self) {
        let panics = self.operator.as_ref().map_or(0, Running::panics);
        assert_eq!(panics, 0, "a reconcile panicked");
    }

    /// How many operators there were so far.
    pub fn operators(&self) -> usize {
        self.started
    }

    /// How often the operator that runs has reconciled.
    pub fn reconciles(&self) -> u64 {
        self.operator.as_ref().map_or(0, Running::reconciles)
    }

    /// What its pod's kubelet does: an operator that crashed is started again, and so is one that lost its lease, or could not list everything,
    /// in bad weather. Nothing else ends one.
    fn keep_running(&mut self) {
        let Some(operator) = &mut self.operator else {
            return;
        };
        let crashed = self.crashed.as_ref().is_some_and(|crashed| *crashed.borrow());
        let ended = operator.ended();
        if crashed {
            return self.crash();
        }
        match ended {
            None => {}
            Some(Err(ManagerError::LeaseLost(_) | ManagerError::NotSynced { .. }))
                if self.quiet == QUIET_IN_STORMS =>
            {
                self.crash();
            }
            Some(ended) => panic!("the operator has ended: {ended:?}"),
        }
    }

    /// One look at everything that must be true at all times.
    pub fn watch_over(&mut self) {
        self.keep_running();
        self.cluster.is_well();
        let panics = self.sim.panics();
        assert!(
            panics.is_empty(),
            "the API server panicked: asked for what it does not model, or an invariant is broken: {panics:#?}"
        );
    }

    /// Waits until `holds` says yes of the cluster.
    pub async fn until(&mut self, what: &str, holds: impl FnMut(&Self) -> bool) {
        self.glance_until(GLANCE, what, holds).await;
    }

    async fn glance_until(&mut self, glance: Duration, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        let started = Instant::now();
        while !holds(self) {
            assert!(
                started.elapsed() < self.limit,
                "not within {:?} of virtual time: {what}\n{}\n{}\n{}",
                self.limit,
                self.of_people(),
                self.everything(),
                self.last_writes(30)
            );
            sleep(glance).await;
            self.watch_over();
        }
    }

    /// Waits until the object is so.
    pub async fn until_object(&mut self, kind: &str, name: &str, what: &str, holds: impl Fn(&Value) -> bool) {
        let what = format!("{kind} {name} is {what}");
        self.until(&what, |world| world.get(kind, name).as_ref().is_some_and(&holds))
            .await;
    }

    /// Waits until nobody writes anything but the lease.
    pub async fn until_quiet(&mut self) {
        let mut seen = (self.newest(), Instant::now());
        self.glance_until(LONG_GLANCE, "nothing happens any more", |world| {
            if world.newest() != seen.0 {
                seen = (world.newest(), Instant::now());
            }
            seen.1.elapsed() >= world.quiet
        })
        .await;
        self.no_panics();
    }

    /// Waits until it has gone with all that belonged to it.
    pub async fn until_gone(&mut self, kind: &str, name: &str) {
        let what = format!("{kind} {name} and all that belongs to it are gone");
        self.until(&what, |world| {
            world
                .sim
                .with(|store| oracles::leftovers(store.objects(), kind, name).is_empty())
        })
        .await;
    }

    fn newest(&self) -> u64 {
        self.sim.with(|store| store.newest_but_leases())
    }

    pub fn get(&self, kind: &str, name: &str) -> Option<Value> {
        let id = Id::new(named(kind), NAMESPACE, name);
        self.sim
            .with(|store| store.get(&id).map(|object| Value::clone(object)))
    }

    pub fn list(&self, kind: &str) -> Vec<Value> {
        let kind = named(kind);
        self.sim.with(|store| {
            store
                .of_kind(kind, Some(NAMESPACE))
                .map(|(_, object)| Value::clone(object))
                .collect()
        })
    }

    pub fn names(&self, kind: &str) -> Vec<String> {
        let objects = self.list(kind);
        objects
            .iter()
            .map(|object| object["metadata"]["name"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    /// The reasons of the Events about an object.
    pub fn events(&self, name: &str) -> Vec<String> {
        let events = self.list("Event");
        let about = events.iter().filter(|event| event["regarding"]["name"] == name);
        about
            .map(|event| event["reason"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    /// The objects of the people, whole.
    fn of_people(&self) -> String {
        let mut text = String::new();
        for kind in self.subject.kinds {
            for mut object in self.list(kind.name()) {
                object["metadata"]["managedFields"] = Value::Null;
                text.push_str(&format!("{object:#}\n"));
            }
        }
        text
    }

    /// Every object in a line.
    fn everything(&self) -> String {
        self.sim.with(|store| {
            let lines = store.all().map(|(id, object)| {
                let metadata = &object["metadata"];
                let phase = object["status"]["phase"].as_str().unwrap_or_default();
                format!(
                    "{} {}/{} {} {phase}\n",
                    id.kind, id.namespace, id.name, metadata["resourceVersion"]
                )
            });
            lines.collect()
        })
    }

    /// The last requests that changed something or should have, for people who look for a mistake.
    pub fn last_writes(&self, count: usize) -> String {
        let log = self.sim.log();
        let writes: Vec<_> = log
            .iter()
            .filter(|entry| entry.verb.is_write() && entry.kind != "Lease")
            .collect();
        let last = writes.iter().skip(writes.len().saturating_sub(count));
        last.map(|entry| {
            format!(
                "{:>10.3} s  {:8} {} {}\n",
                entry.at.as_secs_f64(),
                entry.user,
                entry.code,
                entry.summary
            )
        })
        .collect()
    }
}
