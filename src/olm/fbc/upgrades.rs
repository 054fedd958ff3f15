//! Who is upgraded to whom within a channel, as OLM's resolver decides it.
//!
//! What may be installed are the entries on the chain of `replaces` from the head down, but for those that another one skips. Whoever has a bundle
//! is upgraded to the first of them, from the head, that replaces it, skips it, or has its version in `skipRange`, and to nothing if that is what they
//! have (OLM, `getSubscriptionVariables` and `sortChannel`). operator-registry refuses a channel in which something that nothing skips comes after an entry
//! that is skipped, so the chain ends at such an entry here; a circle beyond it counts all the same, since OLM fails on it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use semver::Version;
use serde::Serialize;

use super::blob::Entry;
use super::range::Range;
use crate::olm::findings::listed;

/// Who replaces and skips whom in a channel. Of entries of one name the first counts.
#[derive(Debug)]
pub struct Upgrades<'a> {
    entries: BTreeMap<&'a str, &'a Entry>,
    replaced: BTreeSet<&'a str>,
    skipped: BTreeSet<&'a str>,
}

/// Why nobody is upgraded in a channel: OLM fails on all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Broken<'a> {
    /// Each entry is replaced or skipped.
    NoHead,
    /// Several are neither.
    Heads(Vec<&'a str>),
    /// `replaces` leads back to where it was.
    Circle(Vec<&'a str>),
}

impl fmt::Display for Broken<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoHead => f.write_str("it has no head: each entry is replaced or skipped"),
            Self::Heads(heads) => {
                write!(
                    f,
                    "it has {} heads: {}",
                    heads.len(),
                    listed(heads.iter().copied())
                )
            }
            Self::Circle(way) => {
                write!(f, "replaces leads in a circle: {}", listed(way.iter().copied()))
            }
        }
    }
}

impl<'a> Upgrades<'a> {
    /// Reads the entries of a channel.
    pub fn of<E: AsRef<Entry>>(entries: &'a [E]) -> Self {
        let mut upgrades = Self {
            entries: BTreeMap::new(),
            replaced: BTreeSet::new(),
            skipped: BTreeSet::new(),
        };
        for entry in entries.iter().map(AsRef::as_ref) {
            upgrades.entries.entry(&entry.name).or_insert(entry);
            upgrades.replaced.extend(replaces(entry));
            upgrades.skipped.extend(entry.skips.iter().map(String::as_str));
        }
        upgrades
    }

    /// The entries that nothing replaces or skips, by name; `skipRange` plays no part.
    fn heads(&self) -> Vec<&'a Entry> {
        let is_head = |name: &str| !self.replaced.contains(name) && !self.skipped.contains(name);
        let heads = self.entries.iter().filter(|(name, _)| is_head(name));
        heads.map(|(_, entry)| *entry).collect()
    }

    /// Whether an entry skips that one.
    pub fn skips(&self, name: &str) -> bool {
        self.skipped.contains(name)
    }

    /// What a new subscriber gets.
    ///
    /// # Errors
    /// [`Broken::NoHead`], [`Broken::Heads`]
    pub fn head(&self) -> Result<&'a Entry, Broken<'a>> {
        let heads = self.heads();
        match heads[..] {
            [] => Err(Broken::NoHead),
            [head] => Ok(head),
            _ => Err(Broken::Heads(
                heads.iter().map(|head| head.name.as_str()).collect(),
            )),
        }
    }

    /// What may be installed, the head first.
    ///
    /// # Errors
    /// See [`Broken`].
    pub fn chain(&self) -> Result<Vec<&'a Entry>, Broken<'a>> {
        let mut way = vec![self.head()?];
        let mut reached: BTreeSet<&str> = way.iter().map(|head| head.name.as_str()).collect();
        while let Some(next) = way
            .last()
            .and_then(|last| self.entries.get(replaces(last)?).copied())
        {
            if !reached.insert(&next.name) {
                let names = way.iter().map(|entry| entry.name.as_str());
                let circle = names.skip_while(|name| *name != next.name);
                return Err(Broken::Circle(circle.chain([next.name.as_str()]).collect()));
            }
            way.push(next);
        }
        way.truncate(way.iter().take_while(|entry| !self.skips(&entry.name)).count());
        Ok(way)
    }

    /// What subscribers are upgraded to. `version_of` tells the versions of bundles; one without is in no range.
    ///
    /// # Errors
    /// See [`Broken`].
    pub fn targets<'v>(
        &self,
        version_of: impl Fn(&str) -> Option<&'v Version>,
    ) -> Result<Targets<'a>, Broken<'a>> {
        Ok(Targets::of(&self.chain()?, version_of))
    }
}

