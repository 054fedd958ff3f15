//! What the controller watches, and which database a change concerns.

use std::sync::Arc;

use kube::ResourceExt;

use super::Settings;
use super::desired::names::{DATABASE, POSTGRESQL};
use super::instances::Instances;
use super::lease;
use super::observe::Caches;
use super::reconcile::DatabaseReconciler;
use super::volumes;
use crate::api::database::v1::{Database, DatabaseStatus};
use crate::api::database::{RESTARTED_AT, SWITCH_OVER_TO};
use crate::controllers::common::labels::{COMPONENT, INSTANCE, MANAGED_BY, MANAGER, NAME as SOFTWARE};
use crate::controllers::common::without_spec;
use crate::runtime::cache::{Cache, Watch};
use crate::runtime::controller::{Controller, ControllerOptions};
use crate::runtime::key::ObjectKey;
use crate::runtime::manager::Manager;
use crate::runtime::predicates::{self, Predicate};

/// The name of the controller in flags and metrics.
pub const NAME: &str = "database";

/// Adds the controller to a manager. Without `instances`, nobody is asked, and whether a database serves is not known.
pub fn register(
    manager: &mut Manager,
    settings: Settings,
    instances: Option<Arc<dyn Instances>>,
    options: ControllerOptions,
) {
    let children = || Watch::labelled(format!("{MANAGED_BY}={MANAGER}"));
    let databases: Cache<Database> = manager.cache(Watch::all());
    let caches = Caches {
        stateful_sets: manager.cache(children()),
        services: manager.cache(children()),
        config_maps: manager.cache(children()),
        secrets: manager.cache(children()),
        budgets: manager.cache(children()),
        leases: manager.cache(children()),
        roles: manager.cache(children()),
        role_bindings: manager.cache(children()),
        service_accounts: manager.cache(children()),
        pods: manager.trimmed_cache(children(), without_spec),
        claims: manager.trimmed_cache(children(), volumes::trim),
    };
    let reconciler = DatabaseReconciler::new(caches.clone(), settings, instances);
    let controller = Controller::new(NAME, &databases, reconciler)
        .when(
            predicates::generation()
                .or(predicates::finalizers())
                .or(Predicate::new(asks_otherwise))
                .or(Predicate::new(status_matters)),
        )
        .owns(&caches.stateful_sets)
        .owns(&caches.services)
        .owns(&caches.config_maps)
        .owns(&caches.secrets)
        .owns(&caches.budgets)
        .owns_when(&caches.leases, Predicate::new(lease::matters))
        .owns(&caches.roles)
        .owns(&caches.role_bindings)
        .owns(&caches.service_accounts)
        .watches(&caches.pods, database_of)
        .watches(&caches.claims, database_of)
        .options(options);
    manager.add(controller);
}

/// Whether somebody asks for something by an annotation.
fn asks_otherwise(old: &Database, new: &Database) -> bool {
    let asked = |database: &Database| {
        let of = |name: &str| database.annotations().get(name).cloned();
        [of(RESTARTED_AT), of(SWITCH_OVER_TO)]
    };
    asked(old) != asked(new)
}

/// Whether a status was changed, but for how far replicas are behind: that differs each time that somebody asks, and would be asked for again at once.
fn status_matters(old: &Database, new: &Database) -> bool {
    let without_lag = |database: &Database| {
        let mut status = database.status.clone();
        let instances = status
            .iter_mut()
            .flat_map(|status: &mut DatabaseStatus| &mut status.instances);
        instances.for_each(|instance| instance.lag = None);
        status
    };
    without_lag(old) != without_lag(new)
}

/// The owner of a pod is a StatefulSet, and that of a claim nobody, often; their labels name the database.
fn database_of<K: ResourceExt>(object: &K) -> Vec<ObjectKey> {
    let label = |label: &str| object.labels().get(label).map(String::as_str);
    let is_instance = label(SOFTWARE) == Some(POSTGRESQL) && label(COMPONENT) == Some(DATABASE);
    label(INSTANCE)
        .filter(|_| is_instance)
        .map(|name| ObjectKey {
            namespace: object.namespace(),
            name: name.to_owned(),
        })
        .into_iter()
        .collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;

    use super::*;
    use crate::api::database::v1::InstanceStatus;
    use crate::controllers::common::labels::labels;

    #[test]
    fn a_pod_concerns_the_database_that_it_is_an_instance_of_and_no_namesake_of_another_kind() {
        let mut pod = Pod::default();
        pod.metadata.namespace = Some("shop".into());
        pod.metadata.labels = Some(labels(POSTGRESQL, "orders", DATABASE));
        assert_eq!(database_of(&pod), [ObjectKey::namespaced("shop", "orders")]);
        for (software, component) in [("nginx", "proxy"), (POSTGRESQL, "backup")] {
            pod.metadata.labels = Some(labels(software, "orders", component));
            assert_eq!(database_of(&pod), []);
        }
    }

    #[test]
    fn how_far_a_replica_is_behind_is_no_change_of_the_status_and_all_else_is() {
        let with = |lag: i64, role: &str| {
            let mut database =
                crate::controllers::database::testing::database("orders", serde_json::json!({}));
            let instance = InstanceStatus {
                lag: Some(lag),
                role: Some(role.to_owned()),
                ..InstanceStatus::default()
            };
            database.status = Some(DatabaseStatus {
                instances: vec![instance],
                ..DatabaseStatus::default()
            });
            database
        };
        assert!(!status_matters(&with(1, "replica"), &with(2, "replica")));
        assert!(status_matters(&with(1, "replica"), &with(1, "primary")));
    }
}
