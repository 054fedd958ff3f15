//! The certificate of the webhooks. Without OLM it is cert-manager that makes one, as kubebuilder's manifests have it; under OLM
//! it is OLM, which mounts it into every container of the Deployment.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{ADMISSION, CONFIGURATIONS, converting};
use crate::olm::Error;
use crate::olm::manifests::{Manifests, list, name, text};

const CERT_MANAGER: &str = "cert-manager.io";
const INJECT: &str = "/metadata/annotations/cert-manager.io~1inject-ca-from";

/// The volumes that OLM adds, and where it mounts them.
const VOLUMES: [(&str, &str); 2] = [
    ("webhook-cert", "/tmp/k8s-webhook-server/serving-certs"),
    ("apiservice-cert", "/apiserver.local.config/certificates"),
];

#[derive(Debug, Default)]
pub(super) struct Certificates {
    pub covered: BTreeSet<(String, String)>,
    /// The Secrets into which cert-manager would put them.
    pub secrets: BTreeSet<String>,
}

/// The Certificates that nothing needs under OLM, and the Issuers of which nothing else is asked.
pub(super) fn only_for_webhooks(manifests: &Manifests, services: &BTreeSet<String>) -> Certificates {
    let injected = injected(manifests);
    let is_for_webhooks = |certificate: &&Value| {
        let names = list(certificate, "/spec/dnsNames");
        let is_of_service = |dns_name: &Value| {
            let host = text(dns_name, "").split('.').next().unwrap_or_default();
            services.contains(host)
        };
        injected.contains(name(certificate)) || !names.is_empty() && names.iter().all(is_of_service)
    };
    let (ours, others): (Vec<&Value>, Vec<&Value>) = manifests
        .of_kind(CERT_MANAGER, "Certificate")
        .partition(is_for_webhooks);
    let mut found = Certificates::default();
    for certificate in &ours {
        found
            .covered
            .insert(("Certificate".to_owned(), name(certificate).to_owned()));
        found
            .secrets
            .insert(text(certificate, "/spec/secretName").to_owned());
    }
    for kind in ["Issuer", "ClusterIssuer"] {
        for issuer in manifests.of_kind(CERT_MANAGER, kind) {
            let asks = |certificate: &&Value| issuer_of(certificate) == (kind, name(issuer));
            if ours.iter().any(asks) && !others.iter().any(asks) {
                found.covered.insert((kind.to_owned(), name(issuer).to_owned()));
            }
        }
    }
    found
}

/// The Certificates whose authority cert-manager would put into configurations and definitions.
fn injected(manifests: &Manifests) -> BTreeSet<&str> {
    let configurations = CONFIGURATIONS
        .iter()
        .flat_map(|(kind, _)| manifests.of_kind(ADMISSION, kind));
    let bodies = configurations.chain(converting(manifests).map(|manifest| &manifest.body));
    bodies
        .filter_map(|body| text(body, INJECT).rsplit('/').next())
        .filter(|name| !name.is_empty())
        .collect()
}

fn issuer_of(certificate: &Value) -> (&str, &str) {
    let kind = match text(certificate, "/spec/issuerRef/kind") {
        "" => "Issuer",
        kind => kind,
    };
    (kind, text(certificate, "/spec/issuerRef/name"))
}

/// Takes out what stands where OLM mounts its certificate, as OLM does, and the volumes that nothing mounts any more: their Secret
/// would not be there.
///
/// # Errors
/// [`Error::Webhook`] when the pods would look for the certificate elsewhere.
pub(super) fn unmount(deployment: &mut Value, secrets: &BTreeSet<String>) -> Result<(), Error> {
    let place = format!("Deployment {}", name(deployment));
    let Some(pod) = deployment.pointer_mut("/spec/template/spec") else {
        return Ok(());
    };
    let mut freed = BTreeSet::new();
    for container in entries(pod, "containers") {
        for mount in take_from(container, "volumeMounts", is_olms) {
            freed.insert(text(&mount, "/name").to_owned());
        }
    }
    let mounted = mounted(pod);
    freed.retain(|volume| !mounted.iter().any(|(name, _, _)| name == volume));
    take_from(pod, "volumes", |volume| freed.contains(text(volume, "/name")));
    check(pod, &place, secrets)
}

fn entries<'a>(value: &'a mut Value, field: &str) -> impl Iterator<Item = &'a mut Value> {
    value
        .get_mut(field)
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
}

/// Removes entries of a list, and the list with its last entry.
fn take_from(value: &mut Value, field: &str, is_taken: impl Fn(&Value) -> bool) -> Vec<Value> {
    let Some(items) = value.get_mut(field).and_then(Value::as_array_mut) else {
        return Vec::new();
    };
    let taken: Vec<Value> = items.extract_if(.., |item| is_taken(item)).collect();
    if items.is_empty()
        && !taken.is_empty()
        && let Some(fields) = value.as_object_mut()
    {
        fields.remove(field);
    }
    taken
}

fn is_olms(mount: &Value) -> bool {
    let path = text(mount, "/mountPath").trim_end_matches('/');
    VOLUMES.iter().any(|(_, olms)| *olms == path)
}

/// Every mount as volume, container and path.
fn mounted(pod: &Value) -> Vec<(&str, &str, &str)> {
    let containers = ["initContainers", "containers"]
        .into_iter()
        .flat_map(|field| list(pod, &format!("/{field}")));
    containers
        .flat_map(|container| {
            let mounts = list(container, "/volumeMounts").iter();
            mounts.map(|mount| {
                (
                    text(mount, "/name"),
                    text(container, "/name"),
                    text(mount, "/mountPath"),
                )
            })
        })
        .collect()
}

/// What is left must neither be a volume that OLM replaces, nor wait for a Secret that nobody makes.
fn check(pod: &Value, place: &str, secrets: &BTreeSet<String>) -> Result<(), Error> {
    for volume in list(pod, "/volumes") {
        let volume_name = text(volume, "/name");
        let is_reserved = VOLUMES.iter().any(|(reserved, _)| *reserved == volume_name);
        if !is_reserved && !secrets_of(volume).any(|secret| secrets.contains(secret)) {
            continue;
        }
        if let Some((_, container, path)) = mounted(pod).iter().find(|(name, _, _)| *name == volume_name) {
            let accepted = format!(
                "OLM makes the certificate and mounts it at {} (tls.crt and tls.key), in containers that are no init containers; \
                 mount it there, and nothing else from a volume webhook-cert or apiservice-cert",
                VOLUMES[0].1
            );
            let field = format!("mountPath of volume {volume_name} in container {container}");
            return Err(Error::webhook(place, &field, &json!(path), accepted));
        }
    }
    Ok(())
}

fn secrets_of(volume: &Value) -> impl Iterator<Item = &str> {
    let projected = list(volume, "/projected/sources").iter();
    let projected = projected.map(|source| text(source, "/secret/name"));
    std::iter::once(text(volume, "/secret/secretName")).chain(projected)
}
