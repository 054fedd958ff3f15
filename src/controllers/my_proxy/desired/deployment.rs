//! The Deployment: as many pods as the spec asks for, replaced one by one and never below that number.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy, RollingUpdateDeployment};
use k8s_openapi::api::core::v1::{
    Container, ContainerPort, HTTPGetAction, PodSpec, PodTemplateSpec, Probe, TopologySpreadConstraint,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::names::{self, HTTP_PORT, HTTPS_PORT, PROBE_PORT};
use super::unit::Unit;
use super::{Owner, pod};

/// The name of the container that proxies.
pub const CONTAINER: &str = "nginx";
/// Draining (10 s), requests in flight (30 s) and the agent's last warning (2 s) take less.
const GRACE_SECONDS: i64 = 50;

/// Builds the Deployment of a unit that nginx accepted.
pub fn build(owner: &Owner<'_>, unit: &Unit) -> Deployment {
    let proxy = owner.proxy;
    let selector = names::deployment_selector(proxy);
    let mut labels = names::labels(proxy, names::PROXY);
    labels.extend(selector.clone());
    let annotations = [(
        "kubectl.kubernetes.io/default-container".to_owned(),
        CONTAINER.to_owned(),
    )];
    Deployment {
        metadata: owner.metadata(proxy.deployment.clone(), names::PROXY),
        spec: Some(DeploymentSpec {
            replicas: Some(proxy.replicas),
            revision_history_limit: Some(2),
            progress_deadline_seconds: Some(300),
            selector: LabelSelector {
                match_labels: Some(selector.clone()),
                ..LabelSelector::default()
            },
            strategy: Some(DeploymentStrategy {
                type_: Some("RollingUpdate".to_owned()),
                rolling_update: Some(RollingUpdateDeployment {
                    max_unavailable: Some(IntOrString::Int(0)),
                    max_surge: Some(IntOrString::String("25%".to_owned())),
                }),
            }),
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(labels),
                    annotations: Some(annotations.into()),
                    ..ObjectMeta::default()
                }),
                spec: Some(pod_spec(owner, unit, &selector)),
            },
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    }
}

fn pod_spec(owner: &Owner<'_>, unit: &Unit, selector: &BTreeMap<String, String>) -> PodSpec {
    let mut spec = pod::spec(owner.proxy, unit, names::config_map(owner.proxy), CONTAINER, &[]);
    spec.termination_grace_period_seconds = Some(GRACE_SECONDS);
    spec.topology_spread_constraints = Some(
        ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]
            .map(|key| spread(key, selector))
            .into(),
    );
    for container in &mut spec.containers {
        serve(container, unit);
    }
    spec
}

fn serve(container: &mut Container, unit: &Unit) {
    let port = |name: &str, number| ContainerPort {
        name: Some(name.to_owned()),
        container_port: number,
        protocol: Some("TCP".to_owned()),
        ..ContainerPort::default()
    };
    let mut ports = vec![port("http", HTTP_PORT), port("probes", PROBE_PORT)];
    if unit.tls_secret.is_some() {
        ports.push(port("https", HTTPS_PORT));
    }
    container.ports = Some(ports);
    // Quick to say yes, so that a rolling update is; slow to say no, since an nginx that is only busy would leave its load to the others.
    // A pod that goes is out of the Service by its deletion.
    container.readiness_probe = Some(probe("/readyz", 1, 5));
    container.liveness_probe = Some(probe("/healthz", 10, 3));
}

fn probe(path: &str, period: i32, failures: i32) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path.to_owned()),
            port: IntOrString::String("probes".to_owned()),
            ..HTTPGetAction::default()
        }),
        period_seconds: Some(period),
        failure_threshold: Some(failures),
        timeout_seconds: Some(3),
        ..Probe::default()
    }
}

/// Preferred, not required: a cluster of one node gets its two pods too.
fn spread(key: &str, selector: &BTreeMap<String, String>) -> TopologySpreadConstraint {
    TopologySpreadConstraint {
        max_skew: 1,
        topology_key: key.to_owned(),
        when_unsatisfiable: "ScheduleAnyway".to_owned(),
        label_selector: Some(LabelSelector {
            match_labels: Some(selector.clone()),
            ..LabelSelector::default()
        }),
        // Only pods of the same revision count, or a rolling update would end lopsided.
        match_label_keys: Some(vec!["pod-template-hash".to_owned()]),
        ..TopologySpreadConstraint::default()
    }
}
