//! CatalogSource, PackageManifest, OperatorGroup.

use rstest::rstest;
use serde_json::{Value, json};

use super::world::{BEFORE, JUST, group, pod_with, terminated, waiting};
use super::{Mark, after, expect, mark};
use crate::olm::status::{Facts, Kind, State, selector_of_pods};
use crate::olm::trial::LABEL;

fn not_connected(facts: &mut Facts, state: &str) {
    facts.source_mut()["status"]["connectionState"]["lastObservedState"] = json!(state);
}

#[rstest]
#[case::absent(|facts: &mut Facts| facts.source = Ok(None), &["no CatalogSource fair in the namespace olm", "kubectl get catalogsources -A"])]
#[case::of_no_valid_spec(
    |facts: &mut Facts| {
        facts.source_mut()["status"]["reason"] = json!("SpecInvalidError");
        facts.source_mut()["status"]["message"] = json!("unknown sourcetype: http");
    },
    &["cannot use", "SpecInvalidError: unknown sourcetype: http"],
)]
#[case::in_a_namespace_that_olm_does_not_look_at(
    |facts: &mut Facts| facts.subscription["status"]["catalogHealth"] = json!([{"catalogSourceRef": {"name": "other", "namespace": "global"}, "healthy": true}]),
    &["does not look at olm/fair", "global/other"],
)]
#[case::whose_image_cannot_be_pulled(
    |facts: &mut Facts| {
        not_connected(facts, "TRANSIENT_FAILURE");
        let state = waiting("ImagePullBackOff", "Back-off pulling image \"example.org/fair:latest\"");
        facts.source_pods = Ok(vec![pod_with("olm", "fair-1", "registry-server", state, json!({}))]);
    },
    &["ImagePullBackOff in container registry-server of pod olm/fair-1", "Back-off pulling image", "spec.secrets of the CatalogSource", "kubectl -n olm describe pod fair-1"],
)]
#[case::whose_server_ends_again_and_again(
    |facts: &mut Facts| {
        not_connected(facts, "CONNECTING");
        let state = waiting("CrashLoopBackOff", "back-off 5m0s restarting failed container");
        facts.source_pods = Ok(vec![pod_with("olm", "fair-1", "registry-server", state, terminated("Error", 1))]);
    },
    &["CrashLoopBackOff", "exit code 1, Error", "kubectl -n olm logs fair-1 -c registry-server --tail=40 --previous"],
)]
#[case::whose_pod_never_starts(
    |facts: &mut Facts| {
        not_connected(facts, "CONNECTING");
        let mut pod = pod_with("olm", "fair-1", "registry-server", waiting("ContainerCreating", ""), json!({}));
        pod["metadata"]["creationTimestamp"] = json!(BEFORE);
        facts.source_pods = Ok(vec![pod]);
    },
    &["its pod fair-1 has not become ready in 5 minutes", "kubectl -n olm describe pod fair-1"],
)]
#[case::of_which_olm_makes_no_pod(
    |facts: &mut Facts| {
        not_connected(facts, "");
        facts.source_mut()["metadata"]["creationTimestamp"] = json!(BEFORE);
        facts.source_pods = Ok(vec![]);
    },
    &["for more than 5 minutes OLM has made no pod of it", "kubectl -n olm get events"],
)]
#[case::that_cannot_be_reached(
    |facts: &mut Facts| not_connected(facts, "TRANSIENT_FAILURE"),
    &["cannot reach the catalog olm/fair at fair.olm.svc:50051", "kubectl -n olm logs -l olm.catalogSource=fair"],
)]
#[case::that_cannot_be_reached_at_an_address(
    |facts: &mut Facts| {
        not_connected(facts, "TRANSIENT_FAILURE");
        facts.source_mut()["spec"]["address"] = json!("10.0.0.7:50051");
    },
    &["the server at spec.address runs"],
)]
#[case::of_a_trial_whose_server_cannot_be_pulled(
    |facts: &mut Facts| on_trial(facts, waiting("ErrImagePull", "example.org/roadstead:v1: not found")),
    &["ErrImagePull in container registry of pod olm/trial-gadgets-1", "example.org/roadstead:v1: not found",
      "the server's image \"example.org/roadstead:v1\"", "--server-image or ROADSTEAD_SERVER_IMAGE", "roadstead bundle cleanup gadgets -n olm"],
)]
#[case::of_a_trial_whose_server_is_another_program(
    |facts: &mut Facts| on_trial(facts, waiting("CrashLoopBackOff", "back-off 10s restarting failed container=registry")),
    &["CrashLoopBackOff in container registry", "\"example.org/roadstead:v1\" is one of this program", "--server-image"],
)]
fn a_catalog_is_wrong(#[case] broken: fn(&mut Facts), #[case] phrases: &[&str]) {
    expect(broken, Kind::CatalogSource, State::Wrong, phrases);
}

