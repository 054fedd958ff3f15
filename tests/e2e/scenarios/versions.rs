//! Two versions of the API: from the first release, which had one, to the present, which converts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use kube::ResourceExt;
use kube::api::{DeleteParams, DynamicObject, ListParams};
use serde_json::json;

use crate::author::Author;
use crate::objects::{CRD, CSV, MY_PROXY, MY_PROXY_V1ALPHA1, OPERATOR_CONDITION, text};
use crate::olm::{self, SOON, Wish};
use crate::operator;
use crate::outcome::{Outcome, ensure};
use crate::proxy::Proxy;
use crate::wait::{Seen, until};
use crate::world::{OPERATORS, World};

const DEFINITION: &str = "myproxies.roadstead.dev";
/// The operator looks at its definition every few seconds.
const HEALED: Duration = Duration::from_secs(30);
/// The operator waits 10 s until every API server knows of the stored version.
const MOVED: Duration = Duration::from_secs(60);
/// How long the operator may take to let go of a thousand objects.
const MANY_GO: Duration = Duration::from_secs(120);

/// Releases built from the commits that released them, the present, and one that no longer has v1alpha1.
pub async fn from_the_first_release_to_one_without_its_version_nothing_is_lost(world: Arc<World>) -> Outcome {
    from_nothing(&world).await?;
    olm::install(&world, Wish::manual("released", "0.1.0"), "0.1.0").await?;
    let mut proxy = Proxy::serving_v1alpha1(&world, "versions").await?;
    proxy.patch(json!({"name": "front"})).await?;
    proxy.ready().await?;
    let early = Author::begin(&world, MY_PROXY_V1ALPHA1, &proxy.namespace, proxy.name);

    upgrade(&world, "0.2.0").await?;
    both_versions_are_served(&world).await?;
    stored(&world, &["v1alpha1"]).await?;
    let late = Author::of_a_paused_object(&world, MY_PROXY, &proxy, "still").await?;

    upgrade(&world, "0.3.0").await?;
    let csv = world.get(CSV, OPERATORS, &olm::csv_name("0.3.0")).await?;
    let held = csv.data["status"]["conditions"].as_array().is_some_and(|all| {
        all.iter()
            .any(|it| it["reason"] == "OperatorConditionNotUpgradeable")
    });
    world.note(format!("OLM waited until 0.2.0 had moved what is stored: {held}"));
    both_versions_are_served(&world).await?;
    stored(&world, &["v1"]).await?;
    early.rest(&world, REFUSALS).await?;
    late.rest(&world, REFUSALS).await?;
    proxy.ready().await?;
    whatever_is_written_in_one_version_is_read_in_the_other(&world, &proxy).await?;

    let late = Author::of_a_paused_object(&world, MY_PROXY, &proxy, "still").await?;
    upgrade(&world, "0.4.0").await?;
    let definition = world.get(CRD, "", DEFINITION).await?;
    let names = definition.data["spec"]["versions"].as_array().map(Vec::len);
    ensure!(names == Some(1), "0.4.0 still has {names:?} versions");
    // Of a kind with one version there is nothing to convert, nor to take away
    late.rest(&world, REFUSALS).await?;
    proxy.kind = MY_PROXY;
    proxy.patch(json!({"replicas": 1})).await?;
    proxy.ready().await?;
    proxy.serves().await?;
    world.delete(MY_PROXY, &proxy.namespace, proxy.name).await?;
    world
        .wait_gone(MY_PROXY, &proxy.namespace, proxy.name, SOON)
        .await
}

/// What a client may be told while OLM replaces definition and operator: the version is closed, or nobody converts or validates yet. What was
/// accepted is never lost.
pub(super) const REFUSALS: &[&str] = &["404", "failed calling webhook", "conversion webhook"];

/// No operator, and no definition that remembers a later version than the one to begin with.
pub(super) async fn from_nothing(world: &World) -> Outcome {
    olm::fresh(world).await?;
    world.delete(CRD, "", DEFINITION).await?;
    world.wait_gone(CRD, "", DEFINITION, SOON).await
}

async fn upgrade(world: &World, version: &str) -> Outcome {
    let started = Instant::now();
    olm::approve(world, version).await?;
    olm::succeeded(world, version).await?;
    operator::ready(world, OPERATORS).await?;
    world.figure(
        &format!("olm.upgrade_to_{version}"),
        started.elapsed().as_secs_f64(),
        "s",
    );
    Ok(())
}

/// Waits until every object is stored in these versions.
pub(super) async fn stored(world: &World, versions: &[&str]) -> Outcome {
    until(
        format!("the stored versions to be {versions:?}"),
        MOVED,
        || async {
            let definition = world.get(CRD, "", DEFINITION).await?;
            let stored = &definition.data["status"]["storedVersions"];
            Ok(Seen::equal(stored, &json!(versions)))
        },
    )
    .await
}

