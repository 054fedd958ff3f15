//! How the API server finds the operator's webhooks where OLM does not see to it: the Service, the configurations, the definitions' conversion,
//! and the Secret in which the operator keeps the certificates that it makes. A bundle is made from the same objects, in OLM's own words.

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhook, MutatingWebhookConfiguration, RuleWithOperations, ServiceReference, ValidatingWebhook,
    ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::api::core::v1::{Secret, Service, ServicePort, ServiceSpec};
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinition, ServiceReference as ConversionService,
    WebhookClientConfig as ConversionClient, WebhookConversion,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};

use super::kinds::Kind;
use super::operator::labels;
use super::rbac::{HEAL, cluster_role_binding, clusterwide, namespaced, role_ref, rule, subject};
use super::{NAMESPACE, OPERATOR, value};
use crate::olm::Error;
use crate::olm::OPENED;
use crate::olm::manifests::LEFT_OUT;
use crate::webhook::{CONVERT, mutate_path, validate_path};

/// The Service, by the name that OLM gives it: that of the Deployment with this behind it.
pub const SERVICE: &str = "roadstead-operator-service";
/// The port on which the Service is asked.
pub const SERVICE_PORT: u16 = 443;
/// The port on which the operator listens.
pub const PORT: u16 = 9443;
/// The name of the port.
pub(super) const PORT_NAME: &str = "webhook";
/// The Secret with the operator's own certificates.
pub const SECRET: &str = "roadstead-operator-certificates";
/// The ValidatingWebhookConfiguration, and the MutatingWebhookConfiguration.
pub const CONFIGURATION: &str = OPERATOR;
/// In seconds. The operator answers in milliseconds; who waits for longer than this waits for nothing.
const TIMEOUT: i32 = 10;

/// The files of config/webhook.
pub(super) fn objects(kinds: &[Kind]) -> Result<Vec<(String, Value)>, Error> {
    Ok(vec![
        ("service.yaml".to_owned(), value(&service())?),
        ("validating.yaml".to_owned(), value(&validating(kinds))?),
        ("mutating.yaml".to_owned(), value(&mutating(kinds))?),
    ])
}

/// The files of config/certificates, which a bundle does without: OLM brings certificates, and writes their CA where it has to be.
pub(super) fn certificates() -> Result<Vec<(String, Value)>, Error> {
    let objects = [
        ("secret.yaml", value(&secret())?),
        ("role.yaml", value(&role())?),
        ("role_binding.yaml", value(&role_binding())?),
        ("cluster_role.yaml", value(&configurations_role())?),
        (
            "cluster_role_binding.yaml",
            value(&cluster_role_binding(CERTIFICATES))?,
        ),
    ];
    let left_out = objects.map(|(file, mut object)| {
        object["metadata"]["annotations"] = json!({LEFT_OUT: "true"});
        (file.to_owned(), object)
    });
    Ok(left_out.into())
}

const CERTIFICATES: &str = "roadstead-operator-certificates";

/// The definition of a kind as it comes to a cluster: one with several versions is converted by the operator, which fills in the authority, and by
/// that opens the versions that are not stored.
pub(super) fn definition(kind: &Kind) -> CustomResourceDefinition {
    let mut crd = kind.crd.clone();
    let opened = kind.opened();
    if opened.is_empty() {
        return crd;
    }
    let annotations = crd.metadata.annotations.get_or_insert_default();
    annotations.insert(OPENED.to_owned(), opened.join(","));
    for version in &mut crd.spec.versions {
        version.served &= version.storage;
    }
    crd.spec.conversion = Some(conversion());
    crd
}

fn conversion() -> CustomResourceConversion {
    CustomResourceConversion {
        strategy: "Webhook".to_owned(),
        webhook: Some(WebhookConversion {
            client_config: Some(ConversionClient {
                service: Some(ConversionService {
                    namespace: NAMESPACE.to_owned(),
                    name: SERVICE.to_owned(),
                    path: Some(CONVERT.to_owned()),
                    port: Some(i32::from(SERVICE_PORT)),
                }),
                ..Default::default()
            }),
            conversion_review_versions: vec!["v1".to_owned()],
        }),
    }
}

