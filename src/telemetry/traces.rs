//! Traces over OTLP, when an endpoint is set.

use std::time::Duration;

use opentelemetry::trace::{TraceContextExt, TracerProvider};
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::Span;
use tracing::level_filters::LevelFilter;
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::registry::LookupSpan;

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
    /// The exporter refused.
    #[error("cannot export traces: {0}")]
    Exporter(#[from] opentelemetry_otlp::ExporterBuildError),
}

impl Traces {
    /// Sends spans to the collector at `endpoint`, as `service`. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// When the endpoint cannot be used: then there are no traces, and nothing else changes. That it does not answer is no error: spans
    /// are dropped then.
    pub fn to(endpoint: &str, service: &str) -> Result<Self, TracesError> {
        if !endpoint.starts_with("http://") {
            return Err(TracesError::Endpoint(endpoint.to_owned()));
        }
        let exporter = SpanExporter::builder()
            .with_tonic()
            .with_endpoint(endpoint)
            .build()?;
        let resource = Resource::builder().with_service_name(service.to_owned()).build();
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
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

/// Writes the id of the trace that `span` belongs to into its field `trace_id`, so that logs lead to traces; does nothing without traces.
pub fn note_trace_id(span: &Span) {
    let context = span.context();
    let trace = context.span().span_context().trace_id();
    if trace != opentelemetry::TraceId::INVALID {
        span.record("trace_id", trace.to_string());
    }
}
