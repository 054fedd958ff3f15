//! What another catalog changes for those who subscribe to it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{self, Write};
use std::str::FromStr as _;

use semver::Version;
use serde::Serialize;

use super::super::range::Range;
use super::super::upgrades::{End, Targets};
use super::graph::installable;
use super::{Bundle, Channel, Entry, Package, View, plain};
use crate::olm::findings::{counted, listed};

/// Something that is different for somebody.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// The package.
    pub package: String,
    /// The channel, where it is of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// Whether it takes something away from somebody who subscribed.
    pub takes_away: bool,
    /// What.
    #[serde(flatten)]
    pub what: What,
}

/// What is different.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "change")]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum What {
    PackageAdded {
        default_channel: String,
    },
    PackageRemoved,
    DefaultChannel {
        before: String,
        after: String,
    },
    ChannelAdded {
        head: String,
    },
    ChannelRemoved,
    ChannelBroken {
        why: String,
    },
    Circle {
        head: String,
        back: String,
    },
    Range {
        bundle: String,
        before: String,
        after: String,
    },
    ChannelMended {
        head: String,
    },
    Head {
        before: String,
        after: String,
    },
    Upgrade {
        from: Vec<String>,
        before: Option<String>,
        after: Option<String>,
    },
    Stranded {
        from: Vec<String>,
    },
    Led {
        from: Vec<String>,
    },
    KindsGone {
        kinds: Vec<String>,
    },
    BundleAdded {
        bundle: String,
    },
    BundleRemoved {
        bundle: String,
    },
    Image {
        bundle: String,
        before: String,
        after: String,
    },
    Properties {
        bundle: String,
    },
    Deprecated {
        what: String,
        message: String,
    },
    NoLongerDeprecated {
        what: String,
    },
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PackageAdded { default_channel } => {
                write!(f, "the package is new; its default channel is {default_channel}")
            }
            Self::PackageRemoved => f.write_str(
                "the package is gone: OLM resolves nothing any more in namespaces that subscribe to it",
            ),
            Self::DefaultChannel { before, after } => {
                write!(
                    f,
                    "a new Subscription that names no channel begins in {after}, not in {before}"
                )
            }
            Self::ChannelAdded { head } => write!(f, "the channel is new; its head is {head}"),
            Self::ChannelRemoved => f.write_str(
                "the channel is gone: OLM resolves nothing any more in namespaces that subscribe to it",
            ),
            Self::ChannelBroken { why } => write!(f, "nobody is upgraded: {why}"),
            Self::Circle { head, back } => {
                write!(f, "{head} is upgraded to {back}, and up again for ever")
            }
            Self::Range {
                bundle,
                before,
                after,
            } => match (before.as_str(), after.as_str()) {
                (_, "") => write!(
                    f,
                    "whoever has a version in {before:?} is no longer upgraded to {bundle} for that"
                ),
                ("", _) => write!(f, "whoever has a version in {after:?} is upgraded to {bundle}"),
                _ => write!(
                    f,
                    "whoever has a version in {after:?} is upgraded to {bundle}; it was {before:?}"
                ),
            },
            Self::ChannelMended { head } => write!(f, "there are upgrades again; the head is {head}"),
            Self::Head { before, after } => write!(f, "the head is {after}; it was {before}"),
            Self::Upgrade { from, before, after } => {
                write!(f, "{} ", named(from))?;
                match (before, after) {
                    (None, Some(after)) => write!(f, "upgraded to {after}"),
                    (Some(before), Some(after)) => write!(f, "upgraded to {after} next, not to {before}"),
                    (Some(before), None) => write!(f, "upgraded to nothing, and before to {before}"),
                    (None, None) => f.write_str("upgraded to nothing"),
                }
            }
            Self::Stranded { from } => write!(f, "{} not led to the head any more", named(from)),
            Self::Led { from } => write!(f, "{} led to the head now", named(from)),
            Self::KindsGone { kinds } => {
                write!(f, "the head brings no {} any more", kinds.join(", "))
            }
            Self::BundleAdded { bundle } => write!(f, "{bundle} is new"),
            Self::BundleRemoved { bundle } => write!(f, "{bundle} is gone; whoever has it keeps it"),
            Self::Image {
                bundle,
                before,
                after,
            } => write!(
                f,
                "{bundle} has the image {after:?}, not {before:?}: whoever has installed it keeps the other one"
            ),
            Self::Properties { bundle } => {
                write!(
                    f,
                    "{bundle} says something else of itself: properties or related images differ"
                )
            }
            Self::Deprecated { what, message } => write!(f, "{what} is deprecated: {message}"),
            Self::NoLongerDeprecated { what } => write!(f, "{what} is not deprecated any more"),
        }
    }
}

