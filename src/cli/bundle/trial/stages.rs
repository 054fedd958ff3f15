//! What a person sees of something that takes a while on a cluster: a line for each thing that has changed, with the time. Only on a terminal.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::Instant;

use crate::olm::status::{Chain, text};

/// Tells on standard error.
pub(super) struct Stages {
    begun: Instant,
    is_seen: bool,
    /// What was told last, by what it was told of.
    told: BTreeMap<String, String>,
}

impl Stages {
    pub(super) fn begin() -> Self {
        Self {
            begun: Instant::now(),
            is_seen: io::stderr().is_terminal(),
            told: BTreeMap::new(),
        }
    }

    /// A line, with how long it took to come to it.
    pub(super) fn tell(&self, line: &str) {
        if self.is_seen {
            let seconds = self.begun.elapsed().as_secs();
            // Who cannot be told anything goes on all the same
            let _ = writeln!(io::stderr().lock(), "{seconds:>4} s  {line}");
        }
    }

    /// What is different from what was told last.
    pub(super) fn follow(&mut self, chain: &Chain) {
        for link in &chain.links {
            let name = format!("{} {}", link.kind.title(), link.name);
            let line = text::line(chain, link);
            if self.told.get(&name) != Some(&line) {
                self.tell(&line);
                self.told.insert(name, line);
            }
        }
    }
}
