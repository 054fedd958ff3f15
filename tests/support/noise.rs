//! What becomes of bytes that are damaged, or made to do harm.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// What means something to one of the parsers: YAML's and JSON's own signs, numbers that do not fit, names that lead elsewhere.
const WORDS: [&str; 60] = [
    "&a ",
    "*a",
    "<<: *a\n",
    "<<: [*a, *a]\n",
    "!!binary ",
    "!!int ",
    "!!str ",
    "!<tag:x> ",
    "- ",
    "? ",
    ": ",
    "|\n",
    "|9-\n",
    ">+\n",
    "%YAML 1.2\n",
    "%TAG ! x\n",
    "---\n",
    "...\n",
    "\t",
    "\u{feff}",
    "\u{85}",
    "\u{2028}",
    "\0",
    "'",
    "\"",
    "\\",
    "\\u0000",
    "\\ud800",
    "#",
    "{",
    "}",
    "[",
    "]",
    ",",
    "null",
    "~",
    "true",
    ".inf",
    ".nan",
    "0x",
    "1e999",
    "-0.0",
    "18446744073709551616",
    "0644",
    "1:2:3",
    "2001-01-01",
    "../",
    "../../etc/x",
    "/etc/x",
    "manifests/",
    "metadata/",
    "olm.bundle",
    "olm.channel",
    "schema",
    "spec",
    "properties",
    "x-kubernetes-preserve-unknown-fields",
    "$ref",
    "é",
    "sha256:",
];
/// No input is longer, in bytes.
const LONGEST: usize = 128 << 10;

/// One change.
#[derive(Clone, Debug)]
pub enum Spoil {
    /// It ends early.
    Cut(Index),
    /// Some bytes are others.
    Bytes(Vec<(Index, u8)>),
    /// A part is another, of another length.
    Put(Index, u8, &'static str),
    /// A part comes again and again.
    Again(Index, Index, usize),
    /// A word comes so often that it nests.
    Deep(Index, &'static str, usize),
    /// A part has changed its place.
    Moved(Index, Index, Index),
}

/// A few changes, one after the other.
pub fn spoils() -> impl Strategy<Value = Vec<Spoil>> {
    let at = any::<Index>;
    let one = prop_oneof![
        2 => at().prop_map(Spoil::Cut),
        4 => vec((at(), any::<u8>()), 1..6).prop_map(Spoil::Bytes),
        10 => (at(), 0..12_u8, select(&WORDS[..])).prop_map(|(at, instead, word)| Spoil::Put(at, instead, word)),
        3 => (at(), at(), 1..300_usize).prop_map(|(from, to, times)| Spoil::Again(from, to, times)),
        2 => (at(), select(&WORDS[..]), 1..20_000_usize).prop_map(|(at, word, times)| Spoil::Deep(at, word, times)),
        2 => (at(), at(), at()).prop_map(|(from, to, there)| Spoil::Moved(from, to, there)),
    ];
    vec(one, 1..5)
}

pub fn spoilt(sound: &[u8], spoils: &[Spoil]) -> Vec<u8> {
    let mut bytes = sound.to_vec();
    for spoil in spoils {
        // An index is of something
        if bytes.is_empty() {
            bytes.push(b' ');
        }
        spoil.apply(&mut bytes);
        bytes.truncate(LONGEST);
    }
    bytes
}

impl Spoil {
    fn apply(&self, bytes: &mut Vec<u8>) {
        let length = bytes.len();
        match self {
            Self::Cut(at) => bytes.truncate(at.index(length)),
            Self::Bytes(changes) => changes
                .iter()
                .for_each(|(at, byte)| bytes[at.index(length)] = *byte),
            Self::Put(at, instead, word) => {
                let at = at.index(length);
                let end = (at + usize::from(*instead)).min(length);
                bytes.splice(at..end, word.bytes());
            }
            Self::Again(from, to, times) => {
                let (from, to) = (from.index(length), to.index(length));
                let part = bytes[from.min(to)..from.max(to)].to_vec();
                let times = (*times).min(LONGEST / part.len().max(1));
                bytes.splice(from.min(to)..from.min(to), part.repeat(times));
            }
            Self::Deep(at, word, times) => {
                let at = at.index(length);
                let times = (*times).min(LONGEST / word.len());
                bytes.splice(at..at, word.repeat(times).into_bytes());
            }
            Self::Moved(from, to, there) => {
                let (from, to) = (from.index(length), to.index(length));
                let part: Vec<u8> = bytes.drain(from.min(to)..from.max(to)).collect();
                let there = there.index(bytes.len() + 1);
                bytes.splice(there..there, part);
            }
        }
    }
}
