//! The objects that a proxy consists of, built from a validated spec. Pure: no client, no clock.

pub mod check_job;
pub mod config;
pub mod config_map;
pub mod deployment;
pub mod disruption_budget;
pub mod names;
mod pod;
pub mod service;
pub mod unit;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::api::my_proxy::ValidProxy;
use unit::Unit;

/// A validated proxy and the reference that makes an object its child.
#[derive(Debug)]
pub struct Owner<'a> {
    /// The proxy.
    pub proxy: &'a ValidProxy,
    /// Marks the proxy as controller; with it, nothing outlives the proxy.
    pub reference: OwnerReference,
}

impl Owner<'_> {
    fn metadata(&self, name: String, component: &str) -> ObjectMeta {
        ObjectMeta {
            name: Some(name),
            namespace: Some(self.proxy.namespace.clone()),
            labels: Some(names::labels(self.proxy, component)),
            owner_references: Some(vec![self.reference.clone()]),
            ..ObjectMeta::default()
        }
    }
}

/// All children of a proxy. To be taken apart without `..`, so that one that is forgotten does not compile.
#[derive(Clone, Debug, PartialEq)]
pub struct Resources {
    /// Clients need an address before there is anything behind it.
    pub service: Service,
    /// The active configuration, once there is one.
    pub config_map: Option<ConfigMap>,
    /// The configuration that is being checked, if one is.
    pub candidate: Option<ConfigMap>,
    /// The check, if one is to be started or watched.
    pub check: Option<Job>,
    /// The pods, once there is a configuration for them.
    pub deployment: Option<Deployment>,
    /// For two pods or more.
    pub disruption_budget: Option<PodDisruptionBudget>,
}

/// Builds all children: those that serve from the `active` unit, and a check of another one, whose attempt of this number is to be begun
/// unless there is one already.
pub fn build(owner: &Owner<'_>, active: Option<&Unit>, check: Option<(&Unit, Option<u32>)>) -> Resources {
    let secret = active.map_or(&owner.proxy.tls_secret, |unit| &unit.tls_secret);
    Resources {
        service: service::build(owner, secret.is_some()),
        config_map: active.map(|unit| config_map::active(owner, unit)),
        candidate: check.map(|(unit, _)| config_map::candidate(owner, unit)),
        check: check.and_then(|(unit, attempt)| Some(check_job::build(owner, unit, attempt?))),
        deployment: active.map(|unit| deployment::build(owner, unit)),
        disruption_budget: disruption_budget::build(owner),
    }
}

#[cfg(test)]
#[path = "desired_tests.rs"]
mod tests;
