//! Which updates of an object are worth a reconcile.
//!
//! A predicate compares two versions of an object. Creations, deletions and the moment in which a deletion is asked for always
//! pass: a controller that could filter them out would miss them sooner or later.
//!
//! ```
//! use k8s_openapi::api::apps::v1::Deployment;
//! use roadstead::runtime::predicates::{self, Predicate};
//!
//! let worth: Predicate<Deployment> = predicates::generation().or(predicates::labels());
//! let (old, mut new) = (Deployment::default(), Deployment::default());
//! assert!(!worth.changed(&old, &new));
//! new.metadata.generation = Some(2);
//! assert!(worth.changed(&old, &new));
//! ```

use std::fmt;
use std::sync::Arc;

use kube::Resource;
use kube::core::object::HasStatus;

type Compare<K> = dyn Fn(&K, &K) -> bool + Send + Sync;

/// Says whether the step from one version of an object to another matters.
pub struct Predicate<K> {
    compare: Arc<Compare<K>>,
}

impl<K> Clone for Predicate<K> {
    fn clone(&self) -> Self {
        Self {
            compare: Arc::clone(&self.compare),
        }
    }
}

impl<K> fmt::Debug for Predicate<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Predicate")
    }
}

impl<K: 'static> Predicate<K> {
    /// A predicate of your own: true when the step from the first to the second version matters.
    pub fn new(compare: impl Fn(&K, &K) -> bool + Send + Sync + 'static) -> Self {
        Self {
            compare: Arc::new(compare),
        }
    }

    /// Passes when either does.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self::new(move |old, new| self.changed(old, new) || other.changed(old, new))
    }

    /// Passes when both do.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self::new(move |old, new| self.changed(old, new) && other.changed(old, new))
    }

    /// Whether the step from `old` to `new` matters.
    pub fn changed(&self, old: &K, new: &K) -> bool {
        (self.compare)(old, new)
    }
}

impl<K: Resource + 'static> Predicate<K> {
    /// Whether a change passes: creation, deletion and the request for deletion do, an update when [`Self::changed`] says so.
    pub fn passes(&self, old: Option<&K>, new: Option<&K>) -> bool {
        match (old, new) {
            (Some(old), Some(new)) => {
                old.meta().uid != new.meta().uid
                    || old.meta().deletion_timestamp != new.meta().deletion_timestamp
                    || self.changed(old, new)
            }
            _ => true,
        }
    }
}

/// The spec changed, as the API server counts it. A status update does not count where the status is a subresource.
pub fn generation<K: Resource + 'static>() -> Predicate<K> {
    Predicate::new(|old: &K, new: &K| old.meta().generation != new.meta().generation)
}

/// The finalizers changed, which the generation does not count.
pub fn finalizers<K: Resource + 'static>() -> Predicate<K> {
    Predicate::new(|old: &K, new: &K| old.meta().finalizers != new.meta().finalizers)
}

/// The status changed, by whomever: what somebody else writes there is put right. One's own is looked at once more and finds nothing to
/// write; while an object fails, it waits for its back-off.
pub fn status<K: HasStatus<Status: PartialEq> + 'static>() -> Predicate<K> {
    Predicate::new(|old: &K, new: &K| old.status() != new.status())
}

/// The labels changed.
pub fn labels<K: Resource + 'static>() -> Predicate<K> {
    Predicate::new(|old: &K, new: &K| old.meta().labels != new.meta().labels)
}

/// The annotations changed.
pub fn annotations<K: Resource + 'static>() -> Predicate<K> {
    Predicate::new(|old: &K, new: &K| old.meta().annotations != new.meta().annotations)
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    fn object(generation: i64) -> ConfigMap {
        let mut object = ConfigMap::default();
        object.metadata.generation = Some(generation);
        object.metadata.uid = Some("1".into());
        object
    }

    #[test]
    fn creation_and_deletion_always_pass() {
        let nothing = Predicate::<ConfigMap>::new(|_, _| false);
        assert!(nothing.passes(None, Some(&object(1))));
        assert!(nothing.passes(Some(&object(1)), None));
        assert!(!nothing.passes(Some(&object(1)), Some(&object(2))));
    }

    #[test]
    fn the_request_for_deletion_and_a_new_object_of_the_same_name_always_pass() {
        let nothing = Predicate::<ConfigMap>::new(|_, _| false);
        let mut deleting = object(1);
        deleting.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
        assert!(nothing.passes(Some(&object(1)), Some(&deleting)));
        let mut reborn = object(1);
        reborn.metadata.uid = Some("2".into());
        assert!(nothing.passes(Some(&object(1)), Some(&reborn)));
    }

    #[test]
    fn predicates_compose() {
        let mut labelled = object(1);
        labelled.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
        let either = generation().or(labels());
        let both = generation().and(labels());
        assert!(either.changed(&object(1), &labelled) && either.changed(&object(1), &object(2)));
        assert!(!both.changed(&object(1), &labelled) && !both.changed(&object(1), &object(2)));
        labelled.metadata.generation = Some(2);
        assert!(both.changed(&object(1), &labelled));
    }
}
