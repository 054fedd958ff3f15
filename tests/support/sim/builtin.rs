//! What the API server does to objects of Kubernetes' own kinds: the defaults that it fills in, the fields that it lets nobody change, and
//! the few refusals that the product can meet.

use serde_json::{Value, json};

use super::kinds::Kind;
use super::status::Refusal;

/// Sets `at[field]` if it is not there.
fn default(at: &mut Value, field: &str, value: Value) {
    if let Some(map) = at.as_object_mut()
        && !map.contains_key(field)
    {
        map.insert(field.to_owned(), value);
    }
}

fn each<'a>(at: &'a mut Value, field: &str) -> impl Iterator<Item = &'a mut Value> {
    at.get_mut(field)
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
}

/// Fills in defaults.
pub fn defaults(kind: &Kind, object: &mut Value) {
    match kind.kind {
        "Deployment" => deployment(&mut object["spec"]),
        "ReplicaSet" => {
            default(&mut object["spec"], "replicas", json!(1));
            pod(&mut object["spec"]["template"]["spec"]);
        }
        "Service" => service(&mut object["spec"]),
        "StatefulSet" => stateful_set(&mut object["spec"]),
        "Job" => job(object),
        "Secret" => default(object, "type", json!("Opaque")),
        "PersistentVolumeClaim" => default(&mut object["spec"], "volumeMode", json!("Filesystem")),
        "Pod" => {
            pod(&mut object["spec"]);
            for container in each(&mut object["spec"], "containers") {
                requests(&mut container["resources"]);
            }
        }
        "Lease" => default(object, "spec", json!({})),
        "RoleBinding" => {
            // Of an account, the group is the empty one, and that is left out.
            default(
                &mut object["roleRef"],
                "apiGroup",
                json!("rbac.authorization.k8s.io"),
            );
        }
        "ConfigMap" | "PodDisruptionBudget" | "Event" | "ServiceAccount" | "Role" => {}
        other => panic!("the defaults of {other} are not simulated"),
    }
}

fn deployment(spec: &mut Value) {
    default(spec, "replicas", json!(1));
    default(spec, "revisionHistoryLimit", json!(10));
    default(spec, "progressDeadlineSeconds", json!(600));
    default(spec, "strategy", json!({"type": "RollingUpdate"}));
    if spec["strategy"]["type"] == "RollingUpdate" {
        default(&mut spec["strategy"], "rollingUpdate", json!({}));
        default(
            &mut spec["strategy"]["rollingUpdate"],
            "maxUnavailable",
            json!("25%"),
        );
        default(&mut spec["strategy"]["rollingUpdate"], "maxSurge", json!("25%"));
    }
    pod(&mut spec["template"]["spec"]);
}

fn stateful_set(spec: &mut Value) {
    default(spec, "replicas", json!(1));
    default(spec, "podManagementPolicy", json!("OrderedReady"));
    default(spec, "revisionHistoryLimit", json!(10));
    default(spec, "updateStrategy", json!({"type": "RollingUpdate"}));
    default(
        spec,
        "persistentVolumeClaimRetentionPolicy",
        json!({"whenDeleted": "Retain", "whenScaled": "Retain"}),
    );
    for claim in each(spec, "volumeClaimTemplates") {
        default(claim, "apiVersion", json!("v1"));
        default(claim, "kind", json!("PersistentVolumeClaim"));
        default(claim, "status", json!({"phase": "Pending"}));
        default(&mut claim["spec"], "volumeMode", json!("Filesystem"));
    }
    pod(&mut spec["template"]["spec"]);
}

fn service(spec: &mut Value) {
    default(spec, "type", json!("ClusterIP"));
    default(spec, "sessionAffinity", json!("None"));
    default(spec, "internalTrafficPolicy", json!("Cluster"));
    default(spec, "ipFamilyPolicy", json!("SingleStack"));
    default(spec, "ipFamilies", json!(["IPv4"]));
    for port in each(spec, "ports") {
        default(port, "protocol", json!("TCP"));
        let number = port["port"].clone();
        default(port, "targetPort", number);
    }
}

fn job(object: &mut Value) {
    let uid = object["metadata"]["uid"].clone();
    let name = object["metadata"]["name"].clone();
    let spec = &mut object["spec"];
    for (field, value) in [
        ("backoffLimit", json!(6)),
        ("parallelism", json!(1)),
        ("completions", json!(1)),
        ("completionMode", json!("NonIndexed")),
        ("suspend", json!(false)),
        ("manualSelector", json!(false)),
        ("podReplacementPolicy", json!("TerminatingOrFailed")),
    ] {
        default(spec, field, value);
    }
    // So that no two Jobs count each other's pods.
    default(
        spec,
        "selector",
        json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}),
    );
    default(&mut spec["template"], "metadata", json!({}));
    default(&mut spec["template"]["metadata"], "labels", json!({}));
    let labels = &mut spec["template"]["metadata"]["labels"];
    for (label, value) in [("controller-uid", &uid), ("job-name", &name)] {
        labels[label] = value.clone();
        labels[format!("batch.kubernetes.io/{label}")] = value.clone();
    }
    pod(&mut spec["template"]["spec"]);
}

fn pod(spec: &mut Value) {
    for (field, value) in [
        ("restartPolicy", json!("Always")),
        ("dnsPolicy", json!("ClusterFirst")),
        ("schedulerName", json!("default-scheduler")),
        ("securityContext", json!({})),
        ("terminationGracePeriodSeconds", json!(30)),
    ] {
        default(spec, field, value);
    }
    for list in ["initContainers", "containers"] {
        for container in each(spec, list) {
            self::container(container);
        }
    }
    for volume in each(spec, "volumes") {
        for source in ["configMap", "secret"] {
            if let Some(source) = volume.get_mut(source) {
                default(source, "defaultMode", json!(0o644));
            }
        }
    }
}

