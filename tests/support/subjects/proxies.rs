//! The product's own operator: proxies.

use std::sync::OnceLock;

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use roadstead::controllers::my_proxy;
use roadstead::runtime::controller::ControllerOptions;
use serde_json::{Value, json};

use super::{Kind, Subject, condition};
use crate::life::Course;
use crate::pretence::REFUSED_HOST;
pub use crate::sample_proxy::spec;
use crate::sample_proxy::{leading_to, settings};
use crate::sim::faults::Chance;
use crate::sim::kinds::named;
use crate::sim::store::{Id, Objects, Store};
use crate::sim::world::{NAMESPACE, World, oracles};

pub static PROXIES: Subject = Subject {
    name: "roadstead",
    register: |manager, cluster| {
        let agents = Some(cluster.agents());
        my_proxy::register(manager, settings(), agents, ControllerOptions::default());
    },
    role: my_proxy::rules,
    kinds: &[&MyProxy],
    through: &[],
    cost: 1,
    watched: |_| {},
    life,
    undisturbed: OnceLock::new(),
};

/// One that nginx refuses.
pub fn refused_spec() -> Value {
    leading_to(REFUSED_HOST, 80)
}

/// Whether a proxy is well, and its status is about its present spec.
pub fn is_ready(proxy: &Value) -> bool {
    condition(proxy, "Ready")["status"] == "True"
        && condition(proxy, "Progressing")["status"] == "False"
        && is_about_its_spec(proxy)
}

fn is_about_its_spec(proxy: &Value) -> bool {
    proxy["status"]["observedGeneration"] == proxy["metadata"]["generation"]
}

fn server(host: &str, port: u16) -> Value {
    json!({"host": host, "port": port})
}

struct MyProxy;

