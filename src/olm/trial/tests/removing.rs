//! Nothing goes that the trial has not brought.

use rstest::rstest;
use serde_json::{Value, json};

use super::{NAMESPACE, catalog, csv, object, ours, subscription, trial};
use crate::olm::manifests::name;
use crate::olm::trial::{CONTENT, Definition, Present, Refused, removal, stays, still_there};

const CSV: &str = "widgets.v1.0.0";

/// A trial in which all is installed, in a namespace of its own.
fn installed() -> Present {
    let mut content = ours(object("ConfigMap", "trial-widgets"));
    content["data"] = json!({CONTENT: catalog(&["1.0.0", "1.1.0"]).text().unwrap()});
    Present {
        subscriptions: vec![ours(subscription("widgets", "widgets", CSV))],
        sources: vec![ours(object("CatalogSource", "trial-widgets"))],
        groups: vec![ours(object("OperatorGroup", "trial-widgets"))],
        csvs: vec![csv(CSV, &["widgets.example.org"])],
        content: Some(content),
    }
}

fn names(objects: &[Value]) -> Vec<&str> {
    objects.iter().map(name).collect()
}

#[test]
fn all_that_was_made_and_installed_goes() {
    let removal = removal(&trial(), &installed()).unwrap();
    assert_eq!(names(&removal.subscriptions), ["widgets"]);
    assert_eq!(names(&removal.csvs), [CSV]);
    assert_eq!(names(&removal.sources), ["trial-widgets"]);
    assert_eq!(names(&removal.groups), ["trial-widgets"]);
    assert!(removal.definitions.contains("widgets.example.org"));
    assert!(removal.notes.is_empty(), "{:?}", removal.notes);
}

#[test]
fn in_the_middle_of_an_upgrade_both_versions_go() {
    let mut present = installed();
    present.csvs.push(csv("widgets.v1.1.0", &["widgets.example.org"]));
    assert_eq!(
        names(&removal(&trial(), &present).unwrap().csvs),
        [CSV, "widgets.v1.1.0"]
    );
}

#[test]
fn what_others_have_installed_stays_and_so_does_their_group() {
    let mut present = installed();
    present
        .subscriptions
        .push(subscription("gadgets", "gadgets", "gadgets.v1"));
    present.csvs.push(csv("gadgets.v1", &["gadgets.example.org"]));
    let removal = removal(&trial(), &present).unwrap();
    assert_eq!(names(&removal.csvs), [CSV]);
    assert_eq!(names(&removal.subscriptions), ["widgets"]);
    assert!(removal.groups.is_empty());
    assert!(
        removal.notes[0].contains("stays: gadgets needs it"),
        "{:?}",
        removal.notes
    );
}

/// Somebody has deleted the trial's Subscription, and subscribed to the package by a catalog of their own.
#[test]
fn a_version_that_another_subscription_has_taken_over_stays() {
    let mut present = installed();
    present.subscriptions = vec![subscription("theirs", "widgets", CSV)];
    let removal = removal(&trial(), &present).unwrap();
    assert!(removal.csvs.is_empty() && removal.subscriptions.is_empty() && removal.groups.is_empty());
    assert!(
        removal
            .notes
            .iter()
            .any(|note| note.contains("widgets.v1.0.0 stays")),
        "{:?}",
        removal.notes
    );
    assert!(removal.definitions.is_empty());
    assert_eq!(names(&removal.sources), ["trial-widgets"]);
}

#[test]
fn the_same_version_in_another_namespace_stays_and_keeps_the_definitions() {
    let mut present = installed();
    let mut elsewhere = csv(CSV, &["widgets.example.org"]);
    elsewhere["metadata"]["namespace"] = json!("production");
    present.csvs.push(elsewhere);
    let removal = removal(&trial(), &present).unwrap();
    assert_eq!(removal.csvs.len(), 1);
    assert_eq!(removal.csvs[0]["metadata"]["namespace"], NAMESPACE);
    assert!(removal.definitions.is_empty());
    assert!(
        removal.notes[0].contains("widgets.example.org stays"),
        "{:?}",
        removal.notes
    );
    assert_eq!(
        names(&removal.groups),
        ["trial-widgets"],
        "it is of another namespace"
    );
}

