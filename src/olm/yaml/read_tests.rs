//! What YAML is for Kubernetes.

use rstest::rstest;
use serde_json::json;

use super::*;

fn one(text: &str) -> Result<Value, Wrong> {
    all(text).map(|mut all| all.remove(0).1)
}

/// As `sigs.k8s.io/yaml` 1.6 does.
#[rstest]
#[case("0644", json!(420))]
#[case("-010", json!(-8))]
#[case("0o17", json!(15))]
#[case("0x1f", json!(31))]
#[case("0b11", json!(3))]
#[case("1_000", json!(1000))]
#[case("089", json!(89.0))]
#[case("1.0", json!(1.0))]
#[case("1e3", json!(1000.0))]
#[case(".5", json!(0.5))]
#[case("18446744073709551615", json!(u64::MAX))]
#[case("yes", json!(true))]
#[case("Off", json!(false))]
#[case("n", json!(false))]
#[case("~", json!(null))]
#[case("'yes'", json!("yes"))]
#[case("\"0644\"", json!("0644"))]
#[case("!!str 12", json!("12"))]
#[case("!!int '12'", json!(12))]
#[case("!!float 1", json!(1.0))]
#[case("!!binary YQ==", json!("a"))]
#[case("!!binary YR==", json!("a"))]
#[case("!!binary |\n  YWFh\n  YQ==\n", json!("aaaa"))]
#[case("!mine 12", json!("12"))]
#[case("2001-01-01", json!("2001-01-01"))]
#[case("12:30", json!("12:30"))]
#[case("1.2.3", json!("1.2.3"))]
#[case("0x", json!("0x"))]
#[case(".5_0", json!(0.5))]
#[case("+18446744073709551615", json!(18446744073709551615.0))]
#[case("4e54321", json!("4e54321"))]
#[case("--1", json!("--1"))]
#[case("- 'a\u{2028}  b'", json!(["a\u{2028}b"]))]
#[case("yes: 1", json!({"true": 1}))]
#[case("1: a", json!({"1": "a"}))]
#[case("1.0: a", json!({"1": "a"}))]
#[case("1.5e+7: a", json!({"1.5e+07": "a"}))]
#[case("%YAML 1.1\n---\na: 1", json!({"a": 1}))]
#[case("a: &x {b: 1, c: 1}\nd:\n  b: 2\n  <<: *x", json!({"a": {"b": 1, "c": 1}, "d": {"b": 1, "c": 1}}))]
#[case("a: 1\na: 2", json!({"a": 2}))]
#[case("a:\tb\nc: {d:\te}", json!({"a": "b", "c": {"d": "e"}}))]
#[case("a: &x {b: 1, c: 1}\nd:\n  <<: *x\n  b: 2", json!({"a": {"b": 1, "c": 1}, "d": {"b": 2, "c": 1}}))]
#[case("a: &x {b: 1}\nd: {<<: [*x, {b: 2, c: 3}]}", json!({"a": {"b": 1}, "d": {"b": 1, "c": 3}}))]
fn words_are_what_they_are_for_kubernetes(#[case] text: &str, #[case] expected: Value) {
    assert_eq!(one(text), Ok(expected));
}

#[rstest]
#[case("a: [1", "expected ',' or ']'")]
#[case("a: .inf", "no number in JSON")]
#[case("[a]: 1", "a key is no text")]
#[case("~: 1", "a key is no text")]
#[case("%YAML 1.2\n---\na: 1", "version 1.1")]
#[case("!!int a", "no int")]
#[case("a: &a [*a]", "names itself")]
#[case("<<: 1", "no map")]
#[case("a: &x [{b: 1}]\nd: {<<: *x}", "no map")]
fn what_is_no_json_is_refused(#[case] text: &str, #[case] why: &str) {
    let refused = one(text).unwrap_err().1;
    assert!(refused.contains(why), "{refused}");
}

/// What is small to write may be large to read.
#[test]
fn what_somebody_made_to_be_too_much_is_refused_at_once() {
    let deep = "[".repeat(100_000);
    assert!(one(&deep).is_err());
    let deep = "- ".repeat(200) + "a";
    let refused = one(&deep).unwrap_err().1;
    assert!(refused.contains("nested deeper"), "{refused}");
    let mut laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..10 {
        let again = format!("*a{}, ", level - 1).repeat(10);
        laughs += &format!("a{level}: &a{level} [{again}]\n");
    }
    let (line, refused) = one(&laughs).unwrap_err();
    assert!(refused.contains("named again"), "{refused}");
    assert!(line <= 5, "{line}");
}

/// What is merged and said again is there once.
#[test]
fn what_is_merged_is_not_there_twice() {
    let lines = lines("a:\n  <<: {b: 1}\n  b: 2\n");
    assert_eq!((lines.get("/a/b"), lines.twice().0.len()), (Some(3), 0));
}

/// A long key stands in the pointer of each item below it.
#[test]
fn a_long_key_above_many_items_takes_no_long_time() {
    let text = format!("? {}\n: [{}]\n", "k".repeat(1 << 22), "1,".repeat(1 << 18));
    let begun = std::time::Instant::now();
    lines(&text);
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
}

#[test]
fn each_document_has_its_line() {
    let read = all("# first\na: 1\n---\n---\nb: 1\n...\n").unwrap();
    assert_eq!(
        read,
        [(2, json!({"a": 1})), (4, json!(null)), (5, json!({"b": 1}))]
    );
    assert_eq!(all(""), Ok(vec![]));
    assert_eq!(all("# nothing\n"), Ok(vec![]));
}
