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

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

pub use crate::api::problem::{Problem, Problems};
pub use crate::api::rules::MAX_NAME;
pub use convert::versions;
pub use served::{in_v1, served, validate_stored};
/// The version in which objects are stored, and in which the operator itself reads and writes them: so nothing of its own work waits for the webhook
/// that converts, which it serves itself.
pub use v1alpha1::{MyProxy, MyProxySpec, MyProxyStatus};
pub use validate::{Address, ValidProxy, ValidRoute, ValidServer, ValidUpstream, validate};

/// The definition with both versions. v1 is served while v1alpha1 is stored: only the next minor version turns that around, when every operator that
/// may still run knows how to convert.
pub fn definition() -> CustomResourceDefinition {
    let mut definition = v1alpha1::MyProxy::crd();
    let mut late = v1::MyProxy::crd().spec.versions;
    late.iter_mut().for_each(|version| version.storage = false);
    definition.spec.versions.extend(late);
    definition
}
