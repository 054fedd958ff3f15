//! Traces over OTLP, when an endpoint is set.

use tracing::Span;

/// Writes the id of the trace that `span` belongs to into its field `trace_id`, so that logs lead to traces; does nothing without traces.
pub fn note_trace_id(span: &Span) {
    use opentelemetry::trace::TraceContextExt;
    use tracing_opentelemetry::OpenTelemetrySpanExt;
    let context = span.context();
    let trace = context.span().span_context().trace_id();
    if trace != opentelemetry::TraceId::INVALID {
        span.record("trace_id", trace.to_string());
    }
}
