use std::sync::LazyLock;

use kube::CustomResourceExt;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::api::admission::{Admission, Refusal};

pub(super) static GATE: LazyLock<Admission> = LazyLock::new(|| Admission::of(&Database::crd()));

/// What an API server does with what is refused here.
#[derive(Debug, PartialEq)]
pub(super) enum Server {
    /// Its rule says the same in the same words; the field of a list's element without where the list is, which the server says before.
    Same,
    /// The same but for escapes in the value.
    SameUnescaped,
    /// Its schema refuses it too.
    Schema,
    /// It cannot know, or not within its budget.
    LetsPass,
}
use Server::{LetsPass, Same, SameUnescaped, Schema};

/// A database of version 17 with these fields besides.
pub(super) fn object(spec: Value) -> Value {
    let mut object = json!({
        "apiVersion": "roadstead.dev/v1", "kind": "Database",
        "metadata": {"name": "orders", "namespace": "shop"}, "spec": {"version": "17"},
    });
    for (name, value) in spec.as_object().unwrap() {
        object["spec"][name] = value.clone();
    }
    object
}

pub(super) fn database(object: &Value) -> Database {
    serde_json::from_value(object.clone()).expect("the test's object has the right types")
}

fn valid(spec: Value) -> ValidDatabase {
    validate(&database(&object(spec))).expect("the spec is accepted")
}

/// The one problem is this, and an API server is of the same mind.
#[track_caller]
pub(super) fn assert_refused(
    object: &Value,
    old: Option<&Value>,
    field: &str,
    value: &str,
    accepted: &str,
    server: &Server,
) {
    let verdict = match old {
        Some(old) => validate_update(&database(old), &database(object)),
        None => validate(&database(object)).map(|_| ()),
    };
    let problems = verdict.expect_err("it is refused");
    let [problem] = problems.list() else {
        panic!("one problem: {problems}");
    };
    assert_eq!((problem.field.as_str(), problem.value.as_str()), (field, value));
    assert!(problem.expected.contains(accepted), "{problem}");
    let answer = GATE.admit(object, old);
    let as_expected = match (&answer, server) {
        (Ok(()), LetsPass) | (Err(Refusal::Schema(_)), Schema) => true,
        (Err(Refusal::Rules(messages)), Same) => messages
            .iter()
            .any(|(_, message)| same(&problem.to_string(), message)),
        (Err(Refusal::Rules(messages)), SameUnescaped) => {
            let unescaped = format!("\"{}\"; it must be {}", problem.value, problem.expected);
            messages.iter().any(|(_, message)| message.ends_with(&unescaped))
        }
        _ => false,
    };
    assert!(as_expected, "{problem}\nbut the server: {answer:?}");
}

/// `spec.users[0].name is ...` is `name is ...` where the rule stands at the element, and `spec.users[].name is ...` where it stands above.
fn same(ours: &str, servers: &str) -> bool {
    ours == servers || ours.replace("[0]", "[]") == servers || ours.ends_with(&format!("].{servers}"))
}

#[test]
fn a_version_is_enough() {
    let valid = valid(json!({}));
    assert_eq!((valid.major, valid.instances), (17, 1));
    assert_eq!(valid.storage.bytes, 10 << 30);
    assert_eq!((valid.maximum_lag, valid.lease), (1 << 20, 6));
    assert_eq!(valid.backup_schedule, None);
    let own = ValidLogicalDatabase {
        name: "orders".into(),
        owner: "orders".into(),
        extensions: vec![],
    };
    assert_eq!(valid.databases, [own]);
}

