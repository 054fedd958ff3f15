//! The state that explains a failure: what OLM says, why pods wait, what the operator logged.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ContainerStatus, Event, Pod};
use kube::ResourceExt;
use kube::api::{Api, DynamicObject, ListParams, LogParams};
use serde_json::Value;

use crate::objects::{
    CATALOG_SOURCE, CSV, DATABASE, DEPLOYMENT, GREETING, INSTALL_PLAN, Kind, LEASE, MY_PROXY, OPERATOR_GROUP,
    PERSON, SUBSCRIPTION,
};
use crate::world::{OPERATORS, World};

/// The most Events and log lines that are printed.
const EVENTS: usize = 12;
const LINES: i64 = 40;
/// The most lines of what instances logged while something took too long.
const STORY: usize = 200;
/// The most characters of one line.
const WIDTH: usize = 400;

/// Prints the state of the operator's namespace and of the scenarios' own.
pub async fn print(world: &World) {
    for (kind, fields) in [
        (
            CATALOG_SOURCE,
            &[
                "/spec/image",
                "/status/connectionState/lastObservedState",
                "/status/message",
            ][..],
        ),
        (OPERATOR_GROUP, &["/spec", "/status/namespaces"]),
        (
            SUBSCRIPTION,
            &[
                "/spec/channel",
                "/status/state",
                "/status/installedCSV",
                "/status/currentCSV",
                "/status/conditions",
            ],
        ),
        (
            INSTALL_PLAN,
            &[
                "/spec/clusterServiceVersionNames",
                "/spec/approved",
                "/status/phase",
                "/status/message",
                "/status/conditions",
            ],
        ),
        (CSV, &["/status/phase", "/status/reason", "/status/message"]),
        (DEPLOYMENT, &["/metadata/generation", "/status"]),
    ] {
        objects(world, kind, OPERATORS, fields).await;
    }
    let mut users = Vec::new();
    for kind in [MY_PROXY, DATABASE, GREETING, PERSON] {
        users.extend(world.list_everywhere(kind, "").await.unwrap_or_default());
    }
    let namespaces: Vec<String> = users
        .iter()
        .filter_map(ResourceExt::namespace)
        .chain([OPERATORS.to_owned(), "roadstead-system".to_owned()])
        .collect::<std::collections::BTreeSet<_>>()
        .into_iter()
        .collect();
    for namespace in &namespaces {
        for kind in [MY_PROXY, DATABASE, GREETING, PERSON] {
            let fields = &["/metadata/deletionTimestamp", "/spec", "/status"];
            objects(world, kind, namespace, fields).await;
        }
        objects(world, LEASE, namespace, &["/metadata/annotations", "/spec"]).await;
        pods(world, namespace).await;
        events(world, namespace).await;
    }
}

/// Prints what the pods of a namespace have logged since a moment, in the containers before these too: what took too long is over, and the state tells no more
/// of it.
pub async fn story(world: &World, namespace: &str, since: Instant) {
    let api: Api<Pod> = Api::namespaced(world.client.clone(), namespace);
    let pods = api.list(&ListParams::default()).await.map(|list| list.items);
    let whole = since.elapsed() + Duration::from_secs(1);
    for pod in pods.unwrap_or_default() {
        let name = pod.name_any();
        println!("    | Pod {namespace}/{name}:");
        for previous in [true, false] {
            let params = LogParams {
                since_seconds: i64::try_from(whole.as_secs()).ok(),
                previous,
                ..LogParams::default()
            };
            log(&api, &name, &params, STORY).await;
        }
    }
}

async fn objects(world: &World, kind: Kind, namespace: &str, fields: &[&str]) {
    for object in world.list(kind, namespace, "").await.unwrap_or_default() {
        let shown: Vec<String> = fields
            .iter()
            .filter_map(|field| Some(format!("{field}={}", shown(&object, field)?)))
            .collect();
        println!(
            "    | {} {namespace}/{}: {}",
            kind.kind,
            object.name_any(),
            shown.join(" ")
        );
    }
}

