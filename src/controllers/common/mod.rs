//! What the objects and the words of several kinds have alike. It knows none of them.

pub mod announce;
pub mod labels;
pub mod mark;
pub mod pod;
mod rbac;

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

pub use rbac::{OWN, rule};

/// Of pods, which are the most numerous and the largest of what is kept, only metadata and status are read. The rest is 20 kB of memory for
/// each.
pub fn without_spec(pod: &mut Pod) {
    pod.spec = None;
}

/// The object of a name among children of one kind.
pub fn named<'a, K: ResourceExt>(objects: &'a [Arc<K>], name: &str) -> Option<&'a Arc<K>> {
    objects
        .iter()
        .find(|object| object.meta().name.as_deref() == Some(name))
}