#[test]
fn all_that_there_is_to_say_can_be_said() {
    let spec = json!({
        "version": "17.6", "image": "registry.example/postgres:17.6", "size": "large", "instances": 5,
        "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": 4, "memory": "8Gi"}},
        "storage": {"size": "100Gi", "storageClassName": "fast", "whenDeleted": "Delete"},
        "parameters": {"work_mem": "16MB", "search_path": "\"$user\", public", "pg_stat_statements.track": "all",
            "shared_preload_libraries": "pg_stat_statements, auto_explain"},
        "synchronous": "required", "maximumLagOnFailover": "16Mi", "leaseDurationSeconds": 30,
        "users": [
            {"name": "app", "passwordSecret": {"name": "app-password", "key": "password"}, "connectionLimit": 50, "memberOf": ["orders", "readers"]},
            {"name": "readers", "login": false, "memberOf": ["pg_read_all_data"]},
            {"name": "Admin", "createDatabase": true, "createRole": true},
        ],
        "databases": [
            {"name": "reports", "owner": "app", "extensions": [{"name": "uuid-ossp"}, {"name": "pg_trgm", "version": "1.6"}]},
            {"name": "orders", "extensions": [{"name": "hstore"}]},
        ],
        "tls": {"required": true, "certificateSecret": "orders-tls"},
        "placement": {
            "nodeSelector": {"disk": "ssd"}, "antiAffinity": "Required", "topologyKey": "topology.kubernetes.io/zone",
            "tolerations": [{"operator": "Exists"}, {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}],
        },
        "backup": {"enabled": true, "schedule": "@daily"}, "paused": true,
    });
    let object = object(spec.clone());
    assert_eq!(GATE.admit(&object, None), Ok(()));
    assert_eq!(
        serde_json::to_value(&database(&object).spec).unwrap()["users"][0]["passwordSecret"]["key"],
        "password"
    );
    let valid = valid(spec);
    assert_eq!(valid.backup_schedule.as_deref(), Some("@daily"));
    let databases: Vec<_> = valid
        .databases
        .iter()
        .map(|database| {
            (
                database.name.as_str(),
                database.owner.as_str(),
                database.extensions.len(),
            )
        })
        .collect();
    assert_eq!(databases, [("orders", "orders", 1), ("reports", "app", 2)]);
}

#[rstest]
#[case::small("small", 1, "500m", "512Mi")]
#[case::medium("medium", 2, "1", "1Gi")]
#[case::large("large", 3, "2", "2Gi")]
fn a_size_is_instances_and_limits(
    #[case] size: &str,
    #[case] instances: i32,
    #[case] cpu: &str,
    #[case] memory: &str,
) {
    let valid = valid(json!({"size": size}));
    let limit = |name: &str| valid.resources.limits[name].0.clone();
    assert_eq!(
        (valid.instances, limit("cpu"), limit("memory")),
        (instances, cpu.into(), memory.into())
    );
}

#[test]
fn a_default_request_gives_way_to_a_limit_below_it() {
    let valid = valid(json!({"size": "large", "resources": {"limits": {"cpu": "250m"}}}));
    let requests = ["cpu", "memory"].map(|name| valid.resources.requests[name].0.as_str());
    assert_eq!(requests, ["250m", "512Mi"]);
}

#[rstest]
#[case::capitals("Orders", "beginning with a letter", Same)]
#[case::digit_first("1orders", "beginning with a letter", Same)]
#[case::dots("orders.eu", "beginning with a letter", Same)]
#[case::too_long(
    "ooooooooooooooooooooooooooooooooooooooooooooooooooooo",
    "at most 52 characters",
    Same
)]
#[case::superuser("postgres", "unlike the names that PostgreSQL and the operator keep", Same)]
#[case::template("template1", "unlike the names that PostgreSQL and the operator keep", Same)]
#[case::operators("roadstead", "unlike the names that PostgreSQL and the operator keep", Same)]
#[case::everybody("public", "unlike the names that PostgreSQL and the operator keep", Same)]
fn a_wrong_name_is_refused(#[case] name: &str, #[case] accepted: &str, #[case] server: Server) {
    let mut object = object(json!({}));
    object["metadata"]["name"] = json!(name);
    assert_refused(&object, None, "metadata.name", name, accepted, &server);
}

