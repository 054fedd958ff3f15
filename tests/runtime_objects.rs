//! The runtime's promises about objects, against a real API server.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    missing_docs,
    reason = "a test says what is wrong by a panic"
)]

#[path = "support/apiserver.rs"]
mod apiserver;
#[path = "support/thing.rs"]
mod thing;

use std::time::Duration;

use apiserver::{ApiServer, within};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::{Client, Resource, ResourceExt};
use roadstead::runtime::client::{Clients, is_fenced};
use roadstead::runtime::lease::Leadership;
use roadstead::runtime::metrics::RuntimeMetrics;
use roadstead::telemetry::metrics::Metrics;
use serde_json::json;
use thing::{FINALIZER, Operator, Thing, ThingSpec};
use tokio::sync::OnceCell;

const LIMIT: Duration = Duration::from_secs(20);

/// A namespace with an operator of things in it.
struct World {
    operator: Operator,
    things: Api<Thing>,
    children: Api<ConfigMap>,
    client: Client,
    namespace: String,
}

async fn world(name: &str) -> World {
    static INSTALLED: OnceCell<()> = OnceCell::const_new();
    // Blocks until the server is up, which must not block the other tests of this runtime: each test has its own.
    let server = ApiServer::shared();
    INSTALLED.get_or_init(|| thing::install(server)).await;
    let namespace = server.namespace(name).await;
    let client = server.client().await;
    World {
        operator: Operator::start(server, &namespace).await,
        things: Api::namespaced(client.clone(), &namespace),
        children: Api::namespaced(client.clone(), &namespace),
        client,
        namespace,
    }
}

impl World {
    async fn create(&self, name: &str, spec: ThingSpec) -> Thing {
        self.things
            .create(&PostParams::default(), &Thing::new(name, spec))
            .await
            .unwrap()
    }

    async fn patch(&self, name: &str, patch: serde_json::Value) {
        self.things
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }

    async fn children(&self) -> Vec<String> {
        let labelled = ListParams::default().labels(thing::LABEL);
        self.children
            .list(&labelled)
            .await
            .unwrap()
            .into_iter()
            .map(|child| child.name_any())
            .collect()
    }

    async fn until_made(&self, name: &str, expected: &[&str]) {
        within(LIMIT, &format!("{name} has made {expected:?}"), async || {
            let status = self.things.get(name).await.unwrap().status.unwrap_or_default();
            status.made == expected && self.children().await == expected
        })
        .await;
    }

    /// Waits until nothing is reconciled any more.
    async fn until_quiet(&self) {
        let mut seen = usize::MAX;
        within(LIMIT, "everything is quiet", async || {
            let before = std::mem::replace(&mut seen, self.operator.reconciles());
            tokio::time::sleep(Duration::from_millis(400)).await;
            before == self.operator.reconciles()
        })
        .await;
    }
}

fn makes(names: &[&str]) -> ThingSpec {
    let names = names.iter().map(ToString::to_string).collect();
    ThingSpec {
        names,
        data: [("key".to_owned(), "value".to_owned())].into(),
        fault: None,
    }
}

fn faulty(fault: &str) -> ThingSpec {
    ThingSpec {
        fault: Some(fault.to_owned()),
        ..makes(&["never"])
    }
}

#[tokio::test]
async fn children_are_made_put_right_and_pruned() {
    let world = world("apply").await;
    world.create("thing", makes(&["a", "b"])).await;
    world.until_made("thing", &["a", "b"]).await;

    // What somebody changes or deletes is put right.
    let foreign = Patch::Merge(json!({"data": {"key": "changed", "extra": "stays"}}));
    world
        .children
        .patch("a", &PatchParams::default(), &foreign)
        .await
        .unwrap();
    world
        .children
        .delete("b", &DeleteParams::default())
        .await
        .unwrap();
    within(LIMIT, "the children are as desired again", async || {
        let a = world.children.get("a").await.unwrap().data.unwrap();
        a["key"] == "value" && a["extra"] == "stays" && world.children.get_opt("b").await.unwrap().is_some()
    })
    .await;

    // What is no longer desired goes: a field, and a whole child.
    world
        .patch(
            "thing",
            json!({"spec": {"names": ["a"], "data": {"key": null, "other": "value"}}}),
        )
        .await;
    world.until_made("thing", &["a"]).await;
    within(LIMIT, "the field is gone", async || {
        let data = world.children.get("a").await.unwrap().data.unwrap();
        !data.contains_key("key") && data.contains_key("other")
    })
    .await;
    world.operator.stop().await;
}

