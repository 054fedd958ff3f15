//! Logs, metrics and traces.

#[cfg(test)]
pub(crate) mod captured;
pub mod logs;
pub mod metrics;
pub mod sparing;
pub(crate) mod told;
pub mod traces;
