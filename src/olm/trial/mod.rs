//! A bundle under development, tried on a cluster: a catalog of its own, which the cluster serves, and a Subscription to it.
//!
//! Pure: what is made, whether it may be, what an upgrade changes, and what goes at the end. All of it is in one namespace and has the label [`LABEL`]. What
//! serves the catalog is owned by the CatalogSource, and goes with it. What was there before is neither changed nor deleted.
//!
//! ```text
//! Subscription ──▶ CatalogSource ──owns──▶ Service ──▶ Deployment, `roadstead catalog serve` ──▶ ConfigMap, catalog.yaml
//! ```

use std::collections::BTreeSet;

use serde_json::Value;

use crate::olm::findings::listed;
use crate::olm::manifests::{name, text};

mod begin;
mod modes;
mod objects;
mod removal;
mod upgrade;

#[cfg(test)]
mod tests;

pub use begin::{Place, begin, channel, replaced};
pub use objects::{CONTENT, content_of};
pub use removal::{Definition, Present, Removal, removal, stays, still_there};
pub use upgrade::{Way, extend, succeeded, unclaimed, way};

/// The label of all that is made, with the package's name.
pub const LABEL: &str = "roadstead.dev/trial-of";

/// Labels are no longer.
const LONGEST_LABEL: usize = 63;
/// So much of a package's name is in the objects' names, which are names of Services, too.
const LONGEST_STEM: usize = 50;

/// Which package is tried, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// The package.
    pub package: String,
    /// The namespace in which the operator is installed.
    pub namespace: String,
}

/// Why nothing is done.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum Refused {
    #[error(
        "the package's name is {0:?}; accepted are at most {LONGEST_LABEL} characters, since it is a label's value"
    )]
    Package(String),
    #[error(
        "{package} is tried in {namespace} already; `roadstead bundle upgrade` adds a version to it, and `roadstead bundle cleanup {package} -n {namespace}` removes it"
    )]
    Running { package: String, namespace: String },
    #[error(
        "the {kind} {name} is there already, and is {whose}; nothing was changed: choose another namespace, or delete it"
    )]
    Taken {
        kind: String,
        name: String,
        whose: String,
    },
    #[error(
        "the definitions {names} are there already, and OLM would put the bundle's in their place, for the whole cluster: --replace-definitions lets it; or, where \
         nobody needs them any more, `kubectl delete crd NAME` deletes each, and with it all of its objects"
    )]
    Defined { names: String },
    #[error(
        "{namespace} has no OperatorGroup, and {name} waits for one there: another's is not begun by the way; create one, or choose another namespace"
    )]
    Waiting { namespace: String, name: String },
    #[error("--watch has {0:?}, which is no namespace's name")]
    Namespace(String),
    #[error(
        "the Subscription {name} in {namespace} has {package} already, and is not of a trial; nothing was changed: choose another namespace, or delete it"
    )]
    Subscribed {
        name: String,
        namespace: String,
        package: String,
    },
    #[error(
        "{namespace} has {found} OperatorGroups, and OLM installs nothing where there is more than one; delete all but one, or choose another namespace"
    )]
    Groups { namespace: String, found: usize },
    #[error(
        "the OperatorGroup {name} selects {selected}, so the operator would have to support {mode}; {supported}"
    )]
    Group {
        name: String,
        selected: String,
        mode: &'static str,
        supported: String,
    },
    #[error(
        "--watch is {wanted}, and the OperatorGroup {name}, which is there already, selects {selected}; leave --watch out, or choose another namespace"
    )]
    Other {
        wanted: String,
        name: String,
        selected: String,
    },
    #[error("--watch is {wanted}, so the operator would have to support {mode}; {supported}")]
    Mode {
        wanted: String,
        mode: &'static str,
        supported: String,
    },
    #[error(
        "the operator supports neither AllNamespaces nor OwnNamespace; say with --watch which namespaces it is to look after; {supported}"
    )]
    Watch { supported: String },
    #[error(
        "the catalog has {bytes} bytes; {most} are accepted, since it is in a ConfigMap. Push it as an image (`roadstead catalog push`), and subscribe to that"
    )]
    Large { bytes: usize, most: usize },
    #[error(
        "{package} is not tried in {namespace}; `roadstead bundle run IMAGE -n {namespace}` begins, and a Subscription of another's is upgraded by its own catalog"
    )]
    NotTried { package: String, namespace: String },
    #[error(
        "nothing of {package} is installed in {namespace} yet; `roadstead status {package} -n {namespace}` says what it waits for"
    )]
    NotInstalled { package: String, namespace: String },
    #[error(
        "{name} is {phase}, and OLM upgrades only what has Succeeded; `roadstead status {package} -n {namespace}` says what it waits for. To try another version instead, `roadstead bundle cleanup {package} -n {namespace}`, then `bundle run`"
    )]
    NotSucceeded {
        name: String,
        phase: String,
        package: String,
        namespace: String,
    },
    #[error(
        "{name} is installed already; a version that is installed is not installed again: give the bundle another version, or begin anew (`roadstead bundle cleanup`)"
    )]
    Same { name: String },
    #[error(
        "channel {channel} has no way from {from}, which is installed, to {to}: {why}; --replaces, --skips and --skip-range say what it upgrades from"
    )]
    NoWay {
        channel: String,
        from: String,
        to: String,
        why: String,
    },
    #[error("the {object} holds no catalog that can be read: {why}; begin anew (`roadstead bundle cleanup`)")]
    Unreadable { object: String, why: String },
    #[error("there is nothing of a trial of {package} in {namespace}")]
    Nothing { package: String, namespace: String },
    #[error(
        "there is nothing of a trial of {package} in {namespace}; there is one in {places}: name it with -n NAMESPACE"
    )]
    Elsewhere {
        package: String,
        namespace: String,
        places: String,
    },
    #[error(
        "--channel is {channel:?}; accepted are the bundle's own ({own}), and any name of up to {LONGEST_LABEL} letters, digits, dashes, underscores and dots that begins and \
         ends with a letter or a digit"
    )]
    Channel { channel: String, own: String },
}