#[tokio::test]
async fn a_second_reconcile_sends_no_write_and_neither_does_a_restart() {
    let mut world = world("idempotence").await;
    world.create("thing", makes(&["a", "b"])).await;
    world.until_made("thing", &["a", "b"]).await;
    world.until_quiet().await;
    // One for the finalizer, one for each child, one for the status.
    assert_eq!(world.operator.writes(), 4);

    let reconciles = world.operator.reconciles();
    world
        .patch("thing", json!({"metadata": {"annotations": {"touched": "yes"}}}))
        .await;
    within(LIMIT, "it was reconciled again", async || {
        world.operator.reconciles() > reconciles
    })
    .await;
    world.until_quiet().await;
    assert_eq!(world.operator.writes(), 4);

    let second = Operator::start(ApiServer::shared(), &world.namespace).await;
    std::mem::replace(&mut world.operator, second).stop().await;
    within(LIMIT, "the second operator reconciled it", async || {
        world.operator.reconciles() > 0
    })
    .await;
    world.until_quiet().await;
    assert_eq!(world.operator.writes(), 0);
    world.operator.stop().await;
}

#[tokio::test]
async fn a_strangers_object_of_the_same_name_is_refused_and_said_so() {
    let world = world("foreign").await;
    let mut stranger = ConfigMap::default();
    stranger.metadata.name = Some("a".into());
    stranger.data = Some([("mine".to_owned(), "yes".to_owned())].into());
    world
        .children
        .create(&PostParams::default(), &stranger)
        .await
        .unwrap();
    world.create("thing", makes(&["a"])).await;
    let events: Api<Event> = Api::namespaced(world.client.clone(), &world.namespace);
    within(LIMIT, "an Event says so", async || {
        let notes = events
            .list(&ListParams::default())
            .await
            .unwrap()
            .into_iter()
            .filter_map(|event| event.note);
        notes
            .into_iter()
            .any(|note| note.contains("ConfigMap foreign/a exists and belongs to nobody known"))
    })
    .await;
    let untouched = world.children.get("a").await.unwrap();
    assert_eq!((untouched.data, untouched.metadata.labels), (stranger.data, None));

    // Once it is out of the way, the child is made without anybody touching the thing.
    world
        .children
        .delete("a", &DeleteParams::default())
        .await
        .unwrap();
    world.until_made("thing", &["a"]).await;
    world.operator.stop().await;
}

#[tokio::test]
async fn an_object_waits_on_its_finalizer_until_it_was_cleaned_up_after() {
    let world = world("finalizers").await;
    world.create("thing", makes(&["a"])).await;
    world.until_made("thing", &["a"]).await;
    let held = world.things.get("thing").await.unwrap();
    assert_eq!(held.finalizers(), [FINALIZER]);

    // Somebody else's finalizer is left alone.
    world
        .patch(
            "thing",
            json!({"metadata": {"finalizers": [FINALIZER, "example.org/other"]}}),
        )
        .await;
    world
        .things
        .delete("thing", &DeleteParams::default())
        .await
        .unwrap();
    within(LIMIT, "ours is gone and the other is left", async || {
        world.things.get("thing").await.unwrap().finalizers() == ["example.org/other"]
    })
    .await;
    assert!(
        world.children().await.is_empty(),
        "the children go before the finalizer does"
    );
    world
        .patch("thing", json!({"metadata": {"finalizers": []}}))
        .await;
    within(LIMIT, "the thing is gone", async || {
        world.things.get_opt("thing").await.unwrap().is_none()
    })
    .await;
    world.operator.stop().await;
}

