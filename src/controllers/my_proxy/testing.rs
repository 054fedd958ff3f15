//! What the tests of this folder share.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::Resource;
use serde_json::{Value, json};

use super::Settings;
use super::check::Verdict;
use super::desired::Owner;
use super::desired::names::{APP, COMPONENT};
use super::live::Live;
use super::loaded::Loaded;
use super::observe::Observed;
use super::plan::{Intent, Plan, plan};
use super::status::{Seen, compute};
use crate::api::my_proxy::{MyProxy, MyProxyStatus, ValidProxy, validate};
use crate::runtime::conditions::find;

pub fn proxy(name: &str, spec: Value) -> MyProxy {
    let object = json!({
        "apiVersion": "roadstead.dev/v1", "kind": "MyProxy",
        "metadata": {"name": name, "namespace": "shop", "uid": "1", "generation": 1}, "spec": spec,
    });
    serde_json::from_value(object).expect("the test's spec has the right types")
}

pub fn valid(proxy: &MyProxy) -> ValidProxy {
    validate(proxy).expect("the test's spec is valid")
}

pub fn owner_of<'a>(proxy: &MyProxy, valid: &'a ValidProxy) -> Owner<'a> {
    Owner {
        proxy: valid,
        reference: proxy
            .controller_owner_ref(&())
            .expect("the test's proxy has a uid"),
    }
}

pub fn settings() -> Settings {
    Settings {
        nginx_image: "nginx:1.29".into(),
        agent_image: "registry.example/operator:v1".into(),
        cluster_domain: "cluster.local".into(),
    }
}

pub fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a time in range")
}

pub fn plan_with(verdict: Verdict, serves: bool) -> Plan {
    let proxy = proxy("edge", json!({"tls": {"secretName": "edge-tls"}}));
    let valid = valid(&proxy);
    let mut plan = plan(
        &owner_of(&proxy, &valid),
        &Observed::default(),
        &settings(),
        at(0),
    );
    plan.active = serves.then(|| plan.unit.clone());
    plan.verdict = verdict;
    plan
}

pub fn deployment(status: Value) -> Deployment {
    let labels = json!({"app": "edge", "app.kubernetes.io/instance": "edge"});
    let deployment = json!({
        "metadata": {"name": "edge", "generation": 3},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": {}},
        "status": status,
    });
    serde_json::from_value(deployment).expect("the test says what the API would")
}

pub fn serving() -> Deployment {
    deployment(
        json!({"observedGeneration": 3, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "availableReplicas": 2}),
    )
}

pub fn status_of(
    before: MyProxyStatus,
    verdict: Verdict,
    deployment: Option<&Deployment>,
    pods: &[Arc<Pod>],
) -> MyProxyStatus {
    let mut proxy = proxy("edge", json!({}));
    proxy.status = Some(before);
    let plan = plan_with(verdict, deployment.is_some());
    compute(
        &proxy,
        &Seen {
            intent: Intent::CarryOut(&plan),
            live: Live {
                deployment,
                earlier: &[],
                pods,
                failure: None,
            },
            loaded: &Loaded::NotAsked,
            loading_since: at(0),
        },
        at(60),
    )
}

pub fn said(status: &MyProxyStatus, type_: &str) -> (String, String, String) {
    let condition = find(&status.conditions, type_).expect("the test says what the API would");
    (
        condition.status.clone(),
        condition.reason.clone(),
        condition.message.clone(),
    )
}

pub fn running(waiting: Option<&str>) -> Verdict {
    Verdict::Running {
        job: "edge-check-x-1".into(),
        attempt: 1,
        look: at(180),
        waiting: waiting.map(str::to_owned),
    }
}

pub fn refused() -> Verdict {
    Verdict::Refused {
        message: "[emerg] no".into(),
        retry: at(100),
    }
}

pub fn pod(name: &str, app: &str, component: &str, phase: &str, deleting: bool) -> Arc<Pod> {
    let pod = json!({
        "metadata": {
            "name": name, "labels": {APP: app, COMPONENT: component},
            "deletionTimestamp": deleting.then_some("1970-01-01T00:00:00Z"),
        },
        "status": {"phase": phase},
    });
    Arc::new(serde_json::from_value(pod).expect("the test says what the API would"))
}
