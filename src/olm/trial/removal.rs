//! What goes at the end of a trial: what was made for it, and what OLM has installed by it.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use super::{Refused, Trial, content_of};
use crate::olm::catalog::{Bundle, Catalog};
use crate::olm::manifests::{list, name, text};

/// What is there.
#[derive(Debug, Default)]
pub struct Present {
    /// The Subscriptions of the namespace.
    pub subscriptions: Vec<Value>,
    /// Its CatalogSources.
    pub sources: Vec<Value>,
    /// Its OperatorGroups.
    pub groups: Vec<Value>,
    /// The ClusterServiceVersions of all namespaces that are no copies, or at least of this one.
    pub csvs: Vec<Value>,
    /// The ConfigMap with the catalog.
    pub content: Option<Value>,
}

/// What goes: the Subscriptions first, so that nothing is installed again meanwhile, the CatalogSources last, so that a removal that was cut off goes on.
#[derive(Debug, Default, PartialEq)]
pub struct Removal {
    /// The trial's own Subscriptions.
    pub subscriptions: Vec<Value>,
    /// What they have installed.
    pub csvs: Vec<Value>,
    /// The trial's own OperatorGroup, if nobody else needs it.
    pub groups: Vec<Value>,
    /// The trial's own CatalogSources, and with them what serves them.
    pub sources: Vec<Value>,
    /// The names of the definitions that its versions own and no other version does.
    pub definitions: BTreeSet<String>,
    /// What stays, and why.
    pub notes: Vec<String>,
}

/// A kind that the trial has brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// Which one it was when it was judged.
    pub uid: String,
    /// Its group.
    pub group: String,
    /// Its plural.
    pub plural: String,
    /// A version in which its objects can be asked for.
    pub version: String,
}

impl Definition {
    /// Of a definition that the trial's versions own, as it is in the cluster.
    ///
    /// # Errors
    /// Why it stays: the trial has not brought it, or its objects cannot be asked for.
    pub fn of(trial: &Trial, definition: &Value, sources: &[Value]) -> Result<Self, String> {
        let name = name(definition);
        trial
            .has_brought(definition, sources)
            .map_err(|why| format!("{name} stays: {why}; {}", deletes(name)))?;
        let versions = list(definition, "/spec/versions").iter();
        let served = versions.filter(|version| version["served"] == Value::Bool(true));
        let Some(version) = served.map(|version| text(version, "/name")).next() else {
            return Err(format!(
                "{name} stays: no version of it is served, so nobody can tell whether there are objects"
            ));
        };
        Ok(Self {
            uid: text(definition, "/metadata/uid").to_owned(),
            group: text(definition, "/spec/group").to_owned(),
            plural: text(definition, "/spec/names/plural").to_owned(),
            version: version.to_owned(),
        })
    }

    /// Where the API server has its objects.
    #[must_use]
    pub fn root(&self) -> String {
        format!("/apis/{}/{}", self.group, self.version)
    }

    /// `PLURAL.GROUP`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }
}

impl Trial {
    /// Whether OLM says that it has made a definition for this package there, and for no other: in this trial, or in one before it.
    #[must_use]
    pub fn has_alone(&self, definition: &Value) -> bool {
        let labels = definition["metadata"]["labels"].as_object();
        let components = labels.into_iter().flat_map(|labels| labels.keys());
        let mut components = components.filter(|key| key.starts_with("operators.coreos.com/"));
        components.next() == Some(&self.component()) && components.next().is_none()
    }

    /// Whether OLM has made it and does not say for whom yet, as it does some seconds after it has installed something.
    fn is_new(&self, definition: &Value) -> bool {
        let labels = &definition["metadata"]["labels"];
        let mut keys = labels.as_object().into_iter().flat_map(|labels| labels.keys());
        labels["olm.managed"] == "true"
            && !keys.any(|key| key.starts_with("operators.coreos.com/"))
            && is_written_by_olm_alone(definition)
    }

