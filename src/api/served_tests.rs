use rstest::rstest;
use serde_json::json;

use super::*;
use crate::api::{database, my_proxy, redis_cluster, trino_cluster};

fn object(kind: &str, version: &str, spec: Value) -> Value {
    json!({
        "apiVersion": format!("roadstead.dev/{version}"), "kind": kind,
        "metadata": {"name": "web", "namespace": "a"}, "spec": spec,
    })
}

fn proxy(version: &str, spec: Value) -> Value {
    object("MyProxy", version, spec)
}

fn checked(served: &Served, object: &Value, old: Option<&Value>) -> Result<(), Refusal> {
    served.check(object.clone(), old.cloned())
}

fn told(served: &Served, object: &Value, old: Option<&Value>) -> String {
    checked(served, object, old).unwrap_err().to_string()
}

#[rstest]
#[case::renamed(my_proxy::served(), proxy("v1alpha1", json!({"tls_secret": "A"})), "spec.tls_secret is \"A\"")]
#[case::as_in_v1(my_proxy::served(), proxy("v1", json!({"tls": {"secretName": "A"}})), "spec.tls.secretName is \"A\"")]
#[case::name(my_proxy::served(), proxy("v1alpha1", json!({"name": "A"})), "spec.name is \"A\"")]
#[case::in_lists(
    my_proxy::served(),
    proxy("v1alpha1", json!({"upstreams": [{"name": "a", "servers": [{"host": "a", "port": 0}]}]})),
    "spec.upstreams[0].servers[0].port is \"0\"; it must be 1 to 65535"
)]
#[case::of_a_map(
    my_proxy::served(),
    proxy("v1alpha1", json!({"resources": {"limits": {"example.com/gpu": "x"}}})),
    "spec.resources.limits.example.com/gpu is \"x\""
)]
#[case::nested(
    database::served(),
    object("Database", "v1alpha1", json!({"version": "17", "size": "small", "backup_schedule": "soon"})),
    "spec.backup_schedule is \"soon\""
)]
#[case::the_same(redis_cluster::served(), object("RedisCluster", "v1alpha1", json!({"size": 2})), "spec.size is \"2\"")]
#[case::shortened(trino_cluster::served(), object("TrinoCluster", "v1alpha1", json!({"workers": -1})), "spec.workers is \"-1\"")]
fn problems_are_told_in_the_words_of_the_version_that_was_written(
    #[case] served: Served,
    #[case] object: Value,
    #[case] expected: &str,
) {
    let told = told(&served, &object, None);
    assert!(told.starts_with(expected), "{told}");
}

#[test]
fn what_the_early_version_cannot_say_is_told_in_the_words_of_the_late_one() {
    let served = redis_cluster::served();
    let late = object("RedisCluster", "v1", json!({"size": 3, "config": {"port": "1"}}));
    let mut early = convert(&[served.versions()], late, "v1alpha1").unwrap();
    early["spec"]["size"] = json!(5);
    let told = told(&served, &early, None);
    assert!(told.starts_with("spec.config of v1 is \"port\""), "{told}");
}

#[test]
fn every_word_leads_from_a_place_of_one_version_to_a_place_of_the_other() {
    for served in all() {
        let [early, late] = served.versions.names();
        for (here, there) in served.words {
            assert!(is_in(served.versions.schema(late), here), "{served:?}: {here}");
            assert!(is_in(served.versions.schema(early), there), "{served:?}: {there}");
        }
    }
}

#[test]
fn what_may_not_become_of_an_object_is_told_with_what_it_may_not_be() {
    let served = database::served();
    let database = |version: &str, schedule: &str| {
        object(
            "Database",
            "v1alpha1",
            json!({"version": version, "size": "small", "backup_schedule": schedule}),
        )
    };
    let told = told(&served, &database("18", "soon"), Some(&database("17", "@daily")));
    assert!(told.contains("spec.backup_schedule is \"soon\""), "{told}");
    assert!(told.contains("spec.version is \"18\""), "{told}");
}

#[test]
fn a_rule_that_is_newer_than_an_object_does_not_hold_its_finalizer() {
    let served = my_proxy::served();
    let broken = proxy("v1alpha1", json!({"replicas": 5000}));
    let mut released = broken.clone();
    released["metadata"]["finalizers"] = json!([]);
    assert!(checked(&served, &released, Some(&broken)).is_ok());
    let mut labelled = broken.clone();
    labelled["metadata"]["labels"] = json!({"a": "b"});
    assert!(
        checked(&served, &labelled, Some(&broken)).is_err(),
        "labels are asked for"
    );
    let mut leaving = proxy("v1alpha1", json!({"replicas": 5001}));
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert!(checked(&served, &leaving, Some(&broken)).is_ok());
}

#[test]
fn what_only_the_annotation_says_is_checked_too() {
    let served = redis_cluster::served();
    let before = object("RedisCluster", "v1alpha1", json!({"size": 3}));
    let mut after = before.clone();
    after["metadata"]["annotations"] =
        json!({KEPT: r#"{"v1":[{"at":["spec","replicasPerShard"],"is":9,"left":0}]}"#});
    let told = told(&served, &after, Some(&before));
    assert!(told.starts_with("spec.replicasPerShard of v1 is \"9\""), "{told}");
}

#[test]
fn an_old_object_that_cannot_be_read_is_no_reason_to_refuse_the_new_one() {
    let old = object("Database", "v1", json!({"version": 17}));
    let new = object("Database", "v1", json!({"version": "17", "size": "small"}));
    assert!(checked(&database::served(), &new, Some(&old)).is_ok());
}

#[test]
fn what_does_not_fit_its_schema_is_named() {
    assert_eq!(
        told(
            &my_proxy::served(),
            &proxy("v1", json!({"replicas": "two"})),
            None
        ),
        "MyProxy web does not fit its schema: invalid type: string \"two\", expected i32"
    );
}