/// OLM has deleted the version, or never made it: its definitions are known from the catalog.
#[test]
fn what_was_begun_and_never_installed_goes_as_well() {
    let mut present = installed();
    present.csvs.clear();
    present.subscriptions.clear();
    let removal = removal(&trial(), &present).unwrap();
    assert_eq!(names(&removal.sources), ["trial-widgets"]);
    assert_eq!(removal.definitions.len(), 1);
}

/// A ConfigMap of that name may be anybody's.
#[test]
fn a_catalog_that_is_not_the_trials_names_nothing_that_goes() {
    let mut present = installed();
    present.subscriptions.clear();
    present.content.as_mut().unwrap()["metadata"]["labels"] = json!({});
    assert!(removal(&trial(), &present).unwrap().csvs.is_empty());
}

#[test]
fn where_there_is_no_trial_nothing_goes() {
    let present = Present {
        subscriptions: vec![subscription("widgets", "widgets", CSV)],
        csvs: vec![csv(CSV, &["widgets.example.org"])],
        ..Present::default()
    };
    assert!(matches!(
        removal(&trial(), &present),
        Err(Refused::Nothing { .. })
    ));
}

#[test]
fn objects_that_are_left_are_named() {
    let definition = Definition {
        uid: "1".to_owned(),
        group: "example.org".to_owned(),
        plural: "widgets".to_owned(),
        version: "v1".to_owned(),
    };
    let mut global = object("Widget", "b");
    global["metadata"]["namespace"] = Value::Null;
    let line = still_there(&definition, &[object("Widget", "a"), global], true);
    assert_eq!(line, "widgets.example.org: workshop/a, b and more");
}

/// Made at that minute of an hour, with these versions, each served or not.
fn definition(minute: u8, versions: &[(&str, bool)]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|(name, served)| json!({"name": name, "served": served}))
        .collect();
    let mut definition = made(object("CustomResourceDefinition", "widgets.example.org"), minute);
    definition["metadata"]["labels"] =
        json!({"olm.managed": "true", "operators.coreos.com/widgets.workshop": ""});
    definition["spec"] =
        json!({"group": "example.org", "names": {"plural": "widgets"}, "versions": versions});
    definition
}

fn made(mut object: Value, minute: u8) -> Value {
    object["metadata"]["creationTimestamp"] = json!(format!("2026-01-01T10:{minute:02}:00Z"));
    object
}

#[test]
fn a_definition_that_the_trial_has_brought_may_go_and_its_objects_are_asked_for_in_a_version_that_is_served()
{
    let source = made(object("CatalogSource", "trial-widgets"), 10);
    let found = Definition::of(
        &trial(),
        &definition(10, &[("v1alpha1", false), ("v1", true)]),
        &[source],
    )
    .unwrap();
    assert_eq!(
        (found.name().as_str(), found.version.as_str()),
        ("widgets.example.org", "v1")
    );
}

fn written_by(mut definition: Value, managers: &[(&str, &str)]) -> Value {
    let written = managers
        .iter()
        .map(|(manager, subresource)| json!({"manager": manager, "subresource": subresource}));
    definition["metadata"]["managedFields"] = written.collect();
    definition
}

/// It was left by a trial before, since nobody but OLM has written it, and OLM says for whom.
#[test]
fn a_definition_that_an_earlier_trial_has_left_may_go_with_a_later_one() {
    let source = made(object("CatalogSource", "trial-widgets"), 10);
    let writers = [("catalog", ""), ("olm", ""), ("kube-apiserver", "status")];
    let left = written_by(definition(9, &[("v1", true)]), &writers);
    assert!(Definition::of(&trial(), &left, &[source]).is_ok());
}

/// OLM was let to put the bundle's in its place.
#[rstest]
#[case::somebody(&[("kubectl-client-side-apply", ""), ("catalog", "")])]
#[case::nobody_knows(&[])]
#[case::its_status_alone(&[("kube-apiserver", "status")])]
fn a_definition_that_others_have_written_before_the_trial_stays_and_it_says_what_deletes_it(
    #[case] writers: &[(&str, &str)],
) {
    let source = made(object("CatalogSource", "trial-widgets"), 10);
    let theirs = written_by(definition(9, &[("v1", true)]), writers);
    let stays = Definition::of(&trial(), &theirs, &[source]).unwrap_err();
    assert!(
        stays.contains("others than OLM have written it")
            && stays.contains("kubectl delete crd widgets.example.org"),
        "{stays}"
    );
}

