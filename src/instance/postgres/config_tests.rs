use std::collections::{BTreeMap, BTreeSet};

use rstest::rstest;

use super::*;

fn settings() -> Settings {
    Settings {
        database: "orders".to_owned(),
        namespace: "shop".to_owned(),
        major: 15,
        parameters: BTreeMap::from([
            ("shared_buffers".to_owned(), "128MB".to_owned()),
            ("wal_keep_size".to_owned(), "2GB".to_owned()),
        ]),
        tls: true,
        ..Settings::default()
    }
}

fn options() -> Options {
    Options {
        name: "orders-1".to_owned(),
        ..Options::default()
    }
}

fn quorum(need: usize, names: &[&str]) -> Quorum {
    let standbys = names.iter().map(|&name| name.to_owned()).collect();
    Quorum { standbys, need }
}

/// The value by which PostgreSQL goes, quoted.
fn last<'a>(conf: &'a str, name: &str) -> Option<&'a str> {
    let setting = |line: &'a str| line.strip_prefix(name)?.strip_prefix(" = ");
    conf.lines().filter_map(setting).next_back()
}

#[test]
fn a_replica_goes_by_this() {
    let upstream = Member {
        name: "orders-0".to_owned(),
        host: "orders-0.orders-instances.shop.svc.cluster.local".to_owned(),
    };
    let files = render(&settings(), &options(), Some(&upstream), None);
    insta::assert_snapshot!("replica.conf", files.postgresql_conf);
    insta::assert_snapshot!("pg_hba.conf", files.pg_hba);
    insta::assert_snapshot!("pg_ident.conf", files.pg_ident);
}

#[test]
fn a_primary_waits_for_the_quorum_and_follows_nobody() {
    let quorum = quorum(1, &["orders-0", "orders-2"]);
    let conf = render(&settings(), &options(), None, Some(&quorum)).postgresql_conf;
    let names = r#"'ANY 1 ("orders-0", "orders-2")'"#;
    assert_eq!(last(&conf, "synchronous_standby_names"), Some(names));
    assert_eq!(last(&conf, "primary_conninfo"), Some("''"));
}

#[test]
fn what_the_author_says_does_not_reach_what_the_operator_owns() {
    let mut settings = settings();
    for (name, value) in [
        ("fsync", "off"),
        ("port", "1"),
        ("work_mem", "1'\nfsync = off # \\"),
        ("x = 1\nssl", "off"),
    ] {
        settings.parameters.insert(name.to_owned(), value.to_owned());
    }
    let conf = render(&settings, &options(), None, None).postgresql_conf;
    assert_eq!(last(&conf, "fsync"), Some("'on'"));
    assert_eq!(last(&conf, "port"), Some("'5432'"));
    assert_eq!(last(&conf, "wal_keep_size"), Some("'2GB'"));
    assert_eq!(last(&conf, "work_mem"), Some(r"'1''\nfsync = off # \\'"));
    assert_eq!(last(&conf, "ssl"), Some("'on'"));
}

#[rstest]
#[case(14, None)]
#[case(16, None)]
#[case(17, Some("'off'"))]
fn a_setting_is_made_where_there_is_one(#[case] major: u32, #[case] value: Option<&str>) {
    let settings = Settings { major, ..settings() };
    let conf = render(&settings, &options(), None, None).postgresql_conf;
    assert_eq!(last(&conf, "allow_alter_system"), value);
}

#[rstest]
#[case::off(false, false, "hostnossl")]
#[case::offered(true, false, "host")]
#[case::required(true, true, "hostssl")]
fn clients_connect_over_tls_as_the_author_says(
    #[case] tls: bool,
    #[case] tls_required: bool,
    #[case] kind: &str,
) {
    let settings = Settings {
        tls,
        tls_required,
        ..settings()
    };
    let hba = render(&settings, &options(), None, None).pg_hba;
    let expected = format!("{kind} all all all scram-sha-256");
    assert_eq!(hba.lines().next_back(), Some(expected.as_str()));
    assert!(hba.contains("hostssl replication,postgres roadstead_replication all cert\n"));
}

#[rstest]
#[case(Some(quorum(1, &["a-0"])))]
#[case(Some(quorum(2, &["a-0", "a-1", "a\"b"])))]
#[case(None)]
fn what_commits_wait_for_is_read_back(#[case] quorum: Option<Quorum>) {
    assert_eq!(parse_standby_names(&standby_names(quorum.as_ref())), quorum);
}

#[rstest]
#[case("*")]
#[case("FIRST 1 (a)")]
#[case("ANY 1 (a)")]
#[case("ANY x (\"a\")")]
fn what_is_not_ours_is_no_quorum(#[case] text: &str) {
    assert_eq!(parse_standby_names(text), None);
    assert_eq!(
        standby_names(Some(&Quorum {
            standbys: BTreeSet::new(),
            need: 1
        })),
        ""
    );
}
