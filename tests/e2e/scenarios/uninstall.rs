//! Without the operator, and without anything.

use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt;

use super::versions::{both_versions_are_served, closed, stored};
use crate::objects::{self, CONFIG_MAP, CRD, DEPLOYMENT, Kind, MY_PROXY, NAMESPACE, PDB, POD, SERVICE};
use crate::olm::{self, SOON, Wish};
use crate::outcome::{Failure, Outcome, ensure};
use crate::proxy::Proxy;
use crate::wait::{Seen, throughout, until};
use crate::world::World;

/// The pods of a proxy drain for ten seconds before nginx ends.
const PODS_END: Duration = Duration::from_secs(30);

pub(super) const DEFINITIONS: [&str; 2] = ["myproxies.roadstead.dev", "databases.roadstead.dev"];

/// Removes everything, one command a line and in this order: README.md, "Uninstall".
const FULL_REMOVAL: &[&str] = &[
    "delete myproxies,databases --all --all-namespaces --timeout=60s",
    "-n operators delete subscription roadstead",
    "-n operators delete csv -l operators.coreos.com/roadstead.operators --timeout=60s",
    "delete crd myproxies.roadstead.dev databases.roadstead.dev --timeout=60s",
    "-n operators delete catalogsource roadstead --timeout=60s",
    "-n operators delete operatorgroup global-operators --timeout=60s",
    "-n operators delete lease roadstead-operator",
    "delete operators.operators.coreos.com roadstead.operators --timeout=60s",
];

pub async fn without_the_operator_everything_serves_and_deletions_wait_for_it(world: Arc<World>) -> Outcome {
    olm::installed(&world, "0.3.0").await?;
    let proxy = Proxy::serving(&world, "uninstall").await?;
    let pods = proxy.pods().await?;
    stored(&world, &["v1"]).await?;
    olm::uninstall(&world).await?;
    close_v1alpha1(&world).await?;
    v1alpha1_stays_closed(&world).await?;

    throughout(
        "objects and answers without an operator",
        Duration::from_secs(5),
        || async {
            proxy.serves().await?;
            for (kind, name) in [
                (CRD, "myproxies.roadstead.dev"),
                (MY_PROXY, proxy.name),
                (SERVICE, proxy.name),
                (DEPLOYMENT, proxy.name),
                (PDB, proxy.name),
            ] {
                world.get(kind, &proxy.namespace, name).await?;
            }
            let now = proxy.pods().await?;
            Ok(Seen::when(
                now.keys().eq(pods.keys()),
                (),
                format!("pods were {:?}, are {:?}", pods.keys(), now.keys()),
            ))
        },
    )
    .await?;

    world.delete(MY_PROXY, &proxy.namespace, proxy.name).await?;
    throughout(
        "the deleted proxy, held by its finalizer",
        Duration::from_secs(5),
        || async {
            let held = proxy.get().await?;
            ensure!(
                held.metadata.deletion_timestamp.is_some(),
                "it is not being deleted"
            );
            ensure!(
                held.finalizers().iter().any(|it| it == "roadstead.dev/cleanup"),
                "its finalizer is gone"
            );
            proxy.serves().await?;
            Ok(Seen::There(()))
        },
    )
    .await?;

    olm::install(&world, Wish::manual("candidate", "0.3.0"), "0.3.0").await?;
    both_versions_are_served(&world).await?;
    world
        .wait_gone(MY_PROXY, &proxy.namespace, proxy.name, SOON)
        .await?;
    until("what the proxy had to be collected", PODS_END, || async {
        let mut left = Vec::new();
        for kind in [DEPLOYMENT, SERVICE, CONFIG_MAP, PDB, POD] {
            let objects = world
                .list(kind, &proxy.namespace, "app.kubernetes.io/managed-by=roadstead")
                .await?;
            left.extend(
                objects::names(&objects)
                    .into_iter()
                    .map(|name| format!("{}/{name}", kind.kind)),
            );
        }
        Ok(Seen::when(left.is_empty(), (), format!("{left:?}")))
    })
    .await
}

