//! Has kubelets look at what pods mount: a kubelet does when a pod changes. Left alone, it would take a minute or more until it sees that a ConfigMap did.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use tokio::time::timeout;
use tracing::debug;

use crate::runtime::apply::Applier;

/// How many pods of one object are marked at once.
const AT_ONCE: usize = 8;
/// How long it may take to mark them: status and Events wait for it.
const MARKING: Duration = Duration::from_secs(5);

/// Marks with an annotation those of these pods that do not have it yet and stay. It takes a bounded time, and where it fails nothing is lost but
/// time. True if all are marked.
pub async fn mark<'a>(
    apply: &Applier,
    pods: impl Iterator<Item = &'a Arc<Pod>>,
    name: &str,
    value: &str,
) -> bool {
    let behind = pods.filter(|pod| {
        pod.metadata.deletion_timestamp.is_none()
            && pod.annotations().get(name).map(String::as_str) != Some(value)
    });
    let mark = |pod: &Arc<Pod>| {
        let pod = Arc::clone(pod);
        async move {
            let marked = apply.annotate(pod.as_ref(), name, Some(value)).await;
            if let Err(error) = &marked {
                debug!(pod = pod.name_any(), %error, "cannot mark the pod, so its kubelet will look at its mounts in its own time");
            }
            marked.is_ok()
        }
    };
    let marks: Vec<_> = behind.map(mark).collect();
    let all = async {
        let mut marks = stream::iter(marks).buffer_unordered(AT_ONCE);
        let mut all = true;
        while let Some(marked) = marks.next().await {
            all &= marked;
        }
        all
    };
    timeout(MARKING, all).await.unwrap_or(false)
}
