//! On a cluster that has no OLM: the manifests of config/.

use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams};
use serde_json::json;

use super::uninstall::DEFINITIONS;
use super::versions::closed;
use crate::objects::{CLUSTER_ROLE, CRD, DEPLOYMENT, MY_PROXY, NAMESPACE, SECRET, text};
use crate::olm::{self, SOON};
use crate::operator;
use crate::outcome::{Outcome, ensure};
use crate::proxy::Proxy;
use crate::wait::{Seen, until};
use crate::world::World;

const SYSTEM: &str = "roadstead-system";
/// A pod deleted by force may have no time to release the Lease: its duration and two tries.
const EXPIRY: Duration = Duration::from_secs(25);

pub async fn the_manifests_install_an_operator_that_survives_its_leader(world: Arc<World>) -> Outcome {
    olm::clean(&world).await?;
    let image = world.operator_image("0.3.0");
    world.wait_gone_if_terminating(SYSTEM).await?;
    let started = Instant::now();
    let deployed = world.run("hack/deploy", &[&image]).await;
    let claimed = world.claim(SYSTEM).await;
    deployed?;
    claimed?;
    operator::ready(&world, SYSTEM).await?;
    world.note(format!(
        "hack/deploy to a leader {:.1} s",
        started.elapsed().as_secs_f64()
    ));

    let proxy = Proxy::prepare(&world, "system").await?;
    proxy.apply(json!({"image": world.settings.nginx})).await?;
    proxy.comes_up().await?;

    both_versions_are_served_with_a_certificate_of_the_operators_own(&world, &proxy).await?;

    takes_over(&world, "asked to end", &DeleteParams::default(), SOON).await?;
    takes_over(
        &world,
        "deleted by force",
        &DeleteParams::default().grace_period(0),
        EXPIRY,
    )
    .await?;
    proxy.patch(json!({"replicas": 1})).await?;
    until("the new leader to scale the proxy", SOON, || async {
        let names = proxy.pod_names().await?;
        Ok(Seen::when(names.len() == 1, (), format!("{names:?}")))
    })
    .await?;
    operator::ready(&world, SYSTEM).await?;
    removed_in_order(&world, &proxy).await
}

async fn both_versions_are_served_with_a_certificate_of_the_operators_own(
    world: &World,
    proxy: &Proxy<'_>,
) -> Outcome {
    let spec = json!({"spec": {"tls": {"secretName": "a..b"}}});
    let refused = world.merge(MY_PROXY, &proxy.namespace, proxy.name, spec).await;
    ensure!(
        refused
            .as_ref()
            .is_err_and(|error| error.to_string().contains("spec.tls.secretName is \"a..b\"")),
        "what v1 cannot mean was not refused: {:?}",
        refused.map(|object| object.data)
    );
    let secret = world
        .get(SECRET, SYSTEM, "roadstead-operator-certificates")
        .await?;
    let held: Vec<&String> = secret.data["data"]
        .as_object()
        .into_iter()
        .flat_map(|data| data.keys())
        .collect();
    ensure!(
        held.iter().any(|key| *key == "tls.crt"),
        "the Secret holds {held:?}"
    );
    Ok(())
}

/// Deletes the leading pod and waits until another leads.
async fn takes_over(world: &World, how: &str, params: &DeleteParams, limit: Duration) -> Outcome {
    operator::ready(world, SYSTEM).await?;
    let leader = operator::leader(world, SYSTEM).await?;
    let started = Instant::now();
    Api::<Pod>::namespaced(world.client.clone(), SYSTEM)
        .delete(&leader, params)
        .await?;
    until(
        format!("another pod to lead after {leader} was {how}"),
        limit,
        || async {
            let now = operator::leader(world, SYSTEM).await?;
            Ok(Seen::when(now != leader, (), format!("{now} leads")))
        },
    )
    .await?;
    world.note(format!(
        "leader {how}: another led after {:.1} s",
        started.elapsed().as_secs_f64()
    ));
    Ok(())
}

/// README.md: objects, then the operator, then the CRDs.
async fn removed_in_order(world: &World, proxy: &Proxy<'_>) -> Outcome {
    world
        .kubectl("delete myproxies,databases --all --all-namespaces --timeout=60s")
        .await?;
    world.run("make", &["--no-print-directory", "undeploy"]).await?;
    world.wait_gone(DEPLOYMENT, SYSTEM, operator::NAME, SOON).await?;
    for name in DEFINITIONS {
        let definition = world.get(CRD, "", name).await?;
        let found = (
            text(&definition, "/spec/conversion/strategy"),
            closed(&definition),
        );
        ensure!(
            found == ("None", vec!["v1alpha1"]),
            "v1alpha1 of {name} can be written though nobody converts: {found:?}"
        );
    }
    world.run("make", &["--no-print-directory", "uninstall"]).await?;
    for name in DEFINITIONS {
        world.wait_gone(CRD, "", name, SOON).await?;
    }
    world
        .wait_gone(NAMESPACE, "", SYSTEM, Duration::from_secs(60))
        .await?;
    let roles = world.list(CLUSTER_ROLE, "", "").await?;
    let left: Vec<String> = crate::objects::names(&roles)
        .into_iter()
        .filter(|name| name.contains("roadstead"))
        .collect();
    ensure!(left.is_empty(), "cluster roles are left: {left:?}");
    let objects = world.list(MY_PROXY, &proxy.namespace, "").await?;
    ensure!(
        objects.is_empty(),
        "objects are left: {:?}",
        crate::objects::names(&objects)
    );
    Ok(())
}
