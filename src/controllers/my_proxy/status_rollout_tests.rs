//! What is said of how far things have got: UpToDate, Progressing and the phase.

use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::controllers::my_proxy::testing::*;

#[rstest]
#[case::fresh(json!({}), "Creating", "False", "RollingOut")]
#[case::one_of_two(json!({"observedGeneration": 3, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 1}), "Creating", "False", "RollingOut")]
#[case::rolling(json!({"observedGeneration": 3, "replicas": 3, "updatedReplicas": 1, "availableReplicas": 2}), "Updating", "True", "RollingOut")]
#[case::not_seen_yet(json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2}), "Updating", "True", "RollingOut")]
#[case::stalled(
    json!({"observedGeneration": 3, "replicas": 3, "updatedReplicas": 1, "availableReplicas": 2,
        "conditions": [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]}),
    "Degraded", "True", "Stalled"
)]
// Told of an earlier spec, and no verdict on this one.
#[case::stalled_before(
    json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 1, "availableReplicas": 2,
        "conditions": [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]}),
    "Updating", "True", "RollingOut"
)]
#[case::a_pod_lost_later(
    json!({"observedGeneration": 3, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 1,
        "conditions": [{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}]}),
    "Failed", "False", "Complete"
)]
#[case::well(json!({"observedGeneration": 3, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2}), "Running", "True", "Complete")]
fn phase_and_progress_follow_the_deployment(
    #[case] live: Value,
    #[case] phase: &str,
    #[case] available: &str,
    #[case] progress: &str,
) {
    let status = status_of(
        MyProxyStatus::default(),
        Verdict::Active,
        Some(&deployment(live)),
        &[],
    );
    assert_eq!(
        (
            status.phase.as_deref(),
            said(&status, AVAILABLE).0.as_str(),
            said(&status, PROGRESSING).1.as_str()
        ),
        (Some(phase), available, progress)
    );
    let ready = if phase == "Running" { "True" } else { "False" };
    assert_eq!(
        said(&status, READY).0,
        ready,
        "ready only once all of it is rolled out"
    );
}

#[test]
fn while_a_rollout_is_under_way_ready_says_what_it_waits_for_and_available_that_pods_serve() {
    let live = json!({"observedGeneration": 3, "replicas": 3, "updatedReplicas": 1, "availableReplicas": 2});
    let status = status_of(
        MyProxyStatus::default(),
        Verdict::Active,
        Some(&deployment(live)),
        &[],
    );
    let (state, reason, message) = said(&status, READY);
    assert_eq!(
        (state.as_str(), reason.as_str(), message.as_str()),
        ("False", "RollingOut", "1 of 2 pods are up to date")
    );
    assert_eq!(said(&status, AVAILABLE).2, "2 of 2 pods are ready");
}

fn loading() -> Loaded {
    Loaded::Loading { serving: 1, pods: 2 }
}

fn refused_by_pod() -> Loaded {
    Loaded::Refused {
        pod: "edge-b".into(),
        reason: "[emerg] no".into(),
    }
}

fn silent() -> Loaded {
    Loaded::Silent {
        pod: "edge-b".into(),
        error: "it has no address".into(),
    }
}

#[rstest]
#[case::everywhere(Loaded::Everywhere, ["True", "False", "True"], "Complete", "Running", "all pods are up to date")]
#[case::not_asked(Loaded::NotAsked, ["True", "False", "True"], "Complete", "Running", "all pods are up to date")]
#[case::loading(loading(), ["False", "True", "False"], "Loading", "Updating", "1 of 2 pods serve the configuration")]
#[case::refused(
    refused_by_pod(), ["False", "False", "False"], "RefusedByPod", "Degraded",
    "pod edge-b keeps what it served before: [emerg] no"
)]
#[case::silent(
    silent(), ["Unknown", "False", "Unknown"], "PodsUnreachable", "Degraded",
    "what pod edge-b serves is not known: it has no address (does a NetworkPolicy"
)]
fn a_proxy_is_up_to_date_and_ready_only_when_its_pods_serve_what_was_accepted(
    #[case] loaded: Loaded,
    #[case] states: [&str; 3],
    #[case] reason: &str,
    #[case] phase: &str,
    #[case] message: &str,
) {
    let (proxy, plan) = (proxy("edge", json!({})), plan_with(Verdict::Active, true));
    let serving = serving();
    let seen = Seen {
        plan: Ok(&plan),
        deployment: Some(&serving),
        earlier: &[],
        pods: &[],
        failure: None,
        loaded: &loaded,
    };
    let status = compute(&proxy, &seen, at(0));
    let found = [UP_TO_DATE, PROGRESSING, READY].map(|type_| said(&status, type_).0);
    assert_eq!(found.each_ref().map(String::as_str), states);
    let (_, told, text) = said(&status, UP_TO_DATE);
    assert_eq!((told.as_str(), status.phase.as_deref()), (reason, Some(phase)));
    assert!(text.starts_with(message), "{text}");
    assert_eq!(said(&status, AVAILABLE).0, "True");
}

#[test]
fn pods_are_asked_once_all_of_the_wanted_deployment_run_and_only_ready_ones() {
    let ready = |name: &str, ready: &str| {
        let pod = json!({
            "metadata": {"name": name, "labels": {APP: "edge", COMPONENT: PROXY}},
            "status": {"phase": "Running", "podIP": "10.0.0.7", "conditions": [{"type": "Ready", "status": ready}]},
        });
        Arc::new(serde_json::from_value::<Pod>(pod).unwrap())
    };
    let pods = [
        ready("edge-a", "True"),
        ready("edge-b", "False"),
        pod("edge-c", "edge", PROXY, "Running", true),
    ];
    let plan = plan_with(Verdict::Active, true);
    let rolling = deployment(
        json!({"observedGeneration": 3, "replicas": 3, "updatedReplicas": 1, "availableReplicas": 2}),
    );
    let asked = |deployment: Deployment, earlier: &[Arc<Deployment>]| {
        to_ask(&Seen {
            plan: Ok(&plan),
            deployment: Some(&deployment),
            earlier,
            pods: &pods,
            failure: None,
            loaded: &Loaded::NotAsked,
        })
    };
    let edge_a = Target {
        pod: "edge-a".into(),
        address: Some([10, 0, 0, 7].into()),
    };
    assert_eq!(asked(serving(), &[]), [edge_a]);
    assert!(asked(rolling, &[]).is_empty());
    assert!(asked(serving(), &[Arc::new(serving())]).is_empty());
}
