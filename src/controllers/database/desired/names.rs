//! Names, labels and paths that the objects of a database share.

use std::collections::BTreeMap;

use crate::api::database::agent::{self, ROLE_LABEL, Role};
use crate::controllers::common::labels;

/// What the pods run, in the label by which a Database's children are told from those of other kinds.
pub const POSTGRESQL: &str = "postgresql";
/// Component of all children.
pub const DATABASE: &str = "database";

/// PostgreSQL.
pub const POSTGRES_PORT: i32 = agent::POSTGRES_PORT as i32;
/// The instance manager.
pub const CONTROL_PORT: i32 = agent::PORT as i32;

/// The headless Service, and the account under which instances run.
pub fn instances(database: &str) -> String {
    format!("{database}-instances")
}

/// The Service that leads to replicas.
pub fn read_only(database: &str) -> String {
    format!("{database}-ro")
}

/// The Secret with the authority and its key, which no pod mounts.
pub fn authority(database: &str) -> String {
    format!("{database}-authority")
}

/// The Secret with the certificate of the instances.
pub fn tls(database: &str) -> String {
    format!("{database}-tls")
}

/// The ConfigMap with [`agent::Settings`].
pub fn settings(database: &str) -> String {
    format!("{database}-settings")
}

/// The pod of an instance.
pub fn pod(database: &str, ordinal: i32) -> String {
    format!("{database}-{ordinal}")
}

/// Which of the instances a pod is.
pub fn ordinal(pod: &str) -> Option<i32> {
    pod.rsplit_once('-')?.1.parse().ok()
}

/// How many instances there have to be for these pods to be among them.
pub fn count_with(pods: impl IntoIterator<Item = impl AsRef<str>>) -> i32 {
    let ordinals = pods.into_iter().filter_map(|pod| ordinal(pod.as_ref()));
    ordinals.max().map_or(0, |last| last.saturating_add(1))
}

/// A Service as the whole cluster knows it.
pub fn host(service: &str, namespace: &str, cluster_domain: &str) -> String {
    format!("{service}.{namespace}.svc.{cluster_domain}")
}

/// Where an instance is found by the others, and what its certificate is checked for.
pub fn instance_host(database: &str, pod: &str, namespace: &str, cluster_domain: &str) -> String {
    format!("{pod}.{}", host(&instances(database), namespace, cluster_domain))
}

/// The labels that every child has.
pub fn labels(database: &str) -> BTreeMap<String, String> {
    labels::labels(POSTGRESQL, database, DATABASE)
}

/// Selects all pods of a database.
pub fn selector(database: &str) -> BTreeMap<String, String> {
    labels::selector(POSTGRESQL, database, DATABASE)
}

/// Selects those of its pods that have a role.
pub fn selector_of(database: &str, role: Role) -> BTreeMap<String, String> {
    let mut selector = selector(database);
    // A pod without a role has no such label, so nothing is selected by that of no role.
    selector.insert(ROLE_LABEL.to_owned(), role.name().to_owned());
    selector
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::api::database::MAX_NAME;

    proptest! {
        #[test]
        fn every_derived_name_is_a_label_of_dns(name in "[a-z][-a-z0-9]{0,50}[a-z0-9]") {
            prop_assert!(name.len() <= MAX_NAME);
            for derived in [instances(&name), read_only(&name), authority(&name), tls(&name), settings(&name), pod(&name, 8)] {
                prop_assert!(derived.len() <= 63, "{derived}");
            }
        }
    }
}
