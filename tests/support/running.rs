//! An operator that runs in the test's own process, and what its metrics tell of it.

use std::sync::Arc;

use roadstead::runtime::manager::{Manager, ManagerError};
use roadstead::telemetry::metrics::Metrics;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub struct Running {
    metrics: Arc<Metrics>,
    stop: Option<oneshot::Sender<()>>,
    running: Option<JoinHandle<Result<(), ManagerError>>>,
}

impl Running {
    /// Runs what was registered with the manager, which counts in these metrics.
    pub fn begin(manager: Manager, metrics: Arc<Metrics>) -> Self {
        let (stop, stopped) = oneshot::channel();
        let running = tokio::spawn(manager.run(async {
            let _ = stopped.await;
        }));
        Self {
            metrics,
            stop: Some(stop),
            running: Some(running),
        }
    }

    /// Has it end in order.
    pub async fn stop(&mut self) {
        if let (Some(stop), Some(running)) = (self.stop.take(), self.running.take()) {
            let _ = stop.send(());
            running.await.unwrap().unwrap();
        }
    }

    /// How many requests it sent that could have changed something.
    pub fn writes(&self) -> u64 {
        self.sum("rest_client_requests_total{", |line| {
            !line.contains("method=\"GET\"")
        })
    }

    /// How many requests it sent that read something: lists, and watches that were begun.
    pub fn reads(&self) -> u64 {
        self.sum("rest_client_requests_total{", |line| {
            line.contains("method=\"GET\"")
        })
    }

    /// How often it reconciled.
    pub fn reconciles(&self) -> u64 {
        self.sum("controller_runtime_reconcile_total{", |_| true)
    }

    /// How many reconciles failed.
    pub fn failures(&self) -> u64 {
        self.sum("controller_runtime_reconcile_errors_total{", |_| true)
    }

    fn sum(&self, metric: &str, counts: impl Fn(&str) -> bool) -> u64 {
        let text = self.metrics.encode().unwrap();
        let lines = text
            .lines()
            .filter(|line| line.starts_with(metric) && counts(line));
        lines
            .filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok())
            .sum()
    }
}
