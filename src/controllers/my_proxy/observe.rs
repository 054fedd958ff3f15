//! What there is of a proxy, read from the caches and nowhere else.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;

use super::desired::names::proxy_of;
use crate::api::my_proxy::MyProxy;
pub use crate::controllers::common::named;
use crate::runtime::cache::Cache;

/// The caches that the controller reads.
#[derive(Clone, Debug)]
pub struct Caches {
    /// Deployments of all proxies.
    pub deployments: Cache<Deployment>,
    /// Their Services.
    pub services: Cache<Service>,
    /// Active configurations and candidates.
    pub config_maps: Cache<ConfigMap>,
    /// Checks.
    pub jobs: Cache<Job>,
    /// Disruption budgets.
    pub budgets: Cache<PodDisruptionBudget>,
    /// Pods of Deployments and of checks, which a proxy owns only through those.
    pub pods: Cache<Pod>,
}

/// The children of one proxy as the caches have them, each kind sorted by name.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// One, or two while the Deployment is renamed.
    pub deployments: Vec<Arc<Deployment>>,
    /// At most one.
    pub services: Vec<Arc<Service>>,
    /// The active configuration and candidates.
    pub config_maps: Vec<Arc<ConfigMap>>,
    /// Checks, finished ones too.
    pub jobs: Vec<Arc<Job>>,
    /// At most one.
    pub budgets: Vec<Arc<PodDisruptionBudget>>,
    /// Pods that carry the proxy's name as a label.
    pub pods: Vec<Arc<Pod>>,
}

impl Caches {
    /// Collects the children of a proxy.
    pub fn observe(&self, proxy: &MyProxy) -> Observed {
        let (uid, name) = (proxy.uid().unwrap_or_default(), proxy.name_any());
        let mut pods = self.pods.in_namespace(&proxy.namespace().unwrap_or_default());
        pods.retain(|pod| proxy_of(&**pod) == Some(&name));
        Observed {
            deployments: self.deployments.owned_by(&uid),
            services: self.services.owned_by(&uid),
            config_maps: self.config_maps.owned_by(&uid),
            jobs: self.jobs.owned_by(&uid),
            budgets: self.budgets.owned_by(&uid),
            pods,
        }
    }
}

impl Observed {
    /// Whether no child is left. Pods do not count: they go with their Deployment or Job.
    pub fn is_empty(&self) -> bool {
        let Self {
            deployments,
            services,
            config_maps,
            jobs,
            budgets,
            pods: _,
        } = self;
        deployments.is_empty()
            && services.is_empty()
            && config_maps.is_empty()
            && jobs.is_empty()
            && budgets.is_empty()
    }
}
