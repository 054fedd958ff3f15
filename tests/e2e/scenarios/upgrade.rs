//! From one version to another, and back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::ResourceExt;
use serde_json::json;

use super::uninstall::close_v1alpha1;
use super::versions::{REFUSALS, both_versions_are_served, from_nothing, stored};
use crate::author::Author;
use crate::catalog;
use crate::database::Database;
use crate::load::Load;
use crate::objects::{CSV, MY_PROXY, MY_PROXY_V1ALPHA1, REPLICA_SET, SUBSCRIPTION, condition, text};
use crate::olm::{self, INSTALL, PACKAGE, SOON, Wish};
use crate::operator;
use crate::outcome::{Outcome, ensure};
use crate::proxy::Proxy;
use crate::wait::{Seen, throughout, until};
use crate::world::{OPERATORS, World};

/// The Deployment's deadline is 20 s.
const GIVES_UP: Duration = Duration::from_secs(90);
/// The garbage collector looks for new kinds every 30 s, and has to list their objects then.
const KNOWN: Duration = Duration::from_secs(45);

pub async fn a_publication_to_the_same_tag_upgrades_unasked_and_no_request_fails(
    world: Arc<World>,
) -> Outcome {
    let reusable = olm::is_well(&world, "0.3.0").await? && olm::follows(&world, "stable").await?;
    if !reusable {
        olm::fresh(&world).await?;
        catalog::provide_first(&world).await?;
        olm::install(&world, Wish::automatic("stable"), "0.3.0").await?;
    }
    let proxy = Proxy::serving(&world, "upgrade").await?;
    let load = Load::start(&proxy).await?;
    both_versions_are_served(&world).await?;
    let late = Author::of_a_paused_object(&world, MY_PROXY, &proxy, "late").await?;
    let early = Author::of_a_paused_object(&world, MY_PROXY_V1ALPHA1, &proxy, "early").await?;

    let started = Instant::now();
    catalog::publish_second(&world).await?;
    olm::succeeded(&world, "0.3.1").await?;
    world.figure(
        "olm.publication_to_succeeded",
        started.elapsed().as_secs_f64(),
        "s",
    );
    operator::ready(&world, OPERATORS).await?;
    let image = world.operator_image("0.3.1");
    ensure!(
        operator::image(&world, OPERATORS).await? == image,
        "the operator's image is not {image}"
    );
    // The pods of the proxy hold the operator's binary, so they are replaced as well
    rolled_to(&proxy, &image).await?;
    proxy.ready().await?;
    load.finish_without_failures(&world).await?;
    both_versions_are_served(&world).await?;
    // OLM takes v1alpha1 and the authority of its conversion away for a moment, and has new certificates made.
    late.rest(&world, REFUSALS).await?;
    early.rest(&world, REFUSALS).await
}

/// Waits until every pod of the proxy was made with this operator image.
async fn rolled_to(proxy: &Proxy<'_>, image: &str) -> Outcome {
    until(
        format!("the pods of the proxy to hold {image}"),
        INSTALL,
        || async {
            let pods = proxy.pods().await?;
            let images = pods.values().map(|pod| {
                let first = pod
                    .spec
                    .as_ref()
                    .and_then(|spec| spec.init_containers.as_ref()?.first());
                first
                    .and_then(|container| container.image.clone())
                    .unwrap_or_default()
            });
            let images: Vec<String> = images.collect();
            Ok(Seen::when(
                images.len() == 2 && images.iter().all(|it| it == image),
                (),
                format!("{images:?}"),
            ))
        },
    )
    .await
}

pub async fn a_starting_csv_and_manual_approval_go_back_while_objects_serve(world: Arc<World>) -> Outcome {
    olm::installed(&world, "0.3.1").await?;
    let proxy = Proxy::serving(&world, "back").await?;
    let load = Load::start(&proxy).await?;

    // As README.md says it
    olm::uninstall(&world).await?;
    olm::install(&world, Wish::manual("candidate", "0.3.0"), "0.3.0").await?;
    let image = world.operator_image("0.3.0");
    ensure!(
        operator::image(&world, OPERATORS).await? == image,
        "the operator's image is not {image}"
    );
    rolled_to(&proxy, &image).await?;
    proxy.ready().await?;
    load.finish_without_failures(&world).await?;

    // The way forward stays open, and waits
    olm::waiting_plan(&world, "0.3.1").await?;
    let next = world.find(CSV, OPERATORS, &olm::csv_name("0.3.1")).await?;
    ensure!(next.is_none(), "0.3.1 came back without an approval");
    Ok(())
}

