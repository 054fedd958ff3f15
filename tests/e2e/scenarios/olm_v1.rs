//! The bundles and the catalog of the other scenarios under OLM v1: its own catalogd and operator-controller, as their manifests install them, with
//! cert-manager's controllers for the webhook.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::ResourceExt;
use serde_json::{Value, json};

use super::uninstall::DEFINITIONS;
use super::versions::{both_versions_are_served, closed};
use crate::author::Author;
use crate::greeter::{self, says};
use crate::load::Load;
use crate::objects::{
    CLUSTER_CATALOG, CLUSTER_EXTENSION, CLUSTER_ROLE_BINDING, CRD, DEPLOYMENT, GREETING, MY_PROXY,
    MY_PROXY_V1ALPHA1, PERSON, condition, names, text,
};
use crate::olm::{self, PACKAGE, SOON};
use crate::operator;
use crate::outcome::{Outcome, ensure};
use crate::proxy::Proxy;
use crate::wait::{Seen, throughout, until};
use crate::world::World;

const SYSTEM: &str = "olmv1-system";
/// A label of all that OLM v1 has installed.
const OWNER: &str = "olm.operatorframework.io/owner-name";
/// The catalog, and the rights of the account that installs.
const OURS: &str = "roadstead-e2e";
/// The account that installs.
const INSTALLER: &str = "installer";
/// Pods are probed every 10 s, and what failed is tried again after a while.
const LIMIT: Duration = Duration::from_secs(90);

pub async fn the_same_bundles_and_catalog_install_and_upgrade_under_olm_v1(world: Arc<World>) -> Outcome {
    if world
        .find(CRD, "", "clusterextensions.olm.operatorframework.io")
        .await?
        .is_some()
    {
        // A run that was interrupted has left it
        remove(&world).await?;
    }
    olm::clean(&world).await?;
    for definition in DEFINITIONS {
        // It would have to be OLM v1's own
        world.delete(CRD, "", definition).await?;
        world.wait_gone(CRD, "", definition, SOON).await?;
    }
    let outcome = with_it(&world).await;
    // Even then nothing may stay in the way of the scenarios after it
    let removed = remove(&world).await;
    outcome.and(removed)
}

async fn with_it(world: &Arc<World>) -> Outcome {
    start(world).await?;
    publish(world, "1").await?;
    serves(world, "first").await?;

    let started = Instant::now();
    let namespace = world.namespace("olm-v1").await?;
    for package in [PACKAGE, greeter::NAME] {
        install(world, package, &namespace).await?;
    }
    installed(world, PACKAGE, "0.3.0").await?;
    operator::ready(world, &namespace).await?;
    world.figure("olm_v1.installed", started.elapsed().as_secs_f64(), "s");
    installed(world, greeter::NAME, "0.1.0").await?;
    let samples = format!("-n {namespace} apply -f examples/greeter/manifests/samples.yaml");
    world.kubectl(&samples).await?;
    let both = "Hello to the Doe family: Jane, John";
    says(world, &namespace, "does", both, &["janed", "johnd"]).await?;

    // There is no Subscription whose configuration could name another image than that of the internet
    let image = json!({"image": world.settings.nginx});
    let proxy = Proxy::serving_with(world, "olm-v1-proxy", image).await?;
    what_its_bundle_closes_stays_closed(world).await?;
    upgrades_under_load(world, &proxy, &namespace).await?;
    uninstall(world, &proxy, &namespace).await
}

/// Installs OLM v1 and what it needs.
async fn start(world: &World) -> Outcome {
    for (manifests, what, condition) in [
        (
            "types",
            "crd --selector app.kubernetes.io/component=crds",
            "Established",
        ),
        ("olm-v1", "-n olmv1-system deployment --all", "Available"),
    ] {
        let file = file(world, manifests);
        world.kubectl(&format!("apply --server-side -f {file}")).await?;
        world
            .kubectl(&format!("wait {what} --for=condition={condition} --timeout=90s"))
            .await?;
    }
    Ok(())
}

/// What `hack/e2e` had written.
fn file(world: &World, manifests: &str) -> String {
    let folder = world.settings.scratch.join("olm-v1");
    folder.join(format!("{manifests}.yaml")).display().to_string()
}