/// `a is`, `a, b are`
fn named(names: &[String]) -> String {
    let verb = if names.len() == 1 { "is" } else { "are" };
    format!("{} {verb}", listed(names.iter().map(String::as_str)))
}

/// What is different, by package: the package's own first, then its channels' and its bundles'.
pub fn changes(old: &View, new: &View) -> Vec<Change> {
    let names: BTreeSet<&String> = old.packages.keys().chain(new.packages.keys()).collect();
    let mut changes = Vec::new();
    for name in names {
        let mut of = Of {
            package: name,
            changes: &mut changes,
        };
        match (old.packages.get(name), new.packages.get(name)) {
            (Some(old), Some(new)) => of.package(old, new),
            (None, Some(new)) => {
                let default_channel = new.default_channel.clone();
                of.tell(None, false, What::PackageAdded { default_channel });
            }
            (_, None) => of.tell(None, true, What::PackageRemoved),
        }
    }
    changes
}

/// The changes of a package.
struct Of<'a> {
    package: &'a str,
    changes: &'a mut Vec<Change>,
}

impl Of<'_> {
    fn tell(&mut self, channel: Option<&str>, takes_away: bool, what: What) {
        self.changes.push(Change {
            package: self.package.to_owned(),
            channel: channel.map(str::to_owned),
            takes_away,
            what,
        });
    }

    fn package(&mut self, old: &Package, new: &Package) {
        if old.default_channel != new.default_channel {
            let (before, after) = (old.default_channel.clone(), new.default_channel.clone());
            self.tell(None, false, What::DefaultChannel { before, after });
        }
        self.deprecation(
            None,
            "the package",
            old.deprecated.as_ref(),
            new.deprecated.as_ref(),
        );
        let names: BTreeSet<&String> = old.channels.keys().chain(new.channels.keys()).collect();
        for name in names {
            match (old.channels.get(name), new.channels.get(name)) {
                (Some(before), Some(after)) => self.channel(name, (old, before), (new, after)),
                (None, Some(added)) => self.channel_added(name, new, added),
                (_, None) => self.tell(Some(name), true, What::ChannelRemoved),
            }
        }
        let names: BTreeSet<&String> = old.bundles.keys().chain(new.bundles.keys()).collect();
        for name in names {
            match (old.bundles.get(name), new.bundles.get(name)) {
                (Some(before), Some(after)) => self.bundle(name, before, after),
                (None, Some(_)) => self.tell(None, false, What::BundleAdded { bundle: name.clone() }),
                (_, None) => self.tell(None, false, What::BundleRemoved { bundle: name.clone() }),
            }
        }
    }

    fn channel(
        &mut self,
        name: &str,
        (old_package, old): (&Package, &Channel),
        (new_package, new): (&Package, &Channel),
    ) {
        self.deprecation(
            Some(name),
            "the channel",
            old.deprecated.as_ref(),
            new.deprecated.as_ref(),
        );
        match (old_package.targets(old), new_package.targets(new)) {
            (Ok(before), Ok(after)) => {
                let (old, new) = (
                    Side::of(old_package, old, &before),
                    Side::of(new_package, new, &after),
                );
                self.head(name, &old, &new);
                self.upgrades(name, &old, &new);
            }
            (Err(_), Ok(after)) => {
                let head = after.head().to_owned();
                self.tell(Some(name), false, What::ChannelMended { head });
            }
            (Err(before), Err(after)) if before == after => {}
            (before, Err(broken)) => {
                let why = broken.to_string();
                self.tell(Some(name), before.is_ok(), What::ChannelBroken { why });
            }
        }
    }

    fn channel_added(&mut self, name: &str, package: &Package, channel: &Channel) {
        let what = match package.targets(channel) {
            Ok(targets) => What::ChannelAdded {
                head: targets.head().to_owned(),
            },
            Err(broken) => What::ChannelBroken {
                why: broken.to_string(),
            },
        };
        self.tell(Some(name), false, what);
    }

    fn head(&mut self, channel: &str, old: &Side<'_>, new: &Side<'_>) {
        let (before, after) = (old.targets.head(), new.targets.head());
        if before != after {
            let versions = old.package.version(before).zip(new.package.version(after));
            let is_lower = versions.is_some_and(|(before, after)| after < before);
            let what = What::Head {
                before: before.to_owned(),
                after: after.to_owned(),
            };
            self.tell(Some(channel), is_lower, what);
        }
        let (was, is) = (old.kinds(), new.kinds());
        let kinds: Vec<String> = was.difference(&is).map(|kind| (*kind).to_owned()).collect();
        if !kinds.is_empty() {
            self.tell(Some(channel), true, What::KindsGone { kinds });
        }
        if let (None, Some(back)) = (old.targets.back(), new.targets.back()) {
            let what = What::Circle {
                head: after.to_owned(),
                back: back.to.to_owned(),
            };
            self.tell(Some(channel), true, what);
        }
    }

    /// The next upgrade of all who may have subscribed, those with the same change together.
    fn upgrades(&mut self, channel: &str, old: &Side<'_>, new: &Side<'_>) {
        type Next = (Option<String>, Option<String>);
        let mut upgrades: BTreeMap<Next, Vec<String>> = BTreeMap::new();
        let (mut stranded, mut led) = (Vec::new(), Vec::new());
        for name in installable(old.package, old.channel) {
            let version = old.package.version(name).or_else(|| new.package.version(name));
            let next = |side: &Side<'_>| side.targets.next(name, version).map(|step| step.to.to_owned());
            let (was, is) = (next(old), next(new));
            if was != is {
                upgrades.entry((was, is)).or_default().push(name.to_owned());
            }
            let is_led = |side: &Side<'_>| side.targets.end(name, version) != End::Stranded;
            match (is_led(old), is_led(new)) {
                (true, false) => stranded.push(name.to_owned()),
                (false, true) => led.push(name.to_owned()),
                _ => {}
            }
        }
        for ((before, after), from) in upgrades {
            self.tell(Some(channel), false, What::Upgrade { from, before, after });
        }
        for (bundle, before, after) in old.other_ranges(new) {
            let strands = strands(old, new, [&before, &after]);
            self.tell(
                Some(channel),
                strands,
                What::Range {
                    bundle,
                    before,
                    after,
                },
            );
        }
        if !stranded.is_empty() {
            self.tell(Some(channel), true, What::Stranded { from: stranded });
        }
        if !led.is_empty() {
            self.tell(Some(channel), false, What::Led { from: led });
        }
    }

    fn bundle(&mut self, name: &str, old: &Bundle, new: &Bundle) {
        let bundle = || name.to_owned();
        if old.facts.image != new.facts.image {
            let (before, after) = (old.facts.image.clone(), new.facts.image.clone());
            let what = What::Image {
                bundle: bundle(),
                before,
                after,
            };
            self.tell(None, true, what);
        }
        if old.facts.digest != new.facts.digest || old.version != new.version {
            self.tell(None, false, What::Properties { bundle: bundle() });
        }
        self.deprecation(None, name, old.deprecated.as_ref(), new.deprecated.as_ref());
    }

    fn deprecation(&mut self, channel: Option<&str>, what: &str, old: Option<&String>, new: Option<&String>) {
        let what = what.to_owned();
        match (old, new) {
            (before, Some(message)) if before != Some(message) => {
                let message = message.clone();
                self.tell(channel, false, What::Deprecated { what, message });
            }
            (Some(_), None) => self.tell(channel, false, What::NoLongerDeprecated { what }),
            _ => {}
        }
    }
}

