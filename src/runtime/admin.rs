//! What may be changed while the operator runs: what it logs. For the machine itself alone, so it listens on the loopback address only.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;

use crate::telemetry::logs::{LogControl, LogLevel};

/// The path under which the log level is read (GET) and changed (PUT).
pub const LOG_LEVEL: &str = "/log-level";

/// The routes of the admin listener.
pub fn routes(logs: LogControl) -> Router {
    Router::new()
        .route(LOG_LEVEL, get(read_level).put(change_level))
        .with_state(logs)
}

async fn read_level(State(logs): State<LogControl>) -> String {
    format!("{}\n", logs.level())
}

async fn change_level(State(logs): State<LogControl>, text: String) -> (StatusCode, String) {
    let level = match text.parse::<LogLevel>() {
        Ok(level) => level,
        Err(error) => return (StatusCode::BAD_REQUEST, format!("{error}\n")),
    };
    let before = logs.level();
    match logs.set(level.clone()) {
        Ok(()) => {
            tracing::warn!(%before, now = %level, "log level changed");
            (StatusCode::OK, format!("{level}\n"))
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}