fn replaces(entry: &Entry) -> Option<&str> {
    entry.replaces.as_deref().filter(|name| !name.is_empty())
}

/// What subscribers of a channel are upgraded to, the head first. There is at least the head. Each but the head is replaced by the one before, so whoever gets to
/// one of them gets to the head; and if the head is upgraded, too, to one below it then, that never ends.
#[derive(Debug)]
pub struct Targets<'a> {
    all: Vec<Target<'a>>,
    /// Their places by their names.
    places: BTreeMap<&'a str, usize>,
    /// The first that names a bundle, by the bundle.
    named: BTreeMap<&'a str, Next<'a>>,
    /// What the head is upgraded to.
    back: Option<Next<'a>>,
}

#[derive(Debug)]
struct Target<'a> {
    name: &'a str,
    range: Option<(&'a str, Range)>,
    /// What it is upgraded to.
    next: Option<Next<'a>>,
}

/// A target by its place, and why it is that one.
type Next<'a> = (usize, Because<'a>);

/// One upgrade.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Step<'a> {
    /// The bundle that it leads to.
    pub to: &'a str,
    /// Why it is this one.
    #[serde(flatten)]
    pub because: Because<'a>,
}

/// Why a bundle is upgraded to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "because", content = "range")]
pub enum Because<'a> {
    /// `replaces` names it.
    Replaces,
    /// `skips` names it.
    Skips,
    /// `skipRange` has its version.
    SkipRange(&'a str),
}

impl fmt::Display for Because<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Replaces => f.write_str("replaces"),
            Self::Skips => f.write_str("skips"),
            Self::SkipRange(range) => write!(f, "skipRange {range}"),
        }
    }
}

/// The upgrades of a subscriber, one after the other.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Path<'a> {
    /// In their order.
    pub steps: Vec<Step<'a>>,
    /// Where they end.
    pub end: End,
}

/// Where the upgrades of a subscriber end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum End {
    /// At the head.
    Head,
    /// Where they begin: nothing takes over what is installed.
    Stranded,
    /// Never: they come back to where they were.
    Circle,
}

