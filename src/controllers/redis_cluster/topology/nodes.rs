//! What `CLUSTER NODES` says, as Redis 7.0 and 7.2 and Valkey 8 write it. Pure.
//!
//! A line is `ID IP:PORT@BUSPORT[,HOSTNAME[,KEY=VALUE..]] FLAGS PRIMARY PING PONG EPOCH LINK [SLOTS..]`, where times are milliseconds since the Unix epoch.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use super::slots::{Slot, Slots};

/// What Redis calls a node by, as long as its nodes.conf lives: 160 bits, written as 40 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub [u8; 20]);

/// A text that is no [`NodeId`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a node id has 40 hexadecimal digits")]
pub struct NotANodeId;

impl FromStr for NodeId {
    type Err = NotANodeId;

    fn from_str(text: &str) -> Result<Self, NotANodeId> {
        let digits = text.as_bytes();
        let mut id = [0; 20];
        if digits.len() != 2 * id.len() {
            return Err(NotANodeId);
        }
        for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
            for digit in pair {
                *byte = *byte << 4 | hexadecimal(*digit).ok_or(NotANodeId)?;
            }
        }
        Ok(Self(id))
    }
}

/// What a digit is worth. By hand, as 500 nodes that each know 500 say half a million ids at each look.
fn hexadecimal(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for NodeId {
    /// The first eight digits, as logs of Redis are read by people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().take(4).try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// What the flags of a node say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// `myself`: the node that was asked.
    pub myself: bool,
    /// `master`.
    pub primary: bool,
    /// `slave`.
    pub replica: bool,
    /// `fail?`: the node that was asked does not reach it.
    pub suspected: bool,
    /// `fail`: most primaries do not reach it.
    pub failed: bool,
    /// `handshake`: it was met, and has not said who it is; its id is made up until then.
    pub handshake: bool,
    /// `noaddr`: nobody knows its address.
    pub no_address: bool,
    /// `nofailover`: a replica that will not stand for election.
    pub no_failover: bool,
}

/// One line: what a node knows of another, or of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Who.
    pub id: NodeId,
    /// Where; nothing if no address is known.
    pub ip: Option<IpAddr>,
    /// For clients.
    pub port: u16,
    /// What it announces as its name, by `cluster-announce-hostname`.
    pub hostname: Option<String>,
    /// What it is.
    pub flags: Flags,
    /// Whom it replicates.
    pub primary: Option<NodeId>,
    /// When it last answered, since the Unix epoch; nothing if it never did. Always nothing for `myself`.
    pub pong_received: Option<Duration>,
    /// Whoever has the greater one has the slot, where two claim it. That of its primary, for a replica.
    pub config_epoch: u64,
    /// Whether the cluster bus to it is connected.
    pub linked: bool,
    /// Those it owns.
    pub slots: Slots,
    /// Those that it gives away, and to whom. Known of `myself` only.
    pub migrating: BTreeMap<Slot, NodeId>,
    /// Those that it takes over, and from whom. Known of `myself` only.
    pub importing: BTreeMap<Slot, NodeId>,
}

/// What a node knows of its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The line on itself: the truth about its own slots and marks.
    pub myself: Known,
    /// The others.
    pub known: Vec<Known>,
}

impl View {
    /// What it knows of this node, itself included. A node in handshake is not known: its id is made up.
    pub fn of(&self, id: NodeId) -> Option<&Known> {
        self.all().find(|known| known.id == id)
    }

    /// The same of all of them, for whoever looks up many.
    pub fn by_id(&self) -> BTreeMap<NodeId, &Known> {
        // The first one of an id counts, so that it has to be put in last.
        self.all().rev().map(|known| (known.id, known)).collect()
    }

    fn all(&self) -> impl DoubleEndedIterator<Item = &Known> {
        let all = std::iter::once(&self.myself).chain(&self.known);
        all.filter(|known| !known.flags.handshake)
    }
}

/// Why a text is not what `CLUSTER NODES` says. `line` counts from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ViewError {
    /// A part of a line is not what it should be.
    #[error("line {line} of CLUSTER NODES: {found:?} where {expected} was expected")]
    Unexpected {
        /// Where.
        line: usize,
        /// What should be there.
        expected: &'static str,
        /// What is there; empty where the line ends.
        found: String,
    },
    /// Two lines say `myself`.
    #[error("line {line} of CLUSTER NODES is the second one that says myself")]
    Twice {
        /// The second one.
        line: usize,
    },
    /// No line says `myself`.
    #[error("no line of CLUSTER NODES says myself")]
    NoMyself,
}

impl FromStr for View {
    type Err = ViewError;

    fn from_str(text: &str) -> Result<Self, ViewError> {
        let mut myself = None;
        let mut known = Vec::new();
        for (index, line) in text.lines().enumerate() {
            if line.trim().is_empty() {
                continue;
            }
            let line_number = index + 1;
            let node = parse_line(line).map_err(|Unexpected { expected, found }| ViewError::Unexpected {
                line: line_number,
                expected,
                found,
            })?;
            if !node.flags.myself {
                known.push(node);
            } else if myself.replace(node).is_some() {
                return Err(ViewError::Twice { line: line_number });
            }
        }
        let myself = myself.ok_or(ViewError::NoMyself)?;
        Ok(Self { myself, known })
    }
}

