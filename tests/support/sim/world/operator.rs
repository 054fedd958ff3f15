//! The product's operator as it runs in its pod, but on the simulated API server. The one place that knows how it is put together.

use std::sync::Arc;
use std::time::Duration;

use roadstead::controllers::my_proxy::agents::Agents;
use roadstead::controllers::my_proxy::{self, Settings};
use roadstead::runtime::client::{Clients, REQUEST_TIMEOUT};
use roadstead::runtime::controller::ControllerOptions;
use roadstead::runtime::lease::{Leadership, LeaseConfig};
use roadstead::runtime::manager::{Manager, ManagerError, ManagerOptions};
use roadstead::runtime::metrics::RuntimeMetrics;
use roadstead::telemetry::metrics::Metrics;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::sim::Sim;
use crate::sim::faults::Faults;

/// Whose requests these are, in the log of the API server.
pub const USER: &str = "operator";
/// Where its lease is.
pub const NAMESPACE: &str = "roadstead-system";

pub fn settings() -> Settings {
    Settings {
        nginx_image: "nginx:1.29".into(),
        agent_image: "registry.example/operator:v1".into(),
        cluster_domain: "cluster.local".into(),
    }
}

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
    /// requests are those of `user`. It asks `agents` what their pods serve.
    pub fn start(sim: &Sim, agents: Arc<dyn Agents>, user: &str, instance: &str, faults: &Faults) -> Self {
        let metrics = Arc::new(Metrics::new());
        let runtime_metrics = RuntimeMetrics::register(&metrics);
        let service = sim.service(user, faults);
        let clients = Clients::over(service, Leadership::standby(), REQUEST_TIMEOUT, &runtime_metrics);
        let options = ManagerOptions {
            lease: Some(LeaseConfig::new(NAMESPACE, "roadstead-operator", instance)),
            clock: sim.clock(),
            ..ManagerOptions::new("roadstead", instance)
        };
        let mut manager = Manager::new(clients, options, Arc::clone(&metrics), runtime_metrics);
        my_proxy::register(
            &mut manager,
            settings(),
            Some(agents),
            ControllerOptions::default(),
        );
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
