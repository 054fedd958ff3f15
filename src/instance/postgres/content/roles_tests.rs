use rstest::rstest;

use super::*;

fn user(name: &str) -> User {
    User {
        name: name.to_owned(),
        login: true,
        ..User::default()
    }
}

fn member(name: &str, of: &[&str]) -> User {
    User {
        member_of: of.iter().map(|&of| of.to_owned()).collect(),
        ..user(name)
    }
}

fn row(values: &[&str]) -> Vec<Option<String>> {
    let value = |value: &&str| (*value != "-").then(|| (*value).to_owned());
    values.iter().map(value).collect()
}

/// As PostgreSQL answers: a role that is as `CREATE ROLE name LOGIN` makes it.
fn plain(name: &str) -> Vec<Option<String>> {
    row(&[name, "f", "t", "f", "f", "t", "f", "f", "-1", "f"])
}

fn statements(users: &[User], roles: Rows, memberships: Rows, major: u32) -> Vec<String> {
    let found = found(&[roles, memberships]).unwrap();
    let steps = steps(users, &found, major).unwrap();
    steps.into_iter().map(|step| step.statement).collect()
}

#[rstest]
#[case::plain(
    user("app"),
    "NOSUPERUSER NOREPLICATION NOBYPASSRLS INHERIT LOGIN NOCREATEDB NOCREATEROLE CONNECTION LIMIT -1"
)]
#[case::group(User { login: false, ..user("app") },
    "NOSUPERUSER NOREPLICATION NOBYPASSRLS INHERIT NOLOGIN NOCREATEDB NOCREATEROLE CONNECTION LIMIT -1")]
#[case::may_all_there_is(User { create_database: true, create_role: true, connection_limit: Some(0), ..user("app") },
    "NOSUPERUSER NOREPLICATION NOBYPASSRLS INHERIT LOGIN CREATEDB CREATEROLE CONNECTION LIMIT 0")]
fn a_user_is_made_with_what_is_declared_and_nothing_more(#[case] user: User, #[case] options: &str) {
    let made = statements(std::slice::from_ref(&user), vec![], vec![], 15);
    assert_eq!(made, [format!("CREATE ROLE \"app\" {options}")]);
}

#[rstest]
#[case::superuser(1, "t")]
#[case::no_inherit(2, "f")]
#[case::makes_roles(3, "t")]
#[case::makes_databases(4, "t")]
#[case::no_login(5, "f")]
#[case::replicates(6, "t")]
#[case::sees_every_row(7, "t")]
#[case::limit(8, "5")]
fn a_role_that_may_something_else_is_changed_and_one_that_does_not_is_left_alone(
    #[case] at: usize,
    #[case] value: &str,
) {
    let users = [user("app")];
    assert!(statements(&users, vec![plain("app")], vec![], 15).is_empty());
    let mut other = plain("app");
    other[at] = Some(value.to_owned());
    let options =
        "NOSUPERUSER NOREPLICATION NOBYPASSRLS INHERIT LOGIN NOCREATEDB NOCREATEROLE CONNECTION LIMIT -1";
    assert_eq!(
        statements(&users, vec![other], vec![], 15),
        [format!("ALTER ROLE \"app\" {options}")]
    );
}

#[rstest]
#[case::before_16(15, ["app", "old", "-", "f", "t", "t"],
    &["REVOKE \"old\" FROM \"app\" CASCADE", "GRANT \"orders\" TO \"app\"", "GRANT \"pg_monitor\" TO \"app\""])]
#[case::since_16(16, ["app", "old", "somebody", "f", "t", "t"],
    &["REVOKE \"old\" FROM \"app\" GRANTED BY \"somebody\" CASCADE", "GRANT \"orders\" TO \"app\" WITH INHERIT TRUE, SET TRUE",
      "GRANT \"pg_monitor\" TO \"app\" WITH INHERIT TRUE, SET TRUE"])]
