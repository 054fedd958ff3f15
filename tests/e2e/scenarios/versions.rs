//! Two versions of the API: from the first release, which had one, to the present, which converts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use kube::ResourceExt;
use kube::api::{DeleteParams, DynamicObject, ListParams};
use serde_json::json;

use crate::author::Author;
use crate::objects::{CRD, CSV, MY_PROXY, MY_PROXY_V1, OPERATOR_CONDITION, text};
use crate::olm::{self, SOON, Wish};
use crate::operator;
use crate::outcome::{Outcome, ensure};
use crate::proxy::Proxy;
use crate::wait::{Seen, until};
use crate::world::{OPERATORS, World};

const DEFINITION: &str = "myproxies.roadstead.dev";
/// The operator looks at its definition every few seconds.
const HEALED: Duration = Duration::from_secs(30);
/// How long the operator may take to let go of a thousand objects.
const MANY_GO: Duration = Duration::from_secs(120);

pub async fn an_upgrade_from_0_1_0_loses_nothing_and_serves_both_versions(world: Arc<World>) -> Outcome {
    olm::fresh(&world).await?;
    olm::install(&world, Wish::manual("released", "0.1.0"), "0.1.0").await?;
    let proxy = Proxy::serving(&world, "versions").await?;
    proxy.patch(json!({"name": "front"})).await?;
    proxy.ready().await?;

    let author = Author::begin(&world, MY_PROXY, &proxy.namespace, proxy.name);
    let started = Instant::now();
    olm::approve(&world, "0.2.0").await?;
    olm::succeeded(&world, "0.2.0").await?;
    operator::ready(&world, OPERATORS).await?;
    world.figure("olm.to_two_versions", started.elapsed().as_secs_f64(), "s");
    // OLM leads the API server to the webhooks before anybody answers there.
    author.rest(&world, &["failed calling webhook"]).await?;
    proxy.ready().await?;
    v1_is_served(&world).await?;
    for kind in [MY_PROXY, MY_PROXY_V1] {
        let author = Author::begin(&world, kind, &proxy.namespace, proxy.name);
        tokio::time::sleep(Duration::from_secs(3)).await;
        author.rest(&world, &[]).await?;
    }
    proxy.ready().await?;

    let late = world.get(MY_PROXY_V1, &proxy.namespace, proxy.name).await?;
    ensure!(
        text(&late, "/spec/deploymentName") == "front",
        "v1 of what was written by 0.1.0: {:#}",
        late.data
    );
    what_only_v1_says_survives_a_client_of_v1alpha1(&world, &proxy).await?;
    a_refusal_is_told_in_the_words_of_the_author(&world, &proxy).await?;

    world.delete(MY_PROXY_V1, &proxy.namespace, proxy.name).await?;
    world
        .wait_gone(MY_PROXY, &proxy.namespace, proxy.name, SOON)
        .await
}

/// As `kubectl replace` does with a manifest that was written for 0.1.0.
async fn what_only_v1_says_survives_a_client_of_v1alpha1(world: &World, proxy: &Proxy<'_>) -> Outcome {
    let (namespace, name) = (&proxy.namespace, proxy.name);
    let patch = "patch myproxies.v1.roadstead.dev edge --type=merge -p {\"spec\":{\"paused\":true}}";
    world.kubectl(&format!("-n {namespace} {patch}")).await?;
    paused(proxy, true).await?;

    let mut early = proxy.get().await?;
    early.metadata.managed_fields = None;
    early.metadata.resource_version = None;
    ensure!(
        early.annotations().contains_key("roadstead.dev/kept"),
        "v1alpha1 does not keep what v1 says: {:?}",
        early.annotations()
    );
    early.annotations_mut().remove("roadstead.dev/kept");
    early.data["spec"]["replicas"] = json!(3);
    let file = world.settings.scratch.join("early.json");
    std::fs::write(&file, serde_json::to_vec(&early)?)?;
    world
        .kubectl(&format!("-n {namespace} replace -f {}", file.display()))
        .await?;
    let late = world.get(MY_PROXY_V1, namespace, name).await?;
    let said = (
        late.data["spec"]["paused"].clone(),
        late.data["spec"]["replicas"].clone(),
    );
    ensure!(
        said == (json!(true), json!(3)),
        "after a client of v1alpha1 had replaced it, v1 says {:#}",
        late.data["spec"]
    );
    let on = "patch myproxies.v1.roadstead.dev edge --type=merge -p {\"spec\":{\"paused\":false}}";
    world.kubectl(&format!("-n {namespace} {on}")).await?;
    paused(proxy, false).await?;
    proxy.ready().await
}

