//! What the operators rely on in Kubernetes' own controllers, as one list of behaviours: the models of `sim/cluster/` and the real ones have
//! to pass it, so the models stay honest.
//!
//! A behaviour gets a client and a namespace of its own, in which pods are run as `pretence.rs` has it.

mod deployments;
mod garbage;
mod jobs;
mod rollouts;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Resource;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, WatchEvent, WatchParams};
use roadstead::controllers::my_proxy::desired::unit::FILE;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::place::{Place, behaviours};
use crate::subjects::condition;

/// How long anything may take.
const LIMIT: Duration = Duration::from_secs(40);
/// How often something that is waited for is looked at.
const GLANCE: Duration = Duration::from_millis(50);
/// How long something that is not to happen is waited for.
const WHILE: Duration = Duration::from_secs(2);
/// An image that is there.
const IMAGE: &str = "nginx:1";

behaviours![
    deployments::a_new_deployment_tells_how_far_it_is_until_it_is_complete,
    deployments::a_pod_belongs_to_a_replica_set_of_its_template,
    deployments::scaling_is_no_rollout,
    deployments::a_pod_or_a_replica_set_that_goes_comes_back,
    deployments::of_too_many_pods_those_that_are_not_ready_go_first,
    deployments::a_deployment_that_is_deleted_takes_its_pods_along,
    deployments::a_deployment_that_is_deleted_in_the_foreground_goes_last,
    rollouts::a_rollout_spares_what_the_strategy_says,
    rollouts::a_rollout_that_gets_nowhere_says_so_and_the_old_pods_stay,
    rollouts::an_earlier_template_finds_its_replica_set_again,
    rollouts::scaling_in_a_rollout_is_shared_out,
    rollouts::old_replica_sets_are_forgotten,
    jobs::a_job_whose_pod_succeeds_is_complete,
    jobs::a_job_whose_pod_fails_has_failed,
    jobs::a_job_that_takes_too_long_has_failed_and_its_pod_is_gone_by_then,
    jobs::a_job_whose_pod_is_deleted_has_failed,
    jobs::a_job_that_is_deleted_takes_its_pod_along,
    jobs::a_job_that_is_deleted_as_an_orphan_leaves_its_pod,
    garbage::what_belonged_to_something_that_is_gone_goes,
    garbage::what_belongs_to_something_that_never_was_goes,
    garbage::what_belongs_to_two_goes_with_the_second,
    garbage::in_the_foreground_dependents_that_block_go_first,
    garbage::in_the_foreground_other_dependents_do_not_hold_up,
    garbage::in_the_foreground_dependents_of_somebody_else_too_stay,
    garbage::orphans_stay,
];

impl Place {
    async fn find<K: Resource<DynamicType = ()>>(&self, name: &str) -> Option<Value> {
        let found = self.raw::<K>().get_opt(name).await.unwrap();
        found.map(|object| json!(object))
    }

    async fn all<K: Resource<DynamicType = ()>>(&self) -> Vec<Value> {
        let found = self.raw::<K>().list(&ListParams::default()).await.unwrap();
        found.iter().map(|object| json!(object)).collect()
    }

    /// Waits until the objects of a kind are so; gives them.
    async fn until_all<K: Resource<DynamicType = ()>>(
        &self,
        what: &str,
        holds: impl Fn(&[Value]) -> bool,
    ) -> Vec<Value> {
        let started = Instant::now();
        loop {
            let all = self.all::<K>().await;
            if holds(&all) {
                return all;
            }
            assert!(
                started.elapsed() < LIMIT,
                "not within {LIMIT:?}: {what}\n{all:#?}"
            );
            sleep(GLANCE).await;
        }
    }

