//! The StatefulSet controller, of sets whose pods are made at once and replaced by whoever deletes them, and what becomes of their claims.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::{Value, json};

use super::{
    controlled, controller, count, delete, every, is_deleting, is_ready, patch, set_status, text, writer,
};
use crate::sim::kinds::named;
use crate::sim::store::{Id, Store};
use crate::sim::write;

pub fn step(store: &mut Store) {
    for (id, set) in every(store, "StatefulSet") {
        if !is_deleting(&set) {
            adopt(store, &id, &set);
            manage(store, &id, &set);
        }
        tell(store, &id, &set);
    }
    for (id, claim) in every(store, "PersistentVolumeClaim") {
        bind(store, &id, &claim);
    }
}

/// The pods and claims of the set by name, whoever owns them.
fn ordinal(set: &Id, pod: &str) -> Option<i64> {
    pod.strip_prefix(&set.name)?.strip_prefix('-')?.parse().ok()
}

/// Takes pods that nobody controls and that look like its own.
fn adopt(store: &mut Store, id: &Id, set: &Value) {
    let wanted = set["spec"]["selector"]["matchLabels"].as_object();
    for (pod, object) in every(store, "Pod") {
        let labels = &object["metadata"]["labels"];
        let mut selector = wanted.into_iter().flatten();
        let free = object["metadata"]["ownerReferences"].is_null();
        let is_of_it = pod.namespace == id.namespace
            && ordinal(id, &pod.name).is_some()
            && selector.all(|(label, value)| labels[label] == *value);
        if free && is_of_it && !is_deleting(&object) {
            let owned = json!({"metadata": {"ownerReferences": controller(id, set)}});
            patch(store, &pod, &owned);
        }
    }
}

fn manage(store: &mut Store, id: &Id, set: &Value) {
    let replicas = count(&set["spec"]["replicas"]);
    for ordinal in 0..replicas {
        let pod = format!("{}-{ordinal}", id.name);
        claims(store, id, set, &pod);
        if store.get(&Id::new(named("Pod"), &id.namespace, &pod)).is_none() {
            create(store, id, set, &pod, ordinal);
        }
    }
    for (pod, object) in controlled(store, "Pod", text(set, "/metadata/uid")) {
        let is_too_many = ordinal(id, &pod.name).is_none_or(|ordinal| ordinal >= replicas);
        if is_too_many && !is_deleting(&object) {
            delete(store, &pod, "Background");
        }
    }
}

fn revision(id: &Id, set: &Value) -> String {
    let mut hasher = DefaultHasher::new();
    set["spec"]["template"].to_string().hash(&mut hasher);
    format!("{}-{:x}", id.name, hasher.finish())
}

fn create(store: &mut Store, id: &Id, set: &Value, name: &str, ordinal: i64) {
    let mut pod = set["spec"]["template"].clone();
    pod["metadata"]["name"] = json!(name);
    pod["metadata"]["ownerReferences"] = controller(id, set);
    let labels = &mut pod["metadata"]["labels"];
    labels["controller-revision-hash"] = json!(revision(id, set));
    labels["statefulset.kubernetes.io/pod-name"] = json!(name);
    labels["apps.kubernetes.io/pod-index"] = json!(ordinal.to_string());
    pod["spec"]["hostname"] = json!(name);
    pod["spec"]["subdomain"] = set["spec"]["serviceName"].clone();
    for template in templates(set) {
        let volume = text(&template, "/metadata/name");
        let claim =
            json!({"name": volume, "persistentVolumeClaim": {"claimName": format!("{volume}-{name}")}});
        let volumes = pod["spec"]["volumes"].as_array_mut();
        volumes.expect("a pod with volumes").push(claim);
    }
    let created = write::create(store, named("Pod"), &id.namespace, &pod, &writer(false));
    created.unwrap_or_else(|refusal| panic!("a pod of {id:?}: {}", refusal.message));
}

fn templates(set: &Value) -> Vec<Value> {
    set["spec"]["volumeClaimTemplates"]
        .as_array()
        .cloned()
        .unwrap_or_default()
}

/// Makes what is missing, and has the set own all or none, as its policy says.
fn claims(store: &mut Store, id: &Id, set: &Value, pod: &str) {
    let goes = set["spec"]["persistentVolumeClaimRetentionPolicy"]["whenDeleted"] == "Delete";
    let owner = json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": id.name, "uid": set["metadata"]["uid"]}]);
    let owners = if goes { owner } else { Value::Null };
    for template in templates(set) {
        let name = format!("{}-{pod}", text(&template, "/metadata/name"));
        let claim = Id::new(named("PersistentVolumeClaim"), &id.namespace, &name);
        let Some(there) = store.get(&claim) else {
            let mut metadata = template["metadata"].clone();
            metadata["name"] = json!(name);
            metadata["ownerReferences"] = owners.clone();
            for (label, value) in set["spec"]["selector"]["matchLabels"]
                .as_object()
                .into_iter()
                .flatten()
            {
                metadata["labels"][label] = value.clone();
            }
            let made = json!({"metadata": metadata, "spec": template["spec"]});
            let created = write::create(store, claim.kind(), &id.namespace, &made, &writer(false));
            created.unwrap_or_else(|refusal| panic!("a claim of {id:?}: {}", refusal.message));
            continue;
        };
        if there["metadata"]["ownerReferences"] != owners && !is_deleting(there) {
            patch(store, &claim, &json!({"metadata": {"ownerReferences": owners}}));
        }
    }
}

/// A volume is found at once, and as large as it is asked to be.
fn bind(store: &mut Store, id: &Id, claim: &Value) {
    let status = json!({
        "phase": "Bound", "accessModes": claim["spec"]["accessModes"],
        "capacity": claim["spec"]["resources"]["requests"],
    });
    if claim["status"] != status {
        set_status(store, id, &status);
    }
}

fn tell(store: &mut Store, id: &Id, set: &Value) {
    let pods = controlled(store, "Pod", text(set, "/metadata/uid"));
    let number = |is: &dyn Fn(&Value) -> bool| {
        let count = pods.iter().filter(|(_, pod)| is(pod)).count();
        i64::try_from(count).unwrap_or(i64::MAX)
    };
    let revision = revision(id, set);
    let is_present = |pod: &Value| pod["metadata"]["labels"]["controller-revision-hash"] == revision;
    let ready = number(&|pod| is_ready(pod) && !is_deleting(pod));
    let mut status = json!({
        "observedGeneration": set["metadata"]["generation"], "replicas": number(&|_| true), "availableReplicas": ready,
        "updateRevision": revision, "collisionCount": 0,
    });
    // As in the API, no count is no field.
    for (field, count) in [("readyReplicas", ready), ("updatedReplicas", number(&is_present))] {
        if count > 0 {
            status[field] = json!(count);
        }
    }
    // Of replacing when somebody deletes, the controller never says that the update is over.
    status["currentRevision"] = match &set["status"]["currentRevision"] {
        Value::Null => json!(revision),
        current => current.clone(),
    };
    if status != set["status"] {
        set_status(store, id, &status);
    }
}
