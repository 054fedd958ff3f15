use rstest::rstest;
use serde_json::json;

use super::*;
use crate::api::my_proxy::{MyProxy, validate};

fn valid(spec: serde_json::Value) -> ValidProxy {
    let object = json!({
        "apiVersion": "roadstead.dev/v1", "kind": "MyProxy",
        "metadata": {"name": "edge", "namespace": "shop"}, "spec": spec,
    });
    let proxy: MyProxy = serde_json::from_value(object).unwrap();
    validate(&proxy).unwrap()
}

#[test]
fn a_proxy_with_hosts_weights_and_tls() {
    let proxy = valid(json!({
        "tls": {"secretName": "edge-tls"},
        "upstreams": [
            {"name": "web", "servers": [{"host": "web", "port": 80}]},
            {"name": "api-v1", "servers": [
                {"host": "10.1.2.3", "port": 8080, "weight": 3}, {"host": "fd00::1", "port": 8080}, {"host": "api.example.com", "port": 443},
            ]},
        ],
        "routes": [
            {"path": "/", "upstream": "web"}, {"path": "/api/", "upstream": "api-v1"},
            {"path": "/v1", "upstream": "api-v1", "host": "*.example.com"},
        ],
    }));
    insta::assert_snapshot!(render(&proxy, "cluster.local"));
}

#[test]
fn without_routes_nginx_says_so() {
    let text = render(&valid(json!({})), "cluster.local");
    assert!(
        text.contains("return 404 \"MyProxy edge has no routes.\\n\""),
        "{text}"
    );
}

#[rstest]
#[case("web", "web.shop.svc.cluster.local:80")]
#[case("web.other.svc", "web.other.svc.cluster.local:80")]
#[case("web.other.svc.cluster.local", "web.other.svc.cluster.local:80")]
#[case("Example.COM", "example.com:80")]
#[case("localhost", "localhost:80")]
#[case("10.0.0.1", "10.0.0.1:80")]
#[case("::1", "[::1]:80")]
fn names_are_completed_as_nginx_cannot(#[case] host: &str, #[case] expected: &str) {
    let proxy = valid(json!({"upstreams": [{"name": "a", "servers": [{"host": host, "port": 80}]}]}));
    assert_eq!(
        authority(&proxy.upstreams[0].servers[0], "shop", "cluster.local"),
        expected
    );
}

#[test]
fn shares_follow_the_weights() {
    let proxy = valid(json!({"upstreams": [{"name": "a", "servers": [
        {"host": "x.example", "port": 80, "weight": 2}, {"host": "y.example", "port": 80},
    ]}]}));
    let text = balance(&proxy.upstreams[0], "shop", "cluster.local");
    assert!(
        text.contains("66.66% \"x.example:80\"; * \"y.example:80\";"),
        "{text}"
    );
}

#[test]
fn the_largest_proxy_fits_into_a_config_map() {
    let upstreams: Vec<_> = (0..64).map(|i| {
        let servers: Vec<_> = (0..16).map(|j| json!({"host": format!("{i}-{j}.{}.com", ["a".repeat(60).as_str(); 3].join(".")), "port": 80})).collect();
        json!({"name": format!("{}{i:03}", "u".repeat(60)), "servers": servers})
    }).collect();
    let routes: Vec<_> = (0..128).map(|i| {
        json!({"path": format!("/{}{i:03}", "p".repeat(252)), "upstream": format!("{}{:03}", "u".repeat(60), i % 64), "host": format!("h{i}.{}.com", ["h".repeat(60).as_str(); 3].join("."))})
    }).collect();
    let text = render(
        &valid(json!({"upstreams": upstreams, "routes": routes, "tls": {"secretName": "t"}})),
        "cluster.local",
    );
    assert!(text.len() < 1_000_000, "{}", text.len());
}
