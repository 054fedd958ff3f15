use serde_json::{Value, json};

use super::*;
use crate::controllers::my_proxy::testing::{owner_of, proxy, settings, valid};

fn build_all(spec: Value) -> Resources {
    let proxy = proxy("edge", spec);
    let valid = valid(&proxy);
    let owner = owner_of(&proxy, &valid);
    let unit = Unit::of(&valid, &settings());
    build(&owner, Some(&unit), Some((&unit, Some(1))))
}

fn full() -> Value {
    json!({
        "deploymentName": "front", "replicas": 3, "image": "nginx:1.28", "tls": {"secretName": "edge-tls"},
        "upstreams": [{"name": "web", "servers": [{"host": "web", "port": 80}]}],
        "routes": [{"path": "/", "upstream": "web"}],
        "resources": {"requests": {"cpu": "100m"}, "limits": {"memory": "64Mi"}},
    })
}

#[test]
fn the_children_of_an_empty_spec() {
    let Resources {
        service,
        config_map,
        candidate,
        check,
        deployment,
        disruption_budget,
    } = build_all(json!({}));
    let without_text = |mut config_map: ConfigMap| {
        config_map.data = None;
        config_map
    };
    insta::assert_yaml_snapshot!("service", service);
    insta::assert_yaml_snapshot!("config_map", config_map.map(without_text));
    insta::assert_yaml_snapshot!("candidate", candidate.map(without_text));
    insta::assert_yaml_snapshot!("check", check);
    insta::assert_yaml_snapshot!("deployment", deployment);
    insta::assert_yaml_snapshot!("disruption_budget", disruption_budget);
}

#[test]
fn the_deployment_of_a_full_spec() {
    insta::assert_yaml_snapshot!("full_deployment", build_all(full()).deployment);
    insta::assert_yaml_snapshot!("full_service", build_all(full()).service);
}

#[test]
fn builds_are_deterministic() {
    assert_eq!(build_all(full()), build_all(full()));
}

#[test]
fn without_an_active_configuration_nothing_serves_and_a_check_has_what_it_needs() {
    let proxy = proxy("edge", json!({}));
    let valid = valid(&proxy);
    let unit = Unit::of(&valid, &settings());
    let resources = build(&owner_of(&proxy, &valid), None, Some((&unit, Some(1))));
    assert!(resources.deployment.is_none() && resources.config_map.is_none());
    assert!(resources.candidate.is_some() && resources.check.is_some());
}

#[test]
fn a_single_pod_has_no_disruption_budget() {
    assert!(build_all(json!({"replicas": 1})).disruption_budget.is_none());
}

#[test]
fn a_unit_is_read_back_from_its_config_map() {
    for spec in [json!({}), full()] {
        let proxy = proxy("edge", spec);
        let valid = valid(&proxy);
        let unit = Unit::of(&valid, &settings());
        let config_map = config_map::active(&owner_of(&proxy, &valid), &unit);
        assert_eq!(Unit::read(&config_map), Some(unit));
    }
}

#[test]
fn a_check_has_the_mounts_and_the_image_of_the_pods() {
    let resources = build_all(full());
    let pods = resources.deployment.unwrap().spec.unwrap().template.spec.unwrap();
    let check = resources.check.unwrap().spec.unwrap().template.spec.unwrap();
    assert_eq!(
        pods.containers[0].volume_mounts,
        check.containers[0].volume_mounts
    );
    assert_eq!(pods.containers[0].image, check.containers[0].image);
    assert_eq!(pods.init_containers, check.init_containers);
    assert_eq!(pods.security_context, check.security_context);
}

#[test]
fn all_pods_pass_the_restricted_pod_security_standard() {
    let resources = build_all(full());
    let pods = resources.deployment.unwrap().spec.unwrap().template.spec.unwrap();
    let check = resources.check.unwrap().spec.unwrap().template.spec.unwrap();
    for pod in [pods, check] {
        let context = pod.security_context.clone().unwrap();
        assert_eq!(
            (context.run_as_non_root, context.run_as_user),
            (Some(true), Some(101))
        );
        assert_eq!(context.seccomp_profile.unwrap().type_, "RuntimeDefault");
        assert_eq!(pod.automount_service_account_token, Some(false));
        for container in pod.containers.iter().chain(pod.init_containers.iter().flatten()) {
            let context = container.security_context.clone().unwrap();
            assert_eq!(context.allow_privilege_escalation, Some(false));
            assert_eq!(context.read_only_root_filesystem, Some(true));
            assert_eq!(context.capabilities.unwrap().drop, Some(vec!["ALL".to_owned()]));
        }
    }
}

#[test]
fn the_service_selects_pods_that_proxy_and_never_a_check() {
    let resources = build_all(full());
    let selector = resources.service.spec.unwrap().selector.unwrap();
    let labels =
        |template: k8s_openapi::api::core::v1::PodTemplateSpec| template.metadata.unwrap().labels.unwrap();
    let selects = |labels: std::collections::BTreeMap<String, String>| {
        selector.iter().all(|(k, v)| labels.get(k) == Some(v))
    };
    assert!(selects(labels(
        resources.deployment.unwrap().spec.unwrap().template
    )));
    assert!(!selects(labels(resources.check.unwrap().spec.unwrap().template)));
}
