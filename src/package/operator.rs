//! The operator's own objects: namespace, Deployment, and the Service of its metrics.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy, RollingUpdateDeployment};
use k8s_openapi::api::core::v1::{
    Capabilities, Container, ContainerPort, EnvVar, EnvVarSource, HTTPGetAction, Namespace,
    ObjectFieldSelector, PodSecurityContext, PodSpec, PodTemplateSpec, Probe, ResourceRequirements,
    SeccompProfile, SecurityContext, Service, ServicePort, ServiceSpec, TopologySpreadConstraint,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::ObjectMeta;
use semver::Version;
use serde_json::Value;

use super::{NAMESPACE, NGINX_IMAGE, OPERATOR, operator_image, postgres_variable, value, webhooks};
use crate::api::database::{MAX_MAJOR, MIN_MAJOR};
use crate::controllers::database;
use crate::olm::Error;

/// Health and metrics are served on one port, named so that nothing else repeats its number.
const PORT: i32 = 8080;
const PORT_NAME: &str = "http";

/// In seconds. OLM starts an installation over that is not done after five minutes, again and again. A rollout that gives up before
/// makes it stop at Failed, with a message that says so.
const PROGRESS_DEADLINE: i32 = 240;

/// The files of config/manager.
pub(super) fn objects(version: &Version) -> Result<Vec<(String, Value)>, Error> {
    Ok(vec![
        ("namespace.yaml".to_owned(), value(&namespace())?),
        ("deployment.yaml".to_owned(), value(&deployment(version))?),
        ("metrics_service.yaml".to_owned(), value(&metrics_service())?),
    ])
}

/// The operator's own labels. They lack `managed-by: roadstead`, which marks what the operator makes and watches.
pub(super) fn labels() -> BTreeMap<String, String> {
    map([
        ("app.kubernetes.io/name", "roadstead"),
        ("app.kubernetes.io/component", "operator"),
        ("app.kubernetes.io/part-of", "roadstead"),
    ])
}

/// The namespace refuses pods that do not meet the restricted standard, and warns of what would not.
fn namespace() -> Namespace {
    let mut labels = labels();
    for mode in ["enforce", "audit", "warn"] {
        labels.insert(
            format!("pod-security.kubernetes.io/{mode}"),
            "restricted".to_owned(),
        );
    }
    let metadata = ObjectMeta {
        name: Some(NAMESPACE.to_owned()),
        labels: Some(labels),
        ..Default::default()
    };
    Namespace {
        metadata,
        ..Default::default()
    }
}

fn metadata(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(NAMESPACE.to_owned()),
        labels: Some(labels()),
        ..Default::default()
    }
}

fn selector() -> LabelSelector {
    LabelSelector {
        match_labels: Some(labels()),
        ..Default::default()
    }
}

fn deployment(version: &Version) -> Deployment {
    let template = PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(labels()),
            annotations: Some(map([("kubectl.kubernetes.io/default-container", "operator")])),
            ..Default::default()
        }),
        spec: Some(pod(version)),
    };
    let spec = DeploymentSpec {
        replicas: Some(2),
        selector: selector(),
        template,
        progress_deadline_seconds: Some(PROGRESS_DEADLINE),
        // Both at once: only one of all leads in any case, and the fewer seconds two versions convert and validate, the better
        strategy: Some(DeploymentStrategy {
            rolling_update: Some(RollingUpdateDeployment {
                max_surge: Some(IntOrString::String("100%".to_owned())),
                max_unavailable: Some(IntOrString::Int(0)),
            }),
            ..Default::default()
        }),
        ..Default::default()
    };
    Deployment {
        metadata: metadata(OPERATOR),
        spec: Some(spec),
        ..Default::default()
    }
}

fn pod(version: &Version) -> PodSpec {
    PodSpec {
        service_account_name: Some(OPERATOR.to_owned()),
        containers: vec![container(version)],
        security_context: Some(PodSecurityContext {
            run_as_non_root: Some(true),
            seccomp_profile: Some(SeccompProfile {
                type_: "RuntimeDefault".to_owned(),
                ..Default::default()
            }),
            ..Default::default()
        }),
        // The standby is of use when the leader's node fails, so it should be on another one where there is another.
        topology_spread_constraints: Some(vec![TopologySpreadConstraint {
            max_skew: 1,
            topology_key: "kubernetes.io/hostname".to_owned(),
            when_unsatisfiable: "ScheduleAnyway".to_owned(),
            label_selector: Some(selector()),
            ..Default::default()
        }]),
        ..Default::default()
    }
}

