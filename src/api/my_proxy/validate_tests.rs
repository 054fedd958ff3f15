use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;

fn proxy(spec: serde_json::Value) -> MyProxy {
    let object = json!({
        "apiVersion": "roadstead.dev/v1", "kind": "MyProxy",
        "metadata": {"name": "edge", "namespace": "shop"}, "spec": spec,
    });
    serde_json::from_value(object).expect("the test's spec has the right types")
}

fn problems(spec: serde_json::Value) -> Vec<String> {
    let problems = validate(&proxy(spec)).expect_err("the spec is refused");
    problems
        .list()
        .iter()
        .map(|problem| problem.field.clone())
        .collect()
}

#[test]
fn an_empty_spec_is_a_proxy_of_two_pods_named_after_its_object() {
    let valid = validate(&proxy(json!({}))).unwrap();
    assert_eq!((valid.deployment.as_str(), valid.replicas), ("edge", 2));
}

#[test]
fn the_deployment_name_names_the_deployment() {
    assert_eq!(
        validate(&proxy(json!({"deploymentName": "my-nginx"})))
            .unwrap()
            .deployment,
        "my-nginx"
    );
}

#[rstest]
#[case::label_with_capitals(json!({"deploymentName": "Edge"}), "spec.deploymentName")]
#[case::label_too_long(json!({"deploymentName": "a".repeat(64)}), "spec.deploymentName")]
#[case::label_beginning_with_a_digit(json!({"deploymentName": "1a"}), "spec.deploymentName")]
#[case::replicas_below_zero(json!({"replicas": -1}), "spec.replicas")]
#[case::replicas_without_bound(json!({"replicas": 1001}), "spec.replicas")]
#[case::image_with_space(json!({"image": "nginx 1"}), "spec.image")]
#[case::secret_with_slash(json!({"tls": {"secretName": "a/b"}}), "spec.tls.secretName")]
#[case::quantity(json!({"resources": {"limits": {"memory": "64MB"}}}), "spec.resources.limits.memory")]
#[case::upstream_without_servers(json!({"upstreams": [{"name": "a", "servers": []}]}), "spec.upstreams[0].servers")]
#[case::upstream_twice(
    json!({"upstreams": [{"name": "a", "servers": [{"host": "a", "port": 1}]}, {"name": "a", "servers": [{"host": "a", "port": 1}]}]}),
    "spec.upstreams[1].name"
)]
#[case::host_with_semicolon(json!({"upstreams": [{"name": "a", "servers": [{"host": "a;b", "port": 1}]}]}), "spec.upstreams[0].servers[0].host")]
#[case::host_of_digits(json!({"upstreams": [{"name": "a", "servers": [{"host": "10.0.0.256", "port": 1}]}]}), "spec.upstreams[0].servers[0].host")]
#[case::port_zero(json!({"upstreams": [{"name": "a", "servers": [{"host": "a", "port": 0}]}]}), "spec.upstreams[0].servers[0].port")]
#[case::port_too_high(json!({"upstreams": [{"name": "a", "servers": [{"host": "a", "port": 65536}]}]}), "spec.upstreams[0].servers[0].port")]
#[case::weight_zero(json!({"upstreams": [{"name": "a", "servers": [{"host": "a", "port": 1, "weight": 0}]}]}), "spec.upstreams[0].servers[0].weight")]
#[case::upstream_missing(json!({"routes": [{"path": "/", "upstream": "a"}]}), "spec.routes[0].upstream")]
fn a_wrong_field_is_named(#[case] spec: serde_json::Value, #[case] field: &str) {
    assert_eq!(problems(spec), [field]);
}

fn route(route: serde_json::Value) -> serde_json::Value {
    json!({"upstreams": [{"name": "a", "servers": [{"host": "a", "port": 1}]}], "routes": [route]})
}

