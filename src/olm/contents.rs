//! What becomes of each object of the manifests. One that a bundle cannot hold is refused by name: an operator that is installed
//! without a part of it fails later, and far from the cause.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Error;
use super::csv::{self, Generated};
use super::manifests::{Manifest, Manifests, api_group, is_kind, name, text};

/// Kinds that OLM installs from a bundle beside the ClusterServiceVersion (the list of its v0 catalog operator).
pub(super) const SUPPORTED: [&str; 20] = [
    "ClusterRole",
    "ClusterRoleBinding",
    "ConfigMap",
    "ConsoleCLIDownload",
    "ConsoleLink",
    "ConsolePlugin",
    "ConsoleQuickStart",
    "ConsoleYAMLSample",
    "CustomResourceDefinition",
    "NetworkPolicy",
    "PodDisruptionBudget",
    "PriorityClass",
    "PrometheusRule",
    "Role",
    "RoleBinding",
    "Secret",
    "Service",
    "ServiceAccount",
    "ServiceMonitor",
    "VerticalPodAutoscaler",
];

/// Groups of OLM and of its tools: Subscriptions, OperatorGroups and the like are for whoever installs the bundle.
const OF_OLM: [&str; 2] = ["operators.coreos.com", "scorecard.operatorframework.io"];

/// Refuses what is there twice. OLM puts everything into the operator's namespace, so there two objects are the same whatever
/// namespace they name; samples only become examples.
///
/// # Errors
/// [`Error::Twice`]
pub(super) fn check_names(manifests: &Manifests) -> Result<(), Error> {
    let mut seen = BTreeMap::new();
    for manifest in manifests.iter() {
        let body = &manifest.body;
        let namespace = if is_sample(manifests, body) {
            text(body, "/metadata/namespace")
        } else {
            ""
        };
        let identity = (api_group(body), text(body, "/kind"), namespace, name(body));
        if let Some(first) = seen.insert(identity, manifest) {
            return Err(Error::Twice {
                object: label(body),
                first: first.source.clone(),
                second: manifest.source.clone(),
            });
        }
    }
    Ok(())
}

/// The objects that the bundle ships beside the ClusterServiceVersion.
///
/// # Errors
/// [`Error::NotInBundle`]
pub(super) fn shipped<'a>(
    manifests: &'a Manifests,
    generated: &Generated,
) -> Result<Vec<&'a Manifest>, Error> {
    let mut shipped = Vec::new();
    for manifest in manifests.iter() {
        let body = &manifest.body;
        let kind = text(body, "/kind");
        if generated
            .covered
            .contains(&(kind.to_owned(), name(body).to_owned()))
        {
            continue;
        }
        if SUPPORTED.contains(&kind) {
            shipped.push(manifest);
        } else if !is_told_otherwise(manifests, body) {
            return Err(Error::NotInBundle {
                source_file: manifest.source.clone(),
                object: label(body),
            });
        }
    }
    Ok(shipped)
}

/// Whether the ClusterServiceVersion or OLM itself stands for an object.
fn is_told_otherwise(manifests: &Manifests, body: &Value) -> bool {
    is_kind(body, "", "Namespace") || OF_OLM.contains(&api_group(body)) || is_sample(manifests, body)
}

fn is_sample(manifests: &Manifests, body: &Value) -> bool {
    csv::crds(manifests).any(|crd| text(crd, "/spec/group") == api_group(body))
}

/// Kind and name, for messages.
pub(super) fn label(body: &Value) -> String {
    format!("{} {}", text(body, "/kind"), name(body))
}
