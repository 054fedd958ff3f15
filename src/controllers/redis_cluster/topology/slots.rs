//! Hash slots, and sets of them as Redis writes them: `0-5460,10923`. Pure.

use std::fmt;
use std::str::FromStr;

/// How many hash slots a Redis Cluster has.
pub const SLOTS: u16 = 16384;

/// A hash slot, below [`SLOTS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(u16);

impl Slot {
    /// Its number.
    pub fn number(self) -> u16 {
        self.0
    }
}

impl TryFrom<u16> for Slot {
    type Error = SlotError;

    fn try_from(number: u16) -> Result<Self, SlotError> {
        if number < SLOTS {
            Ok(Self(number))
        } else {
            Err(SlotError::OutOfRange(number.to_string()))
        }
    }
}

impl FromStr for Slot {
    type Err = SlotError;

    fn from_str(text: &str) -> Result<Self, SlotError> {
        // `u16::from_str` takes a sign, which Redis never writes.
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(SlotError::NotANumber(text.to_owned()));
        }
        let number: u16 = text.parse().map_err(|_| SlotError::OutOfRange(text.to_owned()))?;
        Self::try_from(number)
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Why a text is not a slot, or not a set of them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SlotError {
    /// Not decimal digits.
    #[error("{0:?} is not a slot number")]
    NotANumber(String),
    /// [`SLOTS`] or more.
    #[error("slot {0} is not below {SLOTS}")]
    OutOfRange(String),
    /// A range that ends before it begins.
    #[error("the range {0:?} ends before it begins")]
    Backwards(String),
}

/// A set of slots. Held as ranges, since a shard has few of them and thousands of slots.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slots {
    /// First and last of each: ascending, neither overlapping nor touching.
    ranges: Vec<(u16, u16)>,
}

impl Slots {
    /// None.
    pub const fn none() -> Self {
        Self { ranges: Vec::new() }
    }

    /// Each there is.
    pub fn all() -> Self {
        Self {
            ranges: vec![(0, SLOTS - 1)],
        }
    }

    /// From `first` to `last`, both included; none if they are the wrong way round.
    pub fn range(first: Slot, last: Slot) -> Self {
        Self::normal(vec![(first.0, last.0)])
    }

    fn normal(mut ranges: Vec<(u16, u16)>) -> Self {
        ranges.retain(|(first, last)| first <= last);
        ranges.sort_unstable();
        let mut merged: Vec<(u16, u16)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match merged.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
                _ => merged.push((first, last)),
            }
        }
        Self { ranges: merged }
    }

    /// How many.
    pub fn len(&self) -> u16 {
        self.ranges.iter().map(|(first, last)| last - first + 1).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Whether this one is among them.
    pub fn contains(&self, slot: Slot) -> bool {
        let after = self.ranges.partition_point(|(first, _)| *first <= slot.0);
        after
            .checked_sub(1)
            .and_then(|index| self.ranges.get(index))
            .is_some_and(|(_, last)| slot.0 <= *last)
    }

    /// Puts one in.
    pub fn insert(&mut self, slot: Slot) {
        if !self.contains(slot) {
            *self = self.union(&Self::range(slot, slot));
        }
    }

    /// Takes one out.
    pub fn remove(&mut self, slot: Slot) {
        *self = self.difference(&Self::range(slot, slot));
    }

    /// One after another, ascending.
    pub fn iter(&self) -> impl Iterator<Item = Slot> + '_ {
        self.ranges
            .iter()
            .flat_map(|(first, last)| (*first..=*last).map(Slot))
    }

    /// First and last of each range, ascending, as ADDSLOTSRANGE takes them.
    pub fn ranges(&self) -> impl Iterator<Item = (Slot, Slot)> + '_ {
        self.ranges
            .iter()
            .map(|(first, last)| (Slot(*first), Slot(*last)))
    }

    /// Those in either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self::normal(self.ranges.iter().chain(&other.ranges).copied().collect())
    }

    /// Those in this one that are not in the other.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let mut left = Vec::new();
        let mut cuts = other.ranges.iter().peekable();
        for &(first, last) in &self.ranges {
            let mut from = first;
            while cuts.next_if(|cut| cut.1 < from).is_some() {}
            // A cut may reach into the next range as well, so it is only looked at here.
            let mut ahead = cuts.clone();
            while let Some(cut) = ahead.next_if(|cut| cut.0 <= last) {
                if cut.0 > from {
                    left.push((from, cut.0 - 1));
                }
                from = from.max(cut.1 + 1);
            }
            if from <= last {
                left.push((from, last));
            }
        }
        Self { ranges: left }
    }

    /// Those in both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.difference(&self.difference(other))
    }

    /// Whether all of them are in the other.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.difference(other).is_empty()
    }

    /// The lowest of them, as many as asked for or as there are.
    #[must_use]
    pub fn lowest(&self, count: u16) -> Self {
        let mut rest = count;
        let mut taken = Vec::new();
        for &(first, last) in &self.ranges {
            let size = (last - first + 1).min(rest);
            if size == 0 {
                break;
            }
            taken.push((first, first + size - 1));
            rest -= size;
        }
        Self { ranges: taken }
    }
}

impl FromIterator<Slot> for Slots {
    fn from_iter<I: IntoIterator<Item = Slot>>(slots: I) -> Self {
        Self::normal(slots.into_iter().map(|slot| (slot.0, slot.0)).collect())
    }
}

impl FromStr for Slots {
    type Err = SlotError;

    /// Ranges and single slots, parted by commas, in any order. An empty text is the empty set.
    fn from_str(text: &str) -> Result<Self, SlotError> {
        let parts = text.split(',').filter(|_| !text.is_empty());
        let ranges = parts.map(parse_range).collect::<Result<_, _>>()?;
        Ok(Self::normal(ranges))
    }
}

fn parse_range(text: &str) -> Result<(u16, u16), SlotError> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last): (Slot, Slot) = (first.parse()?, last.parse()?);
    if first > last {
        return Err(SlotError::Backwards(text.to_owned()));
    }
    Ok((first.0, last.0))
}

impl fmt::Display for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (first, last)) in self.ranges.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            if first == last {
                write!(f, "{comma}{first}")?;
            } else {
                write!(f, "{comma}{first}-{last}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slots({self})")
    }
}

/// How many slots each of `shards` shards is to have. They differ by one at most; the first ones have more. Empty for no shards.
pub fn even_counts(shards: u16) -> Vec<u16> {
    let (Some(each), Some(more)) = (SLOTS.checked_div(shards), SLOTS.checked_rem(shards)) else {
        return Vec::new();
    };
    (0..shards).map(|shard| each + u16::from(shard < more)).collect()
}

/// Which slots each of `shards` shards has in a new cluster: shard after shard, so that two runs of an interrupted bootstrap say the same.
pub fn even_shares(shards: u16) -> Vec<Slots> {
    let mut rest = Slots::all();
    let take = |count| {
        let share = rest.lowest(count);
        rest = rest.difference(&share);
        share
    };
    even_counts(shards).into_iter().map(take).collect()
}

#[cfg(test)]
#[path = "slots_tests.rs"]
mod tests;
