//! Subscription, Bundle, InstallPlan.

use rstest::rstest;
use serde_json::{Value, json};

use super::world::{BEFORE, JUST, condition, csv_in, job, package, pod_with, step, subscription, waiting};
use super::{Mark, after, expect, mark, told};
use crate::olm::status::{Facts, Kind, State};

fn neighbour(name: &str, package: &str) -> Value {
    let mut neighbour = subscription();
    neighbour["metadata"]["name"] = json!(name);
    neighbour["spec"]["name"] = json!(package);
    neighbour
}

fn unresolved(facts: &mut Facts, message: &str) {
    facts.nothing_installed();
    condition(
        &mut facts.subscription,
        "ResolutionFailed",
        "ConstraintsNotSatisfiable",
        message,
    );
}

#[rstest]
#[case::that_cannot_be_satisfied(
    |facts: &mut Facts| unresolved(facts, "constraints not satisfiable: gadgets.v1.1.0 requires at least one of widgets.v3.0.0, subscription gadgets exists"),
    &["finds no version", "ConstraintsNotSatisfiable: constraints not satisfiable: gadgets.v1.1.0 requires", "get packagemanifests -l catalog=fair"],
)]
#[case::that_waits_for_a_broken_neighbour(
    |facts: &mut Facts| {
        facts.neighbours.push(neighbour("gadgets-old", "trinkets"));
        unresolved(facts, "constraints not satisfiable: no operators found in package trinkets in the catalog referenced by subscription gadgets-old, subscription gadgets-old exists");
    },
    &["another Subscription of the namespace tools, gadgets-old", "none of the 2 here gets anything new", "kubectl -n tools delete subscriptions.operators.coreos.com gadgets-old"],
)]
#[case::in_whose_way_is_a_version_without_a_subscription(
    |facts: &mut Facts| {
        unresolved(facts, "constraints not satisfiable: clusterserviceversion gadgets.v1.0.0 exists and is not referenced by a subscription, subscription gadgets requires at least one of fair/olm/stable/gadgets.v1.1.0");
        facts.csvs = Ok(vec![csv_in("gadgets.v1.0.0", "", "Succeeded", "", "")]);
    },
    &["gadgets.v1.0.0 is installed and no Subscription has it", "kubectl -n tools delete clusterserviceversion gadgets.v1.0.0"],
)]
#[case::that_another_catalog_keeps_from_being_resolved(
    |facts: &mut Facts| {
        facts.nothing_installed();
        condition(&mut facts.subscription, "ResolutionFailed", "ErrorPreventedResolution", "failed to populate resolver cache from source flea/olm: failed to list bundles: rpc error: code = Unavailable");
    },
    &["one catalog that OLM cannot read is enough", "failed to populate resolver cache from source flea/olm"],
)]
#[case::twice_in_a_namespace(
    |facts: &mut Facts| {
        let mut second = neighbour("gadgets-again", "gadgets");
        second["status"]["installedCSV"] = json!("");
        facts.neighbours.push(second);
    },
    &["more than once: by gadgets and by gadgets-again", "delete subscriptions.operators.coreos.com gadgets-again"],
)]
#[case::beside_a_catalog_that_is_not_well(
    |facts: &mut Facts| {
        let health = json!({"catalogSourceRef": {"name": "flea", "namespace": "olm"}, "healthy": false});
        facts.subscription["status"]["catalogHealth"].as_array_mut().unwrap().push(health);
        condition(&mut facts.subscription, "CatalogSourcesUnhealthy", "UnhealthyCatalogSourceFound", "targeted catalogsource olm/flea unhealthy");
    },
    &["Another catalog is not well: olm/flea", "targeted catalogsource olm/flea unhealthy", "kubectl -n olm describe catalogsource flea"],
)]
#[case::that_nobody_looks_at(|facts: &mut Facts| facts.nothing_installed(), &["not resolved", "app=catalog-operator"])]
fn a_subscription_is_wrong(#[case] broken: fn(&mut Facts), #[case] phrases: &[&str]) {
    fn without_unpacking(facts: &mut Facts) {
        facts.subscription["status"]["conditions"]
            .as_array_mut()
            .unwrap()
            .retain(|it| it["type"] != "BundleUnpacking");
    }
    let mut facts = super::well();
    without_unpacking(&mut facts);
    broken(&mut facts);
    let chain = super::judge(&facts, super::now());
    let told = told(&chain);
    assert_eq!(
        (chain.first.as_ref().unwrap().kind, chain.state),
        (Kind::Subscription, State::Wrong),
        "{told}"
    );
    for phrase in phrases {
        assert!(told.contains(phrase), "{phrase:?} is not in:\n{told}");
    }
}

