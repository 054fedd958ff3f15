//! From one version of a kind to another and back, without a loss.
//!
//! Each kind says how its specs and statuses are turned from one version into the other; a version may be unable to say something, or this
//! operator be older than the definition in the cluster and not know a field. What is lost so is kept in the annotation [`KEPT`],
//! which nothing but conversion reads, and put back on the way back, unless somebody has changed the place meanwhile.

mod losses;

use std::collections::BTreeMap;

use kube::CustomResourceExt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::cost::{MAX_OBJECT, cost};
use losses::{Loss, losses, restore};

/// The annotation that holds what the present version of an object cannot say, by the version that can.
pub const KEPT: &str = "roadstead.dev/kept";

/// What the annotation may take to read, in bytes, by [`cost`]. All of an object may be in it, and with each place the way there.
const MAX_KEPT: usize = MAX_OBJECT + MAX_OBJECT / 2;
/// What is lost of one version: a little less, for around it there is the version's name.
const MAX_LOST: usize = MAX_KEPT - (1 << 10);

/// How a kind gets from one version into another. The parts are as they are in the API server.
pub trait Versions: Send + Sync {
    /// The API group of the kind.
    fn group(&self) -> &str;

    /// What the kind is called.
    fn kind(&self) -> &str;

    /// What the kind is called in paths.
    fn plural(&self) -> &str;

    /// The names of its versions.
    fn names(&self) -> [&str; 2];

    /// The structural schema of objects in this version.
    fn schema(&self, version: &str) -> &Value;

    /// The object's `spec` and `status`, as far as they are there, in the version that is not `from`.
    ///
    /// # Errors
    /// When they do not fit their schema.
    fn turn(&self, object: &Value, from: &str) -> Result<Value, serde_json::Error>;
}

/// There and back.
#[derive(Clone, Copy, Debug)]
pub struct Ways<E, L> {
    /// From the early version to the late one.
    pub on: fn(&E) -> L,
    /// From the late version to the early one, which says what it can.
    pub back: fn(&L) -> E,
}

/// A kind with an early version and a late one.
#[derive(Debug)]
pub struct TwoVersions<E, L, F, M> {
    early: Definition,
    late: Definition,
    spec: Ways<E, L>,
    status: Ways<F, M>,
}

/// What is known of one version.
#[derive(Debug)]
struct Definition {
    group: String,
    kind: String,
    plural: String,
    version: String,
    schema: Value,
}

impl Definition {
    fn of<K: CustomResourceExt>() -> Self {
        let crd = K::crd().spec;
        let mut versions = crd.versions.into_iter();
        let version = versions.next();
        let schema = version.as_ref().and_then(|version| version.schema.as_ref());
        Self {
            group: crd.group,
            kind: crd.names.kind,
            plural: crd.names.plural,
            schema: json!(schema.and_then(|schema| schema.open_api_v3_schema.as_ref())),
            version: version.map(|version| version.name).unwrap_or_default(),
        }
    }
}

impl<E, L, F, M> TwoVersions<E, L, F, M> {
    /// The kind whose early version is `Early` and whose late one is `Late`.
    pub fn new<Early: CustomResourceExt, Late: CustomResourceExt>(
        spec: Ways<E, L>,
        status: Ways<F, M>,
    ) -> Self {
        Self {
            early: Definition::of::<Early>(),
            late: Definition::of::<Late>(),
            spec,
            status,
        }
    }
}

impl<E: Part, L: Part, F: Part, M: Part> Versions for TwoVersions<E, L, F, M> {
    fn group(&self) -> &str {
        &self.late.group
    }

    fn kind(&self) -> &str {
        &self.late.kind
    }

    fn plural(&self) -> &str {
        &self.late.plural
    }

    fn names(&self) -> [&str; 2] {
        [&self.early.version, &self.late.version]
    }

    fn schema(&self, version: &str) -> &Value {
        if version == self.early.version {
            &self.early.schema
        } else {
            &self.late.schema
        }
    }

