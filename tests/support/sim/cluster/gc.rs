//! The garbage collector: what nobody owns any more goes, and owners that wait for their dependents are let go.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{delete, is_deleting, writer};
use crate::sim::store::{Id, Store};
use crate::sim::write;

pub fn step(store: &mut Store) {
    if !has_work(store) {
        return;
    }
    let all: Vec<(Id, Value)> = store
        .all()
        .map(|(id, object)| (id.clone(), object.clone()))
        .collect();
    for (id, object) in all.iter().filter(|(_, object)| is_deleting(object)) {
        if holds(object, "orphan") {
            orphan(store, &all, object);
            release(store, id, "orphan");
        }
        if holds(object, "foregroundDeletion") && collect(store, &all, object) {
            release(store, id, "foregroundDeletion");
        }
    }
    let uids: BTreeSet<String> = store.all().map(|(_, object)| uid(object).to_owned()).collect();
    for (id, object) in all {
        let owners = owners(&object);
        let gone = |owner: &&Value| !uids.contains(owner["uid"].as_str().unwrap_or_default());
        let dangling = owners.iter().filter(gone).count();
        if owners.is_empty() || dangling == 0 || store.get(&id).is_none() {
            continue;
        }
        if dangling < owners.len() {
            keep_owners(store, &id, |owner| !gone(&owner));
        } else if !is_deleting(&object) {
            delete(store, &id, "Background", None);
        }
    }
}

fn has_work(store: &Store) -> bool {
    let uids: BTreeSet<&str> = store.all().map(|(_, object)| uid(object)).collect();
    store.all().any(|(_, object)| {
        let mut owners = object["metadata"]["ownerReferences"]
            .as_array()
            .into_iter()
            .flatten();
        is_deleting(object) || owners.any(|owner| !uids.contains(owner["uid"].as_str().unwrap_or_default()))
    })
}

fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

fn owners(object: &Value) -> Vec<Value> {
    object["metadata"]["ownerReferences"]
        .as_array()
        .cloned()
        .unwrap_or_default()
}

fn holds(object: &Value, finalizer: &str) -> bool {
    let held = object["metadata"]["finalizers"].as_array().into_iter().flatten();
    held.into_iter().any(|held| held == finalizer)
}

fn dependents<'a>(all: &'a [(Id, Value)], owner: &'a Value) -> impl Iterator<Item = (&'a Id, Value)> {
    all.iter().filter_map(move |(id, object)| {
        let reference = owners(object)
            .into_iter()
            .find(|reference| reference["uid"] == uid(owner))?;
        Some((id, reference))
    })
}

/// Has the dependents of `owner` forget it.
fn orphan(store: &mut Store, all: &[(Id, Value)], owner: &Value) {
    for (id, _) in dependents(all, owner) {
        keep_owners(store, id, |reference| reference["uid"] != uid(owner));
    }
}

/// Deletes the dependents of `owner`; true when none is left for which it has to wait.
fn collect(store: &mut Store, all: &[(Id, Value)], owner: &Value) -> bool {
    let mut waits = false;
    for (id, reference) in dependents(all, owner) {
        match store.get(id) {
            Some(object) if !is_deleting(object) => delete(store, id, "Foreground", None),
            _ => {}
        }
        waits |= reference["blockOwnerDeletion"] == true && store.get(id).is_some();
    }
    !waits
}

fn keep_owners(store: &mut Store, id: &Id, keep: impl Fn(&Value) -> bool) {
    let Some(object) = store.get(id) else { return };
    let kept: Vec<Value> = owners(object).into_iter().filter(|owner| keep(owner)).collect();
    patch(
        store,
        id,
        &json!({"metadata": {"uid": uid(object), "ownerReferences": kept}}),
    );
}

fn release(store: &mut Store, id: &Id, finalizer: &str) {
    let Some(object) = store.get(id) else { return };
    let held = object["metadata"]["finalizers"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let kept: Vec<Value> = held.into_iter().filter(|held| held != finalizer).collect();
    patch(
        store,
        id,
        &json!({"metadata": {"uid": uid(object), "finalizers": kept}}),
    );
}

fn patch(store: &mut Store, id: &Id, patch: &Value) {
    let patched = write::merge_patch(store, id, patch, false, &writer(false));
    patched.unwrap_or_else(|refusal| panic!("{id:?}: {}", refusal.message));
}
