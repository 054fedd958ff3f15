//! The rules of a MyProxy that its schema cannot say, and again those that it can: an object may have been stored before
//! a rule existed, or by an API server that does not know it.
//!
//! [`validate`] is the only way to a [`ValidProxy`], and the configuration is rendered from nothing else, so a string that
//! could end an nginx directive or a block never reaches a template.

use std::collections::BTreeSet;
use std::net::IpAddr;

use kube::ResourceExt;

use super::limits::{MAX_PATH, MAX_REPLICAS, MAX_ROUTES, MAX_SERVERS, MAX_UPSTREAMS, MAX_WEIGHT};
use super::routing::{Route, Server, Upstream};
use super::v1::{MyProxy, Tls};
use crate::api::problem::{Found, Problems};
use crate::api::resources::Resources;
use crate::api::rules::{LABEL, MAX_HOST, check_quantities, is_dns_name, is_image, is_label};

/// A proxy whose every string is safe to put into nginx's configuration and into the names of Kubernetes objects.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidProxy {
    /// The object's name: also the name of its Service.
    pub name: String,
    /// The object's namespace.
    pub namespace: String,
    /// The name of the Deployment.
    pub deployment: String,
    /// Pods wanted, 0 to 1000.
    pub replicas: i32,
    /// The image that the author chose, if any.
    pub image: Option<String>,
    /// Upstreams with unique names, in the author's order.
    pub upstreams: Vec<ValidUpstream>,
    /// Routes with unique (host, path), in the author's order.
    pub routes: Vec<ValidRoute>,
    /// The Secret with certificate and key, if any.
    pub tls_secret: Option<String>,
    /// CPU and memory, if the author said.
    pub resources: Option<Resources>,
    /// Whether everything is to stay as it is.
    pub paused: bool,
}

/// An upstream with at least one server.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidUpstream {
    /// A DNS label.
    pub name: String,
    /// In the author's order.
    pub servers: Vec<ValidServer>,
}

/// A server of an upstream.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidServer {
    /// Where it is.
    pub address: Address,
    /// 1 to 65535.
    pub port: u16,
    /// 1 to 100.
    pub weight: u32,
}

/// A host as an author may write it.
#[derive(Clone, Debug, PartialEq)]
pub enum Address {
    /// A DNS name in lower case without a trailing dot.
    Name(String),
    /// An address.
    Ip(IpAddr),
}

/// A route whose upstream exists.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidRoute {
    /// `/`, or a prefix that begins with `/` and does not end with it.
    pub path: String,
    /// The name of an upstream of the same proxy.
    pub upstream: String,
    /// A DNS name in lower case, which may begin with `*.`.
    pub host: Option<String>,
}

/// Checks a proxy and gives the form from which its objects are built.
///
/// # Errors
/// Every problem found, not only the first.
pub fn validate(proxy: &MyProxy) -> Result<ValidProxy, Problems> {
    let mut found = Found::default();
    let spec = &proxy.spec;
    let name = proxy.name_any();
    found.expect(is_label(&name), "metadata.name", &name, LABEL);
    if let Some(name) = &spec.deployment_name {
        found.expect(is_label(name), "spec.deploymentName", name, LABEL);
    }
    found.expect(
        (0..=MAX_REPLICAS).contains(&spec.replicas),
        "spec.replicas",
        spec.replicas,
        &format!("0 to {MAX_REPLICAS}"),
    );
    if let Some(image) = &spec.image {
        found.expect(
            is_image(image),
            "spec.image",
            image,
            "an image reference such as nginx:1.29",
        );
    }
    if let Some(Tls { secret_name }) = &spec.tls {
        found.expect(
            is_dns_name(secret_name),
            "spec.tls.secretName",
            secret_name,
            "the name of a Secret in the same namespace",
        );
    }
    if let Some(resources) = &spec.resources {
        check_quantities(&mut found, "spec.resources.requests", &resources.requests);
        check_quantities(&mut found, "spec.resources.limits", &resources.limits);
    }
    let upstreams = check_upstreams(&mut found, &spec.upstreams);
    let routes = check_routes(&mut found, &spec.routes, &upstreams);
    found.done()?;
    Ok(ValidProxy {
        deployment: spec.deployment_name.clone().unwrap_or_else(|| name.clone()),
        namespace: proxy.namespace().unwrap_or_default(),
        name,
        replicas: spec.replicas,
        image: spec.image.clone(),
        upstreams,
        routes,
        tls_secret: spec.tls.as_ref().map(|tls| tls.secret_name.clone()),
        resources: spec.resources.clone(),
        paused: spec.paused,
    })
}

