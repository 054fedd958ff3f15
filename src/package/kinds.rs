//! The kinds that this version ships. A kind without a controller is not among them.

use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use crate::api::{database, my_proxy};
use crate::controllers;

/// All that packaging needs to know of a kind.
#[derive(Debug, Clone)]
pub struct Kind {
    /// The definition, from the Rust type.
    pub crd: CustomResourceDefinition,
    /// What consoles call it.
    pub display_name: &'static str,
    /// What its controller makes: kind and API version.
    pub makes: Vec<(&'static str, &'static str)>,
    /// What its controller may do.
    pub rules: Vec<PolicyRule>,
    /// An object to begin with, for each version that is served, the one to write from now on first.
    pub samples: Vec<Value>,
}

impl Kind {
    /// The versions that come closed and that the operator opens: those that are served and not stored. Nobody converts before, and OLM would want to list
    /// them.
    pub fn opened(&self) -> Vec<&str> {
        let versions = self.crd.spec.versions.iter();
        versions
            .filter(|version| version.served && !version.storage)
            .map(|version| version.name.as_str())
            .collect()
    }
}

/// `GROUP_VERSION_KIND.yaml` without the group's domain, as kubebuilder names it.
pub fn sample_file(sample: &Value) -> String {
    let text = |field: &str| sample[field].as_str().unwrap_or_default();
    let (group, version) = text("apiVersion")
        .split_once('/')
        .unwrap_or(("core", text("apiVersion")));
    let group = group.split('.').next().unwrap_or(group);
    format!("{group}_{version}_{}.yaml", text("kind").to_lowercase())
}

/// Every kind, in the order in which people meet them.
pub fn all() -> Vec<Kind> {
    vec![my_proxy(), database()]
}

fn my_proxy() -> Kind {
    Kind {
        crd: my_proxy::definition(),
        display_name: "Proxy",
        makes: vec![
            ("ConfigMap", "v1"),
            ("Deployment", "apps/v1"),
            ("Job", "batch/v1"),
            ("Pod", "v1"),
            ("PodDisruptionBudget", "policy/v1"),
            ("Service", "v1"),
        ],
        rules: controllers::my_proxy::rules(),
        samples: vec![
            my_proxy_sample("v1", "web"),
            my_proxy_sample("v1alpha1", "web-v1alpha1"),
        ],
    }
}

fn database() -> Kind {
    Kind {
        crd: database::definition(),
        display_name: "PostgreSQL database",
        makes: vec![
            ("ConfigMap", "v1"),
            ("Lease", "coordination.k8s.io/v1"),
            ("PersistentVolumeClaim", "v1"),
            ("Pod", "v1"),
            ("PodDisruptionBudget", "policy/v1"),
            ("Role", "rbac.authorization.k8s.io/v1"),
            ("RoleBinding", "rbac.authorization.k8s.io/v1"),
            ("Secret", "v1"),
            ("Service", "v1"),
            ("ServiceAccount", "v1"),
            ("StatefulSet", "apps/v1"),
        ],
        rules: controllers::database::rules(),
        samples: vec![
            database_sample("v1", "orders"),
            database_sample("v1alpha1", "orders-v1alpha1"),
        ],
    }
}

/// One instance, which fits on any node.
fn database_sample(version: &str, name: &str) -> Value {
    json!({
        "apiVersion": format!("roadstead.dev/{version}"),
        "kind": "Database",
        "metadata": {"name": name},
        "spec": {"version": "17", "size": "small"},
    })
}

fn my_proxy_sample(version: &str, name: &str) -> Value {
    json!({
        "apiVersion": format!("roadstead.dev/{version}"),
        "kind": "MyProxy",
        "metadata": {"name": name},
        "spec": {
            "replicas": 2,
            "upstreams": [{"name": "app", "servers": [{"host": "app", "port": 8080}]}],
            "routes": [{"path": "/", "upstream": "app"}],
            "resources": {
                "requests": {"cpu": "50m", "memory": "32Mi"},
                "limits": {"memory": "128Mi"},
            },
        },
    })
}
