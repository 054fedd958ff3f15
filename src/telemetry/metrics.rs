//! One registry of metrics, written out in the OpenMetrics text format.
//!
//! Names follow the exposition, not the library: `prometheus-client` appends `_total` to every counter, so a counter is
//! registered as `workqueue_adds` and read as `workqueue_adds_total`.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Metric, Registry};

/// What a scrape is answered with; for the header `Content-Type`.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

type Refresh = Box<dyn Fn() + Send>;

/// The metrics of one process (or of one of several operators that a test runs side by side).
#[derive(Default)]
pub struct Metrics {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    registry: Registry,
    refresh: Vec<Refresh>,
}

impl Metrics {
    /// An empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// A registry that tells which build this is: `roadstead_build_info{version}` is 1.
    pub fn with_build_info(version: &str) -> Self {
        let metrics = Self::new();
        let labels = vec![("version".to_owned(), version.to_owned())];
        metrics.register(
            "roadstead_build",
            "Which version of the operator this is.",
            Info::new(labels),
        );
        metrics
    }

    /// Adds `metric`, a handle whose clones share their values.
    pub fn register(&self, name: &str, help: &str, metric: impl Metric) {
        self.lock()
            .registry
            .register(name, help.trim_end_matches('.'), metric);
    }

    /// Calls `refresh` at every scrape, before the values are read: for figures that are only worth computing then.
    pub fn on_scrape(&self, refresh: impl Fn() + Send + 'static) {
        self.lock().refresh.push(Box::new(refresh));
    }

    /// The exposition.
    ///
    /// # Errors
    /// When a metric cannot be written, which is a defect of its encoder.
    pub fn encode(&self) -> Result<String, fmt::Error> {
        let inner = self.lock();
        for refresh in &inner.refresh {
            refresh();
        }
        let mut text = String::new();
        encode(&mut text, &inner.registry)?;
        Ok(text)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        // A panic under this lock leaves a registry that is still whole: nothing is half written.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::gauge::Gauge;

    #[test]
    fn counters_get_their_suffix_once_and_the_build_is_told() {
        let metrics = Metrics::with_build_info("1.2.3");
        let counter: Counter = Counter::default();
        metrics.register("things", "Things seen.", counter.clone());
        counter.inc();
        let text = metrics.encode().unwrap();
        assert!(text.contains("things_total 1\n"), "{text}");
        assert!(
            text.contains("roadstead_build_info{version=\"1.2.3\"} 1\n"),
            "{text}"
        );
    }

    #[test]
    fn figures_are_refreshed_at_every_scrape() {
        let metrics = Metrics::new();
        let gauge: Gauge = Gauge::default();
        metrics.register("age", "Age.", gauge.clone());
        metrics.on_scrape(move || {
            gauge.inc();
        });
        assert!(metrics.encode().unwrap().contains("age 1\n"));
        assert!(metrics.encode().unwrap().contains("age 2\n"));
    }
}