async fn paused(proxy: &Proxy<'_>, wanted: bool) -> Outcome {
    until(format!("paused to be {wanted} in the status"), HEALED, || async {
        let found = proxy.get().await?;
        let conditions = found.data["status"]["conditions"].as_array().cloned();
        let said = conditions
            .into_iter()
            .flatten()
            .any(|condition| condition["reason"] == "Paused");
        Ok(Seen::equal(&said, &wanted))
    })
    .await
}

/// By the webhook alone: the schema's pattern lets this name pass.
async fn a_refusal_is_told_in_the_words_of_the_author(world: &World, proxy: &Proxy<'_>) -> Outcome {
    for (kind, spec, words) in [
        (
            MY_PROXY,
            json!({"tls_secret": "a..b"}),
            "spec.tls_secret is \"a..b\"; it must be",
        ),
        (
            MY_PROXY_V1,
            json!({"tls": {"secretName": "a..b"}}),
            "spec.tls.secretName is \"a..b\"; it must be",
        ),
    ] {
        let refused = world
            .merge(kind, &proxy.namespace, proxy.name, json!({"spec": spec}))
            .await;
        ensure!(
            refused
                .as_ref()
                .is_err_and(|error| error.to_string().contains(words)),
            "not refused with {words:?}: {:?}",
            refused.map(|object| object.data)
        );
    }
    Ok(())
}

/// An override of the OperatorCondition keeps OLM between its two steps: the definition is the new one, and the operator the old one.
pub async fn while_olm_is_held_in_the_window_v1_is_closed_and_nothing_is_lost(world: Arc<World>) -> Outcome {
    olm::fresh(&world).await?;
    olm::install(&world, Wish::manual("released", "0.1.0"), "0.1.0").await?;
    let proxy = Proxy::serving(&world, "window").await?;
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let hold = json!({"spec": {"overrides": [
        {"type": "Upgradeable", "status": "False", "reason": "Test", "message": "held", "lastTransitionTime": now},
    ]}});
    let condition = olm::csv_name("0.1.0");
    world
        .merge(OPERATOR_CONDITION, OPERATORS, &condition, hold)
        .await?;
    olm::approve(&world, "0.2.0").await?;
    olm::phase(&world, "0.2.0", "Pending", SOON).await?;
    until("the definition to have v1", SOON, || async {
        let definition = world.get(CRD, "", DEFINITION).await?;
        let versions = definition.data["spec"]["versions"].as_array().map(Vec::len);
        Ok(Seen::equal(&versions, &Some(2)))
    })
    .await?;

    proxy.patch(json!({"replicas": 3, "name": "front"})).await?;
    proxy.ready().await?;
    let late = world
        .merge(
            MY_PROXY_V1,
            &proxy.namespace,
            proxy.name,
            json!({"spec": {"deploymentName": "lost"}}),
        )
        .await;
    ensure!(
        late.as_ref()
            .is_err_and(|error| error.to_string().contains("404")),
        "v1 is not closed while nothing converts: {:?}",
        late.map(|object| object.data)
    );
    let csv = world.get(CSV, OPERATORS, &olm::csv_name("0.2.0")).await?;
    ensure!(
        text(&csv, "/status/phase") == "Pending",
        "OLM was not held: {:#}",
        csv.data["status"]
    );

    world
        .merge(
            OPERATOR_CONDITION,
            OPERATORS,
            &condition,
            json!({"spec": {"overrides": null}}),
        )
        .await?;
    olm::succeeded(&world, "0.2.0").await?;
    operator::ready(&world, OPERATORS).await?;
    v1_is_served(&world).await?;
    let late = world.get(MY_PROXY_V1, &proxy.namespace, proxy.name).await?;
    let said = (
        text(&late, "/spec/deploymentName"),
        late.data["spec"]["replicas"].clone(),
    );
    ensure!(said == ("front", json!(3)), "v1 says {:#}", late.data["spec"]);
    proxy.ready().await
}

