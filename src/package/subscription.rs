//! What a cluster with OLM is given: where the catalog is, for which namespaces, and which channel to follow.

use serde_json::{Value, json};

use super::{OLM_NAMESPACE, PACKAGE, REGISTRY};

/// The files of config/olm, in the order in which they are applied.
pub(super) fn objects() -> Vec<(String, Value)> {
    vec![
        ("catalogsource.yaml".to_owned(), catalog_source()),
        ("operatorgroup.yaml".to_owned(), operator_group()),
        ("subscription.yaml".to_owned(), subscription()),
    ]
}

fn catalog_source() -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "CatalogSource",
        "metadata": {"name": PACKAGE, "namespace": OLM_NAMESPACE},
        "spec": {
            "sourceType": "grpc",
            "image": format!("{REGISTRY}/roadstead-catalog:latest"),
            "displayName": "Roadstead",
            "publisher": "Roadstead authors",
            "grpcPodConfig": {"securityContextConfig": "restricted"},
            "updateStrategy": {"registryPoll": {"interval": "30m"}},
        },
    })
}

/// OLM allows one group per namespace, and installations of OLM bring this one with the namespace; so it has the same name, and
/// applying it where it is already there changes nothing.
fn operator_group() -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1",
        "kind": "OperatorGroup",
        "metadata": {"name": "global-operators", "namespace": OLM_NAMESPACE},
        "spec": {},
    })
}

fn subscription() -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "Subscription",
        "metadata": {"name": PACKAGE, "namespace": OLM_NAMESPACE},
        "spec": {
            "name": PACKAGE,
            "channel": "stable",
            "source": PACKAGE,
            "sourceNamespace": OLM_NAMESPACE,
            "installPlanApproval": "Automatic",
            // No `config`: it would outlast every upgrade, and pin what the next ClusterServiceVersion brings, such as its nginx.
        },
    })
}