impl Kind for MyProxy {
    fn name(&self) -> &'static str {
        "MyProxy"
    }

    fn names(&self) -> &'static [&'static str] {
        &["a", "b", "c"]
    }

    fn base(&self) -> Value {
        let mut base = spec(80);
        base["upstreams"] = json!([{"name": "up", "servers": [server("backend", 80)]}, {"name": "other", "servers": [server("other", 80)]}]);
        base
    }

    fn changes(&self) -> Vec<(&'static str, Value)> {
        let servers = |server: Value| json!({"upstreams": [{"name": "up", "servers": [server]}]});
        let route = |field: &str, value: &str| {
            let mut route = json!({"path": "/", "upstream": "up"});
            route[field] = json!(value);
            json!({"routes": [route]})
        };
        let weights = json!([server("backend", 80), {"host": "other", "port": 80, "weight": 3}]);
        vec![
            ("deploymentName", json!({"deploymentName": "another"})),
            ("replicas", json!({"replicas": 3})),
            ("image", json!({"image": "nginx:2"})),
            ("tls.secretName", json!({"tls": {"secretName": "certificate"}})),
            ("paused", json!({"paused": true})),
            ("resources.limits", json!({"resources": {"limits": {"cpu": "1"}}})),
            (
                "resources.requests",
                json!({"resources": {"requests": {"memory": "1Mi"}}}),
            ),
            ("routes[].host", route("host", "example.com")),
            ("routes[].path", route("path", "/only")),
            ("routes[].upstream", route("upstream", "other")),
            (
                "upstreams[].name",
                json!({
                    "upstreams": [{"name": "renamed", "servers": [server("backend", 80)]}],
                    "routes": [{"path": "/", "upstream": "renamed"}],
                }),
            ),
            ("upstreams[].servers[].host", servers(server("another", 80))),
            ("upstreams[].servers[].port", servers(server("backend", 81))),
            (
                "upstreams[].servers[].weight",
                json!({"upstreams": [{"name": "up", "servers": weights}]}),
            ),
        ]
    }

    /// nginx may refuse it, its image or Secret may be missing, its name be taken.
    fn valid(&self, chance: &mut Chance) -> Value {
        let mut drawn = spec(u16::try_from(80 + chance.below(3)).unwrap_or(80));
        drawn["replicas"] = json!(chance.below(4));
        match chance.below(4) {
            0 => {
                drawn["upstreams"][0]["servers"] =
                    json!([{"host": "backend", "port": 80}, {"host": "10.0.0.1", "port": 81, "weight": 3}]);
            }
            1 => {
                drawn["routes"] = json!([
                    {"path": "/", "upstream": "up"}, {"path": "/more", "upstream": "up", "host": "*.example"},
                ]);
            }
            _ => {}
        }
        match chance.below(8) {
            0 => drawn["upstreams"][0]["servers"][0]["host"] = json!(REFUSED_HOST),
            1 => drawn["image"] = json!("nginx-missing:1"),
            2 => drawn["tls"] = json!({"secretName": "missing"}),
            3 => drawn["deploymentName"] = json!("a"), // not any of them: see two_proxies_that_swap_names_wait_and_say_so
            4 => drawn["deploymentName"] = json!("another"),
            5 => drawn["resources"] = json!({"limits": {"cpu": "1000m"}}),
            6 => drawn["resources"] = json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
            _ => {}
        }
        drawn
    }

    fn invalid(&self, chance: &mut Chance) -> Value {
        let one = [
            json!({"replicas": -1}),
            json!({"replicas": "two"}),
            json!({"upstreams": [{"name": "up", "servers": []}]}),
            json!({"routes": [{"path": "no-slash", "upstream": "up"}]}),
        ];
        one[usize::try_from(chance.below(4)).unwrap_or(0)].clone()
    }

    fn remedy(&self) -> Value {
        json!({"deploymentName": null, "image": null, "tls": null, "resources": null, "upstreams": null, "routes": null, "paused": null})
    }

    fn strangers(&self, name: &str) -> Vec<Value> {
        vec![
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("{name}-config")}, "data": {"precious": "data"}}),
            json!({
                "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
                "spec": {"selector": {"app": "stranger"}, "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}]},
            }),
        ]
    }

    fn tampering(&self, child: &str) -> Vec<Value> {
        let mut all = vec![
            json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": null}}}),
            json!({"metadata": {"annotations": {"roadstead.dev/applied": null}}}),
        ];
        if child != "Pod" {
            // Nor would a Deployment have such a pod for its own.
            all.push(json!({"metadata": {"labels": {"app.kubernetes.io/instance": "another"}}}));
        }
        all.extend(match child {
            "Service" => vec![json!({"spec": {"selector": {"app": "stranger"}}})],
            "Deployment" => vec![
                json!({"spec": {"replicas": 5}}),
                json!({"spec": {"template": {"metadata": {"annotations": {"by": "hand"}}}}}),
            ],
            "ConfigMap" => vec![
                json!({"data": {"nginx.conf": "# by hand"}}),
                json!({"data": null}),
            ],
            "PodDisruptionBudget" => vec![json!({"spec": {"maxUnavailable": 5}})],
            "Job" => vec![json!({"spec": {"activeDeadlineSeconds": 1}})],
            _ => Vec::new(),
        });
        all
    }

    /// A name may be taken whatever else is wrong; every other reason has to be the one that the spec gives.
    fn is_told(&self, _: &Objects, proxy: &Value) -> bool {
        let ready = condition(proxy, "Ready");
        let reason = ready["reason"].as_str().unwrap_or_default();
        let spec = &proxy["spec"];
        let is_refused = spec["upstreams"][0]["servers"][0]["host"] == REFUSED_HOST;
        // In what is drawn with both, more is promised than allowed.
        let is_rejected = ["requests", "limits"]
            .iter()
            .all(|field| !spec["resources"][field].is_null());
        let fits = match reason {
            "NameTaken" => true,
            "Refused" => is_refused,
            "Rejected" => is_rejected,
            _ => false,
        };
        let is_good = !is_refused && !is_rejected;
        (is_good && is_ready(proxy)) || (is_about_its_spec(proxy) && ready["status"] == "False" && fits)
    }

    fn is_well(&self, _: &Objects, proxy: &Value) -> bool {
        is_ready(proxy)
    }

    fn says_what_is(&self, world: &World, name: &str) {
        status_says_what_is(world, name);
    }
}