/// Whether somebody with a version that neither catalog has was upgraded because of one of these ranges, and is not any more: whatever changes for such versions
/// changes at the edges of ranges.
fn strands(old: &Side<'_>, new: &Side<'_>, ranges: [&str; 2]) -> bool {
    let ranges = ranges.into_iter().filter_map(|range| Range::from_str(range).ok());
    let mut edges = ranges.flat_map(|range| range.edges());
    let is_led = |side: &Side<'_>, version: &Version| side.targets.end("", Some(version)) != End::Stranded;
    edges.any(|version| is_led(old, &version) && !is_led(new, &version))
}

/// A channel in one of the two catalogs.
struct Side<'a> {
    package: &'a Package,
    channel: &'a Channel,
    targets: &'a Targets<'a>,
}

impl<'a> Side<'a> {
    fn of(package: &'a Package, channel: &'a Channel, targets: &'a Targets<'a>) -> Self {
        Self {
            package,
            channel,
            targets,
        }
    }

    /// Those of the head.
    fn kinds(&self) -> BTreeSet<&'a str> {
        let head = self.package.bundles.get(self.targets.head());
        let kinds = head.map(|head| head.facts.kinds.iter().map(String::as_str));
        kinds.into_iter().flatten().collect()
    }

    /// The ranges of those who have another one there: who is in them may have a version that neither catalog has.
    fn other_ranges(&self, new: &Self) -> Vec<(String, String, String)> {
        let range = |entry: &Entry| entry.skip_range.clone().unwrap_or_default();
        let is: BTreeMap<&str, String> = new
            .channel
            .entries
            .iter()
            .map(|entry| (entry.name.as_str(), range(entry)))
            .collect();
        let both = self.channel.entries.iter().filter_map(|entry| {
            let (before, after) = (range(entry), is.get(entry.name.as_str())?.clone());
            (before != after).then(|| (entry.name.clone(), before, after))
        });
        both.collect()
    }
}

/// Writes changes, those of a package and channel together; what takes something away is marked.
///
/// # Errors
/// Those of the writer.
pub fn write(out: &mut impl Write, changes: &[Change]) -> io::Result<()> {
    let mut last = None;
    for change in changes {
        let place = (change.package.as_str(), change.channel.as_deref());
        if last != Some(place) {
            match place {
                (package, Some(channel)) => writeln!(out, "{}, channel {}", plain(package), plain(channel))?,
                (package, None) => writeln!(out, "{}", plain(package))?,
            }
        }
        last = Some(place);
        let mark = if change.takes_away { '!' } else { ' ' };
        writeln!(out, "  {mark} {}", plain(&change.what.to_string()))?;
    }
    if changes.is_empty() {
        return writeln!(out, "nothing changes for anybody");
    }
    writeln!(out, "{}", summary(changes))
}

/// `3 changes, 1 of which (!) takes something away`
pub fn summary(changes: &[Change]) -> String {
    let all = counted(changes.len(), "change");
    match changes.iter().filter(|change| change.takes_away).count() {
        0 => all,
        1 => format!("{all}, 1 of which (!) takes something away"),
        harm => format!("{all}, {harm} of which (!) take something away"),
    }
}