#[rstest]
#[case::version_too_old(json!({"version": "13"}), "version", "13", "from 14 to 18", Same)]
#[case::version_too_new(json!({"version": "19"}), "version", "19", "from 14 to 18", Same)]
#[case::version_of_three_parts(json!({"version": "9.6.1"}), "version", "9.6.1", "from 14 to 18", Same)]
#[case::version_without_minor(json!({"version": "17."}), "version", "17.", "from 14 to 18", Same)]
#[case::version_of_a_tag(json!({"version": "17-a"}), "version", "17-a", "from 14 to 18", Same)]
#[case::version_of_two_lines(json!({"version": "17\n1"}), "version", "17\n1", "from 14 to 18", Same)]
#[case::version_too_long(json!({"version": "17.100"}), "version", "17.100", "from 14 to 18", Schema)]
#[case::image(json!({"image": "a b"}), "image", "a b", "such as postgres:17", Schema)]
#[case::no_instance(json!({"instances": 0}), "instances", "0", "1 to 9", Schema)]
#[case::ten_instances(json!({"instances": 10}), "instances", "10", "1 to 9", Schema)]
#[case::quantity(json!({"resources": {"limits": {"memory": "1GB"}}}), "resources.limits.memory", "1GB", "such as 100m", LetsPass)]
#[case::resource(json!({"resources": {"limits": {"gpu": "1"}}}), "resources.limits", "gpu", "cpu, memory", LetsPass)]
#[case::request_above_limit(
    json!({"resources": {"requests": {"cpu": 3}, "limits": {"cpu": "2500m"}}}), "resources.requests.cpu", "3", "at most the limit, which is 2500m", Same
)]
#[case::request_above_the_limit_of_the_size(
    json!({"size": "medium", "resources": {"requests": {"memory": "2Gi"}}}), "resources.requests.memory", "2Gi", "at most the limit, which is 1Gi", Same
)]
#[case::request_above_a_limit_that_is_no_size_s(
    json!({"resources": {"requests": {"ephemeral-storage": "2Gi"}, "limits": {"ephemeral-storage": "1Gi"}}}),
    "resources.requests.ephemeral-storage", "2Gi", "at most the limit, which is 1Gi", LetsPass
)]
#[case::too_little_memory(json!({"resources": {"limits": {"memory": "64Mi"}}}), "resources.limits.memory", "64Mi", "at least 128Mi", LetsPass)]
#[case::no_storage(json!({"storage": {"size": "10 Gi"}}), "storage.size", "10 Gi", "at least 256Mi", Same)]
#[case::little_storage(json!({"storage": {"size": "255Mi"}}), "storage.size", "255Mi", "at least 256Mi", Same)]
#[case::negative_storage(json!({"storage": {"size": "-1Gi"}}), "storage.size", "-1Gi", "at least 256Mi", Same)]
#[case::broken_bytes(json!({"storage": {"size": "1000000000.5"}}), "storage.size", "1000000000.5", "whole number of bytes", Same)]
#[case::more_than_there_is(json!({"storage": {"size": "9Ei"}}), "storage.size", "9Ei", "at least 256Mi", LetsPass)]
#[case::storage_class(json!({"storage": {"storageClassName": "Fast"}}), "storage.storageClassName", "Fast", "StorageClass", Schema)]
#[case::short_lease(json!({"leaseDurationSeconds": 5}), "leaseDurationSeconds", "5", "6 to 60", Schema)]
#[case::long_lease(json!({"leaseDurationSeconds": 61}), "leaseDurationSeconds", "61", "6 to 60", Schema)]
#[case::lag(json!({"maximumLagOnFailover": "2Gi"}), "maximumLagOnFailover", "2Gi", "from 0 to 1Gi", Same)]
#[case::negative_lag(json!({"maximumLagOnFailover": "-1"}), "maximumLagOnFailover", "-1", "from 0 to 1Gi", Same)]
#[case::required_with_one_instance(json!({"synchronous": "required"}), "synchronous", "required", "off or preferred", Same)]
#[case::required_with_one_of_three(json!({"synchronous": "required", "size": "large", "instances": 1}), "synchronous", "required", "off or preferred", Same)]
#[case::certificate_of_nobody(json!({"tls": {"enabled": false, "certificateSecret": "a"}}), "tls.certificateSecret", "a", "left out", Same)]
#[case::required_and_off(json!({"tls": {"enabled": false, "required": true}}), "tls.required", "true", "false where", Same)]
#[case::certificate(json!({"tls": {"certificateSecret": "a/b"}}), "tls.certificateSecret", "a/b", "name of a Secret", Schema)]
#[case::schedule(json!({"backup": {"schedule": "0 2 * * 7"}}), "backup.schedule", "0 2 * * 7", "a cron expression of five fields", Same)]
#[case::schedule_off(json!({"backup": {"enabled": false, "schedule": "nightly"}}), "backup.schedule", "nightly", "a cron expression of five fields", Same)]
#[case::schedule_backwards(json!({"backup": {"schedule": "9-5 2 * * *"}}), "backup.schedule", "9-5 2 * * *", "that comes up at some time", LetsPass)]
#[case::schedule_for_never(json!({"backup": {"schedule": "0 2 30 2 *"}}), "backup.schedule", "0 2 30 2 *", "that comes up at some time", LetsPass)]
fn a_wrong_field_is_named(
    #[case] spec: Value,
    #[case] field: &str,
    #[case] value: &str,
    #[case] accepted: &str,
    #[case] server: Server,
) {
    assert_refused(
        &object(spec),
        None,
        &format!("spec.{field}"),
        value,
        accepted,
        &server,
    );
}

