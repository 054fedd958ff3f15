//! An operator that runs in the test's own process, and what its metrics tell of it.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use roadstead::runtime::manager::{Manager, ManagerError};
use roadstead::telemetry::metrics::Metrics;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// How long an operator may take to end in order.
const END: Duration = Duration::from_secs(60);
/// One that has written nothing for so long has nothing left to write, where time is real.
const QUIET: Duration = Duration::from_millis(800);

/// Cut off when it is dropped.
pub struct Running {
    metrics: Arc<Metrics>,
    stop: Option<oneshot::Sender<()>>,
    running: Option<JoinHandle<Result<(), ManagerError>>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(running) = &self.running {
            running.abort();
        }
    }
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
            let ended = tokio::time::timeout(END, running).await;
            ended
                .expect("an end in time")
                .expect("no panic")
                .expect("a good end");
        }
    }

    /// Waits until it writes nothing any more.
    pub async fn until_quiet(&self) {
        let mut seen = None;
        while seen != Some(self.writes()) {
            seen = Some(self.writes());
            tokio::time::sleep(QUIET).await;
        }
    }

    /// How it ended, if it has by itself; told once.
    ///
    /// # Panics
    /// When it ended by a panic.
    pub fn ended(&mut self) -> Option<Result<(), ManagerError>> {
        let running = self.running.as_mut().filter(|running| running.is_finished())?;
        let ended = running.now_or_never()?;
        self.running = None;
        Some(ended.expect("no panic"))
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

    /// How many reconciles panicked.
    pub fn panics(&self) -> u64 {
        self.sum("controller_runtime_reconcile_panics_total{", |_| true)
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