#[test]
fn a_subscription_that_is_new_is_waited_for() {
    let chain = after(|facts| {
        facts.nothing_installed();
        facts.subscription["metadata"]["creationTimestamp"] = json!(JUST);
    });
    assert_eq!(chain.state, State::InProgress);
}

const UNREAD: &str = "failed to populate resolver cache from source fair/olm: failed to list bundles: rpc error: code = Unavailable desc = connection refused";
/// As later versions of OLM say it.
const UNREAD_LATER: &str = "error using catalogsource olm/fair: failed to list bundles: rpc error: code = Unavailable desc = connection refused";

fn unread(facts: &mut Facts, message: &str) {
    facts.nothing_installed();
    let reason = "ErrorPreventedResolution";
    condition(&mut facts.subscription, "ResolutionFailed", reason, message);
    let conditions = facts.subscription["status"]["conditions"].as_array_mut().unwrap();
    conditions.retain(|it| it["type"] != "BundleUnpacking");
}

fn unpacks(facts: &mut Facts) {
    let conditions = facts.subscription["status"]["conditions"].as_array_mut().unwrap();
    conditions.push(json!({"type": "BundleUnpacking", "status": "True", "reason": "UnpackingInProgress"}));
    facts.jobs = Ok(vec![job("Suspended")]);
}

/// Seen on a cluster in an installation in which all is well.
#[rstest]
#[case::connected_since(UNREAD, |facts: &mut Facts| facts.source_mut()["status"]["connectionState"]["lastConnect"] = json!(JUST), "has read the catalog since", Kind::Subscription)]
#[case::connected_since_as_told_of_the_whole_status(
    UNREAD_LATER,
    |facts: &mut Facts| {
        facts.source_mut()["status"]["connectionState"]["lastConnect"] = json!(JUST);
        let conditions = facts.subscription["status"]["conditions"].as_array_mut().unwrap();
        conditions.last_mut().unwrap().as_object_mut().unwrap().remove("lastTransitionTime");
    },
    "has read the catalog since",
    Kind::Subscription
)]
#[case::unpacking_since(UNREAD_LATER, unpacks, "unpacking the bundle", Kind::Bundle)]
#[case::connecting(
    UNREAD,
    |facts: &mut Facts| facts.source_mut()["status"]["connectionState"]["lastObservedState"] = json!("CONNECTING"),
    "has not connected",
    Kind::CatalogSource
)]
fn a_catalog_that_was_read_since_it_could_not_be_is_waited_for_and_nobody_is_told_to_delete_it(
    #[case] message: &str,
    #[case] change: fn(&mut Facts),
    #[case] waits: &str,
    #[case] kind: Kind,
) {
    let mut facts = super::well();
    unread(&mut facts, message);
    change(&mut facts);
    let chain = super::judge(&facts, super::now());
    let told = told(&chain);
    assert_eq!(
        (chain.first.as_ref().unwrap().kind, chain.state),
        (kind, State::InProgress),
        "{told}"
    );
    assert!(told.contains(waits), "{told}");
    let links = serde_json::to_string(&chain.links).unwrap();
    assert!(!links.contains("mend or delete"), "{links}");
}

#[rstest]
#[case::another_catalog("error using catalogsource olm/flea: failed to list bundles", JUST)]
#[case::ours_and_another(
    "[error using catalogsource olm/fair: failed to list bundles, error using catalogsource olm/flea: failed to list bundles]",
    JUST
)]
#[case::ours_for_long(UNREAD, BEFORE)]
fn a_catalog_that_is_not_read_though_time_has_passed_or_is_not_ours_is_wrong(
    #[case] message: &str,
    #[case] connected: &str,
) {
    let mut facts = super::well();
    unread(&mut facts, message);
    facts.source_mut()["status"]["connectionState"]["lastConnect"] = json!(connected);
    let chain = super::judge(&facts, super::now());
    assert_eq!(chain.state, State::Wrong);
    assert!(
        told(&chain).contains("one catalog that OLM cannot read"),
        "{}",
        told(&chain)
    );
}

#[test]
fn a_neighbour_whose_name_only_begins_alike_is_not_blamed() {
    let chain = after(|facts| {
        facts.neighbours.push(neighbour("gadget", "trinkets"));
        unresolved(
            facts,
            "no operators found in channel stable of package gadgets in the catalog referenced by subscription gadgets",
        );
    });
    assert!(
        told(&chain).contains("finds no version that satisfies"),
        "{}",
        told(&chain)
    );
}

