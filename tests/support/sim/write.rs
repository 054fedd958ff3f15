//! The verbs that change something.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::kinds::Kind;
use super::ownership::{self, Writer};
use super::status::Refusal;
use super::store::{Id, Store};
use super::{builtin, schema};

type Written = Result<Arc<Value>, Refusal>;
type Admitted = Result<Value, Refusal>;

/// What of an object's metadata only the API server writes.
const OF_THE_SERVER: [&str; 7] = [
    "uid",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "resourceVersion",
];

pub fn create(
    store: &mut Store,
    kind: &'static Kind,
    namespace: &str,
    body: &Value,
    writer: &Writer,
) -> Written {
    if body["metadata"]["resourceVersion"]
        .as_str()
        .is_some_and(|version| !version.is_empty())
    {
        return Err(Refusal::bad_request(
            "resourceVersion should not be set on objects to be created",
        ));
    }
    insert(store, kind, namespace, body, |kind, object, now| {
        ownership::updated(kind, &json!({}), object, writer, now);
    })
}

/// Stores a new object after `own` has said whose its fields are.
fn insert(
    store: &mut Store,
    kind: &'static Kind,
    namespace: &str,
    body: &Value,
    own: impl FnOnce(&Kind, &mut Value, &str),
) -> Written {
    let mut object = body.clone();
    let name = name_of(store, &object)?;
    let id = Id::new(kind, namespace, &name);
    if store.get(&id).is_some() {
        return Err(Refusal::already_exists(kind, &name));
    }
    identify(kind, &mut object);
    let metadata = metadata(&mut object);
    OF_THE_SERVER.iter().for_each(|field| {
        metadata.remove(*field);
    });
    metadata.insert("name".to_owned(), json!(name));
    metadata.insert("namespace".to_owned(), json!(namespace));
    metadata.insert("uid".to_owned(), json!(store.new_uid()));
    metadata.insert("creationTimestamp".to_owned(), json!(store.now()));
    if kind.generation {
        metadata.insert("generation".to_owned(), json!(1));
    }
    if kind.status {
        object.as_object_mut().map(|object| object.remove("status"));
    }
    let mut object = admitted(kind, object, None)?;
    at_birth(store, kind, &mut object);
    if let Some(decode) = kind.decode {
        object = decode(object).unwrap_or_else(|error| panic!("a new {}: {error}", kind.kind));
    }
    own(kind, &mut object, &store.now());
    Ok(store.commit(&id, object, true))
}

/// What the API server adds to a new object of a kind.
fn at_birth(store: &mut Store, kind: &Kind, object: &mut Value) {
    match kind.kind {
        "Service" if object["spec"]["clusterIP"].is_null() => {
            let number = store.number();
            let address = format!("10.96.{}.{}", number / 250, number % 250 + 1);
            object["spec"]["clusterIPs"] = json!([address]);
            object["spec"]["clusterIP"] = json!(address);
            object["status"] = json!({"loadBalancer": {}});
        }
        "Pod" => object["status"] = json!({"phase": "Pending", "qosClass": "Burstable"}),
        "Service" => {
            object["spec"]["clusterIPs"] = json!([object["spec"]["clusterIP"]]);
            object["status"] = json!({"loadBalancer": {}});
        }
        "ReplicaSet" if object["status"].is_null() => object["status"] = json!({"replicas": 0}),
        "StatefulSet" if object["status"].is_null() => {
            object["status"] = json!({"replicas": 0, "availableReplicas": 0});
        }
        "PersistentVolumeClaim" => object["status"] = json!({"phase": "Pending"}),
        "Deployment" | "Job" | "PodDisruptionBudget" if object["status"].is_null() => {
            object["status"] = json!({})
        }
        _ => {}
    }
}

fn name_of(store: &mut Store, object: &Value) -> Result<String, Refusal> {
    let metadata = &object["metadata"];
    match (metadata["name"].as_str(), metadata["generateName"].as_str()) {
        (Some(name), _) if !name.is_empty() => Ok(name.to_owned()),
        (_, Some(prefix)) => Ok(format!("{prefix}{:05x}", store.number())),
        _ => Err(Refusal::new(422, "Invalid", "name or generateName is required")),
    }
}