fn container(version: &Version) -> Container {
    let image = operator_image(version);
    Container {
        name: "operator".to_owned(),
        image: Some(image.clone()),
        args: Some(vec!["run".to_owned()]),
        // Plain values, so that a Subscription's spec.config.env can put others in their place.
        env: Some(environment(&image)),
        ports: Some(vec![
            port(PORT_NAME, PORT),
            port(webhooks::PORT_NAME, i32::from(webhooks::PORT)),
        ]),
        liveness_probe: Some(probe("/healthz", 20)),
        // The first one mostly finds a program that has just begun: whoever waits for a rollout waits for the second
        readiness_probe: Some(Probe {
            failure_threshold: Some(10),
            ..probe("/readyz", 1)
        }),
        resources: Some(ResourceRequirements {
            requests: Some(quantities("10m", "20Mi")),
            limits: Some(quantities("500m", "30Mi")),
            ..Default::default()
        }),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            read_only_root_filesystem: Some(true),
            capabilities: Some(Capabilities {
                drop: Some(vec!["ALL".to_owned()]),
                ..Default::default()
            }),
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn environment(image: &str) -> Vec<EnvVar> {
    let mut environment = vec![
        variable("OPERATOR_IMAGE", image),
        variable("RELATED_IMAGE_NGINX", NGINX_IMAGE),
    ];
    let usual = database::Settings::default();
    let postgres = |major| {
        variable(
            &postgres_variable(major),
            &usual.postgres_image(major, &major.to_string()),
        )
    };
    environment.extend((MIN_MAJOR..=MAX_MAJOR).map(postgres));
    environment.extend([
        // Each thread would have a heap of its own, most of which stays empty. The operator waits for the network nearly always: one suffices it
        variable("MALLOC_ARENA_MAX", "1"),
        variable("WEBHOOK_ADDRESS", &format!(":{}", webhooks::PORT)),
        field("POD_NAME", "metadata.name"),
        field("POD_NAMESPACE", "metadata.namespace"),
    ]);
    environment
}

fn port(name: &str, number: i32) -> ContainerPort {
    ContainerPort {
        name: Some(name.to_owned()),
        container_port: number,
        protocol: Some("TCP".to_owned()),
        ..Default::default()
    }
}

fn variable(name: &str, value: &str) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value: Some(value.to_owned()),
        ..Default::default()
    }
}

fn field(name: &str, path: &str) -> EnvVar {
    let field = ObjectFieldSelector {
        field_path: path.to_owned(),
        ..Default::default()
    };
    let source = EnvVarSource {
        field_ref: Some(field),
        ..Default::default()
    };
    EnvVar {
        name: name.to_owned(),
        value_from: Some(source),
        ..Default::default()
    }
}

fn probe(path: &str, period_seconds: i32) -> Probe {
    let action = HTTPGetAction {
        path: Some(path.to_owned()),
        port: IntOrString::String(PORT_NAME.to_owned()),
        ..Default::default()
    };
    Probe {
        http_get: Some(action),
        period_seconds: Some(period_seconds),
        ..Default::default()
    }
}

fn quantities(cpu: &str, memory: &str) -> BTreeMap<String, Quantity> {
    [("cpu", cpu), ("memory", memory)]
        .map(|(name, amount)| (name.to_owned(), Quantity(amount.to_owned())))
        .into()
}

fn metrics_service() -> Service {
    let port = ServicePort {
        name: Some("metrics".to_owned()),
        port: PORT,
        target_port: Some(IntOrString::String(PORT_NAME.to_owned())),
        protocol: Some("TCP".to_owned()),
        ..Default::default()
    };
    let spec = ServiceSpec {
        selector: Some(labels()),
        ports: Some(vec![port]),
        ..Default::default()
    };
    Service {
        metadata: metadata("roadstead-operator-metrics"),
        spec: Some(spec),
        ..Default::default()
    }
}

fn map<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
}
