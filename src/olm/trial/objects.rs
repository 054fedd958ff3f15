//! What is made, as the API server is asked for it.

use serde_json::{Value, json};

use super::{LABEL, Refused, Trial};
use crate::olm::manifests::{name, text};
use crate::olm::oci::Digest;

/// The ConfigMap's key, and the name of the catalog's file.
pub const CONTENT: &str = "catalog.yaml";
/// What a ConfigMap may hold, in bytes: 1 MiB, and the object has other fields.
const LARGEST: usize = (1 << 20) - (8 << 10);
/// Which catalog the pod serves, so that another one makes another pod.
const DIGEST: &str = "roadstead.dev/catalog-digest";
/// Where the registry listens.
const PORT: u16 = 50051;

impl Trial {
    fn metadata(&self) -> Value {
        json!({
            "name": self.name(), "namespace": self.namespace,
            "labels": {LABEL: self.package, "app.kubernetes.io/managed-by": "roadstead"},
        })
    }

    fn owned(&self, source: &Value) -> Value {
        let mut metadata = self.metadata();
        metadata["ownerReferences"] = json!([{
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
            "name": name(source), "uid": text(source, "/metadata/uid"),
        }]);
        metadata
    }

    /// The catalog, for OLM. It is served elsewhere, so OLM makes no pod of its own; with these Secrets of the namespace the Job that unpacks bundles pulls them.
    #[must_use]
    pub fn source(&self, secrets: &[String]) -> Value {
        let address = format!("{}.{}.svc:{PORT}", self.name(), self.namespace);
        json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "metadata": self.metadata(),
            "spec": {
                "sourceType": "grpc", "address": address, "displayName": format!("{} on trial", self.package), "publisher": "roadstead bundle run",
                "secrets": secrets,
            },
        })
    }

    /// The catalog itself.
    ///
    /// # Errors
    /// [`Refused::Large`]
    pub fn content(&self, catalog: &str, source: &Value) -> Result<Value, Refused> {
        Ok(json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": self.owned(source),
            "data": {CONTENT: checked(catalog)?},
        }))
    }

    /// What changes in it for another catalog.
    ///
    /// # Errors
    /// [`Refused::Large`]
    pub fn other_content(&self, catalog: &str) -> Result<Value, Refused> {
        Ok(json!({"data": {CONTENT: checked(catalog)?}}))
    }

    /// What leads to the pod that serves it.
    #[must_use]
    pub fn service(&self, source: &Value) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": self.owned(source),
            "spec": {"selector": {LABEL: self.package}, "ports": [{"name": "grpc", "port": PORT, "targetPort": "grpc"}]},
        })
    }

    /// The pod that serves it, by this program, as the restricted standard wants it. Its image is pulled with the Secrets of its CatalogSource.
    #[must_use]
    pub fn server(&self, catalog: &str, image: &str, source: &Value) -> Value {
        let file = format!("/configs/{CONTENT}");
        let container = json!({
            "name": "registry", "image": image, "args": ["catalog", "serve", "/configs"],
            "ports": [{"name": "grpc", "containerPort": PORT}],
            "readinessProbe": {"grpc": {"port": PORT}, "periodSeconds": 1},
            "livenessProbe": {"grpc": {"port": PORT}, "periodSeconds": 10, "failureThreshold": 6},
            "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "128Mi"}},
            "securityContext": {"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}},
            // As a file of its own: in a folder, a ConfigMap is three times
            "volumeMounts": [{"name": "catalog", "mountPath": file, "subPath": CONTENT, "readOnly": true}],
        });
        let secrets = source["spec"]["secrets"].as_array().into_iter().flatten();
        let secrets: Vec<Value> = secrets.map(|name| json!({"name": name})).collect();
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": self.owned(source),
            "spec": {
                "replicas": 1, "selector": {"matchLabels": {LABEL: self.package}},
                "template": {
                    "metadata": {
                        "labels": {LABEL: self.package, "app.kubernetes.io/managed-by": "roadstead"},
                        "annotations": {DIGEST: digest(catalog)},
                    },
                    "spec": {
                        "automountServiceAccountToken": false, "enableServiceLinks": false, "containers": [container],
                        "imagePullSecrets": secrets,
                        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
                        "volumes": [{"name": "catalog", "configMap": {"name": self.name()}}],
                    },
                },
            },
        })
    }

    /// What changes in it for another catalog.
    #[must_use]
    pub fn other_server(&self, catalog: &str) -> Value {
        json!({"spec": {"template": {"metadata": {"annotations": {DIGEST: digest(catalog)}}}}})
    }

    /// For a namespace that has none; without targets, for all namespaces.
    #[must_use]
    pub fn group(&self, targets: &[String]) -> Value {
        let spec = match targets {
            [] => json!({}),
            targets => json!({"targetNamespaces": targets}),
        };
        json!({
            "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": self.metadata(), "spec": spec,
        })
    }

    /// Automatic, since one that is not would keep all others of the namespace waiting for a person.
    #[must_use]
    pub fn subscription(&self, channel: &str, csv: &str) -> Value {
        let mut metadata = self.metadata();
        metadata["name"] = json!(self.package);
        json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription", "metadata": metadata,
            "spec": {
                "name": self.package, "channel": channel, "source": self.name(), "sourceNamespace": self.namespace,
                "startingCSV": csv, "installPlanApproval": "Automatic",
            },
        })
    }
}

/// The catalog in a ConfigMap; empty where there is none.
#[must_use]
pub fn content_of(map: &Value) -> &str {
    map["data"][CONTENT].as_str().unwrap_or_default()
}

fn checked(catalog: &str) -> Result<&str, Refused> {
    if catalog.len() > LARGEST {
        return Err(Refused::Large {
            bytes: catalog.len(),
            most: LARGEST,
        });
    }
    Ok(catalog)
}

fn digest(catalog: &str) -> String {
    Digest::of(catalog.as_bytes()).to_string()
}
