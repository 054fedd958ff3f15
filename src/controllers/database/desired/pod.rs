//! The pods' template. A pod is never given a role by it: instances label themselves.

use k8s_openapi::api::core::v1::{
    Affinity, ConfigMapVolumeSource, Container, ContainerPort, EnvVar, EnvVarSource, HTTPGetAction,
    KeyToPath, ObjectFieldSelector, PodAffinityTerm, PodAntiAffinity, PodSpec, PodTemplateSpec, Probe,
    SecretVolumeSource, Volume, WeightedPodAffinityTerm,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};

use super::names::{self, CONTROL_PORT, POSTGRES_PORT};
use super::secrets::{PASSWORD, USERNAME};
use super::{Owner, stateful_set};
use crate::api::database::ValidDatabase;
use crate::api::database::agent::{
    CONTAINER, CREDENTIALS_DIR, DATA_DIR, LIVENESS, READINESS, RUN_DIR, SERVER_TLS_DIR, SETTINGS_DIR,
    TLS_DIR, TLS_FILES, settings_hash,
};
use crate::api::placement::AntiAffinity;
use crate::controllers::common::pod::{
    AGENT_DIR, container_security, in_memory, install, installed, mount, pod_security, requirements, scratch,
};
use crate::controllers::database::Settings;

/// The annotation of a pod that names what of the spec has shaped it. So a new operator, whose pods may be built otherwise, restarts no database.
pub const SHAPE: &str = "roadstead.dev/shape";

/// PostgreSQL's port by name.
pub const POSTGRES: &str = "postgres";
/// The instance manager's port by name.
pub const CONTROL: &str = "control";

/// The user `postgres` of the official image.
const POSTGRES_USER: i64 = 999;
/// Configuration, keys and a socket; it counts as memory of the pod.
const RUN_SIZE: &str = "64Mi";
/// A shutdown in order writes a checkpoint and waits for replicas; whoever is cut off has to recover instead.
const GRACE_SECONDS: i64 = 120;
/// And so long whoever does not say any more that he lives.
const KILLED_WITHIN: i64 = 5;
/// For its group alone: PostgreSQL refuses a key that others may read.
const KEY_MODE: i32 = 0o440;
/// Where anti-affinity looks if nothing else is said.
const NODE: &str = "kubernetes.io/hostname";

/// Builds the template.
pub fn template(owner: &Owner<'_>, settings: &Settings) -> PodTemplateSpec {
    let annotations = [
        (
            "kubectl.kubernetes.io/default-container".to_owned(),
            CONTAINER.to_owned(),
        ),
        (SHAPE.to_owned(), shape(owner.database)),
    ];
    PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(names::labels(owner.name())),
            annotations: Some(annotations.into()),
            ..ObjectMeta::default()
        }),
        spec: Some(spec(owner, settings)),
    }
}

/// What names a shape of pods: all that the author says of them. What is left out leaves no trace, so that a field which is added to the kind some day
/// changes no shape.
pub fn shape(database: &ValidDatabase) -> String {
    let ValidDatabase {
        version,
        image,
        resources,
        placement,
        restarted_at,
        tls,
        ..
    } = database;
    let said = match image {
        Some(image) => json!({"image": image}),
        None => json!({"version": version}),
    };
    let mut shape = vec![said, json!(resources), json!(placement), json!(restarted_at)];
    shape.extend(
        tls.certificate_secret
            .as_ref()
            .map(|secret| json!({"certificate": secret})),
    );
    settings_hash(Value::from(shape).to_string())[..16].to_owned()
}

fn spec(owner: &Owner<'_>, settings: &Settings) -> PodSpec {
    let database = owner.database;
    let placement = &database.placement;
    let mut security = pod_security(POSTGRES_USER);
    // A large volume whose files already have the group is not gone through again.
    security.fs_group_change_policy = Some("OnRootMismatch".to_owned());
    PodSpec {
        init_containers: Some(vec![install(
            settings.agent_image.clone(),
            requirements(&database.resources),
        )]),
        containers: vec![container(owner, settings)],
        volumes: Some(volumes(owner)),
        service_account_name: Some(names::instances(owner.name())),
        automount_service_account_token: Some(true),
        enable_service_links: Some(false),
        security_context: Some(security),
        termination_grace_period_seconds: Some(GRACE_SECONDS),
        node_selector: (!placement.node_selector.is_empty()).then(|| placement.node_selector.clone()),
        tolerations: (!placement.tolerations.is_empty()).then(|| placement.tolerations.clone()),
        affinity: affinity(owner),
        priority_class_name: placement.priority_class_name.clone(),
        ..PodSpec::default()
    }
}

