//! The only writer of child objects: server-side apply, and nothing sent when nothing has to change.
//!
//! Each child carries the annotation [`APPLIED`], a hash of what was asked for when it was last written. A child is left alone when
//! that hash is still the same (so nothing that was asked for then is to be removed now) and every desired field is in the live object
//! (so nobody changed or removed it). Otherwise it is applied with force, under the manager's field manager.

mod covers;
mod dependents;
mod diff;
mod error;
mod quantity;
mod wanted;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::Client;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::time::Instant;
use tracing::{debug, info};

pub use error::ApplyError;
use wanted::{Wanted, essence};

use super::cache::Caches;
use super::client::is_not_found;
use super::key::{Object, ObjectKey, controller_of};
use super::rest;

/// The annotation with the hash of what was last applied.
///
/// Its name is the same for every operator that is built on this runtime, whatever its field manager is: an object has one controller, so
/// two of them never write the same one, and who looks at an object finds it under one name.
pub const APPLIED: &str = "roadstead.dev/applied";

/// A version that no object has: to apply it creates an object, and is a conflict when one of that name has come to be since it was looked for.
/// Without it, a stranger's object would be taken over in that moment.
const OF_NO_OBJECT: &str = "1";

/// For how long the caches may lag behind what was created.
const LATELY: Duration = Duration::from_secs(10);

/// For how many objects it is remembered that the API server stores them other than they were sent.
const NORMALISED_LIMIT: usize = 4096;

/// What came of an apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything was as desired; nothing was sent.
    Unchanged,
    /// There was none.
    Created,
    /// It differed.
    Updated,
    /// The object of this name is being deleted: nothing was sent. Its disappearance is a change of its own, on which to try again.
    Terminating,
}

/// A child as it is after an apply.
#[derive(Clone, Debug)]
pub struct Applied<K> {
    /// The object as the API server has it.
    pub object: Arc<K>,
    /// What was done.
    pub outcome: Outcome,
}

/// Writes children and status. Clones share what they remember.
#[derive(Clone)]
pub struct Applier {
    client: Client,
    field_manager: Arc<str>,
    caches: Caches,
    /// By uid: hashes of what was desired and of what the API server made of it, where that does not cover what was desired (a field that
    /// it does not store, a value that it writes otherwise). Without it such an object would be sent again in every reconcile.
    normalised: Arc<Mutex<BTreeMap<String, (String, String)>>>,
    /// What was created, by kind and key, and when: for [`LATELY`], which bounds it.
    lately: Arc<Mutex<BTreeMap<(String, ObjectKey), Instant>>>,
}

impl std::fmt::Debug for Applier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Applier")
            .field("field_manager", &self.field_manager)
            .finish_non_exhaustive()
    }
}

impl Applier {
    /// Writes through `client`, in the name of `field_manager`.
    pub(super) fn new(client: Client, field_manager: &str, caches: Caches) -> Self {
        Self {
            client,
            field_manager: field_manager.into(),
            caches,
            normalised: Arc::default(),
            lately: Arc::default(),
        }
    }

    /// Makes the object of that name what `desired` says. `live` is how the cache has it.
    ///
    /// Without one the object is created, in a way that fails when there is one after all: then that is looked at.
    ///
    /// `desired` needs a name, a namespace if its kind has them, and the owner reference of its controller, which tells whose it is.
    ///
    /// # Errors
    /// [`ApplyError::NotOurs`] when an object of that name is not controlled by the same owner; the others as they say.
    pub async fn apply<K: Object>(
        &self,
        desired: K,
        live: Option<&Arc<K>>,
    ) -> Result<Applied<K>, ApplyError> {
        let key = ObjectKey::of(&desired);
        let wanted = Wanted::new(&desired).map_err(|source| encode_error::<K>(&key, source))?;
        self.bring_about(&desired, &wanted, live, &key).await
    }

    async fn bring_about<K: Object>(
        &self,
        desired: &K,
        wanted: &Wanted,
        live: Option<&Arc<K>>,
        key: &ObjectKey,
    ) -> Result<Applied<K>, ApplyError> {
        if let Some(live) = live {
            return self.bring_up(desired, wanted, live, key).await;
        }
        // Nobody knows of one, so most likely there is none, and asking first would be a request for nothing. Unless we have made it ourselves
        // just now and the cache lags behind.
        if !self.made_lately::<K>(key) {
            match self.create(wanted, key).await {
                Err(ApplyError::Conflict { .. }) => {}
                outcome => return outcome,
            }
        }
        match rest::get::<K>(&self.client, key).await {
            Ok(Some(live)) => self.bring_up(desired, wanted, &Arc::new(live), key).await,
            Ok(None) => self.create(wanted, key).await,
            Err(error) => Err(ApplyError::from_api(&K::kind(&()), key, error)),
        }
    }

