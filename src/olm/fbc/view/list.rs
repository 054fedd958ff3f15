//! What there is in a catalog, as tables or JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use serde::Serialize;

use super::{Package, View, plain};

/// A package in a list.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Listed<'a> {
    /// Its name.
    pub name: &'a str,
    /// The channel in which a new Subscription begins that names none.
    pub default_channel: &'a str,
    /// Why it should not be used any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<&'a str>,
    /// The default one first.
    pub channels: Vec<ListedChannel<'a>>,
    /// The highest version first.
    pub bundles: Vec<ListedBundle<'a>>,
}

/// A channel in a list.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedChannel<'a> {
    /// Its name.
    pub name: &'a str,
    /// What a new subscriber gets; none where the channel has no head.
    pub head: Option<&'a str>,
    /// How many bundles are in it.
    pub entries: usize,
    /// Why it should not be used any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<&'a str>,
}

/// A bundle in a list.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedBundle<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its version.
    pub version: Option<String>,
    /// The channels that have it.
    pub channels: Vec<&'a str>,
    /// Its image.
    pub image: &'a str,
    /// Why it should not be used any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<&'a str>,
}

impl View {
    /// What there is, by name of the package.
    pub fn list(&self) -> Vec<Listed<'_>> {
        self.packages
            .iter()
            .map(|(name, package)| package.list(name))
            .collect()
    }
}

impl Package {
    fn list<'a>(&'a self, name: &'a str) -> Listed<'a> {
        let channels = super::graph::channels(self).map(|(name, channel)| ListedChannel {
            name,
            head: self.head(name),
            entries: channel.entries.len(),
            deprecated: channel.deprecated.as_deref(),
        });
        let mut channels_of: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (channel, its) in &self.channels {
            let names: BTreeSet<&str> = its.entries.iter().map(|entry| entry.name.as_str()).collect();
            for name in names {
                channels_of.entry(name).or_default().push(channel);
            }
        }
        let mut names: Vec<&str> = self.bundles.keys().map(String::as_str).collect();
        self.sort_bundles(&mut names);
        let bundles = names.into_iter().filter_map(|name| {
            let bundle = self.bundles.get(name)?;
            Some(ListedBundle {
                name,
                version: bundle.version.as_ref().map(ToString::to_string),
                channels: channels_of.remove(name).unwrap_or_default(),
                image: &bundle.facts.image,
                deprecated: bundle.deprecated.as_deref(),
            })
        });
        Listed {
            name,
            default_channel: &self.default_channel,
            deprecated: self.deprecated.as_deref(),
            channels: channels.collect(),
            bundles: bundles.collect(),
        }
    }
}

/// Writes all packages, each in a line.
///
/// # Errors
/// Those of the writer.
pub fn write_packages(out: &mut impl Write, packages: &[Listed<'_>]) -> io::Result<()> {
    let head = |package: &Listed<'_>| {
        let channel = package
            .channels
            .iter()
            .find(|channel| channel.name == package.default_channel);
        channel.and_then(|channel| channel.head).unwrap_or("-").to_owned()
    };
    let row = |package: &Listed<'_>| {
        [
            package.name.to_owned(),
            package.default_channel.to_owned(),
            head(package),
            package.channels.len().to_string(),
            package.bundles.len().to_string(),
            note(package.deprecated),
        ]
    };
    let rows = packages.iter().map(row).collect();
    table(
        out,
        ["PACKAGE", "DEFAULT", "HEAD", "CHANNELS", "BUNDLES", ""],
        rows,
    )
}

/// Writes the channels and bundles of a package, each in a line.
///
/// # Errors
/// Those of the writer.
pub fn write_package(out: &mut impl Write, package: &Listed<'_>) -> io::Result<()> {
    if let Some(why) = package.deprecated {
        writeln!(out, "deprecated: {}\n", plain(why))?;
    }
    let channel = |channel: &ListedChannel<'_>| {
        let is_default = channel.name == package.default_channel;
        [
            channel.name.to_owned(),
            channel.head.unwrap_or("-").to_owned(),
            channel.entries.to_string(),
            if is_default { "yes" } else { "" }.to_owned(),
            note(channel.deprecated),
        ]
    };
    let rows = package.channels.iter().map(channel).collect();
    table(out, ["CHANNEL", "HEAD", "ENTRIES", "DEFAULT", ""], rows)?;
    writeln!(out)?;
    let bundle = |bundle: &ListedBundle<'_>| {
        [
            bundle.name.to_owned(),
            bundle.version.as_deref().unwrap_or("-").to_owned(),
            bundle.channels.join(","),
            bundle.image.to_owned(),
            note(bundle.deprecated),
        ]
    };
    let rows = package.bundles.iter().map(bundle).collect();
    table(out, ["BUNDLE", "VERSION", "CHANNELS", "IMAGE", ""], rows)
}

fn note(deprecated: Option<&str>) -> String {
    let note = deprecated.map(|why| format!("deprecated: {}", plain(why)));
    note.unwrap_or_default()
}

/// Columns as wide as their widest cell; nothing after the last.
fn table<const N: usize>(out: &mut impl Write, titles: [&str; N], rows: Vec<[String; N]>) -> io::Result<()> {
    let titles = titles.map(str::to_owned);
    let rows: Vec<[String; N]> = rows.into_iter().map(|row| row.map(|cell| plain(&cell))).collect();
    let widest = |column: usize| {
        let cells = rows
            .iter()
            .chain([&titles])
            .map(|row| row[column].chars().count());
        cells.max().unwrap_or_default()
    };
    let widths: [usize; N] = std::array::from_fn(widest);
    for row in std::iter::once(&titles).chain(&rows) {
        let cells = row
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:<width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}
