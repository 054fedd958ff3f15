//! What each service account of the operator may do, gathered from Roles, ClusterRoles and their bindings.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::accounts::{Accounts, subjects};
use super::contents::label;
use super::manifests::{Manifest, Manifests, is_kind, list, name, text};
use super::{Error, aggregation};

pub(super) const RBAC: &str = "rbac.authorization.k8s.io";

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
    /// Follows every binding that names one of the service accounts, by name and namespace.
    ///
    /// A binding to a role that the manifests do not hold is left to be shipped: the cluster has the role (`view`,
    /// `system:auth-delegator`). So is one to a role that gathers its rules from such roles alone. One that names somebody else too is shipped as well, with its
    /// role, and so takes nothing from them; and so is a role that others gather their rules from.
    ///
    /// An account without rights stands among the namespaced ones: OLM makes none that the two lists do not name.
    ///
    /// # Errors
    /// [`Error::RoleKind`] when a binding leads to what is no role; [`Error::Elsewhere`] of rights in another namespace than the operator's.
    pub fn of(manifests: &Manifests, accounts: &Accounts) -> Result<Self, Error> {
        accounts.check_namespaces(manifests)?;
        let mut permissions = Self::default();
        let namespaced = permissions.follow(manifests, "RoleBinding", accounts)?;
        let cluster = permissions.follow(manifests, "ClusterRoleBinding", accounts)?;
        permissions.keep_shared_roles(manifests);
        let without = accounts.made().filter(|account| !cluster.contains_key(account));
        let without = without.map(|account| (account, Vec::new()));
        let mut all: BTreeMap<&str, Vec<Value>> = without.collect();
        all.extend(namespaced);
        permissions.namespaced = entries(all);
        permissions.cluster = entries(cluster);
        Ok(permissions)
    }

    /// The rules of each account that bindings of a kind lead to.
    fn follow<'a>(
        &mut self,
        manifests: &'a Manifests,
        kind: &'a str,
        accounts: &Accounts,
    ) -> Result<BTreeMap<&'a str, Vec<Value>>, Error> {
        let mut rules: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
        let mut seen = BTreeSet::new();
        for binding in manifests.of_kind(RBAC, kind) {
            let ours: Vec<&str> = subjects(binding)
                .filter(|account| accounts.has(*account))
                .map(|account| account.name)
                .collect();
            if ours.is_empty() {
                continue;
            }
            let role = find_role(manifests, binding)?;
            let Some(of_role) = role.and_then(|role| aggregation::rules(manifests, role)) else {
                continue;
            };
            for account in &ours {
                if seen.insert((*account, role_of(binding))) {
                    rules.entry(account).or_default().extend_from_slice(&of_role);
                }
            }
            if ours.len() == list(binding, "/subjects").len() {
                self.covered.insert(reference(kind, name(binding)));
                self.covered.insert(role_of(binding));
            }
        }
        Ok(rules)
    }

    /// Has the roles shipped that somebody else needs: by a binding that is shipped, or since another role takes up their rules.
    fn keep_shared_roles(&mut self, manifests: &Manifests) {
        for kind in ["RoleBinding", "ClusterRoleBinding"] {
            for binding in manifests.of_kind(RBAC, kind) {
                if !self.covered.contains(&reference(kind, name(binding))) {
                    self.covered.remove(&role_of(binding));
                }
            }
        }
        let is_gone = |role: &str| self.covered.contains(&reference("ClusterRole", role));
        let roles = manifests.of_kind(RBAC, "ClusterRole");
        let parts = roles.filter(|role| aggregation::is_part(manifests, role, is_gone));
        let parts: Vec<_> = parts.map(|role| reference("ClusterRole", name(role))).collect();
        for part in parts {
            self.covered.remove(&part);
        }
    }
}

/// Bindings of either kind, with their files.
pub(super) fn bindings(manifests: &Manifests) -> impl Iterator<Item = &Manifest> {
    manifests.iter().filter(|manifest| {
        is_kind(&manifest.body, RBAC, "RoleBinding") || is_kind(&manifest.body, RBAC, "ClusterRoleBinding")
    })
}

