//! The Job that runs `nginx -t` on a candidate, once, in the image and with the mounts that the pods will have.

use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::unit::Unit;
use super::{Owner, names, pod};

/// The name of the container that checks.
pub const CONTAINER: &str = "check";
/// How long a check may take, pulling images included.
pub const DEADLINE_SECONDS: i64 = 120;

/// Builds the Job of one attempt. Jobs are made once and never changed.
pub fn build(owner: &Owner<'_>, unit: &Unit, attempt: u32) -> Job {
    let (proxy, key) = (owner.proxy, unit.key());
    let mut metadata = owner.metadata(names::check(proxy, &key, attempt), names::CHECKER);
    let mut labels = names::labels(proxy, names::CHECKER);
    labels.insert(names::CHECK.to_owned(), key.clone());
    labels.insert(names::ATTEMPT.to_owned(), attempt.to_string());
    metadata.labels = Some(labels.clone());
    let mut spec = pod::spec(
        proxy,
        unit,
        names::candidate(proxy, &key),
        CONTAINER,
        &["--check"],
    );
    spec.restart_policy = Some("Never".to_owned());
    Job {
        metadata,
        spec: Some(JobSpec {
            // Another attempt is another Job, after a delay that grows.
            backoff_limit: Some(0),
            active_deadline_seconds: Some(DEADLINE_SECONDS),
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(labels),
                    ..ObjectMeta::default()
                }),
                spec: Some(spec),
            },
            ..JobSpec::default()
        }),
        ..Job::default()
    }
}
