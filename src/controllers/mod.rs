//! One folder per kind, the same files in each: observe, desired, status, reconcile.

pub mod my_proxy;

/// What flags and metrics call the kinds that have a controller.
pub const KINDS: &[&str] = &["myproxy"];
