//! Nothing is taken over that was there before.

use rstest::rstest;
use serde_json::{Value, json};

use super::{NAMESPACE, csv, object, ours, subscription, trial};
use crate::olm::trial::{LABEL, Place, Refused, begin, channel, replaced};

const CSV: &str = "widgets.v1.0.0";

fn modes(supported: &[&str]) -> Vec<Value> {
    let all = [
        "OwnNamespace",
        "SingleNamespace",
        "MultiNamespace",
        "AllNamespaces",
    ];
    let mode = |mode: &&str| json!({"type": mode, "supported": supported.contains(mode)});
    all.iter().map(mode).collect()
}

fn refused(place: &Place) -> String {
    let refused = begin(&trial(), place, CSV, &modes(&["AllNamespaces"]), &[]);
    refused.unwrap_err().to_string()
}

fn group(targets: &[&str]) -> Value {
    let mut group = object("OperatorGroup", "there");
    group["spec"] = match targets {
        [] => json!({}),
        targets => json!({"targetNamespaces": targets}),
    };
    group
}

#[test]
fn an_empty_namespace_gets_a_group_and_one_that_fits_stays() {
    let modes = modes(&["AllNamespaces"]);
    let made = begin(&trial(), &Place::default(), CSV, &modes, &[])
        .unwrap()
        .unwrap();
    assert_eq!(made["spec"], json!({}));
    let there = Place {
        groups: vec![group(&[])],
        ..Place::default()
    };
    assert_eq!(begin(&trial(), &there, CSV, &modes, &[]), Ok(None));
}

#[rstest]
#[case::for_all(&["AllNamespaces", "OwnNamespace"], &[], &[])]
#[case::for_its_own(&["OwnNamespace"], &[], &[NAMESPACE])]
#[case::another(&["SingleNamespace"], &["shop"], &["shop"])]
#[case::own_by_name(&["OwnNamespace"], &[NAMESPACE], &[NAMESPACE])]
#[case::several(&["MultiNamespace"], &["yard", "shop", "yard"], &["shop", "yard"])]
#[case::several_and_its_own(&["MultiNamespace", "OwnNamespace"], &[NAMESPACE, "shop"], &["shop", NAMESPACE])]
#[case::one_twice(&["SingleNamespace"], &["shop", "shop"], &["shop"])]
fn the_group_is_one_that_the_operator_supports(
    #[case] supported: &[&str],
    #[case] watch: &[&str],
    #[case] targets: &[&str],
) {
    let watch: Vec<String> = watch.iter().map(|&namespace| namespace.to_owned()).collect();
    let made = begin(&trial(), &Place::default(), CSV, &modes(supported), &watch).unwrap();
    let spec = match targets {
        [] => json!({}),
        targets => json!({"targetNamespaces": targets}),
    };
    assert_eq!(made.unwrap()["spec"], spec);
}

#[rstest]
#[case::nobody_says(&["SingleNamespace"], &[], "say with --watch")]
#[case::none_at_all(&[], &[], "it supports none of the install modes")]
#[case::several_are_not_one(&["SingleNamespace"], &["shop", "yard"], "would have to support MultiNamespace; it supports SingleNamespace")]
#[case::several_without_its_own(&["MultiNamespace"], &["shop", NAMESPACE], "would have to support OwnNamespace; it supports MultiNamespace")]
#[case::no_name(&["AllNamespaces"], &[""], "--watch has \"\"")]
#[case::another_is_not_its_own(&["OwnNamespace"], &["shop"], "would have to support SingleNamespace")]
fn where_no_group_would_do_it_says_what_is_supported(
    #[case] supported: &[&str],
    #[case] watch: &[&str],
    #[case] phrase: &str,
) {
    let watch: Vec<String> = watch.iter().map(|&namespace| namespace.to_owned()).collect();
    let refused = begin(&trial(), &Place::default(), CSV, &modes(supported), &watch).unwrap_err();
    assert!(refused.to_string().contains(phrase), "{refused}");
}

#[rstest]
#[case::not_supported(&[NAMESPACE], &[], "OwnNamespace")]
#[case::not_what_is_wanted(&[], &["shop"], "--watch is shop")]
fn a_group_that_does_not_fit_is_told_with_what_it_selects(
    #[case] targets: &[&str],
    #[case] watch: &[&str],
    #[case] phrase: &str,
) {
    let place = Place {
        groups: vec![group(targets)],
        ..Place::default()
    };
    let watch: Vec<String> = watch.iter().map(|&namespace| namespace.to_owned()).collect();
    let refused = begin(
        &trial(),
        &place,
        CSV,
        &modes(&["AllNamespaces", "SingleNamespace"]),
        &watch,
    );
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains(phrase) && refused.contains("there"), "{refused}");
}

/// OLM tells the namespaces of one that goes by labels, later.
#[test]
fn a_group_that_selects_by_labels_is_left_to_olm() {
    let mut by_labels = group(&[]);
    by_labels["spec"] = json!({"selector": {"matchLabels": {"shop": "yes"}}});
    let place = Place {
        groups: vec![by_labels],
        ..Place::default()
    };
    assert_eq!(
        begin(&trial(), &place, CSV, &modes(&["OwnNamespace"]), &[]),
        Ok(None)
    );
}

