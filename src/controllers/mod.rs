//! One folder per kind, the same files in each: observe, desired, status, reconcile. What they have alike is in [`common`].

pub mod common;
pub mod database;
pub mod my_proxy;
pub mod redis_cluster;

/// What flags and metrics call the kinds that have a controller.
pub const KINDS: &[&str] = &["myproxy", "database"];
