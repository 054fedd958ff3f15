//! The API server is the judge of what a Deployment may lack: OLM writes its Deployments out of a ClusterServiceVersion, empty where a field is missing.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "support/apiserver.rs"]
mod apiserver;
#[path = "support/broken_bundles.rs"]
#[allow(
    dead_code,
    reason = "only the bundle in which nothing is wrong is of use here"
)]
mod broken_bundles;
#[allow(dead_code, reason = "each binary uses what it needs of this")]
#[path = "support/bundle_judge.rs"]
mod judge;
#[path = "support/required_fields.rs"]
mod required_fields;

use std::collections::BTreeSet;

use apiserver::ApiServer;
use broken_bundles::plain;
use k8s_openapi::api::apps::v1::Deployment;
use kube::Client;
use kube::core::Status;
use required_fields::required;
use roadstead::olm::registry_v1::validate;
use serde_json::{Value, json};

const SPEC: &str = "/spec/install/spec/deployments/0/spec";

/// Whether a bundle with a Deployment of this specification gets this error.
fn is_refused(spec: &Value, message: &str) -> bool {
    let mut files = plain();
    *files.csv.pointer_mut(SPEC).unwrap() = spec.clone();
    let folder = tempfile::tempdir().unwrap();
    files.write(folder.path());
    let found = validate(folder.path(), &[]).unwrap();
    let mut told = found
        .iter()
        .filter(|finding| finding.message.starts_with(message));
    let told = told.next().unwrap_or_else(|| panic!("{message}: {found:#?}"));
    told.severity.to_string() == "error"
}

/// Why the API server refuses a Deployment, each with its field.
async fn refused(client: &Client, spec: &Value) -> BTreeSet<String> {
    let body =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "widgets"}, "spec": spec});
    let request = http::Request::post("/apis/apps/v1/namespaces/default/deployments?dryRun=All")
        .header("Content-Type", "application/json")
        .body(body.to_string().into_bytes());
    match client.request::<Deployment>(request.unwrap()).await {
        Ok(_) => BTreeSet::new(),
        Err(kube::Error::Api(status)) => {
            let Status { message, details, .. } = *status;
            let causes = details.map(|details| details.causes).unwrap_or_default();
            assert!(!causes.is_empty(), "{message}: {spec}");
            let causes = causes.into_iter();
            causes
                .map(|cause| format!("{}: {}", cause.field, cause.message))
                .collect()
        }
        Err(error) => panic!("{error}"),
    }
}

/// What another field of the same type shows, may not be in a Deployment, or is behind a gate of Kubernetes that is closed.
fn is_left_out(at: &str) -> bool {
    let out = [
        "/initContainers/",
        "/ephemeralContainers/",
        "/clusterTrustBundle/",
    ];
    out.iter().any(|out| at.contains(out))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_an_error_where_it_is_missing_is_what_the_api_server_refuses_where_it_is_empty() {
    let client = ApiServer::shared().client().await;
    let schema = judge::definition();
    let way =
        "/properties/spec/properties/install/properties/spec/properties/deployments/items/properties/spec";
    let mut fields = Vec::new();
    required(schema.pointer(way).unwrap(), "", &|spec| spec, &mut |at, spec| {
        fields.push((at, spec))
    });
    let mut wrong = Vec::new();
    for (at, mut spec) in fields {
        let (parent, name) = at.rsplit_once('/').unwrap();
        if parent.ends_with("/resourceFieldRef") {
            // Without it the API server looks no further
            spec.pointer_mut(parent).unwrap()["containerName"] = json!("operator");
        }
        let mut empty = spec.clone();
        let field = empty.pointer_mut(&at).unwrap();
        *field = match field {
            Value::String(_) => json!(""),
            Value::Number(_) => json!(0),
            // What is null is refused with the ClusterServiceVersion
            _ => continue,
        };
        if is_left_out(&at) {
            continue;
        }
        let before = refused(&client, &spec).await;
        let after = refused(&client, &empty).await;
        let theirs: Vec<&String> = after.difference(&before).collect();
        let mut without = spec.clone();
        let parent = without.pointer_mut(parent).unwrap();
        parent.as_object_mut().unwrap().remove(name).unwrap();
        let message = format!("{}{at} is missing", &SPEC[1..]).replace('/', ".");
        if is_refused(&without, &message) == theirs.is_empty() {
            wrong.push(format!("{at}: {theirs:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
