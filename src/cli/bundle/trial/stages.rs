//! What a person sees of something that takes a while on a cluster: a line for each thing that has changed, with the time. Only on a terminal.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IsTerminal as _, Write as _};
use std::time::Instant;

use crate::olm::status::{Chain, Mark, text};

/// Tells on standard error.
pub(super) struct Stages {
    begun: Instant,
    is_seen: bool,
    /// What was told last, by what it was told of.
    told: BTreeMap<String, String>,
    /// What was wrong at the last look. What has only been made is wrong for a moment, and that would only alarm people.
    wrong: BTreeSet<String>,
}

impl Stages {
    pub(super) fn begin() -> Self {
        Self {
            begun: Instant::now(),
            is_seen: io::stderr().is_terminal(),
            told: BTreeMap::new(),
            wrong: BTreeSet::new(),
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
        let was_wrong = std::mem::take(&mut self.wrong);
        for link in &chain.links {
            let name = format!("{} {}", link.kind.title(), link.name);
            if link.mark == Mark::Wrong {
                self.wrong.insert(name.clone());
                if !was_wrong.contains(&name) {
                    continue;
                }
            }
            let line = text::line(chain, link);
            if self.told.get(&name) != Some(&line) {
                self.tell(&line);
                self.told.insert(name, line);
            }
        }
    }
}
