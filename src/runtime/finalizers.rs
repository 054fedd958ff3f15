//! Finalizers: what keeps an object from vanishing before it has been cleaned up after.
//!
//! Every change is guarded by the `resourceVersion` of the object that it was decided on, so it never overwrites what another
//! controller put there meanwhile.

use kube::api::{Patch, PatchParams};
use kube::{Client, Resource};
use serde_json::{Value, json};

use super::key::{Object, ObjectKey};
use super::rest;

/// What the garbage collector puts on an object whose children are to stay.
const ORPHAN: &str = "orphan";

/// Where an object stands with a finalizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinalizerState {
    /// The object lives and does not have it: add it before making anything that has to be cleaned up.
    Missing,
    /// The object lives and has it.
    Held,
    /// The object is to be deleted and waits for us: clean up, then remove it.
    Deleting,
    /// The object is to be deleted and does not wait for us (any more).
    Released,
}

/// Where `object` stands with the finalizer `name`.
pub fn state<K: Resource>(object: &K, name: &str) -> FinalizerState {
    let held = object.meta().finalizers.iter().flatten().any(|held| held == name);
    match (object.meta().deletion_timestamp.is_some(), held) {
        (false, false) => FinalizerState::Missing,
        (false, true) => FinalizerState::Held,
        (true, true) => FinalizerState::Deleting,
        (true, false) => FinalizerState::Released,
    }
}

/// Whether the children of `object` are to stay when it goes: somebody deleted it so, which the garbage collector notes as a finalizer of its own.
pub fn orphans<K: Resource>(object: &K) -> bool {
    object
        .meta()
        .finalizers
        .iter()
        .flatten()
        .any(|held| held == ORPHAN)
}

/// Adds the finalizer `name` to `object` and returns the object as it is then.
///
/// # Errors
/// Conflict (409) when the object changed meanwhile; see [`super::client::is_conflict`].
pub async fn add<K: Object>(client: &Client, object: &K, name: &str) -> Result<K, kube::Error> {
    let mut finalizers = object.meta().finalizers.clone().unwrap_or_default();
    if !finalizers.iter().any(|held| held == name) {
        finalizers.push(name.to_owned());
    }
    replace(client, object, finalizers).await
}

/// Removes the finalizer `name` from `object` and returns the object as it is then: the last sight of it, if that was the last finalizer.
///
/// # Errors
/// Conflict (409) when the object changed meanwhile; not found (404) when it is gone.
pub async fn remove<K: Object>(client: &Client, object: &K, name: &str) -> Result<K, kube::Error> {
    let mut finalizers = object.meta().finalizers.clone().unwrap_or_default();
    finalizers.retain(|held| held != name);
    replace(client, object, finalizers).await
}

async fn replace<K: Object>(client: &Client, object: &K, finalizers: Vec<String>) -> Result<K, kube::Error> {
    let patch = Patch::Merge(guarded(object, &finalizers));
    rest::patch(client, &ObjectKey::of(object), &PatchParams::default(), &patch).await
}

fn guarded<K: Resource>(object: &K, finalizers: &[String]) -> Value {
    let meta = object.meta();
    json!({"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version, "finalizers": finalizers}})
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use rstest::rstest;

    const NAME: &str = "roadstead.dev/cleanup";

    #[rstest]
    #[case(false, &[], FinalizerState::Missing)]
    #[case(false, &["other"], FinalizerState::Missing)]
    #[case(false, &["other", NAME], FinalizerState::Held)]
    #[case(true, &[NAME], FinalizerState::Deleting)]
    #[case(true, &["other"], FinalizerState::Released)]
    fn the_state_follows_from_deletion_and_presence(
        #[case] deleting: bool,
        #[case] held: &[&str],
        #[case] expected: FinalizerState,
    ) {
        let mut object = ConfigMap::default();
        object.metadata.finalizers = Some(held.iter().map(ToString::to_string).collect());
        object.metadata.deletion_timestamp = deleting.then_some(Time(jiff::Timestamp::UNIX_EPOCH));
        assert_eq!(state(&object, NAME), expected);
    }

    #[test]
    fn a_change_names_the_version_that_it_was_decided_on() {
        let mut object = ConfigMap::default();
        object.metadata.resource_version = Some("7".into());
        let patch = guarded(&object, &[NAME.to_owned()]);
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
        assert_eq!(patch["metadata"]["finalizers"], json!([NAME]));
    }
}
