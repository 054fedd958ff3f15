//! A simulated cluster with the product's operator in it, the people who use it, and what has to be true of both.

mod operator;
pub mod oracles;
pub mod snapshot;

use std::time::Duration;

use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::{Client, Resource};
use serde_json::{Value, json};
use tokio::sync::watch as channel;
use tokio::time::{Instant, sleep};

use super::Sim;
use super::cluster::Cluster;
use super::faults::Faults;
use super::kinds::named;
use super::store::Id;
use crate::pretence::REFUSED_HOST;
pub use operator::{Operator, USER};

/// The namespace of the proxies.
pub const NAMESPACE: &str = "shop";
/// How much virtual time anything may take: a check that fails is repeated after 10 minutes at most, a lease expires within 15 s.
pub const LIMIT: Duration = Duration::from_secs(1800);
/// Nothing more is to come when nothing has happened for so long.
const QUIET: Duration = Duration::from_secs(30);
/// The same in bad weather, in which an operator may see nothing for a minute, and wait for half a one before it looks again.
const QUIET_IN_STORMS: Duration = Duration::from_secs(130);
/// How often something that is waited for is looked at.
const GLANCE: Duration = Duration::from_millis(200);
/// The same, where it is to last.
const LONG_GLANCE: Duration = Duration::from_secs(2);

/// The spec of a proxy that leads to this port.
pub fn spec(port: u16) -> Value {
    leading_to("backend", port)
}

/// One that nginx refuses.
pub fn refused_spec() -> Value {
    leading_to(REFUSED_HOST, 80)
}

fn leading_to(host: &str, port: u16) -> Value {
    json!({
        "replicas": 2,
        "upstreams": [{"name": "up", "servers": [{"host": host, "port": port}]}],
        "routes": [{"path": "/", "upstream": "up"}],
    })
}

pub fn condition<'a>(proxy: &'a Value, type_: &str) -> &'a Value {
    let conditions = proxy["status"]["conditions"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    conditions
        .iter()
        .find(|condition| condition["type"] == type_)
        .unwrap_or(&Value::Null)
}

/// Whether a proxy is well, and its status is about its present spec.
pub fn is_ready(proxy: &Value) -> bool {
    condition(proxy, "Ready")["status"] == "True"
        && condition(proxy, "Progressing")["status"] == "False"
        && proxy["status"]["observed_generation"] == proxy["metadata"]["generation"]
}

/// A cluster with, at most times, an operator.
pub struct World {
    pub sim: Sim,
    pub cluster: Cluster,
    pub client: Client,
    operator: Option<Operator>,
    crashed: Option<channel::Receiver<bool>>,
    /// What happens to the requests of an operator that is started again.
    weather: Faults,
    quiet: Duration,
    started: usize,
}

impl World {
    /// With an operator to whose requests nothing happens.
    pub fn new() -> Self {
        let mut world = Self::without_operator();
        world.start(&Faults::default(), None);
        world
    }

    /// With an operator to all of whose requests `weather` may do something.
    pub fn in_weather(weather: Faults) -> Self {
        let mut world = Self::without_operator();
        world.start(&weather, None);
        world.weather = weather;
        world.quiet = QUIET_IN_STORMS;
        world
    }

    pub fn without_operator() -> Self {
        let sim = Sim::new();
        Self {
            cluster: Cluster::start(&sim),
            client: sim.client("user"),
            sim,
            operator: None,
            crashed: None,
            weather: Faults::default(),
            quiet: QUIET,
            started: 0,
        }
    }

    /// Starts an operator; when `crashed` says so it is killed, and another one takes its place.
    pub fn start(&mut self, faults: &Faults, crashed: Option<channel::Receiver<bool>>) {
        self.started += 1;
        let instance = format!("roadstead-operator-{}", self.started);
        self.operator = Some(Operator::start(
            &self.sim,
            self.cluster.agents(),
            USER,
            &instance,
            faults,
        ));
        self.crashed = crashed;
    }

    /// Ends the operator in order.
    pub async fn stop(&mut self) {
        self.no_panics();
        if let Some(operator) = self.operator.take() {
            operator.stop().await;
        }
    }

    /// Ends the operator on the spot, and starts another one.
    pub fn crash(&mut self) {
        self.no_panics();
        self.operator = None;
        self.start(&self.weather.clone(), None);
    }

