//! The flags of logs and traces, and what they begin.

use clap::ValueEnum;
use tracing::warn;

use crate::package;
use crate::telemetry::logs::{self, Format, InitError, LogControl, LogLevel};
use crate::telemetry::traces::{Traces, TracesError};

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Logs and traces")]
pub(super) struct Logging {
    /// How a line of the log looks.
    #[arg(long, env = "LOG_FORMAT", default_value = "json", value_enum)]
    log_format: LogFormat,
    /// What is logged: off, error, warn, info, debug, trace, or directives such as info,roadstead::runtime=debug.
    #[arg(long, env = "LOG_LEVEL", default_value = "info", value_name = "LEVEL")]
    log_level: LogLevel,
    /// Where traces are sent, by OTLP over gRPC without TLS: http://HOST:PORT. Without it, or if it is another: nowhere.
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT", value_name = "URL")]
    otlp_endpoint: Option<String>,
    /// What the endpoint speaks: grpc. If it is another: traces are sent nowhere.
    #[arg(
        long,
        env = "OTEL_EXPORTER_OTLP_PROTOCOL",
        default_value = Traces::PROTOCOL,
        value_name = "PROTOCOL"
    )]
    otlp_protocol: String,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogFormat {
    Json,
    Text,
}

impl From<LogFormat> for Format {
    fn from(format: LogFormat) -> Self {
        match format {
            LogFormat::Json => Self::Json,
            LogFormat::Text => Self::Text,
        }
    }
}

impl Logging {
    /// Begins to log, and to trace if there is somewhere to send traces. Once in a process, within a tokio runtime.
    pub(super) fn begin(&self) -> Result<(LogControl, Option<Traces>), InitError> {
        // Clusters set these variables for everybody, at times to what this build cannot reach: no reason not to work.
        let (traces, refused) = match self.traces() {
            Ok(traces) => (traces, None),
            Err(error) => (None, Some(error)),
        };
        let logs = logs::init(self.log_format.into(), self.log_level.clone(), traces.as_ref())?;
        if let Some(error) = refused {
            warn!(%error, "going on without traces");
        }
        Ok((logs, traces))
    }

    /// `None` without an endpoint. What is set to nothing is not set, as OpenTelemetry has it.
    fn traces(&self) -> Result<Option<Traces>, TracesError> {
        let endpoint = self.otlp_endpoint.as_deref().unwrap_or_default();
        let protocol = match self.otlp_protocol.as_str() {
            "" => Traces::PROTOCOL,
            protocol => protocol,
        };
        if endpoint.is_empty() {
            return Ok(None);
        }
        Traces::to(endpoint, protocol, package::OPERATOR).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use rstest::rstest;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        logging: Logging,
    }

    fn traces(flags: &[&str]) -> Result<Option<Traces>, String> {
        let flags = std::iter::once(&"run").chain(flags);
        let command = Command::try_parse_from(flags).unwrap();
        command.logging.traces().map_err(|error| error.to_string())
    }

    #[rstest]
    #[case::nowhere(&["--otlp-endpoint="], false)]
    #[case::nowhere_by_another_protocol(&["--otlp-endpoint=", "--otlp-protocol=http/json"], false)]
    #[case::by_default(&["--otlp-endpoint=http://collector:4317"], true)]
    #[case::said(&["--otlp-endpoint=http://collector:4317", "--otlp-protocol=grpc"], true)]
    #[case::set_to_nothing(&["--otlp-endpoint=http://collector:4317", "--otlp-protocol="], true)]
    #[tokio::test]
    async fn traces_go_where_an_endpoint_says(#[case] flags: &[&str], #[case] traced: bool) {
        assert_eq!(traces(flags).unwrap().is_some(), traced);
    }

    #[rstest]
    #[case("http/protobuf")]
    #[case("http/json")]
    #[case("GRPC ")]
    #[tokio::test]
    async fn a_protocol_that_is_not_spoken_is_refused_with_what_is(#[case] protocol: &str) {
        let refused = traces(&[
            "--otlp-endpoint=http://collector:4318",
            &format!("--otlp-protocol={protocol}"),
        ]);
        assert_eq!(
            refused.unwrap_err(),
            format!("the OTLP protocol {protocol:?} is not supported; accepted is \"grpc\"")
        );
    }
}
