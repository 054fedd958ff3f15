//! The rules of aggregated ClusterRoles, which a controller of Kubernetes gathers from others by their labels.
//!
//! A ClusterServiceVersion holds rules, and no rule to gather them by. So those that the manifests hold are gathered here, as that controller does it. What others
//! add to the role in a cluster is not among them, and that is told.

use std::collections::BTreeSet;

use serde_json::Value;

use super::contents::label;
use super::manifests::{Manifests, list, name, text};
use super::permissions::RBAC;

/// Labels by which a ClusterRole becomes part of those that every cluster has: `admin`, `edit`, `view` and the like.
const TO_THE_CLUSTERS: &str = "rbac.authorization.k8s.io/aggregate-to-";

/// Whether a role's rules are gathered from others.
pub(super) fn is_aggregated(role: &Value) -> bool {
    role.get("aggregationRule").is_some_and(|rule| !rule.is_null())
}

/// The rules of a role; none, if they are gathered from roles that the manifests do not hold.
pub(super) fn rules(manifests: &Manifests, role: &Value) -> Option<Vec<Value>> {
    if !is_aggregated(role) {
        return Some(list(role, "/rules").to_vec());
    }
    let mut rules: Vec<Value> = Vec::new();
    let (mut seen, mut left) = (BTreeSet::from([name(role)]), vec![role]);
    while let Some(role) = left.pop() {
        if !is_aggregated(role) {
            let own = list(role, "/rules").iter();
            let new: Vec<Value> = own.filter(|rule| !rules.contains(rule)).cloned().collect();
            rules.extend(new);
            continue;
        }
        let mut members: Vec<&Value> = cluster_roles(manifests)
            .filter(|member| selects(role, member))
            .collect();
        members.sort_by_key(|member| std::cmp::Reverse(name(member)));
        left.extend(members.into_iter().filter(|member| seen.insert(name(member))));
    }
    (!rules.is_empty()).then_some(rules)
}

/// Whether other roles take up the rules of this one, but for roles that are `gone`.
pub(super) fn is_part(manifests: &Manifests, role: &Value, gone: impl Fn(&str) -> bool) -> bool {
    let labels = role["metadata"]["labels"].as_object().into_iter().flatten();
    labels
        .into_iter()
        .any(|(key, _)| key.starts_with(TO_THE_CLUSTERS))
        || cluster_roles(manifests).any(|whole| !gone(name(whole)) && selects(whole, role))
}

/// The aggregated roles of which the ClusterServiceVersion holds what the manifests do, each with the file.
pub(super) fn told(manifests: &Manifests, is_covered: impl Fn(&str) -> bool) -> Vec<String> {
    let aggregated = manifests.iter().filter(|manifest| {
        let body = &manifest.body;
        text(body, "/kind") == "ClusterRole" && is_aggregated(body) && is_covered(name(body))
    });
    let line = |manifest: &super::manifests::Manifest| {
        format!(
            "{}: {}: the ClusterServiceVersion holds the rules of those roles of the manifests that its aggregationRule selects; what others add to it in a cluster, the operator may not do",
            manifest.source.display(),
            label(&manifest.body)
        )
    };
    aggregated.map(line).collect()
}

fn cluster_roles(manifests: &Manifests) -> impl Iterator<Item = &Value> {
    manifests.of_kind(RBAC, "ClusterRole")
}

/// Whether a role gathers the rules of another.
fn selects(whole: &Value, part: &Value) -> bool {
    let labels = &part["metadata"]["labels"];
    let mut selectors = list(whole, "/aggregationRule/clusterRoleSelectors").iter();
    name(whole) != name(part) && selectors.any(|selector| is_selected(selector, labels))
}

/// Label selectors as Kubernetes reads them: an empty one selects everything.
fn is_selected(selector: &Value, labels: &Value) -> bool {
    let exact = selector["matchLabels"].as_object().into_iter().flatten();
    let mut expressions = list(selector, "/matchExpressions").iter();
    exact
        .into_iter()
        .all(|(key, value)| labels.get(key) == Some(value))
        && expressions.all(|expression| is_expressed(expression, labels))
}

