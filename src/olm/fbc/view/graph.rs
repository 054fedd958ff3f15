//! Where a channel leads: who is upgraded to what, whom it strands, and the way of one of them.

use std::collections::BTreeSet;
use std::io::{self, Write};

use semver::Version;
use serde::Serialize;

use super::super::upgrades::{End, Path, Step, Targets};
use super::{Channel, Package, draw, plain};
use crate::olm::findings::listed;

/// How graphs are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A tree for each channel: what is upgraded to a bundle hangs from it.
    Text,
    /// A list of [`Graph`].
    Json,
    /// A flowchart, as code hosts draw it in Markdown.
    Mermaid,
    /// Graphviz.
    Dot,
}

/// A channel, and where all go who might subscribe to it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Graph<'a> {
    /// The package.
    pub package: &'a str,
    /// The channel.
    pub channel: &'a str,
    /// Whether a new Subscription that names no channel begins here.
    pub is_default: bool,
    /// Why it should not be used any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<&'a str>,
    /// What a new subscriber gets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<&'a str>,
    /// Why nobody is upgraded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broken: Option<String>,
    /// What the head is upgraded to, below it: then nobody ever comes to rest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub back: Option<Step<'a>>,
    /// What may be installed already, the highest version first.
    pub nodes: Vec<Node<'a>>,
}

/// What may be installed already.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Node<'a> {
    /// The bundle's name.
    pub name: &'a str,
    /// Where it is.
    pub place: Place,
    /// Why it should not be used any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<&'a str>,
    /// What it is upgraded to next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Step<'a>>,
    /// Where its upgrades end.
    pub end: End,
}

/// Where a bundle is that may be installed already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Place {
    /// In the channel.
    Channel,
    /// In other channels of the package.
    OtherChannel,
    /// Not in the catalog any more, or not yet: an entry replaces or skips it.
    Nowhere,
}

/// The graphs of a package's channels, the default one first.
pub fn graphs<'a>(name: &'a str, package: &'a Package) -> Vec<Graph<'a>> {
    channels(package)
        .map(|(channel, its)| Graph::of(name, package, channel, its))
        .collect()
}

/// The default channel first, the others by name.
pub(super) fn channels(package: &Package) -> impl Iterator<Item = (&str, &Channel)> {
    let is_default = |name: &str| name == package.default_channel;
    let all = package
        .channels
        .iter()
        .map(|(name, channel)| (name.as_str(), channel));
    let others = all.clone().filter(move |(name, _)| !is_default(name));
    all.filter(move |(name, _)| is_default(name)).chain(others)
}

impl<'a> Graph<'a> {
    fn of(name: &'a str, package: &'a Package, channel: &'a str, its: &'a Channel) -> Self {
        let targets = package.targets(its);
        let entries: BTreeSet<&str> = its.entries.iter().map(|entry| entry.name.as_str()).collect();
        let node = |bundle: &'a str| Node::of(bundle, package, &entries, targets.as_ref().ok());
        Self {
            package: name,
            channel,
            is_default: channel == package.default_channel,
            deprecated: its.deprecated.as_deref(),
            head: targets.as_ref().ok().map(Targets::head),
            broken: targets.as_ref().err().map(ToString::to_string),
            back: targets.as_ref().ok().and_then(Targets::back),
            nodes: installable(package, its).into_iter().map(node).collect(),
        }
    }
}

/// All that a subscriber of the channel may have installed: what is in the package, and what an entry names that is not there any more.
pub(super) fn installable<'a>(package: &'a Package, channel: &'a Channel) -> Vec<&'a str> {
    let named = channel.entries.iter().flat_map(|entry| {
        let others = entry.replaces.iter().chain(&entry.skips);
        others.chain([&entry.name]).map(String::as_str)
    });
    let there = package.bundles.keys().map(String::as_str);
    let all: BTreeSet<&str> = named.chain(there).filter(|name| !name.is_empty()).collect();
    let mut all: Vec<&str> = all.into_iter().collect();
    package.sort_bundles(&mut all);
    all
}

