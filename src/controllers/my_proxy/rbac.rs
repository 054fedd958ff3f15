//! What the controller may do to the cluster: exact verbs, no wildcards, and nothing on Secrets.

use k8s_openapi::api::rbac::v1::PolicyRule;

use crate::controllers::common::{OWN, rule};

/// The rules of the ClusterRole that the controller runs under. Leases and Events belong to the runtime, not here.
pub fn rules() -> Vec<PolicyRule> {
    vec![
        // `patch` is for the finalizer; `get` and `update` move what is stored in another version.
        rule(
            "roadstead.dev",
            &["myproxies"],
            &["get", "list", "watch", "patch", "update"],
        ),
        rule("roadstead.dev", &["myproxies/status"], &["patch"]),
        // Children hold up the deletion of their proxy (`blockOwnerDeletion`). Where OwnerReferencesPermissionEnforcement is on, as on
        // OpenShift, only somebody who may set the proxy's finalizers may say so.
        rule("roadstead.dev", &["myproxies/finalizers"], &["update"]),
        rule("", &["configmaps", "services"], &OWN),
        rule("apps", &["deployments"], &OWN),
        rule("batch", &["jobs"], &OWN),
        rule("policy", &["poddisruptionbudgets"], &OWN),
        // `patch` is for an annotation, at which the kubelet looks at the mounted configuration again.
        rule("", &["pods"], &["list", "watch", "patch"]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the admission plugin OwnerReferencesPermissionEnforcement asks for.
    #[test]
    fn children_may_hold_up_the_deletion_of_their_proxy() {
        let finalizers = rules().into_iter().find(|rule| {
            let resources = rule.resources.as_ref();
            resources.is_some_and(|resources| resources.iter().any(|name| name == "myproxies/finalizers"))
        });
        assert!(finalizers.unwrap().verbs.iter().any(|verb| verb == "update"));
    }

    #[test]
    fn no_rule_has_a_wildcard_or_reads_secrets() {
        for rule in rules() {
            let resources = rule.resources.unwrap_or_default();
            assert!(!resources.contains(&"secrets".to_owned()));
            assert!(!rule.verbs.iter().chain(&resources).any(|text| text.contains('*')));
        }
    }
}
