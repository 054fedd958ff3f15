//! What has to be true of a cluster with the product in it.

use std::time::Duration;

use roadstead::controllers::my_proxy::rules;
use serde_json::Value;
use tokio::time::sleep;

use super::{NAMESPACE, USER, World, is_ready};
use crate::sim::Entry;
use crate::sim::faults::Faults;
use crate::sim::kinds::named;
use crate::sim::request::Verb;
use crate::sim::store::{Id, Store};

/// What is left of the proxy `name`, itself included.
pub fn leftovers(store: &Store, name: &str) -> Vec<String> {
    let of_it = store.all().filter(|(id, object)| {
        let labelled = object["metadata"]["labels"]["app.kubernetes.io/instance"] == name;
        let owners = object["metadata"]["ownerReferences"]
            .as_array()
            .into_iter()
            .flatten();
        let owned = owners
            .into_iter()
            .any(|owner| owner["kind"] == "MyProxy" && owner["name"] == name);
        id.kind != "Event" && (labelled || owned || (id.kind == "MyProxy" && id.name == name))
    });
    of_it
        .map(|(id, _)| format!("{} {}/{}", id.kind, id.namespace, id.name))
        .collect()
}

/// The operator's requests, its lease aside.
fn of_operator(world: &World) -> Vec<Entry> {
    let mut log = world.sim.log();
    log.retain(|entry| entry.user == USER && entry.kind != "Lease");
    log
}

/// How often the operator has asked for a change, its lease aside.
pub fn writes(world: &World) -> usize {
    of_operator(world)
        .iter()
        .filter(|entry| entry.verb.is_write())
        .count()
}

/// Nothing is deleted by its name alone: another object may have it by the time when the request arrives.
pub fn deletes_name_a_uid(world: &World) {
    for entry in of_operator(world)
        .iter()
        .filter(|entry| entry.verb == Verb::Delete)
    {
        let uid = &entry.body["preconditions"]["uid"];
        assert!(
            uid.as_str().is_some_and(|uid| !uid.is_empty()),
            "without a uid: {}",
            entry.summary
        );
    }
}

/// Nothing is asked for that the operator's role does not allow.
pub fn stays_within_its_role(world: &World) {
    let rules = rules();
    for entry in of_operator(world).iter().filter(|entry| entry.kind != "Event") {
        let kind = named(entry.kind);
        let resource = if entry.summary.contains(" status ") {
            format!("{}/status", kind.plural)
        } else {
            kind.plural.to_owned()
        };
        let verbs: &[&str] = match entry.verb {
            Verb::Get => &["get"],
            Verb::List => &["list"],
            Verb::Watch => &["watch"],
            Verb::Create => &["create"],
            Verb::Update => &["update"],
            Verb::MergePatch => &["patch"],
            Verb::Apply => &["create", "patch"],
            Verb::Delete => &["delete"],
        };
        for verb in verbs {
            let allowed = rules.iter().any(|rule| {
                let has = |list: &Option<Vec<String>>, wanted: &str| {
                    list.iter().flatten().any(|text| text == wanted)
                };
                has(&rule.api_groups, kind.group)
                    && has(&rule.resources, &resource)
                    && rule.verbs.iter().any(|text| text == verb)
            });
            assert!(
                allowed,
                "the role does not allow to {verb} {resource}: {}",
                entry.summary
            );
        }
    }
}

/// When nothing changes nothing is written, nor by an operator that starts anew and looks at everything.
pub async fn a_further_reconcile_writes_nothing(world: &mut World) {
    world.until_quiet().await;
    let before = writes(world);
    world.stop().await;
    world.start(&Faults::default(), None);
    sleep(Duration::from_secs(120)).await;
    assert_eq!(
        writes(world),
        before,
        "written without need:\n{}",
        world.last_writes(20)
    );
}

/// How many pods of the proxy `name` are ready.
fn ready_pods(store: &Store, name: &str) -> usize {
    let pods = store.of_kind(named("Pod"), Some(NAMESPACE));
    let of_it = pods.filter(|(_, pod)| {
        let labels = &pod["metadata"]["labels"];
        let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        let mut ready = conditions
            .into_iter()
            .filter(|condition| condition["type"] == "Ready");
        labels["app.kubernetes.io/instance"] == name
            && pod["metadata"]["deletionTimestamp"].is_null()
            && ready.any(|condition| condition["status"] == "True")
    });
    of_it.count()
}

/// Whatever is changed, there are never fewer pods that serve than there are to be; until there are more of them, as many as there were.
/// To be asked of a proxy that serves.
pub fn keeps_serving(name: &'static str) -> impl FnMut(&Store) + Send + 'static {
    let mut fewest = usize::MAX;
    move |store| {
        let proxy = store.get(&Id::new(named("MyProxy"), NAMESPACE, name));
        let Some(proxy) = proxy.filter(|proxy| proxy["metadata"]["deletionTimestamp"].is_null()) else {
            return;
        };
        let wanted = usize::try_from(proxy["spec"]["replicas"].as_u64().unwrap_or(0)).unwrap_or(0);
        let ready = ready_pods(store, name);
        assert!(
            ready >= wanted.min(fewest),
            "{ready} of {wanted} pods of {name} serve"
        );
        fewest = ready;
    }
}

/// A proxy that is gone has left nothing for the garbage collector.
pub fn goes_last(name: &'static str) -> impl FnMut(&Store) + Send + 'static {
    move |store| {
        if store.get(&Id::new(named("MyProxy"), NAMESPACE, name)).is_none() {
            let mut left = leftovers(store, name);
            // They go with what the operator has deleted.
            left.retain(|left| !left.starts_with("Pod "));
            assert!(left.is_empty(), "{name} went before {left:?}");
        }
    }
}

/// What the status of a proxy that is well says is so: of its pods, and of what each of them serves.
pub fn status_says_what_is(world: &World, name: &str) {
    let proxy = world.proxy(name).expect("the proxy");
    assert!(is_ready(&proxy), "{:#}", proxy["status"]);
    let pods: Vec<Value> = world
        .list("Pod")
        .into_iter()
        .filter(|pod| {
            let labels = &pod["metadata"]["labels"];
            labels["app.kubernetes.io/instance"] == name
                && labels["app.kubernetes.io/component"] == "proxy"
                && pod["metadata"]["deletionTimestamp"].is_null()
        })
        .collect();
    let mut names: Vec<&str> = pods
        .iter()
        .filter_map(|pod| pod["metadata"]["name"].as_str())
        .collect();
    names.sort_unstable();
    assert_eq!(proxy["status"]["pod_names"], serde_json::json!(names));
    assert_eq!(proxy["status"]["replicas"], names.len());
    assert_eq!(proxy["spec"]["replicas"], names.len());
    let active = world
        .get("ConfigMap", &format!("{name}-config"))
        .expect("the active configuration");
    let serving = world.cluster.serving();
    for pod in names {
        let serves = serving.get(&(NAMESPACE.to_owned(), pod.to_owned()));
        assert_eq!(
            serves.map(String::as_str),
            active["data"]["nginx.conf"].as_str(),
            "what pod {pod} serves"
        );
    }
}
