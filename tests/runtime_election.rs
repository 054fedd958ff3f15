//! Leader election between real processes, against a real API server: whatever becomes of the leader, there are never two writers.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    missing_docs,
    reason = "a test says what is wrong by a panic"
)]

#[path = "support/apiserver.rs"]
mod apiserver;

use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use apiserver::{ApiServer, within};
use futures::StreamExt;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Client, ResourceExt};
use roadstead::runtime::cache::Watch;
use roadstead::runtime::client::Clients;
use roadstead::runtime::controller::Controller;
use roadstead::runtime::lease::{Leadership, LeaseConfig};
use roadstead::runtime::manager::{Manager, ManagerOptions};
use roadstead::runtime::metrics::RuntimeMetrics;
use roadstead::runtime::reconcile::{Context, Next, Reconciler};
use roadstead::runtime::retry::{ReconcileError, Retry};
use roadstead::telemetry::metrics::Metrics;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

const LEASE: Duration = Duration::from_secs(3);
const DEADLINE: Duration = Duration::from_secs(2);
const RETRY: Duration = Duration::from_millis(400);
/// What a busy machine may add to any of these.
const MARGIN: Duration = Duration::from_secs(3);
const LIMIT: Duration = Duration::from_secs(20);

/// Writes its name into a ConfigMap as fast as it can, and with no other guard than the fence.
struct Scribe {
    name: String,
}

#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct ScribeError(#[from] kube::Error);

impl ReconcileError for ScribeError {
    fn category(&self) -> &'static str {
        "scribe"
    }
    fn retry(&self) -> Retry {
        Retry::After(Duration::from_millis(5))
    }
}

impl Reconciler for Scribe {
    type Kind = ConfigMap;
    type Error = ScribeError;

    async fn reconcile(&self, page: Arc<ConfigMap>, context: &Context) -> Result<Next, ScribeError> {
        let pages: Api<ConfigMap> =
            Api::namespaced(context.client().clone(), &page.namespace().unwrap_or_default());
        let time = jiff::Timestamp::now().to_string();
        let patch = Patch::Merge(json!({"data": {"writer": self.name, "time": time}}));
        pages.patch("record", &PatchParams::default(), &patch).await?;
        Ok(Next::After(Duration::from_millis(5)))
    }
}

/// Not a test: the operator that the tests start as processes of their own. Without their environment it does nothing.
#[test]
#[ignore = "started by the tests of this file"]
fn contender() {
    let (Ok(name), Ok(namespace), Ok(ready)) = (
        std::env::var("CONTENDER"),
        std::env::var("CONTENDER_NAMESPACE"),
        std::env::var("CONTENDER_READY"),
    ) else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let outcome = runtime.block_on(async {
        let metrics = Arc::new(Metrics::new());
        let runtime_metrics = RuntimeMetrics::register(&metrics);
        let config = kube::Config::infer().await.unwrap();
        let clients = Clients::connect(config, Leadership::standby(), LIMIT, &runtime_metrics).unwrap();
        let lease = LeaseConfig {
            lease_duration: LEASE,
            renew_deadline: DEADLINE,
            retry_period: RETRY,
            ..LeaseConfig::new(&namespace, "contest", &name)
        };
        let options = ManagerOptions {
            lease: Some(lease),
            namespaces: vec![namespace],
            ..ManagerOptions::new("contender", &name)
        };
        let mut manager = Manager::new(clients, options, metrics, runtime_metrics);
        let pages = manager.cache::<ConfigMap>(Watch::labelled("contest=yes"));
        manager.add(Controller::new("scribe", &pages, Scribe { name }));
        let health = manager.health();
        tokio::spawn(async move {
            while health.ready().is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            std::fs::write(ready, "ready").unwrap();
        });
        let mut terminate =
            tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).unwrap();
        manager.run(async move { terminate.recv().await.unwrap() }).await
    });
    std::process::exit(if outcome.is_ok() { 0 } else { 3 });
}

/// A process of the test, gone with it.
struct Process {
    child: Child,
    ready: PathBuf,
}

