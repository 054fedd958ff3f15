//! The controller of Database.
//!
//! It makes what instances need (a StatefulSet, a Lease, Secrets, settings, rights) and says what has become of them. Who is the primary the instances
//! decide among themselves, by the Lease, which the operator makes empty, and of which it writes nothing but labels and owner; so a failover needs no operator. What no object of the
//! cluster tells, it asks the [`instances`].
//!
//! What is made once, the owner's password and the authority, is never written over: [`write`] takes what is there before it decides what should be.

mod act;
pub mod announce;
pub mod certificates;
mod clean_up;
pub mod decide;
pub mod desired;
pub mod error;
mod handover;
mod holds;
pub mod https;
pub mod instances;
mod lag;
pub mod lease;
pub mod live;
pub mod observe;
mod rbac;
mod reasons;
pub mod reconcile;
mod rollout;
mod scale;
#[cfg(test)]
mod scene;
pub mod status;
mod step;
mod switchover;
#[cfg(test)]
mod testing;
mod turn;
mod verdict;
mod volumes;
pub mod watches;
pub mod write;

use std::collections::BTreeMap;

pub use rbac::rules;
pub use watches::register;

/// Keeps a database until its children are gone.
pub const FINALIZER: &str = "roadstead.dev/cleanup";

/// What the operator is told about the cluster and its own images.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// PostgreSQL's images by major version, where they are not `postgres:MAJOR` and a database does not name one.
    pub postgres_images: BTreeMap<u32, String>,
    /// The operator's own image, from which the instance manager is copied into the pods.
    pub agent_image: String,
    /// The cluster's DNS domain, usually `cluster.local`.
    pub cluster_domain: String,
}

impl Settings {
    /// The image of databases that name none: the operator's choice for the major version. Where its tag is that version, a minor version takes its place.
    pub fn postgres_image(&self, major: u32, version: &str) -> String {
        let chosen = self.postgres_images.get(&major).cloned();
        let chosen = chosen.unwrap_or_else(|| format!("postgres:{major}"));
        match chosen.strip_suffix(&format!(":{major}")) {
            Some(repository) => format!("{repository}:{version}"),
            None => chosen,
        }
    }
}