#[rstest]
#[case::address("listen_addresses", "*", Same)]
#[case::port("port", "5433", Same)]
#[case::files("data_directory", "/tmp", Same)]
#[case::authentication("hba_file", "/tmp/hba", Same)]
#[case::encryption("ssl_min_protocol_version", "TLSv1", Same)]
#[case::encryption_off("ssl", "off", Same)]
#[case::passwords("password_encryption", "md5", Same)]
#[case::log("log_destination", "stderr", Same)]
#[case::log_elsewhere("syslog_facility", "local0", Same)]
#[case::replication("wal_level", "minimal", Same)]
#[case::upstream("primary_conninfo", "host=evil", Same)]
#[case::standbys("synchronous_standby_names", "", Same)]
#[case::acknowledgement("synchronous_commit", "off", Same)]
#[case::durability("fsync", "off", Same)]
#[case::archive("archive_command", "rm %p", Same)]
#[case::restore("restore_command", "cp", Same)]
#[case::recovery("recovery_target_time", "now", Same)]
#[case::name_of_the_cluster("cluster_name", "x", Same)]
#[case::standby("hot_standby", "off", Same)]
#[case::socket("unix_socket_directories", "/tmp", Same)]
#[case::directive("include_dir", "/tmp", Same)]
#[case::operators_own("roadstead.generation", "1", Same)]
#[case::in_capitals("Listen_Addresses", "*", LetsPass)]
fn a_setting_of_the_operator_is_refused_by_name(
    #[case] name: &str,
    #[case] value: &str,
    #[case] server: Server,
) {
    let object = object(json!({"parameters": {name: value, "work_mem": "1MB"}}));
    let field = format!("spec.parameters.{name}");
    assert_refused(
        &object,
        None,
        &field,
        value,
        "left out: the operator owns",
        &server,
    );
}

#[rstest]
#[case::quote("it's", Same)]
#[case::backslash("a\\", SameUnescaped)]
#[case::newline("1\nport = 1", Same)]
#[case::return_("1\rport = 1", SameUnescaped)]
#[case::nul("1\0", SameUnescaped)]
#[case::letter_of_another_alphabet("\u{e9}", Same)]
#[case::too_long(&"x".repeat(1001), Schema)]
fn a_value_that_could_break_out_is_refused(#[case] value: &str, #[case] server: Server) {
    let object = object(json!({"parameters": {"application_name": value}}));
    let shown: String = value.chars().take(80).collect();
    assert_refused(
        &object,
        None,
        "spec.parameters.application_name",
        &shown,
        "on one line, without single quotes",
        &server,
    );
}