fn container(owner: &Owner<'_>, settings: &Settings) -> Container {
    let database = owner.database;
    let image = database.image.clone();
    let command = [&format!("{AGENT_DIR}/roadstead"), "instance", "postgres"];
    let port = |name: &str, container_port| ContainerPort {
        name: Some(name.to_owned()),
        container_port,
        protocol: Some("TCP".to_owned()),
        ..ContainerPort::default()
    };
    let mut volume_mounts = vec![
        installed().1,
        mount(stateful_set::DATA, DATA_DIR, false),
        mount("settings", SETTINGS_DIR, true),
        mount("tls", TLS_DIR, true),
        mount("credentials", CREDENTIALS_DIR, true),
        mount("run", RUN_DIR, false),
        mount("tmp", "/tmp", false),
        mount("shm", "/dev/shm", false),
    ];
    if database.tls.certificate_secret.is_some() {
        volume_mounts.push(mount("server-tls", SERVER_TLS_DIR, true));
    }
    Container {
        name: CONTAINER.to_owned(),
        image: Some(image.unwrap_or_else(|| settings.postgres_image(database.major, &database.version))),
        command: Some(command.map(str::to_owned).to_vec()),
        env: Some(vec![
            env("POD_NAME", "metadata.name"),
            env("POD_NAMESPACE", "metadata.namespace"),
            env("POD_UID", "metadata.uid"),
        ]),
        ports: Some(vec![port(POSTGRES, POSTGRES_PORT), port(CONTROL, CONTROL_PORT)]),
        volume_mounts: Some(volume_mounts),
        // Both ask the instance manager, which answers while PostgreSQL recovers for hours: nothing here needs a probe for the start.
        liveness_probe: Some(Probe {
            // Who does not answer cannot be asked to end in order either: the pod's own grace would let a hung primary take writes for that much longer.
            termination_grace_period_seconds: Some(KILLED_WITHIN),
            ..probe(LIVENESS, 10, 3)
        }),
        readiness_probe: Some(probe(READINESS, 2, 3)),
        resources: Some(requirements(&database.resources)),
        security_context: Some(container_security()),
        // The instance manager writes its nonce there, by which others know that it has ended.
        termination_message_policy: Some("File".to_owned()),
        ..Container::default()
    }
}

fn env(name: &str, field: &str) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector {
                field_path: field.to_owned(),
                ..ObjectFieldSelector::default()
            }),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    }
}

fn probe(path: &str, period: i32, failures: i32) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path.to_owned()),
            port: IntOrString::String(CONTROL.to_owned()),
            scheme: Some("HTTPS".to_owned()),
            ..HTTPGetAction::default()
        }),
        period_seconds: Some(period),
        failure_threshold: Some(failures),
        timeout_seconds: Some(3),
        ..Probe::default()
    }
}

fn volumes(owner: &Owner<'_>) -> Vec<Volume> {
    let key = |key: &str| KeyToPath {
        key: key.to_owned(),
        path: key.to_owned(),
        ..KeyToPath::default()
    };
    let secret = |name: &str, secret: String, items: Option<Vec<KeyToPath>>| Volume {
        name: name.to_owned(),
        secret: Some(SecretVolumeSource {
            secret_name: Some(secret),
            default_mode: Some(KEY_MODE),
            items,
            ..SecretVolumeSource::default()
        }),
        ..Volume::default()
    };
    let mut volumes = vec![
        installed().0,
        Volume {
            name: "settings".to_owned(),
            config_map: Some(ConfigMapVolumeSource {
                name: names::settings(owner.name()),
                ..ConfigMapVolumeSource::default()
            }),
            ..Volume::default()
        },
        secret("tls", names::tls(owner.name()), None),
        secret(
            "credentials",
            owner.name().to_owned(),
            Some(vec![key(USERNAME), key(PASSWORD)]),
        ),
        in_memory("run", Some(RUN_SIZE)),
        scratch("tmp"),
        // Parallel queries share memory there; the 64 MiB that a container has of itself are too few. The container's limit holds.
        in_memory("shm", None),
    ];
    if let Some(name) = &owner.database.tls.certificate_secret {
        let items = TLS_FILES.map(key);
        let mut named = secret("server-tls", name.clone(), Some(items.into()));
        // It is the author's, and may come later: an instance does without it, and says so.
        named.secret.get_or_insert_default().optional = Some(true);
        volumes.push(named);
    }
    volumes
}

fn affinity(owner: &Owner<'_>) -> Option<Affinity> {
    let placement = &owner.database.placement;
    let term = PodAffinityTerm {
        label_selector: Some(LabelSelector {
            match_labels: Some(names::selector(owner.name())),
            ..LabelSelector::default()
        }),
        topology_key: placement.topology_key.clone().unwrap_or_else(|| NODE.to_owned()),
        ..PodAffinityTerm::default()
    };
    let apart = match placement.anti_affinity {
        AntiAffinity::None => return None,
        AntiAffinity::Preferred => PodAntiAffinity {
            preferred_during_scheduling_ignored_during_execution: Some(vec![WeightedPodAffinityTerm {
                weight: 100,
                pod_affinity_term: term,
            }]),
            ..PodAntiAffinity::default()
        },
        AntiAffinity::Required => PodAntiAffinity {
            required_during_scheduling_ignored_during_execution: Some(vec![term]),
            ..PodAntiAffinity::default()
        },
    };
    Some(Affinity {
        pod_anti_affinity: Some(apart),
        ..Affinity::default()
    })
}
