//! What requests go where: the same in every version.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::limits::{MAX_PATH, MAX_SERVERS, MAX_WEIGHT};
use crate::api::rules::{MAX_HOST, MAX_NAME};

/// How many pods a proxy has when its author does not say.
pub const DEFAULT_REPLICAS: i32 = 2;

/// Names the first route whose upstream does not exist, and the upstreams that do. Of `format` the API server thinks that it is cheap; text put
/// together with `+` or `join` it estimates beyond its budget.
pub(super) const LOST_ROUTE: &str = r#"'%s; it must be the name of one of spec.upstreams, which are %s'.format([
    self.routes.map(r, !has(self.upstreams) || !self.upstreams.exists(u, u.name == r.upstream),
        'route "%s" names upstream "%s"'.format([r.path, r.upstream]))[0],
    has(self.upstreams) ? self.upstreams.map(u, u.name) : []])"#;

pub(super) fn default_replicas() -> i32 {
    DEFAULT_REPLICAS
}

/// Each upstream has a name and at least one server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Upstream {
    /// The name by which routes refer to it: a DNS label of 1 to 63 characters.
    #[schemars(length(min = 1, max = MAX_NAME), regex(pattern = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,

    /// The servers, from 1 to 16. Requests are spread over them by weight; one that cannot be reached is passed over once for the next in the list.
    #[schemars(length(min = 1, max = MAX_SERVERS))]
    pub servers: Vec<Server>,
}

/// Each server is a host with a port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Server {
    /// Host name, IPv4 or IPv6 address, at most 253 characters. A name without a dot is a Service in the proxy's own namespace. Names are resolved while serving.
    #[schemars(
        length(min = 1, max = MAX_HOST),
        regex(pattern = r"^[A-Za-z0-9:]([-A-Za-z0-9.:]*[A-Za-z0-9:])?$")
    )]
    pub host: String,

    /// TCP port, from 1 to 65535.
    #[schemars(range(min = 1, max = u16::MAX))]
    pub port: i32,

    /// Share of the requests relative to the other servers, from 1 to 100. The default is 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_WEIGHT))]
    pub weight: Option<i32>,
}

/// Each route sends the requests under a path to an upstream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Route {
    /// Path prefix, at most 256 characters, matched by whole segments: /api takes /api and /api/v1, not /apis. The longest prefix wins.
    #[schemars(length(min = 1, max = MAX_PATH), regex(pattern = r"^/[A-Za-z0-9/._~:@+,=!&-]*$"))]
    pub path: String,

    /// Name of one of the upstreams, at most 63 characters.
    #[schemars(length(min = 1, max = MAX_NAME))]
    pub upstream: String,

    /// Host that the request must ask for, at most 253 characters; *.example.com takes every host under example.com. The default is every host that no other route names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = MAX_HOST),
        regex(pattern = r"^(\*\.)?[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub host: Option<String>,
}
