//! MyProxy: an nginx that proxies.
//!
//! [`v1alpha1`] holds the shape that users write; [`validate`] turns it into a [`ValidProxy`], the only form from which
//! an nginx configuration can be rendered.

pub mod v1alpha1;
mod validate;

pub use v1alpha1::{MyProxy, MyProxySpec, MyProxyStatus};
pub use validate::{
    Address, MAX_NAME, Problem, Problems, ValidProxy, ValidRoute, ValidServer, ValidUpstream, validate,
};