#[test]
fn where_else_a_package_is_subscribed_to_and_what_is_deprecated_is_told() {
    let chain = after(|facts| {
        let mut other = subscription();
        other["metadata"]["namespace"] = json!("toys");
        facts.elsewhere.push(other);
        condition(
            &mut facts.subscription,
            "Deprecated",
            "Deprecated",
            "olm.channel/stable: use candidate",
        );
        facts.subscription["spec"]["startingCSV"] = json!("gadgets.v1.1.0");
        facts.subscription["spec"]["installPlanApproval"] = json!("Manual");
    });
    assert_eq!(chain.state, State::Well);
    let link = serde_json::to_value(&chain.links[3]).unwrap();
    assert_eq!(link["details"]["alsoIn"], "toys");
    assert_eq!(link["details"]["deprecated"], "olm.channel/stable: use candidate");
    assert_eq!(link["details"]["pinned"], "by startingCSV");
}

fn unpack_failed(facts: &mut Facts) {
    facts.nothing_installed();
    condition(
        &mut facts.subscription,
        "BundleUnpackFailed",
        "BundleUnpackFailed",
        "Bundle unpacking failed - DeadlineExceeded: Job was active longer than specified deadline",
    );
}

#[rstest]
#[case::that_took_too_long(
    |facts: &mut Facts| {
        unpack_failed(facts);
        let mut job = job("Failed");
        job["status"]["conditions"][0]["reason"] = json!("DeadlineExceeded");
        job["status"]["conditions"][0]["message"] = json!("Job was active longer than specified deadline");
        facts.jobs = Ok(vec![job]);
    },
    &["example.org/gadgets-bundle:v1.1.0 is not unpacked", "the Job: DeadlineExceeded: Job was active longer", "kubectl -n olm delete job 5dd1f"],
)]
#[case::whose_image_cannot_be_pulled(
    |facts: &mut Facts| {
        facts.nothing_installed();
        facts.jobs = Ok(vec![job("Suspended")]);
        facts.job_pods = Ok(vec![pod_with("olm", "5dd1f-abc", "pull", waiting("ImagePullBackOff", "Back-off pulling image: not found"), json!({}))]);
    },
    &["ImagePullBackOff in container pull of pod olm/5dd1f-abc", "not found", "kubectl -n olm delete job 5dd1f"],
)]
#[case::whose_job_is_gone(
    unpack_failed,
    &["A bundle that this namespace needs", "DeadlineExceeded", "kubectl -n olm get jobs,pods -l operatorframework.io/bundle-unpack-ref"],
)]
#[case::that_a_plan_tells_of(
    |facts: &mut Facts| {
        facts.plan_mut()["status"]["phase"] = json!("Installing");
        facts.plan_mut()["status"]["bundleLookups"][0]["conditions"] = json!([
            {"type": "BundleLookupFailed", "status": "True", "reason": "BackoffLimitExceeded", "message": "Job has reached the specified backoff limit"},
        ]);
    },
    &["condition BundleLookupFailed: BackoffLimitExceeded: Job has reached"],
)]
fn a_bundle_is_wrong(#[case] broken: fn(&mut Facts), #[case] phrases: &[&str]) {
    expect(broken, Kind::Bundle, State::Wrong, phrases);
}

#[test]
fn a_bundle_that_is_being_unpacked_is_waited_for() {
    expect(
        |facts| {
            facts.nothing_installed();
            facts.jobs = Ok(vec![job("Suspended")]);
        },
        Kind::Bundle,
        State::InProgress,
        &["is unpacking the bundle"],
    );
}

/// The Subscription still names what is installed, and so does its plan.
#[rstest]
#[case::the_only_one_after_it(&["1.1.0", "1.2.0", "1.0.0"], "gadgets.v1.2.0")]
#[case::one_of_several(&["1.1.0", "1.2.0", "1.3.0"], "gadgets")]
#[case::one_that_the_catalog_does_not_show_yet(&["1.1.0"], "gadgets")]
fn what_is_unpacked_in_an_upgrade_is_not_called_what_is_installed(
    #[case] versions: &[&str],
    #[case] named: &str,
) {
    let mut facts = super::well();
    let entry = |version: &&str| json!({"name": format!("gadgets.v{version}"), "version": version});
    let entries: Vec<Value> = versions.iter().map(entry).collect();
    let mut package = package();
    package["status"]["channels"][1]["entries"] = json!(entries);
    package["status"]["channels"][1]["currentCSV"] = json!("gadgets.v9");
    facts.package = Ok(Some(package));
    let mut job = job("Suspended");
    job["metadata"]["creationTimestamp"] = json!(JUST);
    facts.jobs = Ok(vec![job]);
    let chain = super::judge(&facts, super::now());
    let link = chain.links.iter().find(|link| link.kind == Kind::Bundle).unwrap();
    assert_eq!((link.name.as_str(), link.mark), (named, Mark::Waiting));
    assert!(!link.details.iter().any(|(name, _)| *name == "image"), "{link:?}");
}

