//! A release that is taken back.

use super::{Catalog, Channel, Entry};
use crate::olm::Error;

/// What a release that was taken back means to those who subscribe.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removed {
    /// Channels whose head it was: its users are upgraded to nothing there.
    pub ended: Vec<String>,
    /// Channels that had nothing else.
    pub gone: Vec<String>,
}

impl Catalog {
    /// Takes a bundle out of channels, of all that have it where none is named, and out of the catalog once no channel has it.
    ///
    /// Whatever was upgraded to it is upgraded to what comes after it, as are its own users. Channels that are left without an entry go, and so does what
    /// is said to be deprecated of anything that goes.
    ///
    /// # Errors
    /// [`Error::NotThere`], [`Error::LastBundle`]
    pub fn remove(&mut self, name: &str, channels: &[String]) -> Result<Removed, Error> {
        if self.bundle(name).is_none() {
            return Err(self.not_there("bundle", name, self.bundle_names()));
        }
        if let Some(unknown) = channels.iter().find(|channel| !self.has_in(channel, name)) {
            let with_it = self.channels.iter().filter(|channel| channel.has(name));
            let with_it = with_it.map(|channel| channel.name.as_str());
            if self.get_channel(unknown).is_some() {
                return Err(Error::NotInChannel {
                    bundle: name.to_owned(),
                    channel: unknown.clone(),
                    others: with_it.map(str::to_owned).collect(),
                });
            }
            return Err(self.not_there("channel", unknown, with_it));
        }
        let mut removed = Removed::default();
        for channel in &mut self.channels {
            let is_meant = channels.is_empty() || channels.contains(&channel.name);
            let was_head = is_meant && channel.remove(name);
            if channel.entries.is_empty() {
                removed.gone.push(channel.name.clone());
            } else if was_head {
                removed.ended.push(channel.name.clone());
            }
        }
        self.channels.retain(|channel| !channel.entries.is_empty());
        if !self.channels.iter().any(|channel| channel.has(name)) {
            self.bundles.retain(|bundle| bundle.name != name);
        }
        if self.bundles.is_empty() {
            return Err(Error::LastBundle {
                package: self.name.clone(),
                bundle: name.to_owned(),
            });
        }
        let kept = self.deprecations().to_vec();
        let is_there = |entry: &super::deprecations::Deprecation| entry.reference.is_in(self);
        let kept = kept.into_iter().filter(is_there).collect();
        self.deprecate(kept);
        Ok(removed)
    }

    fn has_in(&self, channel: &str, name: &str) -> bool {
        self.get_channel(channel).is_some_and(|channel| channel.has(name))
    }

    pub(super) fn not_there<'a>(
        &self,
        what: &'static str,
        value: &str,
        known: impl Iterator<Item = &'a str>,
    ) -> Error {
        Error::NotThere {
            package: self.name.clone(),
            what,
            value: value.to_owned(),
            known: known.map(str::to_owned).collect(),
        }
    }
}

impl Channel {
    /// Whether its users are upgraded to nothing then.
    fn remove(&mut self, name: &str) -> bool {
        let Some(at) = self.entries.iter().position(|entry| entry.name == name) else {
            return false;
        };
        let removed = self.entries.remove(at);
        let is_skipped = self
            .entries
            .iter()
            .any(|entry| entry.skips.contains(&removed.name));
        let follows = |entry: &&mut Entry| entry.replaces.as_ref() == Some(&removed.name);
        let mut after = self.entries.iter_mut().filter(follows).peekable();
        let is_head = after.peek().is_none() && !is_skipped;
        after.for_each(|entry| entry.take_over(&removed));
        is_head
    }
}

impl Entry {
    /// It comes after what is no more.
    fn take_over(&mut self, removed: &Entry) {
        self.replaces.clone_from(&removed.replaces);
        for skipped in removed.skips.iter().chain([&removed.name]) {
            if !self.skips.contains(skipped) {
                self.skips.push(skipped.clone());
            }
        }
        self.skip_range = match (self.skip_range.take(), &removed.skip_range) {
            (Some(own), Some(other)) if own != *other => Some(format!("{own} || {other}")),
            (own, other) => own.or_else(|| other.clone()),
        };
    }
}
