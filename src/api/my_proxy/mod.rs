//! MyProxy: an nginx that proxies.
//!
//! [`v1alpha1`] holds the shape that users write; [`validate`] turns it into a [`ValidProxy`], the only form from which
//! an nginx configuration can be rendered; [`agent`] is what operator and pods agree on.

pub mod agent;
mod convert;
mod limits;
pub mod routing;
pub mod v1;
pub mod v1alpha1;
mod validate;

pub use crate::api::problem::{Problem, Problems};
pub use crate::api::rules::MAX_NAME;
pub use convert::versions;
pub use v1alpha1::{MyProxy, MyProxySpec, MyProxyStatus};
pub use validate::{Address, ValidProxy, ValidRoute, ValidServer, ValidUpstream, validate};
