//! What the pods that proxy and the pods that check have in common: the mounts above all, since a check with other mounts proves little.
//!
//! Both pass the `restricted` Pod Security Standard and have no API token.

use k8s_openapi::api::core::v1::{
    Capabilities, ConfigMapVolumeSource, Container, EmptyDirVolumeSource, PodSecurityContext, PodSpec,
    ResourceRequirements, SeccompProfile, SecretVolumeSource, SecurityContext, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::names::{AGENT_DIR, CONFIG_DIR, RUN_DIR, TLS_DIR};
use super::unit::Unit;
use crate::api::my_proxy::ValidProxy;

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
        init_containers: Some(vec![install(proxy, unit)]),
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
        security_context: Some(PodSecurityContext {
            run_as_non_root: Some(true),
            run_as_user: Some(NGINX_USER),
            run_as_group: Some(NGINX_USER),
            fs_group: Some(NGINX_USER),
            seccomp_profile: Some(SeccompProfile {
                type_: "RuntimeDefault".to_owned(),
                ..SeccompProfile::default()
            }),
            ..PodSecurityContext::default()
        }),
        ..PodSpec::default()
    }
}

/// Copies the agent from the operator's image to where nginx's image can run it.
fn install(proxy: &ValidProxy, unit: &Unit) -> Container {
    let command = ["/roadstead", "instance", "install", AGENT_DIR];
    Container {
        name: "install".to_owned(),
        image: Some(unit.agent_image.clone()),
        command: Some(command.map(str::to_owned).to_vec()),
        volume_mounts: Some(vec![mount("agent", AGENT_DIR, false)]),
        // As much as the main container: a pod is scheduled by the greater of the two, and a quota may ask for both.
        resources: Some(resources(proxy)),
        security_context: Some(container_security()),
        ..Container::default()
    }
}

fn resources(proxy: &ValidProxy) -> ResourceRequirements {
    match &proxy.resources {
        Some(resources) => ResourceRequirements {
            requests: Some(resources.requests.clone()),
            limits: Some(resources.limits.clone()),
            ..ResourceRequirements::default()
        },
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

fn container_security() -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        read_only_root_filesystem: Some(true),
        capabilities: Some(Capabilities {
            drop: Some(vec!["ALL".to_owned()]),
            ..Capabilities::default()
        }),
        ..SecurityContext::default()
    }
}

fn mounts(unit: &Unit) -> Vec<VolumeMount> {
    let mut mounts = vec![
        mount("agent", AGENT_DIR, true),
        mount("config", CONFIG_DIR, true),
        mount("run", RUN_DIR, false),
        mount("tmp", "/tmp", false),
    ];
    if unit.tls_secret.is_some() {
        mounts.push(mount("tls", TLS_DIR, true));
    }
    mounts
}

fn mount(name: &str, path: &str, read_only: bool) -> VolumeMount {
    VolumeMount {
        name: name.to_owned(),
        mount_path: path.to_owned(),
        read_only: read_only.then_some(true),
        ..VolumeMount::default()
    }
}

fn volumes(unit: &Unit, config_map: String) -> Vec<Volume> {
    let empty = |name: &str, source| Volume {
        name: name.to_owned(),
        empty_dir: Some(source),
        ..Volume::default()
    };
    let mut volumes = vec![
        empty("agent", EmptyDirVolumeSource::default()),
        Volume {
            name: "config".to_owned(),
            config_map: Some(ConfigMapVolumeSource {
                name: config_map,
                ..ConfigMapVolumeSource::default()
            }),
            ..Volume::default()
        },
        // In memory, because the agent keeps the key there.
        empty(
            "run",
            EmptyDirVolumeSource {
                medium: Some("Memory".to_owned()),
                size_limit: Some(Quantity(RUN_SIZE.to_owned())),
            },
        ),
        empty("tmp", EmptyDirVolumeSource::default()),
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
