//! What is read of a cluster, and what of it leads to what is to be read next.

use serde_json::Value;

use super::field::{list, name, namespace, text};
use crate::olm::trial::LABEL;

/// What was read, or why it could not be: most people may not read everything.
pub type Read<T> = Result<T, String>;

/// All that is known around one Subscription. Objects are as the API server writes them.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The Subscription.
    pub subscription: Value,
    /// The other Subscriptions of its namespace.
    pub neighbours: Vec<Value>,
    /// Subscriptions to the same package in other namespaces.
    pub elsewhere: Vec<Value>,
    /// The CatalogSource that it names.
    pub source: Read<Option<Value>>,
    /// The pods that serve the catalog.
    pub source_pods: Read<Vec<Value>>,
    /// The PackageManifest of that catalog.
    pub package: Read<Option<Value>>,
    /// The OperatorGroups of the namespace.
    pub groups: Read<Vec<Value>>,
    /// The Jobs that unpack bundles, in the catalog's namespace.
    pub jobs: Read<Vec<Value>>,
    /// Their pods.
    pub job_pods: Read<Vec<Value>>,
    /// The InstallPlan that the Subscription names.
    pub plan: Read<Option<Value>>,
    /// The ClusterServiceVersions of the namespace that are no copies.
    pub csvs: Read<Vec<Value>>,
    /// The OperatorConditions of the namespace.
    pub conditions: Read<Vec<Value>>,
    /// The Deployments of the version that serves.
    pub deployments: Vec<Deployed>,
}

/// A Deployment that a version names.
#[derive(Debug, Clone)]
pub struct Deployed {
    /// Its name.
    pub name: String,
    /// The Deployment.
    pub deployment: Read<Option<Value>>,
    /// Its pods.
    pub pods: Read<Vec<Value>>,
}

impl Facts {
    pub(super) fn namespace(&self) -> &str {
        namespace(&self.subscription)
    }

    pub(super) fn subscription(&self) -> &str {
        name(&self.subscription)
    }

    pub(super) fn package_name(&self) -> &str {
        text(&self.subscription, "/spec/name")
    }

    /// What the Subscription progresses to.
    pub(super) fn current(&self) -> &str {
        text(&self.subscription, "/status/currentCSV")
    }

    /// What it has installed last. OLM says so as soon as the version's object is there.
    pub(super) fn installed(&self) -> &str {
        text(&self.subscription, "/status/installedCSV")
    }

    /// Those of the versions in the namespace that this Subscription has to do with, the oldest first.
    pub(super) fn versions(&self) -> Read<Vec<&Value>> {
        let csvs = self.csvs.as_ref().map_err(Clone::clone)?;
        Ok(versions(&self.subscription, csvs))
    }

    /// The plan, if it could be read and is there.
    pub(super) fn known_plan(&self) -> Option<&Value> {
        self.plan.as_ref().ok().and_then(Option::as_ref)
    }
}

/// Namespace and name of the CatalogSource that a Subscription names.
#[must_use]
pub fn source(subscription: &Value) -> (&str, &str) {
    (
        text(subscription, "/spec/sourceNamespace"),
        text(subscription, "/spec/source"),
    )
}

/// The package whose trial a CatalogSource is of, if it is one's: the command that began the trial has made what serves it.
pub(super) fn trial_of(source: &Value) -> Option<&str> {
    source["metadata"]["labels"].get(LABEL).and_then(Value::as_str)
}

/// The labels of the pods that serve a CatalogSource, as a selector.
#[must_use]
pub fn selector_of_pods(source: &Value) -> String {
    match trial_of(source) {
        Some(package) => format!("{LABEL}={package}"),
        None => format!("olm.catalogSource={}", name(source)),
    }
}

/// The name of the InstallPlan that a Subscription names, in its own namespace.
#[must_use]
pub fn plan(subscription: &Value) -> Option<&str> {
    Some(text(subscription, "/status/installPlanRef/name")).filter(|name| !name.is_empty())
}

/// The version whose Deployments are the ones that run: the newest that OLM has begun to install.
#[must_use]
pub fn serving<'a>(subscription: &Value, csvs: &'a [Value]) -> Option<&'a Value> {
    let versions = versions(subscription, csvs);
    let has_begun = |csv: &&&Value| !matches!(text(csv, "/status/phase"), "" | "Pending" | "InstallReady");
    versions.iter().rev().find(has_begun).or(versions.last()).copied()
}

/// The names of the Deployments of a version.
#[must_use]
pub fn deployments(csv: &Value) -> Vec<&str> {
    let deployments = list(csv, "/spec/install/spec/deployments");
    deployments
        .iter()
        .map(|deployment| text(deployment, "/name"))
        .collect()
}

/// From the version that the Subscription progresses to, back over what each replaces.
fn versions<'a>(subscription: &Value, csvs: &'a [Value]) -> Vec<&'a Value> {
    let find = |wanted: &str| csvs.iter().find(|csv| name(csv) == wanted);
    let installed = find(text(subscription, "/status/installedCSV"));
    let mut next = find(text(subscription, "/status/currentCSV")).or(installed);
    let mut versions: Vec<&Value> = Vec::new();
    while let Some(csv) = next.filter(|csv| !versions.contains(csv)) {
        versions.push(csv);
        next = find(text(csv, "/spec/replaces"));
    }
    // One that is skipped is replaced by nobody
    if let Some(installed) = installed.filter(|csv| !versions.contains(csv)) {
        versions.push(installed);
    }
    versions.reverse();
    versions
}