    fn turn(&self, object: &Value, from: &str) -> Result<Value, serde_json::Error> {
        let mut turned = Map::new();
        for field in ["spec", "status"] {
            let Some(part) = object.get(field) else { continue };
            let part = match (field, from == self.early.version) {
                ("spec", true) => turn_part(part, self.spec.on),
                ("spec", false) => turn_part(part, self.spec.back),
                (_, true) => turn_part(part, self.status.on),
                (_, false) => turn_part(part, self.status.back),
            };
            turned.insert(field.to_owned(), part?);
        }
        Ok(turned.into())
    }
}

/// A spec or a status.
pub trait Part: Serialize + DeserializeOwned {}

impl<P: Serialize + DeserializeOwned> Part for P {}

fn turn_part<A: Part, B: Part>(part: &Value, turn: fn(&A) -> B) -> Result<Value, serde_json::Error> {
    serde_json::to_value(turn(&A::deserialize(part)?))
}

/// Why an object was not converted.
#[derive(Debug, thiserror::Error)]
pub enum ConversionError {
    /// It is of no kind or version that is known here.
    #[error("{field} is {value:?}; it must be {expected}")]
    Unknown {
        /// Which field says so.
        field: &'static str,
        /// What it says.
        value: String,
        /// What is known.
        expected: String,
    },
    /// It does not fit its own version's schema.
    #[error("{kind} {name} does not fit its schema: {source}")]
    Malformed {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
        /// What does not fit.
        source: serde_json::Error,
    },
    /// Another version can say so little of it that what is kept could not be read back.
    #[error(
        "{kind} {name} says too much that {version} cannot: to keep that takes about {cost} bytes of memory; it must take at most {MAX_LOST}"
    )]
    TooDear {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
        /// The version that cannot say it.
        version: String,
        /// What it takes.
        cost: usize,
    },
}

/// Gives `object` in the version `to` of its group, as `v1`.
///
/// # Errors
/// When its kind or one of the versions is not known, when it does not fit its schema, or when too much would be lost to be kept.
pub fn convert(kinds: &[&dyn Versions], object: Value, to: &str) -> Result<Value, ConversionError> {
    let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
    let kind = text("kind");
    let Some(known) = kinds.iter().find(|known| known.kind() == kind) else {
        let names: Vec<_> = kinds.iter().map(|known| known.kind()).collect();
        return Err(unknown("kind", kind.clone(), &names));
    };
    let api_version = text("apiVersion");
    let (group, from) = api_version.split_once('/').unwrap_or(("", &api_version));
    for version in [from, to] {
        if group != known.group() || !known.names().contains(&version) {
            let names = known.names().map(|name| format!("{}/{name}", known.group()));
            let names = names.each_ref().map(String::as_str);
            return Err(unknown("apiVersion", format!("{group}/{version}"), &names));
        }
    }
    if from == to {
        return Ok(object);
    }
    turn(*known, object, from, to)
}

fn unknown(field: &'static str, value: String, known: &[&str]) -> ConversionError {
    let expected = format!("one of {}", known.join(", "));
    ConversionError::Unknown {
        field,
        value,
        expected,
    }
}

fn turn(known: &dyn Versions, mut object: Value, from: &str, to: &str) -> Result<Value, ConversionError> {
    let mut metadata = strip(&mut object);
    let kind = || known.kind().to_owned();
    let name = metadata["name"].as_str().unwrap_or_default().to_owned();
    let malformed = |source| ConversionError::Malformed {
        kind: kind(),
        name: name.clone(),
        source,
    };
    let mut kept = take_kept(&mut metadata);
    let plain = || known.turn(&object, from).map_err(malformed);
    let restored = match kept.remove(to) {
        Some(losses) => restored(known, plain()?, &object, [from, to], losses),
        None => None,
    };
    let (mut turned, lost) = match restored {
        Some(both) => both,
        None => {
            let plain = plain()?;
            let back = known.turn(&plain, to).map_err(malformed)?;
            let lost = losses(known.schema(from), &object, &back);
            let cost = cost_of(&lost).map_err(malformed)?;
            if cost > MAX_LOST {
                return Err(ConversionError::TooDear {
                    kind: kind(),
                    name,
                    version: to.to_owned(),
                    cost,
                });
            }
            (plain, lost)
        }
    };
    if !lost.is_empty() {
        kept.insert(from.to_owned(), lost);
    }
    put_kept(&mut metadata, kept, from).map_err(malformed)?;
    if let Some(fields) = turned.as_object_mut() {
        fields.insert("apiVersion".to_owned(), format!("{}/{to}", known.group()).into());
        fields.insert("kind".to_owned(), known.kind().into());
        fields.insert("metadata".to_owned(), metadata);
    }
    Ok(turned)
}

