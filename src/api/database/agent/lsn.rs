//! Positions in PostgreSQL's write-ahead log.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A position in the write-ahead log, in bytes since the beginning of its timeline's first ancestor. Printed and read as PostgreSQL does it: `16/B374D848`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

/// What is no position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no position in the write-ahead log; accepted are two numbers in hex such as 16/B374D848")]
pub struct NotLsn(String);

impl Lsn {
    /// How many bytes this is ahead of `other`; none if it is behind.
    pub fn ahead_of(self, other: Self) -> u64 {
        self.0.saturating_sub(other.0)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:X}", self.0 >> 32, self.0 & 0xFFFF_FFFF)
    }
}

impl FromStr for Lsn {
    type Err = NotLsn;

    fn from_str(text: &str) -> Result<Self, NotLsn> {
        let half = |text: &str| u32::from_str_radix(text, 16).map(u64::from).ok();
        let halves = text
            .split_once('/')
            .and_then(|(high, low)| Some((half(high)?, half(low)?)));
        let (high, low) = halves.ok_or_else(|| NotLsn(text.to_owned()))?;
        Ok(Self(high << 32 | low))
    }
}

impl Serialize for Lsn {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Lsn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    proptest! {
        #[test]
        fn what_is_printed_is_read(position: u64) {
            prop_assert_eq!(Lsn(position).to_string().parse(), Ok(Lsn(position)));
        }
    }

    #[test]
    fn it_is_written_as_postgresql_writes_it() {
        assert_eq!(Lsn(0x16_B374_D848).to_string(), "16/B374D848");
        assert_eq!("0/0".parse(), Ok(Lsn(0)));
    }

    #[rstest]
    #[case("")]
    #[case("16")]
    #[case("1/123456789")]
    #[case("g/0")]
    fn what_is_no_position_is_refused_with_what_is(#[case] text: &str) {
        let refusal = text.parse::<Lsn>().unwrap_err().to_string();
        assert!(refusal.contains("16/B374D848"), "{refusal}");
    }
}
