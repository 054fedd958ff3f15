//! Rules of `olm.channel`: who is upgraded to whom.

use std::collections::{BTreeMap, BTreeSet};

use super::super::blob::Entry;
use super::super::contents::{Channel, Contents};
use super::super::range::Range;
use super::super::upgrades::{Broken, End, Step, Upgrades};
use super::{Belongings, Packages};
use crate::olm::findings::{Code, Finding, Place, catalog as codes, listed};

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
        upgrades(contents, channel, its, findings);
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
fn upgrades<T>(
    contents: &Contents<T>,
    channel: &Channel,
    its: Option<&Belongings<'_, T>>,
    findings: &mut Vec<Finding>,
) {
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
    let upgrades = Upgrades::of(&channel.entries);
    let version_of = |name: &str| its?.bundles.get(name)?.version.as_ref().map(|it| &it.version);
    let targets = match upgrades.targets(version_of) {
        Ok(targets) => targets,
        Err(broken) => {
            let code = match broken {
                Broken::NoHead | Broken::Heads(_) => &codes::CHANNEL_HEADS,
                Broken::Circle(_) => &codes::CHANNEL_CYCLE,
            };
            return found(code, &place, format!("channel {name}: {broken}"));
        }
    };
    let head = targets.head();
    let line_of = |name: &str| {
        let mut lines = channel.entries.iter().zip(&channel.lines);
        let line = lines.find(|(entry, _)| entry.name == name).map(|(_, line)| *line);
        contents.line(channel.at, line.unwrap_or(channel.at.span.line))
    };
    if let Some(Step { to, because }) = targets.back() {
        let message = format!(
            "channel {name}: {because} of {to} has the head {head}, so OLM goes back there and up again for ever"
        );
        found(&codes::UPGRADE_PATH, &line_of(to), message);
    }
    for (entry, &line) in channel.entries.iter().zip(&channel.lines) {
        let own = entry.name.as_str();
        let place = contents.line(channel.at, line);
        if !targets.has(own) && !upgrades.skips(own) {
            let message =
                format!("channel {name}: {own} is neither skipped nor on the way from the head {head}");
            found(&codes::ENTRY_STRANDED, &place, message);
        } else if targets.end(own, version_of(own)) == End::Stranded {
            let message = format!("channel {name}: OLM upgrades {own} to nothing: what skips it nobody gets");
            found(&codes::UPGRADE_PATH, &place, message);
        }
    }
}
