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

pub use crate::api::problem::{Problem, Problems};
pub use convert::{status_to_v1, status_to_v1alpha1, to_v1, to_v1alpha1, versions};
pub use limits::{MAX_INSTANCES, MAX_NAME};
pub use served::served;
pub use size::Size;
pub use valid::{ValidDatabase, ValidLogicalDatabase, ValidStorage};
pub use validate::{validate, validate_update};
