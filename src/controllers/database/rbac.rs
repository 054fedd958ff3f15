//! What the controller may do to the cluster: exact verbs, no wildcards. Nobody can give away rights that he does not have, so it has all those that
//! instances get.

use k8s_openapi::api::rbac::v1::PolicyRule;

use crate::controllers::common::{OWN, rule};

/// The rules of the ClusterRole that the controller runs under. Events belong to the runtime, not here.
pub fn rules() -> Vec<PolicyRule> {
    vec![
        // `patch` is for the finalizer; `get` and `update` move what is stored in another version.
        rule(
            "roadstead.dev",
            &["databases"],
            &["get", "list", "watch", "patch", "update"],
        ),
        rule("roadstead.dev", &["databases/status"], &["patch"]),
        // Children hold up the deletion of their database (`blockOwnerDeletion`). Where OwnerReferencesPermissionEnforcement is on, as on
        // OpenShift, only somebody who may set the database's finalizers may say so.
        rule("roadstead.dev", &["databases/finalizers"], &["update"]),
        rule("", &["configmaps", "services"], &OWN),
        rule("", &["secrets", "serviceaccounts"], &OWN),
        rule("apps", &["statefulsets"], &OWN),
        rule("policy", &["poddisruptionbudgets"], &OWN),
        rule("rbac.authorization.k8s.io", &["roles", "rolebindings"], &OWN),
        // `update` is for instances, which renew their Lease.
        rule(
            "coordination.k8s.io",
            &["leases"],
            &["get", "list", "watch", "create", "patch", "delete", "update"],
        ),
        // `get` and `patch` are for instances, which label themselves. A pod is deleted to be made anew as the StatefulSet has it by now.
        rule("", &["pods"], &["get", "list", "watch", "patch", "delete"]),
        // They are asked to grow, and go with their database where its author says so. Who makes them is the StatefulSet's controller.
        rule(
            "",
            &["persistentvolumeclaims"],
            &["list", "watch", "patch", "delete"],
        ),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::controllers::database::desired::access;
    use crate::controllers::database::testing::{database, owner_of, valid};

    fn is_allowed(group: &str, resource: &str, verb: &str) -> bool {
        let has = |list: &Option<Vec<String>>, text: &str| list.iter().flatten().any(|entry| entry == text);
        rules().iter().any(|rule| {
            has(&rule.api_groups, group)
                && has(&rule.resources, resource)
                && rule.verbs.iter().any(|allowed| allowed == verb)
        })
    }

    /// What the admission plugin OwnerReferencesPermissionEnforcement asks for.
    #[test]
    fn children_may_hold_up_the_deletion_of_their_database() {
        assert!(is_allowed("roadstead.dev", "databases/finalizers", "update"));
    }

    /// The API server refuses a Role that gives more than its writer has.
    #[test]
    fn the_operator_has_every_right_that_instances_get() {
        let users = json!([{"name": "app", "passwordSecret": {"name": "app-password", "key": "password"}}]);
        let database = database("orders", json!({"users": users}));
        let valid = valid(&database);
        for given in access::role(&owner_of(&database, &valid)).rules.unwrap() {
            for verb in &given.verbs {
                let (group, resource) = (
                    &given.api_groups.as_ref().unwrap()[0],
                    &given.resources.as_ref().unwrap()[0],
                );
                assert!(is_allowed(group, resource, verb), "{verb} on {resource}");
            }
        }
    }

    #[test]
    fn no_rule_has_a_wildcard() {
        for rule in rules() {
            let resources = rule.resources.unwrap_or_default();
            assert!(!rule.verbs.iter().chain(&resources).any(|text| text.contains('*')));
        }
    }
}