/// OLM leaves `BundleUnpacking` in place.
#[test]
fn a_bundle_whose_job_is_complete_is_unpacked_whatever_the_subscription_says() {
    let chain = after(|facts| facts.subscription["status"]["state"] = json!("AtLatestKnown"));
    assert_eq!(mark(&chain, Kind::Bundle), Mark::Ok);
}

#[test]
fn the_job_of_a_bundle_has_the_name_that_olm_gives_it() {
    let mut facts = super::well();
    let mut ours = job("Suspended");
    let path = facts.plan_mut()["status"]["bundleLookups"][0]["path"]
        .as_str()
        .unwrap()
        .to_owned();
    ours["metadata"]["name"] = json!(crate::olm::status::bundle::job_name(&path));
    ours["metadata"]["creationTimestamp"] = json!("2020-01-01T00:00:00Z");
    facts.jobs = Ok(vec![job("Suspended"), ours.clone()]);
    facts.plan_mut()["status"]["bundleLookups"][0]["conditions"] =
        json!([{"type": "BundleLookupPending", "status": "True"}]);
    let chain = super::judge(&facts, super::now());
    let link = serde_json::to_value(chain.links.iter().find(|link| link.kind == Kind::Bundle)).unwrap();
    assert_eq!(
        link["details"]["job"],
        format!("olm/{}", ours["metadata"]["name"].as_str().unwrap())
    );
    assert_eq!(
        crate::olm::status::bundle::job_name("localhost:5000/roadstead-bundle:v0.3.1-b5bb84a30a"),
        REAL_JOB
    );
}

/// As OLM itself named it, on a cluster.
const REAL_JOB: &str = "6f52000f5f2c4b273532c499ba1c5dce76df4ece5ea55888937c676459b05b9";

fn pending_plan(facts: &mut Facts, phase: &str) {
    facts.nothing_installed();
    facts.subscription["status"]["state"] = json!("UpgradePending");
    facts.subscription["status"]["currentCSV"] = json!("gadgets.v1.1.0");
    facts.subscription["status"]["installPlanRef"] = json!({"name": "install-abcde"});
    facts.plan = super::well().plan;
    facts.plan_mut()["status"]["phase"] = json!(phase);
}

#[test]
fn a_plan_that_waits_for_approval_says_how_it_is_given() {
    expect(
        |facts| {
            pending_plan(facts, "RequiresApproval");
            facts.subscription["spec"]["installPlanApproval"] = json!("Manual");
        },
        Kind::InstallPlan,
        State::InProgress,
        &[
            "gadgets.v1.1.0 waits for somebody's approval",
            "installPlanApproval: Manual",
            "kubectl -n tools patch installplan install-abcde --type merge -p '{\"spec\":{\"approved\":true}}'",
        ],
    );
}

#[test]
fn a_plan_that_a_neighbour_has_made_manual_says_so() {
    expect(
        |facts| pending_plan(facts, "RequiresApproval"),
        Kind::InstallPlan,
        State::InProgress,
        &["another one of the namespace does not"],
    );
}

#[test]
fn a_plan_that_is_carried_out_tells_what_is_not_done() {
    expect(
        |facts| {
            pending_plan(facts, "Installing");
            facts.plan_mut()["status"]["message"] =
                json!("retrying execution due to error: roles.rbac.authorization.k8s.io is forbidden");
            facts.plan_mut()["status"]["plan"] = json!([
                step("ClusterServiceVersion", "gadgets.v1.1.0", "Created"),
                step("Role", "gadgets", "Unknown")
            ]);
        },
        Kind::InstallPlan,
        State::InProgress,
        &["retrying execution due to error", "Role gadgets (Unknown)"],
    );
}

#[rstest]
#[case::that_has_failed(
    |facts: &mut Facts| {
        pending_plan(facts, "Failed");
        facts.plan_mut()["status"]["conditions"] = json!([{"type": "Installed", "status": "False", "reason": "InstallComponentFailed",
            "message": "error validating existing CRs against new CRD's schema", "lastTransitionTime": BEFORE}]);
    },
    &["has failed", "InstallComponentFailed: error validating existing CRs", "OLM tries no plan again", "kubectl -n tools delete subscriptions.operators.coreos.com gadgets"],
)]
#[case::from_which_olm_goes_on(
    |facts: &mut Facts| {
        pending_plan(facts, "Failed");
        facts.subscription["status"]["state"] = json!("UpgradeFailed");
    },
    &["publish a version that replaces or skips the one that failed"],
)]
#[case::that_is_gone(
    |facts: &mut Facts| {
        pending_plan(facts, "");
        facts.plan = Ok(None);
    },
    &["is gone, and OLM makes no other"],
)]
fn a_plan_is_wrong(#[case] broken: fn(&mut Facts), #[case] phrases: &[&str]) {
    expect(broken, Kind::InstallPlan, State::Wrong, phrases);
}