/// The versions that a definition does not serve.
pub(super) fn closed(definition: &DynamicObject) -> Vec<&str> {
    let versions = definition.data["spec"]["versions"].as_array();
    let closed = versions
        .into_iter()
        .flatten()
        .filter(|version| version["served"] != json!(true));
    closed.filter_map(|version| version["name"].as_str()).collect()
}

/// The operator opens it, once it converts.
pub(super) async fn v1_is_served(world: &World) -> Outcome {
    until("v1 to be served", HEALED, || async {
        let definition = world.get(CRD, "", DEFINITION).await?;
        let versions = definition.data["spec"]["versions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let served = versions.iter().all(|version| version["served"] == json!(true));
        let strategy = text(&definition, "/spec/conversion/strategy");
        Ok(Seen::when(
            served && strategy == "Webhook",
            (),
            format_args!("all served: {served}, conversion {strategy}"),
        ))
    })
    .await
}

/// Objects that are paused, so that no pod is started for them.
pub async fn a_list_of_a_thousand_is_converted(world: Arc<World>) -> Outcome {
    const MANY: usize = 1000;
    olm::installed(&world, "0.2.0").await?;
    v1_is_served(&world).await?;
    let namespace = world.namespace("many").await?;
    let note = "n".repeat(2000);
    let manifests = (0..MANY).map(|at| {
        json!({
            "apiVersion": "roadstead.dev/v1", "kind": "MyProxy",
            "metadata": {"name": format!("many-{at}"), "annotations": {"example.com/note": note}},
            "spec": {"paused": true, "deploymentName": format!("many-{at}")},
        })
    });
    let applied = stream::iter(manifests.map(|manifest| world.apply(&namespace, manifest)));
    let mut applied = applied.buffer_unordered(8);
    while let Some(object) = applied.next().await {
        object?;
    }
    let started = Instant::now();
    let listed = world.list(MY_PROXY_V1, &namespace, "").await?;
    world.figure("conversion.list_of_1000", started.elapsed().as_secs_f64(), "s");
    let whole = listed.iter().filter(|object| {
        text(object, "/spec/deploymentName") == object.name_any()
            && object.data["spec"]["paused"] == json!(true)
    });
    ensure!(
        whole.count() == MANY,
        "{} of {} objects are whole",
        listed.len(),
        MANY
    );
    let objects = world.api(MY_PROXY_V1, &namespace);
    objects
        .delete_collection(&DeleteParams::default(), &ListParams::default())
        .await?;
    until("all of them to be gone", MANY_GO, || async {
        let left = world.list(MY_PROXY, &namespace, "").await?.len();
        Ok(Seen::when(left == 0, (), format_args!("{left} are left")))
    })
    .await
}

pub async fn what_leads_to_the_webhook_is_put_right(world: Arc<World>) -> Outcome {
    olm::installed(&world, "0.2.0").await?;
    v1_is_served(&world).await?;
    let proxy = Proxy::serving(&world, "healing").await?;
    proxy.patch(json!({"name": "front"})).await?;
    let broken = json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}});
    let started = Instant::now();
    world.merge(CRD, "", DEFINITION, broken).await?;
    v1_is_served(&world).await?;
    world.figure("conversion.healed", started.elapsed().as_secs_f64(), "s");
    until("v1 to be converted", HEALED, || async {
        let late = match world.get(MY_PROXY_V1, &proxy.namespace, proxy.name).await {
            Ok(late) => late,
            Err(error) => return Ok(Seen::NotYet(error.to_string())),
        };
        Ok(Seen::equal(&text(&late, "/spec/deploymentName"), &"front"))
    })
    .await
}