/// It is served at an address, by a pod that the command which began the trial has made.
fn on_trial(facts: &mut Facts, state: Value) {
    not_connected(facts, "TRANSIENT_FAILURE");
    let source = facts.source_mut();
    source["metadata"]["labels"] = json!({LABEL: "gadgets"});
    source["spec"] = json!({"sourceType": "grpc", "address": "trial-gadgets.olm.svc:50051"});
    let mut pod = pod_with("olm", "trial-gadgets-1", "registry", state, json!({}));
    pod["spec"] = json!({"containers": [{"name": "registry", "image": "example.org/roadstead:v1"}]});
    facts.source_pods = Ok(vec![pod]);
}

#[test]
fn a_trial_whose_server_starts_is_waited_for() {
    expect(
        |facts| {
            on_trial(facts, waiting("ContainerCreating", ""));
            let pods = facts.source_pods.as_mut().unwrap();
            pods[0]["metadata"]["creationTimestamp"] = json!(JUST);
        },
        Kind::CatalogSource,
        State::InProgress,
        &["olm/fair is being started"],
    );
}

/// Only those of a trial have a label of their own.
#[test]
fn the_pods_of_a_catalog_are_known_by_who_has_made_them() {
    let mut facts = super::well();
    assert_eq!(selector_of_pods(facts.source_mut()), "olm.catalogSource=fair");
    on_trial(&mut facts, json!({}));
    assert_eq!(
        selector_of_pods(facts.source_mut()),
        "roadstead.dev/trial-of=gadgets"
    );
}

/// After a failure gRPC takes its time before it tries again, and OLM says meanwhile that it has failed.
#[rstest]
#[case::whose_pod_has_just_become_ready("TRANSIENT_FAILURE", |facts: &mut Facts| {
    facts.source_pods.as_mut().unwrap()[0]["status"]["conditions"][1]["lastTransitionTime"] = json!(JUST);
})]
#[case::that_has_just_been_made("TRANSIENT_FAILURE", |facts: &mut Facts| {
    facts.source_mut()["metadata"]["creationTimestamp"] = json!(JUST);
    facts.source_mut()["spec"]["address"] = json!("10.0.0.7:50051");
})]
#[case::that_has_just_been_lost("TRANSIENT_FAILURE", |facts: &mut Facts| {
    facts.source_mut()["status"]["connectionState"]["lastConnect"] = json!(JUST);
})]
#[case::whose_connection_was_just_closed("SHUTDOWN", |facts: &mut Facts| {
    facts.source_mut()["status"]["connectionState"]["lastConnect"] = json!(JUST);
})]
fn a_catalog_that_olm_could_not_reach_for_a_moment_is_waited_for(
    #[case] connection: &str,
    #[case] change: fn(&mut Facts),
) {
    let mut facts = super::well();
    not_connected(&mut facts, connection);
    change(&mut facts);
    let chain = super::judge(&facts, super::now());
    let first = chain.first.as_ref().unwrap();
    assert_eq!(
        (first.kind, chain.state),
        (Kind::CatalogSource, State::InProgress)
    );
    assert!(first.trouble.what.contains("not connected"), "{first:?}");
}

#[test]
fn a_catalog_that_olm_connects_to_is_waited_for() {
    expect(
        |facts| not_connected(facts, "CONNECTING"),
        Kind::CatalogSource,
        State::InProgress,
        &["not connected"],
    );
}

/// OLM says that it fails to connect for as long as that takes.
#[test]
fn a_catalog_whose_first_pod_starts_is_waited_for() {
    expect(
        |facts| {
            not_connected(facts, "TRANSIENT_FAILURE");
            let mut pod = pod_with(
                "olm",
                "fair-1",
                "registry-server",
                json!({"running": {}}),
                json!({}),
            );
            pod["metadata"]["creationTimestamp"] = json!(JUST);
            facts.source_pods = Ok(vec![pod]);
        },
        Kind::CatalogSource,
        State::InProgress,
        &["olm/fair is being started"],
    );
}

/// While a new pod of a catalog starts, the old one serves.
#[test]
fn a_pod_that_is_not_well_does_no_harm_beside_one_that_is() {
    let chain = after(|facts| {
        let state = waiting("ImagePullBackOff", "");
        facts.source_pods.as_mut().unwrap().push(pod_with(
            "olm",
            "fair-2",
            "registry-server",
            state,
            json!({}),
        ));
    });
    assert_eq!(mark(&chain, Kind::CatalogSource), Mark::Ok);
}

#[rstest]
#[case::absent(|facts: &mut Facts| facts.package = Ok(None),
    &["olm/fair has no package \"gadgets\"", "kubectl -n olm get packagemanifests -l catalog=fair,catalog-namespace=olm"])]
