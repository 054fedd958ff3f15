//! Logs, metrics and traces.

pub mod metrics;
pub mod traces;
