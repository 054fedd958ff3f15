//! What an entry upgrades from, where somebody says so.

use std::str::FromStr;

use super::{Catalog, Entry};
use crate::olm::fbc::range::{NotARange, Range};

/// What takes the place of what follows from the versions. What is `None` or empty does not.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Edges {
    /// The bundle whose users are upgraded to it.
    pub replaces: Option<String>,
    /// Further bundles whose users are.
    pub skips: Vec<String>,
    /// The versions whose users are.
    pub skip_range: Option<SkipRange>,
}

/// A range of versions that OLM can read, as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkipRange(String);

impl FromStr for SkipRange {
    type Err = NotARange;

    fn from_str(text: &str) -> Result<Self, NotARange> {
        Range::from_str(text)?;
        Ok(Self(text.to_owned()))
    }
}

impl Edges {
    fn apply(&self, entry: &mut Entry) {
        if let Some(replaces) = &self.replaces {
            entry.replaces = Some(replaces.clone());
            entry.skips.retain(|skipped| skipped != replaces);
        }
        if !self.skips.is_empty() {
            entry.skips.clone_from(&self.skips);
        }
        if let Some(SkipRange(range)) = &self.skip_range {
            entry.skip_range = Some(range.clone());
        }
    }

    /// What is named that the catalog does not have: it may be of another catalog, or a slip.
    pub fn unknown<'a>(&'a self, catalog: &Catalog) -> Vec<&'a str> {
        let named = self.replaces.iter().chain(&self.skips);
        let named = named.map(String::as_str);
        named.filter(|name| catalog.bundle(name).is_none()).collect()
    }
}

impl Catalog {
    /// Has the entry of a bundle in channels upgrade from what somebody says. [`Catalog::check`] tells if some others are not upgraded any more then.
    pub fn connect(&mut self, name: &str, channels: &[String], edges: &Edges) {
        let channels = self
            .channels
            .iter_mut()
            .filter(|channel| channels.contains(&channel.name));
        for entry in channels.flat_map(|channel| &mut channel.entries) {
            if entry.name == name {
                edges.apply(entry);
            }
        }
    }
}