impl<'a> Targets<'a> {
    fn of<'v>(chain: &[&'a Entry], version_of: impl Fn(&str) -> Option<&'v Version>) -> Self {
        let mut named = BTreeMap::new();
        for (place, &entry) in chain.iter().enumerate() {
            let replaced = replaces(entry).map(|name| (name, Because::Replaces));
            let skipped = entry.skips.iter().map(|name| (name.as_str(), Because::Skips));
            for (name, because) in replaced.into_iter().chain(skipped) {
                named.entry(name).or_insert((place, because));
            }
        }
        let target = |entry: &&'a Entry| Target {
            name: &entry.name,
            // One that cannot be read is among the findings, and OLM could not read it either
            range: entry
                .skip_range
                .as_deref()
                .and_then(|text| Some((text, text.parse().ok()?))),
            next: None,
        };
        let names = chain.iter().map(|entry| entry.name.as_str());
        let mut targets = Self {
            all: chain.iter().map(target).collect(),
            places: names.enumerate().map(|(place, name)| (name, place)).collect(),
            named,
            back: None,
        };
        let all = targets.all.iter();
        let next: Vec<_> = all
            .map(|target| targets.find(target.name, version_of(target.name)))
            .collect();
        targets.back = next.first().copied().flatten();
        for (target, next) in targets.all.iter_mut().zip(next) {
            target.next = next;
        }
        targets
    }

    /// What a new subscriber gets.
    pub fn head(&self) -> &'a str {
        self.all.first().map_or("", |head| head.name)
    }

    /// Whether somebody may be given that bundle.
    pub fn has(&self, name: &str) -> bool {
        self.places.contains_key(name)
    }

    /// What the head is upgraded to: something below it, which has the head's version in its range, so that nobody ever comes to rest.
    pub fn back(&self) -> Option<Step<'a>> {
        self.step(self.back?)
    }

    /// What a bundle is upgraded to next.
    pub fn next(&self, name: &str, version: Option<&Version>) -> Option<Step<'a>> {
        self.step(self.find(name, version)?)
    }

    /// Where the upgrades of a bundle end.
    pub fn end(&self, name: &str, version: Option<&Version>) -> End {
        match self.find(name, version) {
            None if name != self.head() => End::Stranded,
            _ if self.back.is_some() => End::Circle,
            _ => End::Head,
        }
    }

    /// The upgrades of a bundle. Where they lead in a circle, they end with the first that was there before.
    pub fn path(&self, name: &str, version: Option<&Version>) -> Path<'a> {
        let mut steps: Vec<Step<'a>> = Vec::new();
        let mut seen = BTreeSet::from([name]);
        let mut next = self.find(name, version);
        while let Some(step) = next.and_then(|next| self.step(next)) {
            steps.push(step);
            if !seen.insert(step.to) {
                break;
            }
            next = next.and_then(|(place, _)| self.all.get(place)?.next);
        }
        let end = self.end(name, version);
        Path { steps, end }
    }

    fn step(&self, (place, because): Next<'a>) -> Option<Step<'a>> {
        let to = self.all.get(place)?.name;
        Some(Step { to, because })
    }

    /// The first target, from the head, that takes a bundle over; none if that is the bundle itself, which stays then.
    fn find(&self, name: &str, version: Option<&Version>) -> Option<Next<'a>> {
        let named = self.named.get(name).copied();
        let before = named.map_or(self.all.len(), |(place, _)| place);
        let in_range = version.and_then(|version| {
            self.all[..before].iter().enumerate().find_map(|(place, target)| {
                let (text, range) = target.range.as_ref()?;
                range
                    .contains(version)
                    .then_some((place, Because::SkipRange(text)))
            })
        });
        let own = self.places.get(name);
        in_range.or(named).filter(|(place, _)| own != Some(place))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    /// `name <- replaces, skipped, skipped [range]`, an entry in each line.
    fn entries(text: &str) -> Vec<Entry> {
        let entry = |line: &str| {
            let (line, range) = match line.split_once('[') {
                Some((line, range)) => (line, Some(range.trim_end_matches(']').to_owned())),
                None => (line, None),
            };
            let (name, others) = line.split_once("<-").unwrap_or((line, ""));
            let mut others = others.split(',').map(|name| name.trim().to_owned());
            Entry {
                name: name.trim().to_owned(),
                replaces: others.next().filter(|name| !name.is_empty()),
                skips: others.collect(),
                skip_range: range,
            }
        };
        text.lines().map(entry).collect()
    }

    /// The version in a name: `v1.2` is 1.2.0.
    fn version(name: &str) -> Option<Version> {
        format!("{}.0", name.strip_prefix('v')?).parse().ok()
    }

    fn way(channel: &str, from: &str) -> String {
        let entries = entries(channel);
        let versions: BTreeMap<&str, Version> = entries
            .iter()
            .filter_map(|entry| Some((entry.name.as_str(), version(&entry.name)?)))
            .collect();
        let targets = Upgrades::of(&entries).targets(|name| versions.get(name)).unwrap();
        let path = targets.path(from, version(from).as_ref());
        let steps = path
            .steps
            .iter()
            .map(|step| format!("{} ({})", step.to, step.because));
        steps
            .chain([format!("{:?}", path.end)])
            .collect::<Vec<_>>()
            .join(", ")
    }

    #[rstest]
    #[case(
        "v1.2 <- v1.1\nv1.1 <- v1.0\nv1.0",
        "v1.0",
        "v1.1 (replaces), v1.2 (replaces), Head"
    )]
    #[case("v1.2 <- v1.1\nv1.1 <- v1.0\nv1.0", "v1.2", "Head")]
    #[case("v1.2 <- v1.0, v1.1\nv1.1 <- v1.0\nv1.0", "v1.0", "v1.2 (replaces), Head")]
    #[case("v1.2 <- v1.0, v1.1\nv1.1\nv1.0", "v1.1", "v1.2 (skips), Head")]
    // The head comes first, so that a range leads past what replaces
    #[case(
        "v1.2 <- v1.1 [<1.2.0]\nv1.1 <- v1.0\nv1.0",
        "v1.0",
        "v1.2 (skipRange <1.2.0), Head"
    )]
    #[case(
        "v1.2 <- v1.1 [>=1.1.0 <1.2.0]\nv1.1 <- v1.0\nv1.0",
        "v1.0",
        "v1.1 (replaces), v1.2 (replaces), Head"
    )]
    // Whoever comes from elsewhere
    #[case(
        "v1.2 <- v1.1\nv1.1 <- v1.0",
        "v1.0",
        "v1.1 (replaces), v1.2 (replaces), Head"
    )]
    #[case("v1.2 <- v1.1\nv1.1", "v0.9", "Stranded")]
    #[case("v1.2 <- v1.1 [<1.2.0]\nv1.1", "v0.9", "v1.2 (skipRange <1.2.0), Head")]
    // A range that has what is higher, too, leads back
    #[case(
        "v1.2 <- v1.1\nv1.1 <- v1.0 [>=1.0.0 <2.0.0]\nv1.0",
        "v1.2",
        "v1.1 (skipRange >=1.0.0 <2.0.0), v1.2 (replaces), Circle"
    )]
    // One that has itself does not, even above such a one
    #[case("v1.2 <- v1.1 [<2.0.0]\nv1.1", "v1.2", "Head")]
    #[case(
        "v1.2 <- v1.1 [>=1.0.0 <2.0.0]\nv1.1 <- v1.0 [>=1.0.0 <2.0.0]\nv1.0",
        "v1.2",
        "Head"
    )]
    fn a_subscriber_is_led_to_the_head(#[case] channel: &str, #[case] from: &str, #[case] expected: &str) {
        assert_eq!(way(channel, from), expected);
    }

    #[rstest]
    #[case("a <- b\nc <- b\nb", Broken::Heads(vec!["a", "c"]))]
    #[case("a <- b\nb <- a", Broken::NoHead)]
    #[case("a <- b\nb <- c\nc <- d\nd <- b", Broken::Circle(vec!["b", "c", "d", "b"]))]
    #[case("a <- a", Broken::NoHead)]
    // opm looks no further than the first that is skipped, and OLM does
    #[case("a <- b, b, c\nb <- c\nc <- b", Broken::Circle(vec!["b", "c", "b"]))]
    fn nobody_is_upgraded_in_a_channel_that_has_no_order(
        #[case] channel: &str,
        #[case] why: Broken<'static>,
    ) {
        assert_eq!(Upgrades::of(&entries(channel)).chain().err(), Some(why));
    }

    /// OLM's own way to the same: all that is there in order, or nothing where it fails (`sortChannel`); of that what takes over (`ReplacesPredicate`,
    /// `SkipRangeIncludesPredicate`); and of that the first, which changes nothing where it is what there is.
    fn olm(entries: &[Entry], from: &str, version: Option<&Version>) -> Result<Option<String>, ()> {
        let by_name: BTreeMap<&str, &Entry> = entries.iter().map(|it| (it.name.as_str(), it)).collect();
        let behind = |name: &str| {
            let mut all = entries.iter();
            all.any(|it| it.replaces.as_deref() == Some(name) || it.skips.iter().any(|skip| skip == name))
        };
        let heads: Vec<&Entry> = entries.iter().filter(|it| !behind(&it.name)).collect();
        let [head] = heads[..] else { return Err(()) };
        let is_skipped = |name: &str| entries.iter().any(|it| it.skips.iter().any(|skip| skip == name));
        let (mut order, mut visited, mut current) = (Vec::new(), BTreeSet::new(), head);
        loop {
            visited.insert(&current.name);
            if !is_skipped(&current.name) {
                order.push(current);
            }
            let Some(next) = current.replaces.as_deref().and_then(|name| by_name.get(name)) else {
                break;
            };
            if visited.contains(&next.name) {
                return Err(());
            }
            current = next;
        }
        let takes_over = |it: &&&Entry| {
            let range: Option<Range> = it.skip_range.as_deref().map(|range| range.parse().unwrap());
            let in_range = range
                .zip(version)
                .is_some_and(|(range, version)| range.contains(version));
            in_range || it.replaces.as_deref() == Some(from) || it.skips.iter().any(|skip| skip == from)
        };
        let first = order.iter().find(takes_over).map(|it| it.name.clone());
        Ok(first.filter(|name| name != from))
    }

    type Link = (Option<usize>, Vec<usize>, Option<(u64, u64)>);

    fn link() -> impl Strategy<Value = Link> {
        let range = prop::option::of((0_u64..9, 0_u64..9));
        (
            prop::option::of(0_usize..9),
            prop::collection::vec(0_usize..9, 0..3),
            range,
        )
    }

    proptest! {
        #[test]
        fn what_is_next_is_what_olm_would_install(links in prop::collection::vec(link(), 1..9)) {
            let name = |index: usize| format!("v1.{index}");
            let entries: Vec<Entry> = links.iter().enumerate().map(|(index, (replaces, skips, range))| Entry {
                name: name(index),
                replaces: replaces.map(name),
                skips: skips.iter().copied().map(name).collect(),
                skip_range: range.map(|(from, to)| format!(">=1.{from}.0 <1.{to}.0")),
            }).collect();
            let versions: BTreeMap<String, Version> = (0..9).map(name).filter_map(|it| Some((it.clone(), version(&it)?))).collect();
            let upgrades = Upgrades::of(&entries);
            let targets = upgrades.targets(|name| versions.get(name));
            // What opm refuses need not be told as OLM would take it
            let is_refused = targets.as_ref().is_ok_and(|targets| {
                entries.iter().any(|it| !targets.has(&it.name) && !upgrades.skips(&it.name))
            });
            prop_assume!(!is_refused);
            for (from, version) in &versions {
                let next = targets.as_ref().map_err(|_| ()).map(|targets| {
                    targets.next(from, Some(version)).map(|step| step.to.to_owned())
                });
                prop_assert_eq!(next, olm(&entries, from, Some(version)), "from {} in {:?}", from, entries);
            }
            let Ok(targets) = targets else { return Ok(()) };
            for (from, version) in &versions {
                let path = targets.path(from, Some(version));
                let last = path.steps.last().map_or(from.as_str(), |step| step.to);
                match path.end {
                    End::Head => prop_assert_eq!(last, targets.head()),
                    End::Stranded => prop_assert!(path.steps.is_empty() && last != targets.head()),
                    End::Circle => prop_assert!(targets.back().is_some()),
                }
            }
        }
    }
}
