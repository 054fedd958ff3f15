//! The operator as it runs in the cluster: its Deployment, its pods, and which of them leads.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, ListParams};

use crate::outcome::{Failure, Outcome};
use crate::wait::{Seen, until};
use crate::world::World;

/// The Deployment, the ServiceAccount and the Lease.
pub const NAME: &str = "roadstead-operator";
/// Two pods, so that one can go while the other takes over.
pub const REPLICAS: i32 = 2;
const ROLLOUT: Duration = Duration::from_secs(90);

pub async fn deployment(world: &World, namespace: &str) -> Outcome<Deployment> {
    Ok(Api::<Deployment>::namespaced(world.client.clone(), namespace)
        .get(NAME)
        .await?)
}

/// The image of the operator's container, as the Deployment asks for it.
pub async fn image(world: &World, namespace: &str) -> Outcome<String> {
    let deployment = deployment(world, namespace).await?;
    let pod = deployment.spec.and_then(|spec| spec.template.spec);
    pod.and_then(|pod| pod.containers.into_iter().next()?.image)
        .ok_or_else(|| Failure::new(format!("Deployment {namespace}/{NAME} names no image")))
}

/// Waits until all replicas of the newest template are ready, no other is left, and one leads.
pub async fn ready(world: &World, namespace: &str) -> Outcome {
    until(
        format!("Deployment {namespace}/{NAME} to be rolled out"),
        ROLLOUT,
        || async {
            let deployment = deployment(world, namespace).await?;
            let observed = deployment.status.as_ref().and_then(|it| it.observed_generation);
            let status = deployment.status.unwrap_or_default();
            let counts = [status.replicas, status.updated_replicas, status.ready_replicas]
                .map(Option::unwrap_or_default);
            let done = counts == [REPLICAS; 3] && observed == deployment.metadata.generation;
            let [all, updated, ready] = counts;
            Ok(Seen::when(
                done,
                (),
                format_args!("{all} replicas, {updated} updated, {ready} ready"),
            ))
        },
    )
    .await?;
    leader(world, namespace).await.map(drop)
}

/// The operator's pods that are not going away.
pub async fn pods(world: &World, namespace: &str) -> Outcome<Vec<Pod>> {
    let api: Api<Pod> = Api::namespaced(world.client.clone(), namespace);
    let mut pods = api.list(&ListParams::default()).await?.items;
    pods.retain(|pod| pod.name_any().starts_with(NAME) && pod.metadata.deletion_timestamp.is_none());
    Ok(pods)
}

/// Waits until one of the living pods holds the Lease, and returns its name.
pub async fn leader(world: &World, namespace: &str) -> Outcome<String> {
    let leases: Api<Lease> = Api::namespaced(world.client.clone(), namespace);
    until(
        format!("a pod of {namespace}/{NAME} to hold the Lease"),
        ROLLOUT,
        || async {
            let holder = leases
                .get(NAME)
                .await?
                .spec
                .and_then(|spec| spec.holder_identity)
                .unwrap_or_default();
            let pods: Vec<String> = pods(world, namespace)
                .await?
                .iter()
                .map(ResourceExt::name_any)
                .collect();
            // The holder's name begins with its pod's, whatever makes it unique comes after
            let leading = pods.iter().find(|pod| holder.starts_with(pod.as_str())).cloned();
            Ok(leading.map_or_else(
                || Seen::NotYet(format!("held by {holder:?}, pods {pods:?}")),
                Seen::There,
            ))
        },
    )
    .await
}

/// The uids of the operator's pods, sorted: the same set means that none was replaced.
pub fn uids(pods: &[Pod]) -> Vec<String> {
    let mut uids: Vec<String> = pods.iter().filter_map(|pod| pod.metadata.uid.clone()).collect();
    uids.sort();
    uids
}