#[case::a_membership_that_gives_nothing(16, ["app", "orders", "postgres", "t", "f", "f"],
    &["GRANT \"orders\" TO \"app\" WITH INHERIT TRUE, SET TRUE", "GRANT \"pg_monitor\" TO \"app\" WITH INHERIT TRUE, SET TRUE"])]
#[case::there_already(15, ["app", "pg_monitor", "-", "f", "t", "t"], &["GRANT \"orders\" TO \"app\""])]
#[case::anothers(15, ["stranger", "old", "-", "f", "t", "t"], &["GRANT \"orders\" TO \"app\"", "GRANT \"pg_monitor\" TO \"app\""])]
fn memberships_are_those_that_are_declared(
    #[case] major: u32,
    #[case] membership: [&str; 6],
    #[case] expected: &[&str],
) {
    let users = [member("app", &["pg_monitor", "orders"])];
    let made = statements(&users, vec![plain("app")], vec![row(&membership)], major);
    assert_eq!(made, expected);
}

#[test]
fn who_makes_roles_administers_them_and_is_given_no_more() {
    let maker = User {
        create_role: true,
        ..user("app")
    };
    let mut role = plain("app");
    role[3] = Some("t".to_owned());
    let administers = row(&["app", "made", "postgres", "t", "f", "f"]);
    let uses = row(&["app", "made", "app", "f", "t", "t"]);
    let made = |user: User, role, memberships| statements(&[user], vec![role], memberships, 16);
    assert!(made(maker.clone(), role.clone(), vec![administers.clone()]).is_empty());
    assert_eq!(
        made(maker, role, vec![administers.clone(), uses]),
        ["REVOKE \"made\" FROM \"app\" GRANTED BY \"app\" CASCADE"]
    );
    assert_eq!(
        made(user("app"), plain("app"), vec![administers]),
        ["REVOKE \"made\" FROM \"app\" GRANTED BY \"postgres\" CASCADE"]
    );
}

#[test]
fn what_is_turned_around_is_revoked_before_it_is_granted() {
    let users = [member("a", &[]), member("b", &["a"])];
    let before = row(&["a", "b", "-", "f", "t", "t"]);
    let made = statements(&users, vec![plain("a"), plain("b")], vec![before], 15);
    assert_eq!(made, ["REVOKE \"b\" FROM \"a\" CASCADE", "GRANT \"a\" TO \"b\""]);
}

#[test]
fn all_roles_are_made_before_they_are_granted_and_nothing_is_tried_with_one_that_could_not_be() {
    let users = [member("a", &["b"]), user("b")];
    let steps = steps(&users, &Found::default(), 15).unwrap();
    let told: Vec<_> = steps
        .iter()
        .map(|step| {
            (
                step.field.as_str(),
                step.statement.split(' ').next().unwrap(),
                step.is_needed,
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            ("spec.users[a]", "CREATE", true),
            ("spec.users[b]", "CREATE", true),
            ("spec.users[a]", "GRANT", false)
        ]
    );
}

#[test]
fn what_versions_before_16_do_not_know_is_not_asked_of_them() {
    let users = [user("app"), user("it's")];
    let (old, new) = (lookup(&users, 15), lookup(&users, 16));
    assert!(
        !old.contains("inherit_option") && !old.contains("set_option"),
        "{old}"
    );
    assert!(
        new.contains("inherit_option") && new.contains("set_option"),
        "{new}"
    );
    assert!(old.contains("IN ('app', 'it''s')"), "{old}");
}

#[test]
fn a_password_is_there_or_not() {
    let mut role = plain("app");
    role[9] = Some("t".to_owned());
    let found = found(&[vec![role, plain("b")], vec![]]).unwrap();
    assert_eq!(
        ["app", "b", "c"].map(|name| (found.has(name), found.has_password(name))),
        [(true, true), (true, false), (false, false)]
    );
    assert_eq!(no_password("app").unwrap(), "ALTER ROLE \"app\" PASSWORD NULL");
}

#[test]
fn half_an_answer_is_none() {
    assert_eq!(found(&[vec![row(&["app", "t"])], vec![]]), None);
    assert_eq!(found(&[vec![]]), None);
}
