//! The controller of MyProxy.

mod rbac;

pub use rbac::rules;
