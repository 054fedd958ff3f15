//! What there is of a database, read from the caches and nowhere else.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret, Service, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::ResourceExt;

use super::desired::names;
use crate::api::database::v1::Database;
pub use crate::controllers::common::named;
use crate::runtime::cache::Cache;

/// The caches that the controller reads.
#[derive(Clone, Debug)]
pub struct Caches {
    /// StatefulSets of all databases.
    pub stateful_sets: Cache<StatefulSet>,
    /// Their Services.
    pub services: Cache<Service>,
    /// Their settings.
    pub config_maps: Cache<ConfigMap>,
    /// Secrets with the label of this operator's children, and no others.
    pub secrets: Cache<Secret>,
    /// Disruption budgets.
    pub budgets: Cache<PodDisruptionBudget>,
    /// Leases.
    pub leases: Cache<Lease>,
    /// What instances may do.
    pub roles: Cache<Role>,
    /// That they may.
    pub role_bindings: Cache<RoleBinding>,
    /// Under which account.
    pub service_accounts: Cache<ServiceAccount>,
    /// Pods, which a database owns only through its StatefulSet.
    pub pods: Cache<Pod>,
    /// The claims of their volumes, which nobody owns.
    pub claims: Cache<PersistentVolumeClaim>,
}

/// The children of one database as the caches have them, each kind sorted by name. It cannot be printed, since it holds Secrets.
#[derive(Clone, Default)]
pub struct Observed {
    /// At most one.
    pub stateful_sets: Vec<Arc<StatefulSet>>,
    /// Three.
    pub services: Vec<Arc<Service>>,
    /// The settings.
    pub config_maps: Vec<Arc<ConfigMap>>,
    /// Three.
    pub secrets: Vec<Arc<Secret>>,
    /// At most one.
    pub budgets: Vec<Arc<PodDisruptionBudget>>,
    /// One.
    pub leases: Vec<Arc<Lease>>,
    /// One.
    pub roles: Vec<Arc<Role>>,
    /// One.
    pub role_bindings: Vec<Arc<RoleBinding>>,
    /// One.
    pub service_accounts: Vec<Arc<ServiceAccount>>,
    /// Pods with the labels of the database's instances.
    pub pods: Vec<Arc<Pod>>,
    /// Claims with the same labels, those that are left of earlier instances included.
    pub claims: Vec<Arc<PersistentVolumeClaim>>,
}

impl Caches {
    /// Collects the children of a database.
    pub fn observe(&self, database: &Database) -> Observed {
        let (uid, name) = (database.uid().unwrap_or_default(), database.name_any());
        let namespace = database.namespace().unwrap_or_default();
        let mut pods = self.pods.in_namespace(&namespace);
        let mut claims = self.claims.in_namespace(&namespace);
        let selector = names::selector(&name);
        let selects = |labels: &BTreeMap<String, String>| {
            let mut selector = selector.iter();
            selector.all(|(label, value)| labels.get(label) == Some(value))
        };
        pods.retain(|pod| selects(pod.labels()));
        claims.retain(|claim| selects(claim.labels()));
        Observed {
            stateful_sets: self.stateful_sets.owned_by(&uid),
            services: self.services.owned_by(&uid),
            config_maps: self.config_maps.owned_by(&uid),
            secrets: self.secrets.owned_by(&uid),
            budgets: self.budgets.owned_by(&uid),
            leases: self.leases.owned_by(&uid),
            roles: self.roles.owned_by(&uid),
            role_bindings: self.role_bindings.owned_by(&uid),
            service_accounts: self.service_accounts.owned_by(&uid),
            pods,
            claims,
        }
    }
}

impl Observed {
    /// Whether nothing is left that serves: instances are allowed to end in order before what they need for that goes.
    pub fn is_stopped(&self) -> bool {
        let Self {
            stateful_sets, pods, ..
        } = self;
        stateful_sets.is_empty() && pods.is_empty()
    }

    /// Whether no child is left, and no pod. Volumes are not counted: they may stay.
    pub fn is_empty(&self) -> bool {
        let Self {
            stateful_sets,
            services,
            config_maps,
            secrets,
            budgets,
            leases,
            roles,
            role_bindings,
            service_accounts,
            pods,
            claims: _,
        } = self;
        stateful_sets.is_empty()
            && services.is_empty()
            && config_maps.is_empty()
            && secrets.is_empty()
            && budgets.is_empty()
            && leases.is_empty()
            && roles.is_empty()
            && role_bindings.is_empty()
            && service_accounts.is_empty()
            && pods.is_empty()
    }
}