#[case::without_the_channel(
    |facts: &mut Facts| facts.subscription["spec"]["channel"] = json!("fast"),
    &["no channel \"fast\"; it has candidate, stable, and stable is the default",
      "kubectl -n tools patch subscriptions.operators.coreos.com gadgets --type merge -p '{\"spec\":{\"channel\":\"stable\"}}'"],
)]
#[case::without_the_version_to_begin_with(
    |facts: &mut Facts| {
        facts.nothing_installed();
        facts.subscription["spec"]["startingCSV"] = json!("gadgets.v0.9.0");
    },
    &["no version \"gadgets.v0.9.0\"", "It has gadgets.v1.1.0, gadgets.v1.0.0."],
)]
fn a_package_is_wrong(#[case] broken: fn(&mut Facts), #[case] phrases: &[&str]) {
    expect(broken, Kind::PackageManifest, State::Wrong, phrases);
}

#[test]
fn a_package_of_a_catalog_that_has_just_been_connected_is_waited_for() {
    expect(
        |facts| {
            facts.nothing_installed();
            facts.package = Ok(None);
            facts.source_mut()["status"]["connectionState"]["lastConnect"] = json!(JUST);
        },
        Kind::PackageManifest,
        State::InProgress,
        &["olm/fair has no package \"gadgets\""],
    );
}

#[test]
fn a_package_of_a_catalog_that_is_not_there_is_not_what_is_wrong() {
    let chain = after(|facts| {
        facts.source = Ok(None);
        facts.package = Ok(None);
    });
    assert_eq!(chain.first.as_ref().unwrap().kind, Kind::CatalogSource);
    assert_eq!(mark(&chain, Kind::PackageManifest), Mark::Waiting);
}

#[test]
fn a_version_to_begin_with_that_has_left_the_channel_is_forgotten_once_something_is_installed() {
    let chain = after(|facts| facts.subscription["spec"]["startingCSV"] = json!("gadgets.v0.9.0"));
    assert_eq!(chain.state, State::Well);
}

#[rstest]
#[case::none(|facts: &mut Facts| facts.groups = Ok(Vec::new()), &["no OperatorGroup", "kubectl apply -f -"])]
#[case::more_than_one(
    |facts: &mut Facts| {
        let mut second = group(&[""]);
        second["metadata"]["name"] = json!("second");
        facts.groups.as_mut().unwrap().push(second);
    },
    &["2 OperatorGroups", "There are tools, second.", "kubectl -n tools delete operatorgroup NAME"],
)]
#[case::for_its_own_namespace_though_the_operator_is_for_all(
    |facts: &mut Facts| facts.groups = Ok(vec![group(&["tools"])]),
    &["needs the install mode OwnNamespace, which gadgets.v1.1.0 does not support; it supports AllNamespaces", "without spec.targetNamespaces"],
)]
#[case::known_from_the_catalog_before_anything_is_installed(
    |facts: &mut Facts| {
        facts.nothing_installed();
        facts.groups = Ok(vec![group(&["a", "b"])]);
    },
    &["needs the install mode MultiNamespace, which gadgets does not support"],
)]
#[case::that_selects_nothing(|facts: &mut Facts| facts.groups = Ok(vec![group(&[])]), &["selects no namespace", "spec.selector"])]
#[case::whose_service_account_is_missing(
    |facts: &mut Facts| {
        let mut group = group(&[""]);
        group["status"]["conditions"] = json!([{"type": "OperatorGroupServiceAccount", "status": "True", "reason": "ServiceAccountNotFound", "message": "ServiceAccount robot not found"}]);
        facts.groups = Ok(vec![group]);
    },
    &["OperatorGroupServiceAccount: ServiceAccountNotFound: ServiceAccount robot not found"],
)]
fn an_operator_group_is_wrong(#[case] broken: fn(&mut Facts), #[case] phrases: &[&str]) {
    expect(broken, Kind::OperatorGroup, State::Wrong, phrases);
}

/// `InstallModeSet.Supports`, of OLM.
#[rstest]
#[case(&["AllNamespaces"], &[""], true)]
#[case(&["OwnNamespace"], &["tools"], true)]
#[case(&["SingleNamespace"], &["tools"], false)]
#[case(&["SingleNamespace"], &["a"], true)]
#[case(&["MultiNamespace"], &["a", "b"], true)]
#[case(&["MultiNamespace"], &["a", "tools"], false)]
#[case(&["MultiNamespace", "OwnNamespace"], &["a", "tools"], true)]
#[case(&["AllNamespaces"], &["a"], false)]
fn an_install_mode_fits_a_selection_as_olm_says(
    #[case] modes: &[&str],
    #[case] selected: &[&str],
    #[case] fits: bool,
) {
    let mut facts = super::well();
    let modes: Vec<_> = modes
        .iter()
        .map(|mode| json!({"type": mode, "supported": true}))
        .collect();
    facts.csv_mut()["spec"]["installModes"] = json!(modes);
    facts.groups = Ok(vec![group(selected)]);
    let chain = super::judge(&facts, super::now());
    assert_eq!(mark(&chain, Kind::OperatorGroup) == Mark::Ok, fits);
}
