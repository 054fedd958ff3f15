//! ClusterServiceVersion, OperatorCondition, Deployment.

use rstest::rstest;
use serde_json::{Value, json};

use super::world::{JUST, csv_in, operator_condition, pod_with, terminated, waiting};
use super::{Mark, after, expect, mark, told};
use crate::olm::status::{Facts, Kind, State};

#[rstest]
#[case::that_lacks_what_it_requires(
    |facts: &mut Facts| {
        *facts.csv_mut() = csv_in("gadgets.v1.1.0", "", "Pending", "RequirementsNotMet", "one or more requirements couldn't be found");
        facts.csv_mut()["status"]["requirementStatus"] = json!([
            {"kind": "CustomResourceDefinition", "name": "screws.example.org", "status": "NotPresent", "message": "CRD is not present"},
            {"kind": "ServiceAccount", "name": "gadgets", "status": "PresentNotSatisfied", "message": "Policy rule not satisfied for service account",
             "dependents": [{"kind": "PolicyRule", "status": "NotSatisfied", "message": "cluster rule:{\"verbs\":[\"get\"]}"}, {"status": "Satisfied", "message": "fine"}]},
            {"kind": "CustomResourceDefinition", "name": "gadgets.example.org", "status": "Present"},
        ]);
    },
    &["lacks what it requires", "CustomResourceDefinition screws.example.org, NotPresent: CRD is not present", "cluster rule:{\"verbs\":[\"get\"]}", "come with another operator"],
)]
#[case::that_has_failed(
    |facts: &mut Facts| *facts.csv_mut() = csv_in("gadgets.v1.1.0", "", "Failed", "OwnerConflict", "gadgets.v9 also owns gadgets.example.org"),
    &["gadgets.v1.1.0 has failed", "OwnerConflict: gadgets.v9 also owns", "kubectl -n tools describe clusterserviceversion gadgets.v1.1.0"],
)]
#[case::that_somebody_has_deleted(
    |facts: &mut Facts| {
        facts.csvs = Ok(Vec::new());
        facts.deployments = Vec::new();
        facts.subscription["status"]["state"] = json!("UpgradePending");
    },
    &["gadgets.v1.1.0 is not there, although OLM has carried out the plan", "OLM waits for it"],
)]
#[case::that_nobody_looks_at(
    |facts: &mut Facts| *facts.csv_mut() = csv_in("gadgets.v1.1.0", "", "", "", ""),
    &["does not look at gadgets.v1.1.0", "app=olm-operator"],
)]
fn a_version_is_wrong(#[case] broken: fn(&mut Facts), #[case] phrases: &[&str]) {
    expect(broken, Kind::ClusterServiceVersion, State::Wrong, phrases);
}

/// Definitions are established a moment after the version is there.
#[test]
fn requirements_that_are_looked_at_are_waited_for() {
    expect(
        |facts| {
            *facts.csv_mut() = csv_in(
                "gadgets.v1.1.0",
                "",
                "Pending",
                "RequirementsNotMet",
                "one or more requirements couldn't be found",
            );
            facts.csv_mut()["status"]["lastTransitionTime"] = json!(JUST);
        },
        Kind::ClusterServiceVersion,
        State::InProgress,
        &["OLM looks at what gadgets.v1.1.0 requires"],
    );
}

#[test]
fn an_upgrade_that_the_operator_holds_back_says_why_and_how_it_is_forced() {
    expect(
        Facts::upgrade_is_held_back,
        Kind::OperatorCondition,
        State::InProgress,
        &[
            "gadgets.v1.0.0 says that it must not be upgraded now",
            "Resharding: slot 7 is on its way",
            "patch operatorcondition gadgets.v1.0.0",
            "\"overrides\"",
        ],
    );
}

#[test]
fn a_condition_of_an_earlier_generation_holds_an_upgrade_back() {
    expect(
        |facts| {
            let held = csv_in(
                "gadgets.v1.1.0",
                "gadgets.v1.0.0",
                "Pending",
                "OperatorConditionNotUpgradeable",
                "the operatorcondition status is outdated",
            );
            facts.upgrade("Replacing", held);
            facts.conditions.as_mut().unwrap()[0]["metadata"]["generation"] = json!(4);
        },
        Kind::OperatorCondition,
        State::InProgress,
        &["earlier generation"],
    );
}

#[test]
fn an_operator_that_would_hold_back_an_upgrade_is_well_while_there_is_none() {
    let chain = after(|facts| facts.conditions = Ok(vec![operator_condition("gadgets.v1.1.0", "False")]));
    assert_eq!(chain.state, State::Well);
    let link = chain
        .links
        .iter()
        .find(|link| link.kind == Kind::OperatorCondition)
        .unwrap();
    assert_eq!(link.details.len(), 1, "{:?}", link.details);
}

