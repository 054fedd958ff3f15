//! What the API server makes of an object before it is stored, and what it does not store.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Resource;
use kube::api::{Patch, PatchParams};
use roadstead::api::my_proxy::{MyProxy, validate};
use roadstead::controllers::my_proxy::desired::unit::Unit;
use roadstead::controllers::my_proxy::desired::{Owner, Resources, build};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Place, a_deployment, a_proxy, refusal, version};
use crate::sample_proxy::settings;

pub async fn unknown_fields_are_dropped_and_defaults_filled_in(place: Place) {
    let spec = json!({"unknown": 1, "upstreams": [{"name": "u", "unknown": 2, "servers": [{"host": "a", "port": 1}]}]});
    let made = place.create::<MyProxy>(a_proxy("a", spec)).await.unwrap();
    let expected =
        json!({"replicas": 2, "upstreams": [{"name": "u", "servers": [{"host": "a", "port": 1}]}]});
    assert_eq!(made.data["spec"], expected);
    let mut deployment = a_deployment("a");
    deployment["spec"]["unknown"] = json!(1);
    let made = place.create::<Deployment>(deployment).await.unwrap();
    assert_eq!(made.data["spec"].get("unknown"), None);
    assert_eq!(made.data["spec"]["revisionHistoryLimit"], 10);
}

pub async fn nulls_are_dropped_or_defaulted(place: Place) {
    let spec = json!({"replicas": null, "deploymentName": null, "routes": null});
    let made = place.create::<MyProxy>(a_proxy("a", spec)).await.unwrap();
    assert_eq!(made.data["spec"], json!({"replicas": 2, "deploymentName": null}));
}

pub async fn the_schema_is_enforced(place: Place) {
    let upstream = |server: Value| json!({"upstreams": [{"name": "u", "servers": [server]}]});
    for (spec, field) in [
        (json!({"deploymentName": "Edge"}), "spec.deploymentName"),
        (json!({"deploymentName": ""}), "spec.deploymentName"),
        (json!({"replicas": -1}), "spec.replicas"),
        (json!({"replicas": 1001}), "spec.replicas"),
        (json!({"replicas": "2"}), "spec.replicas"),
        (json!({"replicas": 1.5}), "spec.replicas"),
        (json!({"routes": [{"upstream": "u"}]}), "spec.routes[0].path"),
        (json!({"routes": {}}), "spec.routes"),
        (
            upstream(json!({"host": "a", "port": 0})),
            "spec.upstreams[0].servers[0].port",
        ),
        (
            upstream(json!({"host": "a b", "port": 1})),
            "spec.upstreams[0].servers[0].host",
        ),
        (
            json!({"upstreams": [{"name": "u", "servers": []}]}),
            "spec.upstreams[0].servers",
        ),
        (
            json!({"resources": {"limits": {"cpu": true}}}),
            "spec.resources.limits.cpu",
        ),
    ] {
        let (code, reason, message) = refusal(place.create::<MyProxy>(a_proxy("a", spec)).await);
        assert_eq!((code, reason.as_str()), (422, "Invalid"), "{message}");
        assert!(message.contains(field), "{field}: {message}");
    }
    let whole = json!({"resources": {"limits": {"cpu": 1, "memory": "1Gi"}}});
    place.create::<MyProxy>(a_proxy("b", whole)).await.unwrap();
    let patch = Patch::Merge(json!({"spec": {"replicas": 5000}}));
    let refused = place
        .raw::<MyProxy>()
        .patch("b", &PatchParams::default(), &patch)
        .await;
    assert_eq!(refusal(refused).0, 422);
}

pub async fn the_rules_are_enforced_with_their_messages(place: Place) {
    let spec = json!({
        "upstreams": [{"name": "a", "servers": [{"host": "a", "port": 1}]}, {"name": "b", "servers": [{"host": "b", "port": 1}]}],
        "routes": [{"path": "/a", "upstream": "a"}, {"path": "/c", "upstream": "c"}],
    });
    let (code, _, message) = refusal(place.create::<MyProxy>(a_proxy("a", spec)).await);
    assert_eq!(code, 422);
    let told = "spec.routes: Invalid value: route \"/c\" names upstream \"c\"; it must be the name of one of spec.upstreams, which are [\"a\", \"b\"]";
    assert!(message.contains(told), "{message}");
    let lost = json!({"routes": [{"path": "/", "upstream": "no"}]});
    let (_, _, message) = refusal(place.create::<MyProxy>(a_proxy("a", lost)).await);
    assert!(
        message.contains("names upstream \"no\"; it must be the name of one of spec.upstreams, which are []"),
        "{message}"
    );
    let (code, _, message) = refusal(place.create::<MyProxy>(a_proxy("1a", json!({}))).await);
    assert_eq!(code, 422);
    assert!(message.contains("metadata.name must be a DNS label"), "{message}");
}

pub async fn keys_of_a_list_are_unique(place: Place) {
    let upstream = json!({"name": "u", "servers": [{"host": "a", "port": 1}]});
    let (code, _, message) = refusal(
        place
            .create::<MyProxy>(a_proxy("a", json!({"upstreams": [upstream, upstream]})))
            .await,
    );
    assert_eq!(code, 422);
    assert!(
        message.contains("spec.upstreams[1]: Duplicate value"),
        "{message}"
    );
}