fn identify(kind: &Kind, object: &mut Value) {
    object["apiVersion"] = json!(kind.api_version());
    object["kind"] = json!(kind.kind);
}

fn metadata(object: &mut Value) -> &mut Map<String, Value> {
    if !object["metadata"].is_object() {
        object["metadata"] = json!({});
    }
    object["metadata"].as_object_mut().expect("an object")
}

/// The object as it is to be stored, or why it is not to be.
fn admitted(kind: &Kind, mut object: Value, old: Option<&Value>) -> Admitted {
    match kind.decode {
        Some(decode) => {
            let decoded = decode(object).map_err(|error| {
                Refusal::bad_request(format!(
                    "{} in version {:?} cannot be handled: {error}",
                    kind.kind, kind.version
                ))
            })?;
            object = decoded;
            builtin::defaults(kind, &mut object);
            builtin::validate(kind, &object, old)?;
        }
        None => {
            schema::normalise(kind, &mut object);
            schema::validate(kind, &object, old)?;
        }
    }
    Ok(object)
}

/// Makes the object `id` what `body` says: all of it, or its status.
pub fn update(store: &mut Store, id: &Id, body: &Value, status: bool, writer: &Writer) -> Written {
    let kind = id.kind();
    let Some(old) = store.get(id).cloned() else {
        if !kind.create_on_update {
            return Err(Refusal::not_found(kind, &id.name));
        }
        if !text(&body["metadata"]["uid"]).is_empty() {
            return Err(Refusal::modified(kind, &id.name));
        }
        return insert(store, kind, &id.namespace, body, |kind, object, now| {
            ownership::updated(kind, &json!({}), object, writer, now);
        });
    };
    if let Some(uid) = body["metadata"]["uid"].as_str()
        && old["metadata"]["uid"] != uid
    {
        let why = format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            text(&old["metadata"]["uid"])
        );
        return Err(Refusal::conflict(kind, &id.name, &why));
    }
    let version = &body["metadata"]["resourceVersion"];
    if !kind.unconditional && version.as_str().unwrap_or_default().is_empty() {
        let problem =
            "metadata.resourceVersion: Invalid value: 0: must be specified for an update".to_owned();
        return Err(Refusal::invalid(kind, &id.name, &[problem]));
    }
    check(kind, &old, body)?;
    replace(store, id, &old, body.clone(), status, writer)
}

/// Lays a merge patch (RFC 7386) over the object `id`, or its status.
pub fn merge_patch(store: &mut Store, id: &Id, patch: &Value, status: bool, writer: &Writer) -> Written {
    let kind = id.kind();
    let old = store
        .get(id)
        .cloned()
        .ok_or_else(|| Refusal::not_found(kind, &id.name))?;
    check(kind, &old, patch)?;
    let mut new = Value::clone(&old);
    merge_into(&mut new, patch);
    replace(store, id, &old, new, status, writer)
}

