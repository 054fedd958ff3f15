//! The controller of MyProxy.
//!
//! A configuration goes through three stages, and no pod takes one that has not passed the second: rendered from the spec, checked
//! by a Job that runs `nginx -t` in the operand's own image with its real mounts, active. [`check`] decides which stage it is in,
//! [`plan`] what to do about it, both from what is observed alone. Whether it is also what the pods serve is asked of their [`agents`].

pub mod agents;
pub mod announce;
pub mod check;
mod clean_up;
pub mod desired;
pub mod error;
pub mod live;
pub mod loaded;
pub mod observe;
pub mod plan;
mod rbac;
pub mod reconcile;
mod rollout;
pub mod status;
#[cfg(test)]
mod testing;
pub mod watches;
pub mod write;

pub use rbac::rules;
pub use watches::register;

/// Keeps a proxy until its children are gone.
pub const FINALIZER: &str = "roadstead.dev/cleanup";

/// What the operator is told about the cluster and its own images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// nginx's image, where a proxy does not name one.
    pub nginx_image: String,
    /// The operator's own image, from which the agent is copied into the pods.
    pub agent_image: String,
    /// The cluster's DNS domain, usually `cluster.local`.
    pub cluster_domain: String,
}
