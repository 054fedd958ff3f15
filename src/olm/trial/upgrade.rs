//! Another version in the catalog of a trial, and the way to it.

use std::collections::BTreeMap;

use semver::Version;
use serde_json::Value;

use super::{Refused, Trial};
use crate::olm::Error;
use crate::olm::catalog::{Catalog, Edges, Rendered};
use crate::olm::fbc::upgrades::{End, Upgrades};
use crate::olm::manifests::{name, text};

/// The upgrades that lead to a version, in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Way {
    /// The names of the versions on it, the wanted one last.
    pub steps: Vec<String>,
}

impl Way {
    /// One line: from where, to where, and what is installed meanwhile.
    #[must_use]
    pub fn told(&self, from: &str) -> String {
        match self.steps.split_last() {
            None => format!("{from} stays"),
            Some((to, [])) => format!("from {from} to {to}"),
            Some((to, between)) => format!("from {from} to {to} by way of {}", between.join(", ")),
        }
    }
}

/// Adds a bundle to a channel, with the edges that somebody names, or those that follow from the versions.
///
/// # Errors
/// What is wrong with the catalog then.
pub fn extend(catalog: &mut Catalog, rendered: Rendered, channel: &str, edges: &Edges) -> Result<(), Error> {
    let name = rendered.name().to_owned();
    let channels = [channel.to_owned()];
    catalog.add(rendered, &channels, channel)?;
    catalog.connect(&name, &channels, edges);
    catalog.check()
}

/// Looks whether a version on the way is there already, though the trial's Subscription does not know of it: OLM would never get to it.
///
/// # Errors
/// [`Refused::Taken`]
pub fn unclaimed(trial: &Trial, way: &Way, csvs: &[Value], subscription: &Value) -> Result<(), Refused> {
    let known = ["/status/installedCSV", "/status/currentCSV"].map(|pointer| text(subscription, pointer));
    let is_strange =
        |csv: &&Value| way.steps.iter().any(|step| step == name(csv)) && !known.contains(&name(csv));
    match csvs.iter().find(is_strange) {
        None => Ok(()),
        Some(strange) => Err(trial.taken("ClusterServiceVersion", strange)),
    }
}

/// Looks whether what is installed has succeeded: from anything else OLM does not go on.
///
/// # Errors
/// [`Refused::NotSucceeded`]
pub fn succeeded(trial: &Trial, csvs: &[Value], subscription: &Value) -> Result<(), Refused> {
    let known = ["/status/installedCSV", "/status/currentCSV"].map(|pointer| text(subscription, pointer));
    let is_under_way = |csv: &&Value| {
        text(csv, "/metadata/namespace") == trial.namespace
            && known.contains(&name(csv))
            && text(csv, "/status/phase") != "Succeeded"
    };
    match csvs.iter().find(is_under_way) {
        None => Ok(()),
        Some(csv) => Err(Refused::NotSucceeded {
            name: name(csv).to_owned(),
            phase: match text(csv, "/status/phase") {
                "" => "not looked at yet".to_owned(),
                phase => phase.to_owned(),
            },
            package: trial.package.clone(),
            namespace: trial.namespace.clone(),
        }),
    }
}

/// How OLM gets from what is installed to a version of the channel.
///
/// # Errors
/// [`Refused::Same`], [`Refused::NoWay`]
pub fn way(catalog: &Catalog, channel: &str, from: &str, to: &str) -> Result<Way, Refused> {
    if from == to {
        return Err(Refused::Same { name: to.to_owned() });
    }
    let none = |why: String| Refused::NoWay {
        channel: channel.to_owned(),
        from: from.to_owned(),
        to: to.to_owned(),
        why,
    };
    let entries = catalog
        .get_channel(channel)
        .map_or(&[][..], |channel| &channel.entries);
    let versions: BTreeMap<&str, Version> = catalog
        .bundle_names()
        .filter_map(|name| Some((name, catalog.bundle(name)?.version().ok()?)))
        .collect();
    let upgrades = Upgrades::of(entries);
    let targets = upgrades
        .targets(|name| versions.get(name))
        .map_err(|broken| none(broken.to_string()))?;
    let path = targets.path(from, versions.get(from));
    let ends = match path.end {
        End::Circle => "upgrades from there lead in a circle".to_owned(),
        End::Stranded => "nothing takes it over".to_owned(),
        End::Head => format!("upgrades end at {}, the head", targets.head()),
    };
    let steps: Vec<String> = path.steps.iter().map(|step| step.to.to_owned()).collect();
    match (path.end, steps.last()) {
        (End::Head, Some(last)) if last == to => Ok(Way { steps }),
        _ => Err(none(ends)),
    }
}
