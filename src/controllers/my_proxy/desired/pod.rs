//! What the pods that proxy and the pods that check have in common: the mounts above all, since a check with other mounts proves little.
//!
//! Both pass the `restricted` Pod Security Standard and have no API token.

use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, Container, PodSpec, ResourceRequirements, SecretVolumeSource, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::names::{CONFIG_DIR, RUN_DIR, TLS_DIR};
use super::unit::Unit;
use crate::api::my_proxy::ValidProxy;
use crate::controllers::common::pod::{
    AGENT_DIR, container_security, in_memory, install, installed, mount, pod_security, requirements, scratch,
};

/// The user `nginx` of the official image and of Debian's.
const NGINX_USER: i64 = 101;
/// Room for a few generations of configuration; it counts as memory of the pod.
const RUN_SIZE: &str = "16Mi";

/// A pod whose one container runs the agent with these arguments beside the defaults.
pub fn spec(
    proxy: &ValidProxy,
    unit: &Unit,
    config_map: String,
    container: &str,
    arguments: &[&str],
) -> PodSpec {
    let mut command = vec![
        format!("{AGENT_DIR}/roadstead"),
        "instance".to_owned(),
        "nginx".to_owned(),
    ];
    if unit.tls_secret.is_some() {
        command.push(format!("--tls={TLS_DIR}"));
    }
    command.extend(arguments.iter().map(|&argument| argument.to_owned()));
    PodSpec {
        init_containers: Some(vec![install(unit.agent_image.clone(), resources(proxy))]),
        containers: vec![Container {
            name: container.to_owned(),
            image: Some(unit.image.clone()),
            command: Some(command),
            volume_mounts: Some(mounts(unit)),
            resources: Some(resources(proxy)),
            security_context: Some(container_security()),
            ..Container::default()
        }],
        volumes: Some(volumes(unit, config_map)),
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        security_context: Some(pod_security(NGINX_USER)),
        ..PodSpec::default()
    }
}

fn resources(proxy: &ValidProxy) -> ResourceRequirements {
    match &proxy.resources {
        Some(resources) => requirements(resources),
        None => ResourceRequirements {
            requests: Some(
                [("cpu", "50m"), ("memory", "32Mi")]
                    .map(|(k, v)| (k.to_owned(), Quantity(v.to_owned())))
                    .into(),
            ),
            ..ResourceRequirements::default()
        },
    }
}

fn mounts(unit: &Unit) -> Vec<VolumeMount> {
    let mut mounts = vec![
        installed().1,
        mount("config", CONFIG_DIR, true),
        mount("run", RUN_DIR, false),
        mount("tmp", "/tmp", false),
    ];
    if unit.tls_secret.is_some() {
        mounts.push(mount("tls", TLS_DIR, true));
    }
    mounts
}

fn volumes(unit: &Unit, config_map: String) -> Vec<Volume> {
    let mut volumes = vec![
        installed().0,
        Volume {
            name: "config".to_owned(),
            config_map: Some(ConfigMapVolumeSource {
                name: config_map,
                ..ConfigMapVolumeSource::default()
            }),
            ..Volume::default()
        },
        // In memory, because the agent keeps the key there.
        in_memory("run", Some(RUN_SIZE)),
        scratch("tmp"),
    ];
    if let Some(secret) = &unit.tls_secret {
        volumes.push(Volume {
            name: "tls".to_owned(),
            secret: Some(SecretVolumeSource {
                secret_name: Some(secret.clone()),
                default_mode: Some(0o440),
                ..SecretVolumeSource::default()
            }),
            ..Volume::default()
        });
    }
    volumes
}