impl Process {
    fn contender(contest: &Contest, name: &str) -> Self {
        let ready = contest.folder.path().join(name);
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL"])
            .arg(std::env::current_exe().unwrap());
        command.args(["--exact", "contender", "--ignored"]);
        command
            .env("KUBECONFIG", ApiServer::shared().kubeconfig())
            .env("CONTENDER", name);
        command
            .env("CONTENDER_NAMESPACE", &contest.namespace)
            .env("CONTENDER_READY", &ready);
        let child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, ready }
    }

    async fn until_ready(&self) {
        within(LIMIT, "the process has filled its caches", async || {
            self.ready.exists()
        })
        .await;
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    async fn ended(&mut self) -> ExitStatus {
        let mut status = None;
        within(LIMIT, "the process has ended", async || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        })
        .await;
        status.unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A namespace with a record into which contenders write, and everything that was ever written there.
struct Contest {
    namespace: String,
    client: Client,
    folder: tempfile::TempDir,
    written: Arc<Mutex<Vec<(String, Instant)>>>,
}

impl Contest {
    async fn new(name: &str) -> Self {
        let server = ApiServer::shared();
        let (namespace, client) = (server.namespace(name).await, server.client().await);
        let pages: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
        for (name, contest) in [("page", "yes"), ("record", "no")] {
            let page = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"contest": contest}}});
            pages
                .create(&PostParams::default(), &serde_json::from_value(page).unwrap())
                .await
                .unwrap();
        }
        let written = Arc::<Mutex<Vec<(String, Instant)>>>::default();
        let record = Arc::clone(&written);
        let from = pages.get("record").await.unwrap().resource_version().unwrap();
        tokio::spawn(async move {
            let only = WatchParams::default().fields("metadata.name=record");
            let mut events = pages.watch(&only, &from).await.unwrap().boxed();
            while let Some(Ok(WatchEvent::Modified(page))) = events.next().await {
                let writer = page.data.unwrap()["writer"].clone();
                record.lock().unwrap().push((writer, Instant::now()));
            }
        });
        Self {
            namespace,
            client,
            folder: tempfile::tempdir().unwrap(),
            written,
        }
    }

    /// How often `writer` wrote.
    fn count(&self, writer: &str) -> usize {
        self.written
            .lock()
            .unwrap()
            .iter()
            .filter(|(name, _)| name == writer)
            .count()
    }

    fn first_write(&self, writer: &str) -> Instant {
        self.written
            .lock()
            .unwrap()
            .iter()
            .find(|(name, _)| name == writer)
            .unwrap()
            .1
    }

    async fn until_writes(&self, writer: &str) {
        let before = self.count(writer);
        within(LIMIT, &format!("{writer} writes"), async || {
            self.count(writer) >= before + 20
        })
        .await;
    }

    /// The promise: once a second process has written, the first never does again.
    fn assert_one_writer_after_the_other(&self, expected: &[&str]) {
        let mut writers: Vec<String> = self
            .written
            .lock()
            .unwrap()
            .iter()
            .map(|(name, _)| name.clone())
            .collect();
        writers.dedup();
        assert_eq!(writers, expected);
    }

    async fn lease(&self) -> (String, i32) {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), &self.namespace);
        let spec = leases.get("contest").await.unwrap().spec.unwrap();
        (
            spec.holder_identity.unwrap_or_default(),
            spec.lease_transitions.unwrap_or_default(),
        )
    }
}

/// Two contenders, of which the first leads and the second stands by with its caches filled.
async fn two(contest: &Contest) -> (Process, Process) {
    let first = Process::contender(contest, "first");
    contest.until_writes("first").await;
    let second = Process::contender(contest, "second");
    second.until_ready().await;
    assert_eq!(contest.count("second"), 0);
    (first, second)
}

#[tokio::test]
async fn when_the_leader_is_killed_the_other_leads_after_the_lease_duration() {
    let contest = Contest::new("killed").await;
    let (first, _second) = two(&contest).await;
    let killed = Instant::now();
    first.signal(Signal::KILL);
    contest.until_writes("second").await;
    let takeover = contest.first_write("second").duration_since(killed);
    println!("figure lease.takeover_after_kill {:.2} s", takeover.as_secs_f64());
    assert!(takeover > DEADLINE && takeover < LEASE + MARGIN, "{takeover:?}");
    contest.assert_one_writer_after_the_other(&["first", "second"]);
    assert_eq!(contest.lease().await, ("second".to_owned(), 1));
}

#[tokio::test]
async fn a_leader_that_was_paused_past_its_deadline_ends_without_another_write() {
    let contest = Contest::new("paused").await;
    let (mut first, _second) = two(&contest).await;
    let paused = Instant::now();
    first.signal(Signal::STOP);
    contest.until_writes("second").await;
    let takeover = contest.first_write("second").duration_since(paused);
    println!(
        "figure lease.takeover_after_pause {:.2} s",
        takeover.as_secs_f64()
    );
    let before = contest.count("first");
    first.signal(Signal::CONT);
    assert_eq!(
        first.ended().await.code(),
        Some(3),
        "it must not end as if all were well"
    );
    contest.until_writes("second").await;
    assert_eq!(contest.count("first"), before);
    contest.assert_one_writer_after_the_other(&["first", "second"]);
}

#[tokio::test]
async fn a_leader_that_stops_hands_over_within_a_second() {
    let contest = Contest::new("released").await;
    let (mut first, _second) = two(&contest).await;
    let told = Instant::now();
    first.signal(Signal::TERM);
    assert_eq!(first.ended().await.code(), Some(0));
    let ended = Instant::now();
    contest.until_writes("second").await;
    let takeover = contest.first_write("second").saturating_duration_since(ended);
    let since_told = contest.first_write("second").duration_since(told);
    println!("figure lease.takeover_after_release {} ms", takeover.as_millis());
    println!(
        "figure lease.takeover_after_sigterm {} ms",
        since_told.as_millis()
    );
    assert!(takeover < Duration::from_secs(1), "{takeover:?}");
    contest.assert_one_writer_after_the_other(&["first", "second"]);
    assert_eq!(contest.lease().await, ("second".to_owned(), 1));
}

#[tokio::test]
async fn a_leader_whose_lease_another_took_ends_at_once() {
    let contest = Contest::new("taken").await;
    let mut first = Process::contender(&contest, "first");
    contest.until_writes("first").await;
    let leases: Api<Lease> = Api::namespaced(contest.client.clone(), &contest.namespace);
    let patch = Patch::Merge(json!({"spec": {"holderIdentity": "somebody else"}}));
    leases
        .patch("contest", &PatchParams::default(), &patch)
        .await
        .unwrap();
    let taken = Instant::now();
    assert_eq!(first.ended().await.code(), Some(3));
    assert!(taken.elapsed() < RETRY + MARGIN, "{:?}", taken.elapsed());
}
