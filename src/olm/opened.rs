//! Versions of a definition that the operator itself opens, once it converts.
//!
//! OLM puts the definition of a bundle in the place of the cluster's in every upgrade, and lists the objects in every version that was and will
//! be served before it does so. A version that a bundle leaves closed cannot fail such a list while nobody converts. The operator heals the conversion,
//! and opens the version with the same write.
//!
//! Such a definition keeps its conversion in the bundle, though it leads nowhere there: a request that needs it fails until the operator has healed it,
//! rather than that an object which is stored in another version is read without its fields. Such objects there are where the stored version changes.
//!
//! OLM v1 applies a definition with its conversion, and would undo what the operator opened. For it the versions are open in the bundle, and nobody is
//! to open them.

use serde_json::{Value, json};

use super::csv::crds;
use super::manifests::{Manifests, name, text};
use super::{Error, manifests};

/// The annotation of a definition that names such versions, separated by commas. The operator goes by it, so it stays in the bundle for OLM.
pub const OPENED: &str = "roadstead.dev/opened-by-operator";

/// A version that the operator opens: of which `apiVersion` and kind its objects are.
struct Opened {
    api_version: String,
    kind: String,
}

/// The same manifests with these versions closed, and without examples in them: a ClusterServiceVersion that owned one would wait for it, and
/// the operator for the ClusterServiceVersion.
///
/// # Errors
/// [`Error::Opened`] of a version that is stored, or that there is not; [`Error::Unconverted`] of a definition that nothing converts.
pub(super) fn closed(manifests: &Manifests) -> Result<Manifests, Error> {
    let opened = checked(manifests)?;
    Ok(manifests.map(|body| {
        let is_example = opened
            .iter()
            .any(|it| body["apiVersion"] == *it.api_version && body["kind"] == *it.kind);
        (!is_example).then(|| serving(body, false))
    }))
}

/// The same manifests with these versions open, and with nobody to open them.
///
/// # Errors
/// As [`closed`].
pub(super) fn opened(manifests: &Manifests) -> Result<Manifests, Error> {
    checked(manifests)?;
    Ok(manifests.map(|body| {
        let mut open = serving(body, true);
        let annotations = open.pointer_mut("/metadata/annotations");
        if let Some(annotations) = annotations.and_then(Value::as_object_mut) {
            annotations.remove(OPENED);
        }
        Some(open)
    }))
}

/// All of them, if each can be opened.
fn checked(manifests: &Manifests) -> Result<Vec<Opened>, Error> {
    let mut all = Vec::new();
    for crd in crds(manifests) {
        let strategy = text(crd, "/spec/conversion/strategy");
        if is_seen_to(crd) && strategy != "Webhook" {
            return Err(Error::Unconverted {
                crd: name(crd).to_owned(),
                strategy: strategy.to_owned(),
            });
        }
        for version in named(crd) {
            let known = manifests::list(crd, "/spec/versions");
            let found = known.iter().find(|known| known["name"] == version);
            if found.is_none_or(|found| found["storage"] == json!(true)) {
                return Err(Error::Opened {
                    crd: name(crd).to_owned(),
                    version: version.to_owned(),
                });
            }
            all.push(Opened {
                api_version: format!("{}/{version}", text(crd, "/spec/group")),
                kind: text(crd, "/spec/names/kind").to_owned(),
            });
        }
    }
    Ok(all)
}

/// Whether a definition says that its operator sees to it: heals its conversion, and opens versions by that.
pub(super) fn is_seen_to(crd: &Value) -> bool {
    named(crd).next().is_some()
}

/// The versions that a definition says are the operator's to open.
pub(super) fn named(crd: &Value) -> impl Iterator<Item = &str> {
    let named = crd["metadata"]["annotations"][OPENED]
        .as_str()
        .unwrap_or_default();
    named
        .split(',')
        .map(str::trim)
        .filter(|version| !version.is_empty())
}

/// The definition with the versions that it names served, or not.
fn serving(body: &Value, served: bool) -> Value {
    let mut changed = body.clone();
    let versions: Vec<&str> = named(body).collect();
    let known = changed
        .pointer_mut("/spec/versions")
        .and_then(Value::as_array_mut);
    for version in known.into_iter().flatten() {
        if version["name"]
            .as_str()
            .is_some_and(|name| versions.contains(&name))
        {
            version["served"] = json!(served);
        }
    }
    changed
}