#[rstest]
#[case::capitals("Work_Mem")]
#[case::space("work mem")]
#[case::equals("work_mem = 1 #")]
#[case::newline("work_mem\nport")]
#[case::quote("work_mem'")]
#[case::nothing("")]
#[case::dot_at_the_end("pg_stat_statements.")]
#[case::digit_first("1a")]
#[case::too_long("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")]
fn a_setting_that_is_none_is_refused(#[case] name: &str) {
    assert_refused(
        &object(json!({"parameters": {name: "1"}})),
        None,
        "spec.parameters",
        name,
        "a setting such as work_mem",
        &LetsPass,
    );
}

#[rstest]
#[case::a_typo("17", "work_memm", "a setting of PostgreSQL 17: perhaps work_mem")]
#[case::gone(
    "16.4",
    "force_parallel_mode",
    "a setting of PostgreSQL 16, which had this one up to 15"
)]
#[case::gone(
    "17",
    "old_snapshot_threshold",
    "a setting of PostgreSQL 17, which had this one up to 16"
)]
#[case::not_yet(
    "17",
    "io_method",
    "a setting of PostgreSQL 17, which has this one from 18 on"
)]
fn a_setting_is_one_that_this_postgresql_knows(
    #[case] version: &str,
    #[case] name: &str,
    #[case] accepted: &str,
) {
    assert_refused(
        &object(json!({"version": version, "parameters": {name: "1", "work_mem": "1MB"}})),
        None,
        "spec.parameters",
        name,
        accepted,
        &LetsPass,
    );
}

#[rstest]
#[case::before_it_went("15", "force_parallel_mode")]
#[case::before_it_went("16.4", "old_snapshot_threshold")]
#[case::since_it_came("18", "io_method")]
#[case::of_an_extension("17", "my_extension.no_such_setting")]
fn a_setting_that_this_postgresql_knows_is_accepted(#[case] version: &str, #[case] name: &str) {
    let object = object(json!({"version": version, "parameters": {name: "1"}}));
    assert_eq!(validate(&database(&object)).map(|_| ()), Ok(()));
    assert_eq!(GATE.admit(&object, None), Ok(()));
}

#[test]
fn libraries_are_names_and_no_paths() {
    let object = object(json!({"parameters": {"shared_preload_libraries": "auto_explain, /tmp/evil"}}));
    let field = "spec.parameters.shared_preload_libraries";
    assert_refused(
        &object,
        None,
        field,
        "auto_explain, /tmp/evil",
        "names of libraries",
        &LetsPass,
    );
}

