//! MyProxy: an nginx that proxies.
//!
//! [`v1alpha1`] holds the shape that users have written since the first release; [`v1`] is the one to write from now on, and in which objects are
//! stored. [`validate`] turns the latter into a [`ValidProxy`], the only form from which an nginx configuration can be rendered; [`agent`] is
//! what operator and pods agree on.

pub mod agent;
mod convert;
mod limits;
pub mod routing;
mod served;
pub mod v1;
pub mod v1alpha1;
mod validate;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

pub use crate::api::problem::{Problem, Problems};
pub use crate::api::rules::MAX_NAME;
pub use convert::versions;
pub use served::served;
/// The version in which objects are stored, and in which the operator itself reads and writes them: so nothing of its own work waits for the webhook
/// that converts, which it serves itself, once every object has been moved to it.
pub use v1::{MyProxy, MyProxySpec, MyProxyStatus};
pub use validate::{Address, ValidProxy, ValidRoute, ValidServer, ValidUpstream, validate};

/// The definition with both versions, the early one first. It stores v1: operators of the minor version before this one serve and convert both already.
pub fn definition() -> CustomResourceDefinition {
    let mut definition = v1alpha1::MyProxy::crd();
    let versions = &mut definition.spec.versions;
    versions.iter_mut().for_each(|early| early.storage = false);
    versions.extend(v1::MyProxy::crd().spec.versions);
    definition
}
