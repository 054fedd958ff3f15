//! TrinoCluster: a coordinator and workers that run queries.
//!
//! [`v1`] is what is stored, [`v1alpha1`] the shape that users of the first version write, [`to_v1`] and [`to_v1alpha1`] go between them;
//! [`validate`] turns an object into a [`ValidTrinoCluster`], the only form from which its objects and its files can be built.

mod convert;
mod limits;
mod overrides;
mod served;
pub mod v1;
pub mod v1alpha1;
mod validate;

pub use convert::{status_to_v1, status_to_v1alpha1, to_v1, to_v1alpha1, versions};
pub use limits::{DEFAULT_MEMORY, MAX_NAME};
pub use overrides::ConfigOverrides;
pub use served::served;
pub use validate::{ValidRole, ValidTrinoCluster, validate, validate_update};