    /// Waits until the object is so; gives it.
    async fn until<K: Resource<DynamicType = ()>>(
        &self,
        name: &str,
        what: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Value {
        let is_it = |object: &&Value| object["metadata"]["name"] == name && holds(object);
        let what = format!("{} {name} is {what}", K::kind(&()));
        let all = self
            .until_all::<K>(&what, |all| all.iter().any(|object| is_it(&object)))
            .await;
        all.iter().find(is_it).unwrap().clone()
    }

    async fn until_gone<K: Resource<DynamicType = ()>>(&self, name: &str) {
        let what = format!("{} {name} is gone", K::kind(&()));
        let is_gone = |all: &[Value]| all.iter().all(|object| object["metadata"]["name"] != name);
        self.until_all::<K>(&what, is_gone).await;
    }

    async fn patch<K: Resource<DynamicType = ()>>(&self, name: &str, patch: Value) {
        let params = PatchParams::default();
        let api = self.raw::<K>();
        api.patch(name, &params, &Patch::Merge(patch)).await.unwrap();
    }

    /// What the pods of [`template`] mount, after which nginx runs, or says no.
    async fn config(&self, text: &str) {
        let config = json!({"metadata": {"name": "config"}, "data": {FILE: text}});
        self.create::<ConfigMap>(config).await.unwrap();
    }

    /// Notes every version of the objects of a kind from now on.
    async fn follow<K: Resource<DynamicType = ()>>(&self) -> History {
        let api = self.raw::<K>();
        let first = api.list(&ListParams::default()).await.unwrap();
        let from = first.metadata.resource_version.clone().unwrap();
        let told = Arc::<Mutex<Vec<(bool, Value)>>>::default();
        let (noted, watched, mut following) = (Arc::clone(&told), api.clone(), JoinSet::new());
        following.spawn(async move {
            let params = WatchParams::default();
            let mut events = watched.watch(&params, &from).await.unwrap().boxed();
            while let Some(event) = events.next().await {
                let (stays, object) = match event.unwrap() {
                    WatchEvent::Added(object) | WatchEvent::Modified(object) => (true, object),
                    WatchEvent::Deleted(object) => (false, object),
                    WatchEvent::Bookmark(_) => continue,
                    WatchEvent::Error(status) => panic!("{status:?}"),
                };
                noted.lock().unwrap().push((stays, json!(object)));
            }
        });
        History {
            api,
            first: first.iter().map(|object| json!(object)).collect(),
            told,
            _following: following,
        }
    }
}

/// The versions of the objects of a kind, in their order.
struct History {
    api: Api<DynamicObject>,
    /// How they were when it began.
    first: Vec<Value>,
    told: Arc<Mutex<Vec<(bool, Value)>>>,
    _following: JoinSet<()>,
}

impl History {
    /// All until now; whether the object was there still, and it.
    async fn told(&self) -> Vec<(bool, Value)> {
        let started = Instant::now();
        loop {
            let told = self.told.lock().unwrap().clone();
            let mut known = self.first.clone();
            told.iter().for_each(|told| follow(&mut known, told));
            // The watch may be behind.
            let present = self.api.list(&ListParams::default()).await.unwrap();
            let (mut known, mut present): (Vec<_>, Vec<_>) = (
                known.iter().map(version).collect(),
                present.iter().map(|object| version(&json!(object))).collect(),
            );
            known.sort_unstable();
            present.sort_unstable();
            if known == present {
                return told;
            }
            assert!(started.elapsed() < LIMIT, "the watch does not tell all");
            sleep(GLANCE).await;
        }
    }

    /// What `of` gives for each version, without repetitions.
    async fn course(&self, of: impl Fn(&Value) -> Value) -> Vec<Value> {
        let told = self.told().await;
        let mut course: Vec<_> = told.iter().map(|(_, object)| of(object)).collect();
        course.dedup();
        course
    }

    /// What `of` gives for all objects at each time.
    async fn over_time(&self, of: impl Fn(&[Value]) -> u64) -> Vec<u64> {
        let (mut present, told) = (self.first.clone(), self.told().await);
        let mut at = |told| {
            follow(&mut present, told);
            of(&present)
        };
        told.iter().map(&mut at).collect()
    }
}

fn follow(present: &mut Vec<Value>, (stays, object): &(bool, Value)) {
    present.retain(|known| name_of(known) != name_of(object));
    if *stays {
        present.push(object.clone());
    }
}

/// A pod's template with this label, image and command.
fn template(app: &str, image: &str, command: &[&str]) -> Value {
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {
            "containers": [{
                "name": "nginx", "image": image, "command": command, "volumeMounts": [{"name": "config", "mountPath": "/config"}],
            }],
            "volumes": [{"name": "config", "configMap": {"name": "config"}}],
        },
    })
}

/// Status and reason of a condition.
fn said(object: &Value, type_: &str) -> Value {
    let condition = condition(object, type_);
    json!([condition["status"], condition["reason"]])
}

fn is_going(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

/// Kind, name, uid, and whether it is the controller and waits for the object, of each owner.
fn owners(object: &Value) -> Value {
    let owners = object["metadata"]["ownerReferences"]
        .as_array()
        .into_iter()
        .flatten();
    let told = owners.map(|owner| {
        ["kind", "name", "uid", "controller", "blockOwnerDeletion"].map(|field| owner[field].clone())
    });
    json!(told.collect::<Vec<_>>())
}

/// The same for one that controls.
fn controlled_by<K: Resource<DynamicType = ()>>(owner: &Value) -> Value {
    let metadata = &owner["metadata"];
    json!([[K::kind(&()), metadata["name"], metadata["uid"], true, true]])
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn version(object: &Value) -> u64 {
    let version = object["metadata"]["resourceVersion"].as_str().unwrap();
    version.parse().unwrap()
}

fn uid(object: &DynamicObject) -> &str {
    object.metadata.uid.as_deref().unwrap()
}
