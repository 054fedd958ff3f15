//! Lists: pages and selectors.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::json;

use super::Place;

pub async fn a_list_in_pages_has_all_once(place: Place) {
    for number in 0..5 {
        place.config_map(&format!("page-{number}")).await;
    }
    let api = place.api::<ConfigMap>();
    let first = api.list(&ListParams::default().limit(2)).await.unwrap();
    let version = first.metadata.resource_version.clone();
    let mut names: Vec<String> = first
        .iter()
        .map(ResourceExt::name_any)
        .filter(|name| name.starts_with("page"))
        .collect();
    let mut next = first.metadata.continue_.clone();
    assert_eq!(first.items.len(), 2);
    place.config_map("page-9").await;
    while let Some(token) = next.filter(|token| !token.is_empty()) {
        let page = api
            .list(&ListParams::default().limit(2).continue_token(&token))
            .await
            .unwrap();
        assert_eq!(
            page.metadata.resource_version, version,
            "every page is of the same moment"
        );
        names.extend(
            page.iter()
                .map(ResourceExt::name_any)
                .filter(|name| name.starts_with("page")),
        );
        next = page.metadata.continue_.clone();
    }
    assert_eq!(names, ["page-0", "page-1", "page-2", "page-3", "page-4"]);
}

pub async fn labels_select(place: Place) {
    for (name, labels) in [
        ("a", json!({"x": "1", "y": "1"})),
        ("b", json!({"x": "1"})),
        ("c", json!({})),
    ] {
        let object = json!({"metadata": {"name": name, "labels": labels}});
        place.create::<ConfigMap>(object).await.unwrap();
    }
    let names = async |selector: &str| {
        let found = place
            .api::<ConfigMap>()
            .list(&ListParams::default().labels(selector))
            .await
            .unwrap();
        found.iter().map(ResourceExt::name_any).collect::<Vec<_>>()
    };
    assert_eq!(names("x=1").await, ["a", "b"]);
    assert_eq!(names("x=1,y=1").await, ["a"]);
    assert!(names("x=2").await.is_empty());
}

pub async fn a_name_selects(place: Place) {
    place.config_map("a").await;
    place.config_map("b").await;
    let params = ListParams::default().fields("metadata.name=b");
    let found = place.api::<ConfigMap>().list(&params).await.unwrap();
    assert_eq!(found.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["b"]);
}
