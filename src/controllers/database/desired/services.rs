//! The Services: NAME leads to the primary, NAME-ro to replicas, and NAME-instances gives every instance a name.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::names::{self, CONTROL_PORT, POSTGRES_PORT};
use super::{Owner, pod};
use crate::api::database::agent::Role;

/// Leads to the primary.
pub fn primary(owner: &Owner<'_>) -> Service {
    let name = owner.name().to_owned();
    let selector = names::selector_of(owner.name(), Role::Primary);
    service(owner, name, selector)
}

/// Leads to replicas.
pub fn read_only(owner: &Owner<'_>) -> Service {
    let selector = names::selector_of(owner.name(), Role::Replica);
    service(owner, names::read_only(owner.name()), selector)
}

/// Gives names to instances, ready or not: they need each other to become so.
pub fn instances(owner: &Owner<'_>) -> Service {
    let selector = names::selector(owner.name());
    let mut service = service(owner, names::instances(owner.name()), selector);
    if let Some(spec) = &mut service.spec {
        spec.cluster_ip = Some("None".to_owned());
        spec.publish_not_ready_addresses = Some(true);
        spec.ports
            .get_or_insert_default()
            .push(port(pod::CONTROL, CONTROL_PORT));
    }
    service
}

fn service(owner: &Owner<'_>, name: String, selector: BTreeMap<String, String>) -> Service {
    Service {
        metadata: owner.metadata(name),
        spec: Some(ServiceSpec {
            selector: Some(selector),
            ports: Some(vec![port(pod::POSTGRES, POSTGRES_PORT)]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

fn port(name: &str, port: i32) -> ServicePort {
    ServicePort {
        name: Some(name.to_owned()),
        port,
        protocol: Some("TCP".to_owned()),
        target_port: Some(IntOrString::String(name.to_owned())),
        ..ServicePort::default()
    }
}
