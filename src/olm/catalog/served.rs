//! Versions of an API that an upgrade takes away.

use std::collections::BTreeSet;
use std::fmt;

use super::{Bundle, Catalog};
use crate::olm::manifests::text;

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

impl Catalog {
    /// What the upgrades to a bundle take away, in any channel.
    pub fn dropped_versions(&self, to: &str) -> BTreeSet<Dropped> {
        let Some(new) = self.bundle(to) else {
            return BTreeSet::new();
        };
        let there = versions(new);
        let entries = self.channels.iter().flat_map(|channel| &channel.entries);
        let before = entries
            .filter(|entry| entry.name == to)
            .flat_map(|entry| entry.replaces.iter().chain(&entry.skips));
        let bundles = before.filter_map(|name| self.bundle(name));
        let dropped = |old: &Bundle| {
            let gone = versions(old).difference(&there).cloned().collect::<Vec<_>>();
            let from = old.name.clone();
            gone.into_iter().map(move |version| Dropped {
                from: from.clone(),
                to: to.to_owned(),
                version,
            })
        };
        bundles.flat_map(dropped).collect()
    }
}

fn versions(bundle: &Bundle) -> BTreeSet<String> {
    let kinds = bundle
        .properties
        .iter()
        .filter(|property| property.kind == "olm.gvk");
    kinds
        .map(|property| {
            let part = |field| text(&property.value, field);
            format!("{}.{}/{}", part("/kind"), part("/group"), part("/version"))
        })
        .collect()
}
