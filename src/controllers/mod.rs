//! One folder per kind, the same files in each: observe, desired, status, reconcile.

pub mod my_proxy;
