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
                let of = format!("Pod of {} ", owner.as_str().unwrap_or_default());
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
    forget(&mut kept);
    // The Deployment controller puts last what it has changed last.
    if object["kind"] == "Deployment"
        && let Some(conditions) = kept["status"]["conditions"].as_array_mut()
    {
        conditions.sort_by_key(|condition| condition["type"].to_string());
    }
    kept
}

/// Takes out what is empty, what nobody decides on, and what the mutator writes where it is nobody's business.
fn forget(value: &mut Value) {
    const BY_CHANCE: [&str; 17] = [
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
