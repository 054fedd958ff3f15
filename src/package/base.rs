//! The part of the ClusterServiceVersion that people write.

use k8s_openapi::ByteString;
use semver::Version;
use serde_json::{Value, json};

use super::kinds::Kind;
use super::{OLM_NAMESPACE, PACKAGE, operator_image, value};
use crate::olm::Error;

const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");

/// The base; the bundle command adds all that the manifests say. There is no `createdAt`: the same sources give the same bytes.
pub(super) fn csv(version: &Version, kinds: &[Kind]) -> Result<Value, Error> {
    let icon = value(&ByteString(include_bytes!("icon.svg").to_vec()))?;
    let mode = |kind: &str, supported: bool| json!({"type": kind, "supported": supported});
    Ok(json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {
            "name": format!("{PACKAGE}.v{version}"),
            "annotations": {
                "capabilities": "Seamless Upgrades",
                "categories": "Database,Networking",
                "certified": "false",
                "containerImage": operator_image(version),
                "description": "Data services on Kubernetes: PostgreSQL that fails over by itself, and proxies that never take a configuration that nginx refuses.",
                "operatorframework.io/suggested-namespace": OLM_NAMESPACE,
                "repository": REPOSITORY,
                "support": "Roadstead authors",
            },
        },
        "spec": {
            "displayName": "Roadstead",
            "description": include_str!("description.md"),
            "version": version,
            "maturity": "alpha",
            "minKubeVersion": "1.30.0",
            "icon": [{"base64data": icon, "mediatype": "image/svg+xml"}],
            "keywords": ["postgresql", "database", "high availability", "nginx", "proxy", "reverse proxy", "load balancer", "networking"],
            "links": [
                {"name": "Source", "url": REPOSITORY},
                {"name": "Documentation", "url": format!("{REPOSITORY}/blob/main/README.md")},
                {"name": "Release notes", "url": format!("{REPOSITORY}/blob/main/CHANGELOG.md")},
            ],
            "maintainers": [{"name": "Roadstead authors", "email": "maintainers@roadstead.dev"}],
            "provider": {"name": "Roadstead authors", "url": REPOSITORY},
            // OLM demands it of an operator with a conversion webhook, so it is so from the first release.
            "installModes": [
                mode("OwnNamespace", false),
                mode("SingleNamespace", false),
                mode("MultiNamespace", false),
                mode("AllNamespaces", true),
            ],
            "customresourcedefinitions": {"owned": kinds.iter().flat_map(owned).collect::<Vec<_>>()},
        },
    }))
}

/// What a definition does not say of itself, for each version that it serves.
fn owned(kind: &Kind) -> Vec<Value> {
    let resources: Vec<Value> = kind
        .makes
        .iter()
        .map(|(made, version)| json!({"kind": made, "version": version, "name": ""}))
        .collect();
    let versions = kind.crd.spec.versions.iter().filter(|version| version.served);
    let entry = |version: &str| {
        json!({
            "name": kind.crd.metadata.name,
            "version": version,
            "kind": kind.crd.spec.names.kind,
            "displayName": kind.display_name,
            "resources": resources,
        })
    };
    versions.map(|version| entry(&version.name)).collect()
}
