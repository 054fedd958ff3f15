//! What is read around the Subscriptions to a package.

use std::collections::BTreeSet;

use futures::future::join_all;
use futures::{StreamExt as _, join, stream};
use jiff::Timestamp;
use kube::api::ListParams;
use serde_json::Value;

use crate::cli::Failure;
use crate::cli::cluster::reader::{
    CATALOG_SOURCE, CLUSTER_EXTENSION, CSV, DEPLOYMENT, INSTALL_PLAN, JOB, Kind, NAMESPACE, NO_COPIES,
    OPERATOR_CONDITION, OPERATOR_GROUP, PACKAGE_MANIFEST, POD, Reader, Refusal, SUBSCRIPTION,
};
use crate::olm::manifests::text;
use crate::olm::status::{
    Deployed, Facts, Read, Report, UNPACKS, deployments, judge, nobody, nowhere, plan, selector,
    selector_of_pods, serving, source,
};

/// How many Subscriptions are looked at; a screen shows no more.
const MOST: usize = 20;
/// Around how many Subscriptions it is read at once.
const AT_ONCE: usize = 4;

/// Judges each Subscription to the package in a namespace, or in all.
pub(in crate::cli) async fn report(
    reader: &Reader,
    package: &str,
    namespace: Option<&str>,
    now: Timestamp,
) -> Result<Report, Failure> {
    let all = subscriptions(reader, package, namespace).await?;
    let ours: Vec<&Value> = all
        .iter()
        .filter(|subscription| text(subscription, "/spec/name") == package)
        .collect();
    if ours.is_empty() {
        // Who may not look at namespaces may have one all the same
        if let Some(place) = namespace
            && let Ok(None) = reader.get(&NAMESPACE, None, place).await
        {
            return Ok(Report::new(package, Vec::new(), Some(nowhere(package, place))));
        }
        let (offered, extensions) = join!(offered(reader, package, namespace), extensions(reader, package));
        let trouble = nobody(package, namespace, &offered, &extensions);
        return Ok(Report::new(package, Vec::new(), Some(trouble)));
    }
    if ours.len() > MOST {
        eprintln!("note: of {} Subscriptions, the first {MOST} are told", ours.len());
    }
    let facts = stream::iter(ours.into_iter().take(MOST))
        .map(|subscription| facts(reader, subscription, &all))
        .buffered(AT_ONCE);
    let chains = facts.map(|facts| judge(&facts, now)).collect().await;
    Ok(Report::new(package, chains, None))
}

/// All Subscriptions. Where there is OLM v1 alone there are none.
async fn subscriptions(
    reader: &Reader,
    package: &str,
    namespace: Option<&str>,
) -> Result<Vec<Value>, Failure> {
    let refusal = match reader.list(&SUBSCRIPTION, namespace, ListParams::default()).await {
        Ok(all) => return Ok(all),
        Err(refusal) => refusal,
    };
    Err(match (&refusal, namespace) {
        (Refusal::Unknown, _) if !extensions(reader, package).await.is_empty() => return Ok(Vec::new()),
        (Refusal::Unknown, _) => "this cluster has no OLM: its API server knows no Subscriptions".into(),
        (Refusal::Forbidden(message), None) => {
            format!("{message}; you may be allowed to in a namespace: name it with -n NAMESPACE").into()
        }
        _ => format!("cannot read Subscriptions: {refusal}").into(),
    })
}

/// The catalogs that have the package, as far as the API server tells of them.
async fn offered(reader: &Reader, package: &str, namespace: Option<&str>) -> Vec<String> {
    let manifests = manifests(reader, package, namespace, ListParams::default()).await;
    let manifests = manifests.unwrap_or_default();
    let offered = manifests.iter().map(|manifest| {
        let [namespace, name] = ["/status/catalogSourceNamespace", "/status/catalogSource"]
            .map(|pointer| text(manifest, pointer));
        format!("{namespace}/{name}")
    });
    // One of a global catalog is in every namespace
    offered.collect::<BTreeSet<String>>().into_iter().collect()
}

/// The names of the ClusterExtensions by which OLM v1 installs the package, as far as the API server tells of them.
async fn extensions(reader: &Reader, package: &str) -> Vec<String> {
    let list = reader.list(&CLUSTER_EXTENSION, None, ListParams::default()).await;
    let all = list.unwrap_or_default();
    let ours = all
        .iter()
        .filter(|extension| text(extension, "/spec/source/catalog/packageName") == package);
    ours.map(|extension| text(extension, "/metadata/name").to_owned())
        .collect()
}