fn service() -> Service {
    Service {
        metadata: namespaced(SERVICE),
        spec: Some(ServiceSpec {
            selector: Some(labels()),
            ports: Some(vec![ServicePort {
                name: Some(PORT_NAME.to_owned()),
                port: i32::from(SERVICE_PORT),
                target_port: Some(IntOrString::Int(i32::from(PORT))),
                protocol: Some("TCP".to_owned()),
                ..Default::default()
            }]),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// Every version is judged as its author wrote it, so that problems are told in the words of that version.
fn validating(kinds: &[Kind]) -> ValidatingWebhookConfiguration {
    let webhook = |kind: &Kind| ValidatingWebhook {
        name: format!("{}.validate.{}", singular(kind), kind.crd.spec.group),
        client_config: client(validate_path, kind),
        rules: Some(vec![rule_for(
            kind,
            &["CREATE", "UPDATE"],
            versions(kind).collect(),
        )]),
        failure_policy: Some("Fail".to_owned()),
        match_policy: Some("Exact".to_owned()),
        side_effects: "None".to_owned(),
        timeout_seconds: Some(TIMEOUT),
        admission_review_versions: vec!["v1".to_owned()],
        ..Default::default()
    };
    ValidatingWebhookConfiguration {
        metadata: clusterwide(CONFIGURATION),
        webhooks: Some(kinds.iter().map(webhook).collect()),
    }
}

/// What the early version cannot say is carried over only where a client of that version writes an object anew.
fn mutating(kinds: &[Kind]) -> MutatingWebhookConfiguration {
    let webhook = |kind: &Kind| MutatingWebhook {
        name: format!("{}.mutate.{}", singular(kind), kind.crd.spec.group),
        client_config: client(mutate_path, kind),
        rules: Some(vec![rule_for(
            kind,
            &["UPDATE"],
            versions(kind).take(1).collect(),
        )]),
        failure_policy: Some("Fail".to_owned()),
        match_policy: Some("Exact".to_owned()),
        reinvocation_policy: Some("Never".to_owned()),
        side_effects: "None".to_owned(),
        timeout_seconds: Some(TIMEOUT),
        admission_review_versions: vec!["v1".to_owned()],
        ..Default::default()
    };
    MutatingWebhookConfiguration {
        metadata: clusterwide(CONFIGURATION),
        webhooks: Some(kinds.iter().map(webhook).collect()),
    }
}

fn client(path: fn(&str) -> String, kind: &Kind) -> WebhookClientConfig {
    WebhookClientConfig {
        service: Some(ServiceReference {
            namespace: NAMESPACE.to_owned(),
            name: SERVICE.to_owned(),
            path: Some(path(&kind.crd.spec.names.plural)),
            port: Some(i32::from(SERVICE_PORT)),
        }),
        ..Default::default()
    }
}

/// The object itself, not its status or scale: nothing but the operator writes the one, and the schema bounds the other.
fn rule_for(kind: &Kind, operations: &[&str], versions: Vec<String>) -> RuleWithOperations {
    RuleWithOperations {
        operations: Some(operations.iter().map(|&operation| operation.to_owned()).collect()),
        api_groups: Some(vec![kind.crd.spec.group.clone()]),
        api_versions: Some(versions),
        resources: Some(vec![kind.crd.spec.names.plural.clone()]),
        scope: Some(kind.crd.spec.scope.clone()),
    }
}

/// The served versions, the early one first.
fn versions(kind: &Kind) -> impl Iterator<Item = String> {
    let versions = kind.crd.spec.versions.iter().filter(|version| version.served);
    versions.map(|version| version.name.clone())
}

fn singular(kind: &Kind) -> String {
    kind.crd.spec.names.singular.clone().unwrap_or_default()
}

/// It is created empty, so that the operator needs no right to create Secrets, which cannot be bound to a name.
fn secret() -> Secret {
    Secret {
        metadata: namespaced(SECRET),
        type_: Some("Opaque".to_owned()),
        ..Default::default()
    }
}

fn role() -> Role {
    let own = PolicyRule {
        resource_names: Some(vec![SECRET.to_owned()]),
        ..rule("", "secrets", &["get", "update"])
    };
    Role {
        metadata: namespaced(CERTIFICATES),
        rules: Some(vec![own]),
    }
}

fn role_binding() -> RoleBinding {
    RoleBinding {
        metadata: namespaced(CERTIFICATES),
        role_ref: role_ref("Role", CERTIFICATES),
        subjects: Some(vec![subject()]),
    }
}

fn configurations_role() -> ClusterRole {
    let named = |resource: &str| PolicyRule {
        resource_names: Some(vec![CONFIGURATION.to_owned()]),
        ..rule("admissionregistration.k8s.io", resource, &HEAL)
    };
    let rules = vec![
        named("mutatingwebhookconfigurations"),
        named("validatingwebhookconfigurations"),
    ];
    ClusterRole {
        metadata: clusterwide(CERTIFICATES),
        rules: Some(rules),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::kinds;

    /// Else an object that is stored in the other one would be read without its fields.
    #[test]
    fn the_stored_version_alone_is_served_until_the_operator_opens_the_others_and_nothing_is_ever_read_unconverted()
     {
        for mut kind in kinds::all() {
            for _ in 0..2 {
                let definition = definition(&kind);
                assert_eq!(definition.spec.conversion, Some(conversion()));
                for version in &definition.spec.versions {
                    assert_eq!(version.served, version.storage, "{}", version.name);
                }
                let others = definition.spec.versions.iter().filter(|version| !version.storage);
                let others: Vec<&str> = others.map(|version| version.name.as_str()).collect();
                let named = &definition.metadata.annotations.unwrap()[OPENED];
                assert_eq!(*named, others.join(","), "{}", kind.display_name);
                // And the same of a definition that stores the other one.
                for version in &mut kind.crd.spec.versions {
                    version.storage = !version.storage;
                }
            }
        }
    }
}
