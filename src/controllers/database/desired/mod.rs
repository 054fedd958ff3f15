//! The objects that a database consists of, built from a validated spec. Pure: no client, no clock, no randomness.

pub mod access;
pub mod disruption_budget;
pub mod names;
pub mod pod;
pub mod secrets;
pub mod services;
pub mod settings;
pub mod stateful_set;

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Service, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Resource, ResourceExt};

use super::Settings;
use super::step::Course;
use crate::api::database::ValidDatabase;
use crate::api::database::v1::Database;
use stateful_set::Volume;

/// Whose children objects are, whatever the spec says.
#[derive(Clone, Debug)]
pub struct Parent {
    /// The database's name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Marks the database as controller; with it, nothing but volumes outlives the database.
    pub reference: OwnerReference,
}

impl Parent {
    /// A database as the API server has it; none if that has given it no UID.
    pub fn of(database: &Database) -> Option<Self> {
        Some(Self {
            name: database.name_any(),
            namespace: database.namespace().unwrap_or_default(),
            reference: database.controller_owner_ref(&())?,
        })
    }

    fn metadata(&self, name: String) -> ObjectMeta {
        ObjectMeta {
            name: Some(name),
            namespace: Some(self.namespace.clone()),
            labels: Some(names::labels(&self.name)),
            owner_references: Some(vec![self.reference.clone()]),
            ..ObjectMeta::default()
        }
    }
}

/// A validated database, whose children objects are.
#[derive(Debug)]
pub struct Owner<'a> {
    /// As the API server has it.
    pub object: &'a Database,
    /// What its spec leads to.
    pub database: &'a ValidDatabase,
    /// The same whatever its spec says.
    pub parent: Parent,
}

impl Owner<'_> {
    /// The database's name.
    pub fn name(&self) -> &str {
        &self.database.name
    }

    fn metadata(&self, name: String) -> ObjectMeta {
        self.parent.metadata(name)
    }
}

/// What is not in the spec, and decided before children are built.
#[derive(Clone, Debug, PartialEq)]
pub struct Decided {
    /// How many instances the settings name: those that stay.
    pub members: i32,
    /// How many instances the StatefulSet has.
    pub replicas: i32,
    /// Those for which no commit is to wait, since they will be stopped.
    pub excused: BTreeSet<String>,
    /// Until then; none if there are none.
    pub excused_until: Option<Timestamp>,
    /// What cannot be changed in the StatefulSet that there is.
    pub volume: Volume,
    /// What the smallest volume holds, as far as that is known, and no more than the spec says. Bytes.
    pub room: u64,
    /// PostgreSQL's identifier of the data, once it is known.
    pub system_identifier: Option<String>,
    /// The instances whose volumes were there before the Database, until that is known.
    pub retained: BTreeSet<String>,
    /// What comes next to bring the instances themselves to where the spec has them.
    pub course: Course,
    /// What is not there yet, in words.
    pub pending: Vec<String>,
}

/// Children that hold nothing secret, and the Lease. To be taken apart without `..`, so that one that is forgotten does not compile.
#[derive(Clone, Debug, PartialEq)]
pub struct Resources {
    /// Instances run under it.
    pub service_account: ServiceAccount,
    /// What they may do.
    pub role: Role,
    /// That they may.
    pub role_binding: RoleBinding,
    /// Its metadata; instances write the rest.
    pub lease: Lease,
    /// What instances go by.
    pub settings: ConfigMap,
    /// Leads to the primary.
    pub primary: Service,
    /// Leads to replicas.
    pub read_only: Service,
    /// Gives names to instances.
    pub instances: Service,
    /// The instances.
    pub stateful_set: StatefulSet,
    /// For two instances or more.
    pub disruption_budget: Option<PodDisruptionBudget>,
}

/// Builds all children but Secrets.
///
/// # Errors
/// When the settings cannot be written as JSON.
pub fn build(
    owner: &Owner<'_>,
    settings: &Settings,
    decided: &Decided,
) -> Result<Resources, serde_json::Error> {
    let Decided { replicas, volume, .. } = decided;
    let told = settings::settings(owner.database, decided, &settings.cluster_domain);
    Ok(Resources {
        service_account: access::service_account(owner),
        role: access::role(owner),
        role_binding: access::role_binding(owner),
        lease: access::lease(owner),
        settings: settings::config_map(owner, settings::file(&told)?),
        primary: services::primary(owner),
        read_only: services::read_only(owner),
        instances: services::instances(owner),
        stateful_set: stateful_set::build(owner, settings, *replicas, volume),
        disruption_budget: disruption_budget::build(owner, *replicas),
    })
}

#[cfg(test)]
#[path = "desired_tests.rs"]
mod tests;
