//! Jobs of one pod that is tried once.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{
    IMAGE, Place, WHILE, condition, controlled_by, is_going, name_of, owners, said, template, version,
};
use crate::pretence::{MISSING, REFUSED_HOST};

const CHECK: &[&str] = &["/agent", "--check"];
/// Has its pod stay until it is counted.
const TRACKING: &str = "batch.kubernetes.io/job-tracking";

/// The Job `a`, with more of its spec.
async fn job(place: &Place, image: &str, more: Value) -> Value {
    let mut template = template("a", image, CHECK);
    template["spec"]["restartPolicy"] = json!("Never");
    let mut spec = json!({"backoffLimit": 0, "template": template});
    for (field, value) in more.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    let job = json!({"metadata": {"name": "a"}, "spec": spec});
    json!(place.create::<Job>(job).await.unwrap())
}

async fn the_pod(place: &Place) -> Value {
    let pods = place.until_all::<Pod>("there", |pods| pods.len() == 1).await;
    pods[0].clone()
}

async fn until_over(place: &Place) -> Value {
    let is_over = |job: &Value| {
        ["Complete", "Failed"]
            .iter()
            .any(|type_| said(job, type_)[0] == "True")
    };
    place.until::<Job>("a", "over", is_over).await
}

fn types(job: &Value) -> Vec<&str> {
    let conditions = job["status"]["conditions"].as_array().into_iter().flatten();
    conditions
        .map(|condition| condition["type"].as_str().unwrap())
        .collect()
}

fn assert_failed(job: &Value, reason: &str, message: &str) {
    assert_eq!(types(job), ["FailureTarget", "Failed"]);
    for type_ in types(job) {
        assert_eq!(said(job, type_), json!(["True", reason]));
        let condition = condition(job, type_);
        assert_eq!(condition["message"], message);
        assert!(condition["lastTransitionTime"].is_string());
    }
    let status = &job["status"];
    assert_eq!(status["failed"], 1);
    for field in ["succeeded", "active", "completionTime"] {
        assert!(status.get(field).is_none(), "{field}: {status:#}");
    }
}

pub async fn a_job_whose_pod_succeeds_is_complete(place: Place) {
    let history = place.follow::<Job>().await;
    job(&place, IMAGE, json!({})).await;
    let pod = the_pod(&place).await;
    assert_eq!(pod["metadata"]["finalizers"], json!([TRACKING]));
    let waiting = place
        .until::<Job>("a", "active", |job| job["status"]["active"] == 1)
        .await;
    assert_eq!(waiting["status"]["ready"], 0);
    assert!(waiting["status"]["startTime"].is_string());
    assert_eq!(owners(&pod), controlled_by::<Job>(&waiting));
    for label in ["controller-uid", "job-name"] {
        let wanted = if label == "job-name" {
            json!("a")
        } else {
            waiting["metadata"]["uid"].clone()
        };
        assert_eq!(pod["metadata"]["labels"][label], wanted);
        assert_eq!(
            pod["metadata"]["labels"][format!("batch.kubernetes.io/{label}")],
            wanted
        );
    }
    assert_eq!(pod["metadata"]["labels"]["app"], "a");
    assert!(name_of(&pod).starts_with("a-"));

    place.config("good").await;
    let job = until_over(&place).await;
    assert_eq!(types(&job), ["SuccessCriteriaMet", "Complete"]);
    for type_ in types(&job) {
        assert_eq!(said(&job, type_), json!(["True", "CompletionsReached"]));
        assert_eq!(
            condition(&job, type_)["message"],
            "Reached expected number of succeeded pods"
        );
    }
    let status = &job["status"];
    assert_eq!(status["succeeded"], 1);
    assert!(status["completionTime"].is_string());
    for field in ["failed", "active"] {
        assert!(status.get(field).is_none(), "{field}: {status:#}");
    }
    sleep(WHILE).await;
    let pod = the_pod(&place).await;
    assert_eq!(pod["status"]["phase"], "Succeeded");
    assert!(pod["metadata"]["finalizers"].is_null(), "it is counted");
    let generations = history.course(|job| job["metadata"]["generation"].clone()).await;
    assert_eq!(generations, [json!(1)]);
}

