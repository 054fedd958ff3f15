//! The API server is the judge of our verdicts on definitions, into whose schemas upstream's validators do not look.

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
#[path = "support/definitions.rs"]
mod definitions;
#[path = "support/rules.rs"]
mod rules;

use apiserver::ApiServer;
use broken_bundles::{Files, plain, put};
use kube::api::{Api, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use roadstead::olm::findings::{Finding, Severity};
use roadstead::olm::registry_v1::validate;
use serde_json::json;

/// Why we refuse a bundle for its definition, and why the API server does.
async fn refused(api: &Api<DynamicObject>, mut files: Files) -> (Vec<String>, Option<String>) {
    // What is looked for is in the definition, and not in what is made by it
    files.csv["metadata"]["annotations"] = json!({});
    let folder = tempfile::tempdir().unwrap();
    files.write(folder.path());
    let findings = validate(folder.path(), &[]).unwrap();
    let is_of_it = |finding: &&Finding| {
        finding.code.starts_with("crd-")
            && finding.severity == Severity::Error
            && !finding.code.starts_with("crd-owned")
    };
    let ours = findings
        .iter()
        .filter(is_of_it)
        .map(|finding| finding.message.clone());
    let definition: DynamicObject = serde_json::from_value(files.crd).unwrap();
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let theirs = api.create(&dry, &definition).await.err();
    (ours.collect(), theirs.map(|error| error.to_string()))
}

async fn api() -> Api<DynamicObject> {
    let client = ApiServer::shared().client().await;
    let kind = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    Api::all_with(client, &ApiResource::from_gvk(&kind))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_is_refused_if_the_api_server_refuses_it() {
    let api = api().await;
    let mut wrong = Vec::new();
    let schemas = definitions::schemas().into_iter().map(|(name, schema)| {
        let root = match name.starts_with("root") {
            true => schema,
            false => json!({"type": "object", "properties": {"field": schema}}),
        };
        (name, "/spec/versions/0/schema/openAPIV3Schema", root)
    });
    for (name, pointer, value) in schemas.chain(definitions::whole()) {
        let mut files = plain();
        put(&mut files.crd, pointer, value);
        let (ours, theirs) = refused(&api, files).await;
        if ours.is_empty() != theirs.is_none() {
            wrong.push(format!("{name}: ours {ours:?}; the API server's {theirs:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What the API server refuses and we do not, which is no harm: it looks at the types of arguments, of keys and of what may not be there, and at the cost.
const LEFT_TO_IT: &[&str] = &[
    "int == 1",
    "self.map[1] == 1",
    "size(self.int) == 1",
    "self.text.startsWith(1)",
    "self.text.split(',').join('.') == 'a'",
    "quantity('1Gi').add(quantity('1')).sign() == 1",
    "self.?text.optMap(t, t + 'a').orValue('') == 'a'",
    "optional and compared",
    "a message",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_is_refused_if_the_api_server_refuses_it() {
    let api = api().await;
    let mut wrong = Vec::new();
    for rule in rules::all() {
        let mut files = plain();
        let root = json!({"type": "object", "properties": {"field": rule.schema}});
        put(&mut files.crd, "/spec/versions/0/schema/openAPIV3Schema", root);
        let (ours, theirs) = refused(&api, files).await;
        let is_left = LEFT_TO_IT.contains(&rule.name.as_str());
        if ours.is_empty() != theirs.is_none() && !is_left
            || is_left && (theirs.is_none() || !ours.is_empty())
        {
            wrong.push(format!(
                "{}: ours {ours:?}; the API server's {theirs:?}",
                rule.name
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