pub async fn a_status_is_checked_and_defaulted_too(place: Place) {
    place.create::<MyProxy>(a_proxy("a", json!({}))).await.unwrap();
    let api = place.raw::<MyProxy>();
    let patch = |status: Value| Patch::Merge(json!({"status": status}));
    let params = PatchParams::default();
    let bad = patch(json!({"conditions": [{"type": "Ready"}]}));
    let (code, _, message) = refusal(api.patch_status("a", &params, &bad).await);
    assert_eq!(code, 422);
    assert!(message.contains("status.conditions[0]."), "{message}");
    let written = api
        .patch_status("a", &params, &patch(json!({"phase": "Running", "unknown": 1})))
        .await
        .unwrap();
    let expected =
        json!({"phase": "Running", "podNames": [], "conditions": [], "replicas": 0, "readyReplicas": 0});
    assert_eq!(written.data["status"], expected);
}

/// Everything that the product sends is stored as it was sent, and sending it again changes nothing: what its reconciles rest on.
pub async fn what_the_product_sends_comes_back_as_it_was_sent(place: Place) {
    let spec = json!({
        "replicas": 2, "tls": {"secretName": "certificate"},
        "resources": {"requests": {"cpu": "50m", "memory": "32Mi"}, "limits": {"cpu": "1", "memory": "64Mi"}},
        "upstreams": [{"name": "u", "servers": [{"host": "a", "port": 1}]}], "routes": [{"path": "/", "upstream": "u"}],
    });
    let made = place.create::<MyProxy>(a_proxy("a", spec)).await.unwrap();
    let proxy: MyProxy = serde_json::from_value(serde_json::to_value(made).unwrap()).unwrap();
    let valid = validate(&proxy).unwrap();
    let owner = Owner {
        proxy: &valid,
        reference: proxy.controller_owner_ref(&()).unwrap(),
    };
    let unit = Unit::of(&valid, &settings());
    let Resources {
        service,
        config_map,
        candidate,
        check,
        deployment,
        disruption_budget,
    } = build(&owner, Some(&unit), Some((&unit, Some(1))));
    comes_back::<Service>(&place, service).await;
    comes_back::<ConfigMap>(&place, config_map.unwrap()).await;
    comes_back::<ConfigMap>(&place, candidate.unwrap()).await;
    comes_back::<Job>(&place, check.unwrap()).await;
    comes_back::<Deployment>(&place, deployment.unwrap()).await;
    comes_back::<PodDisruptionBudget>(&place, disruption_budget.unwrap()).await;
}

async fn comes_back<K>(place: &Place, sent: K)
where
    K: Resource<DynamicType = ()> + Serialize + DeserializeOwned,
{
    let name = sent.meta().name.clone().unwrap();
    let mut sent = serde_json::to_value(sent).unwrap();
    sent["apiVersion"] = json!(K::api_version(&()));
    sent["kind"] = json!(K::kind(&()));
    let (api, params) = (place.raw::<K>(), PatchParams::apply("roadstead").force());
    let stored = api.patch(&name, &params, &Patch::Apply(&sent)).await.unwrap();
    let again = api.patch(&name, &params, &Patch::Apply(&sent)).await.unwrap();
    assert_eq!(version(&stored), version(&again), "{} {name}", K::kind(&()));
    let stored = serde_json::to_value(stored).unwrap();
    let mut missing = Vec::new();
    compare("", &sent, &stored, &mut missing);
    assert!(missing.is_empty(), "{} {name}: {missing:#?}", K::kind(&()));
}

/// Notes what of `sent` is not in `stored`.
fn compare(path: &str, sent: &Value, stored: &Value, missing: &mut Vec<String>) {
    match (sent, stored) {
        (Value::Object(sent), Value::Object(stored)) => {
            for (field, sent) in sent {
                compare(
                    &format!("{path}.{field}"),
                    sent,
                    stored.get(field).unwrap_or(&Value::Null),
                    missing,
                );
            }
        }
        (Value::Array(sent), Value::Array(stored)) if sent.len() == stored.len() => {
            for (place, (sent, stored)) in sent.iter().zip(stored).enumerate() {
                compare(&format!("{path}[{place}]"), sent, stored, missing);
            }
        }
        _ if sent == stored => {}
        _ => missing.push(format!("{path} was {sent} and is {stored}")),
    }
}

pub async fn more_requested_than_allowed_is_refused(place: Place) {
    let mut deployment = a_deployment("a");
    deployment["spec"]["template"]["spec"]["containers"][0]["resources"] =
        json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}});
    let (code, _, message) = refusal(place.create::<Deployment>(deployment).await);
    assert_eq!(code, 422);
    assert!(
        message.contains("must be less than or equal to cpu limit"),
        "{message}"
    );
    let mut deployment = a_deployment("a");
    deployment["spec"]["template"]["spec"]["containers"][0]["resources"] =
        json!({"limits": {"cpu": "1000m"}});
    let made = place.create::<Deployment>(deployment).await.unwrap();
    let resources = &made.data["spec"]["template"]["spec"]["containers"][0]["resources"];
    assert_eq!(
        resources,
        &json!({"limits": {"cpu": "1"}}),
        "as Kubernetes writes it, and no more than that"
    );
}
