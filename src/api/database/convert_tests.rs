use std::sync::LazyLock;

use kube::CustomResourceExt;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::api::admission::{Admission, Refusal};
use crate::api::conversion::convert;
use crate::api::database::Size;

prop_compose! {
    fn specs()(
        version in "1[4-8](\\.[0-9]{1,2})?",
        size in select(&Size::ALL[..]),
        backup_enabled: bool,
        backup_schedule in "\\PC{1,100}",
    ) -> v1alpha1::DatabaseSpec {
        v1alpha1::DatabaseSpec { version, size, backup_enabled, backup_schedule }
    }
}

prop_compose! {
    fn statuses()(
        ready: bool,
        endpoint in option::of(".*"),
        version in option::of(".*"),
        replicas: i32,
        phase in option::of(".*"),
        error in option::of(".*"),
    ) -> v1alpha1::DatabaseStatus {
        v1alpha1::DatabaseStatus { ready, endpoint, version, replicas, phase, error }
    }
}

fn object(version: &str, spec: impl serde::Serialize) -> serde_json::Value {
    serde_json::json!({
        "apiVersion": format!("roadstead.dev/{version}"), "kind": "Database",
        "metadata": {"name": "orders", "namespace": "shop"}, "spec": serde_json::to_value(spec).unwrap(),
    })
}

#[rstest]
#[case::version(json!({"version": "9.6", "size": "small"}), "spec.version is \"9.6\"; it must be a version of PostgreSQL from 14 to 18")]
#[case::schedule(
    json!({"version": "17", "size": "small", "backup_schedule": "0 2 * *"}), "spec.backup_schedule is \"0 2 * *\"; it must be a cron expression"
)]
fn v1alpha1_refuses_in_the_names_of_its_own_fields(#[case] spec: serde_json::Value, #[case] words: &str) {
    let Err(Refusal::Rules(messages)) =
        Admission::of(&v1alpha1::Database::crd()).admit(&object("v1alpha1", spec), None)
    else {
        panic!("a rule refuses it");
    };
    assert!(
        messages.len() == 1 && messages[0].1.starts_with(words),
        "{messages:?}"
    );
}

#[rstest]
#[case::no_size(json!({"version": "17"}))]
#[case::size(json!({"version": "17", "size": "huge"}))]
#[case::no_version(json!({"size": "small"}))]
#[case::no_schedule(json!({"version": "17", "size": "small", "backup_schedule": ""}))]
fn v1alpha1_asks_for_what_it_always_asked_for(#[case] spec: serde_json::Value) {
    let answer = Admission::of(&v1alpha1::Database::crd()).admit(&object("v1alpha1", spec), None);
    assert!(matches!(answer, Err(Refusal::Schema(_))), "{answer:?}");
}

#[test]
fn the_major_version_stays_in_v1alpha1_too() {
    let of = |version: &str| object("v1alpha1", json!({"version": version, "size": "small"}));
    let gate = Admission::of(&v1alpha1::Database::crd());
    assert_eq!(gate.admit(&of("16.2"), Some(&of("16"))), Ok(()));
    assert!(gate.admit(&of("17"), Some(&of("16"))).is_err());
}

/// A write in either version that one schema accepts would otherwise end at the other's.
#[rstest]
#[case::least(json!({"version": "14", "size": "small"}))]
#[case::most(json!({"version": "18.12", "size": "large", "backup_enabled": true, "backup_schedule": "@every 6h"}))]
fn what_v1alpha1_accepts_v1_accepts_and_back(#[case] spec: serde_json::Value) {
    let old = Admission::of(&v1alpha1::Database::crd());
    let new = Admission::of(&v1::Database::crd());
    assert_eq!(old.admit(&object("v1alpha1", &spec), None), Ok(()));
    let converted = to_v1(&serde_json::from_value(spec).unwrap());
    assert_eq!(new.admit(&object("v1", &converted), None), Ok(()));
    let more = v1::DatabaseSpec {
        instances: Some(7),
        synchronous: v1::Synchronous::Required,
        ..converted
    };
    assert_eq!(new.admit(&object("v1", &more), None), Ok(()));
    assert_eq!(old.admit(&object("v1alpha1", to_v1alpha1(&more)), None), Ok(()));
}

proptest! {
    #[test]
    fn a_spec_comes_back_from_v1_as_it_went(spec in specs()) {
        prop_assert_eq!(to_v1alpha1(&to_v1(&spec)), spec);
    }

    #[test]
    fn a_status_comes_back_from_v1_as_it_went(status in statuses()) {
        prop_assert_eq!(status_to_v1alpha1(&status_to_v1(&status)), status);
    }

    /// The same as JSON, which is how the API server gets it: no field is written under another's name, or left out.
    #[test]
    fn json_comes_back_too(spec in specs(), status in statuses()) {
        let json = serde_json::to_value(to_v1(&spec)).unwrap();
        prop_assert_eq!(to_v1alpha1(&serde_json::from_value(json).unwrap()), spec);
        let json = serde_json::to_value(status_to_v1(&status)).unwrap();
        prop_assert_eq!(status_to_v1alpha1(&serde_json::from_value(json).unwrap()), status);
    }
}