impl<'a> Node<'a> {
    fn of(
        name: &'a str,
        package: &'a Package,
        entries: &BTreeSet<&str>,
        targets: Option<&Targets<'a>>,
    ) -> Self {
        let bundle = package.bundles.get(name);
        let place = if entries.contains(name) {
            Place::Channel
        } else if bundle.is_some() {
            Place::OtherChannel
        } else {
            Place::Nowhere
        };
        let version = package.version(name);
        Self {
            name,
            place,
            deprecated: bundle.and_then(|bundle| bundle.deprecated.as_deref()),
            next: targets.and_then(|targets| targets.next(name, version)),
            end: targets.map_or(End::Stranded, |targets| targets.end(name, version)),
        }
    }
}

/// Writes graphs.
///
/// # Errors
/// Those of the writer.
pub fn write(out: &mut impl Write, format: Format, graphs: &[Graph<'_>]) -> io::Result<()> {
    match format {
        Format::Text => graphs.iter().try_for_each(|graph| draw::text(out, graph)),
        Format::Json => {
            serde_json::to_writer_pretty(&mut *out, graphs)?;
            writeln!(out)
        }
        Format::Mermaid => draw::mermaid(out, graphs),
        Format::Dot => draw::dot(out, graphs),
    }
}

/// The way of what somebody has, once they subscribe to a channel.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Way<'a> {
    /// The package.
    pub package: &'a str,
    /// The channel.
    pub channel: &'a str,
    /// What is installed: a bundle, or a version that none has.
    pub from: &'a str,
    /// The upgrades; none where nobody is upgraded in that channel.
    #[serde(flatten)]
    pub path: Option<Path<'a>>,
    /// Why nobody is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broken: Option<String>,
}

impl Way<'_> {
    /// Whether it ends at the head.
    pub fn arrives(&self) -> bool {
        self.path.as_ref().is_some_and(|path| path.end == End::Head)
    }
}

/// The ways of what is installed, a bundle's name or a version, in each channel of a package.
///
/// # Errors
/// When it is neither.
pub fn ways<'a>(package_name: &'a str, package: &'a Package, from: &'a str) -> Result<Vec<Way<'a>>, String> {
    let (name, version) = installed(package_name, package, from)?;
    let way = |(channel, its): (&'a str, &'a Channel)| {
        let targets = package.targets(its);
        Way {
            package: package_name,
            channel,
            from: name,
            path: targets
                .as_ref()
                .ok()
                .map(|targets| targets.path(name, version.as_ref())),
            broken: targets.as_ref().err().map(ToString::to_string),
        }
    };
    Ok(channels(package).map(way).collect())
}

/// The name of what is installed, and its version where it is known.
fn installed<'a>(
    package_name: &str,
    package: &'a Package,
    from: &'a str,
) -> Result<(&'a str, Option<Version>), String> {
    let channels = package.channels.values();
    if channels
        .into_iter()
        .any(|channel| installable(package, channel).contains(&from))
    {
        return Ok((from, package.version(from).cloned()));
    }
    let text = from.strip_prefix('v').unwrap_or(from);
    let has_it = |(_, bundle): &(&'a String, &super::Bundle)| {
        bundle
            .version
            .as_ref()
            .is_some_and(|version| version.to_string() == text)
    };
    if let Some((name, _)) = package.bundles.iter().find(has_it) {
        return Ok((name, package.version(name).cloned()));
    }
    let version = text.parse().map_err(|_| {
        let there = listed(package.bundles.keys().map(String::as_str));
        format!("--from is {from:?}: accepted are a version, and a bundle of package {package_name}, of which there are {there}")
    })?;
    Ok((from, Some(version)))
}

/// Writes ways, each in a line.
///
/// # Errors
/// Those of the writer.
pub fn write_ways(out: &mut impl Write, ways: &[Way<'_>]) -> io::Result<()> {
    let width = ways.iter().map(|way| way.channel.len()).max().unwrap_or_default();
    for way in ways {
        let Way { channel, from, .. } = way;
        write!(out, "{:<width$}  {}", plain(channel), plain(from))?;
        let Some(path) = &way.path else {
            writeln!(
                out,
                "  nobody is upgraded: {}",
                way.broken.as_deref().unwrap_or_default()
            )?;
            continue;
        };
        for step in &path.steps {
            write!(out, " -> {} ({})", plain(step.to), step.because)?;
        }
        match path.end {
            End::Head => writeln!(out, "  the head")?,
            End::Stranded => writeln!(out, "  is not upgraded here")?,
            End::Circle => writeln!(out, "  and so on, in a circle")?,
        }
    }
    Ok(())
}