/// Points the ClusterCatalog to a publication of the catalog.
async fn publish(world: &World, publication: &str) -> Outcome {
    let image = world.image("roadstead-catalog", &format!("e2e-{publication}"));
    let catalog = json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog", "metadata": {"name": OURS},
        "spec": {"source": {"type": "Image", "image": {"ref": image}}},
    });
    world.apply("", catalog).await.map(drop)
}

/// Waits until catalogd serves every document of the catalog's folder, and nothing else.
async fn serves(world: &World, publication: &str) -> Outcome {
    let folder = world.settings.scratch.join(publication).join("catalog");
    let render = [
        "catalog",
        "render",
        &folder.display().to_string(),
        "--output",
        "json",
    ];
    let ours = documents(&world.run("./dist/roadstead", &render).await?)?;
    let path = format!(
        "/api/v1/namespaces/{SYSTEM}/services/https:catalogd-service:https/proxy/catalogs/{OURS}/api/v1/all"
    );
    until("catalogd to serve what is in the catalog", LIMIT, || async {
        let catalog = world.get(CLUSTER_CATALOG, "", OURS).await?;
        let serving = condition(&catalog, "Serving");
        if serving.status != "True" {
            let progressing = condition(&catalog, "Progressing");
            return Ok(Seen::NotYet(format!("{serving:?}, {progressing:?}")));
        }
        let theirs = documents(&world.kubectl(&format!("get --raw {path}")).await?)?;
        let (missing, more) = (ours.difference(&theirs).next(), theirs.difference(&ours).next());
        let same = missing.is_none() && more.is_none();
        Ok(Seen::when(
            same,
            (),
            format_args!("missing: {missing:?}, too much: {more:?}"),
        ))
    })
    .await
}

/// The documents of a stream of JSON, each as text that does not depend on the order of its fields.
fn documents(stream: &str) -> Outcome<BTreeSet<String>> {
    let documents = serde_json::Deserializer::from_str(stream).into_iter::<Value>();
    let texts: Result<BTreeSet<String>, _> = documents.map(|it| it.map(|it| it.to_string())).collect();
    Ok(texts?)
}

/// What OLM v1's documentation has people apply: an account that installs, with all rights, and the extension.
async fn install(world: &World, package: &str, namespace: &str) -> Outcome {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": INSTALLER}});
    let rights = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": OURS},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": INSTALLER, "namespace": namespace}],
    });
    let extension = json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "metadata": {"name": package},
        "spec": {
            "namespace": namespace, "serviceAccount": {"name": INSTALLER},
            "source": {"sourceType": "Catalog", "catalog": {"packageName": package, "channels": ["stable"]}},
        },
    });
    for manifest in [account, rights, extension] {
        world.apply(namespace, manifest).await?;
    }
    Ok(())
}

async fn installed(world: &World, package: &str, version: &str) -> Outcome {
    until(
        format!("OLM v1 to have installed {package} {version}"),
        LIMIT,
        || async {
            let extension = world.get(CLUSTER_EXTENSION, "", package).await?;
            let has = text(&extension, "/status/install/bundle/version");
            let (installed, progressing) = (
                condition(&extension, "Installed"),
                condition(&extension, "Progressing"),
            );
            Ok(Seen::when(
                has == version && installed.status == "True" && progressing.reason == "Succeeded",
                (),
                format_args!("{has:?}, {installed:?}, {progressing:?}"),
            ))
        },
    )
    .await
}

/// Under OLM the operator opens what the bundle closes. OLM v1 would close it again whenever it looks, and each change makes it look.
async fn what_its_bundle_closes_stays_closed(world: &World) -> Outcome {
    for definition in DEFINITIONS {
        let definition = world.get(CRD, "", definition).await?;
        ensure!(closed(&definition) == ["v1alpha1"], "{:?}", closed(&definition));
    }
    nothing_changes(world).await
}

/// Nobody fights over a definition, though OLM v1 looks: it puts back a label that somebody has changed, and nobody writes anything else.
async fn nothing_changes(world: &World) -> Outcome {
    let before = generations(world).await?;
    let owner = json!({"metadata": {"labels": {OWNER: "somebody"}}});
    world.merge(CRD, "", DEFINITIONS[0], owner).await?;
    until("OLM v1 to look", LIMIT, || async {
        let definition = world.get(CRD, "", DEFINITIONS[0]).await?;
        let owner = definition.labels().get(OWNER).cloned().unwrap_or_default();
        Ok(Seen::when(owner == PACKAGE, (), owner))
    })
    .await?;
    throughout(
        "the definitions, as they were",
        Duration::from_secs(8),
        || async { Ok(Seen::equal(&generations(world).await?, &before)) },
    )
    .await
}

