//! `myproxies.roadstead.dev/v1`.
//!
//! The same as v1alpha1 in the words of the Kubernetes API, and what that cannot say.
//!
//! The comments on fields are what `kubectl explain` prints, so they say units, default and limits, each in one line, since it
//! keeps line ends. That of a list is printed with that of its elements after it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::limits::{MAX_REPLICAS, MAX_ROUTES, MAX_UPSTREAMS};
use super::routing::{LOST_ROUTE, Route, Upstream, default_replicas};
use crate::api::resources::Resources;
use crate::api::rules::{MAX_HOST, MAX_IMAGE, MAX_NAME};

/// What an author asks of a proxy.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "roadstead.dev",
    version = "v1",
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
        json_path = ".status.readyReplicas"
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
        .message(Message::Expression(LOST_ROUTE.into()))
        .field_path(".routes")
)]
pub struct MyProxySpec {
    /// Name of the Deployment, and value of the label `app` on its pods: a DNS label of 1 to 63 characters. The default is the object's own name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_NAME), regex(pattern = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"))]
    pub deployment_name: Option<String>,

    /// How many pods serve, from 0 to 1000. The default is 2.
    #[serde(default = "default_replicas")]
    #[schemars(range(min = 0, max = MAX_REPLICAS))]
    pub replicas: i32,

    /// The nginx image, at most 500 characters. The default is the operator's, set by its --nginx-image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = MAX_IMAGE),
        regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9._:/@-]*$")
    )]
    pub image: Option<String>,

    /// Groups of servers that routes send requests to, at most 64. The default is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_UPSTREAMS))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub upstreams: Vec<Upstream>,

    /// Which requests go where, at most 128 routes. The default is none. A request that no route takes is answered with 404.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_ROUTES))]
    pub routes: Vec<Route>,

    /// HTTPS on port 443 besides HTTP on port 80. The default is none, and HTTP only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,

    /// CPU and memory of each pod's nginx, as in a container's resources. The default is none: no promise and no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,

    /// With true the operator leaves everything as it is until this is false again; only a deletion is carried out. The default is false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
}

/// Where the certificate is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tls {
    /// Name of a Secret of type kubernetes.io/tls in the same namespace, at most 253 characters.
    #[schemars(
        length(min = 1, max = MAX_HOST),
        regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub secret_name: String,
}

/// What the operator reports about a proxy.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
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
    fn what_kubectl_explain_prints_names_limits_and_defaults() {
        crate::api::testing::explains_itself(&MyProxy::crd());
    }
}
