//! Objects, their versions, and the history that watches read.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use roadstead::runtime::clock::Clock;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::kinds::{Kind, named};
use super::selector::Selector;
use super::status::Refusal;

/// How many changes watches can go back; after that they have to list again.
const HISTORY: usize = 1000;

/// Which object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    pub kind: &'static str,
    pub namespace: String,
    pub name: String,
}

impl Id {
    pub fn new(kind: &Kind, namespace: &str, name: &str) -> Self {
        Self {
            kind: kind.kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    pub fn kind(&self) -> &'static Kind {
        named(self.kind)
    }
}

/// The step of one object from one version to the next.
#[derive(Clone, Debug)]
pub struct Change {
    pub version: u64,
    pub id: Id,
    /// `None` when it was created by this.
    pub old: Option<Arc<Value>>,
    /// `None` when it was deleted by this.
    pub new: Option<Arc<Value>>,
    pub at: Instant,
}

/// Objects by their kind, namespace and name. None is ever changed in its place: whoever holds one shares it with the history.
pub type Objects = BTreeMap<Id, Arc<Value>>;

/// A list that is being read in pages, as it was when that began.
struct Pages {
    version: u64,
    left: VecDeque<Arc<Value>>,
}

/// What an API server keeps.
pub struct Store {
    objects: Objects,
    version: u64,
    newest_but_leases: u64,
    made: u64,
    history: VecDeque<Change>,
    /// The version up to which changes are forgotten.
    forgotten: u64,
    pages: BTreeMap<String, Pages>,
    invariants: Vec<Invariant>,
    /// Who asked for what is being done; nobody while the models are at work.
    user: String,
    pub clock: Clock,
}

/// Something that has to be true after every change: it panics when it is not.
type Invariant = Box<dyn FnMut(&Store) + Send>;

impl Store {
    pub fn new(clock: Clock) -> Self {
        Self {
            objects: BTreeMap::new(),
            // A cluster that is not new: version 1 belongs to no object.
            version: 1000,
            newest_but_leases: 1000,
            made: 0,
            history: VecDeque::new(),
            forgotten: 1000,
            pages: BTreeMap::new(),
            invariants: Vec::new(),
            user: String::new(),
            clock,
        }
    }

    /// The time of day, to the second, as objects have it.
    pub fn now(&self) -> String {
        self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    pub fn version(&self) -> u64 {
        self.version
    }

    /// The version of the last change of anything but a lease.
    pub fn newest_but_leases(&self) -> u64 {
        self.newest_but_leases
    }

    /// A number that nobody else gets.
    pub fn number(&mut self) -> u64 {
        self.made += 1;
        self.made
    }

    pub fn new_uid(&mut self) -> String {
        format!("00000000-0000-4000-8000-{:012x}", self.number())
    }

    pub fn get(&self, id: &Id) -> Option<&Arc<Value>> {
        self.objects.get(id)
    }

    /// Those of a kind, in one namespace or in all, sorted by namespace and name.
    pub fn of_kind<'a>(
        &'a self,
        kind: &'static Kind,
        namespace: Option<&'a str>,
    ) -> impl Iterator<Item = (&'a Id, &'a Arc<Value>)> {
        let first = Id::new(kind, "", "");
        let of_kind = self
            .objects
            .range(first..)
            .take_while(move |(id, _)| id.kind == kind.kind);
        of_kind.filter(move |(id, _)| namespace.is_none_or(|namespace| id.namespace == namespace))
    }

    pub fn all(&self) -> impl Iterator<Item = (&Id, &Arc<Value>)> {
        self.objects.iter()
    }

    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// Stores an object, or removes it; returns it with its new version.
    pub fn commit(&mut self, id: &Id, object: Value, stays: bool) -> Arc<Value> {
        self.version += 1;
        if id.kind != "Lease" {
            self.newest_but_leases = self.version;
        }
        let mut object = object;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let object = Arc::new(object);
        let old = self.objects.remove(id);
        if stays {
            self.objects.insert(id.clone(), Arc::clone(&object));
        }
        // Of a deletion, watches get the last state under the version of the deletion.
        let old = if stays { old } else { Some(Arc::clone(&object)) };
        self.history.push_back(Change {
            version: self.version,
            id: id.clone(),
            old,
            new: stays.then(|| Arc::clone(&object)),
            at: Instant::now(),
        });
        if self.history.len() > HISTORY
            && let Some(oldest) = self.history.pop_front()
        {
            self.forgotten = oldest.version;
        }
        let mut invariants = std::mem::take(&mut self.invariants);
        invariants.iter_mut().for_each(|holds| holds(self));
        self.invariants = invariants;
        object
    }

    /// The last change.
    pub fn last(&self) -> Option<&Change> {
        self.history.back()
    }

    /// Who asked for it; empty while the models are at work.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Does something in somebody's name.
    pub fn as_user<T>(&mut self, user: &str, step: impl FnOnce(&mut Self) -> T) -> T {
        user.clone_into(&mut self.user);
        let done = step(self);
        self.user.clear();
        done
    }

    /// From here on `holds` is looked at after every change.
    pub fn always(&mut self, holds: impl FnMut(&Self) + Send + 'static) {
        self.invariants.push(Box::new(holds));
    }

    /// Forgets all that happened, as a compaction does: whoever watches from before, or reads a list in pages, has to list again.
    pub fn forget_history(&mut self) {
        self.history.clear();
        self.forgotten = self.version;
        self.pages.clear();
    }

    /// The changes of a kind after `version`, or a refusal if they are forgotten.
    pub fn changes_after(&self, kind: &Kind, version: u64) -> Result<impl Iterator<Item = &Change>, Refusal> {
        if version < self.forgotten {
            return Err(Refusal::expired());
        }
        let after = self.history.iter().filter(move |change| change.version > version);
        let kind = kind.kind;
        Ok(after.filter(move |change| change.id.kind == kind))
    }

    /// A page of a list.
    pub fn list(
        &mut self,
        kind: &'static Kind,
        namespace: Option<&str>,
        selector: &Selector,
        limit: Option<usize>,
        resume: Option<&str>,
    ) -> Result<Value, Refusal> {
        let mut pages = match resume {
            Some(token) => self.pages.remove(token).ok_or_else(Refusal::expired)?,
            None => Pages {
                version: self.version,
                left: self
                    .of_kind(kind, namespace)
                    .filter(|(_, object)| selector.matches(object))
                    .map(|(_, object)| Arc::clone(object))
                    .collect(),
            },
        };
        let count = limit
            .filter(|limit| *limit > 0)
            .unwrap_or(usize::MAX)
            .min(pages.left.len());
        let items = pages
            .left
            .drain(..count)
            .map(|item| Value::clone(&item))
            .collect();
        let mut metadata = json!({"resourceVersion": pages.version.to_string()});
        if !pages.left.is_empty() {
            let token = format!("page-{}", self.number());
            metadata["continue"] = json!(token);
            metadata["remainingItemCount"] = json!(pages.left.len());
            self.pages.insert(token, pages);
        }
        let mut list = json!({
            "kind": format!("{}List", kind.kind), "apiVersion": kind.api_version(), "metadata": metadata,
        });
        list["items"] = Value::Array(items);
        Ok(list)
    }
}
