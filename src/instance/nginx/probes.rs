//! What the kubelet and people ask the agent over HTTP.
//!
//! * `/healthz`: 200 while the agent lives, which ends when nginx does. It does not ask nginx: one that has too much to do would not
//!   answer in time, and to kill it would give all that it has to do to the others.
//! * `/readyz`: 200 while nginx answers and the pod is not going away.
//! * `/config`: which configuration is served, and why the mounted one is not, as JSON.
//! * `/metrics`: nginx's counters under the names of the usual exporter, and the agent's own.

use std::fmt::Write as _;
use std::io;
use std::sync::Arc;

use axum::Router;
use axum::extract::State as Extract;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::Options;
use super::process::ask;
use super::state::State;
use crate::api::my_proxy::agent::{self, Report};

#[derive(Clone)]
struct Probes {
    options: Arc<Options>,
    state: watch::Receiver<State>,
}

/// Answers until it is aborted.
///
/// # Errors
/// When the listener breaks.
pub async fn serve(
    listener: TcpListener,
    options: Arc<Options>,
    state: watch::Receiver<State>,
) -> io::Result<()> {
    let routes = Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route(agent::REPORT, get(config))
        .route("/metrics", get(metrics))
        .with_state(Probes { options, state });
    axum::serve(listener, routes).await
}

impl Probes {
    fn state(&self) -> State {
        self.state.borrow().clone()
    }

    async fn answers(&self) -> Result<(), String> {
        ask(&self.options, "/generation")
            .await
            .map(drop)
            .map_err(|error| format!("nginx does not answer: {error}\n"))
    }
}

async fn healthz() -> &'static str {
    "ok\n"
}

async fn readyz(Extract(probes): Extract<Probes>) -> (StatusCode, String) {
    let state = probes.state();
    let verdict_before = match (&state.generation, state.stopping) {
        (_, true) => Err("the pod is going away\n".to_owned()),
        (None, false) => Err("nginx has not started\n".to_owned()),
        (Some(_), false) => Ok(()),
    };
    match verdict_before {
        Ok(()) => verdict(probes.answers().await),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, reason),
    }
}

fn verdict(outcome: Result<(), String>) -> (StatusCode, String) {
    match outcome {
        Ok(()) => (StatusCode::OK, "ok\n".to_owned()),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, reason),
    }
}

async fn config(Extract(probes): Extract<Probes>) -> impl IntoResponse {
    let state = probes.state();
    let report = Report {
        generation: state.generation,
        config: state.config,
        mounted: state.mounted,
        refused: state.refused,
        reloads: state.reloads,
    };
    // Strings and a number always become JSON.
    let body = serde_json::to_string(&report).unwrap_or_default();
    ([("content-type", "application/json")], format!("{body}\n"))
}

async fn metrics(Extract(probes): Extract<Probes>) -> impl IntoResponse {
    let state = probes.state();
    let status = ask(&probes.options, "/status").await.ok();
    (
        [("content-type", "text/plain; version=0.0.4")],
        render_metrics(&state, status.as_deref()),
    )
}

/// `status` is what nginx's `stub_status` says, absent when nginx does not answer.
fn render_metrics(state: &State, status: Option<&str>) -> String {
    let mut out = String::new();
    let mut metric = |name: &str, kind: &str, help: &str, value: u64| {
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
    };
    metric(
        "nginx_up",
        "gauge",
        "Whether nginx answers.",
        u64::from(status.is_some()),
    );
    metric(
        "roadstead_nginx_reloads_total",
        "counter",
        "Reloads that took effect.",
        state.reloads,
    );
    metric(
        "roadstead_nginx_refusals_total",
        "counter",
        "Configurations refused in this pod.",
        state.refusals,
    );
    if let Some(numbers) = status.map(numbers) {
        let names = [
            (
                "nginx_connections_active",
                "gauge",
                "Client connections, waiting ones included.",
            ),
            (
                "nginx_connections_accepted",
                "counter",
                "Accepted client connections.",
            ),
            (
                "nginx_connections_handled",
                "counter",
                "Handled client connections.",
            ),
            ("nginx_http_requests_total", "counter", "Requests."),
            (
                "nginx_connections_reading",
                "gauge",
                "Connections whose request is being read.",
            ),
            (
                "nginx_connections_writing",
                "gauge",
                "Connections whose answer is being written.",
            ),
            ("nginx_connections_waiting", "gauge", "Idle connections."),
        ];
        for ((name, kind, help), value) in names.into_iter().zip(numbers) {
            metric(name, kind, help, value);
        }
    }
    out
}

/// The numbers of `stub_status`, in its order: active; accepts, handled, requests; reading, writing, waiting.
fn numbers(status: &str) -> Vec<u64> {
    status
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|word| word.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_have_the_names_of_the_usual_exporter() {
        let status = "Active connections: 3 \nserver accepts handled requests\n 10 9 20 \nReading: 0 Writing: 1 Waiting: 2 \n";
        let text = render_metrics(
            &State {
                reloads: 4,
                ..State::default()
            },
            Some(status),
        );
        for line in [
            "nginx_up 1",
            "nginx_connections_active 3",
            "nginx_http_requests_total 20",
            "nginx_connections_waiting 2",
            "roadstead_nginx_reloads_total 4",
        ] {
            assert!(
                text.lines().any(|found| found == line),
                "{line} is missing in\n{text}"
            );
        }
    }

    #[test]
    fn a_silent_nginx_is_down_and_has_no_counters() {
        let text = render_metrics(&State::default(), None);
        assert!(
            text.contains("\nnginx_up 0\n") && !text.contains("nginx_connections"),
            "{text}"
        );
    }
}
