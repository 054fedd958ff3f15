//! Between the two versions. What only one of them can say is its default in the other; keeping it across a round trip is not done here.
//!
//! Nothing here can fail, and from v1alpha1 to v1 and back nothing changes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

use super::{v1, v1alpha1};

/// The condition that v1alpha1 has as a field.
const READY: &str = "Ready";

/// The same database in v1.
pub fn to_v1(spec: &v1alpha1::DatabaseSpec) -> v1::DatabaseSpec {
    let v1alpha1::DatabaseSpec {
        version,
        size,
        backup_enabled,
        backup_schedule,
    } = spec;
    v1::DatabaseSpec {
        version: version.clone(),
        size: *size,
        backup: v1::Backup {
            enabled: *backup_enabled,
            schedule: backup_schedule.clone(),
        },
        ..v1::DatabaseSpec::default()
    }
}

/// What v1alpha1 can say of a database: its version, its size and its backups. Where instances or resources differ from those of the size, it says
/// the size all the same.
pub fn to_v1alpha1(spec: &v1::DatabaseSpec) -> v1alpha1::DatabaseSpec {
    v1alpha1::DatabaseSpec {
        version: spec.version.clone(),
        size: spec.size,
        backup_enabled: spec.backup.enabled,
        backup_schedule: spec.backup.schedule.clone(),
    }
}

/// The same status in v1. That a database is ready becomes a condition, of which nothing more is known: neither since when
/// (the epoch stands for that) nor for which generation.
pub fn status_to_v1(status: &v1alpha1::DatabaseStatus) -> v1::DatabaseStatus {
    let v1alpha1::DatabaseStatus {
        ready,
        endpoint,
        version,
        replicas,
        phase,
        error,
    } = status.clone();
    let ready = ready.then(|| Condition {
        type_: READY.to_owned(),
        status: "True".to_owned(),
        reason: "Converted".to_owned(),
        message: "v1alpha1 says that it is ready".to_owned(),
        last_transition_time: Time(Timestamp::UNIX_EPOCH),
        observed_generation: None,
    });
    v1::DatabaseStatus {
        conditions: ready.into_iter().collect(),
        endpoint,
        version,
        replicas,
        phase,
        error,
        ..v1::DatabaseStatus::default()
    }
}

/// What v1alpha1 can say of a status. `ready` is the condition of that name, where it is true.
pub fn status_to_v1alpha1(status: &v1::DatabaseStatus) -> v1alpha1::DatabaseStatus {
    let is_ready = |condition: &Condition| condition.type_ == READY && condition.status == "True";
    v1alpha1::DatabaseStatus {
        ready: status.conditions.iter().any(is_ready),
        endpoint: status.endpoint.clone(),
        version: status.version.clone(),
        replicas: status.replicas,
        phase: status.phase.clone(),
        error: status.error.clone(),
    }
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt;
    use proptest::option;
    use proptest::prelude::*;
    use proptest::sample::select;
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::api::database::Size;
    use crate::api::database::gate::{Gate, Refusal};

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
            Gate::of(&v1alpha1::Database::crd()).admit(&object("v1alpha1", spec), None)
        else {
            panic!("a rule refuses it");
        };
        assert!(
            messages.len() == 1 && messages[0].starts_with(words),
            "{messages:?}"
        );
    }

    #[rstest]
    #[case::no_size(json!({"version": "17"}))]
    #[case::size(json!({"version": "17", "size": "huge"}))]
    #[case::no_version(json!({"size": "small"}))]
    #[case::no_schedule(json!({"version": "17", "size": "small", "backup_schedule": ""}))]
    fn v1alpha1_asks_for_what_it_always_asked_for(#[case] spec: serde_json::Value) {
        let answer = Gate::of(&v1alpha1::Database::crd()).admit(&object("v1alpha1", spec), None);
        assert!(matches!(answer, Err(Refusal::Schema(_))), "{answer:?}");
    }

    #[test]
    fn the_major_version_stays_in_v1alpha1_too() {
        let of = |version: &str| object("v1alpha1", json!({"version": version, "size": "small"}));
        let gate = Gate::of(&v1alpha1::Database::crd());
        assert_eq!(gate.admit(&of("16.2"), Some(&of("16"))), Ok(()));
        assert!(gate.admit(&of("17"), Some(&of("16"))).is_err());
    }

    /// A write in either version that one schema accepts would otherwise end at the other's.
    #[rstest]
    #[case::least(json!({"version": "14", "size": "small"}))]
    #[case::most(json!({"version": "18.12", "size": "large", "backup_enabled": true, "backup_schedule": "@every 6h"}))]
    fn what_v1alpha1_accepts_v1_accepts_and_back(#[case] spec: serde_json::Value) {
        let old = Gate::of(&v1alpha1::Database::crd());
        let new = Gate::of(&v1::Database::crd());
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
}
