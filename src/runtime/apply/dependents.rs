//! What another controller makes for a child of ours, as a StatefulSet's pods and claims are: it may be changed or parted from the child, and is never
//! made here.

use std::sync::Arc;

use kube::api::{DeleteParams, Patch, PatchParams, PropagationPolicy};
use serde_json::{Value, json};
use tracing::info;

use super::super::client::is_not_found;
use super::super::key::{Object, ObjectKey, controller_of};
use super::super::rest;
use super::{Applier, ApplyError, controls, not_ours};

impl Applier {
    /// Merges `spec` into the spec of this very object, as it is known here, which another controller made for a child of ours. Gives it as it is then,
    /// or nothing if it is gone.
    ///
    /// # Errors
    /// [`ApplyError::Conflict`] when it has changed, or another one has its name; [`ApplyError::Rejected`] in the words of the API server.
    pub async fn amend<K: Object>(&self, live: &K, spec: Value) -> Result<Option<Arc<K>>, ApplyError> {
        let (key, meta) = (ObjectKey::of(live), live.meta());
        let patch = Patch::Merge(json!({
            "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
            "spec": spec,
        }));
        let params = PatchParams {
            field_manager: Some(self.field_manager.to_string()),
            ..PatchParams::default()
        };
        match rest::patch::<K, _>(&self.client, &key, &params, &patch).await {
            Ok(patched) => {
                info!(kind = %K::kind(&()), object = %key, "amended");
                self.caches.note(&patched);
                Ok(Some(Arc::new(patched)))
            }
            Err(error) if is_not_found(&error) => Ok(None),
            Err(error) => Err(ApplyError::from_api(&K::kind(&()), &key, error)),
        }
    }

    /// Asks for the deletion of this very object, as it is known here, which `owner` controls, and leaves what it controls itself: nobody controls that
    /// until another object takes it. False when it was gone or going already.
    ///
    /// # Errors
    /// As [`Self::delete`] has them.
    pub async fn release<P: Object, K: Object>(&self, owner: &P, live: &K) -> Result<bool, ApplyError> {
        if !controls(owner, live) {
            return Err(not_ours(live, &ObjectKey::of(live)));
        }
        let params = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Orphan),
            ..DeleteParams::default()
        };
        self.remove(live, params).await
    }

    /// Asks for the deletion of this very object, as it is known here, that a child of ours has left and that nobody controls. False when it was gone or
    /// going already.
    ///
    /// # Errors
    /// [`ApplyError::NotOurs`] when somebody controls it; [`ApplyError::Conflict`] when it has changed, or another one has its name.
    pub async fn delete_stray<K: Object>(&self, live: &K) -> Result<bool, ApplyError> {
        if controller_of(live).is_some() {
            return Err(not_ours(live, &ObjectKey::of(live)));
        }
        self.remove(live, DeleteParams::background()).await
    }
}
