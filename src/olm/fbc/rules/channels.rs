//! Rules of `olm.channel`: who is upgraded to whom.

use std::collections::{BTreeMap, BTreeSet};

use super::super::blob::Entry;
use super::super::contents::{Channel, Contents};
use super::super::locate::Places;
use super::super::range::Range;
use super::super::upgrades::{Broken, End, Step, Upgrades};
use super::{Belongings, Packages};
use crate::olm::findings::{Code, Finding, Place, catalog as codes, listed};
use crate::olm::names::is_channel;

/// What all documents show together.
pub(super) fn all<T>(
    contents: &Contents<T>,
    packages: &Packages<'_, T>,
    places: &mut Places<'_, T>,
    findings: &mut Vec<Finding>,
) {
    let mut seen: BTreeMap<(&str, &str), Place> = BTreeMap::new();
    for channel in &contents.channels {
        let place = contents.place(channel.at);
        let its = packages.get(&channel.package);
        let mut judge = Judge {
            channel,
            its,
            place: place.clone(),
            places,
            findings,
        };
        if its.is_none() {
            let message = format!(
                "channel {:?} belongs to package {:?}, which is not there",
                channel.name, channel.package
            );
            judge.found(&codes::PACKAGE_UNKNOWN, message);
        }
        if channel.name.is_empty() {
            let message = format!("a channel of package {} has no name", channel.package);
            judge.found(&codes::CHANNEL_NAME, message);
        }
        if !channel.name.is_empty() && !is_channel(&channel.name) {
            let message = format!(
                "a channel of package {} is called {:?}",
                channel.package, channel.name
            );
            judge.found(&codes::CHANNEL_WORD, message);
        }
        if let Some(first) = seen.insert((&channel.package, &channel.name), place) {
            let message = format!(
                "package {} has a channel {} in {first}, too",
                channel.package, channel.name
            );
            judge.found(&codes::CHANNEL_DUPLICATE, message);
        }
        judge.entries();
        judge.upgrades();
        judge.bundles();
    }
}

/// A channel, and what is found in it.
struct Judge<'a, 'f, 'c, T> {
    channel: &'a Channel,
    /// What belongs to its package, if that is there.
    its: Option<&'a Belongings<'a, T>>,
    /// Where it is.
    place: Place,
    places: &'f mut Places<'c, T>,
    findings: &'f mut Vec<Finding>,
}