#[rstest]
#[case("/", Some("/"))]
#[case("/api", Some("/api"))]
#[case("/api/", Some("/api"))]
#[case("/.well-known/x", Some("/.well-known/x"))]
#[case("", None)]
#[case("api", None)]
#[case("//", None)]
#[case("/a//b", None)]
#[case("/a/../b", None)]
#[case("/a b", None)]
#[case("/a{", None)]
#[case("/$a", None)]
#[case("/a%20b", None)]
#[case("/a\n", None)]
fn paths_are_normal_or_refused(#[case] path: &str, #[case] normal: Option<&str>) {
    let valid = validate(&proxy(route(json!({"path": path, "upstream": "a"})))).ok();
    assert_eq!(valid.map(|valid| valid.routes[0].path.clone()).as_deref(), normal);
}

#[rstest]
#[case("example.com", true)]
#[case("*.example.com", true)]
#[case("*", false)]
#[case("a.*.com", false)]
#[case("Example.com", false)]
#[case("a..b", false)]
#[case("~^x$", false)]
fn route_hosts_are_names_or_wildcards(#[case] host: &str, #[case] accepted: bool) {
    let verdict = validate(&proxy(route(json!({"path": "/", "upstream": "a", "host": host}))));
    assert_eq!(verdict.is_ok(), accepted);
}

#[test]
fn the_same_path_twice_is_refused_unless_the_hosts_differ() {
    let routes = |second: serde_json::Value| {
        let mut spec = route(json!({"path": "/a", "upstream": "a"}));
        spec["routes"].as_array_mut().unwrap().push(second);
        validate(&proxy(spec)).is_ok()
    };
    assert!(!routes(json!({"path": "/a/", "upstream": "a"})));
    assert!(routes(
        json!({"path": "/a/", "upstream": "a", "host": "b.example"})
    ));
}

#[test]
fn a_long_list_of_problems_is_counted_not_spelled_out() {
    let routes: Vec<_> = (0..9)
        .map(|i| json!({"path": format!("/{i}"), "upstream": "no"}))
        .collect();
    let text = validate(&proxy(json!({"routes": routes})))
        .unwrap_err()
        .to_string();
    assert!(
        text.starts_with("spec.routes[0].upstream is \"no\"; it must be the name of one of spec.upstreams;"),
        "{text}"
    );
    assert!(text.ends_with("; and 4 more"), "{text}");
}

proptest! {
    /// Whatever a field holds, what passes has no character that ends or opens anything in nginx's configuration.
    #[test]
    fn no_accepted_string_can_break_out_of_the_configuration(text in any_text()) {
        let spec = json!({
            "deploymentName": text, "tls": {"secretName": text},
            "upstreams": [{"name": text, "servers": [{"host": text, "port": 80}]}],
            "routes": [{"path": text, "upstream": text, "host": text}, {"path": format!("/{text}"), "upstream": text}],
        });
        // Each field alone, so that one refusal does not hide another field.
        for field in ["deploymentName", "tls", "upstreams", "routes"] {
            let mut spec = json!({ field: spec[field].clone() });
            if field == "routes" {
                spec["upstreams"] = json!([{"name": "a", "servers": [{"host": "a", "port": 1}]}]);
                spec["routes"][0]["upstream"] = json!("a");
                spec["routes"][1]["upstream"] = json!("a");
            }
            if let Ok(valid) = validate(&proxy(spec)) {
                let hosts = valid.upstreams.iter().flat_map(|upstream| &upstream.servers).map(|server| match &server.address {
                    Address::Name(name) => name.clone(),
                    Address::Ip(ip) => ip.to_string(),
                });
                let strings = [valid.deployment.clone(), valid.tls_secret.clone().unwrap_or_default()].into_iter()
                    .chain(valid.upstreams.iter().map(|upstream| upstream.name.clone()))
                    .chain(valid.routes.iter().flat_map(|route| [route.path.clone(), route.host.clone().unwrap_or_default()]))
                    .chain(hosts);
                for string in strings {
                    prop_assert!(!string.chars().any(|c| c.is_whitespace() || c.is_control() || "{};$\"'\\#()|^`<>%".contains(c)), "{string:?}");
                }
            }
        }
    }
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z./;{}$\"' \\n#~*-]{0,12}",
        "\\PC{0,12}",
        "/[a-z/._]{0,8}",
        "[a-z][a-z0-9-]{0,8}"
    ]
}
