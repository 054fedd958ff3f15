//! A way that OLM would not go is refused before anything is changed.

use rstest::rstest;
use serde_json::json;

use super::{catalog, csv, rendered, subscription, trial};
use crate::olm::catalog::Edges;
use crate::olm::trial::{Refused, Way, extend, succeeded, unclaimed, way};

#[rstest]
#[case::the_next(&["1.0.0", "1.1.0"], "1.0.0", &["1.1.0"])]
#[case::one_after_the_other(&["1.0.0", "1.1.0", "1.2.0"], "1.0.0", &["1.1.0", "1.2.0"])]
fn the_way_is_the_one_of_the_graph(#[case] versions: &[&str], #[case] from: &str, #[case] steps: &[&str]) {
    let named = |version: &&str| format!("widgets.v{version}");
    let to = named(steps.last().unwrap());
    let way = way(&catalog(versions), "stable", &named(&from), &to).unwrap();
    assert_eq!(way.steps, steps.iter().map(named).collect::<Vec<_>>());
}

#[rstest]
#[case::at_once(&["b"], "from a to b")]
#[case::by_others(&["b", "c", "d"], "from a to d by way of b, c")]
fn the_way_is_told_without_naming_where_it_ends_twice(#[case] steps: &[&str], #[case] told: &str) {
    let steps = steps.iter().map(|&step| step.to_owned()).collect();
    assert_eq!(Way { steps }.told("a"), told);
}

#[test]
fn what_is_skipped_is_not_on_the_way() {
    let mut catalog = catalog(&["1.0.0", "1.1.0"]);
    let edges = Edges {
        replaces: Some("widgets.v1.0.0".to_owned()),
        skips: vec!["widgets.v1.1.0".to_owned()],
        skip_range: None,
    };
    extend(&mut catalog, rendered("1.2.0"), "stable", &edges).unwrap();
    for from in ["widgets.v1.0.0", "widgets.v1.1.0"] {
        let way = way(&catalog, "stable", from, "widgets.v1.2.0").unwrap();
        assert_eq!(way.steps, ["widgets.v1.2.0"], "{from}");
    }
}

#[test]
fn a_range_is_a_way_too() {
    let mut catalog = catalog(&["1.0.0", "1.1.0"]);
    let edges = Edges {
        skip_range: Some(">=1.0.0 <1.2.0".parse().unwrap()),
        ..Edges::default()
    };
    extend(&mut catalog, rendered("1.2.0"), "stable", &edges).unwrap();
    let way = way(&catalog, "stable", "widgets.v1.0.0", "widgets.v1.2.0").unwrap();
    assert_eq!(way.steps, ["widgets.v1.2.0"]);
}

#[rstest]
#[case::back(
    "widgets.v1.1.0",
    "widgets.v1.0.0",
    "upgrades end at widgets.v1.1.0, the head"
)]
#[case::from_elsewhere("widgets.v0.1.0", "widgets.v1.1.0", "nothing takes it over")]
fn where_no_way_leads_it_says_why(#[case] from: &str, #[case] to: &str, #[case] why: &str) {
    let refused = way(&catalog(&["1.0.0", "1.1.0"]), "stable", from, to).unwrap_err();
    let refused = refused.to_string();
    assert!(
        refused.contains(why) && refused.contains("--skip-range"),
        "{refused}"
    );
}

#[test]
fn what_is_installed_is_not_installed_again() {
    let refused = way(&catalog(&["1.0.0"]), "stable", "widgets.v1.0.0", "widgets.v1.0.0");
    assert!(matches!(refused, Err(Refused::Same { .. })));
}

/// OLM would wait for ever, and what goes at the end is what the catalog has.
#[test]
fn a_version_on_the_way_that_somebody_else_has_made_is_told() {
    let way = way(
        &catalog(&["1.0.0", "1.1.0"]),
        "stable",
        "widgets.v1.0.0",
        "widgets.v1.1.0",
    )
    .unwrap();
    let csvs = [csv("widgets.v1.0.0", &[]), csv("widgets.v1.1.0", &[])];
    let mut subscription = subscription("widgets", "widgets", "widgets.v1.0.0");
    let refused = unclaimed(&trial(), &way, &csvs, &subscription).unwrap_err();
    assert!(
        refused.to_string().contains("widgets.v1.1.0 is there already"),
        "{refused}"
    );
    subscription["status"]["currentCSV"] = json!("widgets.v1.1.0");
    assert_eq!(unclaimed(&trial(), &way, &csvs, &subscription), Ok(()));
}

/// OLM would wait for it for ever, and say something else.
#[rstest]
#[case::well("Succeeded", None)]
#[case::under_way(
    "Installing",
    Some("widgets.v1.0.0 is Installing, and OLM upgrades only what has Succeeded")
)]
#[case::broken(
    "Failed",
    Some("`roadstead bundle cleanup widgets -n workshop`, then `bundle run`")
)]
#[case::new("", Some("widgets.v1.0.0 is not looked at yet"))]
fn what_has_not_succeeded_is_not_upgraded(#[case] phase: &str, #[case] told: Option<&str>) {
    let mut installed = csv("widgets.v1.0.0", &[]);
    installed["status"]["phase"] = json!(phase);
    let mut elsewhere = installed.clone();
    elsewhere["metadata"]["namespace"] = json!("elsewhere");
    elsewhere["status"]["phase"] = json!("Failed");
    let subscription = subscription("widgets", "widgets", "widgets.v1.0.0");
    let found = succeeded(&trial(), &[elsewhere, installed], &subscription);
    match (found, told) {
        (Ok(()), None) => {}
        (Err(refused), Some(told)) => assert!(refused.to_string().contains(told), "{refused}"),
        (found, _) => panic!("{found:?}"),
    }
}