/// Bindings to roles that the manifests do not hold. A ClusterRole that every cluster has is meant; a Role is in the operator's own namespace, where nobody else makes one.
pub(super) fn to_nothing(manifests: &Manifests) -> Vec<String> {
    let told = bindings(manifests).filter_map(|binding| {
        let (kind, role) = role_of(&binding.body);
        let is_there = manifests.of_kind(RBAC, &kind).any(|it| name(it) == role);
        let is_of_the_cluster = kind == "ClusterRole" && is_of_every_cluster(&role);
        (!is_there && !is_of_the_cluster).then(|| {
            format!(
                "{}: {} leads to the {kind} {role}, which the manifests do not hold: it gives rights only where the cluster has one",
                binding.source.display(),
                label(&binding.body)
            )
        })
    });
    told.collect()
}

/// ClusterRoles that Kubernetes itself makes.
fn is_of_every_cluster(role: &str) -> bool {
    matches!(role, "cluster-admin" | "admin" | "edit" | "view") || role.starts_with("system:")
}

fn entries(rules: BTreeMap<&str, Vec<Value>>) -> Vec<Value> {
    let entry = |(account, rules)| json!({"serviceAccountName": account, "rules": rules});
    rules.into_iter().map(entry).collect()
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn manifests(text: &str) -> Manifests {
        Manifests::of_text(Path::new("rbac.yaml"), text).unwrap()
    }

    /// Of Deployments that run as them, all in one namespace; in none, if it is empty.
    fn accounts_in(namespace: &str, names: &[&str]) -> Accounts {
        let deployment = |account: &&str| {
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": account, "namespace": namespace},
                "spec": {"template": {"spec": {"serviceAccountName": account}}}})
        };
        let deployments: Vec<Value> = names.iter().map(deployment).collect();
        Accounts::of(&Manifests::default(), &deployments).unwrap()
    }

    fn accounts(names: &[&str]) -> Accounts {
        accounts_in("", names)
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
        let permissions = Permissions::of(&manifests(TWO_ACCOUNTS), &accounts(&["one", "two"])).unwrap();
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

    fn covered(text: &str, names: &[&str]) -> Vec<String> {
        labels(&Permissions::of(&manifests(text), &accounts(names)).unwrap())
    }

    fn labels(permissions: &Permissions) -> Vec<String> {
        let covered = permissions.covered.iter().cloned();
        let label = |(kind, name)| format!("{kind} {name}");
        covered.map(label).collect()
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
        let permissions = Permissions::of(&manifests(&text), &accounts(&["two"])).unwrap();
        assert_eq!(permissions.cluster, Vec::<Value>::new());
        assert_eq!(covered(&text, &["two"]), Vec::<String>::new());
    }

    #[test]
    fn a_binding_that_leads_to_no_role_is_told() {
        let told = |role: &str| {
            to_nothing(&manifests(
                &TWO_ACCOUNTS.replace("kind: ClusterRole, name: all}", role),
            ))
        };
        assert_eq!(told("kind: ClusterRole, name: all}"), [""; 0]);
        assert_eq!(told("kind: ClusterRole, name: view}"), [""; 0]);
        assert_eq!(told("kind: ClusterRole, name: 'system:auth-delegator'}"), [""; 0]);
        let mistyped = told("kind: ClusterRole, name: al}");
        assert!(
            mistyped.len() == 1
                && mistyped[0].contains(
                    "ClusterRoleBinding b leads to the ClusterRole al, which the manifests do not hold"
                ),
            "{mistyped:?}"
        );
    }

    #[test]
    fn a_binding_to_what_is_no_role_is_refused_by_name() {
        let text = TWO_ACCOUNTS.replace("kind: ClusterRole, name: all}", "kind: Group, name: all}");
        let error = Permissions::of(&manifests(&text), &accounts(&["two"])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "ClusterRoleBinding b: roleRef.kind is \"Group\"; accepted are Role and ClusterRole"
        );
    }

    const EVERYTHING: &str = r"
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: all}, rules: [{verbs: ['*'], resources: ['*'], apiGroups: ['*']}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: backup}, roleRef: {kind: ClusterRole, name: all},
 subjects: [{kind: ServiceAccount, name: default, namespace: backup-system}]}
