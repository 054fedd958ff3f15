//! What instances may do at the API server: hold their own Lease, label the pods of their own database, and read the passwords of its users.

use std::collections::BTreeSet;

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

/// By names alone, of as many pods as there could ever be: what instances may do does not change when their number does. Of Secrets those that users'
/// passwords are in.
pub fn role(owner: &Owner<'_>) -> Role {
    let pods = (0..MAX_INSTANCES).map(|ordinal| names::pod(owner.name(), ordinal));
    let mut rules = vec![
        rule(
            "coordination.k8s.io",
            "leases",
            vec![owner.name().to_owned()],
            &["get", "watch", "update"],
        ),
        rule("", "pods", pods.collect(), &["get", "patch"]),
    ];
    // Without names it would be a rule about all Secrets.
    let passwords = password_secrets(owner);
    if !passwords.is_empty() {
        rules.push(rule("", "secrets", passwords, &["get"]));
    }
    Role {
        metadata: owner.metadata(names::instances(owner.name())),
        rules: Some(rules),
    }
}

/// Each once, in order.
fn password_secrets(owner: &Owner<'_>) -> Vec<String> {
    let users = owner.database.users.iter();
    let named = users.filter_map(|user| Some(user.password_secret.as_ref()?.name.clone()));
    let named: BTreeSet<String> = named.collect();
    named.into_iter().collect()
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

/// What of the Lease is the operator's: its metadata. All else is the instances' to write.
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::controllers::database::testing::{database, owner_of, valid};

    fn of_secrets(users: Value) -> Vec<PolicyRule> {
        let database = database("orders", json!({"users": users}));
        let valid = valid(&database);
        let rules = role(&owner_of(&database, &valid)).rules.unwrap();
        let is_of_secrets = |rule: &PolicyRule| rule.resources == Some(vec!["secrets".to_owned()]);
        rules.into_iter().filter(is_of_secrets).collect()
    }

    #[test]
    fn instances_read_the_secrets_with_users_passwords_and_no_others() {
        let password = |name: &str, key: &str| json!({"name": name, "key": key});
        let rules = of_secrets(json!([
            {"name": "app", "passwordSecret": password("shared", "app")},
            {"name": "report", "passwordSecret": password("a-report", "password")},
            {"name": "other", "passwordSecret": password("shared", "other")},
            {"name": "group"},
        ]));
        let names = ["a-report", "shared"].map(str::to_owned).to_vec();
        assert_eq!(rules, [rule("", "secrets", names, &["get"])]);
    }

    #[test]
    fn without_passwords_there_is_no_rule_about_secrets() {
        assert_eq!(of_secrets(json!([])), []);
        assert_eq!(of_secrets(json!([{"name": "group"}])), []);
    }
}
