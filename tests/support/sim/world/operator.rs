//! An operator as it runs in its pod, but on the simulated API server. The one place that knows how it is put together.

use std::sync::Arc;
use std::time::Duration;

use roadstead::runtime::client::{Clients, REQUEST_TIMEOUT};
use roadstead::runtime::clock::Clock;
use roadstead::runtime::lease::{Leadership, LeaseConfig};
use roadstead::runtime::manager::{Manager, ManagerError, ManagerOptions};
use roadstead::runtime::metrics::RuntimeMetrics;
use roadstead::telemetry::metrics::Metrics;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::World;
use crate::sim::faults::Faults;

/// Whose requests these are, in the log of the API server.
pub const USER: &str = "operator";
/// Where its lease is.
pub const NAMESPACE: &str = "roadstead-system";

/// An operator that runs.
pub struct Operator {
    metrics: Arc<Metrics>,
    stop: Option<oneshot::Sender<()>>,
    running: JoinHandle<Result<(), ManagerError>>,
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.running.abort();
    }
}

impl Operator {
    /// Starts one under the name `instance`, which no other may have had, with `faults` between it and the API server, in whose log its
    /// requests are those of `user`.
    pub(super) fn start(world: &World, user: &str, instance: &str, faults: &Faults, clock: Clock) -> Self {
        let subject = world.subject;
        let metrics = Arc::new(Metrics::new());
        let runtime_metrics = RuntimeMetrics::register(&metrics);
        let service = world.sim.service(user, faults);
        let clients = Clients::over(service, Leadership::standby(), REQUEST_TIMEOUT, &runtime_metrics);
        let options = ManagerOptions {
            lease: Some(LeaseConfig::new(NAMESPACE, subject.name, instance)),
            clock,
            ..ManagerOptions::new(subject.name, instance)
        };
        let mut manager = Manager::new(clients, options, Arc::clone(&metrics), runtime_metrics);
        (subject.register)(&mut manager, world.cluster.agents());
        let (stop, stopped) = oneshot::channel();
        let running = tokio::spawn(manager.run(async {
            let _ = stopped.await;
        }));
        Self {
            metrics,
            stop: Some(stop),
            running,
        }
    }

    /// Whether it ended by itself, as it does when it loses its lease.
    pub fn has_ended(&self) -> bool {
        self.running.is_finished()
    }

    /// Tells it to stop, as the kubelet does, and waits until it has.
    pub async fn stop(mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        let ended = tokio::time::timeout(Duration::from_secs(60), &mut self.running).await;
        ended
            .expect("an end in time")
            .expect("no panic")
            .expect("a good end");
    }

    /// How many reconciles panicked.
    pub fn panics(&self) -> u64 {
        let text = self.metrics.encode().expect("metrics");
        let counts = text
            .lines()
            .filter(|line| line.starts_with("controller_runtime_reconcile_panics_total{"));
        counts
            .filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok())
            .sum()
    }
}