#[test]
fn a_namespace_with_two_groups_is_told_at_once() {
    let place = Place {
        groups: vec![group(&[]), group(&[])],
        ..Place::default()
    };
    assert!(refused(&place).contains("2 OperatorGroups"));
}

#[rstest]
#[case::their_subscription(Place { subscriptions: vec![subscription("theirs", "widgets", CSV)], ..Place::default() }, "the Subscription theirs in workshop has widgets already")]
#[case::a_subscription_of_that_name(Place { subscriptions: vec![subscription("widgets", "gadgets", "")], ..Place::default() }, "Subscription widgets is there already")]
#[case::a_version_without_a_subscription(Place { csvs: vec![csv(CSV, &[])], ..Place::default() }, "ClusterServiceVersion widgets.v1.0.0 is there already")]
#[case::an_object_of_that_name(Place { taken: vec![("ConfigMap".to_owned(), object("ConfigMap", "trial-widgets"))], ..Place::default() }, "ConfigMap trial-widgets is there already")]
fn what_is_not_of_the_trial_is_not_touched(#[case] place: Place, #[case] phrase: &str) {
    let refused = refused(&place);
    assert!(
        refused.contains(phrase) && refused.contains("nothing was changed"),
        "{refused}"
    );
}

#[test]
fn a_trial_that_runs_is_not_begun_again() {
    let place = Place {
        subscriptions: vec![ours(subscription("widgets", "widgets", CSV))],
        csvs: vec![csv(CSV, &[])],
        ..Place::default()
    };
    assert!(refused(&place).contains("bundle cleanup widgets -n workshop"));
    let begun = Place {
        taken: vec![(
            "CatalogSource".to_owned(),
            ours(object("CatalogSource", "trial-widgets")),
        )],
        ..Place::default()
    };
    assert!(refused(&begun).contains("is tried in workshop already"));
}

#[test]
fn a_package_whose_name_is_no_label_is_refused() {
    let mut trial = trial();
    trial.package = "a".repeat(64);
    let refused = begin(&trial, &Place::default(), CSV, &modes(&["AllNamespaces"]), &[]);
    assert_eq!(refused, Err(Refused::Package("a".repeat(64))));
}

#[test]
fn what_waits_for_an_operator_group_is_not_set_going() {
    let place = Place {
        subscriptions: vec![subscription("gadgets", "gadgets", "")],
        ..Place::default()
    };
    assert!(refused(&place).contains("gadgets waits for one"));
}

#[test]
fn an_object_of_another_trial_is_told_as_that() {
    let mut other = object("ConfigMap", "trial-widgets");
    other["metadata"]["labels"] = json!({LABEL: "wid.gets"});
    let place = Place {
        taken: vec![("ConfigMap".to_owned(), other)],
        ..Place::default()
    };
    assert!(refused(&place).contains("is of the trial of wid.gets"));
}

/// What a trial before has left does not keep the next one from beginning.
#[test]
fn a_definition_that_others_have_brought_is_not_replaced_unasked() {
    let definition = |name: &str, component: &str| {
        let mut definition = object("CustomResourceDefinition", name);
        definition["metadata"]["labels"] = json!({component: "", "olm.managed": "true"});
        definition
    };
    let left = definition("a.example.org", "operators.coreos.com/widgets.workshop");
    assert_eq!(replaced(&trial(), std::slice::from_ref(&left)), Ok(()));
    let theirs = definition("b.example.org", "operators.coreos.com/widgets.production");
    let refused = replaced(&trial(), &[left, theirs]).unwrap_err().to_string();
    assert!(
        refused.contains("b.example.org") && !refused.contains("a.example.org"),
        "{refused}"
    );
    assert!(
        refused.contains("--replace-definitions") && refused.contains("kubectl delete crd"),
        "{refused}"
    );
}

#[rstest]
#[case::none(None, "stable")]
#[case::another(Some("v1.2_x"), "v1.2_x")]
#[case::one_of_the_bundles_own_however_strange(Some("fast!"), "fast!")]
fn a_channel_is_one_that_the_bundle_names_or_a_plain_word(#[case] asked: Option<&str>, #[case] taken: &str) {
    let own = ["stable".to_owned(), "fast!".to_owned()];
    assert_eq!(channel(asked, "stable", &own).as_deref(), Ok(taken));
}

#[rstest]
#[case("Bad_Channel!")]
#[case("")]
#[case("a,b")]
#[case("a b")]
fn a_channel_that_is_no_plain_word_is_refused_with_what_is_accepted(#[case] asked: &str) {
    let refused = channel(Some(asked), "stable", &["stable".to_owned()]).unwrap_err();
    let refused = refused.to_string();
    assert!(
        refused.contains(&format!("--channel is {asked:?}")) && refused.contains("(stable)"),
        "{refused}"
    );
}
