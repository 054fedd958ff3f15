//! The objects of one kind, by key and by owner. No client, no clock, no lock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::runtime::key::{Object, ObjectKey, controller_of};

/// A step in the life of an object. At least one side is there: none before a creation, none after a deletion.
#[derive(Clone, Debug)]
pub struct Change<K> {
    /// How it was.
    pub old: Option<Arc<K>>,
    /// How it is.
    pub new: Option<Arc<K>>,
}

impl<K> Change<K> {
    /// Both sides that are there.
    pub fn sides(&self) -> impl Iterator<Item = &K> {
        [self.old.as_deref(), self.new.as_deref()].into_iter().flatten()
    }
}

#[derive(Debug)]
pub(super) struct Store<K> {
    objects: BTreeMap<ObjectKey, Arc<K>>,
    /// Which objects the owner with this uid controls.
    owned: BTreeMap<String, BTreeSet<ObjectKey>>,
}

impl<K> Default for Store<K> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            owned: BTreeMap::new(),
        }
    }
}

impl<K: Object> Store<K> {
    /// Puts `object` in unless it is known in a later version: what was learnt from an answer can be ahead of the watch.
    pub(super) fn apply_newer(&mut self, object: K) -> Option<Change<K>> {
        let known = self.objects.get(&ObjectKey::of(&object));
        if known.is_some_and(|known| is_later(known.as_ref(), &object)) {
            return None;
        }
        self.apply(object)
    }

    /// Like [`Self::apply_newer`], but only if an earlier version of this very object is known.
    pub(super) fn note(&mut self, object: K) -> Option<Change<K>> {
        let known = self.objects.get(&ObjectKey::of(&object))?;
        if known.meta().uid != object.meta().uid {
            return None;
        }
        self.apply_newer(object)
    }

    /// Puts `object` in, as a list does, which is right even where versions have gone back: a cluster restored from a backup.
    ///
    /// `None` when it was there already in this very version, as after a list that followed a broken watch.
    pub(super) fn apply(&mut self, object: K) -> Option<Change<K>> {
        let key = ObjectKey::of(&object);
        if self
            .objects
            .get(&key)
            .is_some_and(|known| same_version(known.as_ref(), &object))
        {
            return None;
        }
        let new = Arc::new(object);
        let old = self.objects.insert(key.clone(), Arc::clone(&new));
        if let Some(old) = &old {
            self.unlink(&key, old);
        }
        if let Some(owner) = controller_of(new.as_ref()) {
            self.owned
                .entry(owner.uid.clone())
                .or_default()
                .insert(key.clone());
        }
        Some(Change { old, new: Some(new) })
    }

    /// Takes the object with this key out. `None` when there was none.
    pub(super) fn remove(&mut self, key: &ObjectKey) -> Option<Change<K>> {
        let old = self.objects.remove(key)?;
        self.unlink(key, &old);
        Some(Change {
            old: Some(old),
            new: None,
        })
    }

    /// Takes out what a complete list did not mention: it was deleted while nobody watched. With a namespace, the list was of that one.
    pub(super) fn retain_listed(
        &mut self,
        namespace: Option<&str>,
        listed: &BTreeSet<ObjectKey>,
    ) -> Vec<Change<K>> {
        let lost: Vec<ObjectKey> = self
            .objects
            .keys()
            .filter(|key| namespace.is_none() || key.namespace.as_deref() == namespace)
            .filter(|key| !listed.contains(*key))
            .cloned()
            .collect();
        lost.iter().filter_map(|key| self.remove(key)).collect()
    }

    pub(super) fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.objects.get(key).cloned()
    }

    pub(super) fn list(&self) -> Vec<Arc<K>> {
        self.objects.values().cloned().collect()
    }

    pub(super) fn keys(&self) -> Vec<ObjectKey> {
        self.objects.keys().cloned().collect()
    }

    pub(super) fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        let first = ObjectKey::namespaced(namespace, "");
        let of_namespace = self
            .objects
            .range(first..)
            .take_while(|(key, _)| key.namespace.as_deref() == Some(namespace));
        of_namespace.map(|(_, object)| Arc::clone(object)).collect()
    }

    pub(super) fn owned_by(&self, uid: &str) -> Vec<Arc<K>> {
        let keys = self.owned.get(uid).into_iter().flatten();
        keys.filter_map(|key| self.get(key)).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }

    fn unlink(&mut self, key: &ObjectKey, object: &K) {
        let Some(owner) = controller_of(object) else {
            return;
        };
        if let Some(keys) = self.owned.get_mut(&owner.uid) {
            keys.remove(key);
            if keys.is_empty() {
                self.owned.remove(&owner.uid);
            }
        }
    }
}

/// Whether `left` is a later version of the same object than `right`. Versions are numbers that grow; where one is none, nothing is said.
fn is_later<K: Object>(left: &K, right: &K) -> bool {
    let version = |object: &K| object.meta().resource_version.as_ref()?.parse::<u64>().ok();
    left.meta().uid == right.meta().uid && version(left) > version(right) && version(right).is_some()
}

