//! Traces over OTLP, when an endpoint is set.

use std::time::Duration;

use opentelemetry::trace::{TraceContextExt, TracerProvider};
use opentelemetry_otlp::WithExportConfig;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};
use tokio::time::Instant;
use tracing::level_filters::LevelFilter;
use tracing::{Span, warn};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::registry::LookupSpan;

use super::sparing::Sparing;

/// How long the last spans may take to leave when the process ends.
const FLUSH: Duration = Duration::from_secs(2);

/// A pipeline of spans to a collector.
#[derive(Debug)]
pub struct Traces {
    provider: SdkTracerProvider,
}

/// The pipeline could not be built.
#[derive(Debug, thiserror::Error)]
pub enum TracesError {
    /// The endpoint is of a kind that this build cannot reach.
    #[error(
        "the OTLP endpoint {0:?} is not supported; accepted is http://HOST:PORT of a collector that takes gRPC"
    )]
    Endpoint(String),
    /// The protocol is one that this build does not speak.
    #[error("the OTLP protocol {0:?} is not supported; accepted is {accepted:?}", accepted = Traces::PROTOCOL)]
    Protocol(String),
    /// The exporter refused.
    #[error("cannot export traces: {0}")]
    Exporter(#[from] opentelemetry_otlp::ExporterBuildError),
}

impl Traces {
    /// The only protocol that this build speaks, by its name in `OTEL_EXPORTER_OTLP_PROTOCOL`: OTLP over gRPC.
    pub const PROTOCOL: &str = "grpc";

    /// Sends spans to the collector at `endpoint`, which speaks `protocol`, as `service`. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// When endpoint or protocol cannot be used: then there are no traces, and nothing else changes. That it does not answer, or not in
    /// gRPC, is no error: spans are dropped then, which is logged once a minute at most.
    pub fn to(endpoint: &str, protocol: &str, service: &str) -> Result<Self, TracesError> {
        if protocol != Self::PROTOCOL {
            return Err(TracesError::Protocol(protocol.to_owned()));
        }
        if !endpoint.starts_with("http://") {
            return Err(TracesError::Endpoint(endpoint.to_owned()));
        }
        let exporter = opentelemetry_otlp::SpanExporter::builder()
            .with_tonic()
            .with_endpoint(endpoint)
            .build()?;
        let resource = Resource::builder().with_service_name(service.to_owned()).build();
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(Telling::new(exporter))
            .with_resource(resource)
            .build();
        Ok(Self { provider })
    }

    /// What hands spans on to the collector: the product's own, not those of libraries.
    pub(super) fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: tracing::Subscriber + for<'span> LookupSpan<'span> + Send + Sync,
    {
        let own = Targets::new().with_target("roadstead", LevelFilter::INFO);
        tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer("roadstead"))
            .with_filter(own)
    }

    /// Sends what is left. Blocks for two seconds at most.
    pub fn flush(&self) {
        if let Err(error) = self.provider.shutdown_with_timeout(FLUSH) {
            tracing::debug!(%error, "the last spans were not sent");
        }
    }
}

/// An exporter whose failures are logged: the pipeline drops the spans without a word. Its own words (the feature `internal-logs`) would
/// come with every batch.
#[derive(Debug)]
struct Telling<E> {
    exporter: E,
    failures: Sparing,
}

impl<E> Telling<E> {
    fn new(exporter: E) -> Self {
        Self {
            exporter,
            failures: Sparing::default(),
        }
    }
}

impl<E: SpanExporter> SpanExporter for Telling<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let sent = self.exporter.export(batch).await;
        if let Err(error) = &sent
            && let Some(failures) = self.failures.admit(Instant::now())
        {
            warn!(%error, failures, "spans are lost: the OTLP endpoint does not take them; it must speak gRPC without TLS");
        }
        sent
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

/// Writes the id of the trace that `span` belongs to into its field `trace_id`, so that logs lead to traces; does nothing without traces.
pub fn note_trace_id(span: &Span) {
    let context = span.context();
    let trace = context.span().span_context().trace_id();
    if trace != opentelemetry::TraceId::INVALID {
        span.record("trace_id", trace.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::captured::Captured;
    use opentelemetry_sdk::error::OTelSdkError;

    /// A collector that takes nothing.
    #[derive(Debug)]
    struct Deaf;

    impl SpanExporter for Deaf {
        async fn export(&self, _: Vec<SpanData>) -> OTelSdkResult {
            Err(OTelSdkError::InternalFailure("it speaks HTTP/1.1".to_owned()))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn spans_that_cannot_be_sent_are_told_at_once_and_then_once_a_minute() {
        let (log, exporter) = (Captured::begin(), Telling::new(Deaf));
        for _ in 0..=12 {
            let sent = exporter.export(Vec::new()).await;
            assert!(sent.is_err(), "the pipeline hears of it as before");
            tokio::time::advance(Duration::from_secs(5)).await;
        }
        let lines = log.lines_with("spans are lost");
        assert_eq!(lines.len(), 2, "{lines:?}");
        for (line, failures) in lines.iter().zip(["failures=1", "failures=12"]) {
            assert!(line.contains("WARN") && line.ends_with(failures), "{line}");
            assert!(line.contains("it speaks HTTP/1.1"), "{line}");
        }
    }
}
