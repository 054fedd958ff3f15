//! `myproxies.roadstead.dev/v1alpha1`.
//!
//! Field names are snake_case, as in the manifests that users of the first version already have.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::limits::{
    MAX_HOST, MAX_IMAGE, MAX_NAME, MAX_PATH, MAX_REPLICAS, MAX_ROUTES, MAX_SERVERS, MAX_UPSTREAMS, MAX_WEIGHT,
};

/// How many pods a proxy has when its author does not say.
pub const DEFAULT_REPLICAS: i32 = 2;

/// What an author asks of a proxy.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "roadstead.dev",
    version = "v1alpha1",
    kind = "MyProxy",
    namespaced,
    status = "MyProxyStatus",
    shortname = "proxy",
    category = "roadstead",
    derive = "PartialEq",
    doc = "An nginx that proxies: a Deployment with a checked configuration, and a Service in front of it.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    validation = Rule::new("self.metadata.name.size() <= 63 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')")
        .message("metadata.name must be a DNS label: at most 63 of a-z, 0-9 and '-', beginning with a letter and not ending in '-'"),
    printcolumn(
        name = "Ready", type_ = "string",
        description = "Whether the proxy serves as its spec asks",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "Config", type_ = "string",
        description = "Whether nginx accepted the configuration of this spec",
        json_path = ".status.conditions[?(@.type==\"ConfigValid\")].reason"
    ),
    printcolumn(
        name = "Pods", type_ = "integer",
        description = "Pods that are ready",
        json_path = ".status.ready_replicas"
    ),
    printcolumn(
        name = "Wanted", type_ = "integer",
        description = "Pods that the spec asks for",
        json_path = ".spec.replicas"
    ),
    printcolumn(name = "Phase", type_ = "string", priority = 1, json_path = ".status.phase"),
    printcolumn(
        name = "Message", type_ = "string", priority = 1,
        description = "Why the proxy is ready or not",
        json_path = ".status.conditions[?(@.type==\"Ready\")].message"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[x_kube(
    validation = Rule::new("!has(self.routes) || self.routes.all(r, has(self.upstreams) && self.upstreams.exists(u, u.name == r.upstream))")
        .message("each of routes must name one of upstreams")
)]
pub struct MyProxySpec {
    /// Name of the Deployment, and the value of the label `app` on its pods. Left out, it is the object's own name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_NAME), regex(pattern = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: Option<String>,

    /// How many pods serve.
    #[serde(default = "default_replicas")]
    #[schemars(range(min = 0, max = MAX_REPLICAS))]
    pub replicas: i32,

    /// The nginx image. Left out, it is the operator's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = MAX_IMAGE),
        regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9._:/@-]*$")
    )]
    pub image: Option<String>,

    /// Groups of servers that routes send requests to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_UPSTREAMS))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub upstreams: Vec<Upstream>,

    /// Which requests go where. A request that no route takes is answered with 404.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_ROUTES))]
    pub routes: Vec<Route>,

    /// Name of a Secret of type kubernetes.io/tls in the same namespace. With it, the Service serves HTTPS on port 443 as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = MAX_HOST),
        regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub tls_secret: Option<String>,

    /// CPU and memory of each pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
}

fn default_replicas() -> i32 {
    DEFAULT_REPLICAS
}

/// A named group of servers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Upstream {
    /// The name by which routes refer to it.
    #[schemars(length(min = 1, max = MAX_NAME), regex(pattern = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,

    /// The servers. Requests are spread over them by weight; one that cannot be reached is passed over once for the next in the list.
    #[schemars(length(min = 1, max = MAX_SERVERS))]
    pub servers: Vec<Server>,
}

/// One server of an upstream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Server {
    /// Host name, IPv4 or IPv6 address. A name without a dot is a Service in the proxy's own namespace. Names are resolved while serving.
    #[schemars(
        length(min = 1, max = MAX_HOST),
        regex(pattern = r"^[A-Za-z0-9:]([-A-Za-z0-9.:]*[A-Za-z0-9:])?$")
    )]
    pub host: String,

    /// TCP port.
    #[schemars(range(min = 1, max = u16::MAX))]
    pub port: i32,

    /// Share of the requests, relative to the other servers. 1 where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_WEIGHT))]
    pub weight: Option<i32>,
}

/// Sends the requests under a path to an upstream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Route {
    /// Path prefix, matched by whole segments: /api takes /api and /api/v1, not /apis. The longest prefix wins.
    #[schemars(length(min = 1, max = MAX_PATH), regex(pattern = r"^/[A-Za-z0-9/._~:@+,=!&-]*$"))]
    pub path: String,

    /// Name of the upstream.
    #[schemars(length(min = 1, max = MAX_NAME))]
    pub upstream: String,

    /// Host that the request must ask for; *.example.com takes every host under it. Left out, the route takes hosts that no other route names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = MAX_HOST),
        regex(pattern = r"^(\*\.)?[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub host: Option<String>,
}

/// CPU and memory, as in a container's resources.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Resources {
    /// What a pod is promised, for example cpu: 100m, memory: 64Mi.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "quantities")]
    pub requests: BTreeMap<String, Quantity>,

    /// What a pod may use at most.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "quantities")]
    pub limits: BTreeMap<String, Quantity>,
}

/// As [`Quantity`]'s own schema, without the page of text that it would repeat in the resource definition.
fn quantities(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": true}})
}

/// What the operator reports about a proxy.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MyProxyStatus {
    /// The proxy's pods by name, sorted, without those that are going away.
    #[serde(default)]
    pub pod_names: Vec<String>,

    /// Creating, Running, Updating, Degraded, Failed or Deleting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,

    /// Ready, ConfigValid, UpToDate, Available and Progressing.
    #[serde(default)]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,

    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Pods that exist.
    #[serde(default)]
    pub replicas: i32,

    /// Pods that are ready.
    #[serde(default)]
    pub ready_replicas: i32,

    /// Label selector of the pods, as text, for the scale subresource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt;

    use super::*;

    #[test]
    fn the_resource_definition_is_what_users_see() {
        insta::assert_yaml_snapshot!(MyProxy::crd());
    }

    #[test]
    fn resources_may_be_numbers_as_in_a_pod() {
        let spec: MyProxySpec =
            serde_json::from_value(serde_json::json!({"resources": {"limits": {"cpu": 1}}})).unwrap();
        assert_eq!(spec.resources.unwrap().limits["cpu"], Quantity("1".into()));
    }
}