fn shown(object: &DynamicObject, pointer: &str) -> Option<String> {
    if let Some(field) = pointer.strip_prefix("/metadata/") {
        let metadata = serde_json::to_value(&object.metadata).ok()?;
        return metadata.get(field).map(ToString::to_string);
    }
    object.data.pointer(pointer).map(|value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    })
}

async fn pods(world: &World, namespace: &str) {
    let api: Api<Pod> = Api::namespaced(world.client.clone(), namespace);
    let Ok(list) = api.list(&ListParams::default()).await else {
        return;
    };
    for pod in list.items {
        let name = pod.name_any();
        let Some(status) = &pod.status else { continue };
        let statuses = status
            .init_container_statuses
            .iter()
            .flatten()
            .chain(status.container_statuses.iter().flatten());
        let containers: Vec<String> = statuses.map(container).collect();
        let phase = status.phase.as_deref().unwrap_or("-");
        println!("    | Pod {namespace}/{name}: {phase} {}", containers.join(", "));
        let running = || status.container_statuses.iter().flatten();
        let restarted = running().any(|it| it.restart_count > 0);
        let unready = phase == "Running" && running().any(|it| !it.ready);
        if name.starts_with("roadstead-operator-") || phase == "Failed" || restarted || unready {
            let params = |previous| LogParams {
                tail_lines: Some(LINES),
                previous,
                ..LogParams::default()
            };
            log(&api, &name, &params(false), usize::MAX).await;
            if restarted {
                log(&api, &name, &params(true), usize::MAX).await;
            }
        }
    }
}

fn container(status: &ContainerStatus) -> String {
    let state = status.state.as_ref();
    let waiting = state.and_then(|it| it.waiting.as_ref());
    let ended = state.and_then(|it| it.terminated.as_ref());
    let text = match (waiting, ended) {
        (Some(waiting), _) => format!(
            "waits: {} {}",
            waiting.reason.as_deref().unwrap_or("-"),
            waiting.message.as_deref().unwrap_or_default()
        ),
        (_, Some(ended)) => format!(
            "ended with {}: {} {}",
            ended.exit_code,
            ended.reason.as_deref().unwrap_or("-"),
            ended.message.as_deref().unwrap_or_default()
        ),
        _ if status.ready => "ready".to_owned(),
        _ => "runs, not ready".to_owned(),
    };
    format!("{} {text} (restarts {})", status.name, status.restart_count)
}

/// So many of the lines, from the first.
async fn log(pods: &Api<Pod>, name: &str, params: &LogParams, lines: usize) {
    if let Ok(text) = pods.logs(name, params).await {
        for line in text.lines().take(lines) {
            let shown: String = line.chars().take(WIDTH).collect();
            println!(
                "    |   {}{shown}",
                if params.previous { "(before) " } else { "" }
            );
        }
    }
}

async fn events(world: &World, namespace: &str) {
    let api: Api<Event> = Api::namespaced(world.client.clone(), namespace);
    let Ok(list) = api.list(&ListParams::default()).await else {
        return;
    };
    let mut warnings: Vec<Event> = list
        .items
        .into_iter()
        .filter(|it| it.type_.as_deref() == Some("Warning"))
        .collect();
    warnings.sort_by_key(|it| {
        it.last_timestamp
            .clone()
            .or_else(|| it.metadata.creation_timestamp.clone())
    });
    for event in warnings.iter().rev().take(EVENTS).rev() {
        println!(
            "    | Warning {namespace} {}/{}: {}: {}",
            event.involved_object.kind.as_deref().unwrap_or("-"),
            event.involved_object.name.as_deref().unwrap_or("-"),
            event.reason.as_deref().unwrap_or("-"),
            event.message.as_deref().unwrap_or_default()
        );
    }
}
