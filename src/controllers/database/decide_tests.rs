use serde_json::json;

use super::*;
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
    let ground = Ground {
        stateful_set: observed.stateful_sets.first().cloned(),
        lease,
        settings: None,
        required: false,
    };
    let live = ground.live(&[], &[], true);
    decide(
        &valid(&database("orders", spec)),
        &observed,
        status,
        (&live, false),
        at(0),
    )
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