/// README.md, "Uninstall": its last command closes what nobody converts any more.
pub(super) async fn close_v1alpha1(world: &World) -> Outcome {
    let readme = std::fs::read_to_string(world.settings.source.join("README.md"))?;
    let documented = commands(&readme, "Remove the operator and keep everything that it runs")?;
    let Some(close) = documented.last() else {
        return Err(Failure::new("README.md lists no command".to_owned()));
    };
    let close = format!("kubectl {close}");
    world.run("sh", &["-c", &close]).await.map(drop)
}

async fn v1alpha1_stays_closed(world: &World) -> Outcome {
    throughout("v1alpha1, closed", Duration::from_secs(8), || async {
        let mut found = Vec::new();
        for name in DEFINITIONS {
            let definition = world.get(CRD, "", name).await?;
            let strategy = objects::text(&definition, "/spec/conversion/strategy");
            let closed = closed(&definition);
            if strategy != "None" || closed != ["v1alpha1"] {
                found.push(format!("{name}: closed {closed:?}, conversion {strategy}"));
            }
        }
        Ok(Seen::when(found.is_empty(), (), found.join("; ")))
    })
    .await
}

pub async fn the_documented_order_removes_everything(world: Arc<World>) -> Outcome {
    olm::installed(&world, "0.3.0").await?;
    let proxy = Proxy::serving(&world, "removal").await?;
    let readme = std::fs::read_to_string(world.settings.source.join("README.md"))?;
    let documented = commands(&readme, "To remove everything, in this order")?;
    ensure!(
        documented
            == FULL_REMOVAL
                .iter()
                .map(|it| without_timeout(it))
                .collect::<Vec<_>>(),
        "README.md, \"Uninstall\", lists other commands than these tests run: {documented:#?}"
    );
    olm::plans_settled(&world).await?;
    for command in FULL_REMOVAL {
        world.kubectl(command).await?;
    }
    let own = proxy.namespace.clone();
    until("nothing of ours to be left", PODS_END, || async {
        let left = leftovers(&world, &own).await?;
        Ok(Seen::when(left.is_empty(), (), format!("{left:#?}")))
    })
    .await
}

/// The commands of the first code block after a text, without `kubectl` and comments.
pub(super) fn commands(readme: &str, after: &str) -> Outcome<Vec<String>> {
    let block = readme
        .split_once(after)
        .and_then(|(_, rest)| rest.split("```").nth(1))
        .ok_or_else(|| Failure::new(format!("README.md lacks a code block after {after:?}")))?;
    let commands = block.lines().filter_map(|line| line.strip_prefix("kubectl "));
    Ok(commands
        .map(|line| line.split(" #").next().unwrap_or_default().trim().to_owned())
        .collect())
}

pub(super) fn without_timeout(command: &str) -> String {
    command.split(" --timeout").next().unwrap_or_default().to_owned()
}

/// Every object, of all kinds that an installation makes, whose name or label is ours; the scenario's own namespace and
/// its upstream are not.
async fn leftovers(world: &World, own: &str) -> Outcome<Vec<String>> {
    let mut left = Vec::new();
    for kind in objects::ALL.iter().copied().filter(|kind| *kind != NAMESPACE) {
        for object in world.list_everywhere(kind, "").await? {
            if is_ours(kind, &object) && object.namespace().as_deref() != Some(own) {
                left.push(format!(
                    "{} {}/{}",
                    kind.kind,
                    object.namespace().unwrap_or_default(),
                    object.name_any()
                ));
            }
        }
    }
    for object in world
        .list(POD, own, "app.kubernetes.io/managed-by=roadstead")
        .await?
    {
        left.push(format!("Pod {own}/{}", object.name_any()));
    }
    Ok(left)
}

fn is_ours(kind: Kind, object: &kube::api::DynamicObject) -> bool {
    // The namespace of the cluster without OLM is another scenario's; in the others are the Leases of a node that is called as we are
    const OTHERS: [&str; 3] = ["roadstead-system", "kube-node-lease", "kube-system"];
    if object.namespace().is_some_and(|it| OTHERS.contains(&it.as_str())) || kind == NAMESPACE {
        return false;
    }
    let labels = object
        .labels()
        .iter()
        .map(|(key, value)| format!("{key}={value}"));
    labels
        .chain([object.name_any()])
        .any(|text| text.contains("roadstead") || text.contains("myprox"))
}
