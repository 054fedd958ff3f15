//! The OperatorGroup of the namespace: there must be exactly one, and versions must support what it selects.

use jiff::Timestamp;
use serde_json::Value;

use super::catalog::install_modes;
use super::facts::Facts;
use super::field::{is_new, list, name, said, text, texts};
use super::link::{Kind, Link, Trouble};
use crate::olm::csv::{INSTALL_MODES, needed_modes};
use crate::olm::findings::listed;

/// Judges the OperatorGroups of the Subscription's namespace.
pub(super) fn link(facts: &Facts, now: Timestamp) -> Link {
    let namespace = facts.namespace();
    let link = |name: &str| Link::new(Kind::OperatorGroup, format!("{namespace}/{name}"));
    match facts.groups.as_deref() {
        Err(why) => link("").unseen(why),
        Ok([]) => link("").state("none").wrong(none(namespace)),
        Ok([group]) => only(link(name(group)), group, facts, now),
        Ok(several) => {
            let names: Vec<&str> = several.iter().map(name).collect();
            link(&names.join(","))
                .state("more than one")
                .wrong(too_many(namespace, &names))
        }
    }
}

fn none(namespace: &str) -> Trouble {
    Trouble::new(format!("The namespace {namespace} has no OperatorGroup, so OLM installs nothing there."))
        .command(
            "create one; without spec.targetNamespaces it selects all namespaces, which the operator must support",
            format!(
                "printf 'apiVersion: operators.coreos.com/v1\\nkind: OperatorGroup\\nmetadata: {{name: {namespace}, namespace: {namespace}}}\\n' | kubectl apply -f -"
            ),
        )
}

fn too_many(namespace: &str, names: &[&str]) -> Trouble {
    Trouble::new(format!(
        "The namespace {namespace} has {} OperatorGroups, and OLM wants exactly one.",
        names.len()
    ))
    .because(format!("There are {}.", listed(names.iter().copied())))
    .command(
        "delete all but the one that selects the right namespaces",
        format!("kubectl -n {namespace} delete operatorgroup NAME"),
    )
}

fn only(link: Link, group: &Value, facts: &Facts, now: Timestamp) -> Link {
    let selected = texts(group, "/status/namespaces");
    let state = match selected[..] {
        [] => "selects no namespace".to_owned(),
        [""] => "selects all namespaces".to_owned(),
        _ => format!("selects {}", listed(selected.iter().copied())),
    };
    let link = link.state(state).detail(
        "upgradeStrategy",
        Some(text(group, "/spec/upgradeStrategy"))
            .filter(|it| *it != "Default")
            .unwrap_or_default(),
    );
    if let Some(condition) = list(group, "/status/conditions")
        .iter()
        .find(|condition| text(condition, "/status") == "True")
    {
        let trouble = Trouble::new(format!("OLM cannot use the OperatorGroup {}.", link.name))
            .quoting(format!("condition {}", text(condition, "/type")), said(condition));
        return link.wrong(trouble);
    }
    if selected.is_empty() {
        let trouble = Trouble::new(format!("The OperatorGroup {} selects no namespace.", link.name)).advise(
            "correct spec.targetNamespaces or spec.selector, or label a namespace as the selector wants it",
        );
        return link.wrong_unless_new(is_new(group, "/metadata/creationTimestamp", now), trouble);
    }
    match unsupported(facts, &selected) {
        Some(trouble) => link.wrong(trouble),
        None => link,
    }
}

fn unsupported(facts: &Facts, selected: &[&str]) -> Option<Trouble> {
    let (version, modes) = modes(facts)?;
    let supports = |mode: &str| {
        modes.iter().any(|entry| {
            text(entry, "/type") == mode
                && entry
                    .get("supported")
                    .and_then(Value::as_bool)
                    .unwrap_or_default()
        })
    };
    let own = facts.namespace();
    let needed = needed_modes(own, selected);
    let lacking = needed.iter().find(|mode| !supports(mode))?;
    let offered = listed(INSTALL_MODES.into_iter().filter(|mode| supports(mode)));
    let trouble = Trouble::new(format!(
        "The OperatorGroup needs the install mode {lacking}, which {version} does not support; it supports {offered}."
    ));
    Some(if supports("AllNamespaces") && !selected.contains(&"") {
        trouble.advise("delete the OperatorGroup, and create one without spec.targetNamespaces and spec.selector: that selects all namespaces")
    } else if supports("OwnNamespace") {
        trouble.advise(format!(
            "delete the OperatorGroup, and create one with spec.targetNamespaces: [{own}]"
        ))
    } else {
        trouble.advise("delete the OperatorGroup, and create one that selects as the operator supports it")
    })
}

/// The newest version that is there tells it itself; before there is any, the catalog does.
fn modes(facts: &Facts) -> Option<(&str, &[Value])> {
    let versions = facts.versions().ok()?;
    let (version, modes) = match versions.last() {
        Some(csv) => (name(csv), list(csv, "/spec/installModes")),
        None => (facts.package_name(), install_modes(facts)),
    };
    (!modes.is_empty()).then_some((version, modes))
}
