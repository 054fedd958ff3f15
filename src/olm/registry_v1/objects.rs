//! Rules of each object of manifests/, and of all of them together.

use std::collections::BTreeMap;

use serde_json::Value;

use super::read::{Bundle, Object};
use crate::olm::contents::{SUPPORTED, label};
use crate::olm::findings::{Finding, bundle as codes};
use crate::olm::manifests::{api_group, list};
use crate::olm::names::{is_dns_subdomain, is_path_segment};

/// What one ConfigMap holds, in bytes; upstream warns from 85 % on.
const LARGEST_BUNDLE: usize = 1 << 20;
const LARGE_BUNDLE: usize = LARGEST_BUNDLE / 100 * 85;
/// What etcd takes of one object.
const LARGEST_OBJECT: usize = 3 << 19;
/// What the API server takes of an object's annotations.
const LARGEST_ANNOTATIONS: usize = 256 << 10;

/// API versions that Kubernetes took away: group and version, kinds, since when, and what is there instead.
const REMOVED: [(&str, &[&str], &str, &str); 17] = [
    (
        "apiextensions.k8s.io/v1beta1",
        &["CustomResourceDefinition"],
        "1.22",
        "apiextensions.k8s.io/v1",
    ),
    (
        "scheduling.k8s.io/v1beta1",
        &["PriorityClass"],
        "1.22",
        "scheduling.k8s.io/v1",
    ),
    (
        "rbac.authorization.k8s.io/v1beta1",
        &["Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"],
        "1.22",
        "rbac.authorization.k8s.io/v1",
    ),
    (
        "apiregistration.k8s.io/v1beta1",
        &["APIService"],
        "1.22",
        "apiregistration.k8s.io/v1",
    ),
    (
        "admissionregistration.k8s.io/v1beta1",
        &["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"],
        "1.22",
        "admissionregistration.k8s.io/v1",
    ),
    (
        "coordination.k8s.io/v1beta1",
        &["Lease"],
        "1.22",
        "coordination.k8s.io/v1",
    ),
    ("extensions/v1beta1", &["Ingress"], "1.22", "networking.k8s.io/v1"),
    (
        "networking.k8s.io/v1beta1",
        &["Ingress", "IngressClass"],
        "1.22",
        "networking.k8s.io/v1",
    ),
    (
        "storage.k8s.io/v1beta1",
        &["CSIDriver", "CSINode", "StorageClass", "VolumeAttachment"],
        "1.22",
        "storage.k8s.io/v1",
    ),
    (
        "certificates.k8s.io/v1beta1",
        &["CertificateSigningRequest"],
        "1.22",
        "certificates.k8s.io/v1",
    ),
    ("batch/v1beta1", &["CronJob"], "1.25", "batch/v1"),
    (
        "discovery.k8s.io/v1beta1",
        &["EndpointSlice"],
        "1.25",
        "discovery.k8s.io/v1",
    ),
    ("events.k8s.io/v1beta1", &["Event"], "1.25", "events.k8s.io/v1"),
    (
        "policy/v1beta1",
        &["PodDisruptionBudget", "PodSecurityPolicy"],
        "1.25",
        "policy/v1",
    ),
    ("node.k8s.io/v1beta1", &["RuntimeClass"], "1.25", "node.k8s.io/v1"),
    (
        "autoscaling/v2beta1",
        &["HorizontalPodAutoscaler"],
        "1.25",
        "autoscaling/v2",
    ),
    (
        "autoscaling/v2beta2",
        &["HorizontalPodAutoscaler"],
        "1.26",
        "autoscaling/v2",
    ),
];

/// OpenShift's own SecurityContextConstraints.
const DEFAULT_SCCS: [&str; 8] = [
    "privileged",
    "restricted",
    "anyuid",
    "hostaccess",
    "hostmount-anyuid",
    "hostnetwork",
    "node-exporter",
    "nonroot",
];

pub(super) fn check(bundle: &Bundle, found: &mut Vec<Finding>) {
    let mut seen: BTreeMap<(&str, &str, &str), &Object> = BTreeMap::new();
    for object in &bundle.objects {
        identity(object, found);
        kind(object, found);
        sizes(object, found);
        match object.text("/kind") {
            "PodDisruptionBudget" => disruption(object, found),
            "PriorityClass" => priority(object, found),
            "Role" | "ClusterRole" => rules(object, found),
            _ => {}
        }
        let identity = (api_group(&object.body), object.text("/kind"), object.name());
        if let Some(first) = seen.insert(identity, object) {
            let message = format!("{} is in {}, too", label(&object.body), first.place(""));
            found.push(object.finding(&codes::MANIFEST_DUPLICATE, "/metadata/name", message));
        }
    }
    whole(bundle, found);
}

fn identity(object: &Object, found: &mut Vec<Finding>) {
    for field in ["apiVersion", "kind"] {
        if object.text(&format!("/{field}")).is_empty() {
            let message = format!("{field} is missing");
            found.push(object.finding(&codes::MANIFEST_IDENTITY, &format!("/{field}"), message));
        }
    }
    let name = object.name();
    // Names of roles and bindings may have anything but slashes and percent signs
    let is_free = object.body["apiVersion"]
        .as_str()
        .is_some_and(|version| version.starts_with("rbac.authorization.k8s.io/"));
    let fits = if is_free {
        is_path_segment(name)
    } else {
        is_dns_subdomain(name)
    };
    if !fits {
        let message = format!("metadata.name is {name:?}, which Kubernetes does not take");
        found.push(object.finding(&codes::MANIFEST_IDENTITY, "/metadata/name", message));
    }
}

