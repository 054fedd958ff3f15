use rstest::rstest;
use serde_json::json;

use super::*;
use crate::api::my_proxy::validate;
use crate::controllers::my_proxy::desired::names::PROXY;
use crate::controllers::my_proxy::testing::*;
use crate::runtime::key::ObjectKey;

#[test]
fn a_proxy_that_serves_as_asked() {
    insta::assert_yaml_snapshot!(status_of(
        MyProxyStatus::default(),
        Verdict::Active,
        Some(&serving()),
        &[]
    ));
}

#[test]
fn a_refused_configuration_with_an_older_one_serving() {
    insta::assert_yaml_snapshot!(status_of(
        MyProxyStatus::default(),
        refused(),
        Some(&serving()),
        &[]
    ));
}

#[rstest]
#[case::active(Verdict::Active, "True", "Accepted", "nginx accepts the configuration")]
#[case::passed(Verdict::Passed, "True", "Accepted", "nginx accepts the configuration")]
#[case::due(Verdict::Due { attempt: 1 }, "Unknown", "Checking", "nginx -t is being run on the configuration")]
#[case::refused(
    refused(),
    "False",
    "Refused",
    "nginx refuses the configuration: [emerg] no; nothing serves yet"
)]
#[case::image(
    running(Some("container check: ImagePullBackOff")),
    "Unknown",
    "CheckWaiting",
    "Job edge-check-x-1 waits to run nginx -t: container check: ImagePullBackOff; nothing serves yet"
)]
#[case::secret(
    running(Some("container install: PodInitializing")),
    "Unknown",
    "CheckWaiting",
    "Job edge-check-x-1 waits to run nginx -t: its pod is still being set up; Secret edge-tls with tls.crt and tls.key has to exist for that (container install: PodInitializing); nothing serves yet"
)]
#[case::failed(
    Verdict::Failed { message: Some("Evicted".into()), retry: at(1) }, "Unknown", "CheckFailed",
    "nginx -t could not be run: Evicted; nothing serves yet"
)]
fn config_valid_says_what_nginx_said(
    #[case] verdict: Verdict,
    #[case] status: &str,
    #[case] reason: &str,
    #[case] message: &str,
) {
    let said = said(
        &status_of(MyProxyStatus::default(), verdict, None, &[]),
        CONFIG_VALID,
    );
    assert_eq!(
        (said.0.as_str(), said.1.as_str(), said.2.as_str()),
        (status, reason, message)
    );
}

#[test]
fn a_check_that_ran_out_of_time_tells_what_it_waited_for() {
    let waited = status_of(
        MyProxyStatus::default(),
        running(Some("container check: ImagePullBackOff")),
        None,
        &[],
    );
    let failed = Verdict::Failed {
        message: Some("Job was active longer than specified deadline".into()),
        retry: at(1),
    };
    // The pod is gone before the Job has failed.
    let waited = status_of(waited, running(None), None, &[]);
    let first = status_of(waited, failed.clone(), None, &[]);
    assert!(said(&first, CONFIG_VALID).2.contains("could not be run in time: Job edge-check-x-1 waits to run nginx -t: container check: ImagePullBackOff"));
    // And says the same as long as nothing else happens.
    assert_eq!(
        status_of(first.clone(), failed, None, &[]).conditions,
        first.conditions
    );
}

#[test]
fn what_the_last_attempt_said_stays_while_the_next_one_runs() {
    let before = status_of(MyProxyStatus::default(), refused(), None, &[]);
    let again = Verdict::Running {
        job: "j".into(),
        attempt: 2,
        look: at(180),
        waiting: None,
    };
    // All of it: a re-check is no news and nothing that gets on.
    assert_eq!(status_of(before.clone(), again, None, &[]), before);
}