#[test]
fn what_v1alpha1_leaves_out_has_the_schemas_defaults() {
    let spec = serde_json::json!({"version": "17", "size": "large"});
    let written: v1::DatabaseSpec = serde_json::from_value(spec.clone()).unwrap();
    assert_eq!(to_v1(&serde_json::from_value(spec).unwrap()), written);
}

#[test]
fn a_database_that_is_not_ready_has_no_such_condition() {
    let condition = |status: &str| Condition {
        status: status.to_owned(),
        ..status_to_v1(&v1alpha1::DatabaseStatus {
            ready: true,
            ..v1alpha1::DatabaseStatus::default()
        })
        .conditions[0]
            .clone()
    };
    for (status, ready) in [("True", true), ("False", false), ("Unknown", false)] {
        let status = v1::DatabaseStatus {
            conditions: vec![condition(status)],
            ..v1::DatabaseStatus::default()
        };
        assert_eq!(status_to_v1alpha1(&status).ready, ready);
    }
}

/// As people and the operator write v1: some of what v1alpha1 has a word for, and much that it has not.
fn late_objects() -> impl Strategy<Value = serde_json::Value> {
    let spec = (
        specs(),
        option::of(1..10_i32),
        select(vec!["off", "preferred", "required"]),
        option::of("[1-9][0-9]?Gi"),
        prop::collection::btree_map("[a-z]{3}_[a-z]{3}", "[a-z0-9]{0,5}", 0..3),
        prop::collection::btree_set("[a-z]{1,3}", 0..3),
    );
    let status = (statuses(), option::of("True|False|Unknown"), option::of(0..9_i64));
    (spec, status).prop_map(|((early, instances, synchronous, size, parameters, names), (status, ready, lag))| {
        let mut spec = json!({"version": early.version, "size": early.size, "synchronous": synchronous, "parameters": parameters});
        spec["backup"] = json!({"enabled": early.backup_enabled, "schedule": early.backup_schedule});
        spec["users"] = names.iter().map(|name| json!({"name": name, "login": false})).collect();
        spec["databases"] = names.iter().map(|name| json!({"name": name, "extensions": [{"name": "hstore"}]})).collect();
        instances.into_iter().for_each(|instances| spec["instances"] = instances.into());
        size.into_iter().for_each(|size| spec["storage"] = json!({"size": size, "storageClassName": "fast"}));
        let mut object = object("v1", spec);
        object["status"] = serde_json::to_value(status_to_v1(&status)).unwrap();
        if let Some(ready) = ready {
            let condition = |kind: &str| json!({"type": kind, "status": ready, "reason": "Checked", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"});
            object["status"]["conditions"] = json!([condition("Available"), condition("Ready")]);
        }
        object["status"]["instances"] = json!([{"name": "orders-0", "role": "primary"}, {"name": "orders-1", "lag": lag}]);
        object
    })
}

fn turned(object: &serde_json::Value, to: &str) -> serde_json::Value {
    static VERSIONS: LazyLock<Box<dyn Versions>> = LazyLock::new(|| Box::new(versions()));
    convert(&[VERSIONS.as_ref()], object.clone(), to).unwrap()
}

proptest! {
    #[test]
    fn v1_comes_back_from_v1alpha1_with_all_that_it_said(object in late_objects()) {
        prop_assert_eq!(turned(&turned(&object, "v1alpha1"), "v1"), object);
    }

    #[test]
    fn v1alpha1_comes_back_from_v1_as_it_was_written(spec in specs(), status in statuses()) {
        let mut object = object("v1alpha1", spec);
        object["status"] = serde_json::to_value(status).unwrap();
        prop_assert_eq!(turned(&turned(&object, "v1"), "v1alpha1"), object);
    }
}

#[test]
fn a_patch_in_v1alpha1_scales_and_leaves_the_rest_as_it_was() {
    let spec = json!({"version": "17", "size": "small", "parameters": {"work_mem": "1MB"}, "backup": {"enabled": true, "schedule": "@daily"}});
    let mut early = turned(&object("v1", spec), "v1alpha1");
    assert_eq!(
        early["spec"],
        json!({"version": "17", "size": "small", "backup_enabled": true, "backup_schedule": "@daily"})
    );
    early["spec"]["size"] = "medium".into();
    let late = turned(&early, "v1");
    let said = ["size", "parameters", "backup"].map(|field| late["spec"][field].clone());
    assert_eq!(
        said,
        [
            json!("medium"),
            json!({"work_mem": "1MB"}),
            json!({"enabled": true, "schedule": "@daily"})
        ]
    );
}