#[test]
fn somebody_may_override_what_the_operator_says() {
    let chain = after(|facts| {
        facts.upgrade_installs();
        let mut condition = operator_condition("gadgets.v1.0.0", "False");
        condition["spec"]["overrides"] =
            json!([{"type": "Upgradeable", "status": "True", "reason": "Forced", "message": "by hand"}]);
        facts.conditions = Ok(vec![condition]);
    });
    assert_eq!(mark(&chain, Kind::OperatorCondition), Mark::Ok);
}

#[test]
fn the_versions_of_an_upgrade_are_told_from_the_old_one_to_the_new_one() {
    let chain = after(Facts::upgrade_installs);
    let versions: Vec<&str> = chain
        .links
        .iter()
        .filter(|link| link.kind == Kind::ClusterServiceVersion)
        .map(|link| link.name.as_str())
        .collect();
    assert_eq!(versions, ["tools/gadgets.v1.0.0", "tools/gadgets.v1.1.0"]);
    assert_eq!(chain.state, State::InProgress);
}

#[test]
fn versions_that_replace_each_other_in_a_circle_come_to_an_end() {
    let chain = after(|facts| {
        let old = csv_in("gadgets.v1.0.0", "gadgets.v1.1.0", "Succeeded", "", "");
        facts.csvs.as_mut().unwrap().push(old);
    });
    assert_eq!(
        chain
            .links
            .iter()
            .filter(|link| link.kind == Kind::ClusterServiceVersion)
            .count(),
        2
    );
}

fn is_failing(facts: &mut Facts) {
    *facts.csv_mut() = csv_in(
        "gadgets.v1.1.0",
        "",
        "Failed",
        "InstallCheckFailed",
        "install timeout",
    );
}

#[rstest]
#[case::whose_image_cannot_be_pulled(
    |facts: &mut Facts| facts.operator_pod(pod_with("tools", "gadgets-x", "manager", waiting("ImagePullBackOff", "pull access denied"), json!({}))),
    &["ImagePullBackOff in container manager of pod tools/gadgets-x", "pull access denied", "kubectl -n tools describe pod gadgets-x"],
)]
#[case::that_took_too_much_memory(
    |facts: &mut Facts| {
        is_failing(facts);
        let state = waiting("CrashLoopBackOff", "back-off 2m40s restarting failed container=manager");
        facts.operator_pod(pod_with("tools", "gadgets-x", "manager", state, terminated("OOMKilled", 137)));
    },
    &["CrashLoopBackOff", "exit code 137, OOMKilled", "{\"spec\":{\"config\":{\"resources\":{\"limits\":{\"memory\":\"256Mi\"}}}}}", "logs gadgets-x -c manager --tail=40 --previous"],
)]
#[case::that_ended_and_is_not_ready_again(
    |facts: &mut Facts| {
        let running = json!({"running": {"startedAt": JUST}});
        facts.operator_pod(pod_with("tools", "gadgets-x", "manager", running, terminated("Error", 2)));
    },
    &["exit code 2, Error", "--previous"],
)]
#[case::that_fits_on_no_node(
    |facts: &mut Facts| {
        let mut pod = pod_with("tools", "gadgets-x", "manager", json!({}), json!({}));
        pod["status"] = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available: 3 Insufficient memory."}]});
        facts.operator_pod(pod);
    },
    &["Unschedulable of pod tools/gadgets-x", "3 Insufficient memory", "spec.config of the Subscription"],
)]
#[case::that_was_evicted(
    |facts: &mut Facts| {
        let mut pod = pod_with("tools", "gadgets-x", "manager", json!({}), json!({}));
        pod["status"] = json!({"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: ephemeral-storage."});
        facts.operator_pod(pod);
    },
    &["Evicted of pod tools/gadgets-x", "low on resource"],
)]
#[case::whose_pods_are_refused(
    |facts: &mut Facts| {
        facts.deployments[0].pods = Ok(Vec::new());
        let status = &mut facts.deployment_mut()["status"];
        status["readyReplicas"] = json!(0);
        status["conditions"].as_array_mut().unwrap().push(json!({"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "pods \"gadgets-6c9-\" is forbidden: exceeded quota"}));
    },
    &["ReplicaFailure: FailedCreate: pods \"gadgets-6c9-\" is forbidden: exceeded quota", "a quota"],
)]
#[case::that_does_not_get_on(
    |facts: &mut Facts| {
        let status = &mut facts.deployment_mut()["status"];
        status["readyReplicas"] = json!(0);
        status["conditions"] = json!([{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "ReplicaSet \"gadgets-6c9\" has timed out progressing."}]);
    },
    &["ProgressDeadlineExceeded", "kubectl -n tools describe pods -l app=gadgets"],
)]
#[case::that_somebody_has_deleted(|facts: &mut Facts| facts.deployments[0].deployment = Ok(None), &["The Deployment tools/gadgets is not there"])]
fn a_deployment_is_wrong(#[case] broken: fn(&mut Facts), #[case] phrases: &[&str]) {
    expect(broken, Kind::Deployment, State::Wrong, phrases);
}

