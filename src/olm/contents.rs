//! What becomes of each object of the manifests. One that a bundle cannot hold is refused by name: an operator that is installed
//! without a part of it fails later, and far from the cause.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Error;
use super::csv::{self, Generated};
use super::manifests::{Manifest, Manifests, api_group, is_kind, list, name, text};

/// Kinds that OLM installs from a bundle beside the ClusterServiceVersion (the list of its v0 catalog operator).
const SUPPORTED: [&str; 20] = [
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

const ADMISSION: &str = "admissionregistration.k8s.io";

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
/// [`Error::NotInBundle`], [`Error::NoWebhookDefinition`]
pub(super) fn shipped<'a>(
    manifests: &'a Manifests,
    generated: &Generated,
) -> Result<Vec<&'a Manifest>, Error> {
    let mut shipped = Vec::new();
    for manifest in manifests.iter() {
        check_webhooks(manifest, &generated.csv)?;
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
    is_kind(body, "", "Namespace")
        || OF_OLM.contains(&api_group(body))
        || is_sample(manifests, body)
        || webhook_type(body).is_some()
}

fn is_sample(manifests: &Manifests, body: &Value) -> bool {
    csv::crds(manifests).any(|crd| text(crd, "/spec/group") == api_group(body))
}

/// OLM makes webhook configurations, and the `spec.conversion` of definitions, from the ClusterServiceVersion alone.
fn check_webhooks(manifest: &Manifest, csv: &Value) -> Result<(), Error> {
    let body = &manifest.body;
    let Some(needed) = webhook_type(body) else {
        return Ok(());
    };
    let converts = |definition: &Value| {
        let named = |crd: &Value| crd.as_str() == Some(name(body));
        needed != "ConversionWebhook" || list(definition, "/conversionCRDs").iter().any(named)
    };
    let mut definitions = list(csv, "/spec/webhookdefinitions").iter();
    if definitions.any(|definition| text(definition, "/type") == needed && converts(definition)) {
        return Ok(());
    }
    Err(Error::NoWebhookDefinition {
        source_file: manifest.source.clone(),
        object: label(body),
        needed,
    })
}

/// The type of the entry in `spec.webhookdefinitions` that stands for an object.
fn webhook_type(body: &Value) -> Option<&'static str> {
    let is_webhook = |kind| is_kind(body, ADMISSION, kind);
    if is_webhook("ValidatingWebhookConfiguration") {
        Some("ValidatingAdmissionWebhook")
    } else if is_webhook("MutatingWebhookConfiguration") {
        Some("MutatingAdmissionWebhook")
    } else if is_kind(body, "apiextensions.k8s.io", "CustomResourceDefinition")
        && text(body, "/spec/conversion/strategy") == "Webhook"
    {
        Some("ConversionWebhook")
    } else {
        None
    }
}

fn label(body: &Value) -> String {
    format!("{} {}", text(body, "/kind"), name(body))
}
