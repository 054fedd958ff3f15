//! What is decided of a database before its children are built, from its spec and from what is observed. Pure.

use k8s_openapi::api::apps::v1::StatefulSet;

use super::desired::stateful_set::Volume;
use super::desired::{Decided, names, settings};
use super::lease::Held;
use super::observe::{Observed, named};
use super::volumes;
use crate::api::database::ValidDatabase;
use crate::api::database::v1::DatabaseStatus;
use crate::api::problem::Problems;

/// What is made of a spec.
#[derive(Clone, Copy, Debug)]
pub enum Intent<'a> {
    /// It is brought about.
    CarryOut(&'a ValidDatabase, &'a Decided),
    /// It makes no sense: what serves goes on serving, and nothing is changed until somebody mends it.
    Refuse(&'a Problems),
    /// Its author asks that nothing be changed.
    Pause(&'a ValidDatabase),
}

/// Decides.
pub fn decide(database: &ValidDatabase, observed: &Observed, status: Option<&DatabaseStatus>) -> Decided {
    let stateful_set = named(&observed.stateful_sets, &database.name).map(|set| &**set);
    let told = named(&observed.config_maps, &names::settings(&database.name))
        .and_then(|config_map| settings::read(config_map));
    let record = named(&observed.leases, &database.name).map(|lease| Held::of(lease));
    let volume = Volume {
        size: database.storage.size.clone(),
        class: database.storage.class.clone(),
    };
    let members = told
        .as_ref()
        .map(|told| i32::try_from(told.members.len()).unwrap_or(i32::MAX));
    // The status first: what it said once holds for good.
    let known = [
        status.and_then(|status| status.system_identifier.clone()),
        record.and_then(|record| record.system_identifier),
        told.and_then(|told| told.system_identifier),
    ];
    let asked_for = replicas(database.instances, stateful_set, members);
    let replicas = asked_for.max(volumes::left_behind(database, observed, members));
    Decided {
        replicas,
        room: volumes::room(database, observed, replicas),
        volume: stateful_set.and_then(Volume::of).unwrap_or(volume),
        system_identifier: known.into_iter().flatten().next(),
    }
}

/// Nobody is taken away yet whom we have asked for before. What somebody else did to the StatefulSet alone, or to the settings alone, is no reason.
fn replicas(wanted: i32, stateful_set: Option<&StatefulSet>, members: Option<i32>) -> i32 {
    let replicas = stateful_set.and_then(|set| set.spec.as_ref()?.replicas);
    let asked_for = replicas.map(|replicas| members.unwrap_or(replicas).min(replicas));
    wanted.max(asked_for.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::controllers::database::testing::{children, database, valid};

    #[rstest]
    #[case::new(2, None, None, 2)]
    #[case::grows(3, Some(2), Some(2), 3)]
    #[case::growing(3, Some(2), Some(3), 3)]
    #[case::shrinks(1, Some(3), Some(3), 3)]
    #[case::settings_are_lost(1, Some(3), None, 3)]
    #[case::somebody_scales_up(2, Some(5), Some(2), 2)]
    #[case::somebody_scales_down(3, Some(1), Some(3), 3)]
    #[case::the_stateful_set_is_lost(2, None, Some(9), 2)]
    fn instances_are_added_and_never_taken_away(
        #[case] wanted: i32,
        #[case] live: Option<i32>,
        #[case] members: Option<i32>,
        #[case] expected: i32,
    ) {
        let set = live.map(|replicas| {
            let set = json!({"metadata": {}, "spec": {"replicas": replicas, "selector": {}, "serviceName": "", "template": {}}});
            serde_json::from_value::<StatefulSet>(set).unwrap()
        });
        assert_eq!(replicas(wanted, set.as_ref(), members), expected);
    }

    #[test]
    fn what_cannot_be_changed_stays_as_it_is() {
        let small = database(
            "orders",
            json!({"storage": {"size": "1Gi", "storageClassName": "fast"}}),
        );
        let observed = children(&small);
        let large = valid(&database("orders", json!({"storage": {"size": "2Gi"}})));
        let decided = decide(&large, &observed, None);
        assert_eq!(
            (decided.volume.size.0.as_str(), decided.volume.class.as_deref()),
            ("1Gi", Some("fast"))
        );
    }

    #[test]
    fn the_systems_identifier_is_taken_from_wherever_it_is_known_and_first_from_the_status() {
        let orders = database("orders", json!({}));
        let valid = valid(&orders);
        let mut observed = children(&orders);
        assert_eq!(decide(&valid, &observed, None).system_identifier, None);
        let lease = json!({"metadata": {"name": "orders", "annotations": {"roadstead.dev/database": r#"{"systemIdentifier": "7"}"#}}});
        observed.leases = vec![Arc::new(serde_json::from_value(lease).unwrap())];
        assert_eq!(
            decide(&valid, &observed, None).system_identifier.as_deref(),
            Some("7")
        );
        let status = DatabaseStatus {
            system_identifier: Some("6".into()),
            ..DatabaseStatus::default()
        };
        assert_eq!(
            decide(&valid, &observed, Some(&status))
                .system_identifier
                .as_deref(),
            Some("6")
        );
    }
}