async fn generations(world: &World) -> Outcome<Vec<Option<i64>>> {
    let mut all = Vec::new();
    for definition in DEFINITIONS {
        all.push(world.get(CRD, "", definition).await?.metadata.generation);
    }
    Ok(all)
}

/// To a bundle that is made for OLM v1, and to the next. No request fails, what was written is there, and the version of before is served from the first on.
async fn upgrades_under_load(world: &Arc<World>, proxy: &Proxy<'_>, namespace: &str) -> Outcome {
    let load = Load::start(proxy).await?;
    let late = Author::of_a_paused_object(world, MY_PROXY, proxy, "late").await?;
    let started = Instant::now();
    publish(world, "3").await?;
    serves(world, "third").await?;
    installed(world, PACKAGE, "0.3.1").await?;
    runs(world, namespace, "0.3.1").await?;
    world.figure("olm_v1.upgraded", started.elapsed().as_secs_f64(), "s");
    proxy.ready().await?;
    all_are_open(world).await?;
    let early = Author::of_a_paused_object(world, MY_PROXY_V1ALPHA1, proxy, "early").await?;
    nothing_changes(world).await?;
    publish(world, "4").await?;
    installed(world, PACKAGE, "0.3.3").await?;
    runs(world, namespace, "0.3.3").await?;
    all_are_open(world).await?;
    load.finish_without_failures(world).await?;
    late.rest(world, &[]).await?;
    early.rest(world, &[]).await
}

/// Waits until the operator of a version runs, and none of before.
async fn runs(world: &World, namespace: &str, version: &str) -> Outcome {
    operator::ready(world, namespace).await?;
    let (image, wanted) = (
        operator::image(world, namespace).await?,
        world.operator_image(version),
    );
    ensure!(image == wanted, "the operator's image is {image}, not {wanted}");
    Ok(())
}

async fn all_are_open(world: &World) -> Outcome {
    for definition in DEFINITIONS {
        let definition = world.get(CRD, "", definition).await?;
        let closed = closed(&definition);
        ensure!(closed.is_empty(), "closed: {closed:?}");
    }
    both_versions_are_served(world).await
}

/// Whoever uninstalls under OLM v1 takes the definitions away as well, so objects go first.
async fn uninstall(world: &World, proxy: &Proxy<'_>, namespace: &str) -> Outcome {
    for (kind, namespace) in [
        (MY_PROXY, proxy.namespace.as_str()),
        (GREETING, namespace),
        (PERSON, namespace),
    ] {
        for name in names(&world.list(kind, namespace, "").await?) {
            world.delete(kind, namespace, &name).await?;
            world.wait_gone(kind, namespace, &name, SOON).await?;
        }
    }
    for (package, deployment) in [(PACKAGE, operator::NAME), (greeter::NAME, greeter::NAME)] {
        world.delete(CLUSTER_EXTENSION, "", package).await?;
        world.wait_gone(CLUSTER_EXTENSION, "", package, LIMIT).await?;
        world.wait_gone(DEPLOYMENT, namespace, deployment, SOON).await?;
    }
    for definition in DEFINITIONS.iter().chain(&greeter::CRDS) {
        world.wait_gone(CRD, "", definition, SOON).await?;
    }
    Ok(())
}

/// Removes OLM v1 and all that it has in hand, in whatever state that is.
async fn remove(world: &World) -> Outcome {
    for (kind, name) in [
        (CLUSTER_EXTENSION, PACKAGE),
        (CLUSTER_EXTENSION, greeter::NAME),
        (CLUSTER_CATALOG, OURS),
    ] {
        world.delete(kind, "", name).await?;
        if world.wait_gone(kind, "", name, SOON).await.is_err() {
            // Whoever would let go of it does not run any more
            let finalizers = json!({"metadata": {"finalizers": null}});
            world.merge(kind, "", name, finalizers).await?;
        }
    }
    world.delete(CLUSTER_ROLE_BINDING, "", OURS).await?;
    for manifests in ["olm-v1", "types"] {
        let file = file(world, manifests);
        world
            .kubectl(&format!("delete --ignore-not-found --timeout=60s -f {file}"))
            .await?;
    }
    Ok(())
}