/// And starts no database again: what is new in its instances waits for their next planned start, and is reported.
pub async fn a_switch_to_another_channel_upgrades(world: Arc<World>) -> Outcome {
    olm::fresh(&world).await?;
    olm::install(&world, Wish::automatic("first"), "0.3.0").await?;
    let database = Database::serving(&world, "upgraded", json!({"instances": 2})).await?;
    let before = (database.lives().await?, database.lease().await?);
    let started = Instant::now();
    world
        .merge(
            SUBSCRIPTION,
            OPERATORS,
            PACKAGE,
            json!({"spec": {"channel": "candidate"}}),
        )
        .await?;
    olm::succeeded(&world, "0.3.1").await?;
    world.figure(
        "olm.channel_switch_to_succeeded",
        started.elapsed().as_secs_f64(),
        "s",
    );
    world
        .wait_gone(CSV, OPERATORS, &olm::csv_name("0.3.0"), SOON)
        .await?;
    operator::ready(&world, OPERATORS).await?;

    reports_older_pods(&database).await?;
    database.ready(SOON).await?;
    let after = (database.lives().await?, database.lease().await?);
    ensure!(
        after == before,
        "the operator was upgraded: instances and Lease were {before:?}, are {after:?}"
    );
    Ok(())
}

/// Waits until the new operator says which pods have the instance manager of the old one.
async fn reports_older_pods(database: &Database) -> Outcome {
    let pods = database.instances().await?;
    let names: Vec<&str> = pods.iter().map(|it| it.name.as_str()).collect();
    let wanted = format!(
        "the pods of {} are as an earlier operator made them",
        names.join(", ")
    );
    until(
        "the status to say which pods are older than the operator",
        SOON,
        || async {
            let object = database.get().await?;
            let seen = condition(&object, "ConfigurationApplied");
            let told = seen.status == "True" && seen.message.contains(&wanted);
            Ok(Seen::when(told, (), format!("{seen:?}")))
        },
    )
    .await
}