    /// Makes the object if there is none of that name, and leaves one that is there as it is: for what is made once, as a password is. Gives what
    /// is there, which need not be what was desired.
    ///
    /// # Errors
    /// As [`Self::apply`] has them.
    pub async fn once<K: Object>(&self, desired: K, live: Option<&Arc<K>>) -> Result<Applied<K>, ApplyError> {
        let key = ObjectKey::of(&desired);
        let as_found = |live: &Arc<K>| {
            check_ours(&desired, live.as_ref(), &key)?;
            let is_going = live.meta().deletion_timestamp.is_some();
            Ok(Applied {
                object: Arc::clone(live),
                outcome: if is_going {
                    Outcome::Terminating
                } else {
                    Outcome::Unchanged
                },
            })
        };
        if let Some(live) = live {
            return as_found(live);
        }
        let wanted = Wanted::new(&desired).map_err(|source| encode_error::<K>(&key, source))?;
        if !self.made_lately::<K>(&key) {
            match self.create(&wanted, &key).await {
                Err(ApplyError::Conflict { .. }) => {}
                outcome => return outcome,
            }
        }
        match rest::get::<K>(&self.client, &key).await {
            Ok(Some(live)) => as_found(&Arc::new(live)),
            Ok(None) => self.create(&wanted, &key).await,
            Err(error) => Err(ApplyError::from_api(&K::kind(&()), &key, error)),
        }
    }

    /// Like [`Self::apply`], for a kind whose objects hold nothing and cannot be changed once they are made, as a Job: one that `owner` controls and
    /// in which a field is immutable that has to differ is deleted and made anew.
    ///
    /// # Errors
    /// As [`Self::apply`] has them; [`ApplyError::Rejected`] also while the earlier one is still there.
    pub async fn replace<P: Object, K: Object>(
        &self,
        owner: &P,
        desired: K,
        live: Option<&Arc<K>>,
    ) -> Result<Applied<K>, ApplyError> {
        let key = ObjectKey::of(&desired);
        let wanted = Wanted::new(&desired).map_err(|source| encode_error::<K>(&key, source))?;
        let refused = match self.bring_about(&desired, &wanted, live, &key).await {
            Err(refused) if refused.is_about_an_immutable_field() => refused,
            outcome => return outcome,
        };
        let found = rest::get::<K>(&self.client, &key).await;
        if let Some(live) = found.map_err(|error| ApplyError::from_api(&K::kind(&()), &key, error))? {
            self.delete(owner, &live).await?;
        }
        match self.create(&wanted, &key).await {
            // Somebody holds the earlier one.
            Err(ApplyError::Conflict { .. }) => Err(refused),
            outcome => outcome,
        }
    }

    /// Fails with a conflict when there is one of that name.
    async fn create<K: Object>(&self, wanted: &Wanted, key: &ObjectKey) -> Result<Applied<K>, ApplyError> {
        let created = wanted.guarded(&[("resourceVersion", json!(OF_NO_OBJECT))]);
        self.send(&created, wanted, key, Outcome::Created).await
    }

    /// Makes `live` what is wanted, if it is ours and is not so yet.
    async fn bring_up<K: Object>(
        &self,
        desired: &K,
        wanted: &Wanted,
        live: &Arc<K>,
        key: &ObjectKey,
    ) -> Result<Applied<K>, ApplyError> {
        let as_it_is = |outcome| {
            Ok(Applied {
                object: Arc::clone(live),
                outcome,
            })
        };
        check_ours(desired, live.as_ref(), key)?;
        if live.meta().deletion_timestamp.is_some() {
            return as_it_is(Outcome::Terminating);
        }
        let live_json =
            serde_json::to_value(live.as_ref()).map_err(|source| encode_error::<K>(key, source))?;
        if self.is_current(live.as_ref(), &live_json, wanted) {
            return as_it_is(Outcome::Unchanged);
        }
        // Only this very object is meant, not one that took its name meanwhile, and only as it is known here: an apply that was sent by the
        // last leader and arrives late must not undo what the next one did. Where a status is written often, as a Deployment's during a
        // rollout, this costs a conflict now and then; the reconcile is repeated within milliseconds, after which the cache knows.
        let guarded = wanted.guarded(&[
            ("uid", json!(live.meta().uid)),
            ("resourceVersion", json!(live.meta().resource_version)),
        ]);
        self.send(&guarded, wanted, key, Outcome::Updated).await
    }

