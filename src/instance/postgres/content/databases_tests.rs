use rstest::rstest;

use super::*;

fn row(values: &[&str]) -> Vec<Option<String>> {
    let value = |value: &&str| (*value != "-").then(|| (*value).to_owned());
    values.iter().map(value).collect()
}

fn extension(name: &str, version: &str) -> Extension {
    Extension {
        name: name.to_owned(),
        version: (version != "-").then(|| version.to_owned()),
    }
}

/// What PostgreSQL 15 of Debian has.
fn image() -> Vec<Available> {
    let rows = [
        ["pg_trgm", "1.5", "f", "-", "-"],
        ["pg_trgm", "1.6", "t", "-", "-"],
        ["adminpack", "2.1", "t", "pg_catalog", "-"],
        ["earthdistance", "1.1", "t", "-", "cube"],
        ["cube", "1.5", "t", "-", "-"],
    ];
    available(&[rows.map(|values| row(&values)).to_vec()]).unwrap()
}

fn statements(declared: &[Extension], installed: &[(&str, &str)]) -> Vec<String> {
    let owned = |(name, version): &(&str, &str)| ((*name).to_owned(), (*version).to_owned());
    let installed = installed.iter().map(owned).collect();
    let steps = extension_steps("more", declared, &installed, &image()).unwrap();
    let bare = |step: Step| {
        let bare = step.statement.strip_prefix("SET LOCAL lock_timeout = '10s'; ");
        bare.unwrap().to_owned()
    };
    steps.into_iter().map(bare).collect()
}

#[rstest]
#[case::new(&[], &["CREATE DATABASE \"more\" OWNER \"app\" TEMPLATE template0"])]
#[case::there(&[("more", "app")], &[])]
#[case::anothers(&[("more", "orders")], &["ALTER DATABASE \"more\" OWNER TO \"app\""])]
fn a_database_is_made_and_given_to_its_owner(#[case] there: &[(&str, &str)], #[case] expected: &[&str]) {
    let declared = [LogicalDatabase {
        name: "more".to_owned(),
        owner: "app".to_owned(),
        extensions: vec![],
    }];
    let rows = there.iter().map(|(name, owner)| row(&[name, owner])).collect();
    let steps = steps(&declared, &found(&[rows]).unwrap()).unwrap();
    assert!(steps.iter().all(|step| step.field == "spec.databases[more]"));
    // Without the database its extensions are of no use, and with another owner they are.
    assert!(steps.iter().all(|step| step.is_needed == there.is_empty()));
    let made: Vec<_> = steps.into_iter().map(|step| step.statement).collect();
    assert_eq!(made, expected);
}

#[rstest]
#[case::new("pg_trgm", "-", &[], &["CREATE EXTENSION \"pg_trgm\" SCHEMA public"])]
#[case::of_a_version("pg_trgm", "1.5", &[], &["CREATE EXTENSION \"pg_trgm\" SCHEMA public VERSION '1.5'"])]
#[case::says_where_it_goes("adminpack", "-", &[], &["CREATE EXTENSION \"adminpack\""])]
#[case::says_where_it_goes_and_has_no_such_version("adminpack", "9", &[], &["CREATE EXTENSION \"adminpack\" VERSION '9'"])]
#[case::not_in_the_image("postgis", "-", &[], &["CREATE EXTENSION \"postgis\" SCHEMA public"])]
#[case::there("pg_trgm", "-", &[("pg_trgm", "1.5")], &[])]
#[case::there_in_that_version("pg_trgm", "1.5", &[("pg_trgm", "1.5")], &[])]
#[case::there_in_another("pg_trgm", "1.6", &[("pg_trgm", "1.5")], &["ALTER EXTENSION \"pg_trgm\" UPDATE TO '1.6'"])]
fn an_extension_is_there_in_the_version_that_is_declared(
    #[case] name: &str,
    #[case] version: &str,
    #[case] installed: &[(&str, &str)],
    #[case] expected: &[&str],
) {
    assert_eq!(statements(&[extension(name, version)], installed), expected);
}

#[test]
fn what_others_require_is_made_first() {
    let declared = ["earthdistance", "pg_trgm", "cube"].map(|name| extension(name, "-"));
    let create = |name: &str| format!("CREATE EXTENSION \"{name}\" SCHEMA public");
    assert_eq!(
        statements(&declared, &[]),
        ["pg_trgm", "cube", "earthdistance"].map(create)
    );
    // What is not declared is not made: PostgreSQL will say what is missing.
    assert_eq!(statements(&declared[..1], &[]), ["earthdistance"].map(create));
}

#[test]
fn extensions_that_require_each_other_are_tried_all_the_same() {
    let rows = vec![row(&["a", "1", "t", "-", "b"]), row(&["b", "1", "t", "-", "a"])];
    let declared = ["a", "b"].map(|name| extension(name, "-"));
    let available = available(&[rows]).unwrap();
    let steps = extension_steps("more", &declared, &BTreeMap::new(), &available).unwrap();
    let fields: Vec<_> = steps.into_iter().map(|step| step.field).collect();
    assert_eq!(
        fields,
        ["a", "b"].map(|name| format!("spec.databases[more].extensions[{name}]"))
    );
}
