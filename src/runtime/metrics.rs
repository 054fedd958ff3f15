//! The metrics of the runtime, under the names that controller-runtime's users already have on their dashboards.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use crate::telemetry::metrics::Metrics;

/// controller-runtime's buckets for the time of a reconcile, in seconds.
const RECONCILE_BUCKETS: [f64; 30] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25,
    1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 10.0, 30.0, 60.0,
];
/// client-go's buckets for the time of a request, in seconds.
const REQUEST_BUCKETS: [f64; 13] = [
    0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 45.0, 60.0,
];
/// client-go's buckets for the work queue: 10 ns times ten, up to 1000 s.
const QUEUE_BUCKETS: [f64; 12] = [
    1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0,
];

type Seconds = Gauge<f64, AtomicU64>;

#[derive(Clone, Debug)]
struct Buckets(&'static [f64]);

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

type Histograms<L> = Family<L, Histogram, Buckets>;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueLabels {
    name: String,
    controller: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ControllerLabels {
    controller: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    controller: String,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    kind: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ErrorLabels {
    kind: String,
    category: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LeaderLabels {
    name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    code: String,
    method: String,
    host: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LatencyLabels {
    verb: String,
    host: String,
}

/// Every family of metrics that the runtime fills. Clones share the values.
#[derive(Clone, Debug)]
pub struct RuntimeMetrics {
    depth: Family<QueueLabels, Gauge>,
    adds: Family<QueueLabels, Counter>,
    queue_duration: Histograms<QueueLabels>,
    work_duration: Histograms<QueueLabels>,
    unfinished: Family<QueueLabels, Seconds>,
    longest_running: Family<QueueLabels, Seconds>,
    retries: Family<QueueLabels, Counter>,
    reconciles: Family<ResultLabels, Counter>,
    errors: Family<ControllerLabels, Counter>,
    panics: Family<ControllerLabels, Counter>,
    timeouts: Family<ControllerLabels, Counter>,
    reconcile_time: Histograms<ControllerLabels>,
    max_concurrent: Family<ControllerLabels, Gauge>,
    active: Family<ControllerLabels, Gauge>,
    leader: Family<LeaderLabels, Gauge>,
    requests: Family<RequestLabels, Counter>,
    request_time: Histograms<LatencyLabels>,
    objects: Family<KindLabels, Gauge>,
    error_categories: Family<ErrorLabels, Counter>,
}

impl RuntimeMetrics {
    /// Makes the families and adds them to `metrics`. Once for each registry: a second time they would be there twice.
    pub fn register(metrics: &Metrics) -> Self {
        let families = Self::families();
        let Self {
            depth,
            adds,
            queue_duration,
            work_duration,
            unfinished,
            longest_running,
            retries,
            reconciles,
            errors,
            panics,
            timeouts,
            reconcile_time,
            max_concurrent,
            active,
            leader,
            requests,
            request_time,
            objects,
            error_categories,
        } = families.clone();
        metrics.register("workqueue_depth", "Current depth of workqueue", depth);
        metrics.register(
            "workqueue_adds",
            "Total number of adds handled by workqueue",
            adds,
        );
        metrics.register(
            "workqueue_queue_duration_seconds",
            "How long in seconds an item stays in workqueue before being requested",
            queue_duration,
        );
        metrics.register(
            "workqueue_work_duration_seconds",
            "How long in seconds processing an item from workqueue takes",
            work_duration,
        );
        metrics.register(
            "workqueue_unfinished_work_seconds",
            "How many seconds of work is in progress and has not been observed by work_duration",
            unfinished,
        );
        metrics.register(
            "workqueue_longest_running_processor_seconds",
            "How many seconds has the longest running processor for workqueue been running",
            longest_running,
        );
        metrics.register(
            "workqueue_retries",
            "Total number of retries handled by workqueue",
            retries,
        );
        metrics.register(
            "controller_runtime_reconcile",
            "Total number of reconciliations per controller",
            reconciles,
        );
        metrics.register(
            "controller_runtime_reconcile_errors",
            "Total number of reconciliation errors per controller",
            errors,
        );
        metrics.register(
            "controller_runtime_reconcile_panics",
            "Total number of reconciliation panics per controller",
            panics,
        );
        metrics.register(
            "controller_runtime_reconcile_timeouts",
            "Total number of reconciliation timeouts per controller",
            timeouts,
        );
        metrics.register(
            "controller_runtime_reconcile_time_seconds",
            "Length of time per reconciliation per controller",
            reconcile_time,
        );
        metrics.register(
            "controller_runtime_max_concurrent_reconciles",
            "Maximum number of concurrent reconciles per controller",
            max_concurrent,
        );
        metrics.register(
            "controller_runtime_active_workers",
            "Number of currently used workers per controller",
            active,
        );
        metrics.register(
            "leader_election_master_status",
            "Whether this process leads: 0 for a standby, 1 for the leader",
            leader,
        );
        metrics.register(
            "rest_client_requests",
            "Number of HTTP requests, partitioned by status code, method, and host",
            requests,
        );
        metrics.register(
            "rest_client_request_duration_seconds",
            "Request latency in seconds, by verb and host; of a watch, the time to its beginning",
            request_time,
        );
        metrics.register(
            "roadstead_objects",
            "Objects of a kind that the operator looks after",
            objects,
        );
        metrics.register(
            "roadstead_reconcile_errors",
            "Failed reconciles by kind and by what went wrong",
            error_categories,
        );
        families
    }

    fn families() -> Self {
        Self {
            depth: Family::default(),
            adds: Family::default(),
            queue_duration: Family::new_with_constructor(Buckets(&QUEUE_BUCKETS)),
            work_duration: Family::new_with_constructor(Buckets(&QUEUE_BUCKETS)),
            unfinished: Family::default(),
            longest_running: Family::default(),
            retries: Family::default(),
            reconciles: Family::default(),
            errors: Family::default(),
            panics: Family::default(),
            timeouts: Family::default(),
            reconcile_time: Family::new_with_constructor(Buckets(&RECONCILE_BUCKETS)),
            max_concurrent: Family::default(),
            active: Family::default(),
            leader: Family::default(),
            requests: Family::default(),
            request_time: Family::new_with_constructor(Buckets(&REQUEST_BUCKETS)),
            objects: Family::default(),
            error_categories: Family::default(),
        }
    }

    /// The metrics of the queue of the controller `name`.
    pub fn queue(&self, name: &str) -> QueueMetrics {
        let labels = QueueLabels {
            name: name.to_owned(),
            controller: name.to_owned(),
        };
        QueueMetrics {
            depth: self.depth.get_or_create_owned(&labels),
            adds: self.adds.get_or_create_owned(&labels),
            queue_duration: self.queue_duration.get_or_create_owned(&labels),
            work_duration: self.work_duration.get_or_create_owned(&labels),
            unfinished: self.unfinished.get_or_create_owned(&labels),
            longest_running: self.longest_running.get_or_create_owned(&labels),
            retries: self.retries.get_or_create_owned(&labels),
        }
    }

    /// The metrics of the controller `name` of `kind`.
    pub(super) fn controller(&self, name: &str, kind: &str) -> ControllerMetrics {
        let labels = ControllerLabels {
            controller: name.to_owned(),
        };
        let result = |result| {
            self.reconciles.get_or_create_owned(&ResultLabels {
                controller: name.to_owned(),
                result,
            })
        };
        ControllerMetrics {
            success: result("success"),
            error: result("error"),
            requeue: result("requeue"),
            requeue_after: result("requeue_after"),
            errors: self.errors.get_or_create_owned(&labels),
            panics: self.panics.get_or_create_owned(&labels),
            timeouts: self.timeouts.get_or_create_owned(&labels),
            time: self.reconcile_time.get_or_create_owned(&labels),
            max_concurrent: self.max_concurrent.get_or_create_owned(&labels),
            active: self.active.get_or_create_owned(&labels),
            objects: self.objects.get_or_create_owned(&KindLabels {
                kind: kind.to_owned(),
            }),
            kind: kind.to_owned(),
            error_categories: self.error_categories.clone(),
        }
    }

    /// Notes whether this process leads, for the lease `name`.
    pub(super) fn set_leader(&self, name: &str, leads: bool) {
        self.leader
            .get_or_create(&LeaderLabels {
                name: name.to_owned(),
            })
            .set(i64::from(leads));
    }

    /// Notes an answer (or, with the code `<error>`, the lack of one) of the API server.
    pub(super) fn request(&self, method: &str, host: &str, code: &str, seconds: f64) {
        let method = method.to_owned();
        let host = host.to_owned();
        let latency = LatencyLabels {
            verb: method.clone(),
            host: host.clone(),
        };
        self.request_time.get_or_create(&latency).observe(seconds);
        self.requests
            .get_or_create(&RequestLabels {
                code: code.to_owned(),
                method,
                host,
            })
            .inc();
    }
}

/// The metrics of one work queue.
#[derive(Clone, Debug)]
pub struct QueueMetrics {
    pub(super) depth: Gauge,
    pub(super) adds: Counter,
    pub(super) queue_duration: Histogram,
    pub(super) work_duration: Histogram,
    pub(super) unfinished: Seconds,
    pub(super) longest_running: Seconds,
    pub(super) retries: Counter,
}

/// The metrics of one controller.
#[derive(Clone, Debug)]
pub(super) struct ControllerMetrics {
    pub(super) success: Counter,
    pub(super) error: Counter,
    pub(super) requeue: Counter,
    pub(super) requeue_after: Counter,
    pub(super) errors: Counter,
    pub(super) panics: Counter,
    pub(super) timeouts: Counter,
    pub(super) time: Histogram,
    pub(super) max_concurrent: Gauge,
    pub(super) active: Gauge,
    pub(super) objects: Gauge,
    kind: String,
    error_categories: Family<ErrorLabels, Counter>,
}

impl ControllerMetrics {
    /// Counts a failed reconcile.
    pub(super) fn failed(&self, category: &'static str) {
        self.error.inc();
        self.errors.inc();
        self.error_categories
            .get_or_create(&ErrorLabels {
                kind: self.kind.clone(),
                category,
            })
            .inc();
    }
}
