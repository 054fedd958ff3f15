//! Logs on standard error, as text or JSON, with a filter that can be changed while the process runs.

use std::fmt;
use std::str::FromStr;

use tracing_subscriber::filter::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, reload};

use super::traces::Traces;

/// What libraries may say when only a level is given: their own debug output says little to whoever looks after the operator, and what
/// kube's watcher warns of is logged by the cache that it belongs to.
const LIBRARIES: &str = "warn,kube_runtime=error";

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// How a line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// One JSON object for each line.
    #[default]
    Json,
    /// For people.
    Text,
}

/// What is logged: a level, or directives such as `info,roadstead::runtime=debug`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLevel(String);

/// A level that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{given:?} is not a log level; accepted are off, error, warn, info, debug, trace, or directives such as \
     info,roadstead::runtime=debug"
)]
pub struct InvalidLevel {
    given: String,
}

impl Default for LogLevel {
    fn default() -> Self {
        Self("info".to_owned())
    }
}

impl LogLevel {
    fn filter(&self) -> Result<EnvFilter, InvalidLevel> {
        let invalid = || InvalidLevel {
            given: self.0.clone(),
        };
        // The filter's own syntax takes any other word for the name of a crate, and would log that crate alone.
        let is_level = |word: &str| LEVELS.contains(&word.trim());
        if self
            .0
            .split(',')
            .any(|directive| !directive.contains('=') && !is_level(directive))
        {
            return Err(invalid());
        }
        let directives = if is_level(&self.0) {
            format!("{LIBRARIES},roadstead={}", self.0.trim())
        } else {
            self.0.clone()
        };
        EnvFilter::builder().parse(directives).map_err(|_| invalid())
    }
}

impl FromStr for LogLevel {
    type Err = InvalidLevel;

    fn from_str(text: &str) -> Result<Self, InvalidLevel> {
        let level = Self(text.trim().to_lowercase());
        level.filter().map_err(|_| InvalidLevel {
            given: text.to_owned(),
        })?;
        Ok(level)
    }
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Reads and changes what the running process logs. Clones share it.
#[derive(Clone, Debug)]
pub struct LogControl {
    filter: reload::Handle<EnvFilter, Registry>,
    level: std::sync::Arc<std::sync::RwLock<LogLevel>>,
}

/// The level could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// It is none.
    #[error(transparent)]
    Invalid(#[from] InvalidLevel),
    /// Logging has ended.
    #[error("logging has ended: {0}")]
    Ended(#[from] reload::Error),
}

impl LogControl {
    /// What is logged now.
    pub fn level(&self) -> LogLevel {
        self.level
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .clone()
    }

    /// Logs `level` from now on.
    ///
    /// # Errors
    /// When logging has ended.
    pub fn set(&self, level: LogLevel) -> Result<(), ChangeError> {
        self.filter.reload(level.filter()?)?;
        *self
            .level
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner) = level;
        Ok(())
    }
}

/// Begins to log, and to trace if there is somewhere to send traces. Once in a process.
///
/// # Errors
/// When it was begun already.
pub fn init(format: Format, level: LogLevel, traces: Option<&Traces>) -> Result<LogControl, InitError> {
    let (filter, handle) = reload::Layer::new(level.filter()?);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines = match format {
        Format::Json => lines.json().flatten_event(true).with_span_list(false).boxed(),
        Format::Text => lines
            .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
            .boxed(),
    };
    let subscriber = tracing_subscriber::registry().with(lines.with_filter(filter));
    subscriber.with(traces.map(Traces::layer)).try_init()?;
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(
            place,
            message_text = panic.payload_as_str().unwrap_or("no message"),
            "panic"
        );
    }));
    Ok(LogControl {
        filter: handle,
        level: std::sync::Arc::new(std::sync::RwLock::new(level)),
    })
}

/// Logging could not be begun.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// The level is none.
    #[error(transparent)]
    Level(#[from] InvalidLevel),
    /// It was begun already.
    #[error("cannot set up logging: {0}")]
    Twice(#[from] tracing_subscriber::util::TryInitError),
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("info")]
    #[case(" DEBUG ")]
    #[case("info,roadstead::runtime=debug")]
    #[case("roadstead=trace")]
    fn levels_and_directives_are_accepted(#[case] text: &str) {
        assert!(text.parse::<LogLevel>().is_ok());
    }

    #[rstest]
    #[case("verbose")]
    #[case("")]
    #[case("info,verbose")]
    #[case("roadstead=loud")]
    fn anything_else_is_refused_with_what_is_accepted(#[case] text: &str) {
        let message = text.parse::<LogLevel>().unwrap_err().to_string();
        assert!(
            message.starts_with(&format!("{text:?} is not a log level; accepted are off, error")),
            "{message}"
        );
    }
}
