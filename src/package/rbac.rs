//! Who the operator is, and what it may do: what each kind declares, and what the runtime needs for itself.

use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use kube::api::ObjectMeta;
use serde_json::Value;

use super::kinds::Kind;
use super::operator::labels;
use super::{NAMESPACE, OPERATOR, value};
use crate::olm::Error;

const GROUP: &str = "rbac.authorization.k8s.io";
/// What is healed is watched by its name.
pub(super) const HEAL: [&str; 4] = ["get", "list", "watch", "update"];
const LEADER_ELECTION: &str = "roadstead-operator-leader-election";

/// The files of config/rbac.
pub(super) fn objects(kinds: &[Kind]) -> Result<Vec<(String, Value)>, Error> {
    let file = |name: &str, object: Value| (format!("{name}.yaml"), object);
    Ok(vec![
        file(
            "service_account",
            value(&ServiceAccount {
                metadata: namespaced(OPERATOR),
                ..Default::default()
            })?,
        ),
        file("role", value(&cluster_role(kinds))?),
        file("role_binding", value(&cluster_role_binding(OPERATOR))?),
        file("leader_election_role", value(&leader_election_role())?),
        file(
            "leader_election_role_binding",
            value(&leader_election_role_binding())?,
        ),
    ])
}

fn cluster_role(kinds: &[Kind]) -> ClusterRole {
    let mut rules: Vec<PolicyRule> = Vec::new();
    let of_kinds = kinds.iter().flat_map(|kind| kind.rules.clone());
    for rule in of_kinds.chain([events(), definitions(kinds), stored_versions(kinds)]) {
        // Kinds ask for the same things; the role says each once.
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    ClusterRole {
        metadata: clusterwide(OPERATOR),
        rules: Some(rules),
        ..Default::default()
    }
}

fn events() -> PolicyRule {
    rule("events.k8s.io", "events", &["create", "patch"])
}

/// Its own definitions, which it heals when they no longer lead to the webhook that converts.
fn definitions(kinds: &[Kind]) -> PolicyRule {
    of_definitions(kinds, "customresourcedefinitions", &HEAL)
}

/// What it says there once all objects are stored in one version.
fn stored_versions(kinds: &[Kind]) -> PolicyRule {
    of_definitions(kinds, "customresourcedefinitions/status", &["update"])
}

fn of_definitions(kinds: &[Kind], resource: &str, verbs: &[&str]) -> PolicyRule {
    let names = kinds.iter().filter_map(|kind| kind.crd.metadata.name.clone());
    PolicyRule {
        resource_names: Some(names.collect()),
        ..rule("apiextensions.k8s.io", resource, verbs)
    }
}

/// Only the operator's own Lease, which is created once, read, watched by standbys, and replaced as a whole.
///
/// The name matters: for an operator of all namespaces OLM makes ClusterRoles of its Roles, and other Leases are the health of nodes
/// and the leaders of other operators. A creation cannot be bound to a name.
fn leader_election_role() -> Role {
    let group = "coordination.k8s.io";
    let own = PolicyRule {
        resource_names: Some(vec![OPERATOR.to_owned()]),
        ..rule(group, "leases", &["get", "watch", "update"])
    };
    let rules = vec![own, rule(group, "leases", &["create"])];
    Role {
        metadata: namespaced(LEADER_ELECTION),
        rules: Some(rules),
    }
}

/// Gives the operator the ClusterRole of this name.
pub(super) fn cluster_role_binding(name: &str) -> ClusterRoleBinding {
    ClusterRoleBinding {
        metadata: clusterwide(name),
        role_ref: role_ref("ClusterRole", name),
        subjects: Some(vec![subject()]),
    }
}

fn leader_election_role_binding() -> RoleBinding {
    RoleBinding {
        metadata: namespaced(LEADER_ELECTION),
        role_ref: role_ref("Role", LEADER_ELECTION),
        subjects: Some(vec![subject()]),
    }
}

pub(super) fn rule(group: &str, resource: &str, verbs: &[&str]) -> PolicyRule {
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(vec![resource.to_owned()]),
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        ..Default::default()
    }
}

pub(super) fn role_ref(kind: &str, name: &str) -> RoleRef {
    RoleRef {
        api_group: GROUP.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
    }
}

pub(super) fn subject() -> Subject {
    Subject {
        kind: "ServiceAccount".to_owned(),
        name: OPERATOR.to_owned(),
        namespace: Some(NAMESPACE.to_owned()),
        ..Default::default()
    }
}

pub(super) fn clusterwide(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some(labels()),
        ..Default::default()
    }
}

pub(super) fn namespaced(name: &str) -> ObjectMeta {
    ObjectMeta {
        namespace: Some(NAMESPACE.to_owned()),
        ..clusterwide(name)
    }
}
