//! What the pods of all kinds have in common: they pass the `restricted` Pod Security Standard, and what runs in them is copied in from the
//! operator's image.

use k8s_openapi::api::core::v1::{
    Capabilities, Container, ContainerStatus, EmptyDirVolumeSource, Pod, PodCondition, PodSecurityContext,
    ResourceRequirements, SeccompProfile, SecurityContext, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::api::resources::Resources;

/// Where this program is installed in a pod.
pub const AGENT_DIR: &str = "/opt/roadstead";
/// The volume that is mounted there.
const AGENT: &str = "agent";

/// Runs as this user and group, who owns the volumes too.
pub fn pod_security(id: i64) -> PodSecurityContext {
    PodSecurityContext {
        run_as_non_root: Some(true),
        run_as_user: Some(id),
        run_as_group: Some(id),
        fs_group: Some(id),
        seccomp_profile: Some(SeccompProfile {
            type_: "RuntimeDefault".to_owned(),
            ..SeccompProfile::default()
        }),
        ..PodSecurityContext::default()
    }
}

/// No capability, no way to more rights, and nothing to be written but what is mounted.
pub fn container_security() -> SecurityContext {
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

/// Copies this program from the operator's image to where the operand's image can run it.
///
/// Its resources should be those of the main container: a pod is scheduled by the greater of the two, and a quota may ask for both.
pub fn install(image: String, resources: ResourceRequirements) -> Container {
    let command = ["/roadstead", "instance", "install", AGENT_DIR];
    Container {
        name: "install".to_owned(),
        image: Some(image),
        command: Some(command.map(str::to_owned).to_vec()),
        volume_mounts: Some(vec![mount(AGENT, AGENT_DIR, false)]),
        resources: Some(resources),
        security_context: Some(container_security()),
        ..Container::default()
    }
}

/// The volume with the program, and where the main container finds it.
pub fn installed() -> (Volume, VolumeMount) {
    (scratch(AGENT), mount(AGENT, AGENT_DIR, true))
}

/// What a container asks for.
pub fn requirements(resources: &Resources) -> ResourceRequirements {
    ResourceRequirements {
        requests: Some(resources.requests.clone()),
        limits: Some(resources.limits.clone()),
        ..ResourceRequirements::default()
    }
}

/// A mount of a volume.
pub fn mount(name: &str, path: &str, read_only: bool) -> VolumeMount {
    VolumeMount {
        name: name.to_owned(),
        mount_path: path.to_owned(),
        read_only: read_only.then_some(true),
        ..VolumeMount::default()
    }
}

/// An empty folder on the node's disk.
pub fn scratch(name: &str) -> Volume {
    Volume {
        name: name.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource::default()),
        ..Volume::default()
    }
}

/// An empty folder in memory, which counts as memory of the pod.
pub fn in_memory(name: &str, size: Option<&str>) -> Volume {
    Volume {
        name: name.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource {
            medium: Some("Memory".to_owned()),
            size_limit: size.map(|size| Quantity(size.to_owned())),
        }),
        ..Volume::default()
    }
}

/// Whether the kubelet makes a container of a pod wait before it starts it again, since it was killed too often: by a signal, not by itself.
pub fn is_held_back(pod: &Pod) -> bool {
    /// What a shell says of SIGKILL.
    const KILLED: i32 = 137;
    containers(pod).any(|container| {
        let waiting = container.state.as_ref().and_then(|state| state.waiting.as_ref());
        let ended = container
            .last_state
            .as_ref()
            .and_then(|state| state.terminated.as_ref());
        waiting.is_some_and(|waiting| waiting.reason.as_deref() == Some("CrashLoopBackOff"))
            && ended.is_some_and(|ended| ended.exit_code == KILLED || ended.signal.is_some())
    })
}

/// Whether this container of a pod runs.
pub fn is_running(pod: &Pod, container: &str) -> bool {
    containers(pod).any(|status| {
        let state = status.state.as_ref();
        status.name == container && state.is_some_and(|state| state.running.is_some())
    })
}

/// What the kubelet says of the containers of a pod.
fn containers(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let statuses = pod.status.iter();
    statuses.flat_map(|status| status.container_statuses.iter().flatten())
}

/// Whether the kubelet found a pod ready.
pub fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready", "True").is_some()
}

/// What the scheduler says of a pod for which it found no node.
pub fn unscheduled(pod: &Pod) -> Option<&PodCondition> {
    condition(pod, "PodScheduled", "False")
}

fn condition<'a>(pod: &'a Pod, type_: &str, status: &str) -> Option<&'a PodCondition> {
    let mut conditions = pod
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    conditions.find(|condition| condition.type_ == type_ && condition.status == status)
}

/// A reason and a message of Kubernetes, as people read them.
pub fn words(reason: Option<&str>, message: Option<&str>) -> String {
    [reason, message]
        .into_iter()
        .flatten()
        .filter(|text| !text.is_empty())
        .collect::<Vec<_>>()
        .join(": ")
}
