use proptest::prelude::*;
use rstest::rstest;

use super::*;
use crate::api::{database, my_proxy, redis_cluster, trino_cluster};

fn turned(object: &Value, to: &str) -> Value {
    convert(&[&my_proxy::versions()], object.clone(), to).unwrap()
}

fn object(version: &str, spec: Value) -> Value {
    json!({
        "apiVersion": format!("roadstead.dev/{version}"), "kind": "MyProxy",
        "metadata": {"name": "edge", "namespace": "shop", "uid": "1", "labels": {"team": "a"}},
        "spec": spec,
    })
}

fn upstream() -> impl Strategy<Value = Value> {
    let server =
        ("[a-z]{1,5}", 1..9_i32, prop::option::of(1..5_i32)).prop_map(|(host, port, weight)| match weight {
            Some(weight) => json!({"host": host, "port": port, "weight": weight}),
            None => json!({"host": host, "port": port}),
        });
    ("[a-c]", prop::collection::vec(server, 1..3))
        .prop_map(|(name, servers)| json!({"name": name, "servers": servers}))
}

/// A spec in the words of either version: the names of its three fields that differ are given.
fn spec(name: &'static str, tls: fn(String) -> (String, Value), late: bool) -> impl Strategy<Value = Value> {
    let parts = (
        prop::option::of("[a-z]{1,5}"),
        0..5_i32,
        prop::option::of("[a-z]{1,5}"),
        prop::collection::vec(upstream(), 0..3),
        prop::option::of("[a-z]{1,5}"),
        prop::bool::ANY,
    );
    parts.prop_map(move |(called, replicas, image, upstreams, secret, paused)| {
        let mut spec = json!({"replicas": replicas});
        if !upstreams.is_empty() {
            spec["upstreams"] = upstreams.into();
        }
        called.into_iter().for_each(|called| spec[name] = called.into());
        image.into_iter().for_each(|image| spec["image"] = image.into());
        if let Some((field, value)) = secret.map(tls) {
            spec[field] = value;
        }
        if late && paused {
            spec["paused"] = true.into();
        }
        spec
    })
}

fn early_spec() -> impl Strategy<Value = Value> {
    spec("name", |secret| ("tls_secret".to_owned(), secret.into()), false)
}

fn late_spec() -> impl Strategy<Value = Value> {
    let tls = |secret| ("tls".to_owned(), json!({"secretName": secret}));
    spec("deploymentName", tls, true)
}

proptest! {
    #[test]
    fn v1_survives_the_way_through_v1alpha1(spec in late_spec()) {
        let object = object("v1", spec);
        prop_assert_eq!(turned(&turned(&object, "v1alpha1"), "v1"), object);
    }

    #[test]
    fn v1alpha1_survives_the_way_through_v1(spec in early_spec()) {
        let object = object("v1alpha1", spec);
        prop_assert_eq!(turned(&turned(&object, "v1"), "v1alpha1"), object);
    }

    /// As somebody with a client of v1alpha1 may send anything, who has got an object and sends another spec.
    #[test]
    fn whatever_somebody_writes_into_v1alpha1_is_what_v1_says(before in late_spec(), after in early_spec()) {
        let mut edited = turned(&object("v1", before.clone()), "v1alpha1");
        edited["spec"] = after.clone();
        let late = turned(&edited, "v1");
        prop_assert_eq!(&turned(&object("v1alpha1", after), "v1")["spec"]["replicas"], &late["spec"]["replicas"]);
        prop_assert_eq!(&late["spec"]["paused"], &before["paused"]);
        prop_assert_eq!(&turned(&late, "v1alpha1")["spec"], &edited["spec"]);
    }
}

#[test]
fn what_both_can_say_needs_no_annotation() {
    let early = object(
        "v1alpha1",
        json!({"replicas": 2, "name": "front", "tls_secret": "cert"}),
    );
    let late = object(
        "v1",
        json!({"replicas": 2, "deploymentName": "front", "tls": {"secretName": "cert"}}),
    );
    assert_eq!(turned(&early, "v1"), late);
    assert_eq!(turned(&late, "v1alpha1"), early);
}