impl<T> Judge<'_, '_, '_, T> {
    fn found(&mut self, code: &'static Code, message: String) {
        self.findings.push(Finding::new(code, &self.place, message));
    }

    /// At a field of an entry.
    fn found_in(&mut self, index: usize, field: &str, code: &'static Code, message: String) {
        let pointer = format!("/entries/{index}/{field}");
        let place = self.places.field(self.channel.at, &pointer);
        self.findings.push(Finding::new(code, &place, message));
    }

    /// What each entry shows by itself, and beside the others.
    fn entries(&mut self) {
        let channel = self.channel;
        let mut known: BTreeSet<&str> = channel.entries.iter().map(|entry| entry.name.as_str()).collect();
        // Whoever comes from another channel of the package has it
        known.extend(self.its.into_iter().flat_map(|its| its.bundles.keys().copied()));
        let mut seen = BTreeSet::new();
        for (index, entry) in channel.entries.iter().enumerate() {
            if !seen.insert(entry.name.as_str()) {
                let message = format!("channel {} lists {:?} twice", channel.name, entry.name);
                self.found_in(index, "name", &codes::ENTRY_DUPLICATE, message);
            }
            self.entry(index, entry, &known);
        }
    }

    fn entry(&mut self, index: usize, entry: &Entry, known: &BTreeSet<&str>) {
        let name = &self.channel.name;
        let Entry {
            name: own,
            replaces,
            skips,
            skip_range,
        } = entry;
        if replaces.as_ref() == Some(own) || skips.contains(own) {
            let message = format!("channel {name}: {own} replaces or skips itself");
            self.found_in(index, "name", &codes::REPLACES_ITSELF, message);
        }
        if let Some(replaced) = replaces.as_ref().filter(|replaced| !replaced.is_empty())
            && !known.contains(replaced.as_str())
        {
            let message =
                format!("channel {name}: {own} replaces {replaced}, which the package does not have");
            self.found_in(index, "replaces", &codes::REPLACES_DANGLING, message);
        }
        if let Some(empty) = skips.iter().position(String::is_empty) {
            let message = format!("channel {name}: skips[{empty}] of {own} is empty");
            self.found_in(index, &format!("skips/{empty}"), &codes::SKIP_EMPTY, message);
        }
        let dangling = skips
            .iter()
            .map(String::as_str)
            .filter(|skip| !skip.is_empty() && !known.contains(skip));
        let dangling = listed(dangling);
        if !dangling.is_empty() {
            let message = format!("channel {name}: {own} skips {dangling}, which the package does not have");
            self.found_in(index, "skips", &codes::SKIP_DANGLING, message);
        }
        if let Some(range) = skip_range.as_ref().filter(|range| !range.is_empty())
            && let Err(why) = range.parse::<Range>()
        {
            let message = format!("channel {name}: skipRange of {own} is {range:?}: {why}");
            self.found_in(index, "skipRange", &codes::SKIP_RANGE, message);
        }
    }

    /// Whether everybody is upgraded to one head.
    fn upgrades(&mut self) {
        let (channel, its) = (self.channel, self.its);
        let name = &channel.name;
        if channel.entries.is_empty() {
            let message = format!("channel {name} of package {} is empty", channel.package);
            return self.found(&codes::CHANNEL_EMPTY, message);
        }
        let upgrades = Upgrades::of(&channel.entries);
        let version_of = |name: &str| its?.bundles.get(name)?.version.as_ref().map(|it| &it.version);
        let targets = match upgrades.targets(version_of) {
            Ok(targets) => targets,
            Err(broken) => {
                let code = match broken {
                    Broken::NoHead | Broken::Heads(_) => &codes::CHANNEL_HEADS,
                    Broken::Circle(_) => &codes::CHANNEL_CYCLE,
                };
                return self.found(code, format!("channel {name}: {broken}"));
            }
        };
        let head = targets.head();
        if let Some(Step { to, because }) = targets.back() {
            let message = format!(
                "channel {name}: {because} of {to} has the head {head}, so OLM goes back there and up again for ever"
            );
            let index = channel.entries.iter().position(|entry| entry.name == to);
            self.found_in(
                index.unwrap_or_default(),
                "skipRange",
                &codes::UPGRADE_PATH,
                message,
            );
        }
        for (index, entry) in channel.entries.iter().enumerate() {
            let own = entry.name.as_str();
            if !targets.has(own) && !upgrades.skips(own) {
                let message =
                    format!("channel {name}: {own} is neither skipped nor on the way from the head {head}");
                self.found_in(index, "name", &codes::ENTRY_STRANDED, message);
            } else if targets.end(own, version_of(own)) == End::Stranded {
                let message =
                    format!("channel {name}: OLM upgrades {own} to nothing: what skips it nobody gets");
                self.found_in(index, "name", &codes::UPGRADE_PATH, message);
            }
        }
    }

    /// Whether there is a bundle of each entry.
    fn bundles(&mut self) {
        let (channel, Some(its)) = (self.channel, self.its) else {
            return;
        };
        for (index, entry) in channel.entries.iter().enumerate() {
            if !its.bundles.contains_key(entry.name.as_str()) {
                let message = format!(
                    "channel {} lists {:?}, and there is no such bundle",
                    channel.name, entry.name
                );
                self.found_in(index, "name", &codes::ENTRY_WITHOUT_BUNDLE, message);
            }
        }
    }
}
