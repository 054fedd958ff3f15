use serde_json::{Value, json};

use super::pod::shape;
use super::*;
use crate::controllers::database::testing::{database, decided, owner_of, settings, valid};
use crate::pki::authority::{AUTHORITY_KEY, BUNDLE, CERTIFICATE, KEY};

fn build_all(spec: Value) -> Resources {
    let database = database("orders", spec);
    let valid = valid(&database);
    build(&owner_of(&database, &valid), &settings(), &decided(&valid)).unwrap()
}

fn full() -> Value {
    json!({
        "version": "16.4", "image": "registry.example/postgres:16.4", "size": "large", "synchronous": "required",
        "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "4Gi"}},
        "storage": {"size": "100Gi", "storageClassName": "fast", "whenDeleted": "Delete"},
        "parameters": {"work_mem": "16MB", "shared_buffers": "2GB"},
        "tls": {"required": true, "certificateSecret": "orders-server"},
        "placement": {
            "nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "db", "operator": "Exists"}],
            "antiAffinity": "Required", "topologyKey": "topology.kubernetes.io/zone", "priorityClassName": "high",
        },
    })
}

#[test]
fn the_children_of_a_small_database() {
    let Resources {
        service_account,
        role,
        role_binding,
        lease,
        settings,
        primary,
        read_only,
        instances,
        stateful_set,
        disruption_budget,
    } = build_all(json!({}));
    insta::assert_yaml_snapshot!("service_account", service_account);
    insta::assert_yaml_snapshot!("role", role);
    insta::assert_yaml_snapshot!("role_binding", role_binding);
    insta::assert_yaml_snapshot!("lease", lease);
    insta::assert_yaml_snapshot!("settings", settings);
    insta::assert_yaml_snapshot!("primary", primary);
    insta::assert_yaml_snapshot!("read_only", read_only);
    insta::assert_yaml_snapshot!("instances", instances);
    insta::assert_yaml_snapshot!("stateful_set", stateful_set);
    assert_eq!(disruption_budget, None);
}

#[test]
fn the_children_of_a_full_spec() {
    let resources = build_all(full());
    insta::assert_yaml_snapshot!("full_settings", resources.settings);
    insta::assert_yaml_snapshot!("full_stateful_set", resources.stateful_set);
    insta::assert_yaml_snapshot!("full_disruption_budget", resources.disruption_budget);
}

#[test]
fn instances_may_share_a_node_where_their_author_says_so() {
    let resources = build_all(json!({"placement": {"antiAffinity": "None"}}));
    let pod = resources.stateful_set.spec.unwrap().template.spec.unwrap();
    assert_eq!(pod.affinity, None);
}

#[test]
fn secrets_hold_what_each_reader_needs_and_pods_never_get_the_key_of_the_authority() {
    let database = database("orders", json!({"tls": {"required": true}}));
    let valid = valid(&database);
    let owner = owner_of(&database, &valid);
    let held = [BUNDLE, AUTHORITY_KEY, CERTIFICATE, KEY]
        .map(|key| (key.to_owned(), k8s_openapi::ByteString(key.into())));
    let held = held.into();
    let credentials = secrets::credentials(&owner, b"Secret0", "cluster.local");
    let (authority, tls) = (
        secrets::authority(&owner.parent, &held),
        secrets::tls(&owner.parent, &held),
    );
    let keys = |secret: &k8s_openapi::api::core::v1::Secret| {
        secret
            .data
            .iter()
            .flatten()
            .map(|(key, _)| key.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(keys(&authority), [BUNDLE, AUTHORITY_KEY]);
    assert_eq!(keys(&tls), [BUNDLE, CERTIFICATE, KEY]);
    assert_eq!(
        keys(&credentials),
        ["dbname", "host", "password", "port", "uri", "username"]
    );
    let uri = credentials.data.unwrap().remove("uri").unwrap().0;
    assert_eq!(
        String::from_utf8(uri).unwrap(),
        "postgresql://orders:Secret0@orders.shop.svc.cluster.local:5432/orders?sslmode=require"
    );
}

#[test]
fn pods_are_made_anew_where_another_secret_is_named_and_start_without_it() {
    let shape = |tls: Value| shape(&valid(&database("orders", json!({"tls": tls}))));
    let named = shape(json!({"certificateSecret": "one"}));
    assert_ne!(named, shape(json!({})));
    assert_ne!(named, shape(json!({"certificateSecret": "other"})));
    // Settings say it, and PostgreSQL takes it as it runs.
    assert_eq!(shape(json!({"required": true})), shape(json!({})));
    let pod = build_all(full())
        .stateful_set
        .spec
        .unwrap()
        .template
        .spec
        .unwrap();
    let mut mounted = pod
        .volumes
        .iter()
        .flatten()
        .filter_map(|volume| volume.secret.as_ref());
    let mounted = mounted.find(|secret| secret.secret_name.as_deref() == Some("orders-server"));
    assert_eq!(mounted.unwrap().optional, Some(true));
}

#[test]
fn no_template_gives_a_pod_a_role() {
    let template = build_all(full()).stateful_set.spec.unwrap().template;
    let labels = template.metadata.unwrap().labels.unwrap();
    assert!(!labels.contains_key(crate::api::database::agent::ROLE_LABEL));
}

#[test]
fn builds_are_deterministic() {
    assert_eq!(build_all(full()), build_all(full()));
}
