//! What an API server does, as one list of behaviours: the simulated one and a real one have to pass it, so the simulation stays honest.
//!
//! A behaviour gets a client and a namespace of its own. No controllers run beside it.

#![allow(dead_code, reason = "each test binary uses what it needs of this")]

mod admission;
mod apply;
mod deletion;
mod objects;
mod reading;
mod watching;

use std::time::Duration;

use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::place::{Place, behaviours};

/// How long a watch may take to tell.
const LIMIT: Duration = Duration::from_secs(20);

behaviours![
    objects::a_new_object_gets_what_identifies_it,
    objects::a_name_is_taken_once,
    objects::what_is_not_there_is_not_found,
    objects::every_write_makes_a_new_version_and_one_that_changes_nothing_does_not,
    objects::a_write_of_another_version_is_a_conflict,
    objects::a_write_of_another_object_of_the_same_name_is_refused,
    objects::some_kinds_are_not_updated_without_a_version,
    objects::the_generation_counts_changes_of_the_spec_alone,
    objects::the_status_is_written_by_itself_alone,
    objects::the_annotations_of_a_deployment_are_written_with_its_status,
    objects::a_merge_patch_removes_with_null_and_replaces_lists,
    objects::a_lease_that_is_gone_is_made_by_an_update,
    objects::an_immutable_config_map_is_left_alone,
    objects::a_selector_is_left_alone,
    apply::an_apply_creates_and_the_same_again_changes_nothing,
    apply::an_apply_that_wants_a_new_object_conflicts_with_an_old_one,
    apply::an_apply_of_a_uid_that_is_not_there_is_refused,
    apply::what_is_no_longer_applied_goes,
    apply::what_others_own_stays,
    apply::a_map_that_was_empty_is_filled,
    apply::a_field_of_another_is_a_conflict_unless_forced,
    apply::two_may_own_the_same_value,
    apply::a_write_takes_over_what_it_changes,
    apply::lists_are_merged_by_their_keys,
    apply::a_list_without_keys_is_one_value,
    apply::a_selector_is_one_value,
    apply::a_port_without_protocol_is_found_again,
    apply::finalizers_of_others_stay,
    apply::an_owner_is_the_same_in_whichever_version_it_is_named,
    apply::a_status_is_not_applied_with_its_object,
    deletion::an_object_goes_at_once,
    deletion::a_finalizer_keeps_an_object_and_its_removal_lets_it_go,
    deletion::finalizers_that_are_none_are_not_there,
    deletion::a_finalizer_that_is_added_late_is_refused,
    deletion::a_deletion_of_another_object_or_version_is_a_conflict,
    deletion::foreground_and_orphan_are_finalizers,
    deletion::a_job_is_deleted_without_its_pods_unless_said_otherwise,
    reading::a_list_in_pages_has_all_once,
    reading::labels_select,
    reading::a_name_selects,
    watching::a_watch_goes_on_from_its_version,
    watching::a_watch_sees_what_leaves_its_selector_as_deleted,
    watching::a_watch_ends_in_time,
    watching::a_watch_that_asks_for_it_is_told_before_its_end_how_far_it_is,
    watching::a_watch_that_goes_on_from_a_bookmark_misses_nothing,
    watching::a_watch_from_what_is_forgotten_is_told_to_begin_anew,
    watching::the_last_finalizer_is_seen_as_a_deletion,
    admission::unknown_fields_are_dropped_and_defaults_filled_in,
    admission::nulls_are_dropped_or_defaulted,
    admission::the_schema_is_enforced,
    admission::the_rules_are_enforced_with_their_messages,
    admission::keys_of_a_list_are_unique,
    admission::a_status_is_checked_and_defaulted_too,
    admission::what_the_product_sends_comes_back_as_it_was_sent,
    admission::more_requested_than_allowed_is_refused,
];

/// The code and reason of a refusal.
pub fn refusal<T: std::fmt::Debug>(outcome: kube::Result<T>) -> (u16, String, String) {
    match outcome {
        Err(kube::Error::Api(status)) => (status.code, status.reason.clone(), status.message.clone()),
        other => panic!("not a refusal: {other:?}"),
    }
}

pub fn version(object: &DynamicObject) -> String {
    object.metadata.resource_version.clone().unwrap()
}

pub fn a_deployment(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "a"}},
            "template": {
                "metadata": {"labels": {"app": "a"}},
                "spec": {"containers": [{"name": "main", "image": "example/a:1"}]},
            },
        },
    })
}

pub fn a_proxy(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "roadstead.dev/v1", "kind": "MyProxy", "metadata": {"name": name}, "spec": spec})
}
