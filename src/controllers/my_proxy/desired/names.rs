//! Names, labels and paths that the objects of a proxy share.

use std::collections::BTreeMap;

use kube::ResourceExt;

use crate::api::my_proxy::{MAX_NAME, ValidProxy, agent};
use crate::controllers::common::labels;
pub use crate::controllers::common::labels::{COMPONENT, INSTANCE, MANAGED_BY, MANAGER};

/// What the pods run, in the label by which a MyProxy's children are told from those of other kinds.
const NGINX: &str = "nginx";

/// The label whose value is the Deployment's name; users select by it.
pub const APP: &str = "app";
/// Label of a check's Job and pod: the key of the [`super::unit::Unit`] that it checks.
pub const CHECK: &str = "roadstead.dev/check";
/// Label of a check's Job: which attempt it is, from 1.
pub const ATTEMPT: &str = "roadstead.dev/attempt";

/// Component of the pods that proxy.
pub const PROXY: &str = "proxy";
/// Component of the pods that check a configuration.
pub const CHECKER: &str = "check";

/// Where the ConfigMap is mounted; the agent's default.
pub const CONFIG_DIR: &str = "/etc/roadstead/nginx";
/// Where the Secret is mounted.
pub const TLS_DIR: &str = "/etc/roadstead/tls";
/// The agent's private folder; the agent's default.
pub const RUN_DIR: &str = "/run/roadstead";

/// Plain HTTP in the pod.
pub const HTTP_PORT: i32 = 8080;
/// HTTPS in the pod.
pub const HTTPS_PORT: i32 = 8443;
/// The agent's probes and metrics.
pub const PROBE_PORT: i32 = agent::PORT as i32;

/// The ConfigMap that the pods mount.
pub fn config_map(proxy: &ValidProxy) -> String {
    format!("{}-config", proxy.name)
}

/// The ConfigMap that a check mounts.
pub fn candidate(proxy: &ValidProxy, key: &str) -> String {
    format!("{}-candidate-{key}", proxy.name)
}

/// The Job of one attempt at a check. Its name becomes a label of its pod, so a long name of a proxy is cut; `key` still tells
/// two proxies apart.
pub fn check(proxy: &ValidProxy, key: &str, attempt: u32) -> String {
    let suffix = format!("-check-{key}-{attempt}");
    let room = MAX_NAME.saturating_sub(suffix.len()).min(proxy.name.len());
    format!("{}{suffix}", proxy.name[..room].trim_end_matches('-'))
}

/// The proxy that a pod is of, if it is of one: objects of other kinds may have the same name.
pub fn proxy_of<K: ResourceExt>(pod: &K) -> Option<&String> {
    let is_ours = pod.labels().get(labels::NAME).is_some_and(|name| name == NGINX);
    pod.labels().get(INSTANCE).filter(|_| is_ours)
}

/// Whether a pod is one that proxies, not one that checks.
pub fn is_proxy<K: ResourceExt>(pod: &K) -> bool {
    pod.labels()
        .get(COMPONENT)
        .is_some_and(|component| component == PROXY)
}

/// The labels that every child has.
pub fn labels(proxy: &ValidProxy, component: &str) -> BTreeMap<String, String> {
    labels::labels(NGINX, &proxy.name, component)
}

/// Selects all pods of a proxy, whichever Deployment they come from: what the Service and the disruption budget go by, so that
/// a proxy keeps serving while its Deployment is replaced by one of another name.
pub fn instance_selector(proxy: &ValidProxy, component: &str) -> BTreeMap<String, String> {
    labels::selector(NGINX, &proxy.name, component)
}

/// Selects the pods of the proxy's present Deployment.
pub fn deployment_selector(proxy: &ValidProxy) -> BTreeMap<String, String> {
    let mut selector = instance_selector(proxy, PROXY);
    selector.insert(APP.to_owned(), proxy.deployment.clone());
    selector
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::controllers::my_proxy::testing::{proxy, valid};

    proptest! {
        #[test]
        fn every_derived_name_fits(name in "[a-z]([-a-z0-9]{0,61}[a-z0-9])?", attempt in 1..100_000_u32) {
            let proxy = valid(&proxy(&name, serde_json::json!({})));
            let job = check(&proxy, "0123456789", attempt);
            prop_assert!(job.len() <= 63 && job.starts_with(char::is_alphabetic), "{job}");
            prop_assert!(config_map(&proxy).len() <= 253 && candidate(&proxy, "0123456789").len() <= 253);
        }
    }
}