fn container(container: &mut Value) {
    let image = container["image"].as_str().unwrap_or_default();
    let tag = image.rsplit('/').next().unwrap_or_default();
    let latest = !tag.contains([':', '@']) || tag.ends_with(":latest");
    default(
        container,
        "imagePullPolicy",
        json!(if latest { "Always" } else { "IfNotPresent" }),
    );
    default(container, "terminationMessagePath", json!("/dev/termination-log"));
    default(container, "terminationMessagePolicy", json!("File"));
    default(container, "resources", json!({}));
    for port in each(container, "ports") {
        default(port, "protocol", json!("TCP"));
    }
    for variable in each(container, "env") {
        if let Some(field) = variable.pointer_mut("/valueFrom/fieldRef") {
            default(field, "apiVersion", json!("v1"));
        }
    }
    for probe in ["readinessProbe", "livenessProbe"] {
        let Some(probe) = container.get_mut(probe) else {
            continue;
        };
        for (field, value) in [
            ("timeoutSeconds", 1),
            ("periodSeconds", 10),
            ("successThreshold", 1),
            ("failureThreshold", 3),
        ] {
            default(probe, field, json!(value));
        }
        if let Some(get) = probe.get_mut("httpGet") {
            default(get, "path", json!("/"));
            default(get, "scheme", json!("HTTP"));
        }
    }
    if let Some(resources) = container.get_mut("resources") {
        quantities(resources);
    }
}

/// A pod with limits alone requests as much.
fn requests(resources: &mut Value) {
    if let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() {
        default(resources, "requests", json!({}));
        for (name, limit) in limits {
            default(&mut resources["requests"], &name, limit);
        }
    }
}

/// Writes quantities as the API server does.
fn quantities(resources: &mut Value) {
    for list in ["limits", "requests"] {
        let amounts = resources.get_mut(list).and_then(Value::as_object_mut);
        for amount in amounts.into_iter().flatten().map(|(_, amount)| amount) {
            let thousandths = amount
                .as_str()
                .and_then(|text| text.strip_suffix('m')?.parse::<u64>().ok());
            if let Some(whole) = thousandths.filter(|amount| amount % 1000 == 0) {
                *amount = json!((whole / 1000).to_string());
            }
        }
    }
}

/// Refuses what the API server refuses, as far as the product can meet it.
pub fn validate(kind: &Kind, object: &Value, old: Option<&Value>) -> Result<(), Refusal> {
    let mut problems = Vec::new();
    if let Some(old) = old {
        problems.extend(immutable(kind, old, object));
    }
    let pod = match kind.kind {
        "Deployment" | "StatefulSet" | "Job" => &object["spec"]["template"]["spec"],
        "Pod" => &object["spec"],
        _ => &Value::Null,
    };
    for (place, container) in pod["containers"].as_array().into_iter().flatten().enumerate() {
        let resources = &container["resources"];
        for (name, request) in resources["requests"].as_object().into_iter().flatten() {
            let limit = &resources["limits"][name];
            if limit.is_string() && amount(request) > amount(limit) {
                let prefix = if kind.is("Pod") {
                    "spec"
                } else {
                    "spec.template.spec"
                };
                problems.push(format!(
                    "{prefix}.containers[{place}].resources.requests: Invalid value: {request}: must be less than or equal to {name} limit of {}",
                    limit.as_str().unwrap_or_default()
                ));
            }
        }
    }
    if problems.is_empty() {
        return Ok(());
    }
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    Err(Refusal::invalid(kind, name, &problems))
}

fn immutable(kind: &Kind, old: &Value, new: &Value) -> Option<String> {
    let fixed: &[&str] = match kind.kind {
        "Deployment" | "ReplicaSet" => &["/spec/selector"],
        "Job" => &["/spec/template", "/spec/selector", "/spec/completions"],
        "StatefulSet" => &[
            "/spec/selector",
            "/spec/serviceName",
            "/spec/podManagementPolicy",
            "/spec/volumeClaimTemplates",
        ],
        "RoleBinding" => &["/roleRef"],
        "Secret" => &["/type"],
        "Service" => &["/spec/clusterIP"],
        "ConfigMap" if old["immutable"] == true => &["/data", "/immutable"],
        _ => &[],
    };
    let changed = fixed
        .iter()
        .find(|field| old.pointer(field) != new.pointer(field))?;
    let field = changed.trim_start_matches('/').replace('/', ".");
    Some(match kind.kind {
        "ConfigMap" => format!("{field}: Forbidden: field is immutable when `immutable` is set"),
        _ => format!("{field}: Invalid value: field is immutable"),
    })
}

/// A quantity as a number, for the forms that the tests use.
fn amount(quantity: &Value) -> f64 {
    const UNITS: [(&str, f64); 8] = [
        ("Ki", 1024.0),
        ("Mi", 1_048_576.0),
        ("Gi", 1_073_741_824.0),
        ("m", 1e-3),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("", 1.0),
    ];
    let text = quantity.as_str().unwrap_or_default();
    let (unit, factor) = UNITS
        .iter()
        .find(|(unit, _)| text.ends_with(unit))
        .expect("the last one fits all");
    let number: f64 = text
        .trim_end_matches(unit)
        .parse()
        .unwrap_or_else(|_| panic!("the quantity {text:?} is not simulated"));
    number * factor
}