/// [`ViewError::Unexpected`] before its line is known.
struct Unexpected {
    expected: &'static str,
    found: String,
}

fn unexpected(expected: &'static str, found: &str) -> Unexpected {
    // A hostile line must not fill the log.
    let found = found.chars().take(80).collect();
    Unexpected { expected, found }
}

fn number<T: FromStr>(expected: &'static str, text: &str) -> Result<T, Unexpected> {
    text.parse().map_err(|_| unexpected(expected, text))
}

fn parse_line(line: &str) -> Result<Known, Unexpected> {
    let mut words = line.split_ascii_whitespace();
    let mut word = |expected| words.next().ok_or_else(|| unexpected(expected, ""));
    let id = node_id(word("a node id")?)?;
    let (ip, port, hostname) = address(word("an address")?)?;
    let flags = flags(word("flags")?)?;
    let primary = match word("the primary's id or -")? {
        "-" => None,
        id => Some(node_id(id)?),
    };
    number::<u64>("the time of a ping in ms", word("the time of a ping in ms")?)?;
    let pong: u64 = number("the time of a pong in ms", word("the time of a pong in ms")?)?;
    let config_epoch = number("a configEpoch", word("a configEpoch")?)?;
    let linked = match word("connected or disconnected")? {
        "connected" => true,
        "disconnected" => false,
        other => return Err(unexpected("connected or disconnected", other)),
    };
    let mut node = Known {
        id,
        ip: ip.filter(|_| !flags.no_address),
        port,
        hostname,
        flags,
        primary,
        pong_received: Some(Duration::from_millis(pong)).filter(|at| !at.is_zero()),
        config_epoch,
        linked,
        slots: Slots::none(),
        migrating: BTreeMap::new(),
        importing: BTreeMap::new(),
    };
    let mut owned: Vec<&str> = Vec::new();
    for word in words {
        match word.strip_prefix('[') {
            Some(mark) => read_mark(mark, &mut node)?,
            None => owned.push(word),
        }
    }
    let expected = "a slot or a range of slots";
    node.slots = number(expected, &owned.join(","))?;
    Ok(node)
}

fn node_id(text: &str) -> Result<NodeId, Unexpected> {
    number("a node id of 40 hexadecimal digits", text)
}

/// `IP:PORT@BUSPORT[,HOSTNAME[,KEY=VALUE..]]`, where an IPv6 address stands without brackets, and no address is an empty one.
fn address(text: &str) -> Result<(Option<IpAddr>, u16, Option<String>), Unexpected> {
    let mut parts = text.split(',');
    let endpoint = parts.next().unwrap_or_default();
    let hostname = parts
        .next()
        .filter(|name| !name.is_empty() && !name.contains('='));
    let (client, bus) = endpoint
        .rsplit_once('@')
        .ok_or_else(|| unexpected("IP:PORT@BUSPORT", text))?;
    number::<u16>("the port of the cluster bus", bus)?;
    let (ip, port) = client
        .rsplit_once(':')
        .ok_or_else(|| unexpected("IP:PORT", text))?;
    let port = number("a port", port)?;
    let ip = match ip {
        "" => None,
        ip => Some(number("an IP address", ip.trim_matches(['[', ']']))?),
    };
    Ok((ip, port, hostname.map(str::to_owned)))
}

fn flags(text: &str) -> Result<Flags, Unexpected> {
    let mut flags = Flags::default();
    for flag in text.split(',') {
        match flag {
            "myself" => flags.myself = true,
            "master" => flags.primary = true,
            "slave" => flags.replica = true,
            "fail?" => flags.suspected = true,
            "fail" => flags.failed = true,
            "handshake" => flags.handshake = true,
            "noaddr" => flags.no_address = true,
            "nofailover" => flags.no_failover = true,
            "noflags" => (),
            other => return Err(unexpected("a flag", other)),
        }
    }
    Ok(flags)
}

/// `SLOT->-ID]` or `SLOT-<-ID]`.
fn read_mark(mark: &str, node: &mut Known) -> Result<(), Unexpected> {
    let wrong = || unexpected("[SLOT->-ID] or [SLOT-<-ID]", mark);
    let body = mark.strip_suffix(']').ok_or_else(wrong)?;
    let (slot, id, marks) = if let Some((slot, id)) = body.split_once("->-") {
        (slot, id, &mut node.migrating)
    } else if let Some((slot, id)) = body.split_once("-<-") {
        (slot, id, &mut node.importing)
    } else {
        return Err(wrong());
    };
    marks.insert(number("a slot", slot)?, node_id(id)?);
    Ok(())
}

#[cfg(test)]
#[path = "nodes_tests.rs"]
mod tests;
