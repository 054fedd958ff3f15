//! The Service, named as the object: port 80, and 443 with a certificate.

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::Owner;
use super::names::{self, HTTP_PORT, HTTPS_PORT};

/// Builds the Service. `tls` is whether the active configuration serves HTTPS.
pub fn build(owner: &Owner<'_>, tls: bool) -> Service {
    let port = |name: &str, port, target| ServicePort {
        name: Some(name.to_owned()),
        port,
        protocol: Some("TCP".to_owned()),
        app_protocol: Some(name.to_owned()),
        target_port: Some(IntOrString::Int(target)),
        ..ServicePort::default()
    };
    let mut ports = vec![port("http", 80, HTTP_PORT)];
    if tls {
        ports.push(port("https", 443, HTTPS_PORT));
    }
    Service {
        metadata: owner.metadata(owner.proxy.name.clone(), names::PROXY),
        spec: Some(ServiceSpec {
            selector: Some(names::instance_selector(owner.proxy, names::PROXY)),
            ports: Some(ports),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}
