//! Watches.

use std::time::Duration;

use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, WatchEvent, WatchParams};
use serde_json::json;
use tokio::time::{Instant, timeout};

use super::{LIMIT, Place, version};

/// Type, name and version of the next events.
async fn told(
    events: &mut (impl Stream<Item = kube::Result<WatchEvent<ConfigMap>>> + Unpin),
    count: usize,
) -> Vec<(&'static str, String, String)> {
    let mut told = Vec::new();
    while told.len() < count {
        let event = timeout(LIMIT, events.next())
            .await
            .expect("an event in time")
            .expect("a watch that goes on");
        let (type_, object) = match event.unwrap() {
            WatchEvent::Added(object) => ("added", object),
            WatchEvent::Modified(object) => ("modified", object),
            WatchEvent::Deleted(object) => ("deleted", object),
            WatchEvent::Bookmark(_) => continue,
            WatchEvent::Error(status) => panic!("{status:?}"),
        };
        told.push((type_, object.name_any(), object.resource_version().unwrap()));
    }
    told
}

pub async fn a_watch_goes_on_from_its_version(place: Place) {
    place.config_map("a").await;
    let api = place.api::<ConfigMap>();
    let from = api
        .list(&ListParams::default())
        .await
        .unwrap()
        .metadata
        .resource_version
        .unwrap();
    // What happened before the watch began, and after the list, is told too.
    let added = version(&place.config_map("b").await);
    let mut events = api.watch(&WatchParams::default(), &from).await.unwrap().boxed();
    let patch = Patch::Merge(json!({"data": {"a": "2"}}));
    let modified = api
        .patch("b", &PatchParams::default(), &patch)
        .await
        .unwrap()
        .resource_version()
        .unwrap();
    api.delete("b", &DeleteParams::default()).await.unwrap();
    let told = told(&mut events, 3).await;
    assert_eq!(told[0], ("added", "b".to_owned(), added));
    assert_eq!(told[1], ("modified", "b".to_owned(), modified.clone()));
    assert_eq!((told[2].0, told[2].1.as_str()), ("deleted", "b"));
    assert!(
        told[2].2.parse::<u64>().unwrap() > modified.parse().unwrap(),
        "a deletion is a version of its own"
    );
}

pub async fn a_watch_sees_what_leaves_its_selector_as_deleted(place: Place) {
    let api = place.api::<ConfigMap>();
    let from = version(&place.config_map("a").await);
    let params = WatchParams::default().labels("x=1");
    let mut events = api.watch(&params, &from).await.unwrap().boxed();
    for labels in [json!({"x": "1"}), json!({"y": "1"}), json!({"x": "2"})] {
        let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
        api.patch("a", &PatchParams::default(), &patch).await.unwrap();
    }
    let told = told(&mut events, 3).await;
    assert_eq!(
        told.iter().map(|event| event.0).collect::<Vec<_>>(),
        ["added", "modified", "deleted"]
    );
}

pub async fn a_watch_ends_in_time(place: Place) {
    let from = version(&place.config_map("a").await);
    let params = WatchParams::default().timeout(1);
    let started = Instant::now();
    let mut events = place
        .api::<ConfigMap>()
        .watch(&params, &from)
        .await
        .unwrap()
        .boxed();
    let rest = async {
        while let Some(event) = events.next().await {
            assert!(matches!(event, Ok(WatchEvent::Bookmark(_))), "{event:?}");
        }
    };
    timeout(LIMIT, rest).await.expect("an end");
    assert!(started.elapsed() >= Duration::from_millis(900));
}

pub async fn the_last_finalizer_is_seen_as_a_deletion(place: Place) {
    let object = json!({"metadata": {"name": "a", "finalizers": ["example.com/a"]}});
    let from = version(&place.create::<ConfigMap>(object).await.unwrap());
    let api = place.api::<ConfigMap>();
    let mut events = api.watch(&WatchParams::default(), &from).await.unwrap().boxed();
    api.delete("a", &DeleteParams::default()).await.unwrap();
    let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    api.patch("a", &PatchParams::default(), &patch).await.unwrap();
    place.config_map("b").await;
    let told = told(&mut events, 3).await;
    let types: Vec<_> = told.iter().map(|event| (event.0, event.1.as_str())).collect();
    assert_eq!(types, [("modified", "a"), ("deleted", "a"), ("added", "b")]);
}
