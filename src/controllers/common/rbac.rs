//! How a controller says what it may do.

use k8s_openapi::api::rbac::v1::PolicyRule;

/// The verbs on what a controller makes. Server-side apply creates with both `create` and `patch`.
pub const OWN: [&str; 6] = ["get", "list", "watch", "create", "patch", "delete"];

/// These verbs on these resources of one group.
pub fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> PolicyRule {
    let owned = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect();
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(owned(resources)),
        verbs: owned(verbs),
        ..PolicyRule::default()
    }
}