    /// Whether it was made in this trial, not before the CatalogSource, which is the first thing that is made, or in one before it: then OLM alone has
    /// written it, and for this package there. No version of another trial or Subscription owns it, or nobody would ask.
    fn has_brought(&self, definition: &Value, sources: &[Value]) -> Result<(), &'static str> {
        let is_new = self.is_new(definition);
        if !self.has_alone(definition) && !is_new {
            return Err("OLM does not say that it is the trial's alone");
        }
        if is_written_by_olm_alone(definition) && !is_new {
            return Ok(());
        }
        let made = |object: &Value| {
            text(object, "/metadata/creationTimestamp")
                .parse::<Timestamp>()
                .ok()
        };
        match (made(definition), sources.iter().filter_map(made).min()) {
            (_, None) => {
                Err("the trial's CatalogSource is gone, so nothing tells whether it was there before")
            }
            (Some(made), Some(begun)) if made >= begun => Ok(()),
            _ if is_new => Err("it was there before the trial, and OLM does not say for whom"),
            _ => Err("it was there before the trial, and others than OLM have written it"),
        }
    }
}

/// Whether the API server knows of nobody but OLM's programs who has written a field of it. What OLM puts in the place of another's keeps the other one's
/// name on all fields that are the same.
fn is_written_by_olm_alone(definition: &Value) -> bool {
    let is_of_olm = |manager: &str| matches!(manager, "catalog" | "olm") || manager.starts_with("olm-");
    // Its status is the API server's
    let mut writers = list(definition, "/metadata/managedFields")
        .iter()
        .filter(|written| text(written, "/subresource") != "status")
        .map(|written| text(written, "/manager"))
        .peekable();
    writers.peek().is_some() && writers.all(is_of_olm)
}

/// Says what goes.
///
/// # Errors
/// [`Refused::Nothing`]
pub fn removal(trial: &Trial, present: &Present) -> Result<Removal, Refused> {
    let of_trial = |objects: &[Value]| -> Vec<Value> {
        let of_trial = objects.iter().filter(|object| trial.owns(object));
        of_trial.cloned().collect()
    };
    let mut removal = Removal {
        subscriptions: of_trial(&present.subscriptions),
        sources: of_trial(&present.sources),
        groups: of_trial(&present.groups),
        ..Removal::default()
    };
    let catalog = catalog(trial, present);
    let bundles: BTreeSet<&str> = catalog.iter().flat_map(Catalog::bundle_names).collect();
    let (ours, others): (Vec<&Value>, Vec<&Value>) = present
        .csvs
        .iter()
        .partition(|csv| is_installed(trial, present, &bundles, csv));
    if [&removal.subscriptions, &removal.sources, &removal.groups]
        .iter()
        .all(|found| found.is_empty())
    {
        return Err(Refused::Nothing {
            package: trial.package.clone(),
            namespace: trial.namespace.clone(),
        });
    }
    removal.spare_the_versions(trial, &bundles, &others);
    removal.definitions(catalog.as_ref(), &ours, &others);
    removal.csvs = ours.into_iter().cloned().collect();
    removal.spare_the_group(trial, present, &others);
    Ok(removal)
}

impl Removal {
    fn definitions(&mut self, catalog: Option<&Catalog>, ours: &[&Value], others: &[&Value]) {
        let bundles = catalog
            .into_iter()
            .flat_map(|catalog| catalog.bundle_names().filter_map(|name| catalog.bundle(name)));
        let own = ours
            .iter()
            .flat_map(|csv| owned(csv))
            .map(|owned| text(owned, "/name"));
        let own: BTreeSet<&str> = own.chain(bundles.flat_map(Bundle::definitions)).collect();
        let elsewhere: BTreeSet<&str> = others
            .iter()
            .flat_map(|csv| owned(csv))
            .map(|owned| text(owned, "/name"))
            .collect();
        for name in own {
            if elsewhere.contains(name) {
                self.notes
                    .push(format!("{name} stays: another version owns it, too"));
            } else {
                self.definitions.insert(name.to_owned());
            }
        }
    }

