//! The controller of MyProxy.

pub mod desired;
mod rbac;

pub use rbac::rules;
