//! MyProxy: an nginx that proxies.
//!
//! [`v1alpha1`] holds the shape that users have written since the first release, and in which objects are stored; [`v1`] is the one to write from
//! now on. [`validate`] turns the latter into a [`ValidProxy`], the only form from which an nginx configuration can be rendered; [`agent`] is
//! what operator and pods agree on.

pub mod agent;
mod convert;
mod limits;
pub mod routing;
mod served;
pub mod v1;
pub mod v1alpha1;
mod validate;

pub use crate::api::problem::{Problem, Problems};
pub use crate::api::rules::MAX_NAME;
pub use convert::{in_v1, versions};
pub use served::served;
/// The version in which objects are stored, and in which the operator itself reads and writes them: so nothing of its own work waits for the webhook
/// that converts, which it serves itself.
pub use v1alpha1::{MyProxy, MyProxySpec, MyProxyStatus};
pub use validate::{Address, ValidProxy, ValidRoute, ValidServer, ValidUpstream, validate};