#[test]
fn what_only_v1_can_say_is_kept_in_one_annotation() {
    let late = object("v1", json!({"replicas": 2, "paused": true}));
    let early = turned(&late, "v1alpha1");
    assert_eq!(early["spec"], json!({"replicas": 2}));
    assert_eq!(
        early["metadata"]["annotations"],
        json!({KEPT: r#"{"v1":[{"at":["spec","paused"],"is":true}]}"#})
    );
}

#[test]
fn what_a_client_leaves_out_that_does_not_know_it_is_carried_over() {
    let late = object("v1", json!({"replicas": 2, "paused": true}));
    let old = turned(&late, "v1alpha1");
    let mut new = object("v1alpha1", json!({"replicas": 3}));
    assert!(carry_over(&old, &mut new));
    assert_eq!(turned(&new, "v1")["spec"], json!({"replicas": 3, "paused": true}));
    assert!(!carry_over(&old, &mut new), "it is there now");
    assert!(!carry_over(&old, &mut late.clone()), "v1 says all by itself");
}

/// Its definition may be newer than the operator that converts it: OLM replaces definitions first.
#[rstest]
#[case("v1", "v1alpha1")]
#[case("v1alpha1", "v1")]
fn a_field_that_is_not_known_yet_survives(#[case] version: &str, #[case] other: &str) {
    let mut newer = object(version, json!({"replicas": 2, "novel": {"a": [1, 2]}}));
    newer["status"] = json!({"conditions": [], "replicas": 0, "novel": 1});
    assert_eq!(turned(&turned(&newer, other), version), newer);
}

#[rstest]
#[case("not JSON")]
#[case("[]")]
#[case(r#"{"v1":[{"at":[],"is":1}]}"#)]
#[case(r#"{"v1":[{"at":["spec","upstreams",{"name":"a"},"x"],"is":1}]}"#)]
#[case(r#"{"v1":[{"at":["spec","paused"],"is":"no boolean"}]}"#)]
fn an_annotation_that_somebody_has_spoilt_fails_no_list(#[case] text: &str) {
    let mut early = object("v1alpha1", json!({"replicas": 2}));
    early["metadata"]["annotations"] = json!({KEPT: text});
    assert_eq!(turned(&early, "v1")["spec"], json!({"replicas": 2}));
}

/// Some 200 bytes of memory for each byte of text.
fn dear(count: usize) -> Value {
    vec![json!({"": 0}); count].into()
}

#[test]
fn an_annotation_that_is_too_dear_to_read_is_left_alone() {
    let text = json!({"v1": [{"at": ["spec", "novel"], "is": dear(10_000)}, {"at": ["spec", "paused"], "is": true}]});
    let mut early = object("v1alpha1", json!({"replicas": 2}));
    early["metadata"]["annotations"] = json!({KEPT: text.to_string()});
    let late = turned(&early, "v1");
    assert_eq!(late["spec"], json!({"replicas": 2}));
    assert_eq!(late["metadata"], early["metadata"]);
}

/// One place of another shape in each server: no list of them is keyed, so each is kept as it is and as v1alpha1 leaves it.
#[test]
fn what_conversion_keeps_of_the_dearest_object_can_be_read_back() {
    let server = json!({"host": "a".repeat(253), "port": 1, "weight": 1, "novel": 1});
    let upstreams: Vec<_> = (0..64)
        .map(|at| json!({"name": format!("upstream-{at}"), "servers": vec![server.clone(); 16]}))
        .collect();
    let late = object(
        "v1",
        json!({"replicas": 2, "upstreams": upstreams, "paused": true}),
    );
    assert!(cost(&late.to_string()) > MAX_OBJECT / 2);
    assert_eq!(turned(&turned(&late, "v1alpha1"), "v1"), late);
    let whole = (MAX_OBJECT - 1000) / cost("{\"\":0},");
    let late = object("v1", json!({"replicas": 2, "novel": dear(whole)}));
    assert_eq!(turned(&turned(&late, "v1alpha1"), "v1"), late);
}

/// As each is within the limit, but not what would have to be kept of the object because of it.
#[test]
fn an_annotation_that_makes_an_object_too_dear_fails_no_list() {
    let limits: Map<_, _> = (0..12_000).map(|at| (format!("{at}"), json!("1"))).collect();
    let spec = json!({"replicas": 2, "resources": {"limits": {"cpu": "1"}}});
    let mut early = object("v1alpha1", spec.clone());
    let text =
        json!({"v1": [{"at": ["spec", "resources"], "is": {"limits": limits}, "left": spec["resources"]}]})
            .to_string();
    assert!(cost(&text) < MAX_KEPT);
    early["spec"]["novel"] = dear(3000);
    early["metadata"]["annotations"] = json!({KEPT: text});
    assert_eq!(turned(&early, "v1")["spec"], spec);
    let foreign = json!({"v9": [{"at": ["spec", "x"], "is": dear(5000)}]}).to_string();
    early["metadata"]["annotations"] = json!({KEPT: foreign});
    assert_eq!(turned(&turned(&early, "v1"), "v1alpha1")["spec"], early["spec"]);
}

#[test]
fn what_could_not_be_read_back_is_not_lost_silently() {
    let late = object("v1", json!({"replicas": 2, "novel": dear(10_000)}));
    let error = convert(&[&my_proxy::versions()], late, "v1alpha1").unwrap_err();
    let (told, most) = (error.to_string(), format!("at most {MAX_LOST}"));
    assert!(
        told.starts_with("MyProxy edge says too much that v1alpha1 cannot"),
        "{told}"
    );
    assert!(told.ends_with(&most), "{told}");
}

#[rstest]
#[case(json!({"apiVersion": "roadstead.dev/v1", "kind": "Pod"}), "v1", "kind is \"Pod\"; it must be one of MyProxy")]
#[case(json!({"apiVersion": "roadstead.dev/v2", "kind": "MyProxy"}), "v1", "apiVersion is \"roadstead.dev/v2\"; it must be one of roadstead.dev/v1alpha1, roadstead.dev/v1")]
#[case(json!({"apiVersion": "roadstead.dev/v1", "kind": "MyProxy"}), "v3", "apiVersion is \"roadstead.dev/v3\"; it must be one of roadstead.dev/v1alpha1, roadstead.dev/v1")]
#[case(json!({"apiVersion": "example.com/v1", "kind": "MyProxy"}), "v1", "apiVersion is \"example.com/v1\"; it must be one of roadstead.dev/v1alpha1, roadstead.dev/v1")]
#[case(
    json!({"apiVersion": "roadstead.dev/v1", "kind": "MyProxy", "metadata": {"name": "a"}, "spec": {"replicas": "two"}}), "v1alpha1",
    "MyProxy a does not fit its schema: invalid type: string \"two\", expected i32"
)]
#[case(json!(null), "v1", "kind is \"\"; it must be one of MyProxy")]
fn what_cannot_be_converted_is_named(#[case] object: Value, #[case] to: &str, #[case] expected: &str) {
    let error = convert(&[&my_proxy::versions()], object, to).unwrap_err();
    assert_eq!(error.to_string(), expected);
}