#[test]
fn a_version_that_failed_for_its_deployment_lets_that_speak() {
    let chain = after(|facts| {
        is_failing(facts);
        facts.operator_pod(pod_with(
            "tools",
            "gadgets-x",
            "manager",
            waiting("ErrImagePull", ""),
            json!({}),
        ));
    });
    assert_eq!(mark(&chain, Kind::ClusterServiceVersion), Mark::Wrong);
    assert_eq!(chain.first.unwrap().kind, Kind::Deployment);
    let alone = after(is_failing);
    assert_eq!(alone.first.unwrap().kind, Kind::ClusterServiceVersion);
}

#[test]
fn a_rollout_is_waited_for() {
    expect(
        |facts| {
            *facts.csv_mut() = csv_in(
                "gadgets.v1.1.0",
                "",
                "Installing",
                "InstallWaiting",
                "waiting for deployment gadgets to become ready",
            );
            facts.deployment_mut()["status"]["updatedReplicas"] = json!(0);
        },
        Kind::Deployment,
        State::InProgress,
        &["is being rolled out"],
    );
}

/// A line for each look, in which a pull and the pause after it are the same.
#[rstest]
#[case::a_pull(waiting("ErrImagePull", ""), json!({}), "0 of 1 ready: ImagePullBackOff in container manager")]
#[case::the_pause_after_it(waiting("ImagePullBackOff", ""), json!({}), "0 of 1 ready: ImagePullBackOff in container manager")]
#[case::a_crash(terminated("Error", 1), json!({}), "0 of 1 ready: CrashLoopBackOff in container manager")]
#[case::the_pause_after_that(
    waiting("CrashLoopBackOff", ""),
    terminated("Error", 1),
    "0 of 1 ready: CrashLoopBackOff in container manager"
)]
#[case::the_next_try(json!({"running": {}}), terminated("Error", 1), "0 of 1 ready: CrashLoopBackOff in container manager")]
fn a_deployment_that_is_not_well_says_why_in_a_few_words(
    #[case] state: Value,
    #[case] last: Value,
    #[case] words: &str,
) {
    let mut facts = super::well();
    facts.operator_pod(pod_with("tools", "gadgets-x", "manager", state, last));
    assert_eq!(state_of_deployment(&facts), words);
}

fn state_of_deployment(facts: &Facts) -> String {
    let chain = super::judge(facts, super::now());
    let mut links = chain.links.into_iter();
    links.find(|link| link.kind == Kind::Deployment).unwrap().state
}

#[rstest]
#[case::that_nobody_has_looked_at("observedGeneration", 1, "1 of 1 ready, not looked at yet")]
#[case::whose_new_pod_starts("updatedReplicas", 0, "1 of 1 ready, 0 of 1 of the new version")]
#[case::whose_old_pod_leaves("replicas", 2, "1 of 1 ready, 1 of before still there")]
fn a_rollout_says_what_is_still_to_come(#[case] field: &str, #[case] value: i64, #[case] words: &str) {
    let mut facts = super::well();
    facts.deployment_mut()["status"][field] = json!(value);
    assert_eq!(state_of_deployment(&facts), words);
}

#[test]
fn a_pod_that_only_starts_and_one_that_is_leaving_are_not_what_is_wrong() {
    let chain = after(|facts| {
        let mut leaving = pod_with(
            "tools",
            "gadgets-old",
            "manager",
            waiting("CrashLoopBackOff", ""),
            json!({}),
        );
        leaving["metadata"]["deletionTimestamp"] = json!(JUST);
        let starting = pod_with(
            "tools",
            "gadgets-new",
            "manager",
            waiting("ContainerCreating", ""),
            json!({}),
        );
        facts.operator_pod(leaving);
        facts.deployments[0].pods.as_mut().unwrap().push(starting);
    });
    assert_eq!(chain.state, State::InProgress);
}

#[rstest]
#[case("128Mi", "256Mi")]
#[case("1Gi", "2Gi")]
#[case("", "512Mi")]
#[case("0.5Gi", "512Mi")]
fn twice_the_memory_is_told_where_the_limit_is_understood(#[case] limit: &str, #[case] twice: &str) {
    let mut facts = super::well();
    facts.deployment_mut()["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["memory"] =
        json!(limit);
    facts.operator_pod(pod_with(
        "tools",
        "gadgets-x",
        "manager",
        waiting("CrashLoopBackOff", ""),
        terminated("OOMKilled", 137),
    ));
    let told = told(&super::judge(&facts, super::now()));
    assert!(told.contains(&format!("{{\"memory\":\"{twice}\"}}")), "{told}");
}
