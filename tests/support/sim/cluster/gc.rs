//! The garbage collector: what nobody owns any more goes, and owners that wait for their dependents are let go.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{delete, holds, is_deleting, patch, release};
use crate::sim::store::{Id, Store};

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

pub fn step(store: &mut Store) {
    if !has_work(store) {
        return;
    }
    let all: Vec<Id> = store.all().map(|(id, _)| id.clone()).collect();
    for id in &all {
        let Some(object) = store.get(id).cloned() else {
            continue;
        };
        if is_deleting(&object) && holds(&object, ORPHAN) {
            for (dependent, _) in dependents(store, &object) {
                keep_owners(store, &dependent, |owner| owner["uid"] != uid(&object));
            }
            release(store, id, ORPHAN);
        } else if waits(&object) {
            let mut blocking = dependents(store, &object);
            blocking.retain(|(_, reference)| reference["blockOwnerDeletion"] == true);
            if blocking.is_empty() {
                release(store, id, FOREGROUND);
            }
        } else if !is_deleting(&object) {
            collect(store, id, &object);
        }
    }
}

/// Deletes an object whose owners are all gone, or wait for it to go. If others are left, it forgets those.
fn collect(store: &mut Store, id: &Id, object: &Value) {
    let present: BTreeMap<String, bool> = store
        .all()
        .map(|(_, owner)| (uid(owner).to_owned(), waits(owner)))
        .collect();
    let state = |owner: &Value| present.get(owner["uid"].as_str().unwrap_or_default());
    let owners = owners(object);
    let count = |wanted: Option<&bool>| owners.iter().filter(|owner| state(owner) == wanted).count();
    let (solid, waiting) = (count(Some(&false)), count(Some(&true)));
    if solid == owners.len() {
        return;
    }
    if solid > 0 {
        keep_owners(store, id, |owner| state(owner) == Some(&false));
    } else if waiting > 0 && !dependents(store, object).is_empty() {
        delete(store, id, "Foreground");
    } else {
        delete(store, id, "Background");
    }
}

fn has_work(store: &Store) -> bool {
    let uids: std::collections::BTreeSet<&str> = store.all().map(|(_, object)| uid(object)).collect();
    store.all().any(|(_, object)| {
        let mut owners = object["metadata"]["ownerReferences"]
            .as_array()
            .into_iter()
            .flatten();
        is_deleting(object) || owners.any(|owner| !uids.contains(owner["uid"].as_str().unwrap_or_default()))
    })
}

/// Whether it is deleted once its dependents are.
fn waits(object: &Value) -> bool {
    is_deleting(object) && holds(object, FOREGROUND)
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

/// What refers to the object as an owner, each with the reference.
fn dependents(store: &Store, owner: &Value) -> Vec<(Id, Value)> {
    let refers = store.all().filter_map(|(id, object)| {
        let references = object["metadata"]["ownerReferences"].as_array()?;
        let reference = references
            .iter()
            .find(|reference| reference["uid"] == uid(owner))?;
        Some((id.clone(), reference.clone()))
    });
    refers.collect()
}

fn keep_owners(store: &mut Store, id: &Id, keep: impl Fn(&Value) -> bool) {
    let Some(object) = store.get(id) else { return };
    let kept: Vec<Value> = owners(object).into_iter().filter(|owner| keep(owner)).collect();
    let forgotten = json!({"metadata": {"uid": uid(object), "ownerReferences": kept}});
    patch(store, id, &forgotten);
}