async fn whatever_is_written_in_one_version_is_read_in_the_other(
    world: &Arc<World>,
    proxy: &Proxy<'_>,
) -> Outcome {
    for kind in [MY_PROXY_V1ALPHA1, MY_PROXY] {
        let author = Author::begin(world, kind, &proxy.namespace, proxy.name);
        tokio::time::sleep(Duration::from_secs(3)).await;
        author.rest(world, &[]).await?;
    }
    proxy.ready().await?;
    let late = world.get(MY_PROXY, &proxy.namespace, proxy.name).await?;
    ensure!(
        text(&late, "/spec/deploymentName") == "front",
        "v1 of what was written by 0.1.0: {:#}",
        late.data
    );
    what_only_v1_says_survives_a_client_of_v1alpha1(world, proxy).await?;
    a_refusal_is_told_in_the_words_of_the_author(world, proxy).await
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
    let late = world.get(MY_PROXY, namespace, name).await?;
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
            MY_PROXY_V1ALPHA1,
            json!({"tls_secret": "a..b"}),
            "spec.tls_secret is \"a..b\"; it must be",
        ),
        (
            MY_PROXY,
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

/// An override of the OperatorCondition keeps OLM between its two steps: the definition is the new one, and the operator the old one, which
/// heals it. OLM takes the first step once more, as it does when it could not write down that it is done.
pub async fn while_olm_is_held_between_definition_and_operator_both_versions_work(
    world: Arc<World>,
) -> Outcome {
    from_nothing(&world).await?;
    olm::install(&world, Wish::manual("released", "0.2.0"), "0.2.0").await?;
    let proxy = Proxy::serving(&world, "window").await?;
    // OLM may write the operator's Deployment anew while it is between two versions, and then without the Subscription's variables.
    proxy.patch(json!({"image": world.settings.nginx})).await?;
    proxy.ready().await?;
    let early = Author::of_a_paused_object(&world, MY_PROXY_V1ALPHA1, &proxy, "early").await?;
    let late = Author::of_a_paused_object(&world, MY_PROXY, &proxy, "late").await?;
    let hold = Hold::begin(&world, "0.2.0").await?;
    olm::approve(&world, "0.3.0").await?;
    olm::phase(&world, "0.3.0", "Pending", SOON).await?;
    olm::carried_out(&world, "0.3.0").await?;
    stores_v1(&world).await?;
    both_versions_are_served(&world).await?;
    proxy
        .patch(json!({"replicas": 3, "deploymentName": "front"}))
        .await?;
    proxy.ready().await?;

    olm::repeat_plan(&world, "0.3.0").await?;
    both_versions_are_served(&world).await?;
    proxy.patch(json!({"replicas": 2})).await?;
    proxy.ready().await?;
    let csv = world.get(CSV, OPERATORS, &olm::csv_name("0.3.0")).await?;
    ensure!(
        text(&csv, "/status/phase") == "Pending",
        "OLM was not held: {:#}",
        csv.data["status"]
    );

    hold.end(&world).await?;
    olm::succeeded(&world, "0.3.0").await?;
    operator::ready(&world, OPERATORS).await?;
    both_versions_are_served(&world).await?;
    stored(&world, &["v1"]).await?;
    early.rest(&world, REFUSALS).await?;
    late.rest(&world, REFUSALS).await?;
    let found = proxy.get().await?;
    let said = (
        text(&found, "/spec/deploymentName"),
        found.data["spec"]["replicas"].clone(),
    );
    ensure!(said == ("front", json!(2)), "v1 says {:#}", found.data["spec"]);
    proxy.ready().await
}

/// People's own word that OLM must not go on from a version.
struct Hold(String);

impl Hold {
    async fn begin(world: &World, version: &str) -> Outcome<Self> {
        let hold = Self(olm::csv_name(version));
        let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let said = json!([
            {"type": "Upgradeable", "status": "False", "reason": "Test", "message": "held", "lastTransitionTime": now},
        ]);
        hold.say(world, said).await?;
        Ok(hold)
    }

    async fn end(self, world: &World) -> Outcome {
        self.say(world, json!(null)).await
    }

    async fn say(&self, world: &World, overrides: serde_json::Value) -> Outcome {
        let overrides = json!({"spec": {"overrides": overrides}});
        let said = world.merge(OPERATOR_CONDITION, OPERATORS, &self.0, overrides);
        said.await.map(drop)
    }
}

async fn stores_v1(world: &World) -> Outcome {
    until("the definition to store v1", SOON, || async {
        let definition = world.get(CRD, "", DEFINITION).await?;
        let versions = definition.data["spec"]["versions"].as_array();
        let stored = versions
            .into_iter()
            .flatten()
            .find(|version| version["storage"] == json!(true));
        let stored = stored.map(|version| version["name"].clone());
        Ok(Seen::equal(&stored, &Some(json!("v1"))))
    })
    .await
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

/// The operator opens the one that is not stored, once it converts.
pub(super) async fn both_versions_are_served(world: &World) -> Outcome {
    until("both versions to be served", HEALED, || async {
        let definition = world.get(CRD, "", DEFINITION).await?;
        let versions = definition.data["spec"]["versions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let served = versions.iter().all(|version| version["served"] == json!(true));
        let strategy = text(&definition, "/spec/conversion/strategy");
        let bundle = text(&definition, "/spec/conversion/webhook/clientConfig/caBundle");
        // The API server takes up a definition a moment after it was written: it is asked for what it has to convert
        for kind in [MY_PROXY_V1ALPHA1, MY_PROXY] {
            world.list_everywhere(kind, "").await?;
        }
        Ok(Seen::when(
            served && strategy == "Webhook" && !bundle.is_empty(),
            (),
            format_args!("all served: {served}, conversion {strategy}"),
        ))
    })
    .await
}

/// Objects that are paused, so that no pod is started for them.
pub async fn a_thousand_are_converted_in_one_list_and_moved_to_another_stored_version(
    world: Arc<World>,
) -> Outcome {
    const MANY: usize = 1000;
    olm::installed(&world, "0.3.0").await?;
    both_versions_are_served(&world).await?;
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
    are_whole(&world, &namespace, MANY).await?;
    world.figure("conversion.list_of_1000", started.elapsed().as_secs_f64(), "s");
    // As after going back to a release that stores v1alpha1, and then forward again
    for version in ["v1alpha1", "v1"] {
        updates_wait_while_objects_are_moved(&world, version).await?;
        are_whole(&world, &namespace, MANY).await?;
    }
    let objects = world.api(MY_PROXY, &namespace);
    objects
        .delete_collection(&DeleteParams::default(), &ListParams::default())
        .await?;
    until("all of them to be gone", MANY_GO, || async {
        let left = world.list(MY_PROXY, &namespace, "").await?.len();
        Ok(Seen::when(left == 0, (), format_args!("{left} are left")))
    })
    .await
}

/// In v1alpha1, which says both by another name and by what is kept.
async fn are_whole(world: &World, namespace: &str, many: usize) -> Outcome {
    let listed = world.list(MY_PROXY_V1ALPHA1, namespace, "").await?;
    let whole = listed.iter().filter(|object| {
        text(object, "/spec/name") == object.name_any()
            && object
                .annotations()
                .get("roadstead.dev/kept")
                .is_some_and(|kept| kept.contains("paused"))
    });
    let whole = whole.count();
    ensure!(
        whole == many,
        "{whole} of {} objects are whole, and there should be {many}",
        listed.len()
    );
    Ok(())
}

async fn updates_wait_while_objects_are_moved(world: &World, version: &str) -> Outcome {
    store(world, version).await?;
    upgradeable(world, "False", "StorageMigration").await?;
    let started = Instant::now();
    stored(world, &[version]).await?;
    let figure = format!("storage.moved_1000_to_{version}");
    world.figure(&figure, started.elapsed().as_secs_f64(), "s");
    upgradeable(world, "True", "").await
}

async fn store(world: &World, stored: &str) -> Outcome {
    let mut definition = world.get(CRD, "", DEFINITION).await?;
    for version in definition.data["spec"]["versions"]
        .as_array_mut()
        .into_iter()
        .flatten()
    {
        version["storage"] = json!(version["name"] == stored);
    }
    let versions = json!({"spec": {"versions": definition.data["spec"]["versions"]}});
    world.merge(CRD, "", DEFINITION, versions).await.map(drop)
}

/// Waits until the operator tells OLM so, for this reason if one is given.
async fn upgradeable(world: &World, wanted: &str, reason: &str) -> Outcome {
    until(format!("Upgradeable to be {wanted} {reason}"), HEALED, || async {
        let condition = world
            .get(OPERATOR_CONDITION, OPERATORS, &olm::csv_name("0.3.0"))
            .await?;
        let conditions = condition.data["spec"]["conditions"].as_array();
        let ours = conditions
            .into_iter()
            .flatten()
            .find(|it| it["type"] == "Upgradeable");
        let said =
            ours.is_some_and(|it| it["status"] == wanted && (reason.is_empty() || it["reason"] == reason));
        Ok(Seen::when(said, (), format_args!("{ours:?}")))
    })
    .await
}

pub async fn what_leads_to_the_webhook_is_put_right(world: Arc<World>) -> Outcome {
    olm::installed(&world, "0.3.0").await?;
    both_versions_are_served(&world).await?;
    let proxy = Proxy::serving(&world, "healing").await?;
    proxy.patch(json!({"deploymentName": "front"})).await?;
    let broken = json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}});
    let started = Instant::now();
    world.merge(CRD, "", DEFINITION, broken).await?;
    both_versions_are_served(&world).await?;
    world.figure("conversion.healed", started.elapsed().as_secs_f64(), "s");
    until("v1alpha1 to be converted", HEALED, || async {
        let early = match world.get(MY_PROXY_V1ALPHA1, &proxy.namespace, proxy.name).await {
            Ok(early) => early,
            Err(error) => return Ok(Seen::NotYet(error.to_string())),
        };
        Ok(Seen::equal(&text(&early, "/spec/name"), &"front"))
    })
    .await
}
