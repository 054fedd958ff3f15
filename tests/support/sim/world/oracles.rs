//! What has to be true of a cluster with an operator in it, whichever it is.

use std::time::Duration;

use serde_json::Value;
use tokio::time::sleep;

use super::{USER, World, snapshot};
use crate::mutator::{is_all_well, of_people};
use crate::sim::Entry;
use crate::sim::kinds::named;
use crate::sim::request::Verb;
use crate::sim::store::Objects;

/// What is left of the object, itself included, but for volumes.
pub fn leftovers(objects: &Objects, kind: &str, name: &str) -> Vec<String> {
    let of_it = objects.iter().filter(|(id, object)| {
        let labelled = object["metadata"]["labels"]["app.kubernetes.io/instance"] == name;
        let owners = object["metadata"]["ownerReferences"]
            .as_array()
            .into_iter()
            .flatten();
        let owned = owners
            .into_iter()
            .any(|owner| owner["kind"] == kind && owner["name"] == name);
        !["Event", "PersistentVolumeClaim"].contains(&id.kind)
            && (labelled || owned || (id.kind == kind && id.name == name))
    });
    of_it
        .map(|(id, _)| format!("{} {}/{}", id.kind, id.namespace, id.name))
        .collect()
}

/// The operator's requests, its lease aside.
fn of_operator(world: &World) -> Vec<Entry> {
    let mut log = world.sim.log();
    log.retain(|entry| entry.user == USER && entry.kind != "Lease");
    log
}

/// How often the operator has asked for a change, its lease aside.
pub fn writes(world: &World) -> usize {
    of_operator(world)
        .iter()
        .filter(|entry| entry.verb.is_write())
        .count()
}

/// Nothing is deleted by its name alone: another object may have it by the time when the request arrives.
pub fn deletes_name_a_uid(world: &World) {
    for entry in of_operator(world)
        .iter()
        .filter(|entry| entry.verb == Verb::Delete)
    {
        let uid = &entry.body["preconditions"]["uid"];
        assert!(
            uid.as_str().is_some_and(|uid| !uid.is_empty()),
            "without a uid: {}",
            entry.summary
        );
    }
}

/// Nothing is deleted but what an object of people controls, or a child of it through which it acts. Volumes belong to nobody, so whoever has some says by
/// himself when they may go.
pub fn deletes_only_what_it_made(world: &World) {
    for entry in of_operator(world) {
        let Some(deleted) = entry
            .deleted
            .as_ref()
            .filter(|_| entry.kind != "PersistentVolumeClaim")
        else {
            continue;
        };
        let owners = deleted["metadata"]["ownerReferences"].as_array();
        let mut controllers = owners
            .into_iter()
            .flatten()
            .filter(|owner| owner["controller"] == true);
        let is_of_people = |owner: &Value| {
            let mut kinds = world.subject.kinds.iter().map(|kind| kind.name());
            kinds.any(|kind| owner["kind"] == kind)
                || world.subject.through.iter().any(|kind| owner["kind"] == *kind)
        };
        assert!(
            controllers.any(is_of_people),
            "not its own: {}\n{deleted:#}",
            entry.summary
        );
    }
}

/// Nothing is asked for that the operator's role does not allow.
pub fn stays_within_its_role(world: &World) {
    let rules = (world.subject.role)();
    for entry in of_operator(world).iter().filter(|entry| entry.kind != "Event") {
        let kind = named(entry.kind);
        let resource = if entry.status {
            format!("{}/status", kind.plural)
        } else {
            kind.plural.to_owned()
        };
        let verbs: &[&str] = match entry.verb {
            Verb::Get => &["get"],
            Verb::List => &["list"],
            Verb::Watch => &["watch"],
            Verb::Create => &["create"],
            Verb::Update => &["update"],
            Verb::MergePatch => &["patch"],
            Verb::Apply => &["create", "patch"],
            Verb::Delete => &["delete"],
        };
        for verb in verbs {
            let allowed = rules.iter().any(|rule| {
                let has = |list: &Option<Vec<String>>, wanted: &str| {
                    list.iter().flatten().any(|text| text == wanted)
                };
                has(&rule.api_groups, kind.group)
                    && has(&rule.resources, &resource)
                    && rule.verbs.iter().any(|text| text == verb)
            });
            assert!(
                allowed,
                "the role does not allow to {verb} {resource}: {}",
                entry.summary
            );
        }
    }
}

/// When nothing changes nothing is written, nor by an operator that starts anew and looks at everything.
pub async fn a_further_reconcile_writes_nothing(world: &mut World) {
    world.until_quiet().await;
    let before = writes(world);
    world.start_anew();
    sleep(Duration::from_secs(120)).await;
    let objects = world
        .sim
        .with(|store| of_people(world.subject, store.objects()).count());
    assert!(
        world.reconciles() >= u64::try_from(objects).unwrap_or(u64::MAX),
        "the new operator has not looked at everything"
    );
    assert_eq!(
        writes(world),
        before,
        "written without need:\n{}",
        world.last_writes(20)
    );
}

/// What happened before has left no trace: a new cluster that is given the same specs comes to the same state.
///
/// The operator knows what is its own by a label. A child that lost it when it was wanted no more, and the pod of such a Job, is nobody's until its
/// owner goes, so it is left out; a pod that lost it is told of until it is replaced, so there is nothing to compare.
pub async fn is_as_if_new(world: &World) {
    const LABEL: &str = "app.kubernetes.io/managed-by";
    const CHILDREN: [&str; 10] = [
        "ConfigMap",
        "Service",
        "Deployment",
        "Job",
        "PodDisruptionBudget",
        "StatefulSet",
        "Secret",
        "ServiceAccount",
        "Role",
        "RoleBinding",
    ];
    let is_known = |object: &Value| !object["metadata"]["labels"][LABEL].is_null();
    if !world.list("Pod").iter().all(is_known) {
        return;
    }
    let mut is = snapshot::take(world);
    is.retain(|key, object| {
        let is_child = CHILDREN.iter().any(|kind| object["kind"] == *kind);
        // Volumes of instances that were there once stay.
        (!is_child || is_known(object))
            && !key.starts_with("Pod of Job")
            && object["kind"] != "PersistentVolumeClaim"
    });
    let mut new = World::new(world.subject);
    new.cluster.mend();
    for kind in world.subject.kinds {
        for object in world.list(kind.name()) {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let created = new.people.create(kind.name(), name, object["spec"].clone()).await;
            created.expect("a spec that was accepted before");
        }
    }
    let subject = world.subject;
    new.until("everything is well", |new| {
        new.sim.with(|store| is_all_well(subject, store.objects()))
    })
    .await;
    new.until_quiet().await;
    let mut new = snapshot::take(&new);
    new.retain(|_, object| object["kind"] != "PersistentVolumeClaim");
    snapshot::assert_same(&new, &is, "in a new cluster with the same specs");
}
