//! The promises, in the order in which they are checked.

use crate::runner::{Scenario, scenario};

mod config;
mod database;
mod database_changes;
mod database_faults;
mod edges;
mod figures;
mod greeter;
mod install;
mod olm_v1;
mod security;
mod serving;
mod status;
mod trial;
mod uninstall;
mod upgrade;
mod versions;
mod without_olm;

/// Those that share an installation stand together; what was measured over all of them comes last.
pub const ALL: &[Scenario] = &[
    scenario!(install::a_subscription_leads_to_a_csv_that_succeeded),
    scenario!(security::operator_and_proxy_run_where_the_restricted_standard_is_enforced),
    scenario!(config::what_the_api_refuses_never_reaches_the_operator),
    scenario!(status::a_second_reconcile_writes_nothing),
    scenario!(serving::no_request_fails_through_a_reload_a_rolling_update_and_scaling),
    scenario!(upgrade::a_publication_to_the_same_tag_upgrades_unasked_and_no_request_fails),
    scenario!(upgrade::a_starting_csv_and_manual_approval_go_back_while_objects_serve),
    scenario!(config::a_refused_configuration_keeps_the_last_good_one_serving_and_names_the_reason, apart: true),
    scenario!(config::a_new_proxy_with_a_refused_configuration_starts_no_pod_until_it_is_mended, apart: true),
    scenario!(status::pod_names_follow_deletion_and_scaling, apart: true),
    scenario!(trial::a_bundle_is_run_upgraded_and_removed_without_a_trace, apart: true),
    scenario!(database::a_database_serves_replicates_and_is_ready, apart: true),
    scenario!(database::it_shows_the_certificate_that_its_author_names_once_that_is_there, apart: true),
    scenario!(database::a_deleted_primary_is_replaced, apart: true),
    scenario!(database::a_killed_container, apart: true),
    scenario!(database::a_hung_primary_is_replaced, apart: true),
    scenario!(database::a_primary_cut_off_from_the_api_server_yields_and_never_two, apart: true),
    scenario!(database::a_primary_cut_off_from_its_replicas_acknowledges_nothing_and_all_goes_on_once_that_is_mended, apart: true),
    scenario!(database::a_primary_cut_off_from_all_others_yields_and_never_two, apart: true),
    scenario!(database::an_api_server_outage_with_all_peers_in_the_same_state_costs_no_write, apart: true),
    scenario!(database_changes::a_database_that_is_made_anew_takes_up_its_data_with_a_new_password, apart: true),
    scenario!(database_faults::all_pods_deleted_at_once_come_back_with_every_write, apart: true),
    scenario!(database_faults::a_replica_whose_data_is_damaged_is_copied_anew, apart: true),
    scenario!(database_faults::a_replica_whose_volume_is_deleted_is_copied_anew, apart: true),
    scenario!(database_faults::a_replica_that_cannot_be_started_says_why_and_what_helps, apart: true),
    scenario!(database_faults::a_container_that_is_killed_again_and_again_gets_another_pod, apart: true),
    scenario!(database_faults::a_full_volume_costs_no_write_and_no_series_of_failovers, apart: true),
    scenario!(database_faults::a_primary_whose_disk_hangs_is_replaced_and_comes_back, apart: true),
    scenario!(database_faults::with_two_instances_writes_wait_for_the_only_standby, apart: true),
    scenario!(database::a_killed_postmaster),
    scenario!(database::another_major_version_fails_over_and_comes_back_as_well),
    scenario!(database_changes::changes_reach_every_instance_with_one_short_pause_each),
    scenario!(database_changes::fewer_instances_and_more_again_cost_nothing_that_was_acknowledged),
    scenario!(database_changes::another_size_scales_and_keeps_nobody_from_writing_for_long),
    scenario!(database_faults::random_faults_in_a_row_cost_no_write_and_all_comes_back),
    scenario!(database_faults::without_synchronous_commits_a_fault_loses_no_more_than_may_be_lost),
    scenario!(database_changes::ten_databases_cost_the_operator_little),
    scenario!(database::the_operator_being_down_changes_nothing),
    scenario!(uninstall::without_the_operator_everything_serves_and_deletions_wait_for_it),
    scenario!(install::starting_csv_and_manual_approval_wait_for_the_user),
    scenario!(upgrade::a_switch_to_another_channel_upgrades),
    scenario!(upgrade::an_upgrade_whose_image_does_not_exist_leaves_the_old_version_at_work_and_says_so),
    scenario!(versions::a_thousand_are_converted_in_one_list_and_moved_to_another_stored_version),
    scenario!(versions::what_leads_to_the_webhook_is_put_right),
    scenario!(versions::while_olm_is_held_between_definition_and_operator_both_versions_work),
    scenario!(versions::from_the_first_release_to_one_without_its_version_nothing_is_lost),
    scenario!(greeter::a_second_package_installs_the_sample_operator_which_greets_and_holds_people),
    scenario!(edges::versions_that_are_left_out_are_never_installed_whoever_serves_the_catalog),
    scenario!(olm_v1::the_same_bundles_and_catalog_install_and_upgrade_under_olm_v1),
    scenario!(install::an_operator_group_with_target_namespaces_is_refused),
    scenario!(uninstall::the_documented_order_removes_everything),
    scenario!(without_olm::the_manifests_install_an_operator_that_survives_its_leader),
    scenario!(figures::the_operator_never_ends_but_for_a_lost_lease),
    scenario!(figures::the_operator_stays_within_30_mib_through_the_whole_run),
];