";

    #[test]
    fn the_rights_of_another_namespaces_account_stay_with_it() {
        let permissions = Permissions::of(&manifests(EVERYTHING), &accounts_in("sys", &["default"])).unwrap();
        assert_eq!(
            permissions,
            Permissions::default(),
            "role and binding are shipped"
        );
        let own = EVERYTHING.replace("backup-system", "sys");
        let permissions = Permissions::of(&manifests(&own), &accounts_in("sys", &["default"])).unwrap();
        let rules = json!([{"verbs": ["*"], "resources": ["*"], "apiGroups": ["*"]}]);
        assert_eq!(
            permissions.cluster,
            [json!({"serviceAccountName": "default", "rules": rules})]
        );
        assert_eq!(
            labels(&permissions),
            ["ClusterRole all", "ClusterRoleBinding backup"]
        );
    }

    #[test]
    fn a_role_that_two_bindings_lead_to_is_there_once() {
        let again = TWO_ACCOUNTS
            .replace("name: b}", "name: c}")
            .replace("name: a}", "name: d}");
        let both = format!("{TWO_ACCOUNTS}---\n{again}");
        let both = Permissions::of(&manifests(&both), &accounts(&["one", "two"])).unwrap();
        let once = Permissions::of(&manifests(TWO_ACCOUNTS), &accounts(&["one", "two"])).unwrap();
        assert_eq!((both.namespaced, both.cluster), (once.namespaced, once.cluster));
    }

    /// `view` is of the cluster, so the binding is shipped; but who runs the pods?
    #[test]
    fn an_account_without_rights_of_the_manifests_is_made_all_the_same() {
        let text = EVERYTHING
            .replace("name: all}", "name: view}")
            .replace("default", "op");
        let cluster_has = text.split_once("---").unwrap().1;
        let permissions =
            Permissions::of(&manifests(cluster_has), &accounts_in("backup-system", &["op"])).unwrap();
        let empty = json!({"serviceAccountName": "op", "rules": []});
        assert_eq!(
            (permissions.namespaced, permissions.cluster),
            (vec![empty], Vec::new())
        );
    }

    const GATHERED: &str = r"
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: whole}, rules: [],
 aggregationRule: {clusterRoleSelectors: [{matchLabels: {part: a}}]}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: part, labels: {part: a}}, rules: [{verbs: [get], resources: [pods]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: op}, roleRef: {kind: ClusterRole, name: whole},
 subjects: [{kind: ServiceAccount, name: op, namespace: sys}]}
";

    #[test]
    fn the_rules_of_an_aggregated_role_are_gathered_or_role_and_binding_are_shipped() {
        let of = |text: &str| Permissions::of(&manifests(text), &accounts_in("sys", &["op"])).unwrap();
        let gathered = of(GATHERED);
        let rules = json!([{"verbs": ["get"], "resources": ["pods"]}]);
        assert_eq!(
            gathered.cluster,
            [json!({"serviceAccountName": "op", "rules": rules})]
        );
        assert_eq!(labels(&gathered), ["ClusterRole whole", "ClusterRoleBinding op"]);
        let elsewhere = of(&GATHERED.replace("labels: {part: a}", "labels: {part: b}"));
        assert_eq!(elsewhere.cluster, [] as [Value; 0]);
        assert_eq!(labels(&elsewhere), [""; 0], "others in the cluster fill it");
    }

    #[test]
    fn a_role_that_others_gather_from_is_shipped_for_them() {
        let bound = r"---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: direct}, roleRef: {kind: ClusterRole, name: part},
 subjects: [{kind: ServiceAccount, name: op, namespace: sys}]}
";
        let of = |text: String| {
            let permissions = Permissions::of(&manifests(&text), &accounts_in("sys", &["op"])).unwrap();
            labels(&permissions)
        };
        let both = ["ClusterRole part", "ClusterRole whole"];
        let bindings = ["ClusterRoleBinding direct", "ClusterRoleBinding op"];
        assert_eq!(of(format!("{GATHERED}{bound}")), [both, bindings].concat());
        let others = GATHERED.replace("name: op, namespace: sys", "name: somebody, namespace: sys");
        assert_eq!(of(format!("{others}{bound}")), ["ClusterRoleBinding direct"]);
        let of_cluster = GATHERED.replace(
            "labels: {part: a}",
            "labels: {part: a, rbac.authorization.k8s.io/aggregate-to-view: 'true'}",
        );
        let shipped = [
            "ClusterRole whole",
            "ClusterRoleBinding direct",
            "ClusterRoleBinding op",
        ];
        assert_eq!(of(format!("{of_cluster}{bound}")), shipped);
    }
}
