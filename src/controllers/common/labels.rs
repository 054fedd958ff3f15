//! The labels that every child has, whatever its kind.

use std::collections::BTreeMap;

/// The label by which the caches of all controllers select children.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The value of [`MANAGED_BY`].
pub const MANAGER: &str = "roadstead";
/// The label that says which software a child is of, and so of which kind its owner is.
pub const NAME: &str = "app.kubernetes.io/name";
/// The label that leads from a child to the object that it is of.
pub const INSTANCE: &str = "app.kubernetes.io/instance";
/// The label that tells a child's part.
pub const COMPONENT: &str = "app.kubernetes.io/component";

/// The labels of a child of `instance`.
pub fn labels(name: &str, instance: &str, component: &str) -> BTreeMap<String, String> {
    let mut labels = selector(name, instance, component);
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    labels.insert("app.kubernetes.io/part-of".to_owned(), MANAGER.to_owned());
    labels
}

/// Selects all pods of `instance` that play this part.
pub fn selector(name: &str, instance: &str, component: &str) -> BTreeMap<String, String> {
    [(NAME, name), (INSTANCE, instance), (COMPONENT, component)]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
}
