//! Requests for objects of any kind, with or without namespace. kube's `Api` wants to know that at compile time.

use kube::Client;
use kube::api::{DeleteParams, GetParams, Patch, PatchParams};
use kube::core::Request;
use serde::Serialize;

use super::client::is_not_found;
use super::key::{Object, ObjectKey};

fn resource<K: Object>(key: &ObjectKey) -> Request {
    Request::new(K::url_path(&(), key.namespace.as_deref()))
}

/// The object of this key as the API server has it, or `None`.
pub(super) async fn get<K: Object>(client: &Client, key: &ObjectKey) -> Result<Option<K>, kube::Error> {
    let request = resource::<K>(key)
        .get(&key.name, &GetParams::default())
        .map_err(kube::Error::BuildRequest)?;
    match client.request(request).await {
        Ok(object) => Ok(Some(object)),
        Err(error) if is_not_found(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) async fn patch<K: Object, P: Serialize>(
    client: &Client,
    key: &ObjectKey,
    params: &PatchParams,
    patch: &Patch<P>,
) -> Result<K, kube::Error> {
    let request = resource::<K>(key)
        .patch(&key.name, params, patch)
        .map_err(kube::Error::BuildRequest)?;
    client.request(request).await
}

pub(super) async fn patch_status<K: Object, P: Serialize>(
    client: &Client,
    key: &ObjectKey,
    params: &PatchParams,
    patch: &Patch<P>,
) -> Result<K, kube::Error> {
    let request = resource::<K>(key)
        .patch_subresource("status", &key.name, params, patch)
        .map_err(kube::Error::BuildRequest)?;
    client.request(request).await
}

/// Asks for the deletion of an object. False when there was none.
pub(super) async fn delete<K: Object>(
    client: &Client,
    key: &ObjectKey,
    params: &DeleteParams,
) -> Result<bool, kube::Error> {
    let request = resource::<K>(key)
        .delete(&key.name, params)
        .map_err(kube::Error::BuildRequest)?;
    // The answer is the object or a status, whichever the kind's storage prefers; neither is needed.
    match client.request_text(request).await {
        Ok(_) => Ok(true),
        Err(error) if is_not_found(&error) => Ok(false),
        Err(error) => Err(error),
    }
}