/// Refuses when another object, or another version of it, is meant.
fn check(kind: &Kind, old: &Value, sent: &Value) -> Result<(), Refusal> {
    let name = old["metadata"]["name"].as_str().unwrap_or_default();
    let (old, sent) = (&old["metadata"], &sent["metadata"]);
    let version = text(&sent["resourceVersion"]);
    if !version.is_empty() && old["resourceVersion"] != version {
        return Err(Refusal::modified(kind, name));
    }
    match sent["uid"].as_str() {
        Some(uid) if old["uid"] != uid => {
            let problem = format!("metadata.uid: Invalid value: \"{uid}\": field is immutable");
            Err(Refusal::invalid(kind, name, &[problem]))
        }
        _ => Ok(()),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn merge_into(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let target = target.as_object_mut().expect("an object");
    for (field, value) in patch {
        if value.is_null() {
            target.remove(field);
        } else {
            merge_into(target.entry(field.clone()).or_insert(Value::Null), value);
        }
    }
}

fn replace(
    store: &mut Store,
    id: &Id,
    old: &Arc<Value>,
    new: Value,
    status: bool,
    writer: &Writer,
) -> Written {
    let kind = id.kind();
    let mut new = settled(kind, old, new, status)?;
    // Most writes of models change nothing, and who owns what is dear to find out.
    if new != **old {
        ownership::updated(kind, old, &mut new, writer, &store.now());
    }
    Ok(finish(store, id, old, new))
}

/// Applies `applied` on the server's side: creates the object `id`, or brings it up to what is applied.
pub fn apply(store: &mut Store, id: &Id, applied: &Value, force: bool, writer: &Writer) -> Written {
    let kind = id.kind();
    let mut applied = applied.clone();
    for field in ["apiVersion", "kind"] {
        assert!(applied[field].is_string(), "an apply of {id:?} without {field}");
    }
    let Some(old) = store.get(id).cloned() else {
        let uid = text(&applied["metadata"]["uid"]);
        if !uid.is_empty() {
            let why = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            );
            return Err(Refusal::conflict(kind, &id.name, &why));
        }
        if kind.status {
            applied.as_object_mut().map(|applied| applied.remove("status"));
        }
        let asked = applied.clone();
        return insert(store, kind, &id.namespace, &applied, |kind, object, now| {
            ownership::applied_first(kind, object, &asked, writer, now);
        });
    };
    check(kind, &old, &applied)?;
    OF_THE_SERVER.iter().for_each(|field| {
        metadata(&mut applied).remove(*field);
    });
    if kind.status
        && !writer.status
        && let Some(applied) = applied.as_object_mut()
    {
        applied.remove("status");
    }
    let merged = ownership::apply(kind, &old, &applied, writer, force, &store.now())?;
    let managed = merged["metadata"]["managedFields"].clone();
    let mut new = settled(kind, &old, merged, writer.status)?;
    new["metadata"]["managedFields"] = managed;
    Ok(finish(store, id, &old, new))
}

/// What the object becomes when somebody wants it to be `new`: without what nobody may change.
fn settled(kind: &Kind, old: &Value, mut new: Value, status: bool) -> Admitted {
    if status {
        let (wanted, notes) = (new["status"].take(), new["metadata"]["annotations"].take());
        new = old.clone();
        new["status"] = wanted;
        if kind.is("Deployment") && notes.is_object() {
            // So that its controller can note the revision.
            new["metadata"]["annotations"] = notes;
        }
    } else if kind.status
        && let Some(object) = new.as_object_mut()
    {
        object.remove("status");
        if let Some(status) = old.get("status") {
            object.insert("status".to_owned(), status.clone());
        }
    }
    identify(kind, &mut new);
    for field in OF_THE_SERVER.iter().chain(&["name", "namespace"]) {
        let metadata = metadata(&mut new);
        metadata.remove(*field);
        if let Some(value) = old["metadata"].get(*field) {
            metadata.insert((*field).to_owned(), value.clone());
        }
    }
    // As it was when it was admitted, which is what most writes of models come to.
    if new == *old {
        return Ok(new);
    }
    let mut new = admitted(kind, new, Some(old))?;
    new_finalizers(kind, old, &new)?;
    if kind.generation && !status && essence(kind, old) != essence(kind, &new) {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or(0);
        new["metadata"]["generation"] = json!(generation + 1);
    }
    Ok(new)
}

/// What the generation counts changes of.
fn essence(kind: &Kind, object: &Value) -> Value {
    match kind.kind {
        // Their annotations once were part of what a rollback went back to.
        "Deployment" => return json!([object["spec"], object["metadata"]["annotations"]]),
        _ if kind.decode.is_some() => return object["spec"].clone(),
        _ => {}
    }
    let mut object = object.clone();
    for field in ["metadata", "status"] {
        object.as_object_mut().map(|object| object.remove(field));
    }
    object
}

/// An object that is being deleted gets no more finalizers.
fn new_finalizers(kind: &Kind, old: &Value, new: &Value) -> Result<(), Refusal> {
    if old["metadata"]["deletionTimestamp"].is_null() {
        return Ok(());
    }
    let held = old["metadata"]["finalizers"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let wanted = new["metadata"]["finalizers"].as_array().into_iter().flatten();
    let added: Vec<&Value> = wanted.filter(|finalizer| !held.contains(finalizer)).collect();
    if added.is_empty() {
        return Ok(());
    }
    let problem = format!(
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers {added:?}"
    );
    Err(Refusal::invalid(kind, text(&old["metadata"]["name"]), &[problem]))
}

/// Stores what has changed; an object that waited for its last finalizer is gone with it.
fn finish(store: &mut Store, id: &Id, old: &Arc<Value>, new: Value) -> Arc<Value> {
    let goes = !new["metadata"]["deletionTimestamp"].is_null()
        && !has_finalizers(&new)
        && new["metadata"]["deletionGracePeriodSeconds"]
            .as_i64()
            .unwrap_or(0)
            == 0;
    if goes {
        return store.commit(id, new, false);
    }
    if ownership::same_but_for_times(old, &new) {
        return Arc::clone(old);
    }
    store.commit(id, new, true)
}

fn has_finalizers(object: &Value) -> bool {
    object["metadata"]["finalizers"]
        .as_array()
        .is_some_and(|held| !held.is_empty())
}

/// Deletes the object `id`, or has it wait for its finalizers, or for its pod to end.
pub fn delete(store: &mut Store, id: &Id, options: &Value) -> Written {
    let kind = id.kind();
    let Some(old) = store.get(id).cloned() else {
        return Err(Refusal::not_found(kind, &id.name));
    };
    let wanted = &options["preconditions"];
    for (field, said) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
        if let Some(wanted) = wanted[field].as_str()
            && old["metadata"][field] != wanted
        {
            let why = format!(
                "Precondition failed: {said} in precondition: {wanted}, {said} in object meta: {}",
                text(&old["metadata"][field])
            );
            return Err(Refusal::conflict(kind, &id.name, &why));
        }
    }
    let default = if kind.orphans { "Orphan" } else { "Background" };
    let mut new = Value::clone(&old);
    match options["propagationPolicy"].as_str().unwrap_or(default) {
        "Background" => {}
        "Foreground" => hold(&mut new, "foregroundDeletion"),
        "Orphan" => hold(&mut new, "orphan"),
        other => panic!("propagationPolicy {other} is not simulated"),
    }
    let runs = kind.is("Pod") && old["spec"]["nodeName"].is_string();
    let grace = options["gracePeriodSeconds"]
        .as_i64()
        .or_else(|| old["spec"]["terminationGracePeriodSeconds"].as_i64())
        .filter(|_| runs)
        .unwrap_or(0);
    if !has_finalizers(&new) && grace == 0 {
        store.commit(id, new, false);
        return Ok(Arc::new(
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}),
        ));
    }
    if old["metadata"]["deletionTimestamp"].is_null() {
        new["metadata"]["deletionTimestamp"] = json!(store.now());
        new["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
        if let Some(generation) = old["metadata"]["generation"].as_i64() {
            new["metadata"]["generation"] = json!(generation + 1);
        }
    } else if old["metadata"]["deletionGracePeriodSeconds"].as_i64() > Some(grace) {
        new["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
    }
    Ok(finish(store, id, &old, new))
}

/// Has the garbage collector look after the dependents before the object goes. Nobody's field: it is the API server's doing.
fn hold(object: &mut Value, finalizer: &str) {
    let metadata = metadata(object);
    let held = metadata.entry("finalizers").or_insert(json!([]));
    if let Some(held) = held.as_array_mut()
        && !held.contains(&json!(finalizer))
    {
        held.push(json!(finalizer));
    }
}