    async fn send<K: Object>(
        &self,
        sent: &Value,
        wanted: &Wanted,
        key: &ObjectKey,
        outcome: Outcome,
    ) -> Result<Applied<K>, ApplyError> {
        let kind = K::kind(&());
        let params = PatchParams::apply(&self.field_manager).force();
        let applied = rest::patch::<K, _>(&self.client, key, &params, &Patch::Apply(sent)).await;
        let applied = applied.map_err(|error| ApplyError::from_api(&kind, key, error))?;
        info!(%kind, object = %key, ?outcome, "applied");
        self.caches.note(&applied);
        if outcome == Outcome::Created {
            self.lately
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert((kind.into_owned(), key.clone()), Instant::now());
        }
        self.remember(&applied, wanted)
            .map_err(|source| encode_error::<K>(key, source))?;
        Ok(Applied {
            object: Arc::new(applied),
            outcome,
        })
    }

    /// Whether we have created this object so lately that the cache may not know yet.
    fn made_lately<K: Object>(&self, key: &ObjectKey) -> bool {
        let mut lately = self.lately.lock().unwrap_or_else(PoisonError::into_inner);
        lately.retain(|_, made| made.elapsed() < LATELY);
        lately.contains_key(&(K::kind(&()).into_owned(), key.clone()))
    }

    /// Sets one annotation of an object that another controller made for a child of ours, as a Deployment's pods are, or that somebody made who asks for
    /// something by it; without a value it is taken away.
    ///
    /// # Errors
    /// [`ApplyError::Rejected`] when another object has its name: a uid cannot be changed.
    pub async fn annotate<K: Object>(
        &self,
        live: &K,
        name: &str,
        value: Option<&str>,
    ) -> Result<(), ApplyError> {
        let key = ObjectKey::of(live);
        let patch = Patch::Merge(json!({"metadata": {"uid": live.meta().uid, "annotations": {name: value}}}));
        let params = PatchParams {
            field_manager: Some(self.field_manager.to_string()),
            ..PatchParams::default()
        };
        let patched = rest::patch::<K, _>(&self.client, &key, &params, &patch).await;
        match patched {
            Err(error) if !is_not_found(&error) => Err(ApplyError::from_api(&K::kind(&()), &key, error)),
            // One that is gone needs no annotation.
            _ => Ok(()),
        }
    }

    /// Asks for the deletion of this very object, as it is known here, which `owner` controls. False when it was gone or going already.
    ///
    /// # Errors
    /// [`ApplyError::NotOurs`] when `owner` does not control it; [`ApplyError::Conflict`] when it has changed, or another one has its name.
    pub async fn delete<P: Object, K: Object>(&self, owner: &P, live: &K) -> Result<bool, ApplyError> {
        if !controls(owner, live) {
            return Err(not_ours(live, &ObjectKey::of(live)));
        }
        self.remove(live, DeleteParams::background()).await
    }

    async fn remove<K: Object>(&self, live: &K, params: DeleteParams) -> Result<bool, ApplyError> {
        let (key, meta) = (ObjectKey::of(live), live.meta());
        if meta.deletion_timestamp.is_some() {
            return Ok(false);
        }
        let preconditions = Preconditions {
            resource_version: meta.resource_version.clone(),
            uid: meta.uid.clone(),
        };
        let params = params.preconditions(preconditions);
        let deleted = rest::delete::<K>(&self.client, &key, &params).await;
        let deleted = deleted.map_err(|error| ApplyError::from_api(&K::kind(&()), &key, error))?;
        info!(kind = %K::kind(&()), object = %key, deleted, "deleted");
        Ok(deleted)
    }

