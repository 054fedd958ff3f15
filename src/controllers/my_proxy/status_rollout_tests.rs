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
    Loaded::Loading {
        serving: 1,
        pods: 2,
        waiting: Some("edge-b".into()),
    }
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

/// The status, at this second, of a proxy that is rolled out.
fn with_loaded(before: MyProxyStatus, loaded: &Loaded, since: Timestamp, second: i64) -> MyProxyStatus {
    let (mut proxy, plan) = (proxy("edge", json!({})), plan_with(Verdict::Active, true));
    proxy.status = Some(before);
    let serving = serving();
    let live = Live {
        deployment: Some(&serving),
        earlier: &[],
        pods: &[],
        failure: None,
    };
    let seen = Seen {
        intent: Intent::CarryOut(&plan),
        live,
        loaded,
        loading_since: since,
    };
    compute(&proxy, &seen, at(second))
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
    silent(), ["Unknown", "False", "True"], "PodsUnreachable", "Running",
    "what pod edge-b serves is not known: it has no address (does a NetworkPolicy"
)]
fn a_proxy_is_up_to_date_and_ready_when_its_pods_serve_what_was_accepted_or_cannot_be_asked(
    #[case] loaded: Loaded,
    #[case] states: [&str; 3],
    #[case] reason: &str,
    #[case] phase: &str,
    #[case] message: &str,
) {
    let status = with_loaded(MyProxyStatus::default(), &loaded, at(0), 0);
    let found = [UP_TO_DATE, PROGRESSING, READY].map(|type_| said(&status, type_).0);
    assert_eq!(found.each_ref().map(String::as_str), states);
    let (_, told, text) = said(&status, UP_TO_DATE);
    assert_eq!((told.as_str(), status.phase.as_deref()), (reason, Some(phase)));
    assert!(text.starts_with(message), "{text}");
    assert_eq!(said(&status, AVAILABLE).0, "True");
}

#[test]
fn pods_that_load_for_minutes_are_told_of_and_forgiven() {
    let refused = with_loaded(MyProxyStatus::default(), &refused_by_pod(), at(0), 0);
    let begun = with_loaded(refused, &loading(), at(1000), 1000);
    let patient = with_loaded(begun, &loading(), at(1000), 1300);
    assert_eq!(said(&patient, UP_TO_DATE).1, "Loading");
    let stalled = with_loaded(patient, &loading(), at(1000), 1301);
    let (state, reason, message) = said(&stalled, UP_TO_DATE);
    assert_eq!((state.as_str(), reason.as_str()), ("False", "LoadingStalled"));
    assert!(message.contains("pod edge-b has not taken it"), "{message}");
    assert_eq!(stalled.phase.as_deref(), Some("Degraded"));
    // By an operator that was started again, too.
    assert_eq!(with_loaded(stalled.clone(), &loading(), at(9000), 9000), stalled);
    let well = with_loaded(stalled, &Loaded::Everywhere, at(9001), 9001);
    assert_eq!(said(&well, READY).0, "True");
}

#[test]
fn nobody_says_that_pods_are_up_to_date_when_it_is_lost_what_they_should_serve() {
    let status = with_loaded(MyProxyStatus::default(), &Loaded::NothingToServe, at(0), 0);
    assert_eq!(said(&status, UP_TO_DATE).0, "Unknown");
}