/// Created, changed, refused by nginx, good again, scaled, deleted.
fn life<'a>(world: &'a mut World, course: &'a mut Course) -> LocalBoxFuture<'a, ()> {
    async move {
        world.sim.always(is_held_before_it_has_children("edge"));
        world.people.create("MyProxy", "edge", spec(80)).await.unwrap();
        until_it_serves(world).await;
        course.compare(world, "after the creation");
        world.sim.always(keeps_serving("edge"));

        change(world, spec(81)).await;
        until_it_serves(world).await;
        course.compare(world, "after a change");
        let good = world.get("ConfigMap", "edge-config");

        change(world, refused_spec()).await;
        world
            .until_object("MyProxy", "edge", "refused", |proxy| {
                condition(proxy, "ConfigValid")["reason"] == "Refused" && is_about_its_spec(proxy)
            })
            .await;
        let proxy = world.get("MyProxy", "edge").unwrap();
        let message = condition(&proxy, "ConfigValid")["message"].as_str().unwrap();
        assert!(message.contains("[emerg] invalid host"), "{message}");
        assert_eq!(
            condition(&proxy, "Available")["status"],
            "True",
            "what serves goes on serving"
        );
        assert_eq!(world.get("ConfigMap", "edge-config"), good);

        change(world, spec(81)).await;
        until_it_serves(world).await;
        course.compare(world, "good again");
        course.is_as_before(1, "good, bad, good again");
        assert_eq!(world.get("ConfigMap", "edge-config"), good);

        for replicas in [3, 1] {
            change(world, json!({"replicas": replicas})).await;
            until_it_serves(world).await;
            course.compare(world, "after scaling");
            assert_eq!(world.names("PodDisruptionBudget").is_empty(), replicas == 1);
        }

        world.people.delete("MyProxy", "edge").await.unwrap();
        world.until_gone("MyProxy", "edge").await;
        world.until_quiet().await;
        course.compare(world, "at the end");
    }
    .boxed_local()
}

async fn change(world: &World, spec: Value) {
    let patch = json!({"spec": spec});
    world.people.patch("MyProxy", "edge", patch).await.unwrap();
}

async fn until_it_serves(world: &mut World) {
    world.until_object("MyProxy", "edge", "ready", is_ready).await;
    world.until_quiet().await;
    status_says_what_is(world, "edge");
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

/// Whatever is made for a proxy can be cleaned up after it: it cannot go before.
fn is_held_before_it_has_children(name: &'static str) -> impl FnMut(&Store) + Send + 'static {
    move |store| {
        let Some(proxy) = store.get(&Id::new(named("MyProxy"), NAMESPACE, name)) else {
            return;
        };
        let has_children = oracles::leftovers(store.objects(), "MyProxy", name).len() > 1;
        let held = !proxy["metadata"]["finalizers"].is_null();
        assert!(held || !has_children, "{name} has children and may go");
    }
}

/// A proxy that is gone has left nothing for the garbage collector.
pub fn goes_last(name: &'static str) -> impl FnMut(&Store) + Send + 'static {
    move |store| {
        if store.get(&Id::new(named("MyProxy"), NAMESPACE, name)).is_none() {
            let mut left = oracles::leftovers(store.objects(), "MyProxy", name);
            // They go with what the operator has deleted.
            left.retain(|left| !left.starts_with("Pod ") && !left.starts_with("ReplicaSet "));
            assert!(left.is_empty(), "{name} went before {left:?}");
        }
    }
}

/// What the status of a proxy that is well says is so: of its pods, and of what each of them serves. One from which somebody took the
/// operator's label is counted, but not known by name.
pub fn status_says_what_is(world: &World, name: &str) {
    let proxy = world.get("MyProxy", name).expect("the proxy");
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
    assert_eq!(proxy["status"]["replicas"], pods.len());
    assert_eq!(proxy["spec"]["replicas"], pods.len());
    let known = pods
        .iter()
        .filter(|pod| !pod["metadata"]["labels"]["app.kubernetes.io/managed-by"].is_null());
    let mut names: Vec<&str> = known.filter_map(|pod| pod["metadata"]["name"].as_str()).collect();
    names.sort_unstable();
    assert_eq!(proxy["status"]["podNames"], json!(names));
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
