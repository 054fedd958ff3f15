//! The kinds that this version ships. A kind without a controller is not among them.

use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::{Value, json};

use crate::api::my_proxy::MyProxy;
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
    /// An object to begin with.
    pub sample: Value,
}

impl Kind {
    /// `GROUP_VERSION_KIND.yaml` without the group's domain, as kubebuilder names it.
    pub fn sample_file(&self) -> String {
        let api_version = self.sample["apiVersion"].as_str().unwrap_or_default();
        let (group, version) = api_version.split_once('/').unwrap_or(("core", api_version));
        let group = group.split('.').next().unwrap_or(group);
        format!(
            "{group}_{version}_{}.yaml",
            self.crd.spec.names.singular.clone().unwrap_or_default()
        )
    }
}

/// Every kind, in the order in which people meet them.
pub fn all() -> Vec<Kind> {
    vec![my_proxy()]
}

fn my_proxy() -> Kind {
    Kind {
        crd: MyProxy::crd(),
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
        sample: json!({
            "apiVersion": "roadstead.dev/v1alpha1",
            "kind": "MyProxy",
            "metadata": {"name": "web"},
            "spec": {
                "replicas": 2,
                "upstreams": [{"name": "app", "servers": [{"host": "app", "port": 8080}]}],
                "routes": [{"path": "/", "upstream": "app"}],
                "resources": {
                    "requests": {"cpu": "50m", "memory": "32Mi"},
                    "limits": {"memory": "128Mi"},
                },
            },
        }),
    }
}