#[test]
fn an_invalid_spec_is_told_and_what_serves_goes_on() {
    let proxy = proxy("edge", json!({"routes": [{"path": "/", "upstream": "no"}]}));
    let problems = validate(&proxy).unwrap_err();
    let serving = serving();
    let seen = Seen {
        intent: Intent::Refuse(&problems),
        live: Live {
            deployment: Some(&serving),
            earlier: &[],
            pods: &[],
            failure: None,
        },
        loaded: &Loaded::NotAsked,
        loading_since: at(0),
    };
    let status = compute(&proxy, &seen, at(0));
    assert_eq!(
        said(&status, CONFIG_VALID).2,
        "spec.routes[0].upstream is \"no\"; it must be the name of one of spec.upstreams; the last good configuration keeps serving"
    );
    assert_eq!(
        (said(&status, AVAILABLE).0, said(&status, READY).0),
        ("True".into(), "False".into())
    );
    assert_eq!(status.phase.as_deref(), Some("Degraded"));
}

#[test]
fn a_name_that_is_taken_is_told() {
    let (proxy, plan) = (proxy("edge", json!({})), plan_with(Verdict::Active, true));
    let failure = ApplyError::NotOurs {
        kind: "Deployment".into(),
        key: ObjectKey::namespaced("shop", "edge"),
        owner: "MyProxy other".into(),
    };
    let seen = Seen {
        intent: Intent::CarryOut(&plan),
        live: Live {
            deployment: None,
            earlier: &[],
            pods: &[],
            failure: Some(&failure),
        },
        loaded: &Loaded::NotAsked,
        loading_since: at(0),
    };
    let status = compute(&proxy, &seen, at(0));
    let (state, reason, message) = said(&status, READY);
    assert_eq!(
        (state.as_str(), reason.as_str(), status.phase.as_deref()),
        ("False", "NameTaken", Some("Failed"))
    );
    assert!(
        message.starts_with("Deployment shop/edge exists and belongs to MyProxy other"),
        "{message}"
    );
}

#[test]
fn while_a_check_runs_it_is_unknown_whether_what_serves_is_what_is_asked_for() {
    let status = status_of(MyProxyStatus::default(), running(None), Some(&serving()), &[]);
    assert_eq!(said(&status, READY).0, "Unknown");
    assert_eq!(said(&status, READY).1, "Checking");
    assert_eq!(said(&status, AVAILABLE).0, "True");
}

#[test]
fn while_a_name_changes_the_pods_of_the_earlier_one_serve_and_ready_waits_for_the_new_one() {
    let (proxy, plan) = (proxy("edge", json!({})), plan_with(Verdict::Active, true));
    let (mut old, fresh) = (serving(), deployment(json!({})));
    old.metadata.name = Some("old".into());
    let (earlier, done) = ([Arc::new(old)], serving());
    let seen = |deployment| Seen {
        intent: Intent::CarryOut(&plan),
        live: Live {
            deployment: Some(deployment),
            earlier: &earlier,
            pods: &[],
            failure: None,
        },
        loaded: &Loaded::NotAsked,
        loading_since: at(0),
    };
    let status = compute(&proxy, &seen(&fresh), at(0));
    assert_eq!(said(&status, AVAILABLE).0, "True");
    assert_eq!(said(&status, READY).1, "RollingOut");
    let status = compute(&proxy, &seen(&done), at(0));
    assert_eq!(
        (said(&status, READY).0, said(&status, READY).1),
        ("False".into(), "Renaming".into())
    );
}

#[test]
fn a_write_that_fails_takes_nothing_from_the_pods_that_serve() {
    let (proxy, plan, serving) = (
        proxy("edge", json!({})),
        plan_with(Verdict::Active, true),
        serving(),
    );
    let pods = [pod("edge-a", "edge", PROXY, "Running", false)];
    let failure = ApplyError::Rejected {
        kind: "Deployment".into(),
        key: ObjectKey::namespaced("shop", "edge"),
        message: "exceeded quota".into(),
    };
    let seen = Seen {
        intent: Intent::CarryOut(&plan),
        live: Live {
            deployment: Some(&serving),
            earlier: &[],
            pods: &pods,
            failure: Some(&failure),
        },
        loaded: &Loaded::NotAsked,
        loading_since: at(0),
    };
    let status = compute(&proxy, &seen, at(0));
    assert_eq!((status.replicas, status.pod_names.len()), (2, 1));
    assert!(status.selector.is_some());
    assert_eq!(said(&status, AVAILABLE).0, "True");
    for type_ in [PROGRESSING, READY] {
        let (state, reason, message) = said(&status, type_);
        assert_eq!((state.as_str(), reason.as_str()), ("False", "Rejected"));
        assert!(message.ends_with("exceeded quota"), "{message}");
    }
    assert_eq!(status.phase.as_deref(), Some("Degraded"));
}

