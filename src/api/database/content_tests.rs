use rstest::rstest;
use serde_json::{Value, json};

use super::tests::Server::{self, LetsPass, Same, SameUnescaped, Schema};
use super::tests::{GATE, assert_refused, database, object};
use super::*;

#[rstest]
#[case::quote(json!([{"name": "a\"b"}]), "name", "a\"b", "letters, digits", SameUnescaped)]
#[case::space(json!([{"name": "a b"}]), "name", "a b", "letters, digits", Same)]
#[case::digit_first(json!([{"name": "1a"}]), "name", "1a", "beginning with a letter", Same)]
#[case::nothing(json!([{"name": ""}]), "name", "", "beginning with a letter", Schema)]
#[case::postgresql_s(json!([{"name": "pg_mine"}]), "name", "pg_mine", "unlike the names that PostgreSQL", Same)]
#[case::superuser(json!([{"name": "postgres"}]), "name", "postgres", "unlike the names that PostgreSQL", Same)]
#[case::operator_s(json!([{"name": "roadstead_replication"}]), "name", "roadstead_replication", "unlike the names that PostgreSQL", Same)]
#[case::the_owner(json!([{"name": "orders"}]), "name", "orders", "unlike the object's own name", Same)]
#[case::secret(json!([{"name": "a", "passwordSecret": {"name": "A", "key": "a"}}]), "passwordSecret.name", "A", "the name of a Secret", Schema)]
#[case::key(json!([{"name": "a", "passwordSecret": {"name": "a", "key": "a/b"}}]), "passwordSecret.key", "a/b", "a key of a Secret", Schema)]
#[case::connections(json!([{"name": "a", "connectionLimit": -1}]), "connectionLimit", "-1", "0 to 262143", Schema)]
#[case::programs(json!([{"name": "a", "memberOf": ["pg_execute_server_program"]}]), "memberOf", "pg_execute_server_program", "no files or programs", Same)]
#[case::itself(json!([{"name": "a", "memberOf": ["a"]}]), "memberOf", "a", "another of spec.users", Same)]
#[case::nobody(json!([{"name": "a", "memberOf": ["b"]}]), "memberOf", "b", "another of spec.users", LetsPass)]
fn a_wrong_user_is_named(
    #[case] users: Value,
    #[case] field: &str,
    #[case] value: &str,
    #[case] accepted: &str,
    #[case] server: Server,
) {
    let field = format!("spec.users[0].{field}");
    assert_refused(
        &object(json!({"users": users})),
        None,
        &field,
        value,
        accepted,
        &server,
    );
}

#[rstest]
#[case("14")]
#[case("15.8")]
fn nobody_creates_users_where_that_makes_a_superuser(#[case] version: &str) {
    let users = json!([{"name": "a", "createRole": true}]);
    let accepted = "false below PostgreSQL 16";
    let field = "spec.users[0].createRole";
    assert_refused(
        &object(json!({"version": version, "users": users})),
        None,
        field,
        "true",
        accepted,
        &Same,
    );
    let later = object(json!({"version": "16", "users": users}));
    assert_eq!(validate(&database(&later)).map(|_| ()), Ok(()));
    assert_eq!(GATE.admit(&later, None), Ok(()));
}

#[rstest]
#[case::name(json!([{"name": "a;b"}]), "name", "a;b", "letters, digits", Same)]
#[case::postgres(json!([{"name": "postgres"}]), "name", "postgres", "unlike the names that PostgreSQL", Same)]
#[case::owner(json!([{"name": "a", "owner": "nobody"}]), "owner", "nobody", "the name of one of spec.users", Same)]
#[case::owner_of_the_own(json!([{"name": "orders", "owner": "app"}]), "owner", "app", "left out in the database of the object's own name", Same)]
#[case::extension(json!([{"name": "a", "extensions": [{"name": "../x"}]}]), "extensions[0].name", "../x", "the name of an extension", Same)]
#[case::extension_version(
    json!([{"name": "a", "extensions": [{"name": "x", "version": "1/2"}]}]), "extensions[0].version", "1/2", "a version such as 1.6", Same
)]
fn a_wrong_database_is_named(
    #[case] databases: Value,
    #[case] field: &str,
    #[case] value: &str,
    #[case] accepted: &str,
    #[case] server: Server,
) {
    let spec = json!({"databases": databases, "users": [{"name": "app"}]});
    assert_refused(
        &object(spec),
        None,
        &format!("spec.databases[0].{field}"),
        value,
        accepted,
        &server,
    );
}

/// What else a placement may be is tested beside it.
#[test]
fn a_wrong_place_is_named() {
    let object = object(json!({"placement": {"nodeSelector": {"a": "-c"}}}));
    let accepted = "a label's value";
    assert_refused(
        &object,
        None,
        "spec.placement.nodeSelector[a]",
        "-c",
        accepted,
        &LetsPass,
    );
}

#[test]
fn users_in_a_circle_are_named() {
    let spec = json!({"users": [
        {"name": "a", "memberOf": ["b"]}, {"name": "b", "memberOf": ["c"]}, {"name": "c", "memberOf": ["a"]},
        {"name": "d", "memberOf": ["e"]}, {"name": "e"},
    ]});
    let problems = validate(&database(&object(spec))).unwrap_err();
    let fields: Vec<_> = problems
        .list()
        .iter()
        .map(|problem| problem.field.as_str())
        .collect();
    assert_eq!(
        fields,
        [
            "spec.users[0].memberOf",
            "spec.users[1].memberOf",
            "spec.users[2].memberOf"
        ]
    );
}

#[test]
fn names_that_repeat_are_refused_without_a_server_that_keeps_keys_apart() {
    let spec = json!({"users": [{"name": "a"}, {"name": "a"}], "databases": [{"name": "b"}, {"name": "b", "extensions": [{"name": "x"}, {"name": "x"}]}]});
    let problems = validate(&database(&object(spec))).unwrap_err();
    let fields: Vec<_> = problems
        .list()
        .iter()
        .map(|problem| problem.field.as_str())
        .collect();
    assert_eq!(
        fields,
        [
            "spec.users[1].name",
            "spec.databases[1].name",
            "spec.databases[1].extensions[1].name"
        ]
    );
}
