//! The numbers of an instance for Prometheus.

use std::fmt;
use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::server::Shown;
use crate::api::database::agent::{Report, Role, State};
use crate::telemetry::metrics::Metrics;

type Labels = Vec<(String, String)>;

/// The exposition of what is shown. What is not known is left out.
pub(super) fn exposition(shown: &Shown) -> Result<String, fmt::Error> {
    let report = &shown.report;
    let metrics = Metrics::new();
    let number = |name: &str, help: &str, value: Option<u64>| {
        if let Some(value) = value {
            let gauge = Gauge::<i64>::default();
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
            metrics.register(&format!("roadstead_postgres_{name}"), help, gauge);
        }
    };
    let seconds = |name: &str, help: &str, milliseconds: Option<u64>| {
        if let Some(milliseconds) = milliseconds {
            let gauge = Gauge::<f64, AtomicU64>::default();
            gauge.set(milliseconds as f64 / 1000.0);
            metrics.register(&format!("roadstead_postgres_{name}"), help, gauge);
        }
    };
    number(
        "up",
        "Whether PostgreSQL serves in the role that this instance has.",
        Some(shown.ready.is_ok().into()),
    );
    one_of(
        &metrics,
        "role",
        "Which part this instance plays.",
        &Role::ALL.map(Role::name),
        report.role.name(),
    );
    one_of(
        &metrics,
        "state",
        "What this instance is doing.",
        &State::ALL.map(State::name),
        report.state.name(),
    );
    number(
        "timeline",
        "The timeline that it is on.",
        report.timeline.map(u64::from),
    );
    number(
        "received_bytes",
        "How far its data goes: the position in the write-ahead log that is on disk.",
        report.received.map(|lsn| lsn.0),
    );
    number(
        "replayed_bytes",
        "How far it has applied that: a position in the write-ahead log.",
        report.replayed.map(|lsn| lsn.0),
    );
    number(
        "streaming",
        "Whether it is a replica that the primary sends to.",
        Some(report.streaming.into()),
    );
    seconds(
        "wrote_seconds",
        "How long ago a write of its own was committed.",
        report.wrote_ms,
    );
    seconds(
        "api_seconds",
        "How long ago the API server last answered it.",
        report.api_ms,
    );
    expose_standbys(&metrics, report);
    metrics.encode()
}

/// How far each replica is behind, in the eyes of the primary.
fn expose_standbys(metrics: &Metrics, report: &Report) {
    let (flushed, replayed) = (
        Family::<Labels, Gauge>::default(),
        Family::<Labels, Gauge>::default(),
    );
    for standby in &report.standbys {
        let labels = vec![("standby".to_owned(), standby.name.clone())];
        for (family, position) in [(&flushed, standby.flushed), (&replayed, standby.replayed)] {
            if let (Some(end), Some(position)) = (report.received, position) {
                let behind = i64::try_from(end.ahead_of(position)).unwrap_or(i64::MAX);
                family.get_or_create(&labels).set(behind);
            }
        }
    }
    metrics.register(
        "roadstead_postgres_standby_flush_lag_bytes",
        "How much of the write-ahead log a replica has not on disk yet.",
        flushed,
    );
    metrics.register(
        "roadstead_postgres_standby_replay_lag_bytes",
        "How much of the write-ahead log a replica has not applied yet.",
        replayed,
    );
}

/// 1 for the present one, 0 for the others; its name is a label as in the report.
fn one_of(metrics: &Metrics, name: &str, help: &str, all: &[&str], present: &str) {
    let family = Family::<Labels, Gauge>::default();
    for &value in all {
        let labels = vec![(name.to_owned(), value.to_owned())];
        family.get_or_create(&labels).set((value == present).into());
    }
    metrics.register(&format!("roadstead_postgres_{name}"), help, family);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::database::agent::{Lsn, Standby};

    #[test]
    fn what_is_known_is_exposed_and_what_is_not_is_left_out() {
        let standby = Standby {
            name: "orders-1".into(),
            flushed: Some(Lsn(900)),
            ..Standby::default()
        };
        let shown = Shown {
            report: Report {
                role: Role::Primary,
                state: State::Leading,
                timeline: Some(3),
                received: Some(Lsn(1000)),
                standbys: vec![standby],
                wrote_ms: Some(1500),
                ..Report::default()
            },
            ready: Ok(()),
            ..Shown::default()
        };
        let text = exposition(&shown).unwrap();
        for line in [
            "roadstead_postgres_up 1",
            "roadstead_postgres_role{role=\"primary\"} 1",
            "roadstead_postgres_role{role=\"replica\"} 0",
            "roadstead_postgres_state{state=\"Leading\"} 1",
            "roadstead_postgres_state{state=\"Failed\"} 0",
            "roadstead_postgres_timeline 3",
            "roadstead_postgres_received_bytes 1000",
            "roadstead_postgres_streaming 0",
            "roadstead_postgres_wrote_seconds 1.5",
            "roadstead_postgres_standby_flush_lag_bytes{standby=\"orders-1\"} 100",
        ] {
            assert!(
                text.lines().any(|there| there == line),
                "{line} is not in\n{text}"
            );
        }
        for absent in [
            "postgres_replayed_bytes",
            "postgres_api_seconds",
            "replay_lag_bytes{",
        ] {
            assert!(!text.contains(absent), "{absent} is in\n{text}");
        }
    }
}