#[rstest]
#[case::none(Some((0, false)), "widgets.example.org stays, without objects: --definitions would have removed it")]
#[case::one(Some((1, false)), "stays, with one object: `kubectl delete crd widgets.example.org` deletes it, and with it all of its objects")]
#[case::some(Some((3, false)), "stays, with 3 objects:")]
#[case::many(Some((100, true)), "stays, with 100 objects and more:")]
#[case::nobody_knows(None, "widgets.example.org stays: `kubectl")]
fn a_definition_that_is_left_behind_is_told_with_what_it_holds(
    #[case] objects: Option<(usize, bool)>,
    #[case] phrase: &str,
) {
    let source = made(object("CatalogSource", "trial-widgets"), 10);
    let definition = Definition::of(&trial(), &definition(10, &[("v1", true)]), &[source]).unwrap();
    let told = stays(&definition, objects);
    assert!(told.contains(phrase), "{told}");
}

#[test]
fn where_else_there_is_a_trial_is_told() {
    let elsewhere = ["yard", "shop", "shop"].map(|namespace| {
        let mut source = object("CatalogSource", "trial-widgets");
        source["metadata"]["namespace"] = json!(namespace);
        source
    });
    let told = trial().nothing(&elsewhere).to_string();
    assert!(
        told.contains("in workshop; there is one in shop, yard: name it with -n"),
        "{told}"
    );
    assert!(matches!(trial().nothing(&[]), Refused::Nothing { .. }));
}

#[rstest]
#[case::older_than_the_trial(9, &[("v1", true)], Some(10), "it was there before the trial")]
#[case::nobody_knows(11, &[("v1", true)], None, "nothing tells whether it was there before")]
#[case::nothing_is_served(11, &[("v1", false)], Some(10), "no version of it is served")]
fn a_definition_of_which_it_is_not_certain_stays(
    #[case] minute: u8,
    #[case] versions: &[(&str, bool)],
    #[case] begun: Option<u8>,
    #[case] why: &str,
) {
    let sources: Vec<Value> = begun
        .map(|minute| made(object("CatalogSource", "trial-widgets"), minute))
        .into_iter()
        .collect();
    let stays = Definition::of(&trial(), &definition(minute, versions), &sources).unwrap_err();
    assert!(stays.contains(why), "{stays}");
}

/// Somebody else has applied it meanwhile, or another operator has it.
#[rstest]
#[case::nobodys(json!({}))]
#[case::of_another_namespace(json!({"operators.coreos.com/widgets.production": ""}))]
#[case::of_another_operator_too(json!({"operators.coreos.com/widgets.workshop": "", "operators.coreos.com/gadgets.workshop": ""}))]
fn a_definition_that_olm_has_not_made_for_the_trial_alone_stays(#[case] labels: Value) {
    let source = made(object("CatalogSource", "trial-widgets"), 10);
    let mut definition = definition(11, &[("v1", true)]);
    definition["metadata"]["labels"] = labels;
    let stays = Definition::of(&trial(), &definition, &[source]).unwrap_err();
    assert!(stays.contains("OLM does not say"), "{stays}");
}

/// A plan that was under way when the trial ended brings it, and OLM writes for whom only some seconds later.
#[rstest]
#[case::since_the_trial_began(11, &[("catalog", "")], None)]
#[case::before(9, &[("catalog", "")], Some("OLM does not say for whom"))]
#[case::by_somebody_else(11, &[("catalog", ""), ("helm", "")], Some("OLM does not say that it is"))]
fn a_definition_of_which_olm_has_not_said_yet_whose_it_is_goes_with_the_trial_that_brought_it(
    #[case] minute: u8,
    #[case] writers: &[(&str, &str)],
    #[case] stays: Option<&str>,
) {
    let source = made(object("CatalogSource", "trial-widgets"), 10);
    let mut definition = written_by(definition(minute, &[("v1", true)]), writers);
    definition["metadata"]["labels"] = json!({"olm.managed": "true"});
    match (Definition::of(&trial(), &definition, &[source]), stays) {
        (Ok(_), None) => {}
        (Err(why), Some(stays)) => assert!(why.contains(stays), "{why}"),
        (found, _) => panic!("{found:?}"),
    }
}