#[test]
fn pod_names_are_sorted_and_without_pods_that_go_away() {
    let pods = [
        pod("edge-b", "edge", PROXY, "Running", false),
        pod("edge-a", "edge", PROXY, "Pending", false),
        pod("edge-c", "edge", PROXY, "Running", true),
        pod("edge-d", "edge", PROXY, "Failed", false),
        pod("edge-check", "edge", "check", "Running", false),
        pod("old-a", "old", PROXY, "Running", false),
    ];
    let status = status_of(MyProxyStatus::default(), Verdict::Active, Some(&serving()), &pods);
    assert_eq!(status.pod_names, ["edge-a", "edge-b"]);
}

#[test]
fn the_same_observations_give_the_same_status() {
    let first = status_of(MyProxyStatus::default(), Verdict::Active, Some(&serving()), &[]);
    assert_eq!(
        status_of(first.clone(), Verdict::Active, Some(&serving()), &[]),
        first
    );
}

#[test]
fn a_deletion_is_told() {
    let mut proxy = proxy("edge", json!({}));
    proxy.status = Some(status_of(
        MyProxyStatus::default(),
        Verdict::Active,
        Some(&serving()),
        &[],
    ));
    let status = deleting(&proxy, &[], at(0));
    assert_eq!(
        (status.phase.as_deref(), said(&status, READY).1.as_str()),
        (Some("Deleting"), "Deleting")
    );
    proxy.status = Some(status.clone());
    assert_eq!(deleting(&proxy, &[], at(9)), status);
}

#[test]
fn while_a_proxy_is_deleted_its_pods_are_those_that_are_left_and_what_is_unknown_stays_so() {
    let mut proxy = proxy("edge", json!({}));
    let before = status_of(MyProxyStatus::default(), running(None), Some(&serving()), &[]);
    proxy.status = Some(before);
    let pods = [
        pod("edge-a", "edge", PROXY, "Running", false),
        pod("edge-b", "edge", PROXY, "Running", true),
        pod("edge-check", "edge", "check", "Running", false),
    ];
    let status = deleting(&proxy, &pods, at(0));
    assert_eq!(status.pod_names, ["edge-a"]);
    assert_eq!((status.replicas, status.ready_replicas), (1, 0));
    assert_eq!(said(&status, CONFIG_VALID).0, "Unknown");
}

fn paused(before: MyProxyStatus, deployment: Option<&Deployment>) -> MyProxyStatus {
    let mut proxy = proxy("edge", json!({}));
    proxy.status = Some(before);
    let seen = Seen {
        intent: Intent::Pause,
        live: Live {
            deployment,
            earlier: &[],
            pods: &[],
            failure: None,
        },
        loaded: &Loaded::NotAsked,
        loading_since: at(0),
    };
    compute(&proxy, &seen, at(60))
}

#[test]
fn a_proxy_that_is_paused_is_ready_while_it_serves_and_says_that_nothing_is_changed() {
    let before = status_of(MyProxyStatus::default(), Verdict::Active, Some(&serving()), &[]);
    let status = paused(before, Some(&serving()));
    assert_eq!(said(&status, READY).0, "True");
    let ready = find(&status.conditions, READY).unwrap();
    assert!(
        ready
            .message
            .starts_with("it serves as it is; spec.paused is true"),
        "{}",
        ready.message
    );
    assert_eq!(said(&status, CONFIG_VALID).1, "Accepted");
    for condition in [UP_TO_DATE, PROGRESSING] {
        assert_eq!(said(&status, condition).1, "Paused");
    }
    assert_eq!(status.phase.as_deref(), Some("Running"));
}

#[test]
fn a_proxy_that_is_paused_from_the_beginning_has_not_failed() {
    let status = paused(MyProxyStatus::default(), None);
    assert_eq!(status.phase.as_deref(), Some("Creating"));
    assert_eq!(said(&status, CONFIG_VALID).1, "Paused");
    assert_eq!(said(&status, READY).0, "False");
}