/// Leaves of an object what its versions say each in its own way, and gives its metadata.
fn strip(object: &mut Value) -> Value {
    let Some(fields) = object.as_object_mut() else {
        return Value::Null;
    };
    fields.remove("apiVersion");
    fields.remove("kind");
    fields.remove("metadata").unwrap_or_default()
}

/// An object with what was kept for it, and what of `object` is lost in that. Nothing if it does not fit the schema, or if too much would be lost:
/// somebody has spoilt what was kept, and one object that failed would fail the list that it is in.
fn restored(
    known: &dyn Versions,
    plain: Value,
    object: &Value,
    [from, to]: [&str; 2],
    kept: Vec<Loss>,
) -> Option<(Value, Vec<Loss>)> {
    let mut full = plain;
    restore(&mut full, kept);
    let back = known.turn(&full, to).ok()?;
    let lost = losses(known.schema(from), object, &back);
    (cost_of(&lost).ok()? <= MAX_LOST).then_some((full, lost))
}

fn cost_of(lost: &[Loss]) -> Result<usize, serde_json::Error> {
    Ok(cost(&serde_json::to_string(lost)?))
}

/// Has `new` keep what `old` kept, if both are of the same version and whoever wrote `new` has left that out, as a client does that replaces an
/// object by what it knows of it. True if anything was put back.
pub fn carry_over(old: &Value, new: &mut Value) -> bool {
    let kept = &old["metadata"]["annotations"][KEPT];
    let is_left_out = new["metadata"]["annotations"][KEPT].is_null();
    if !kept.is_string() || !is_left_out || old["apiVersion"] != new["apiVersion"] {
        return false;
    }
    annotate(&mut new["metadata"], kept.clone());
    true
}

/// What was kept for each version. An annotation that cannot be read, or would take more memory than anything that conversion writes, stays where
/// it is: a single object that fails would fail the list that it is in.
fn take_kept(metadata: &mut Value) -> BTreeMap<String, Vec<Loss>> {
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else {
        return BTreeMap::new();
    };
    let text = annotations.get(KEPT).and_then(Value::as_str);
    let text = text.filter(|text| cost(text) <= MAX_KEPT);
    let Some(kept) = text.and_then(|text| serde_json::from_str(text).ok()) else {
        return BTreeMap::new();
    };
    annotations.remove(KEPT);
    if annotations.is_empty()
        && let Some(fields) = metadata.as_object_mut()
    {
        fields.remove("annotations");
    }
    kept
}

/// Keeps what is lost of this version, and what there is of others if both can be read back.
fn put_kept(
    metadata: &mut Value,
    mut kept: BTreeMap<String, Vec<Loss>>,
    version: &str,
) -> Result<(), serde_json::Error> {
    let mut text = serde_json::to_string(&kept)?;
    if cost(&text) > MAX_KEPT {
        kept.retain(|other, _| other == version);
        text = serde_json::to_string(&kept)?;
    }
    if !kept.is_empty() {
        annotate(metadata, text.into());
    }
    Ok(())
}

fn annotate(metadata: &mut Value, kept: Value) {
    if !metadata["annotations"].is_object() {
        metadata["annotations"] = Map::new().into();
    }
    metadata["annotations"][KEPT] = kept;
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