    fn no_panics(&self) {
        let panics = self.operator.as_ref().map_or(0, Operator::panics);
        assert_eq!(panics, 0, "a reconcile panicked");
    }

    /// How many operators there were so far.
    pub fn operators(&self) -> usize {
        self.started
    }

    /// What its pod's kubelet does: an operator that crashed, or gave up, is started again.
    fn keep_running(&mut self) {
        let Some(operator) = &self.operator else { return };
        let crashed = self.crashed.as_ref().is_some_and(|crashed| *crashed.borrow());
        if crashed || operator.has_ended() {
            self.crash();
        }
    }

    /// One look at everything that must be true at all times.
    pub fn watch_over(&mut self) {
        self.keep_running();
        self.cluster.is_well();
        let panics = self.sim.panics();
        assert!(
            panics.is_empty(),
            "the API server was asked for what it does not model: {panics:#?}"
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
                started.elapsed() < LIMIT,
                "not within {LIMIT:?} of virtual time: {what}\n{:#}\n{}\n{}",
                self.proxies(),
                self.everything(),
                self.last_writes(30)
            );
            sleep(glance).await;
            self.watch_over();
        }
    }

    /// Waits until the proxy `name` is so.
    pub async fn until_proxy(&mut self, name: &str, what: &str, holds: impl Fn(&Value) -> bool) {
        let what = format!("{name} is {what}");
        self.until(&what, |world| world.proxy(name).as_ref().is_some_and(&holds))
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
    pub async fn until_gone(&mut self, name: &str) {
        let what = format!("{name} and all that belongs to it are gone");
        self.until(&what, |world| {
            world.sim.with(|store| oracles::leftovers(store, name).is_empty()) && world.proxy(name).is_none()
        })
        .await;
    }

    fn newest(&self) -> u64 {
        self.sim.with(|store| store.newest_but_leases())
    }

    pub fn get(&self, kind: &str, name: &str) -> Option<Value> {
        let id = Id::new(named(kind), NAMESPACE, name);
        self.sim.with(|store| store.get(&id).cloned())
    }

    pub fn proxy(&self, name: &str) -> Option<Value> {
        self.get("MyProxy", name)
    }

    pub fn list(&self, kind: &str) -> Vec<Value> {
        let kind = named(kind);
        self.sim.with(|store| {
            store
                .of_kind(kind, Some(NAMESPACE))
                .map(|(_, object)| object.clone())
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

    /// The reasons of the Events about a proxy.
    pub fn events(&self, name: &str) -> Vec<String> {
        let kind = Event::kind(&());
        let events = self.list(&kind);
        let about = events.iter().filter(|event| event["regarding"]["name"] == name);
        about
            .map(|event| event["reason"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    fn proxies(&self) -> Value {
        let mut proxies = self.list("MyProxy");
        for proxy in &mut proxies {
            proxy["metadata"]["managedFields"] = Value::Null;
        }
        json!(proxies)
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

    fn api(&self, kind: &str) -> Api<DynamicObject> {
        let kind = named(kind);
        let resource = ApiResource {
            group: kind.group.to_owned(),
            version: kind.version.to_owned(),
            api_version: kind.api_version(),
            kind: kind.kind.to_owned(),
            plural: kind.plural.to_owned(),
        };
        Api::namespaced_with(self.client.clone(), NAMESPACE, &resource)
    }

    /// As a user does it.
    pub async fn create(&self, name: &str, spec: Value) -> kube::Result<()> {
        let object = json!({"apiVersion": "roadstead.dev/v1alpha1", "kind": "MyProxy", "metadata": {"name": name}, "spec": spec});
        let object = serde_json::from_value(object).expect("an object");
        let created = self.api("MyProxy").create(&PostParams::default(), &object).await;
        created.map(|_| ())
    }

    /// As a user does it.
    pub async fn patch(&self, kind: &str, name: &str, patch: Value) -> kube::Result<()> {
        let api = self.api(kind);
        let patched = api
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        patched.map(|_| ())
    }

    /// As a user does it.
    pub async fn delete(&self, kind: &str, name: &str) -> kube::Result<()> {
        let deleted = self.api(kind).delete(name, &DeleteParams::background()).await;
        deleted.map(|_| ())
    }
}
