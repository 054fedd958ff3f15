//! Database: PostgreSQL that survives its machines.
//!
//! [`v1alpha1`] holds the shape that users know, [`v1`] the one that is stored; [`to_v1`] and [`to_v1alpha1`] lead from either to the other.
//! [`validate`] turns the stored one into a [`ValidDatabase`], the only form from which a server's configuration, a statement or a
//! child object is built; [`validate_update`] says what may not become of it.

pub mod agent;
mod cel;
mod content;
mod convert;
mod cron;
mod limits;
mod names;
mod parameters;
mod served;
mod size;
pub mod v1;
pub mod v1alpha1;
mod valid;
mod validate;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

pub use crate::api::problem::{Problem, Problems};
pub use convert::{status_to_v1, status_to_v1alpha1, to_v1, to_v1alpha1, versions};
pub use limits::{MAX_INSTANCES, MAX_LEASE, MAX_MAJOR, MAX_NAME, MIN_MAJOR};
pub use parameters::settings_of;
pub use served::served;
pub use size::Size;
pub use valid::{ValidDatabase, ValidLogicalDatabase, ValidStorage};
pub use validate::{validate, validate_update};

/// The annotation of a Database that asks for another start of every instance, one by one: any text that it did not have before, such as a time.
pub const RESTARTED_AT: &str = "roadstead.dev/restarted-at";
/// The annotation of a Database that asks for another primary: the name of the instance. It is taken away once that has begun, or cannot.
pub const SWITCH_OVER_TO: &str = "roadstead.dev/switch-over-to";

/// The definition with both versions, the early one first. It stores v1, as no release has stored the other.
pub fn definition() -> CustomResourceDefinition {
    let mut definition = v1alpha1::Database::crd();
    let versions = &mut definition.spec.versions;
    versions.iter_mut().for_each(|early| early.storage = false);
    versions.extend(v1::Database::crd().spec.versions);
    definition
}
