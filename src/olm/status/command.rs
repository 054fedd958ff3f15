//! Commands that somebody may paste.

use serde_json::Value;

/// A word of a command line as a shell takes it. Names that Kubernetes has checked stay as they are; what anybody may write into a spec does no harm.
pub(super) fn word(text: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "-_./=:,@".contains(character);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Merges into the spec of an object.
pub(super) fn patch(namespace: &str, kind: &str, name: &str, spec: Value) -> String {
    let patch = serde_json::json!({"spec": spec}).to_string();
    format!(
        "kubectl -n {namespace} patch {kind} {name} --type merge -p {}",
        word(&patch)
    )
}

/// By its full name: other groups have Subscriptions, too.
pub(super) const SUBSCRIPTION: &str = "subscriptions.operators.coreos.com";

/// Deletes a Subscription.
pub(super) fn delete_subscription(namespace: &str, name: &str) -> String {
    format!("kubectl -n {namespace} delete {SUBSCRIPTION} {name}")
}

/// Changes a Subscription in something that means nothing, for OLM to see a change.
pub(super) fn look_again(namespace: &str, name: &str) -> String {
    format!(
        "kubectl -n {namespace} annotate --overwrite {SUBSCRIPTION} {name} roadstead.dev/look-again=\"$(date)\""
    )
}

/// Lists what a catalog has.
pub(super) fn list_packages(namespace: &str, catalog: &str) -> String {
    let labels = format!("catalog={catalog},catalog-namespace={namespace}");
    format!(
        "kubectl -n {} get packagemanifests -l {}",
        word(namespace),
        word(&labels)
    )
}