impl Trial {
    /// The name of all that is made, but for the Subscription, which has the package's.
    #[must_use]
    pub fn name(&self) -> String {
        let stem: String = self
            .package
            .replace('.', "-")
            .chars()
            .take(LONGEST_STEM)
            .collect();
        // A Service's name begins with a letter
        format!("trial-{}", stem.trim_end_matches('-'))
    }

    /// What selects all that was made.
    #[must_use]
    pub fn selector(&self) -> String {
        format!("{LABEL}={}", self.package)
    }

    /// Says where else there is something of a trial of the package, if it is somewhere.
    #[must_use]
    pub fn nothing(&self, elsewhere: &[Value]) -> Refused {
        let (package, namespace) = (self.package.clone(), self.namespace.clone());
        let places = elsewhere.iter().map(|it| text(it, "/metadata/namespace"));
        let places: BTreeSet<&str> = places.collect();
        if places.is_empty() {
            return Refused::Nothing { package, namespace };
        }
        Refused::Elsewhere {
            package,
            namespace,
            places: listed(places),
        }
    }

    /// Whether it was made for this trial.
    #[must_use]
    pub fn owns(&self, object: &Value) -> bool {
        let label = object["metadata"]["labels"].get(LABEL);
        label.and_then(Value::as_str) == Some(self.package.as_str())
    }

    /// The label of OLM on what it has installed for the package there.
    fn component(&self) -> String {
        format!("operators.coreos.com/{}.{}", self.package, self.namespace)
    }

    fn taken(&self, kind: &str, object: &Value) -> Refused {
        let whose = match object["metadata"]["labels"].get(LABEL).and_then(Value::as_str) {
            Some(package) => format!("of the trial of {package}"),
            None => "not of a trial".to_owned(),
        };
        Refused::Taken {
            kind: kind.to_owned(),
            name: name(object).to_owned(),
            whose,
        }
    }

    fn subscribes(&self, subscription: &Value) -> bool {
        text(subscription, "/spec/name") == self.package
    }
}