fn same_version<K: Object>(left: &K, right: &K) -> bool {
    let (left, right) = (left.meta(), right.meta());
    left.uid == right.uid
        && left.resource_version.is_some()
        && left.resource_version == right.resource_version
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
    use proptest::prelude::*;

    fn object(namespace: &str, name: &str, version: u32, owner: Option<&str>) -> ConfigMap {
        let mut object = ConfigMap::default();
        object.metadata.namespace = Some(namespace.into());
        object.metadata.name = Some(name.into());
        object.metadata.resource_version = Some(version.to_string());
        object.metadata.owner_references = owner.map(|uid| {
            vec![OwnerReference {
                uid: uid.into(),
                ..OwnerReference::default()
            }]
        });
        object
    }

    #[test]
    fn a_change_shows_both_sides() {
        let mut store = Store::default();
        let created = store.apply(object("ns", "a", 1, None)).unwrap();
        assert!(created.old.is_none() && created.new.is_some());
        let updated = store.apply(object("ns", "a", 2, None)).unwrap();
        assert_eq!(
            updated.old.unwrap().metadata.resource_version.as_deref(),
            Some("1")
        );
        let deleted = store.remove(&ObjectKey::namespaced("ns", "a")).unwrap();
        assert!(deleted.new.is_none());
        assert!(store.remove(&ObjectKey::namespaced("ns", "a")).is_none());
    }

    #[test]
    fn a_list_that_tells_nothing_new_changes_nothing() {
        let mut store = Store::default();
        store.apply(object("ns", "a", 1, None));
        assert!(store.apply(object("ns", "a", 1, None)).is_none());
    }

    #[test]
    fn a_watch_that_lags_behind_an_answer_does_not_take_the_object_back() {
        let mut store = Store::default();
        store.apply(object("ns", "a", 1, None));
        assert!(store.note(object("ns", "a", 3, None)).is_some());
        assert!(store.apply_newer(object("ns", "a", 2, None)).is_none());
        assert!(store.apply_newer(object("ns", "a", 3, None)).is_none());
        assert!(store.apply_newer(object("ns", "a", 10, None)).is_some());
        assert!(
            store.apply(object("ns", "a", 4, None)).is_some(),
            "a list is believed"
        );
    }

    #[test]
    fn an_answer_is_noted_for_a_known_object_only() {
        let mut store = Store::default();
        assert!(store.note(object("ns", "a", 1, None)).is_none());
        let mut reborn = object("ns", "a", 2, None);
        reborn.metadata.uid = Some("2".into());
        store.apply(object("ns", "a", 1, None));
        assert!(store.note(reborn).is_none());
    }

    #[test]
    fn a_list_deletes_what_it_does_not_mention_in_its_own_namespace_only() {
        let mut store = Store::default();
        for (namespace, name) in [("x", "a"), ("x", "b"), ("y", "a")] {
            store.apply(object(namespace, name, 1, None));
        }
        let listed = [ObjectKey::namespaced("x", "b")].into();
        let lost = store.retain_listed(Some("x"), &listed);
        assert_eq!(lost.len(), 1);
        assert_eq!(
            store.keys(),
            [ObjectKey::namespaced("x", "b"), ObjectKey::namespaced("y", "a")]
        );
        assert_eq!(store.retain_listed(None, &BTreeSet::new()).len(), 2);
    }

    #[test]
    fn a_namespace_is_told_from_one_that_begins_alike() {
        let mut store = Store::default();
        for namespace in ["a", "ab", "b"] {
            store.apply(object(namespace, "x", 1, None));
        }
        assert_eq!(store.in_namespace("a").len(), 1);
    }

    proptest! {
        /// The index of owners says what a look at every object would say.
        #[test]
        fn the_owner_index_never_differs_from_the_objects(
            steps in prop::collection::vec((0_u8..5, prop::option::of(0_u8..3), any::<bool>()), 0..60)
        ) {
            let mut store = Store::default();
            for (version, (name, owner, keep)) in steps.into_iter().enumerate() {
                let (name, owner) = (name.to_string(), owner.map(|owner| owner.to_string()));
                if keep {
                    store.apply(object("ns", &name, u32::try_from(version).unwrap(), owner.as_deref()));
                } else {
                    store.remove(&ObjectKey::namespaced("ns", name));
                }
                for owner in ["0", "1", "2"] {
                    let all = store.list();
                    let expected: Vec<_> = all.iter().filter(|object| controller_of(object.as_ref()).is_some_and(|controller| controller.uid == owner)).collect();
                    let indexed = store.owned_by(owner);
                    prop_assert_eq!(indexed.iter().collect::<Vec<_>>(), expected);
                }
                prop_assert!(store.owned.values().all(|keys| !keys.is_empty()));
            }
        }
    }
}