#[tokio::test]
async fn the_same_failure_is_one_event_however_often_it_happens() {
    let world = world("events").await;
    let thing = world.create("thing", faulty("fail")).await;
    within(LIMIT, "it failed several times", async || {
        world.operator.reconciles() >= 5
    })
    .await;
    let events: Api<Event> = Api::namespaced(world.client.clone(), &world.namespace);
    let told = events.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(told.len(), 1, "{told:?}");
    let event = &told[0];
    assert_eq!(
        (event.type_.as_deref(), event.reason.as_deref()),
        (Some("Warning"), Some("ReconcileFailed"))
    );
    assert_eq!(event.note.as_deref(), Some("told to fail"));
    assert_eq!(event.regarding.as_ref().unwrap().uid, thing.uid());
    assert!(
        world
            .operator
            .metric("roadstead_reconcile_errors_total{kind=\"Thing\",category=\"told\"}")
            >= 5.0
    );
    world.operator.stop().await;
}

#[tokio::test]
async fn a_panic_or_a_hang_in_one_reconcile_leaves_the_others_alone() {
    let world = world("contained").await;
    world.create("panics", faulty("panic")).await;
    world.create("hangs", faulty("hang")).await;
    world.create("works", makes(&["a"])).await;
    world.until_made("works", &["a"]).await;
    within(LIMIT, "both are counted", async || {
        let count = |name: &str| {
            world.operator.metric(&format!(
                "controller_runtime_reconcile_{name}_total{{controller=\"thing\"}}"
            ))
        };
        count("panics") >= 2.0 && count("timeouts") >= 1.0
    })
    .await;
    world.operator.stop().await;
}

#[tokio::test]
async fn a_malformed_object_is_skipped_and_the_others_are_not() {
    let world = world("malformed").await;
    let resource = ApiResource::erase::<Thing>(&());
    let anything: Api<DynamicObject> =
        Api::namespaced_with(world.client.clone(), &world.namespace, &resource);
    let malformed = DynamicObject::new("malformed", &resource).data(json!({"spec": {"names": "no list"}}));
    anything.create(&PostParams::default(), &malformed).await.unwrap();
    world.create("works", makes(&["a"])).await;
    world.until_made("works", &["a"]).await;
    let known: Vec<_> = world
        .operator
        .things
        .keys()
        .into_iter()
        .map(|key| key.name)
        .collect();
    assert_eq!(known, ["works"]);

    // Put right, it is worked on; made malformed again, it counts as gone.
    world.patch("malformed", json!({"spec": {"names": ["b"]}})).await;
    within(LIMIT, "it is made", async || world.children().await == ["a", "b"]).await;
    world.operator.stop().await;
}

#[tokio::test]
async fn other_namespaces_than_those_watched_are_left_alone() {
    let world = world("watched").await;
    let elsewhere = ApiServer::shared().namespace("unwatched").await;
    let others: Api<Thing> = Api::namespaced(world.client.clone(), &elsewhere);
    others
        .create(&PostParams::default(), &Thing::new("other", makes(&["a"])))
        .await
        .unwrap();
    world.create("thing", makes(&["a"])).await;
    world.until_made("thing", &["a"]).await;
    assert!(others.get("other").await.unwrap().finalizers().is_empty());
    assert_eq!(world.operator.things.len(), 1);
    world.operator.stop().await;
}

#[tokio::test]
async fn a_process_that_does_not_lead_can_read_and_cannot_write() {
    let server = ApiServer::shared();
    let namespace = server.namespace("fenced").await;
    let metrics = RuntimeMetrics::register(&Metrics::new());
    let clients = Clients::connect(server.config().await, Leadership::standby(), LIMIT, &metrics).unwrap();
    let fenced: Api<ConfigMap> = Api::namespaced(clients.fenced, &namespace);
    assert!(fenced.list(&ListParams::default()).await.is_ok());
    let mut object = ConfigMap::default();
    object.meta_mut().name = Some("a".into());
    let refused = fenced.create(&PostParams::default(), &object).await.unwrap_err();
    assert!(is_fenced(&refused), "{refused}");
    assert!(
        refused
            .to_string()
            .contains("does not hold the leader election lease"),
        "{refused}"
    );
    assert!(
        fenced
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .is_empty()
    );
}
