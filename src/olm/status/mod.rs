//! The chain from a CatalogSource over Subscription, InstallPlan and version to the Deployments, with the first thing that is wrong and why.
//!
//! Pure: [`judge`] takes what was read of a cluster as it was read, and what time it is. Each link has a file. Links are in the order in which one follows
//! from the one before, so the first that is wrong is where to begin; a link whose trouble follows from one behind it, as a version's from its Deployment's,
//! says so and lets that one speak.

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::olm::findings::listed;
use command::word;

mod bundle;
mod catalog;
mod command;
mod facts;
mod field;
mod group;
mod link;
mod plan;
mod pods;
mod subscription;
pub mod text;
mod version;
mod workload;

#[cfg(test)]
mod tests;

pub use bundle::UNPACKS;
pub use facts::{Deployed, Facts, Read, deployments, plan, selector_of_pods, serving, source};
pub use link::{Detail, Help, Kind, Link, Mark, Quote, Trouble};
pub use workload::selector;

/// What OLM is given for something that it does in seconds, before that it has not done it is wrong.
const GRACE: SignedDuration = SignedDuration::from_mins(2);

/// How a chain, or all of them, are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum State {
    /// Every link is as it should be.
    Well,
    /// Nothing is wrong, and something is still to come: from OLM, or from somebody who has to approve it.
    InProgress,
    /// What is installed could not be read.
    Unknown,
    /// Time will not mend it.
    Wrong,
}

/// All of it about one package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The package.
    pub package: String,
    /// The worst of the chains; wrong when there is none.
    pub state: State,
    /// A chain for each Subscription.
    pub chains: Vec<Chain>,
    /// Why there is no chain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nothing: Option<Trouble>,
}

/// The chain of one Subscription.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Chain {
    /// The Subscription's namespace.
    pub namespace: String,
    /// The Subscription's name.
    pub subscription: String,
    /// How it is.
    pub state: State,
    /// From the catalog to what runs.
    pub links: Vec<Link>,
    /// The first thing that is wrong, or that is waited for where nothing is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<First>,
}

/// The first thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct First {
    /// Which link.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// Whether it is wrong, or waited for.
    pub mark: Mark,
    /// What, why, and what helps.
    #[serde(flatten)]
    pub trouble: Trouble,
}

impl Report {
    /// The chains of a package, or why there are none.
    #[must_use]
    pub fn new(package: &str, chains: Vec<Chain>, nothing: Option<Trouble>) -> Self {
        let worst = chains.iter().map(|chain| chain.state).max();
        Self {
            package: package.to_owned(),
            state: worst.unwrap_or(State::Wrong),
            chains,
            nothing,
        }
    }
}

/// Judges what was read around one Subscription.
#[must_use]
pub fn judge(facts: &Facts, now: Timestamp) -> Chain {
    let mut links = vec![
        catalog::catalog_source(facts, now),
        catalog::package(facts, now),
        group::link(facts, now),
        subscription::link(facts, now),
        bundle::link(facts),
        plan::link(facts),
    ];
    links.extend(version::links(facts, now));
    links.extend(workload::links(facts));
    Chain {
        namespace: facts.namespace().to_owned(),
        subscription: facts.subscription().to_owned(),
        state: state(&links),
        first: first(&links),
        links,
    }
}

/// What nobody lets us read fails nothing, but for what is installed: people who may not look at a catalog's namespace may still see that their operator runs.
fn state(links: &[Link]) -> State {
    let any = |mark: Mark| links.iter().any(|link| link.mark == mark);
    let is_hidden =
        |link: &Link| link.mark == Mark::Unseen && matches!(link.kind, Kind::ClusterServiceVersion);
    if any(Mark::Wrong) {
        State::Wrong
    } else if links.iter().any(is_hidden) {
        State::Unknown
    } else if any(Mark::Waiting) {
        State::InProgress
    } else {
        State::Well
    }
}

fn first(links: &[Link]) -> Option<First> {
    let of = |mark: Mark, follows: bool| {
        links
            .iter()
            .find(|link| link.mark == mark && link.follows == follows && link.trouble.is_some())
    };
    let link = of(Mark::Wrong, false)
        .or_else(|| of(Mark::Wrong, true))
        .or_else(|| of(Mark::Waiting, false))
        .or_else(|| of(Mark::Waiting, true))?;
    Some(First {
        kind: link.kind,
        name: link.name.clone(),
        mark: link.mark,
        trouble: link.trouble.clone()?,
    })
}

/// Why there is no chain: there is no such namespace.
#[must_use]
pub fn nowhere(package: &str, namespace: &str) -> Trouble {
    Trouble::new(format!(
        "There is no namespace {namespace}, so nobody subscribes to {package} in it."
    ))
    .command("see which namespaces there are", "kubectl get namespaces")
}

/// Why there is no chain: nobody subscribes to the package.
///
/// `place` is the namespace that was looked at, or none for all of them; `offered` are the catalogs, as `NAMESPACE/NAME`, that are known to have it;
/// `extensions` are the ClusterExtensions by which OLM v1 installs it, which has no Subscriptions.
#[must_use]
pub fn nobody(package: &str, place: Option<&str>, offered: &[String], extensions: &[String]) -> Trouble {
    let place = place.map_or_else(
        || "any namespace".to_owned(),
        |namespace| format!("the namespace {namespace}"),
    );
    let trouble = Trouble::new(format!("Nobody subscribes to {package} in {place}."));
    if let Some(extension) = extensions.first() {
        let all = listed(extensions.iter().map(String::as_str));
        return trouble
            .because(format!("OLM v1 installs it, by the ClusterExtension {all}."))
            .command(
                "see what that one says of itself",
                format!("kubectl describe clusterextension {}", word(extension)),
            );
    }
    if offered.is_empty() {
        return trouble.command("see which packages there are", "kubectl get packagemanifests -A");
    }
    trouble
        .because(format!(
            "It is in the catalog {}.",
            listed(offered.iter().map(String::as_str))
        ))
        .advise("create a Subscription in a namespace that has an OperatorGroup")
}