#[rstest]
#[case::none_left_for_clients(json!({}), "max_connections", "8", "from 9 to 200000, in digits: 8 are kept", Same)]
#[case::read_as_octal(json!({}), "max_connections", "0100", "from 9 to 200000", Same)]
#[case::no_number(json!({}), "max_connections", "many", "from 9 to 200000", Same)]
#[case::too_many(json!({}), "max_connections", "262143", "from 9 to 200000", Same)]
#[case::more_than_a_number_holds(json!({}), "max_connections", "99999999999999999999", "from 9 to 200000", Same)]
#[case::too_many_workers(json!({}), "max_worker_processes", "262143", "from 0 to 20000", Same)]
#[case::no_worker(json!({}), "autovacuum_max_workers", "0", "from 1 to 20000", Same)]
#[case::too_few_files(json!({}), "max_files_per_process", "25", "from 100 to", Same)]
#[case::less_than_two_segments(json!({}), "min_wal_size", "31MB", "two segments", LetsPass)]
#[case::less_than_two_segments_at_most(json!({}), "max_wal_size", "16", "two segments", LetsPass)]
#[case::more_memory_than_there_is(json!({}), "shared_buffers", "1GB", "at most the memory of an instance, 512MB", LetsPass)]
#[case::more_blocks_than_there_is_memory(json!({}), "shared_buffers", "65537", "at most the memory of an instance, 512MB", LetsPass)]
#[case::more_memory_than_the_author_gives(
    json!({"resources": {"limits": {"memory": "2Gi"}}}), "shared_buffers", "2.5 GB", "an instance, 2048MB", LetsPass
)]
#[case::hardly_any_memory(json!({}), "shared_buffers", "64kB", "at least 128kB", LetsPass)]
#[case::no_size(json!({}), "shared_buffers", "banana", "a size such as 256MB", LetsPass)]
#[case::huge_pages_that_there_are_not(json!({}), "huge_pages", "On", "off or try", LetsPass)]
fn a_setting_with_which_postgresql_does_not_start_is_refused(
    #[case] mut spec: Value,
    #[case] name: &str,
    #[case] value: &str,
    #[case] accepted: &str,
    #[case] server: Server,
) {
    spec["parameters"] = json!({name: value, "work_mem": "1MB"});
    let field = format!("spec.parameters.{name}");
    assert_refused(&object(spec), None, &field, value, accepted, &server);
}

#[rstest]
#[case(json!({}), "max_connections", "9")]
#[case(json!({}), "max_connections", "200000")]
#[case(json!({}), "max_worker_processes", "0")]
#[case(json!({}), "min_wal_size", "32MB")]
#[case(json!({}), "max_wal_size", "0.1GB")]
#[case(json!({}), "max_wal_size", "1024")]
#[case(json!({}), "shared_buffers", "16384")]
#[case(json!({}), "shared_buffers", "512MB")]
#[case(json!({}), "huge_pages", "try")]
#[case(json!({"resources": {"limits": {"hugepages-2Mi": "1Gi"}}}), "huge_pages", "on")]
#[case(json!({"resources": {"limits": {"hugepages-2Mi": "1Gi"}}}), "shared_buffers", "1GB")]
fn a_setting_with_which_it_starts_is_taken(#[case] mut spec: Value, #[case] name: &str, #[case] value: &str) {
    spec["parameters"] = json!({name: value});
    let object = object(spec);
    assert_eq!(validate(&database(&object)).map(|_| ()), Ok(()));
    assert_eq!(GATE.admit(&object, None), Ok(()));
}

#[rstest]
#[case::major(json!({"version": "16.4"}), json!({"version": "17"}), "version", "17", "of major version 16 as before")]
#[case::older(json!({"version": "16"}), json!({"version": "15"}), "version", "15", "not supported yet")]
#[case::other_class(
    json!({"storage": {"storageClassName": "slow"}}), json!({"storage": {"storageClassName": "fast"}}), "storage.storageClassName", "fast", "\"slow\" as before"
)]
#[case::no_class(json!({"storage": {"storageClassName": "slow"}}), json!({}), "storage.storageClassName", "", "\"slow\" as before")]
#[case::a_class(json!({}), json!({"storage": {"storageClassName": "fast"}}), "storage.storageClassName", "fast", "\"\" as before")]
fn what_cannot_become_of_a_database_is_named(
    #[case] old: Value,
    #[case] new: Value,
    #[case] field: &str,
    #[case] value: &str,
    #[case] accepted: &str,
) {
    let field = format!("spec.{field}");
    assert_refused(&object(new), Some(&object(old)), &field, value, accepted, &Same);
}