fn is_expressed(expression: &Value, labels: &Value) -> bool {
    let value = labels.get(text(expression, "/key"));
    let is_listed = value.is_some_and(|value| list(expression, "/values").contains(value));
    match text(expression, "/operator") {
        "In" => is_listed,
        "NotIn" => !is_listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn manifests(text: &str) -> Manifests {
        Manifests::of_text(Path::new("rbac.yaml"), text).unwrap()
    }

    const ROLES: &str = r#"
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: b, labels: {part: "yes"}}, rules: [{verbs: [get], resources: [b]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: a, labels: {part: "yes"}}, rules: [{verbs: [get], resources: [a]}, {verbs: [get], resources: [b]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: c, labels: {other: x}}, rules: [{verbs: [get], resources: [c]}]}
"#;

    fn whole(selectors: &str) -> String {
        format!(
            "{ROLES}---\n{{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {{name: whole, labels: {{part: \"yes\"}}}}, \
             aggregationRule: {{clusterRoleSelectors: {selectors}}}, rules: [{{verbs: [get], resources: [stale]}}]}}\n"
        )
    }

    fn gathered(yaml: &str) -> Option<Vec<String>> {
        let manifests = manifests(yaml);
        let role = cluster_roles(&manifests)
            .find(|role| name(role) == "whole")
            .unwrap();
        let resource = |rule: &Value| text(rule, "/resources/0").to_owned();
        rules(&manifests, role).map(|rules| rules.iter().map(resource).collect())
    }

    #[rstest]
    #[case::labels("[{matchLabels: {part: 'yes'}}]", &["a", "b"])]
    #[case::either("[{matchLabels: {part: 'yes'}}, {matchLabels: {other: x}}]", &["a", "b", "c"])]
    #[case::all_of_one("[{matchLabels: {part: 'yes', other: x}}]", &[])]
    #[case::everything("[{}]", &["a", "b", "c"])]
    #[case::nothing("[]", &[])]
    #[case::within("[{matchExpressions: [{key: other, operator: In, values: [x, y]}]}]", &["c"])]
    #[case::without("[{matchExpressions: [{key: other, operator: NotIn, values: [x]}]}]", &["a", "b"])]
    #[case::present("[{matchExpressions: [{key: other, operator: Exists}]}]", &["c"])]
    #[case::absent("[{matchExpressions: [{key: other, operator: DoesNotExist}]}]", &["a", "b"])]
    #[case::of_the_cluster(
        "[{matchLabels: {rbac.authorization.k8s.io/aggregate-to-view: 'true'}}]",
        &[]
    )]
    fn the_rules_of_an_aggregated_role_are_those_of_the_roles_that_it_selects(
        #[case] selectors: &str,
        #[case] expected: &[&str],
    ) {
        assert_eq!(gathered(&whole(selectors)).unwrap_or_default(), expected);
    }

    #[test]
    fn roles_that_gather_from_each_other_are_gathered_once() {
        let other = "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: other, labels: {part: 'yes'}}, \
                     aggregationRule: {clusterRoleSelectors: [{matchLabels: {part: 'yes'}}, {matchLabels: {other: x}}]}}";
        let text = format!("{}---\n{other}\n", whole("[{matchLabels: {part: 'yes'}}]"));
        assert_eq!(gathered(&text).unwrap(), ["a", "b", "c"]);
    }

    #[test]
    fn a_role_is_part_of_those_of_the_cluster_by_its_label() {
        let manifests = manifests(&whole("[{matchLabels: {part: 'yes'}}]"));
        let role = |name: &str, labels: Value| json!({"metadata": {"name": name, "labels": labels}});
        let of_cluster = role(
            "x",
            json!({"rbac.authorization.k8s.io/aggregate-to-edit": "true"}),
        );
        assert!(is_part(&manifests, &of_cluster, |_| false));
        let of_another = role("x", json!({"part": "yes"}));
        assert!(is_part(&manifests, &of_another, |_| false));
        assert!(!is_part(&manifests, &of_another, |gone| gone == "whole"));
        assert!(!is_part(&manifests, &role("x", json!({})), |_| false));
    }
}