pub async fn a_job_whose_pod_fails_has_failed(place: Place) {
    place.config(REFUSED_HOST).await;
    job(&place, IMAGE, json!({})).await;
    let job = until_over(&place).await;
    assert_failed(
        &job,
        "BackoffLimitExceeded",
        "Job has reached the specified backoff limit",
    );
    sleep(WHILE).await;
    let pod = the_pod(&place).await;
    assert_eq!(
        pod["status"]["phase"], "Failed",
        "it stays, for people to look at"
    );
    assert!(pod["metadata"]["finalizers"].is_null(), "it is counted");
}

pub async fn a_job_that_takes_too_long_has_failed_and_its_pod_is_gone_by_then(place: Place) {
    let (pods, jobs) = (place.follow::<Pod>().await, place.follow::<Job>().await);
    place.config("good").await;
    job(
        &place,
        &format!("nginx-{MISSING}"),
        json!({"activeDeadlineSeconds": 3}),
    )
    .await;
    let job = until_over(&place).await;
    assert_failed(
        &job,
        "DeadlineExceeded",
        "Job was active longer than specified deadline",
    );
    place.until_all::<Pod>("gone", <[Value]>::is_empty).await;
    let (pods, jobs) = (pods.told().await, jobs.told().await);
    let (_, ends) = pods.iter().find(|(_, pod)| is_going(pod)).unwrap();
    let gone = pods
        .iter()
        .find(|(stays, _)| !stays)
        .map(|(_, pod)| version(pod))
        .unwrap();
    let first = |type_: &str| {
        let told = jobs.iter().find(|(_, job)| said(job, type_)[0] == "True");
        version(&told.unwrap().1)
    };
    assert!(first("FailureTarget") < first("Failed"), "first it is decided");
    assert!(
        version(ends) < first("Failed"),
        "its pod has been deleted by then"
    );
    assert!(gone < first("Failed"), "and is gone");
    let names: std::collections::BTreeSet<_> = pods.iter().map(|(_, pod)| name_of(pod)).collect();
    assert_eq!(names.len(), 1, "it is tried once");
}

pub async fn a_job_whose_pod_is_deleted_has_failed(place: Place) {
    place.config("good").await;
    job(&place, &format!("nginx-{MISSING}"), json!({})).await;
    let pod = the_pod(&place).await;
    place
        .until::<Job>("a", "active", |job| job["status"]["active"] == 1)
        .await;
    place
        .api::<Pod>()
        .delete(name_of(&pod), &DeleteParams::background())
        .await
        .unwrap();
    let job = until_over(&place).await;
    assert_failed(
        &job,
        "BackoffLimitExceeded",
        "Job has reached the specified backoff limit",
    );
    sleep(WHILE).await;
    assert!(place.all::<Pod>().await.is_empty(), "no other one comes");
}

pub async fn a_job_that_is_deleted_takes_its_pod_along(place: Place) {
    place.config("good").await;
    // While the pod runs, and after.
    for image in [format!("nginx-{MISSING}"), IMAGE.to_owned()] {
        job(&place, &image, json!({})).await;
        the_pod(&place).await;
        if image == IMAGE {
            until_over(&place).await;
        }
        place
            .api::<Job>()
            .delete("a", &DeleteParams::background())
            .await
            .unwrap();
        assert!(place.find::<Job>("a").await.is_none(), "it goes at once");
        place.until_all::<Pod>("gone", <[Value]>::is_empty).await;
    }
}

pub async fn a_job_that_is_deleted_as_an_orphan_leaves_its_pod(place: Place) {
    place.config("good").await;
    job(&place, &format!("nginx-{MISSING}"), json!({})).await;
    the_pod(&place).await;
    let deleted = place.api::<Job>().delete("a", &DeleteParams::orphan()).await;
    drop(deleted.unwrap());
    place.until_gone::<Job>("a").await;
    let is_free = |pods: &[Value]| {
        pods.iter().all(|pod| {
            pod["metadata"]["finalizers"].is_null() && pod["metadata"]["ownerReferences"].is_null()
        })
    };
    let pods = place.until_all::<Pod>("free", is_free).await;
    assert!(pods.len() == 1 && !is_going(&pods[0]));
}
