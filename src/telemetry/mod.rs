//! Logs, metrics and traces.

pub mod logs;
pub mod metrics;
pub mod traces;
