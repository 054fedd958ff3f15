//! Versions of an API that an upgrade takes away, or closes for a while.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use super::{Bundle, Catalog};
use crate::olm::manifests::{list, text};

/// A version of a kind that a bundle has and one that its users are upgraded to has not. OLM refuses the upgrade in a cluster whose
/// CustomResourceDefinition still has it in `status.storedVersions` ("risk of data loss").
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dropped {
    /// The bundle that has the version.
    pub from: String,
    /// The bundle that has not.
    pub to: String,
    /// `KIND.GROUP/VERSION`
    pub version: String,
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, version } = self;
        write!(
            f,
            "{to} has no {version}, which {from} has: OLM refuses the upgrade where status.storedVersions of the \
             CustomResourceDefinition still names it, so a version in between must have migrated the objects"
        )
    }
}

/// A bundle before an upgrade knows none of the versions of a kind that the definition of the one after it serves at first. OLM puts that definition in
/// the cluster while the operator of before still runs, checks that operator once more, and goes on only if it is well.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stranded {
    /// The bundle that knows none of them.
    pub from: String,
    /// The bundle that begins with them.
    pub to: String,
    /// `KIND.GROUP`
    pub kind: String,
}

impl fmt::Display for Stranded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, kind } = self;
        write!(
            f,
            "{to} serves at first no version of {kind} that {from} knows: OLM may never go on from {from}, whose operator cannot work \
             meanwhile, so a version in between must know both"
        )
    }
}

impl Catalog {
    /// What the upgrades to a bundle take away, in any channel.
    pub fn dropped_versions(&self, to: &str) -> BTreeSet<Dropped> {
        let Some(new) = self.bundle(to) else {
            return BTreeSet::new();
        };
        let there = versions(new);
        let dropped = |old: &Bundle| {
            let gone = versions(old).difference(&there).cloned().collect::<Vec<_>>();
            let from = old.name.clone();
            gone.into_iter().map(move |version| Dropped {
                from: from.clone(),
                to: to.to_owned(),
                version,
            })
        };
        self.before(to).flat_map(dropped).collect()
    }

    /// Which upgrades to a bundle OLM may not finish, in any channel.
    pub fn stranded(&self, to: &str) -> BTreeSet<Stranded> {
        let Some(new) = self.bundle(to) else {
            return BTreeSet::new();
        };
        let first = owned(new);
        let kinds: BTreeSet<&str> = first.iter().map(|version| kind_of(version)).collect();
        let is_stranded = |known: &BTreeSet<String>, kind: &str| {
            known.iter().any(|version| kind_of(version) == kind)
                && !known
                    .iter()
                    .any(|version| kind_of(version) == kind && first.contains(version))
        };
        let mut stranded = BTreeSet::new();
        for old in self.before(to) {
            let known = versions(old);
            let kinds = kinds.iter().filter(|kind| is_stranded(&known, kind));
            stranded.extend(kinds.map(|kind| Stranded {
                from: old.name.clone(),
                to: to.to_owned(),
                kind: (*kind).to_owned(),
            }));
        }
        stranded
    }

    /// The bundles whose users are upgraded to this one at once.
    fn before(&self, to: &str) -> impl Iterator<Item = &Bundle> {
        let entries = self.channels.iter().flat_map(|channel| &channel.entries);
        let before = entries
            .filter(move |entry| entry.name == to)
            .flat_map(|entry| entry.replaces.iter().chain(&entry.skips));
        before.filter_map(|name| self.bundle(name))
    }
}

/// Those that a bundle's definitions have, served or not: `KIND.GROUP/VERSION`.
fn versions(bundle: &Bundle) -> BTreeSet<String> {
    values(bundle, "olm.gvk")
        .map(|value| {
            let part = |field| text(value, field);
            format!("{}.{}/{}", part("/kind"), part("/group"), part("/version"))
        })
        .collect()
}

/// Those that its ClusterServiceVersion owns, which are served from the beginning.
fn owned(bundle: &Bundle) -> BTreeSet<String> {
    values(bundle, "olm.csv.metadata")
        .flat_map(|metadata| list(metadata, "/crdDescriptions/owned"))
        .map(|crd| {
            let group = text(crd, "/name").split_once('.').map_or("", |(_, group)| group);
            format!("{}.{group}/{}", text(crd, "/kind"), text(crd, "/version"))
        })
        .collect()
}

fn values<'a>(bundle: &'a Bundle, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    let properties = bundle.properties.iter();
    properties
        .filter(move |property| property.kind == kind)
        .map(|property| &property.value)
}

fn kind_of(version: &str) -> &str {
    version.split('/').next().unwrap_or(version)
}