fn kind(object: &Object, found: &mut Vec<Finding>) {
    let (api_version, kind) = (object.text("/apiVersion"), object.text("/kind"));
    if !kind.is_empty() && kind != "ClusterServiceVersion" && !SUPPORTED.contains(&kind) {
        let message = format!("OLM installs no {kind}");
        // In no version
        return found.push(object.finding(&codes::MANIFEST_KIND, "/kind", message));
    }
    let removed = REMOVED
        .iter()
        .find(|(version, kinds, ..)| *version == api_version && kinds.contains(&kind));
    if let Some((_, _, since, instead)) = removed {
        let message = format!("{api_version} has no {kind} since Kubernetes {since}; write {instead}");
        found.push(object.finding(&codes::API_REMOVED, "/apiVersion", message));
    }
    let is_definition =
        kind == "CustomResourceDefinition" && api_group(&object.body) == "apiextensions.k8s.io";
    if is_definition && removed.is_none() && api_version != "apiextensions.k8s.io/v1" {
        let message =
            format!("{api_version} is no version of CustomResourceDefinition; write apiextensions.k8s.io/v1");
        found.push(object.finding(&codes::API_REMOVED, "/apiVersion", message));
    }
}

fn sizes(object: &Object, found: &mut Vec<Finding>) {
    let whole = object.body.to_string().len();
    if whole > LARGEST_OBJECT {
        let message = format!(
            "{} has {whole} bytes; {LARGEST_OBJECT} are accepted",
            label(&object.body)
        );
        found.push(object.finding(&codes::OBJECT_SIZE, "", message));
    }
    let annotations = object.body["metadata"]["annotations"]
        .as_object()
        .into_iter()
        .flatten();
    let length = |(key, value): (&String, &Value)| key.len() + value.as_str().map_or(0, str::len);
    let annotations: usize = annotations.map(length).sum();
    if annotations > LARGEST_ANNOTATIONS {
        let message = format!(
            "the annotations of {} have {annotations} bytes; {LARGEST_ANNOTATIONS} are accepted",
            label(&object.body)
        );
        found.push(object.finding(&codes::OBJECT_SIZE, "/metadata/annotations", message));
    }
}

fn disruption(object: &Object, found: &mut Vec<Finding>) {
    for (field, blocking) in [
        ("maxUnavailable", ["0", "0%"]),
        ("minAvailable", ["100%", "100%"]),
    ] {
        let value = match &object.body["spec"][field] {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => continue,
        };
        if blocking.contains(&value.as_str()) {
            let message = format!("{}: spec.{field} is {value}", label(&object.body));
            found.push(object.finding(&codes::PDB_BLOCKS, &format!("/spec/{field}"), message));
        }
    }
}

fn priority(object: &Object, found: &mut Vec<Finding>) {
    if object.body["globalDefault"] == true {
        let message = format!("{}: globalDefault is true", label(&object.body));
        found.push(object.finding(&codes::PRIORITY_CLASS_DEFAULT, "/globalDefault", message));
    }
}

fn rules(object: &Object, found: &mut Vec<Finding>) {
    for (index, rule) in object.list("/rules").iter().enumerate() {
        let names = |field: &str, any: &[&str]| names_any(rule, field, any);
        let pointer = format!("/rules/{index}");
        if names("apiGroups", &["policy"])
            && names("resources", &["poddisruptionbudgets"])
            && names("verbs", &["*", "create", "update", "patch"])
        {
            let message = format!(
                "{}: rules[{index}] lets change poddisruptionbudgets",
                label(&object.body)
            );
            found.push(object.finding(&codes::RBAC_DISRUPTION, &pointer, message));
        }
        if names("apiGroups", &["security.openshift.io"])
            && names("resources", &["securitycontextconstraints"])
            && names("verbs", &["*", "delete", "update", "patch"])
            && names("resourceNames", &DEFAULT_SCCS)
        {
            let message = format!(
                "{}: rules[{index}] lets change default constraints",
                label(&object.body)
            );
            found.push(object.finding(&codes::RBAC_SCC, &pointer, message));
        }
    }
}

/// Whether a list of a rule of RBAC has any of these.
pub(super) fn names_any(rule: &Value, field: &str, any: &[&str]) -> bool {
    let named = list(rule, &format!("/{field}"));
    named
        .iter()
        .filter_map(Value::as_str)
        .any(|name| any.contains(&name))
}

fn whole(bundle: &Bundle, found: &mut Vec<Finding>) {
    let code = match bundle.packed {
        size if size > LARGEST_BUNDLE => &codes::BUNDLE_SIZE,
        size if size > LARGE_BUNDLE => &codes::BUNDLE_SIZE_NEAR,
        _ => return,
    };
    let folder = bundle.folder.join("manifests");
    let message = format!(
        "compressed, it has {} bytes; {LARGEST_BUNDLE} are accepted",
        bundle.packed
    );
    found.push(Finding::of_file(code, folder, message));
}
