//! What the tests of this folder share.

use kube::Resource;
use serde_json::{Value, json};

use super::Settings;
use super::desired::Owner;
use crate::api::my_proxy::{MyProxy, ValidProxy, validate};

pub fn proxy(name: &str, spec: Value) -> MyProxy {
    let object = json!({
        "apiVersion": "roadstead.dev/v1alpha1", "kind": "MyProxy",
        "metadata": {"name": name, "namespace": "shop", "uid": "1", "generation": 1}, "spec": spec,
    });
    serde_json::from_value(object).expect("the test's spec has the right types")
}

pub fn valid(proxy: &MyProxy) -> ValidProxy {
    validate(proxy).expect("the test's spec is valid")
}

pub fn owner_of<'a>(proxy: &MyProxy, valid: &'a ValidProxy) -> Owner<'a> {
    Owner {
        proxy: valid,
        reference: proxy
            .controller_owner_ref(&())
            .expect("the test's proxy has a uid"),
    }
}

pub fn settings() -> Settings {
    Settings {
        nginx_image: "nginx:1.29".into(),
        agent_image: "registry.example/operator:v1".into(),
        cluster_domain: "cluster.local".into(),
    }
}
