//! Rules of `olm.channel`: who is upgraded to whom.

use std::collections::{BTreeMap, BTreeSet};

use super::super::blob::Entry;
use super::super::contents::{Channel, Contents};
use super::super::range::Range;
use super::{Packages, listed};
use crate::olm::findings::{Code, Finding, Place, catalog as codes};

/// What all documents show together.
pub(super) fn all<T>(contents: &Contents<T>, packages: &Packages<'_, T>, findings: &mut Vec<Finding>) {
    let mut seen: BTreeMap<(&str, &str), Place> = BTreeMap::new();
    for channel in &contents.channels {
        let place = contents.place(channel.at);
        let its = packages.get(&channel.package);
        let mut found = |code, message| findings.push(Finding::new(code, &place, message));
        if its.is_none() {
            let message = format!(
                "channel {:?} belongs to package {:?}, which is not there",
                channel.name, channel.package
            );
            found(&codes::PACKAGE_UNKNOWN, message);
        }
        if channel.name.is_empty() {
            found(
                &codes::CHANNEL_NAME,
                format!("a channel of package {} has no name", channel.package),
            );
        }
        if let Some(first) = seen.insert((&channel.package, &channel.name), place.clone()) {
            let message = format!(
                "package {} has a channel {} in {first}, too",
                channel.package, channel.name
            );
            found(&codes::CHANNEL_DUPLICATE, message);
        }
        entries(contents, channel, findings);
        graph(contents, channel, findings);
        let Some(its) = its else { continue };
        for (entry, &line) in channel.entries.iter().zip(&channel.lines) {
            if !its.bundles.contains_key(entry.name.as_str()) {
                let message = format!(
                    "channel {} lists {:?}, and there is no such bundle",
                    channel.name, entry.name
                );
                let place = contents.line(channel.at, line);
                findings.push(Finding::new(&codes::ENTRY_WITHOUT_BUNDLE, &place, message));
            }
        }
    }
}

/// What each entry shows by itself, and beside the others.
fn entries<T>(contents: &Contents<T>, channel: &Channel, findings: &mut Vec<Finding>) {
    let name = &channel.name;
    let known: BTreeSet<&str> = channel.entries.iter().map(|entry| entry.name.as_str()).collect();
    let mut seen = BTreeSet::new();
    for (entry, &line) in channel.entries.iter().zip(&channel.lines) {
        let place = contents.line(channel.at, line);
        let mut found =
            |code: &'static Code, message: String| findings.push(Finding::new(code, &place, message));
        let Entry {
            name: own,
            replaces,
            skips,
            skip_range,
        } = entry;
        if !seen.insert(own) {
            found(
                &codes::ENTRY_DUPLICATE,
                format!("channel {name} lists {own:?} twice"),
            );
        }
        if replaces.as_ref() == Some(own) || skips.contains(own) {
            found(
                &codes::REPLACES_ITSELF,
                format!("channel {name}: {own} replaces or skips itself"),
            );
        }
        if let Some(replaced) = replaces.as_ref().filter(|replaced| !replaced.is_empty())
            && !known.contains(replaced.as_str())
        {
            let message = format!("channel {name}: {own} replaces {replaced}, which is not in the channel");
            found(&codes::REPLACES_DANGLING, message);
        }
        if let Some(index) = skips.iter().position(String::is_empty) {
            found(
                &codes::SKIP_EMPTY,
                format!("channel {name}: skips[{index}] of {own} is empty"),
            );
        }
        let dangling = skips
            .iter()
            .map(String::as_str)
            .filter(|skip| !skip.is_empty() && !known.contains(skip));
        let dangling = listed(dangling);
        if !dangling.is_empty() {
            let message = format!("channel {name}: {own} skips {dangling}, not in the channel");
            found(&codes::SKIP_DANGLING, message);
        }
        if let Some(range) = skip_range.as_ref().filter(|range| !range.is_empty())
            && let Err(why) = range.parse::<Range>()
        {
            let message = format!("channel {name}: skipRange of {own} is {range:?}: {why}");
            found(&codes::SKIP_RANGE, message);
        }
    }
}

/// Whether everybody is upgraded to one head.
fn graph<T>(contents: &Contents<T>, channel: &Channel, findings: &mut Vec<Finding>) {
    let name = &channel.name;
    let place = contents.place(channel.at);
    let mut found = |code: &'static Code, place: &Place, message: String| {
        findings.push(Finding::new(code, place, message))
    };
    if channel.entries.is_empty() {
        return found(
            &codes::CHANNEL_EMPTY,
            &place,
            format!("channel {name} of package {} is empty", channel.package),
        );
    }
    let graph = Graph::of(channel);
    let heads = graph.heads();
    let [head] = heads[..] else {
        let message = match heads.len() {
            0 => format!("channel {name} has no head: each entry is replaced or skipped by another"),
            count => format!("channel {name} has {count} heads: {}", listed(heads)),
        };
        return found(&codes::CHANNEL_HEADS, &place, message);
    };
    match graph.chain(head) {
        Err(circle) => {
            let message = format!(
                "channel {name}: replaces leads in a circle: {}",
                circle.join(" -> ")
            );
            found(&codes::CHANNEL_CYCLE, &place, message);
        }
        Ok(chain) => {
            for (entry, &line) in channel.entries.iter().zip(&channel.lines) {
                let own = entry.name.as_str();
                if !chain.contains(own) && !graph.skipped.contains(own) {
                    let message = format!(
                        "channel {name}: {own} is neither skipped nor on the way from the head {head}"
                    );
                    found(&codes::ENTRY_STRANDED, &contents.line(channel.at, line), message);
                }
            }
        }
    }
}

/// Who replaces and skips whom in a channel.
struct Graph<'a> {
    replaces: BTreeMap<&'a str, &'a str>,
    replaced: BTreeSet<&'a str>,
    skipped: BTreeSet<&'a str>,
}

impl<'a> Graph<'a> {
    fn of(channel: &'a Channel) -> Self {
        let mut graph = Self {
            replaces: BTreeMap::new(),
            replaced: BTreeSet::new(),
            skipped: BTreeSet::new(),
        };
        for entry in &channel.entries {
            let replaces = entry.replaces.as_deref().unwrap_or_default();
            graph.replaces.entry(&entry.name).or_insert(replaces);
            if !replaces.is_empty() {
                graph.replaced.insert(replaces);
            }
            graph.skipped.extend(entry.skips.iter().map(String::as_str));
        }
        graph
    }

    fn heads(&self) -> Vec<&'a str> {
        let is_head = |name: &&&str| !self.replaced.contains(**name) && !self.skipped.contains(**name);
        self.replaces.keys().filter(is_head).copied().collect()
    }

    /// All that is reached by `replaces` from the head; a step to what is skipped is none. Or the circle in which it leads.
    fn chain(&self, head: &'a str) -> Result<BTreeSet<&'a str>, Vec<&'a str>> {
        let mut way = vec![head];
        let mut reached = BTreeSet::from([head]);
        let mut next = head;
        while let Some(&replaced) = self.replaces.get(next) {
            if replaced.is_empty() || self.skipped.contains(replaced) {
                break;
            }
            if !reached.insert(replaced) {
                let begin = way.iter().position(|name| *name == replaced).unwrap_or_default();
                way.push(replaced);
                return Err(way.split_off(begin));
            }
            way.push(replaced);
            next = replaced;
        }
        Ok(reached)
    }
}
