use rstest::rstest;
use serde_json::{Value, json};

use super::*;

const KEY: &str = "0123456789";

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A Job of this attempt, made at second 0.
fn job(attempt: u32, conditions: Value) -> Arc<Job> {
    let job = json!({
        "metadata": {
            "name": format!("edge-check-{KEY}-{attempt}"), "uid": format!("job-{attempt}"), "creationTimestamp": "1970-01-01T00:00:00Z",
            "labels": {CHECK: KEY, ATTEMPT: attempt.to_string()},
        },
        "status": {"conditions": conditions},
    });
    Arc::new(serde_json::from_value(job).unwrap())
}

fn failed(attempt: u32, second: i64) -> Arc<Job> {
    job(
        attempt,
        json!([{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded",
        "message": "Job has reached the specified backoff limit", "lastTransitionTime": at(second).to_string()}]),
    )
}

fn pod(attempt: u32, status: Value) -> Arc<Pod> {
    let pod = json!({
        "metadata": {"name": "p", "ownerReferences": [
            {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": format!("job-{attempt}"), "controller": true},
        ]},
        "status": status,
    });
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn ended(container: &str, code: i32, message: &str) -> Value {
    let state = json!({"name": container, "image": "", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"terminated": {"exitCode": code, "message": message, "reason": "Error"}}});
    let list = if container == CONTAINER {
        "containerStatuses"
    } else {
        "initContainerStatuses"
    };
    json!({ list: [state] })
}

fn verdict(jobs: Vec<Arc<Job>>, pods: Vec<Arc<Pod>>, now: i64) -> Verdict {
    judge(
        KEY,
        &Observed {
            jobs,
            pods,
            ..Observed::default()
        },
        at(now),
    )
}

#[test]
fn without_a_job_the_first_attempt_is_due() {
    assert_eq!(verdict(vec![], vec![], 0), Verdict::Due { attempt: 1 });
}

#[test]
fn a_job_of_another_configuration_says_nothing() {
    let mut other = (*failed(1, 5)).clone();
    other.metadata.labels = Some([(CHECK.to_owned(), "other".to_owned())].into());
    assert_eq!(
        verdict(vec![Arc::new(other)], vec![], 6),
        Verdict::Due { attempt: 1 }
    );
}

#[test]
fn a_job_that_completed_has_passed() {
    let complete = job(1, json!([{"type": "Complete", "status": "True"}]));
    assert_eq!(verdict(vec![complete], vec![], 5), Verdict::Passed);
}

#[test]
fn a_refusal_carries_what_nginx_said_until_it_is_asked_again() {
    let now = |second| {
        verdict(
            vec![failed(1, 5)],
            vec![pod(1, ended(CONTAINER, 3, "[emerg] no\n"))],
            second,
        )
    };
    assert_eq!(
        now(6),
        Verdict::Refused {
            message: "[emerg] no".into(),
            retry: at(20)
        }
    );
    assert_eq!(now(20), Verdict::Due { attempt: 2 });
}

#[rstest]
#[case::agent(ended(CONTAINER, 1, "cannot read x"), Some("cannot read x"))]
#[case::agent_without_words(ended(CONTAINER, 1, ""), Some("the check ended with code 1"))]
#[case::install(
    ended("install", 126, ""),
    Some("container install ended with code 126 (Error)")
)]
#[case::evicted(json!({"reason": "Evicted", "message": "The node was low on memory"}), Some("Evicted: The node was low on memory"))]
fn a_check_that_could_not_be_made_is_no_refusal(#[case] status: Value, #[case] message: Option<&str>) {
    let verdict = verdict(vec![failed(1, 5)], vec![pod(1, status)], 6);
    assert_eq!(
        verdict,
        Verdict::Failed {
            message: message.map(str::to_owned),
            retry: at(20)
        }
    );
}

#[test]
fn without_its_pod_a_failed_job_tells_its_own_reason() {
    let Verdict::Failed { message, .. } = verdict(vec![failed(1, 5)], vec![], 6) else {
        panic!()
    };
    assert_eq!(
        message.as_deref(),
        Some("Job has reached the specified backoff limit")
    );
}

#[test]
fn the_last_attempt_counts() {
    let jobs = vec![failed(1, 5), job(2, json!([]))];
    assert!(matches!(
        verdict(jobs, vec![], 30),
        Verdict::Running { attempt: 2, .. }
    ));
}

/// Neither when the cluster's Job controller is away nor when the operator's clock is hours ahead of the API server's.
#[test]
fn there_is_never_a_second_check_beside_one_that_has_not_ended() {
    for second in [0, 179, 180, 195, 900, 100_000] {
        let verdict = verdict(vec![job(1, json!(null))], vec![], second);
        let Verdict::Running {
            attempt: 1,
            look,
            waiting,
            ..
        } = verdict
        else {
            panic!("after {second} s: {verdict:?}")
        };
        assert!(look > at(second), "after {second} s it looks again in the past");
        assert_eq!(waiting.is_some(), second >= 180, "after {second} s: {waiting:?}");
    }
}

#[rstest]
#[case(json!({"phase": "Pending"}), None)]
#[case(
    json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}]}),
    Some("Unschedulable: 0/1 nodes")
)]
#[case(
    json!({"containerStatuses": [{"name": "check", "image": "", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}]}),
    Some("container check: ImagePullBackOff: no such image")
)]
fn a_running_check_tells_what_it_waits_for(#[case] status: Value, #[case] expected: Option<&str>) {
    let verdict = verdict(vec![job(1, json!([]))], vec![pod(1, status)], 6);
    let Verdict::Running { waiting, .. } = verdict else {
        panic!("{verdict:?}")
    };
    assert_eq!(waiting.as_deref(), expected);
}

#[test]
fn a_pod_that_is_being_made_is_worth_a_word_only_after_a_while() {
    let creating = json!({"initContainerStatuses": [{"name": "install", "image": "", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "PodInitializing"}}}]});
    let now = |second| verdict(vec![job(1, json!([]))], vec![pod(1, creating.clone())], second);
    let running = |look, waiting: Option<&str>| Verdict::Running {
        job: format!("edge-check-{KEY}-1"),
        attempt: 1,
        look: at(look),
        waiting: waiting.map(str::to_owned),
    };
    assert_eq!(now(19), running(20, None));
    assert_eq!(now(20), running(180, Some("container install: PodInitializing")));
}

#[test]
fn the_delay_doubles_up_to_its_bound() {
    let seconds = |attempt| delay(attempt).as_secs();
    assert_eq!(
        [1, 2, 3, 6, 7, 11, 64, u32::MAX].map(seconds),
        [15, 30, 60, 480, 600, 600, 600, 600]
    );
}
