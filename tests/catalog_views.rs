//! What a catalog means to its subscribers: what there is, where each channel leads, and what another catalog changes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "each binary uses what it needs of this")]
#[path = "support/catalogs.rs"]
mod catalogs;

use std::path::Path;

use assert_cmd::Command;
use catalogs::{bundle, channel, package, rich, write};
use roadstead::olm::fbc::view::{View, diff};
use rstest::rstest;
use serde_json::{Value, json};

fn written(documents: &[Value]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), documents);
    folder
}

fn catalog(folder: &Path, words: &[&str]) -> assert_cmd::assert::Assert {
    let (command, words) = words.split_first().unwrap();
    let mut roadstead = Command::cargo_bin("roadstead").unwrap();
    roadstead
        .args(["catalog", command])
        .arg(folder)
        .args(words)
        .assert()
}

fn told(folder: &Path, words: &[&str]) -> String {
    let output = catalog(folder, words).success().get_output().clone();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    String::from_utf8(output.stdout).unwrap()
}

fn refused(folder: &Path, words: &[&str]) -> String {
    let output = catalog(folder, words).code(1).get_output().clone();
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn packages_are_listed_and_the_channels_and_bundles_of_one() {
    let folder = written(&rich());
    insta::assert_snapshot!(told(folder.path(), &["list"]));
    insta::assert_snapshot!(told(folder.path(), &["list", "--package", "widgets"]));
    let listed: Value = serde_json::from_str(&told(folder.path(), &["list", "--output", "json"])).unwrap();
    assert_eq!(listed[1]["channels"][0]["head"], "widgets.v1.2.0");
    assert_eq!(
        refused(folder.path(), &["list", "--package", "gadgets"]),
        format!(
            "roadstead: --package is \"gadgets\"; in {} there are inline, widgets\n",
            folder.path().display()
        )
    );
}

#[test]
fn a_channel_is_drawn_as_a_tree_as_a_flowchart_and_for_graphviz() {
    let folder = written(&rich());
    let draw = |format: &str| {
        told(
            folder.path(),
            &["graph", "--package", "widgets", "--output", format],
        )
    };
    insta::assert_snapshot!(draw("text"));
    insta::assert_snapshot!(draw("mermaid"));
    insta::assert_snapshot!(draw("dot"));
    let graphs: Value = serde_json::from_str(&draw("json")).unwrap();
    let node = |name: &str| {
        let nodes = graphs[0]["nodes"].as_array().unwrap();
        nodes.iter().find(|node| node["name"] == name).unwrap().clone()
    };
    assert_eq!(
        node("widgets.v1.0.0"),
        json!({"name": "widgets.v1.0.0", "place": "channel", "deprecated": "old", "end": "head",
            "next": {"to": "widgets.v1.2.0", "because": "skipRange", "range": ">=1.0.0 <1.2.0"}})
    );
    assert_eq!(node("widgets.v2.0.0-rc.1")["end"], "stranded");
}

/// A long row of upgrades stays in one column, and whoever is left alone is named.
#[test]
fn a_tree_stays_narrow_and_names_who_is_never_upgraded() {
    let name = |minor: usize| format!("a.v1.{minor}.0");
    let mut entries: Vec<Value> = (1..40)
        .map(|minor| json!({"name": name(minor), "replaces": name(minor - 1)}))
        .collect();
    entries.push(json!({"name": name(0)}));
    let mut documents = vec![package("a", "stable"), channel("a", "stable", json!(entries))];
    documents.extend((0..40).map(|minor| bundle("a", &format!("1.{minor}.0"), &[])));
    let text = told(written(&documents).path(), &["graph"]);
    assert_eq!(
        text.lines().filter(|line| line.starts_with("● ")).count(),
        40,
        "{text}"
    );

    // The oldest is skipped by one alone that nobody gets
    documents[1]["entries"][0]["replaces"] = json!("");
    documents[1]["entries"][0]["skips"] = json!(["a.v1.0.0"]);
    documents[1]["entries"][1]["skips"] = json!(["a.v1.1.0"]);
    let text = told(written(&documents).path(), &["graph"]);
    let lost: Vec<&str> = text.lines().filter(|line| line.starts_with('!')).collect();
    assert_eq!(lost, ["! a.v1.0.0 is never upgraded"], "{text}");
}

/// OLM goes from the head to what has its version in its range, and up again.
#[test]
fn a_circle_is_told_wherever_somebody_looks() {
    let mut documents = vec![package("a", "stable")];
    let entries = |range: &str| json!([{"name": "a.v1.1.0", "replaces": "a.v1.0.0"}, {"name": "a.v1.0.0", "skipRange": range}]);
    documents.push(channel("a", "stable", entries("<1.0.0")));
    documents.extend(["1.0.0", "1.1.0"].map(|version| bundle("a", version, &[])));
    let old = written(&documents);
    documents[1]["entries"] = entries("<2.0.0");
    let new = written(&documents);
    let text = told(new.path(), &["graph"]);
    assert!(
        text.contains("\n! the head is upgraded to a.v1.0.0 (skipRange <2.0.0), and up again for ever\n"),
        "{text}"
    );
    let way = catalog(new.path(), &["graph", "--package", "a", "--from", "1.0.0"]).code(1);
    let text = String::from_utf8(way.get_output().stdout.clone()).unwrap();
    assert!(
        text.ends_with("-> a.v1.1.0 (replaces) -> a.v1.0.0 (skipRange <2.0.0)  and so on, in a circle\n"),
        "{text}"
    );
    insta::assert_snapshot!(told(old.path(), &["diff", new.path().to_str().unwrap()]));
}

#[test]
fn why_nobody_is_upgraded_is_told() {
    let mut documents = rich();
    documents[1]["entries"][2]["replaces"] = json!("");
    documents[1]["entries"][0]["skipRange"] = json!("");
    documents[1]["entries"][0]["replaces"] = json!("");
    let folder = written(&documents);
    let output = catalog(
        folder.path(),
        &["graph", "--package", "widgets", "--channel", "stable"],
    )
    .success();
    let output = output.get_output();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("\nnobody is upgraded: it has 3 heads: "), "{text}");
    let note = String::from_utf8_lossy(&output.stderr);
    assert!(
        note.contains("is not valid: `roadstead catalog validate"),
        "{note}"
    );
}