    /// Deletes those of `owned`, which `owner` controls, whose names are not in `keep`, and returns how many.
    ///
    /// # Errors
    /// The first that could not be deleted, as [`Self::delete`] says; those after it were not tried.
    pub async fn prune<P: Object, K: Object>(
        &self,
        owner: &P,
        owned: &[Arc<K>],
        keep: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<usize, ApplyError> {
        let keep: std::collections::BTreeSet<String> =
            keep.into_iter().map(|name| name.as_ref().to_owned()).collect();
        let mut deleted = 0;
        for object in owned {
            let kept = object
                .meta()
                .name
                .as_ref()
                .is_some_and(|name| keep.contains(name));
            if !kept && self.delete(owner, object.as_ref()).await? {
                deleted += 1;
            }
        }
        Ok(deleted)
    }

    /// Makes the status of `live` what `status` says, with one patch of what differs, or none. True when one was sent.
    ///
    /// # Errors
    /// [`ApplyError::Conflict`] when the object has changed meanwhile: the status may rest on what is no longer so.
    pub async fn status<K: Object, S: Serialize>(&self, live: &K, status: &S) -> Result<bool, ApplyError> {
        let key = ObjectKey::of(live);
        let kind = K::kind(&());
        let encode = |source| ApplyError::Encode {
            kind: kind.to_string(),
            key: key.clone(),
            source,
        };
        let desired = serde_json::to_value(status).map_err(encode)?;
        let live_json = serde_json::to_value(live).map_err(encode)?;
        let nothing = Value::Object(Map::new());
        let current = live_json
            .get("status")
            .filter(|status| status.is_object())
            .unwrap_or(&nothing);
        let Some(patch) = diff::merge_patch(current, &desired) else {
            return Ok(false);
        };
        let meta = live.meta();
        let patch = Patch::Merge(json!({
            "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
            "status": patch,
        }));
        let params = PatchParams {
            field_manager: Some(self.field_manager.to_string()),
            ..PatchParams::default()
        };
        let patched = rest::patch_status::<K, _>(&self.client, &key, &params, &patch).await;
        self.caches
            .note(&patched.map_err(|error| ApplyError::from_api(&kind, &key, error))?);
        debug!(%kind, object = %key, "status written");
        Ok(true)
    }

    fn is_current<K: Object>(&self, live: &K, live_json: &Value, wanted: &Wanted) -> bool {
        if applied_hash(live) != Some(wanted.hash.as_str()) {
            return false;
        }
        if covers::covers(live_json, &wanted.json) {
            return true;
        }
        let Some(uid) = &live.meta().uid else { return false };
        let normalised = self.normalised.lock().unwrap_or_else(PoisonError::into_inner);
        normalised
            .get(uid)
            .is_some_and(|(hash, got)| *hash == wanted.hash && *got == essence(live_json))
    }

    fn remember<K: Object>(&self, applied: &K, wanted: &Wanted) -> Result<(), serde_json::Error> {
        let Some(uid) = applied.meta().uid.clone() else {
            return Ok(());
        };
        let applied = serde_json::to_value(applied)?;
        let mut normalised = self.normalised.lock().unwrap_or_else(PoisonError::into_inner);
        if covers::covers(&applied, &wanted.json) {
            normalised.remove(&uid);
            return Ok(());
        }
        // Forgetting costs one request for each object, once; growing without bound would cost the process.
        if normalised.len() >= NORMALISED_LIMIT {
            normalised.clear();
        }
        normalised.insert(uid, (wanted.hash.clone(), essence(&applied)));
        Ok(())
    }
}

fn encode_error<K: Object>(key: &ObjectKey, source: serde_json::Error) -> ApplyError {
    ApplyError::Encode {
        kind: K::kind(&()).into_owned(),
        key: key.clone(),
        source,
    }
}

fn applied_hash<K: Object>(object: &K) -> Option<&str> {
    object
        .meta()
        .annotations
        .as_ref()?
        .get(APPLIED)
        .map(String::as_str)
}

/// An object may be written when the desired owner controls it. Objects that nobody is to control are told by the annotation.
fn check_ours<K: Object>(desired: &K, live: &K, key: &ObjectKey) -> Result<(), ApplyError> {
    let ours = match (controller_of(desired), controller_of(live)) {
        (Some(wanted), Some(actual)) => wanted.uid == actual.uid,
        (None, None) => applied_hash(live).is_some(),
        (Some(_), None) | (None, Some(_)) => false,
    };
    if ours { Ok(()) } else { Err(not_ours(live, key)) }
}

/// Whether `owner` is the controller of `live`. Only to name it as an owner is not enough: users do that, too.
fn controls<P: Object, K: Object>(owner: &P, live: &K) -> bool {
    let uid = owner.meta().uid.as_deref();
    uid.is_some() && uid == controller_of(live).map(|controller| controller.uid.as_str())
}

fn not_ours<K: Object>(live: &K, key: &ObjectKey) -> ApplyError {
    let owner = controller_of(live).map_or_else(
        || "nobody known".to_owned(),
        |owner| format!("{} {}", owner.kind, owner.name),
    );
    ApplyError::NotOurs {
        kind: K::kind(&()).into_owned(),
        key: key.clone(),
        owner,
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