#[test]
fn a_plan_that_was_carried_out_may_go() {
    let chain = after(|facts| facts.plan = Ok(None));
    assert_eq!(chain.state, State::Well, "{:#?}", chain.first);
}

/// The Jobs of all namespaces are in that of a catalog for all.
#[test]
fn a_job_for_another_namespace_is_not_taken_for_ours() {
    let chain = after(|facts| {
        let mut job = job("Failed");
        job["metadata"]["creationTimestamp"] = json!(JUST);
        facts.jobs = Ok(vec![job]);
    });
    assert_eq!(chain.state, State::Well, "{:#?}", chain.first);
}

const ORPHANED: &str = "constraints not satisfiable: clusterserviceversion gadgets.v1.0.0 exists and is not referenced by a subscription, subscription gadgets exists";

fn orphaned(facts: &mut Facts, phase: &str) {
    let reason = "ConstraintsNotSatisfiable";
    condition(&mut facts.subscription, "ResolutionFailed", reason, ORPHANED);
    if !phase.is_empty() {
        let csvs = facts.csvs.as_mut().unwrap();
        csvs.push(csv_in("gadgets.v1.0.0", "", phase, "", ""));
    }
}

/// Seen on a cluster just after an upgrade.
#[rstest]
#[case::leaving("Replacing", State::InProgress)]
#[case::gone_while_what_the_resolver_said_stays("", State::Well)]
fn a_version_that_leaves_at_the_end_of_an_upgrade_is_not_what_is_wrong(
    #[case] phase: &str,
    #[case] state: State,
) {
    let mut facts = super::well();
    orphaned(&mut facts, phase);
    let chain = super::judge(&facts, super::now());
    assert_eq!(chain.state, state, "{}", told(&chain));
    let said = serde_json::to_string(&chain.links).unwrap();
    let is_told = said.contains("has not looked again since gadgets.v1.0.0 has gone");
    assert_eq!(is_told, phase.is_empty(), "{said}");
}

/// Then somebody waits for OLM to look.
#[rstest]
#[case::a_newer_version_is_there(|facts: &mut Facts| {
    let mut package = package();
    package["status"]["channels"][1]["currentCSV"] = json!("gadgets.v1.2.0");
    facts.package = Ok(Some(package));
})]
#[case::nobody_knows_what_is_there(|facts: &mut Facts| facts.package = Err("no answer".to_owned()))]
fn a_version_that_was_in_the_way_and_has_gone_is_waited_for_where_there_may_be_something_to_install(
    #[case] change: fn(&mut Facts),
) {
    let mut facts = super::well();
    orphaned(&mut facts, "");
    change(&mut facts);
    let chain = super::judge(&facts, super::now());
    let link = chain
        .links
        .iter()
        .find(|link| link.kind == Kind::Subscription)
        .unwrap();
    let trouble = link.trouble.as_ref().unwrap();
    assert!(
        trouble
            .what
            .contains("gadgets.v1.0.0 was in the way and has gone"),
        "{trouble:?}"
    );
}

/// OLM does not see that somebody has taken the advice.
#[test]
fn who_has_deleted_a_version_that_was_in_the_way_is_told_how_olm_gets_to_know() {
    let chain = after(|facts| {
        facts.nothing_installed();
        facts.csvs = Ok(Vec::new());
        orphaned(facts, "");
    });
    assert_eq!(chain.state, State::InProgress, "{}", told(&chain));
    let told = told(&chain);
    for words in [
        "gadgets.v1.0.0 was in the way and has gone",
        "annotate --overwrite subscriptions.operators.coreos.com gadgets",
    ] {
        assert!(told.contains(words), "{told}");
    }
}

/// Seen on a cluster where somebody subscribed to another package before the plan was approved.
#[test]
fn a_plan_whose_versions_another_plan_has_brought_is_waited_for_no_more() {
    let chain = after(|facts| facts.plan_mut()["status"]["phase"] = json!("RequiresApproval"));
    assert_eq!(chain.state, State::Well, "{:#?}", chain.first);
}
