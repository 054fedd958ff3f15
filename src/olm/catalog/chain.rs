//! The order of upgrades within a channel.

use super::{Channel, Entry};
use crate::olm::Error;
use crate::olm::fbc::blob;
use crate::olm::fbc::upgrades::{Broken, End, Upgrades};

impl Channel {
    /// Puts a bundle into its place by version. `order` names all bundles of the package, lowest first; `tail` is what the
    /// bundle takes over from.
    ///
    /// Versions between the two that are in the catalog but not in this channel are skipped: whoever got one of them from
    /// another channel (a candidate) and then comes to this one is upgraded too, instead of being stranded.
    pub(super) fn insert(&mut self, name: &str, tail: Option<String>, order: &[String]) {
        if self.has(name) {
            return;
        }
        let place = |name: &str| order.iter().position(|other| other == name);
        let after_tail = tail.as_deref().and_then(place).map_or(0, |tail| tail + 1);
        let between = order[after_tail.min(order.len())..]
            .iter()
            .take_while(|other| *other != name);
        let skips = if tail.is_some() {
            between.cloned().collect()
        } else {
            Vec::new()
        };
        if let Some(next) = self
            .entries
            .iter()
            .position(|entry| place(&entry.name) > place(name))
        {
            self.takes_over(next, name, tail.as_deref());
        }
        let entry = blob::Entry {
            name: name.to_owned(),
            replaces: tail,
            skips,
            skip_range: None,
        };
        self.entries.push(entry.into());
        self.entries.sort_by_key(|entry| place(&entry.name));
    }

    /// The entry at `next` now comes after `name`, which came between it and `tail`. One that it replaced outside of the channel
    /// is skipped instead, unless it is what `name` replaces. No later entry may skip `name` any more: what is skipped ends the
    /// chain.
    fn takes_over(&mut self, next: usize, name: &str, tail: Option<&str>) {
        let replaced = self.entries[next].replaces.clone();
        let is_outside = !self
            .entries
            .iter()
            .any(|entry| Some(&entry.name) == replaced.as_ref());
        if !is_outside && replaced.as_deref() != tail {
            return; // a person wrote it so
        }
        for later in &mut self.entries[next..] {
            later.skips.retain(|skipped| skipped != name);
        }
        let next = &mut self.entries[next];
        next.skips
            .extend(replaced.filter(|replaced| Some(replaced.as_str()) != tail && replaced != name));
        next.replaces = Some(name.to_owned());
    }

    /// Skips a bundle of another channel, a fix of an older minor version for example: the lowest entry above it takes its users
    /// over, if what that entry replaces is lower still.
    pub(super) fn skip(&mut self, name: &str, order: &[String]) {
        let place = |name: &str| order.iter().position(|other| other == name);
        let is_above = |entry: &&mut Entry| place(&entry.name) > place(name);
        if self.has(name) || self.skips(name) {
            return;
        }
        let above = self.entries.iter_mut().filter(is_above);
        let Some(next) = above.min_by_key(|entry| place(&entry.name)) else {
            return;
        };
        if next
            .replaces
            .as_deref()
            .and_then(place)
            .is_some_and(|tail| Some(tail) < place(name))
        {
            next.skips.push(name.to_owned());
            next.skips.sort_by_key(|skipped| place(skipped));
        }
    }

    /// Whether a bundle is in the channel.
    pub fn has(&self, name: &str) -> bool {
        self.entries.iter().any(|entry| entry.name == name)
    }

    /// The entry that nothing in the channel replaces or skips; `skipRange` plays no part.
    ///
    /// # Errors
    /// [`Error::EmptyChannel`], [`Error::NoOrder`]
    pub fn head(&self) -> Result<&Entry, Error> {
        let empty = || Error::EmptyChannel {
            channel: self.name.clone(),
        };
        if self.entries.is_empty() {
            return Err(empty());
        }
        let upgrades = Upgrades::of(&self.entries);
        let head = upgrades.head().map_err(|why| self.no_order(&why))?;
        self.entries
            .iter()
            .find(|entry| entry.name == head.name)
            .ok_or_else(empty)
    }

    fn no_order(&self, why: &Broken<'_>) -> Error {
        Error::NoOrder {
            channel: self.name.clone(),
            why: why.to_string(),
        }
    }

    pub(super) fn check(&self, is_bundle: &dyn Fn(&str) -> bool) -> Result<(), Error> {
        if let Some(missing) = self.entries.iter().find(|entry| !is_bundle(&entry.name)) {
            return Err(Error::NoSuchBundle {
                channel: self.name.clone(),
                entry: missing.name.clone(),
            });
        }
        let head = self.head()?;
        let upgrades = Upgrades::of(&self.entries);
        // Without versions, so that nobody depends on a range
        let targets = upgrades.targets(|_| None).map_err(|why| self.no_order(&why))?;
        let is_stranded = |entry: &&Entry| targets.end(&entry.name, None) != End::Head;
        match self.entries.iter().find(is_stranded) {
            None => Ok(()),
            Some(stranded) => Err(Error::Stranded {
                channel: self.name.clone(),
                entry: stranded.name.clone(),
                head: head.name.clone(),
            }),
        }
    }

    fn skips(&self, name: &str) -> bool {
        Upgrades::of(&self.entries).skips(name)
    }
}