/// The schema does not see what volumes there are.
#[rstest]
#[case::smaller(json!({"storage": {"size": "10Gi"}}), None, "9.5Gi", Some("at least 10Gi: "))]
#[case::smaller_than_the_default(json!({}), None, "1Gi", Some("at least 10Gi: "))]
#[case::smaller_than_volumes_are(json!({"storage": {"size": "20Gi"}}), Some("10Gi"), "9Gi", Some("at least 10Gi: "))]
#[case::volumes_grew(json!({"storage": {"size": "20Gi"}}), Some("20Gi"), "10Gi", Some("at least 20Gi: "))]
#[case::no_volume_grew(json!({"storage": {"size": "20Gi"}}), Some("10Gi"), "10Gi", None)]
#[case::volumes_of_before_are_larger(json!({"storage": {"size": "10Gi"}}), Some("30Gi"), "11Gi", None)]
fn a_size_is_taken_back_only_as_far_as_no_volume_has_grown(
    #[case] old: Value,
    #[case] volumes: Option<&str>,
    #[case] size: &str,
    #[case] accepted: Option<&str>,
) {
    let mut old = object(old);
    if let Some(volumes) = volumes {
        old["status"] = json!({"volumeSize": volumes});
    }
    let new = object(json!({"storage": {"size": size}}));
    let problems = validate_update(&database(&old), &database(&new)).map_err(|problems| problems.to_string());
    match accepted {
        Some(accepted) => {
            let problems = problems.unwrap_err();
            assert!(
                problems.contains("spec.storage.size") && problems.contains(accepted),
                "{problems}"
            );
        }
        None => assert_eq!(problems, Ok(())),
    }
    assert_eq!(GATE.admit(&new, Some(&old)), Ok(()));
}

#[rstest]
#[case::minor(json!({"version": "17"}), json!({"version": "17.6"}))]
#[case::minor_back(json!({"version": "17.6"}), json!({"version": "17.5"}))]
#[case::larger(json!({"storage": {"size": "10Gi"}}), json!({"storage": {"size": "11Gi", "whenDeleted": "Delete"}}))]
#[case::written_otherwise(json!({"storage": {"size": "10Gi"}}), json!({"storage": {"size": "10240Mi"}}))]
#[case::size(json!({"size": "large"}), json!({"size": "small"}))]
fn what_can_become_of_a_database(#[case] old: Value, #[case] new: Value) {
    let (old, new) = (object(old), object(new));
    assert_eq!(validate_update(&database(&old), &database(&new)), Ok(()));
    assert_eq!(GATE.admit(&new, Some(&old)), Ok(()));
}

#[test]
fn all_problems_are_told_at_once() {
    let spec = json!({
        "version": "8", "instances": 0, "parameters": {"port": "1"}, "users": [{"name": "pg_a"}, {"name": "b", "memberOf": ["c"]}],
        "backup": {"schedule": "x"},
    });
    let problems = validate(&database(&object(spec))).unwrap_err();
    let fields: Vec<_> = problems
        .list()
        .iter()
        .map(|problem| problem.field.as_str())
        .collect();
    assert_eq!(
        fields,
        [
            "spec.version",
            "spec.instances",
            "spec.parameters.port",
            "spec.users[0].name",
            "spec.users[1].memberOf",
            "spec.backup.schedule"
        ]
    );
}

#[rstest]
#[case::parameters(json!({"parameters": (0..101).map(|i| (format!("a{i}"), json!("1"))).collect::<serde_json::Map<_, _>>()}), "spec.parameters")]
#[case::users(json!({"users": (0..65).map(|i| json!({"name": format!("a{i}")})).collect::<Vec<_>>()}), "spec.users")]
#[case::databases(json!({"databases": (0..33).map(|i| json!({"name": format!("a{i}")})).collect::<Vec<_>>()}), "spec.databases")]
#[case::tolerations(json!({"placement": {"tolerations": vec![json!({"operator": "Exists"}); 33]}}), "spec.placement.tolerations")]
fn there_is_an_end_to_every_list(#[case] spec: Value, #[case] field: &str) {
    let object = object(spec);
    let problems = validate(&database(&object)).unwrap_err();
    assert_eq!(problems.list()[0].field, field);
    let answer = GATE.admit(&object, None);
    assert!(matches!(answer, Err(Refusal::Schema(_))), "{answer:?}");
}
