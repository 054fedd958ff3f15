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
    /// Kind and name of every role and binding whose rules are in the two lists, so that the bundle does not ship it again.
    pub covered: BTreeSet<(String, String)>,
}

impl Permissions {
    /// Follows every binding that names one of the service accounts.
    ///
    /// A binding to a role that the manifests do not hold is left to be shipped: the cluster has the role (`view`,
    /// `system:auth-delegator`). One that names somebody else too is shipped as well, with its role, and so takes nothing from them.
    ///
    /// # Errors
    /// [`Error::RoleKind`] when a binding leads to what is no role.
    pub fn of(manifests: &Manifests, accounts: &BTreeSet<String>) -> Result<Self, Error> {
        let mut permissions = Self::default();
        permissions.namespaced = permissions.follow(manifests, "RoleBinding", accounts)?;
        permissions.cluster = permissions.follow(manifests, "ClusterRoleBinding", accounts)?;
        for kind in ["RoleBinding", "ClusterRoleBinding"] {
            for binding in manifests.of_kind(RBAC, kind) {
                if !permissions.covered.contains(&reference(kind, name(binding))) {
                    permissions.covered.remove(&role_of(binding));
                }
            }
        }
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
            let ours: Vec<&str> = subjects(binding)
                .filter(|account| accounts.contains(*account))
                .collect();
            if ours.is_empty() {
                continue;
            }
            let Some(role) = find_role(manifests, binding)? else {
                continue;
            };
            for account in &ours {
                let rules = rules.entry(account).or_default();
                rules.extend_from_slice(list(role, "/rules"));
            }
            if ours.len() == list(binding, "/subjects").len() {
                self.covered.insert(reference(kind, name(binding)));
                self.covered.insert(role_of(binding));
            }
        }
        let entry = |(account, rules)| json!({"serviceAccountName": account, "rules": rules});
        Ok(rules.into_iter().map(entry).collect())
    }
}

fn reference(kind: &str, name: &str) -> (String, String) {
    (kind.to_owned(), name.to_owned())
}

fn role_of(binding: &Value) -> (String, String) {
    reference(text(binding, "/roleRef/kind"), text(binding, "/roleRef/name"))
}

fn find_role<'a>(manifests: &'a Manifests, binding: &'a Value) -> Result<Option<&'a Value>, Error> {
    let (kind, role_name) = (text(binding, "/roleRef/kind"), text(binding, "/roleRef/name"));
    if !["Role", "ClusterRole"].contains(&kind) {
        return Err(Error::RoleKind {
            binding: format!("{} {}", text(binding, "/kind"), name(binding)),
            kind: kind.to_owned(),
        });
    }
    let mut roles = manifests.of_kind(RBAC, kind);
    Ok(roles.find(|role| name(role) == role_name))
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
        tree.insert("rbac.yaml", text).unwrap();
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

    fn covered(text: &str, accounts: &[&str]) -> Vec<String> {
        let accounts = accounts.iter().map(|&account| account.to_owned()).collect();
        let covered = Permissions::of(&manifests(text), &accounts).unwrap().covered;
        let label = |(kind, name)| format!("{kind} {name}");
        covered.into_iter().map(label).collect()
    }

    #[test]
    fn a_binding_that_names_somebody_else_too_keeps_their_grant() {
        assert_eq!(
            covered(TWO_ACCOUNTS, &["one", "two"]),
            Vec::<String>::new(),
            "a user and a stranger"
        );
        let alone = TWO_ACCOUNTS.replace(", {kind: ServiceAccount, name: stranger}", "");
        assert_eq!(
            covered(&alone, &["one", "two"]),
            ["ClusterRole all", "ClusterRoleBinding b"]
        );
        let shared_role = format!(
            "{alone}---\n{{{}, {}, {}}}\n",
            "apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: c}",
            "roleRef: {kind: ClusterRole, name: all}",
            "subjects: [{kind: Group, name: people}]"
        );
        assert_eq!(
            covered(&shared_role, &["one", "two"]),
            ["ClusterRoleBinding b"],
            "its role is shipped for the other binding"
        );
    }

    #[test]
    fn a_binding_to_a_role_of_the_cluster_is_shipped() {
        let text = TWO_ACCOUNTS.replace("kind: ClusterRole, name: all}", "kind: ClusterRole, name: view}");
        let permissions = Permissions::of(&manifests(&text), &["two".to_owned()].into()).unwrap();
        assert_eq!(permissions.cluster, Vec::<Value>::new());
        assert_eq!(covered(&text, &["two"]), Vec::<String>::new());
    }

    #[test]
    fn a_binding_to_what_is_no_role_is_refused_by_name() {
        let text = TWO_ACCOUNTS.replace("kind: ClusterRole, name: all}", "kind: Group, name: all}");
        let error = Permissions::of(&manifests(&text), &["two".to_owned()].into()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "ClusterRoleBinding b: roleRef.kind is \"Group\"; accepted are Role and ClusterRole"
        );
    }
}
