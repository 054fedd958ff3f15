//! What instances may do at the API server: hold their own Lease, and label the pods of their own database.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};

use super::{Owner, names};
use crate::api::database::MAX_INSTANCES;

const GROUP: &str = "rbac.authorization.k8s.io";

/// The account under which instances run.
pub fn service_account(owner: &Owner<'_>) -> ServiceAccount {
    ServiceAccount {
        metadata: owner.metadata(names::instances(owner.name())),
        // The pods say themselves that they want its token.
        automount_service_account_token: Some(false),
        ..ServiceAccount::default()
    }
}

/// By names alone, of as many pods as there could ever be: what instances may do does not change when their number does.
pub fn role(owner: &Owner<'_>) -> Role {
    let pods = (0..MAX_INSTANCES).map(|ordinal| names::pod(owner.name(), ordinal));
    Role {
        metadata: owner.metadata(names::instances(owner.name())),
        rules: Some(vec![
            rule(
                "coordination.k8s.io",
                "leases",
                vec![owner.name().to_owned()],
                &["get", "watch", "update"],
            ),
            rule("", "pods", pods.collect(), &["get", "patch"]),
        ]),
    }
}

/// Gives the account the role.
pub fn role_binding(owner: &Owner<'_>) -> RoleBinding {
    let name = names::instances(owner.name());
    RoleBinding {
        metadata: owner.metadata(name.clone()),
        role_ref: RoleRef {
            api_group: GROUP.to_owned(),
            kind: "Role".to_owned(),
            name: name.clone(),
        },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".to_owned(),
            name,
            namespace: Some(owner.database.namespace.clone()),
            ..Subject::default()
        }]),
    }
}

/// The Lease as it begins. Everything in it but its metadata is the instances' to write.
pub fn lease(owner: &Owner<'_>) -> Lease {
    Lease {
        metadata: owner.metadata(owner.name().to_owned()),
        ..Lease::default()
    }
}

fn rule(group: &str, resource: &str, names: Vec<String>, verbs: &[&str]) -> PolicyRule {
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(vec![resource.to_owned()]),
        resource_names: Some(names),
        verbs: verbs.iter().map(|&verb| verb.to_owned()).collect(),
        ..PolicyRule::default()
    }
}
