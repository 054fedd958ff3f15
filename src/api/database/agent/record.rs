//! What the instances of a database keep in its Lease: who holds it, and what whoever takes it has to know.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Lsn;

/// The part of the Lease that only instances write. Its holder is in the Lease's own field.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Record {
    /// The name of the instance that holds the Lease or held it last; empty if none ever did.
    pub primary: String,
    /// PostgreSQL's identifier of the data; none before there is any.
    pub system_identifier: Option<String>,
    /// The latest timeline that a holder has begun, or was about to.
    pub timeline: u32,
    /// The instances whose data goes on where the holder's does, however far: that have streamed from it, or had no more when it took the Lease. It is among them.
    pub members: BTreeSet<String>,
    /// What commits wait for. There are several while that is being changed: a commit may have been acknowledged by the rule of any.
    pub quorums: Vec<Quorum>,
    /// Whether commits may have been acknowledged that no replica has.
    pub asynchronous: bool,
    /// How far the holder had flushed when it last renewed the Lease.
    pub flushed: Lsn,
    /// The timeline on which that was; 0 where nobody said so.
    pub flushed_on: u32,
    /// The instance that is to take over in an orderly way, and nobody else while it can.
    pub handover: Option<String>,
    /// What the last holder that lacked something of the log before it may have lacked when it took the Lease: from where, and up to where that log was known
    /// to have been written, which is no less. Commits in it, and after it, may have been acknowledged. None if none ever lacked anything.
    pub missing: Option<(Lsn, Lsn)>,
    /// The timeline that began without it.
    pub missing_since: u32,
    /// The timeline that whoever lacked it was on: it is there that it goes on, or on a later one before `missing_since`.
    pub missing_on: u32,
    /// Since when no write is accepted, if the last holder stopped in order.
    pub stopped: Option<Timestamp>,
}

impl Record {
    /// Whether the instance of this name may take the Lease: its data goes on where the holder's does, or a commit may have been acknowledged because it had it.
    pub fn may_lead(&self, name: &str) -> bool {
        self.members.contains(name) || self.quorums.iter().any(|quorum| quorum.standbys.contains(name))
    }

    /// Everybody else who may take the Lease.
    pub fn others<'a>(&'a self, me: &'a str) -> impl Iterator<Item = &'a str> {
        let of_quorums = self.quorums.iter().flat_map(|quorum| &quorum.standbys);
        let all: BTreeSet<&str> = self
            .members
            .iter()
            .chain(of_quorums)
            .map(String::as_str)
            .collect();
        all.into_iter().filter(move |name| *name != me)
    }
}

/// A commit waits until so many of these have it on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Quorum {
    /// The names of replicas.
    pub standbys: BTreeSet<String>,
    /// How many of them, at least 1.
    pub need: usize,
}

impl Quorum {
    /// Whether among these there must be one that has every commit which this quorum has let through: of N replicas W have it, and R are here, and
    /// R + W > N.
    pub fn overlaps(&self, present: &BTreeSet<&str>) -> bool {
        let here = self
            .standbys
            .iter()
            .filter(|name| present.contains(name.as_str()))
            .count();
        here + self.need > self.standbys.len()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(1, &["b"], &["b"], true)]
    #[case(1, &["b"], &["c"], false)]
    #[case(1, &["b", "c"], &["b"], false)]
    #[case(1, &["b", "c"], &["b", "c"], true)]
    #[case(2, &["b", "c"], &["b"], true)]
    #[case(2, &["b", "c", "d"], &["b", "c"], true)]
    #[case(2, &["b", "c", "d"], &["b", "x"], false)]
    fn who_is_here_has_every_commit_if_readers_and_writers_must_overlap(
        #[case] need: usize,
        #[case] standbys: &[&str],
        #[case] present: &[&str],
        #[case] overlaps: bool,
    ) {
        let standbys = standbys.iter().map(|&name| name.to_owned()).collect();
        let quorum = Quorum { standbys, need };
        assert_eq!(quorum.overlaps(&present.iter().copied().collect()), overlaps);
    }
}
