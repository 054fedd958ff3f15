use std::sync::Arc;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use super::*;
use crate::api::database::MAX_INSTANCES;
use crate::api::database::v1::Database;
use crate::controllers::database::lease::Held;
use crate::controllers::database::live::Ground;
use crate::controllers::database::testing::{at, children, database, valid};

fn seen(
    spec: serde_json::Value,
    before: serde_json::Value,
    lease: Held,
    status: Option<&DatabaseStatus>,
) -> Decided {
    let observed = children(&database("orders", before));
    decided(&database("orders", spec), &observed, lease, status)
}

fn decided(
    database: &Database,
    observed: &Observed,
    lease: Held,
    status: Option<&DatabaseStatus>,
) -> Decided {
    let ground = Ground {
        stateful_set: observed.stateful_sets.first().cloned(),
        lease,
        settings: None,
        required: false,
    };
    let live = ground.live(&[], &[], true);
    decide(&valid(database), observed, status, &live, false, at(20))
}

#[test]
fn what_cannot_be_changed_stays_as_it_is() {
    let small = json!({"storage": {"size": "1Gi", "storageClassName": "fast"}});
    let decided = seen(json!({"storage": {"size": "2Gi"}}), small, Held::default(), None);
    assert_eq!(
        (decided.volume.size.0.as_str(), decided.volume.class.as_deref()),
        ("1Gi", Some("fast"))
    );
}

#[test]
fn the_systems_identifier_is_taken_from_wherever_it_is_known_and_first_from_the_status() {
    let known = |lease: Option<&str>, status: Option<&str>| {
        let lease = Held {
            system_identifier: lease.map(str::to_owned),
            ..Held::default()
        };
        let status = DatabaseStatus {
            system_identifier: status.map(str::to_owned),
            ..DatabaseStatus::default()
        };
        seen(json!({}), json!({}), lease, Some(&status)).system_identifier
    };
    assert_eq!(known(None, None), None);
    assert_eq!(known(Some("7"), None).as_deref(), Some("7"));
    assert_eq!(known(Some("7"), Some("6")).as_deref(), Some("6"));
}

fn older_claim(ordinal: i32) -> Arc<PersistentVolumeClaim> {
    let claim = json!({"metadata": {"name": format!("data-orders-{ordinal}"), "creationTimestamp": at(5)}});
    Arc::new(serde_json::from_value(claim).unwrap())
}

/// The last primary may have been any of them: to begin without it would be to begin with older data, and to overwrite the latest later on.
#[test]
fn an_instance_begins_on_every_volume_of_before_the_database_however_few_are_asked_for() {
    let mut anew = database("orders", json!({"instances": 1}));
    anew.metadata.creation_timestamp = Some(Time(at(10)));
    let observed = Observed {
        claims: vec![older_claim(0), older_claim(2), older_claim(MAX_INSTANCES)],
        ..Observed::default()
    };
    let begun = decided(&anew, &observed, Held::default(), None);
    assert_eq!((begun.members, begun.replicas), (3, 3));
    assert_eq!(
        begun.retained,
        ["orders-0".to_owned(), "orders-2".to_owned()].into()
    );
    let Course::Wait(what) = &begun.course else {
        panic!("{:?}", begun.course);
    };
    assert!(what.contains("the volumes of orders-2 are older"), "{what}");

    // Once somebody leads it is known whose data it is: from then on it is a database with too many instances, as any other.
    let mut made = children(&database("orders", json!({"instances": 3})));
    made.claims = observed.claims;
    let led = Held {
        system_identifier: Some("7".to_owned()),
        ..Held::default()
    };
    let led = decided(&anew, &made, led, None);
    assert_eq!((led.members, led.replicas, led.retained.len()), (3, 3, 0));
    let Course::Wait(what) = &led.course else {
        panic!("{:?}", led.course);
    };
    assert!(!what.contains("older"), "{what}");
}
