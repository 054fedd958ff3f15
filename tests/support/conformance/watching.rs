//! Watches.

use std::time::Duration;

use futures::future::{join, join3};
use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, WatchEvent, WatchParams};
use roadstead::api::my_proxy::MyProxy;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

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

/// What kind of thing it is, of which version, and when it came.
type Line = (&'static str, String, Duration);

/// The lines of a watch, until it ends.
async fn lines(place: &Place, params: &WatchParams, from: &str) -> Vec<Line> {
    let started = Instant::now();
    let api = place.api::<ConfigMap>();
    let mut events = api.watch(params, from).await.unwrap().boxed();
    let mut lines = Vec::new();
    let all = async {
        while let Some(event) = events.next().await {
            let (type_, version) = match event.unwrap() {
                WatchEvent::Bookmark(bookmark) => ("bookmark", bookmark.metadata.resource_version),
                WatchEvent::Error(status) => panic!("{status:?}"),
                WatchEvent::Added(object) => ("added", object.resource_version().unwrap()),
                WatchEvent::Modified(object) => ("modified", object.resource_version().unwrap()),
                WatchEvent::Deleted(object) => ("deleted", object.resource_version().unwrap()),
            };
            lines.push((type_, version, started.elapsed()));
        }
    };
    timeout(LIMIT, all).await.expect("an end");
    lines.push(("end", String::new(), started.elapsed()));
    lines
}

/// Something has to have happened since the watch began; whether the watch was told of that makes no difference.
pub async fn a_watch_that_asks_for_it_is_told_before_its_end_how_far_it_is(place: Place) {
    let from = version(&place.config_map("a").await);
    let asks = WatchParams::default().timeout(4);
    let (not, another) = (asks.clone().disable_bookmarks(), asks.clone().labels("x=1"));
    let change = async {
        sleep(Duration::from_millis(500)).await;
        version(&place.config_map("b").await)
    };
    let watches = join3(
        lines(&place, &asks, &from),
        lines(&place, &not, &from),
        lines(&place, &another, &from),
    );
    let (last, (told, silent, other)) = join(change, watches).await;
    // A real server looks once a second whom to tell, so some it tells twice.
    let types = |lines: &[Line]| {
        let mut types: Vec<_> = lines.iter().map(|line| line.0).collect();
        types.dedup();
        types
    };
    assert_eq!(types(&told), ["added", "bookmark", "end"], "{told:?}");
    assert_eq!(types(&other), ["bookmark", "end"], "{other:?}");
    assert_eq!(types(&silent), ["added", "end"], "{silent:?}");
    let number = |version: &str| version.parse::<u64>().unwrap();
    assert!(number(&told[1].1) >= number(&last), "{told:?}");
    assert!(number(&other[0].1) >= number(&last), "{other:?}");
    for lines in [told, other, silent] {
        let seconds = |line: &Line| line.2.as_secs_f32();
        let end = lines.last().unwrap();
        assert!((3.9..6.0).contains(&seconds(end)), "{lines:?}");
        let bookmark = lines.iter().find(|line| line.0 == "bookmark");
        // About 2 s before that.
        assert!(
            bookmark.is_none_or(|line| (1.0..3.9).contains(&seconds(line))),
            "{lines:?}"
        );
    }
}

/// Of what happens after a bookmark it says nothing, whichever kind that happens to.
pub async fn a_watch_that_goes_on_from_a_bookmark_misses_nothing(place: Place) {
    let from = version(&place.config_map("a").await);
    let another = async || {
        let service = json!({"metadata": {"generateName": "other-"}, "spec": {"ports": [{"port": 80}]}});
        place.create::<Service>(service).await.unwrap();
    };
    let change = async {
        sleep(Duration::from_millis(500)).await;
        another().await;
        place.config_map("b").await;
        another().await;
    };
    let params = WatchParams::default().timeout(4).fields("metadata.name=a");
    let ((), told) = join(change, lines(&place, &params, &from)).await;
    let bookmark = &told
        .iter()
        .find(|line| line.0 == "bookmark")
        .expect("a bookmark")
        .1;
    another().await;
    let added = version(&place.config_map("c").await);
    another().await;
    let api = place.api::<ConfigMap>();
    api.delete("a", &DeleteParams::default()).await.unwrap();
    let mut events = api
        .watch(&WatchParams::default(), bookmark)
        .await
        .unwrap()
        .boxed();
    let told = self::told(&mut events, 2).await;
    assert_eq!(told[0], ("added", "c".to_owned(), added));
    assert_eq!((told[1].0, told[1].1.as_str()), ("deleted", "a"));
}

/// A kind's changes are not known from before its definition came, so that this needs no waiting until something is forgotten.
pub async fn a_watch_from_what_is_forgotten_is_told_to_begin_anew(place: Place) {
    let api = place.api::<MyProxy>();
    let mut events = api.watch(&WatchParams::default(), "1").await.unwrap().boxed();
    let told = timeout(LIMIT, events.next()).await.expect("an event in time");
    match told {
        Some(Ok(WatchEvent::Error(status))) => assert_eq!((status.code, &*status.reason), (410, "Expired")),
        other => panic!("{other:?}"),
    }
    let rest = timeout(LIMIT, events.next()).await.expect("an end");
    assert!(rest.is_none(), "{rest:?}");
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
