//! The kinds as a webhook serves them: in which versions, by which rules, and in whose words.
//!
//! The rules are those by which the reconciler goes, on the late version. Whoever writes the early one is told of a problem in its words.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::conversion::{ConversionError, KEPT, Versions, convert};
use super::problem::Problems;

/// What the early version calls a place of the late one, by the beginning of its path; where it says the same, there is nothing here.
pub type Words = &'static [(&'static str, &'static str)];

/// The rules of a kind, on its late version.
#[derive(Clone, Copy, Debug)]
pub struct Rules<K> {
    /// What an object may be.
    pub object: fn(&K) -> Result<(), Problems>,
    /// What may become of an object: the old one, then the new one, which is checked by itself besides.
    pub update: fn(&K, &K) -> Result<(), Problems>,
}

/// Why an object is refused.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// It cannot be read.
    #[error(transparent)]
    Unreadable(#[from] ConversionError),
    /// It breaks rules.
    #[error(transparent)]
    Invalid(#[from] Problems),
}

/// Reads both objects into types one after the other, the old one when the new one has become one: as trees they are dear.
type Judge = Box<
    dyn Fn(Value, &mut dyn FnMut() -> Option<Value>) -> Result<Result<(), Problems>, serde_json::Error>
        + Send
        + Sync,
>;

/// A kind with two versions, its rules and its words.
pub struct Served {
    versions: Box<dyn Versions>,
    judge: Judge,
    words: Words,
}

impl std::fmt::Debug for Served {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Served({})", self.versions.kind())
    }
}

/// All kinds. Those without a controller are not for users yet.
pub fn all() -> [Served; 4] {
    [
        super::my_proxy::served(),
        super::database::served(),
        super::redis_cluster::served(),
        super::trino_cluster::served(),
    ]
}

impl Served {
    /// The kind whose late version is `K`.
    pub fn new<K: DeserializeOwned + 'static>(
        versions: impl Versions + 'static,
        rules: Rules<K>,
        words: Words,
    ) -> Self {
        Self {
            versions: Box::new(versions),
            judge: Box::new(move |new, old| {
                let new = K::deserialize(new)?;
                // What an old object breaks by its shape cannot be measured against, and is no reason to refuse the new one.
                let old = old().and_then(|old| K::deserialize(old).ok());
                let itself = (rules.object)(&new);
                let change = old.map_or(Ok(()), |old| (rules.update)(&old, &new));
                Ok(both(itself, change))
            }),
            words,
        }
    }

    /// Its versions.
    pub fn versions(&self) -> &dyn Versions {
        &*self.versions
    }

    /// Whether `object` may be written, and, if there was an `old` one, in its place. Either may be in any version.
    ///
    /// An update that changes nothing of what the rules are about is never refused: a stored object that breaks a rule, since the rule is newer,
    /// can still lose its finalizer. Nor is an object refused that is being deleted.
    ///
    /// # Errors
    /// When it cannot be read, or breaks rules: with every problem, in the words of the object's version.
    pub fn check(&self, object: Value, mut old: Option<Value>) -> Result<(), Refusal> {
        let is_leaving = !object["metadata"]["deletionTimestamp"].is_null();
        if is_leaving || old.as_ref().is_some_and(|old| asks_for_the_same(old, &object)) {
            return Ok(());
        }
        let (name, api_version) = (text(&object["metadata"]["name"]), text(&object["apiVersion"]));
        let new = self.in_late(object)?;
        let mut old = || self.in_late(old.take()?).ok();
        let judged = (self.judge)(new, &mut old).map_err(|source| ConversionError::Malformed {
            kind: self.versions.kind().to_owned(),
            name,
            source,
        })?;
        Ok(judged.map_err(|problems| self.told(problems, &api_version))?)
    }

    /// Problems that were found in the late version, in the words of `api_version`.
    fn told(&self, problems: Problems, api_version: &str) -> Problems {
        problems.told(|field| self.tell(field, api_version))
    }

    /// The object in the late version, without its status: nobody asks for anything there.
    fn in_late(&self, mut object: Value) -> Result<Value, ConversionError> {
        if let Some(fields) = object.as_object_mut() {
            fields.remove("status");
        }
        let [_, late] = self.versions.names();
        convert(&[&*self.versions], object, late)
    }

    /// The place that the late version calls `field`, as `api_version` calls it. Where that cannot say it, the late version's own name has to do.
    fn tell(&self, field: &str, api_version: &str) -> String {
        let [early, late] = self.versions.names();
        if !api_version.ends_with(&format!("/{early}")) {
            return field.to_owned();
        }
        let told = in_early(self.words, field);
        if is_in(self.versions.schema(early), &told) {
            told
        } else {
            format!("{field} of {late}")
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn both(first: Result<(), Problems>, second: Result<(), Problems>) -> Result<(), Problems> {
    match (first, second) {
        (Err(first), Err(second)) => Err(first.and(second)),
        (first, second) => first.and(second),
    }
}

/// Whether the two differ in nothing that rules are about. What another version says of the spec is in the annotation.
fn asks_for_the_same(old: &Value, new: &Value) -> bool {
    let labels = |object: &Value| object["metadata"]["labels"].clone();
    let kept = |object: &Value| object["metadata"]["annotations"][KEPT].clone();
    old["apiVersion"] == new["apiVersion"]
        && old["spec"] == new["spec"]
        && labels(old) == labels(new)
        && kept(old) == kept(new)
}

/// What the early version calls `field`: what it calls the longest beginning of it that has another name there, and then what follows.
fn in_early(words: Words, field: &str) -> String {
    let renamed = words.iter().filter_map(|(late, early)| {
        let rest = field.strip_prefix(late)?;
        let is_whole = rest.is_empty() || rest.starts_with(['.', '[']);
        is_whole.then_some((early, rest))
    });
    match renamed.min_by_key(|(_, rest)| rest.len()) {
        Some((early, rest)) => format!("{early}{rest}"),
        None => field.to_owned(),
    }
}

/// Whether a schema has a place such as `spec.users[1].name`. Metadata is the same in every version, and no schema says what is in it.
fn is_in(schema: &Value, field: &str) -> bool {
    let mut at = schema;
    for step in field.split('.') {
        // From here on users choose the names, and they may contain dots.
        if step == "metadata" || at["additionalProperties"].is_object() {
            return true;
        }
        let mut parts = step.split('[');
        at = &at["properties"][parts.next().unwrap_or_default()];
        for _index in parts {
            at = &at["items"];
        }
        if at.is_null() {
            return false;
        }
    }
    true
}

#[cfg(test)]
#[path = "served_tests.rs"]
mod tests;
