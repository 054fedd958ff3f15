//! What each service account of the operator may do, gathered from Roles, ClusterRoles and their bindings.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::Error;
use super::manifests::{Manifests, list, name, text};

const RBAC: &str = "rbac.authorization.k8s.io";

/// The two lists of a ClusterServiceVersion's install strategy, and which objects they stand for.
#[derive(Debug, Default, PartialEq)]
pub struct Permissions {
    /// `permissions`: `{serviceAccountName, rules}` within the operator's namespace.
    pub namespaced: Vec<Value>,
    /// `clusterPermissions`: the same in the whole cluster.
    pub cluster: Vec<Value>,
    /// Kind and name of every role and binding whose rules are in the two lists, so that the bundle need not ship it again.
    pub covered: BTreeSet<(String, String)>,
}

impl Permissions {
    /// Follows every binding that names one of the service accounts.
    ///
    /// # Errors
    /// [`Error::NoRole`] when a binding leads to a role that the manifests do not hold.
    pub fn of(manifests: &Manifests, accounts: &BTreeSet<String>) -> Result<Self, Error> {
        let mut permissions = Self::default();
        permissions.namespaced = permissions.follow(manifests, "RoleBinding", accounts)?;
        permissions.cluster = permissions.follow(manifests, "ClusterRoleBinding", accounts)?;
        Ok(permissions)
    }

    fn follow(
        &mut self,
        manifests: &Manifests,
        kind: &str,
        accounts: &BTreeSet<String>,
    ) -> Result<Vec<Value>, Error> {
        let mut rules: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
        for binding in manifests.of_kind(RBAC, kind) {
            for account in subjects(binding).filter(|account| accounts.contains(*account)) {
                let (role_kind, role_name) = (text(binding, "/roleRef/kind"), text(binding, "/roleRef/name"));
                let role = manifests
                    .of_kind(RBAC, role_kind)
                    .find(|role| name(role) == role_name);
                let role = role.ok_or_else(|| Error::NoRole {
                    binding: format!("{kind} {}", name(binding)),
                    role: format!("{role_kind} {role_name}"),
                    account: account.to_owned(),
                })?;
                rules
                    .entry(account)
                    .or_default()
                    .extend_from_slice(list(role, "/rules"));
                self.covered.insert((kind.to_owned(), name(binding).to_owned()));
                self.covered.insert((role_kind.to_owned(), role_name.to_owned()));
            }
        }
        let entry = |(account, rules)| json!({"serviceAccountName": account, "rules": rules});
        Ok(rules.into_iter().map(entry).collect())
    }
}

fn subjects(binding: &Value) -> impl Iterator<Item = &str> {
    let accounts = list(binding, "/subjects")
        .iter()
        .filter(|subject| text(subject, "/kind") == "ServiceAccount");
    accounts.map(|subject| text(subject, "/name"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::olm::Tree;

    fn manifests(text: &str) -> Manifests {
        let mut tree = Tree::default();
        tree.insert("rbac.yaml", text);
        Manifests::of_tree(&tree).unwrap()
    }

    const TWO_ACCOUNTS: &str = r"
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: lease}, rules: [{verbs: [get], resources: [leases]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: all}, rules: [{verbs: [list], resources: [pods]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: human}, rules: [{verbs: [get], resources: [pods]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: a}, roleRef: {kind: Role, name: lease},
 subjects: [{kind: ServiceAccount, name: one}, {kind: ServiceAccount, name: two}, {kind: User, name: one}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: b}, roleRef: {kind: ClusterRole, name: all},
 subjects: [{kind: ServiceAccount, name: two}, {kind: ServiceAccount, name: stranger}]}
";

    #[test]
    fn rules_are_split_by_service_account_and_by_reach() {
        let accounts = ["one".to_owned(), "two".to_owned()].into();
        let permissions = Permissions::of(&manifests(TWO_ACCOUNTS), &accounts).unwrap();
        let lease = json!([{"verbs": ["get"], "resources": ["leases"]}]);
        assert_eq!(
            permissions.namespaced,
            [
                json!({"serviceAccountName": "one", "rules": lease}),
                json!({"serviceAccountName": "two", "rules": lease})
            ]
        );
        let pods = json!([{"verbs": ["list"], "resources": ["pods"]}]);
        assert_eq!(
            permissions.cluster,
            [json!({"serviceAccountName": "two", "rules": pods})]
        );
        assert!(
            !permissions
                .covered
                .contains(&("ClusterRole".into(), "human".into())),
            "a role for people is shipped as it is"
        );
    }

    #[test]
    fn a_binding_without_its_role_is_refused_by_name() {
        let text = TWO_ACCOUNTS.replace("name: all}", "name: other}");
        let text = text.replace(
            "roleRef: {kind: ClusterRole, name: other}",
            "roleRef: {kind: ClusterRole, name: all}",
        );
        let error = Permissions::of(&manifests(&text), &["two".to_owned()].into()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "ClusterRoleBinding b grants ClusterRole all to service account two, but the manifests hold no such role"
        );
    }
}