#[test]
fn the_way_of_a_version_is_told_and_one_that_does_not_arrive_fails() {
    let folder = written(&rich());
    let way = |from: &str| told(folder.path(), &["graph", "--package", "widgets", "--from", from]);
    insta::assert_snapshot!(way("1.0.0"));
    assert_eq!(way("v1.0.0"), way("widgets.v1.0.0"));
    // A version that the catalog does not have any more
    assert!(
        way("1.0.7").starts_with("stable     1.0.7 -> widgets.v1.2.0 (skipRange >=1.0.0 <1.2.0)  the head\n")
    );
    let stable = |from: &str| {
        let words = [
            "graph",
            "--package",
            "widgets",
            "--channel",
            "stable",
            "--from",
            from,
        ];
        refused(folder.path(), &words)
    };
    assert_eq!(
        stable("2.0.0-rc.1"),
        "roadstead: 2.0.0-rc.1 does not get to the head of channel stable\n"
    );
    assert_eq!(
        stable("new"),
        "roadstead: --from is \"new\": accepted are a version, and a bundle of package widgets, of which there are \
         widgets.v1.0.0, widgets.v1.1.0, widgets.v1.1.1, widgets.v1.2.0, widgets.v2.0.0-rc.1\n"
    );
    assert_eq!(
        refused(folder.path(), &["graph", "--from", "1.0.0"]),
        "roadstead: --from needs --package: there are inline, widgets\n"
    );
    assert_eq!(
        refused(folder.path(), &["graph", "--channel", "fast"]),
        "roadstead: --channel is \"fast\"; there are alpha, candidate, stable\n"
    );
}