/// The manifests of a package. Those of a whole catalog are many megabytes, so the API server is asked for these alone.
async fn manifests(
    reader: &Reader,
    package: &str,
    namespace: Option<&str>,
    selected: ListParams,
) -> Read<Vec<Value>> {
    let selected = selected.fields(&format!("metadata.name={package}"));
    let mut manifests = told(reader.list(&PACKAGE_MANIFEST, namespace, selected).await)?;
    manifests.retain(|manifest| text(manifest, "/metadata/name") == package);
    Ok(manifests)
}

async fn facts(reader: &Reader, subscription: &Value, all: &[Value]) -> Facts {
    let namespace = text(subscription, "/metadata/namespace");
    let (source_namespace, source_name) = source(subscription);
    let all_of = ListParams::default;
    let labelled = |labels: &str| all_of().labels(labels);
    let ((source, source_pods), package, groups, jobs, job_pods, plan, csvs, conditions) = join!(
        served(reader, source_namespace, source_name),
        package(reader, subscription),
        list(reader, &OPERATOR_GROUP, namespace, all_of()),
        list(reader, &JOB, source_namespace, labelled(UNPACKS)),
        list(reader, &POD, source_namespace, labelled(UNPACKS)),
        get(
            reader,
            &INSTALL_PLAN,
            namespace,
            plan(subscription).unwrap_or_default()
        ),
        list(reader, &CSV, namespace, labelled(NO_COPIES)),
        list(reader, &OPERATOR_CONDITION, namespace, all_of()),
    );
    let serving = serving(subscription, csvs.as_deref().unwrap_or_default());
    let names = serving.map(deployments).unwrap_or_default();
    let deployments = join_all(names.into_iter().map(|name| deployed(reader, namespace, name))).await;
    let (neighbours, elsewhere) = others(subscription, all);
    Facts {
        subscription: subscription.clone(),
        neighbours,
        elsewhere,
        source,
        source_pods,
        package,
        groups,
        jobs,
        job_pods,
        plan,
        csvs,
        conditions,
        deployments,
    }
}

/// A CatalogSource, and the pods that serve it.
async fn served(reader: &Reader, namespace: &str, name: &str) -> (Read<Option<Value>>, Read<Vec<Value>>) {
    let source = get(reader, &CATALOG_SOURCE, namespace, name).await;
    let pods = match &source {
        Ok(Some(source)) => {
            let labels = ListParams::default().labels(&selector_of_pods(source));
            list(reader, &POD, namespace, labels).await
        }
        _ => Ok(Vec::new()),
    };
    (source, pods)
}

/// All others of the namespace, and those to the same package elsewhere.
fn others(subscription: &Value, all: &[Value]) -> (Vec<Value>, Vec<Value>) {
    let is_alike = |other: &Value, pointer: &str| text(other, pointer) == text(subscription, pointer);
    let others = all.iter().filter(|other| *other != subscription).cloned();
    let (neighbours, mut elsewhere): (Vec<Value>, Vec<Value>) =
        others.partition(|other| is_alike(other, "/metadata/namespace"));
    elsewhere.retain(|other| is_alike(other, "/spec/name"));
    (neighbours, elsewhere)
}

fn told<T>(read: Result<T, Refusal>) -> Read<T> {
    read.map_err(|refusal| refusal.to_string())
}

async fn list(reader: &Reader, kind: &Kind<'_>, namespace: &str, selected: ListParams) -> Read<Vec<Value>> {
    told(reader.list(kind, Some(namespace), selected).await)
}

async fn get(reader: &Reader, kind: &Kind<'_>, namespace: &str, name: &str) -> Read<Option<Value>> {
    told(reader.get(kind, Some(namespace), name).await)
}

/// The manifest of the catalog that the Subscription names; others may have a package of this name, too.
async fn package(reader: &Reader, subscription: &Value) -> Read<Option<Value>> {
    let namespace = text(subscription, "/metadata/namespace");
    let name = text(subscription, "/spec/name");
    let (source_namespace, source_name) = source(subscription);
    let labels = format!("catalog={source_name},catalog-namespace={source_namespace}");
    let found = manifests(
        reader,
        name,
        Some(namespace),
        ListParams::default().labels(&labels),
    )
    .await?;
    Ok(found.into_iter().next())
}

async fn deployed(reader: &Reader, namespace: &str, name: &str) -> Deployed {
    let deployment = get(reader, &DEPLOYMENT, namespace, name).await;
    let labels = deployment.as_ref().ok().and_then(Option::as_ref).map(selector);
    let pods = match labels {
        // Without labels, every pod of the namespace would be its own
        Some(labels) if !labels.is_empty() => {
            list(reader, &POD, namespace, ListParams::default().labels(&labels)).await
        }
        _ => Ok(Vec::new()),
    };
    Deployed {
        name: name.to_owned(),
        deployment,
        pods,
    }
}
