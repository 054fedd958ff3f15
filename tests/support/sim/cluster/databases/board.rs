//! What is so of the instances at this moment, for oracles that look at every write: those are asked while the cluster is at work, and may not ask it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How long it takes at most until what somebody took out of service serves again.
const DISTURBED: Duration = Duration::from_secs(60);

/// A database, by its namespace and name.
pub type Key = (String, String);

/// One database. Instances go by their pods' names.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Those that accept writes.
    pub leading: BTreeSet<String>,
    /// Those that follow the one that does.
    pub streaming: BTreeSet<String>,
    /// PostgreSQL's identifier of the data that is served.
    pub identifier: Option<String>,
    /// Those that have whatever was acknowledged, and in which PostgreSQL runs: they lead, or may take over.
    pub complete: BTreeSet<String>,
}

impl Known {
    /// Those that serve.
    pub fn serving(&self) -> impl Iterator<Item = &String> {
        self.leading.iter().chain(&self.streaming)
    }
}

/// Of all databases. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Board(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    all: BTreeMap<Key, Known>,
    /// When somebody last laid hands on what the operator has made.
    disturbed: Option<Instant>,
}

impl Board {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn put(&self, all: BTreeMap<Key, Known>) {
        for ((_, database), known) in &all {
            assert!(
                known.leading.len() <= 1,
                "{:?} of {database} accept writes at once",
                known.leading
            );
        }
        self.lock().all = all;
    }

    /// Somebody lays hands on what the operator has made.
    pub fn disturb(&self) {
        self.lock().disturbed = Some(Instant::now());
    }

    /// Whether that was so lately that instances may be out of service because of it.
    pub fn is_disturbed(&self) -> bool {
        self.lock().disturbed.is_some_and(|at| at.elapsed() < DISTURBED)
    }

    pub fn of(&self, namespace: &str, database: &str) -> Known {
        let key = (namespace.to_owned(), database.to_owned());
        self.lock().all.get(&key).cloned().unwrap_or_default()
    }

    pub fn all(&self) -> BTreeMap<Key, Known> {
        self.lock().all.clone()
    }
}