/// What production asks for and v1alpha1 has no words for.
#[rstest]
#[case::proxy("MyProxy", json!({"replicas": 3, "deploymentName": "front", "tls": {"secretName": "cert"}, "paused": true}))]
#[case::database("Database", json!({
    "version": "16", "size": "medium", "instances": 5, "synchronous": "required", "storage": {"size": "20Gi", "whenDeleted": "Retain"},
    "users": [{"name": "app"}], "databases": [{"name": "reports", "owner": "app", "extensions": [{"name": "hstore"}]}],
    "parameters": {"work_mem": "8MB"}, "backup": {"enabled": true, "schedule": "@daily"}, "paused": true,
}))]
#[case::redis("RedisCluster", json!({
    "size": 5, "replicasPerShard": 1, "storage": {"size": "2Gi"}, "config": {"maxmemory-policy": "allkeys-lru"},
    "aclUsers": [{"name": "app", "rules": "~* +get", "passwordSecret": {"name": "app", "key": "password"}}],
}))]
#[case::trino("TrinoCluster", json!({
    "version": "435", "workers": {"replicas": 4}, "catalogs": [{"name": "tpch", "connector": "tpch"}], "paused": true,
}))]
fn each_kind_survives_the_way_through_v1alpha1(#[case] kind: &str, #[case] spec: Value) {
    let kinds: [&dyn Versions; 4] = [
        &my_proxy::versions(),
        &database::versions(),
        &redis_cluster::versions(),
        &trino_cluster::versions(),
    ];
    let late = json!({
        "apiVersion": "roadstead.dev/v1", "kind": kind, "metadata": {"name": "any"}, "spec": spec,
    });
    let early = convert(&kinds, late.clone(), "v1alpha1").unwrap();
    assert_eq!(early["apiVersion"], "roadstead.dev/v1alpha1");
    assert_eq!(convert(&kinds, early, "v1").unwrap(), late);
}
