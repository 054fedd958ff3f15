//! The state of a cluster without what differs from run to run: names that are drawn, times, counts of writes.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::World;

/// Each object by its kind and name; what was named by chance by its labels.
pub type Snapshot = BTreeMap<String, Value>;

pub fn take(world: &World) -> Snapshot {
    world.sim.with(|store| {
        let mut snapshot = Snapshot::new();
        let objects = store
            .all()
            // Of ReplicaSets those of earlier templates are left.
            .filter(|(id, _)| !["Lease", "Event", "ReplicaSet"].contains(&id.kind));
        for (id, object) in objects {
            let mut key = format!("{} {}/{}", id.kind, id.namespace, id.name);
            if id.kind == "Pod" {
                let owner = &object["metadata"]["ownerReferences"][0]["kind"];
                // Of databases, another instance may lead: they are told apart by what they are, and not by name.
                let role = object["metadata"]["labels"]["roadstead.dev/role"].as_str();
                let role = role.map(|role| format!("{role} ")).unwrap_or_default();
                let of = format!("Pod of {} {role}", owner.as_str().unwrap_or_default());
                let alike = snapshot.keys().filter(|key| key.starts_with(&of)).count();
                key = format!("{of}{alike}");
            }
            snapshot.insert(key, essence(object));
        }
        snapshot
    })
}

/// A ReplicaSet is named after a hash of its pods, in which is what people have added to those.
fn lasting_name(owner: &Value) -> Option<&Value> {
    (owner["kind"] != "ReplicaSet").then(|| &owner["name"])
}

fn essence(object: &Value) -> Value {
    let metadata = &object["metadata"];
    let mut kept = object.clone();
    kept["metadata"] = json!({
        "labels": metadata["labels"], "annotations": metadata["annotations"], "finalizers": metadata["finalizers"],
        "owners": metadata["ownerReferences"].as_array().into_iter().flatten()
            .map(|owner| json!([owner["kind"], lasting_name(owner), owner["controller"]])).collect::<Vec<_>>(),
    });
    match object["kind"].as_str() {
        Some("Database") => database(&mut kept["status"]),
        Some("ConfigMap") => settings(&mut kept["data"]),
        // Drawn by chance.
        Some("Secret") => {
            let values = kept["data"].as_object_mut().into_iter().flatten();
            values.for_each(|(_, value)| *value = json!("drawn"));
            // What people put where it does not belong stays, since nobody but they owns it.
            if metadata["name"] != metadata["ownerReferences"][0]["name"]
                && let Some(data) = kept["data"].as_object_mut()
            {
                data.remove("password");
            }
        }
        _ => {}
    }
    forget(&mut kept);
    // The Deployment controller puts last what it has changed last.
    if object["kind"] == "Deployment"
        && let Some(conditions) = kept["status"]["conditions"].as_array_mut()
    {
        conditions.sort_by_key(|condition| condition["type"].to_string());
    }
    kept
}

/// Says of instances what they are, and not which.
fn database(status: &mut Value) {
    let instances = status["instances"].as_array_mut().into_iter().flatten();
    instances.for_each(|instance| instance["name"] = Value::Null);
    if let Some(instances) = status["instances"].as_array_mut() {
        instances.sort_by_key(|instance| instance["role"].to_string());
    }
    for condition in status["conditions"].as_array_mut().into_iter().flatten() {
        let message = condition["message"].as_str().unwrap_or_default();
        let words = message.split(' ').map(|word| match word.rsplit_once('-') {
            Some((name, ordinal)) if ordinal.trim_end_matches([',', ':']).parse::<u32>().is_ok() => name,
            _ => word,
        });
        condition["message"] = json!(words.collect::<Vec<_>>().join(" "));
    }
}

/// The settings of a database, as the fields that they are.
fn settings(data: &mut Value) {
    let file = data["instance.json"].as_str();
    if let Some(read) = file.and_then(|file| serde_json::from_str(file).ok()) {
        data["instance.json"] = read;
    }
}

/// Takes out what is empty, what nobody decides on, and what the mutator writes where it is nobody's business.
fn forget(value: &mut Value) {
    const BY_CHANCE: [&str; 28] = [
        "lastTransitionTime",
        "lastUpdateTime",
        "lastProbeTime",
        "startedAt",
        "startTime",
        "completionTime",
        "observedGeneration",
        "clusterIP",
        "clusterIPs",
        "podIP",
        "nodeName",
        "podNames",
        "pod-template-hash",
        "deployment.kubernetes.io/revision",
        "controller-revision-hash",
        "currentRevision",
        "updateRevision",
        "statefulset.kubernetes.io/pod-name",
        "apps.kubernetes.io/pod-index",
        "hostname",
        "claimName",
        // Whose data it is, and who leads.
        "systemIdentifier",
        "timeline",
        "primary",
        "roadstead.dev/settings",
        // A hash, in which the uid of the owner is.
        "roadstead.dev/applied",
        "team",
        "by",
    ];
    match value {
        Value::Object(map) => {
            map.retain(|field, _| !BY_CHANCE.contains(&field.as_str()));
            map.values_mut().for_each(forget);
            map.retain(|_, inner| !inner.is_null() && *inner != json!({}));
        }
        Value::Array(list) => list.iter_mut().for_each(forget),
        _ => {}
    }
}

/// Fails with what differs.
pub fn assert_same(before: &Snapshot, after: &Snapshot, when: &str) {
    let keys: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let mut differences = Vec::new();
    for key in keys {
        match (before.get(key), after.get(key)) {
            (Some(before), Some(after)) if before == after => {}
            (Some(before), Some(after)) => {
                differences.push(format!("{key} was\n{before:#}\nand is\n{after:#}"))
            }
            (Some(_), None) => differences.push(format!("{key} is missing")),
            (None, _) => differences.push(format!("{key} is too many")),
        }
    }
    assert!(
        differences.is_empty(),
        "{when}, the state differs:\n{}",
        differences.join("\n")
    );
}