/// From the release that stores the other version: the old operator works on with the new definition.
pub async fn an_upgrade_whose_image_does_not_exist_leaves_the_old_version_at_work_and_says_so(
    world: Arc<World>,
) -> Outcome {
    from_nothing(&world).await?;
    // So that nobody but the upgrade touches the pods of the old version
    let wish = Wish {
        configured: false,
        ..Wish::manual("broken", "0.2.0")
    };
    olm::install(&world, wish, "0.2.0").await?;
    let image = json!({"image": world.settings.nginx});
    let proxy = Proxy::serving_with(&world, "broken", image).await?;
    // Its kind was made anew a moment ago, which nobody does before an upgrade. As long as the garbage collector does not know it again, it asks for the owner of
    // each child by the version that the child names, and takes one that is closed, as 0.2.0's is in a moment, for an owner that is gone.
    throughout("the proxy to serve", KNOWN, || async {
        Ok(Seen::There(proxy.serves().await?))
    })
    .await?;
    let before = operator::uids(&operator::pods(&world, OPERATORS).await?);

    olm::approve(&world, "0.3.2").await?;
    // First OLM waits for the rollout, which does not pass over the old pods: none may be unavailable
    until("the new CSV to wait for the rollout", SOON, || async {
        let csv = world.get(CSV, OPERATORS, &olm::csv_name("0.3.2")).await?;
        let message = text(&csv, "/status/message");
        let waits = message.contains("waiting for deployment roadstead-operator to become ready");
        Ok(Seen::when(
            waits,
            (),
            format!("{}: {message}", text(&csv, "/status/phase")),
        ))
    })
    .await?;
    let old = olm::phase(&world, "0.2.0", "Replacing", SOON).await?;
    ensure!(
        old.metadata.deletion_timestamp.is_none(),
        "the old CSV is being deleted before the new one succeeded"
    );
    pull_fails(&world).await?;

    // The old operator leads and reconciles, and what it made serves
    let living = operator::pods(&world, OPERATORS).await?;
    let after = operator::uids(&living);
    ensure!(
        before.iter().all(|uid| after.contains(uid)),
        "an old pod of the operator is gone: {before:?}, now {after:?}"
    );
    proxy.patch(json!({"replicas": 3})).await?;
    until(
        "the old operator to scale the proxy",
        Duration::from_secs(30),
        || async {
            let names = proxy.pod_names().await?;
            Ok(Seen::when(names.len() == 3, (), format!("{names:?}")))
        },
    )
    .await?;
    proxy.serves().await?;

    // Then the Deployment's deadline passes, and OLM gives up and names it
    the_rollout_is_timed(&world).await?;
    let failed = olm::phase(&world, "0.3.2", "Failed", GIVES_UP).await?;
    let message = text(&failed, "/status/message");
    ensure!(
        text(&failed, "/status/reason") == "InstallCheckFailed"
            && message.contains("exceeded its progress deadline"),
        "the failed CSV says {}: {message}",
        text(&failed, "/status/reason")
    );
    world.note(format!("OLM says: {message}"));
    proxy.serves().await?;
    throughout("OLM to stay at Failed", Duration::from_secs(5), || async {
        let csv = world.get(CSV, OPERATORS, &olm::csv_name("0.3.2")).await?;
        let phase = text(&csv, "/status/phase");
        Ok(Seen::when(phase == "Failed", (), phase))
    })
    .await?;
    let last = operator::uids(&operator::pods(&world, OPERATORS).await?);
    ensure!(
        before.iter().all(|uid| last.contains(uid)),
        "an old pod of the operator went when OLM gave up"
    );

    // The way back is the same as from an upgrade that succeeded: README.md, "Upgrade and going back"
    stored(&world, &["v1"]).await?;
    olm::uninstall(&world).await?;
    close_v1alpha1(&world).await?;
    olm::install(&world, Wish::manual("broken", "0.2.0"), "0.2.0").await?;
    stored(&world, &["v1alpha1"]).await?;
    proxy.serves().await?;
    proxy.ready().await
}

/// Kubernetes counts a Deployment's deadline from when it writes down that it made a ReplicaSet. Where OLM changes the Deployment in that moment, that
/// write is refused and not repeated, and the rollout is never given up. A ReplicaSet that has to be made anew begins it once more.
async fn the_rollout_is_timed(world: &World) -> Outcome {
    until("Kubernetes to time the rollout", SOON, || async {
        let deployment = operator::deployment(world, OPERATORS).await?;
        let conditions = deployment.status.unwrap_or_default().conditions;
        let mut conditions = conditions.unwrap_or_default().into_iter();
        let progressing = conditions.find(|it| it.type_ == "Progressing");
        let reason = progressing.and_then(|it| it.reason).unwrap_or_default();
        let timed = reason != "NewReplicaSetAvailable";
        if !timed {
            world.note("Kubernetes did not write down that the rollout began; begun once more");
            for set in world.list(REPLICA_SET, OPERATORS, "").await? {
                if text(&set, "/spec/template/spec/containers/0/image") == world.operator_image("0.3.2") {
                    world.delete(REPLICA_SET, OPERATORS, &set.name_any()).await?;
                }
            }
        }
        Ok(Seen::when(timed, (), reason))
    })
    .await
}

/// Waits until the kubelet says of a pod of the operator that its image cannot be pulled.
async fn pull_fails(world: &World) -> Outcome {
    until("a pod of the operator to wait for its image", SOON, || async {
        let pods = operator::pods(world, OPERATORS).await?;
        let reasons: Vec<String> = pods
            .iter()
            .filter_map(|pod| {
                let container = pod.status.as_ref()?.container_statuses.as_ref()?.first()?;
                let waiting = container.state.as_ref()?.waiting.as_ref()?;
                Some(format!(
                    "{}: {}",
                    pod.name_any(),
                    waiting.reason.as_deref().unwrap_or_default()
                ))
            })
            .collect();
        let found = reasons
            .iter()
            .any(|it| it.ends_with("ErrImagePull") || it.ends_with("ImagePullBackOff"));
        Ok(Seen::when(found, (), format!("{reasons:?}")))
    })
    .await
}
