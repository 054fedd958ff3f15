//! Writes objects as JSON, whatever their kind: each request with a deadline, and each that destroys or replaces something says which it means.

use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy};
use kube::core::Request;
use kube::{Client, Error};
use serde_json::Value;

use super::reader::{Kind, Refusal, ask, refusal};

/// Who the API server is told has written it.
const MANAGER: &str = "roadstead";

/// What must not have changed since it was read.
#[derive(Debug, Clone, Copy)]
pub(in crate::cli) enum Same {
    /// It is no other of the same name.
    Object,
    /// Nobody has written it.
    Version,
}

pub(in crate::cli) struct Writer {
    client: Client,
}

impl Writer {
    pub(in crate::cli) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Makes an object that is not there yet.
    pub(in crate::cli) async fn create(
        &self,
        kind: &Kind<'_>,
        namespace: &str,
        object: &Value,
    ) -> Result<Value, Refusal> {
        let params = PostParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PostParams::default()
        };
        let request =
            Request::new(kind.path(Some(namespace))).create(&params, object.to_string().into_bytes());
        ask(&self.client, request).await.map_err(refusal)
    }

    /// Merges into an object, if it is still the one that was read.
    pub(in crate::cli) async fn merge(
        &self,
        kind: &Kind<'_>,
        namespace: &str,
        read: &Value,
        same: Same,
        mut change: Value,
    ) -> Result<Value, Refusal> {
        let field = match same {
            Same::Object => "uid",
            Same::Version => "resourceVersion",
        };
        change["metadata"][field] = read["metadata"][field].clone();
        let params = PatchParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let name = crate::olm::manifests::name(read);
        let request = Request::new(kind.path(Some(namespace))).patch(name, &params, &Patch::Merge(&change));
        ask(&self.client, request).await.map_err(refusal)
    }

    /// Deletes an object, if it is still the one of that UID. What it owns goes after it.
    pub(in crate::cli) async fn delete(
        &self,
        kind: &Kind<'_>,
        namespace: Option<&str>,
        name: &str,
        uid: &str,
    ) -> Result<(), Refusal> {
        let params = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Background),
            preconditions: Some(Preconditions {
                uid: Some(uid.to_owned()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let request = Request::new(kind.path(namespace)).delete(name, &params);
        match ask(&self.client, request).await {
            Ok(_) => Ok(()),
            Err(Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(refusal(error)),
        }
    }
}