fn check_upstreams(found: &mut Found, upstreams: &[Upstream]) -> Vec<ValidUpstream> {
    found.expect(
        upstreams.len() <= MAX_UPSTREAMS,
        "spec.upstreams",
        format!("a list of {}", upstreams.len()),
        &format!("at most {MAX_UPSTREAMS} upstreams"),
    );
    let mut names = BTreeSet::new();
    let mut valid = Vec::new();
    for (i, upstream) in upstreams.iter().take(MAX_UPSTREAMS).enumerate() {
        let field = format!("spec.upstreams[{i}]");
        found.expect(
            is_label(&upstream.name),
            &format!("{field}.name"),
            &upstream.name,
            LABEL,
        );
        let unique = names.insert(upstream.name.as_str());
        found.expect(
            unique,
            &format!("{field}.name"),
            &upstream.name,
            "unlike the names of the other upstreams",
        );
        found.expect(
            (1..=MAX_SERVERS).contains(&upstream.servers.len()),
            &format!("{field}.servers"),
            format!("a list of {}", upstream.servers.len()),
            &format!("1 to {MAX_SERVERS} servers"),
        );
        let servers = upstream.servers.iter().take(MAX_SERVERS).enumerate();
        let servers =
            servers.filter_map(|(j, server)| check_server(found, &format!("{field}.servers[{j}]"), server));
        let servers = servers.collect();
        valid.push(ValidUpstream {
            name: upstream.name.clone(),
            servers,
        });
    }
    valid
}

fn check_server(found: &mut Found, field: &str, server: &Server) -> Option<ValidServer> {
    let address = parse_address(&server.host);
    found.expect(
        address.is_some(),
        &format!("{field}.host"),
        &server.host,
        "an IP address, or a host name: labels of at most 63 of a-z, 0-9 and '-', joined by dots",
    );
    let port = u16::try_from(server.port).ok().filter(|port| *port > 0);
    found.expect(
        port.is_some(),
        &format!("{field}.port"),
        server.port,
        "1 to 65535",
    );
    let weight = server.weight.unwrap_or(1);
    let in_range = (1..=MAX_WEIGHT).contains(&weight);
    found.expect(
        in_range,
        &format!("{field}.weight"),
        weight,
        &format!("1 to {MAX_WEIGHT}"),
    );
    Some(ValidServer {
        address: address?,
        port: port?,
        weight: u32::try_from(weight).ok()?,
    })
}

fn check_routes(found: &mut Found, routes: &[Route], upstreams: &[ValidUpstream]) -> Vec<ValidRoute> {
    found.expect(
        routes.len() <= MAX_ROUTES,
        "spec.routes",
        format!("a list of {}", routes.len()),
        &format!("at most {MAX_ROUTES} routes"),
    );
    let mut taken = BTreeSet::new();
    let mut valid = Vec::new();
    for (i, route) in routes.iter().take(MAX_ROUTES).enumerate() {
        let field = format!("spec.routes[{i}]");
        let path = parse_path(&route.path);
        found.expect(
            path.is_some(),
            &format!("{field}.path"),
            &route.path,
            "a path that begins with '/', of letters, digits and ._~:@+,=!&-, without empty segments, '.' or '..'",
        );
        if let Some(host) = &route.host {
            let expected = "a host name in lower case, or one that begins with '*.'";
            found.expect(is_route_host(host), &format!("{field}.host"), host, expected);
        }
        let known = upstreams.iter().any(|upstream| upstream.name == route.upstream);
        found.expect(
            known,
            &format!("{field}.upstream"),
            &route.upstream,
            "the name of one of spec.upstreams",
        );
        let Some(path) = path else { continue };
        let unique = taken.insert((route.host.as_deref(), path));
        found.expect(
            unique,
            &format!("{field}.path"),
            &route.path,
            "unlike the paths of other routes of the same host",
        );
        valid.push(ValidRoute {
            path: path.to_owned(),
            upstream: route.upstream.clone(),
            host: route.host.clone(),
        });
    }
    valid
}

fn is_route_host(text: &str) -> bool {
    text.len() <= MAX_HOST && is_dns_name(text.strip_prefix("*.").unwrap_or(text))
}

fn parse_address(text: &str) -> Option<Address> {
    if let Ok(ip) = text.parse() {
        return Some(Address::Ip(ip));
    }
    let name = text.to_ascii_lowercase();
    // A name of digits and dots alone is an address with a slip in it, and never resolves.
    let has_letter = name.bytes().any(|b| b.is_ascii_lowercase());
    (has_letter && is_dns_name(&name)).then_some(Address::Name(name))
}

/// The path without a slash at its end. nginx compares with a path in which empty segments and dots are already resolved, so a
/// prefix that has any would never match.
fn parse_path(text: &str) -> Option<&str> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"/._~:@+,=!&-".contains(&b);
    if text.len() > MAX_PATH || !text.starts_with('/') || !text.bytes().all(allowed) {
        return None;
    }
    let path = text.strip_suffix('/').unwrap_or(text);
    if path.is_empty() {
        return Some("/");
    }
    let segments = path.split('/').skip(1);
    segments
        .into_iter()
        .all(|segment| !matches!(segment, "" | "." | ".."))
        .then_some(path)
}

#[cfg(test)]
#[path = "validate_tests.rs"]
mod tests;
