//! In which namespaces an operator can work, and in which it is asked to.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Refused;
use crate::olm::csv::needed_modes;
use crate::olm::findings::listed;
use crate::olm::manifests::{list, name, text};
use crate::olm::names::is_dns_label;

/// What an operator supports.
#[derive(Debug)]
pub(super) struct Modes(Vec<String>);

impl Modes {
    /// Of the `installModes` of a ClusterServiceVersion.
    pub(super) fn of(modes: &[Value]) -> Self {
        let is_supported = |mode: &&Value| mode["supported"] == Value::Bool(true);
        let supported = modes.iter().filter(is_supported);
        Self(supported.map(|mode| text(mode, "/type").to_owned()).collect())
    }

    fn has(&self, mode: &str) -> bool {
        self.0.iter().any(|supported| supported == mode)
    }

    fn told(&self) -> String {
        if self.0.is_empty() {
            return "it supports none of the install modes".to_owned();
        }
        format!("it supports {}", listed(self.0.iter().map(String::as_str)))
    }

    /// The first of the modes that are needed for these namespaces, none being all of them, that is not supported.
    fn lacking(&self, own: &str, namespaces: &[String]) -> Option<&'static str> {
        let selected: Vec<&str> = namespaces.iter().map(String::as_str).collect();
        let needed = needed_modes(own, &selected).iter().copied();
        needed.into_iter().find(|mode| !self.has(mode))
    }

    /// The namespaces that an OperatorGroup is made for; none is all of them.
    pub(super) fn targets(&self, namespace: &str, watch: &[String]) -> Result<Vec<String>, Refused> {
        if let Some(wrong) = watch.iter().find(|name| !is_dns_label(name)) {
            return Err(Refused::Namespace(wrong.clone()));
        }
        let wanted: BTreeSet<String> = watch.iter().cloned().collect();
        let wanted: Vec<String> = wanted.into_iter().collect();
        if !wanted.is_empty() {
            return match self.lacking(namespace, &wanted) {
                None => Ok(wanted),
                Some(mode) => Err(Refused::Mode {
                    wanted: watch.join(","),
                    mode,
                    supported: self.told(),
                }),
            };
        }
        let own = vec![namespace.to_owned()];
        let choices = [Vec::new(), own].into_iter();
        let mut fitting = choices.filter(|choice| self.lacking(namespace, choice).is_none());
        fitting.next().ok_or_else(|| Refused::Watch {
            supported: self.told(),
        })
    }

    /// Whether an OperatorGroup that is there already does.
    pub(super) fn suit(&self, group: &Value, namespace: &str, watch: &[String]) -> Result<(), Refused> {
        let Some(selected) = selected(group) else {
            // By labels, and OLM has not told yet of which namespaces
            return Ok(());
        };
        let wanted: BTreeSet<&String> = watch.iter().collect();
        if !wanted.is_empty() && !wanted.iter().copied().eq(&selected) {
            return Err(Refused::Other {
                wanted: watch.join(","),
                name: name(group).to_owned(),
                selected: shown(&selected),
            });
        }
        match self.lacking(namespace, &selected) {
            None => Ok(()),
            Some(mode) => Err(Refused::Group {
                name: name(group).to_owned(),
                selected: shown(&selected),
                mode,
                supported: self.told(),
            }),
        }
    }
}

/// Sorted; none is all of them.
fn selected(group: &Value) -> Option<Vec<String>> {
    let said = match list(group, "/spec/targetNamespaces") {
        [] if group["spec"]["selector"].is_object() => list(group, "/status/namespaces"),
        said => said,
    };
    let by_label = said.is_empty() && group["spec"]["selector"].is_object();
    let namespaces = said
        .iter()
        .filter_map(Value::as_str)
        .filter(|name| !name.is_empty());
    let mut namespaces: Vec<String> = namespaces.map(str::to_owned).collect();
    namespaces.sort();
    (!by_label).then_some(namespaces)
}

fn shown(namespaces: &[String]) -> String {
    match namespaces {
        [] => "all namespaces".to_owned(),
        namespaces => listed(namespaces.iter().map(String::as_str)),
    }
}
