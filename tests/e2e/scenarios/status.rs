//! What the status says, and that nothing is written when there is nothing to say.

use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams};
use serde_json::json;

use crate::olm;
use crate::operator;
use crate::outcome::{Outcome, ensure};
use crate::proxy::{Proxy, SERVING};
use crate::wait::{Seen, throughout, until};
use crate::world::{OPERATORS, World};

/// Waits until the status names exactly the living pods, sorted, and there are this many.
async fn names_its_pods(proxy: &Proxy<'_>, count: usize) -> Outcome {
    until(
        format!("the status to name {count} living pods"),
        SERVING,
        || async {
            let (named, living) = (proxy.pod_names().await?, proxy.pods().await?);
            let right = named.len() == count && named.iter().eq(living.keys());
            Ok(Seen::when(
                right,
                (),
                format!("named {named:?}, living {:?}", living.keys()),
            ))
        },
    )
    .await
}

pub async fn pod_names_follow_deletion_and_scaling(world: Arc<World>) -> Outcome {
    olm::installed(&world, "0.3.0").await?;
    let proxy = Proxy::serving(&world, "status").await?;
    names_its_pods(&proxy, 2).await?;

    let pods: Api<Pod> = Api::namespaced(world.client.clone(), &proxy.namespace);
    let first = proxy.pod_names().await?.swap_remove(0);
    pods.delete(&first, &DeleteParams::default()).await?;
    until(
        "the deleted pod to leave the status while it still ends",
        SERVING,
        || async {
            let names = proxy.pod_names().await?;
            Ok(Seen::when(
                !names.contains(&first),
                (),
                format!("{names:?} with {first}"),
            ))
        },
    )
    .await?;
    names_its_pods(&proxy, 2).await?;

    for replicas in [3, 1, 0, 2] {
        proxy.patch(json!({"replicas": replicas})).await?;
        names_its_pods(&proxy, replicas).await?;
    }
    proxy.ready().await
}

pub async fn a_second_reconcile_writes_nothing(world: Arc<World>) -> Outcome {
    olm::installed(&world, "0.3.0").await?;
    let proxy = Proxy::serving(&world, "quiet").await?;
    names_its_pods(&proxy, 2).await?;
    let before = settled(&proxy).await?;

    // A new leader knows nothing and reconciles everything
    let leader = operator::leader(&world, OPERATORS).await?;
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), OPERATORS);
    pods.delete(&leader, &DeleteParams::default()).await?;
    let started = Instant::now();
    until("another pod to lead", SERVING, || async {
        let now = operator::leader(&world, OPERATORS).await?;
        Ok(Seen::when(now != leader, (), format!("{now} leads")))
    })
    .await?;
    world.figure(
        "lease.takeover_after_deletion",
        started.elapsed().as_secs_f64(),
        "s",
    );
    throughout("every resourceVersion", Duration::from_secs(6), || async {
        let now = proxy.versions().await?;
        let changed: Vec<_> = now
            .iter()
            .filter(|(name, version)| before.get(*name) != Some(*version))
            .collect();
        Ok(Seen::when(
            now == before,
            (),
            format!("changed: {changed:?}; before: {before:?}"),
        ))
    })
    .await?;
    ensure!(
        before.len() >= 5,
        "the proxy has fewer children than expected: {:?}",
        before.keys()
    );
    operator::ready(&world, OPERATORS).await
}

/// The resourceVersions once Kubernetes' own controllers have said all they have to say.
async fn settled(proxy: &Proxy<'_>) -> Outcome<std::collections::BTreeMap<String, String>> {
    until("the proxy's objects to settle", SERVING, || async {
        let before = proxy.versions().await?;
        tokio::time::sleep(Duration::from_secs(3)).await;
        let after = proxy.versions().await?;
        Ok(Seen::when(
            before == after,
            after,
            "resourceVersions still change",
        ))
    })
    .await
}