/// Another catalog, made of that one.
fn changed(change: impl FnOnce(&mut Vec<Value>)) -> String {
    let (old, mut documents) = (written(&rich()), rich());
    change(&mut documents);
    let new = written(&documents);
    let changes = diff::changes(&View::read(old.path()).unwrap(), &View::read(new.path()).unwrap());
    let mut out = Vec::new();
    diff::write(&mut out, &changes).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn a_release_is_told_as_its_subscribers_see_it() {
    insta::assert_snapshot!(changed(|documents| {
        documents[1]["entries"].as_array_mut().unwrap().push(json!({
            "name": "widgets.v1.3.0", "replaces": "widgets.v1.2.0", "skipRange": ">=1.0.0 <1.3.0",
        }));
        documents.push(bundle("widgets", "1.3.0", &[]));
    }));
}

#[test]
fn what_is_taken_away_is_marked() {
    insta::assert_snapshot!(changed(|documents| {
        // The head is withdrawn
        documents[1]["entries"].as_array_mut().unwrap().remove(0);
        documents[1]["entries"][0]["replaces"] = json!("widgets.v1.1.0");
        documents.retain(|document| document["name"] != "candidate" && document["package"] != "inline");
        documents.retain(|document| document["name"] != "inline");
        let bundle = documents
            .iter_mut()
            .find(|document| document["name"] == "widgets.v1.1.0")
            .unwrap();
        bundle["image"] = json!("registry.example.org/other:1");
    }));
}

/// Whoever comes from elsewhere, or has a version that is not there any more, has a way, too.
#[test]
fn the_ways_of_those_who_are_in_no_channel_are_compared() {
    let with = |entry: Value| {
        vec![
            package("a", "stable"),
            channel("a", "stable", json!([entry])),
            bundle("a", "1.0.0", &[]),
        ]
    };
    let old = written(&with(
        json!({"name": "a.v1.0.0", "replaces": "a.v0.9.0", "skipRange": "<1.0.0"}),
    ));
    let new = written(&with(json!({"name": "a.v1.0.0", "skipRange": ">=0.5.0 <1.0.0"})));
    insta::assert_snapshot!(told(old.path(), &["diff", new.path().to_str().unwrap()]));
}

/// Of versions that are not in the catalog any more, nobody else tells.
#[rstest]
#[case::it_is_gone("<2.0.0", "", true)]
#[case::it_is_narrower("<2.0.0", "<1.5.0", true)]
#[case::it_has_a_hole("<2.0.0", "<2.0.0 !1.3.0", true)]
#[case::it_begins_later("<2.0.0", ">0.9.0-rc.1 <2.0.0", true)]
#[case::it_is_wider(">=1.0.0 <1.5.0", "<2.0.0", false)]
#[case::it_is_new("", "<2.0.0", false)]
#[case::it_is_written_otherwise(">=1.0.0 <2.0.0", "1.x", false)]
fn whoever_was_in_a_range_and_is_not_any_more_loses_the_way(
    #[case] before: &str,
    #[case] after: &str,
    #[case] is_lost: bool,
) {
    let with = |range: &str| {
        written(&[
            package("a", "stable"),
            channel("a", "stable", json!([{"name": "a.v2.0.0", "skipRange": range}])),
            bundle("a", "2.0.0", &[]),
        ])
    };
    let (old, new) = (with(before), with(after));
    let words = ["diff", new.path().to_str().unwrap(), "--strict"];
    let compared = catalog(old.path(), &words);
    if is_lost {
        compared.failure();
    } else {
        compared.success();
    }
}

#[test]
fn the_same_catalog_in_another_form_changes_nothing() {
    let (old, new) = (written(&rich()), tempfile::tempdir().unwrap());
    for (place, document) in rich().iter().rev().enumerate() {
        let text = roadstead::olm::yaml::document(document).unwrap();
        std::fs::write(new.path().join(format!("{place}.yaml")), text).unwrap();
    }
    let words = ["diff", new.path().to_str().unwrap(), "--strict"];
    assert_eq!(told(old.path(), &words), "nothing changes for anybody\n");
}

#[test]
fn strict_fails_for_what_is_taken_away() {
    let (old, mut documents) = (written(&rich()), rich());
    documents.retain(|document| document["name"] != "candidate");
    documents.retain(|document| document["name"] != "widgets.v2.0.0-rc.1");
    documents.retain(|document| document["schema"] != "olm.deprecations");
    let new = written(&documents);
    let new = new.path().to_str().unwrap();
    catalog(old.path(), &["diff", new]).success();
    assert_eq!(
        refused(old.path(), &["diff", new, "--strict"]),
        "roadstead: 4 changes, 1 of which (!) takes something away from subscribers, with --strict\n"
    );
    let told = told(old.path(), &["diff", new, "--output", "json"]);
    let changes: Vec<Value> = serde_json::from_str(&told).unwrap();
    assert!(changes.contains(
        &json!({"package": "widgets", "channel": "candidate", "takesAway": true, "change": "channelRemoved"})
    ));
}
