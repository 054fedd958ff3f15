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

#[cfg(test)]
mod tests {
    use super::*;
    use http::{Request, Response};
    use http_body_util::Full;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::client::Body;
    use rstest::rstest;
    use serde_json::json;
    use std::convert::Infallible;

    /// A client whose requests are all answered so.
    fn answered(code: u16, reason: &'static str) -> Client {
        let service = tower::service_fn(move |_: Request<Body>| {
            let status = json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": reason});
            let answer = Response::builder()
                .status(code)
                .body(Full::new(bytes::Bytes::from(status.to_string())));
            async move { Ok::<_, Infallible>(answer.unwrap()) }
        });
        Client::new(service, "ns")
    }

    #[rstest]
    #[case(200, "", Some(true))]
    #[case(404, "NotFound", Some(false))]
    #[case(409, "Conflict", None)]
    #[tokio::test]
    async fn what_is_gone_need_not_be_deleted(
        #[case] code: u16,
        #[case] reason: &'static str,
        #[case] expected: Option<bool>,
    ) {
        let key = ObjectKey {
            namespace: Some("ns".into()),
            name: "a".into(),
        };
        let deleted = delete::<ConfigMap>(&answered(code, reason), &key, &DeleteParams::default()).await;
        assert_eq!(deleted.ok(), expected);
        let found = get::<ConfigMap>(&answered(code, reason), &key).await;
        assert_eq!(found.is_ok_and(|found| found.is_none()), code == 404);
    }
}