    fn spare_the_versions(&mut self, trial: &Trial, bundles: &BTreeSet<&str>, others: &[&Value]) {
        let spared = others
            .iter()
            .filter(|csv| text(csv, "/metadata/namespace") == trial.namespace);
        for csv in spared.filter(|csv| bundles.contains(name(csv))) {
            self.notes
                .push(format!("{} stays: another Subscription has it", name(csv)));
        }
    }

    /// Without it, OLM would end what else is installed there.
    fn spare_the_group(&mut self, trial: &Trial, present: &Present, others: &[&Value]) {
        let is_near = |object: &&Value| text(object, "/metadata/namespace") == trial.namespace;
        let subscriptions = present.subscriptions.iter().filter(|it| !trial.owns(it));
        let needs = subscriptions.chain(others.iter().copied().filter(is_near)).next();
        if let (Some(needs), false) = (needs, self.groups.is_empty()) {
            let (group, needs) = (trial.name(), name(needs));
            self.notes
                .push(format!("the OperatorGroup {group} stays: {needs} needs it"));
            self.groups.clear();
        }
    }
}

/// A version is of the trial if its Subscription says so or its catalog has it, and no other Subscription says that it is its own.
fn is_installed(trial: &Trial, present: &Present, bundles: &BTreeSet<&str>, csv: &Value) -> bool {
    let csv_name = name(csv);
    let names = |subscription: &&Value| {
        ["/status/installedCSV", "/status/currentCSV"]
            .iter()
            .any(|pointer| text(subscription, pointer) == csv_name)
    };
    let (own, others): (Vec<&Value>, Vec<&Value>) = present
        .subscriptions
        .iter()
        .partition(|subscription| trial.owns(subscription));
    let is_here = text(csv, "/metadata/namespace") == trial.namespace;
    let is_ours = bundles.contains(csv_name) || own.iter().any(names);
    is_here && is_ours && !others.iter().any(names)
}

fn catalog(trial: &Trial, present: &Present) -> Option<Catalog> {
    let content = present.content.as_ref().filter(|content| trial.owns(content))?;
    Catalog::of_text("catalog", content_of(content), &trial.package).ok()
}

fn owned(csv: &Value) -> &[Value] {
    list(csv, "/spec/customresourcedefinitions/owned")
}

/// One line for a definition that the trial has brought and that nobody has asked to delete. `objects` is how many there are of it at least, and whether there
/// are more; none where nobody can tell.
#[must_use]
pub fn stays(definition: &Definition, objects: Option<(usize, bool)>) -> String {
    let name = definition.name();
    let with = match objects {
        Some((0, _)) => {
            return format!(
                "{name} stays, without objects: --definitions would have removed it, and `kubectl delete crd {name}` does"
            );
        }
        None => String::new(),
        Some((1, false)) => ", with one object".to_owned(),
        Some((count, false)) => format!(", with {count} objects"),
        Some((count, true)) => format!(", with {count} objects and more"),
    };
    format!("{name} stays{with}: {}", deletes(&name))
}

fn deletes(name: &str) -> String {
    format!("`kubectl delete crd {name}` deletes it, and with it all of its objects")
}

/// One line for the objects of a kind: how many there are at least, and some of them by name.
#[must_use]
pub fn still_there(definition: &Definition, objects: &[Value], more: bool) -> String {
    let path = |object: &Value| match text(object, "/metadata/namespace") {
        "" => name(object).to_owned(),
        namespace => format!("{namespace}/{}", name(object)),
    };
    let names: Vec<String> = objects.iter().map(path).collect();
    let end = if more { " and more" } else { "" };
    format!("{}: {}{end}", definition.name(), names.join(", "))
}
