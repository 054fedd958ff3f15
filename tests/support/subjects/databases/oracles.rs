//! What must be true of databases whenever anything is written, whoever writes it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use roadstead::api::database::agent::RECORD;
use serde_json::Value;

use crate::sim::cluster::databases::board::{Board, Known};
use crate::sim::kinds::named;
use crate::sim::store::{Change, Id, Store};
use crate::sim::world::{USER, World};

/// The label of children that names their database.
const INSTANCE: &str = "app.kubernetes.io/instance";

/// Looks at everything that is written in this world from here on.
pub fn watch(world: &World) {
    let board = world.cluster.board();
    let mut identifiers = BTreeMap::new();
    let mut goers = BTreeSet::new();
    world.sim.always(move |store| {
        let Some(change) = store.last() else { return };
        let by_operator = store.user() == USER;
        if !by_operator && store.user() == "user" && change.id.kind != "Database" {
            board.disturb();
        }
        match change.id.kind {
            "Pod" if by_operator => pod(store, change, &board),
            "StatefulSet" if by_operator => stateful_set(store, change, &board),
            "Secret" if by_operator => secret(store, change),
            "PersistentVolumeClaim" => claim(store, change, &goers),
            "Lease" if by_operator => lease(change),
            "Database" => {
                identifier(change, &mut identifiers);
                goer(change, &mut goers);
            }
            _ => {}
        }
    });
}

fn is_going(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// The other pods of the same database that stay.
fn others(store: &Store, change: &Change, database: &Value) -> BTreeSet<String> {
    let pods = store.of_kind(named("Pod"), Some(&change.id.namespace));
    let others = pods.filter(|(id, pod)| {
        id.name != change.id.name && pod["metadata"]["labels"][INSTANCE] == *database && !is_going(pod)
    });
    others.map(|(id, _)| id.name.clone()).collect()
}

/// The operator deletes no primary while somebody could take over, takes no two instances out of service at once, and never the last one that has all.
fn pod(store: &Store, change: &Change, board: &Board) {
    let Some(old) = change
        .old
        .as_ref()
        .filter(|old| change.new.is_none() || !is_going(old))
    else {
        return;
    };
    if !change.new.as_ref().is_none_or(|new| is_going(new)) {
        return;
    }
    let database = &old["metadata"]["labels"][INSTANCE];
    let name = &change.id.name;
    let others = others(store, change, database);
    let set = Id::new(
        named("StatefulSet"),
        &change.id.namespace,
        database.as_str().unwrap_or_default(),
    );
    let replicas = store.get(&set).and_then(|set| set["spec"]["replicas"].as_u64());
    let Known {
        leading,
        streaming,
        complete,
        ..
    } = board.of(&change.id.namespace, database.as_str().unwrap_or_default());
    let able: Vec<_> = streaming.intersection(&others).collect();
    assert!(
        !leading.contains(name) || able.is_empty(),
        "the operator deletes the primary, {name}, while {able:?} could take over"
    );
    let serving: BTreeSet<_> = leading.union(&streaming).cloned().collect();
    let serve = serving.intersection(&others).count() as u64;
    assert!(
        board.is_disturbed()
            || !serving.contains(name)
            || replicas.is_none_or(|replicas| serve + 1 >= replicas),
        "the operator deletes {name} while only {serve} others of {replicas:?} serve"
    );
    assert!(
        others.is_empty() || !complete.contains(name) || !complete.is_disjoint(&others),
        "the operator deletes {name}, which alone has whatever was acknowledged"
    );
}

/// Nobody goes who leads, or who may have a commit that no other has.
fn stateful_set(store: &Store, change: &Change, board: &Board) {
    let (Some(old), Some(new)) = (&change.old, &change.new) else {
        return;
    };
    let replicas = |set: &Value| set["spec"]["replicas"].as_u64().unwrap_or(0);
    let Id { namespace, name, .. } = &change.id;
    let known = board.of(namespace, name);
    let lease = store.get(&Id::new(named("Lease"), namespace, name));
    let record = lease.and_then(|lease| lease["metadata"]["annotations"][RECORD].as_str());
    let record: Value = record
        .and_then(|record| serde_json::from_str(record).ok())
        .unwrap_or_default();
    for ordinal in replicas(new)..replicas(old) {
        let leaves = format!("{name}-{ordinal}");
        assert!(
            !known.leading.contains(&leaves),
            "the primary, {leaves}, is scaled away"
        );
        let quorums = record["quorums"].as_array().into_iter().flatten();
        let mut lists = quorums
            .map(|quorum| &quorum["standbys"])
            .chain([&record["members"]]);
        let is_named = lists.any(|list| {
            list.as_array()
                .is_some_and(|list| list.contains(&Value::from(leaves.as_str())))
        });
        assert!(
            !is_named,
            "{leaves} is scaled away, and the Lease names it: {record}"
        );
    }
}

/// What was made by chance stays unless somebody else changes it, and a Secret goes only with its database.
fn secret(store: &Store, change: &Change) {
    const MADE: [&str; 2] = ["password", "ca.key"];
    let Some(old) = &change.old else { return };
    let Some(new) = &change.new else {
        let owner = &old["metadata"]["ownerReferences"][0]["name"];
        let database = Id::new(
            named("Database"),
            &change.id.namespace,
            owner.as_str().unwrap_or_default(),
        );
        let stays = store.get(&database).is_some_and(|database| !is_going(database));
        assert!(!stays, "the operator deletes the Secret {}", change.id.name);
        return;
    };
    for key in MADE {
        let before = old["data"][key].as_str().unwrap_or_default();
        assert!(
            before.is_empty() || new["data"][key] == before,
            "the operator changes {key} of the Secret {}",
            change.id.name
        );
    }
}

/// Who is deleted, and has said that his volumes go too.
fn goer(change: &Change, goers: &mut BTreeSet<String>) {
    let Some(database) = change.new.as_ref().or(change.old.as_ref()) else {
        return;
    };
    if is_going(database) && database["spec"]["storage"]["whenDeleted"] == "Delete" {
        goers.insert(change.id.name.clone());
    }
}

/// Volumes go with their database where it says so, and never otherwise.
fn claim(store: &Store, change: &Change, goers: &BTreeSet<String>) {
    if let (Some(old), None) = (&change.old, &change.new) {
        let name = old["metadata"]["labels"][INSTANCE].as_str().unwrap_or_default();
        let database = store.get(&Id::new(named("Database"), &change.id.namespace, name));
        let goes = goers.contains(name) && database.is_none_or(|database| is_going(database));
        assert!(goes, "the claim {} is deleted", change.id.name);
    }
}

/// Who leads is for instances to say.
fn lease(change: &Change) {
    let part = |object: &Option<Arc<Value>>| {
        let object = object.as_ref()?;
        Some((
            object["spec"].clone(),
            object["metadata"]["annotations"][RECORD].clone(),
        ))
    };
    if change.id.namespace == crate::sim::world::NAMESPACE && change.old.is_some() && change.new.is_some() {
        assert_eq!(
            part(&change.old),
            part(&change.new),
            "the operator writes the Lease {}",
            change.id.name
        );
    }
}

/// Once it is known whose data a database has, it has no others.
fn identifier(change: &Change, known: &mut BTreeMap<String, String>) {
    let Some(new) = &change.new else { return };
    let Some(identifier) = new["status"]["systemIdentifier"].as_str() else {
        return;
    };
    let uid = new["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    let before = known.entry(uid).or_insert_with(|| identifier.to_owned());
    assert_eq!(
        before, identifier,
        "the database {} has other data",
        change.id.name
    );
}
