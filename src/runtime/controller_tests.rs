use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::telemetry::metrics::Metrics;
use k8s_openapi::api::core::v1::ConfigMap;

/// Panics where nobody expects it, conflicts for ever, or both.
#[derive(Default)]
struct Clumsy {
    calls: Arc<AtomicUsize>,
}

#[derive(Debug, thiserror::Error)]
#[error("somebody else wrote first")]
struct Conflict {
    panics: bool,
}

impl ReconcileError for Conflict {
    fn category(&self) -> &'static str {
        assert!(!self.panics, "while the failure is told");
        "conflict"
    }
    fn retry(&self) -> Retry {
        Retry::Again
    }
}

impl Reconciler for Clumsy {
    type Kind = ConfigMap;
    type Error = Conflict;

    async fn reconcile(&self, _: Arc<ConfigMap>, _: &Context) -> Result<Next, Conflict> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        Err(Conflict { panics: call == 0 })
    }

    fn gone(&self, key: &ObjectKey) {
        self.calls.fetch_add(1, Ordering::SeqCst);
        panic!("{key} is gone");
    }
}

fn context() -> Context {
    let nobody = |_: http::Request<kube::client::Body>| {
        std::future::pending::<
            Result<http::Response<http_body_util::Empty<bytes::Bytes>>, std::convert::Infallible>,
        >()
    };
    let client = kube::Client::new(tower::service_fn(nobody), "ns");
    let clock = super::super::clock::Clock::system();
    Context {
        applier: super::super::apply::Applier::new(client.clone(), "test", Default::default()),
        events: super::super::events::Events::new(client.clone(), "test", "test", clock.clone()),
        clock,
        client,
        upgradeable: super::super::upgradeable::Upgradeable::new(None),
    }
}

/// Conflicts some times, then succeeds.
struct Recovering {
    failures: AtomicUsize,
}

impl Reconciler for Recovering {
    type Kind = ConfigMap;
    type Error = Conflict;

    async fn reconcile(&self, _: Arc<ConfigMap>, _: &Context) -> Result<Next, Conflict> {
        let left = self.failures.load(Ordering::SeqCst);
        self.failures.store(left.saturating_sub(1), Ordering::SeqCst);
        if left == 0 {
            return Ok(Next::OnChange);
        }
        Err(Conflict { panics: false })
    }
}

fn start() -> (Connected<Clumsy>, Arc<AtomicUsize>, Metrics) {
    let calls = Arc::<AtomicUsize>::default();
    let reconciler = Clumsy {
        calls: Arc::clone(&calls),
    };
    let (connected, metrics) = start_with(reconciler);
    (connected, calls, metrics)
}

fn start_with<R: Reconciler<Kind = ConfigMap>>(reconciler: R) -> (Connected<R>, Metrics) {
    let metrics = Metrics::new();
    let primary = cache_of_one();
    let controller = Controller::new("test", &primary, reconciler).options(ControllerOptions {
        concurrency: 1,
        ..ControllerOptions::default()
    });
    let connected = controller.connect(&RuntimeMetrics::register(&metrics));
    tokio::spawn(connected.work(context()));
    (connected, metrics)
}

fn cache_of_one() -> Cache<ConfigMap> {
    let mut object = ConfigMap::default();
    object.metadata.name = Some("here".into());
    object.metadata.resource_version = Some("1".into());
    Cache::from_iter([object])
}

fn value(metrics: &Metrics, name: &str) -> u64 {
    let text = metrics.encode().unwrap();
    let start = format!("{name}{{controller=\"test\"}} ");
    let value = text.lines().find_map(|line| line.strip_prefix(&start)).unwrap();
    value.parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_panic_anywhere_in_a_worker_costs_no_object_its_reconciles() {
    let (connected, calls, metrics) = start();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(
        calls.load(Ordering::SeqCst) > 2,
        "it came again after the worker panicked"
    );
    let lost = ObjectKey::cluster("gone");
    for _ in 0..2 {
        let before = value(&metrics, "controller_runtime_reconcile_panics_total");
        connected.shared.queue.add(lost.clone());
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert_eq!(
            value(&metrics, "controller_runtime_reconcile_panics_total"),
            before + 1
        );
    }
    assert_eq!(value(&metrics, "controller_runtime_active_workers"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_conflict_that_lasts_is_a_failure() {
    let (_connected, calls, metrics) = start();
    let errors = || value(&metrics, "controller_runtime_reconcile_errors_total");
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(calls.load(Ordering::SeqCst) > 3);
    assert_eq!(errors(), 0, "one now and then is none");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(errors() > 0);
}

#[tokio::test(start_paused = true)]
async fn a_success_ends_the_back_off() {
    let failures = AtomicUsize::new(5);
    let (connected, metrics) = start_with(Recovering { failures });
    let (queue, key) = (&connected.shared.queue, ObjectKey::cluster("here"));
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(queue.failures(&key) > 1);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(value(&metrics, "controller_runtime_active_workers"), 0);
    assert_eq!(queue.failures(&key), 0, "the next failure is a first one");
}

/// Fails, and has somebody change the status while it is at work, whenever these say so of the number of the call.
struct Wordy {
    calls: Arc<AtomicUsize>,
    primary: Cache<ConfigMap>,
    fails: fn(usize) -> bool,
    is_told: fn(usize) -> bool,
}

impl Reconciler for Wordy {
    type Kind = ConfigMap;
    type Error = Conflict;

    async fn reconcile(&self, object: Arc<ConfigMap>, _: &Context) -> Result<Next, Conflict> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        if (self.is_told)(call) {
            let mut said = ConfigMap::clone(&object);
            said.metadata.resource_version = Some((call + 2).to_string());
            said.data = Some([("status".to_owned(), call.to_string())].into());
            self.primary.note(said);
        }
        if (self.fails)(call) {
            return Err(Conflict { panics: false });
        }
        Ok(Next::OnChange)
    }
}

/// How often it is called within that time.
async fn calls_within(time: Duration, fails: fn(usize) -> bool, is_told: fn(usize) -> bool) -> usize {
    let calls = Arc::<AtomicUsize>::default();
    let primary = cache_of_one();
    let wordy = Wordy {
        calls: Arc::clone(&calls),
        primary: primary.clone(),
        fails,
        is_told,
    };
    let changed = super::super::predicates::Predicate::new(|old: &ConfigMap, new| old.data != new.data);
    let controller = Controller::new("test", &primary, wordy).when(changed);
    let connected = controller.connect(&RuntimeMetrics::register(&Metrics::new()));
    tokio::spawn(connected.work(context()));
    tokio::time::sleep(time).await;
    calls.load(Ordering::SeqCst)
}

#[tokio::test(start_paused = true)]
async fn what_a_failure_says_in_the_status_does_not_go_around_the_back_off() {
    let calls = calls_within(Duration::from_secs(3600), |_| true, |_| true).await;
    assert!((15..30).contains(&calls), "5 ms that double to 1000 s: {calls}");
}

#[tokio::test(start_paused = true)]
async fn what_somebody_does_to_a_status_while_an_object_succeeds_again_is_looked_at() {
    let calls = calls_within(Duration::from_secs(60), |call| call == 0, |call| call == 1).await;
    assert_eq!(calls, 3);
}
