//! How the runtime names an object, and what it asks of a kind.

use std::any::TypeId;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;
use kube::core::NamespaceResourceScope;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A kind that the runtime can watch, apply and reconcile: every `k8s-openapi` type and every type that
/// derives `CustomResource` is one.
pub trait Object:
    Resource<DynamicType = (), Scope: 'static>
    + Clone
    + fmt::Debug
    + Serialize
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
    /// Whether objects of this kind live in a namespace.
    fn is_namespaced() -> bool {
        TypeId::of::<Self::Scope>() == TypeId::of::<NamespaceResourceScope>()
    }
}

impl<K> Object for K where
    K: Resource<DynamicType = (), Scope: 'static>
        + Clone
        + fmt::Debug
        + Serialize
        + DeserializeOwned
        + Send
        + Sync
        + 'static
{
}

/// Namespace and name of an object; of which kind is known from the place where it stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// `None` for a kind without namespaces.
    pub namespace: Option<String>,
    /// `metadata.name`.
    pub name: String,
}

impl ObjectKey {
    /// The key of an object in a namespace.
    pub fn namespaced(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: Some(namespace.into()),
            name: name.into(),
        }
    }

    /// The key of an object of a kind without namespaces.
    pub fn cluster(name: impl Into<String>) -> Self {
        Self {
            namespace: None,
            name: name.into(),
        }
    }

    /// The key of `object`. An object without a name, which no API server hands out, has an empty one.
    pub fn of<K: Resource>(object: &K) -> Self {
        let meta = object.meta();
        Self {
            namespace: meta.namespace.clone(),
            name: meta.name.clone().unwrap_or_default(),
        }
    }

    /// The key of the object of kind `Owner` that controls `child`, if one does.
    ///
    /// The version of the reference is not compared: a child made by an older version of the operator still belongs to its owner.
    pub fn of_controller<Owner: Object, Child: Resource>(child: &Child) -> Option<Self> {
        let owner = controller_of(child)?;
        let group = owner.api_version.rsplit_once('/').map_or("", |(group, _)| group);
        if owner.kind != Owner::kind(&()) || group != Owner::group(&()) {
            return None;
        }
        let namespace = if Owner::is_namespaced() {
            child.meta().namespace.clone()
        } else {
            None
        };
        Some(Self {
            namespace,
            name: owner.name.clone(),
        })
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// The owner reference of `object` that is marked as its controller: at most one is, the API server sees to it.
pub fn controller_of<K: Resource>(object: &K) -> Option<&OwnerReference> {
    object
        .meta()
        .owner_references
        .as_ref()?
        .iter()
        .find(|owner| owner.controller == Some(true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
    use k8s_openapi::api::core::v1::{Node, Pod};

    fn pod_owned_by(api_version: &str, kind: &str, controller: Option<bool>) -> Pod {
        let mut pod = Pod::default();
        pod.metadata.namespace = Some("shop".into());
        pod.metadata.owner_references = Some(vec![OwnerReference {
            api_version: api_version.into(),
            kind: kind.into(),
            name: "web".into(),
            uid: "1".into(),
            controller,
            block_owner_deletion: None,
        }]);
        pod
    }

    #[test]
    fn a_child_leads_to_its_controller_of_the_right_kind_only() {
        let child = pod_owned_by("apps/v1", "ReplicaSet", Some(true));
        assert_eq!(
            ObjectKey::of_controller::<ReplicaSet, _>(&child),
            Some(ObjectKey::namespaced("shop", "web"))
        );
        assert_eq!(ObjectKey::of_controller::<Deployment, _>(&child), None);
    }

    #[test]
    fn an_older_version_of_the_owners_group_still_counts_and_another_group_does_not() {
        let older = pod_owned_by("apps/v1beta1", "ReplicaSet", Some(true));
        assert!(ObjectKey::of_controller::<ReplicaSet, _>(&older).is_some());
        let stranger = pod_owned_by("example.org/v1", "ReplicaSet", Some(true));
        assert!(ObjectKey::of_controller::<ReplicaSet, _>(&stranger).is_none());
    }

    #[test]
    fn an_owner_that_is_not_the_controller_is_not_told() {
        assert!(
            ObjectKey::of_controller::<ReplicaSet, _>(&pod_owned_by("apps/v1", "ReplicaSet", None)).is_none()
        );
    }

    #[test]
    fn an_owner_without_namespace_has_a_key_without_one() {
        let child = pod_owned_by("v1", "Node", Some(true));
        assert_eq!(
            ObjectKey::of_controller::<Node, _>(&child),
            Some(ObjectKey::cluster("web"))
        );
    }

    #[test]
    fn keys_read_as_people_write_them() {
        assert_eq!(ObjectKey::namespaced("a", "b").to_string(), "a/b");
        assert_eq!(ObjectKey::cluster("b").to_string(), "b");
    }
}
