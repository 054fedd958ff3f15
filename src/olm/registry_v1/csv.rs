//! Rules of the ClusterServiceVersion: upstream's, those by which OLM fails one, and those by which the API server refuses what OLM makes of it.

use std::collections::BTreeSet;

use semver::Version;
use serde_json::{Map, Value, json};

use super::Suite;
use super::hub::check_icon;
use super::metadata::package;
use super::read::{Bundle, Object};
use crate::olm::csv::INSTALL_MODES;
use crate::olm::fbc::image::Reference;
use crate::olm::fbc::range::Range;
use crate::olm::findings::{Code, Finding, bundle as codes, catalog};
use crate::olm::manifests::{Manifest, Manifests, list, text};
use crate::olm::names::{LONGEST_LABEL, is_dns_subdomain};
use crate::olm::pointer::{dotted, escaped};
use crate::olm::webhooks;

/// Annotations that OLM reads, which people write in another case.
const ANNOTATIONS: [&str; 5] = [
    "olm.operatorGroup",
    "olm.operatorNamespace",
    "olm.targetNamespaces",
    "olm.providedAPIs",
    "olm.skipRange",
];

/// The only one of the bundle.
pub(super) fn only<'a>(bundle: &'a Bundle, found: &mut Vec<Finding>) -> Option<&'a Object> {
    let mut csvs = bundle.objects.iter().filter(|object| object.is_csv());
    let first = csvs.next();
    // It may be in what could not be read
    if first.is_none() && !bundle.has_unread {
        let folder = bundle.folder.join("manifests");
        let none = Finding::of_file(&codes::CSV_COUNT, folder, "there is no ClusterServiceVersion");
        found.push(none.remedied_by("Add one to manifests/; `roadstead bundle generate` writes it."));
    }
    for more in csvs {
        let message = format!("{} is one more than the first", more.name());
        found.push(more.finding(&codes::CSV_COUNT, "/metadata/name", message));
    }
    first
}

pub(super) fn check(bundle: &Bundle, csv: &Object, suites: &[Suite], found: &mut Vec<Finding>) {
    let mut judge = Judge { bundle, csv, found };
    judge.names();
    judge.versions();
    judge.annotations();
    judge.install_modes();
    if !suites.contains(&Suite::OperatorHub) {
        // Which has the same rule as an error
        judge.icons();
    }
    judge.images();
    judge.deployments();
    judge.accounts();
    judge.webhooks();
}

struct Judge<'a> {
    bundle: &'a Bundle,
    csv: &'a Object,
    found: &'a mut Vec<Finding>,
}

impl Judge<'_> {
    fn found(&mut self, code: &'static Code, pointer: &str, message: impl Into<String>) {
        self.found.push(self.csv.finding(code, pointer, message));
    }

    fn names(&mut self) {
        let csv = self.csv;
        let mut pointers = vec!["/metadata/name".to_owned()];
        if !csv.text("/spec/replaces").is_empty() {
            pointers.push("/spec/replaces".to_owned());
        }
        let skips = csv.list("/spec/skips").len();
        pointers.extend((0..skips).map(|index| format!("/spec/skips/{index}")));
        for pointer in pointers {
            let name = csv.text(&pointer);
            let field = dotted(&pointer);
            if name.len() > LONGEST_LABEL || !is_dns_subdomain(name) {
                self.found(
                    &codes::CSV_NAME,
                    &pointer,
                    format!("{field} is {name:?}, of {} characters", name.len()),
                );
            } else if pointer.starts_with("/spec") && name == csv.name() {
                self.found(
                    &codes::CSV_UPGRADE,
                    &pointer,
                    format!("{field} is {name}, itself"),
                );
            }
        }
        // OLM takes an empty one for none
        if let Some(range) = csv.body["metadata"]["annotations"]["olm.skipRange"].as_str()
            && !range.is_empty()
            && let Err(why) = range.parse::<Range>()
        {
            let message = format!("olm.skipRange is {range:?}: {why}");
            self.found(
                &codes::CSV_UPGRADE,
                "/metadata/annotations/olm.skipRange",
                message,
            );
        }
    }

    fn versions(&mut self) {
        let csv = self.csv;
        let version = csv.text("/spec/version");
        match (is_unset(csv, "/spec/version"), version.parse::<Version>()) {
            (true, _) => self.found(&codes::CSV_VERSION, "/spec", "spec.version is missing"),
            (false, Err(why)) if is_text(csv, "/spec/version") => self.found(
                &codes::CSV_VERSION,
                "/spec/version",
                format!("spec.version is {version:?}: {why}"),
            ),
            (false, Ok(version)) => self.version_of_name(&version),
            (false, Err(_)) => {}
        }
        let release = csv.text("/spec/release");
        let expected = format!("{}-v{version}-{release}", package(self.bundle));
        if !release.is_empty() && csv.name() != expected {
            let message = format!("with release {release:?} it must be called {expected}");
            self.found(&codes::CSV_RELEASE, "/metadata/name", message);
        }
        let least = csv.text("/spec/minKubeVersion");
        if is_unset(csv, "/spec/minKubeVersion") {
            let message = "spec.minKubeVersion is missing";
            self.found(&codes::CSV_MIN_KUBE_VERSION_MISSING, "/spec", message);
        } else if is_text(csv, "/spec/minKubeVersion")
            && let Err(why) = least.parse::<Version>()
        {
            let message = format!("spec.minKubeVersion is {least:?}: {why}");
            self.found(&codes::CSV_MIN_KUBE_VERSION, "/spec/minKubeVersion", message);
        }
    }

    fn version_of_name(&mut self, version: &Version) {
        let name = self.csv.name();
        let dots = name.match_indices('.').map(|(dot, _)| &name[dot + 1..]);
        let mut endings = dots.map(|ending| ending.strip_prefix('v').unwrap_or(ending));
        let Some(named) = endings.find(|ending| ending.starts_with(|c: char| c.is_ascii_digit())) else {
            return;
        };
        // Names hold no plus: what is behind it is left out, or something else is in its place
        let said = version.to_string();
        let mut forms = vec![said.replace('+', "-"), said.replace('+', ".")];
        forms.extend(said.split('+').next().map(str::to_owned));
        if named.parse::<Version>().is_ok() && !forms.iter().any(|form| form == named) {
            let message = format!("metadata.name is {name}, and spec.version is {version}");
            self.found(&codes::CSV_NAME_VERSION, "/metadata/name", message);
        }
    }

    fn annotations(&mut self) {
        let annotations = self.csv.body["metadata"]["annotations"].as_object();
        for key in annotations.into_iter().flatten().map(|(key, _)| key) {
            let pointer = format!("/metadata/annotations/{}", escaped(key));
            let meant = ANNOTATIONS.iter().find(|known| known.eq_ignore_ascii_case(key));
            if let Some(meant) = meant.filter(|meant| **meant != key) {
                self.found(
                    &codes::CSV_ANNOTATION,
                    &pointer,
                    format!("{key} must be written {meant}"),
                );
            }
            if key == "olm.properties" {
                self.found(
                    &codes::CSV_PROPERTIES_ANNOTATION,
                    &pointer,
                    "olm.properties is an annotation",
                );
            }
        }
    }

    fn install_modes(&mut self) {
        let at = "/spec/installModes";
        let modes = self.csv.list(at);
        if modes.is_empty() {
            // What is no list is told by its type
            if matches!(
                self.csv.body.pointer(at),
                None | Some(Value::Null | Value::Array(_))
            ) {
                self.found(&codes::CSV_INSTALL_MODES, "/spec", "spec.installModes is missing");
            }
            return;
        }
        let mut seen = BTreeSet::new();
        for (index, mode) in modes.iter().enumerate() {
            let kind = text(mode, "/type");
            let pointer = format!("{at}/{index}");
            // What is no object, or no text, is told by its type
            let is_typed = mode.is_object() && matches!(mode["type"], Value::Null | Value::String(_));
            if !is_typed {
                continue;
            }
            if !INSTALL_MODES.contains(&kind) {
                let message = format!("spec.installModes[{index}].type is {kind:?}");
                self.found(&codes::CSV_INSTALL_MODES, &pointer, message);
            } else if !seen.insert(kind) {
                self.found(
                    &codes::CSV_INSTALL_MODES,
                    &pointer,
                    format!("{kind} is there twice"),
                );
            }
        }
        let is_unsupported = |mode: &Value| matches!(mode["supported"], Value::Null | Value::Bool(false));
        if modes.iter().all(is_unsupported) {
            let message = "of spec.installModes none is supported";
            let remedy = "Set `supported: true` for at least one, such as AllNamespaces.";
            let finding = self.csv.finding(&codes::CSV_INSTALL_MODES, at, message);
            self.found.push(finding.remedied_by(remedy));
        }
    }

    fn icons(&mut self) {
        for (index, icon) in self.csv.list("/spec/icon").iter().enumerate() {
            // What is missing is told as that
            let is_there = |field: &str| icon[field].is_string();
            if is_there("base64data")
                && is_there("mediatype")
                && let Err(why) = check_icon(icon)
            {
                let message = format!("spec.icon[{index}] {why}");
                self.found(&catalog::ICON, &format!("/spec/icon/{index}"), message);
            }
        }
    }

    fn images(&mut self) {
        for (index, related) in self.csv.list("/spec/relatedImages").iter().enumerate() {
            let image = text(related, "/image");
            let pointer = format!("/spec/relatedImages/{index}/image");
            match Reference::of(image) {
                Err(why) => {
                    let message = format!("spec.relatedImages[{index}].image is {image:?}: {why}");
                    self.found(&codes::CSV_RELATED_IMAGE, &pointer, message);
                }
                Ok(reference) if reference.digest.is_none() => {
                    let message = format!("spec.relatedImages[{index}].image is {image:?}");
                    if reference.host.is_none() {
                        self.found(&codes::IMAGE_WITHOUT_REGISTRY, &pointer, message.clone());
                    }
                    self.found(&catalog::IMAGE_BY_TAG, &pointer, message);
                }
                Ok(_) => {}
            }
        }
    }

    fn deployments(&mut self) {
        let strategy = self.csv.text("/spec/install/strategy");
        if !strategy.is_empty() && strategy != "deployment" {
            let message = format!("spec.install.strategy is {strategy:?}; it must be deployment");
            self.found(&codes::CSV_DEPLOYMENT, "/spec/install/strategy", message);
        }
        let at = "/spec/install/spec/deployments";
        let mut seen = BTreeSet::new();
        for (index, deployment) in self.csv.list(at).iter().enumerate() {
            let (pointer, name) = (format!("{at}/{index}"), text(deployment, "/name"));
            // One that is missing is told as that
            let is_named = !name.is_empty();
            if is_named && !is_dns_subdomain(name) {
                let message = format!("the name of a Deployment is {name:?}");
                self.found(&codes::CSV_DEPLOYMENT, &pointer, message);
            } else if is_named && !seen.insert(name) {
                self.found(
                    &codes::CSV_DEPLOYMENT,
                    &pointer,
                    format!("Deployment {name} is there twice"),
                );
            }
            if let Err(why) = spec_of(&deployment["spec"]) {
                self.found(
                    &codes::CSV_DEPLOYMENT,
                    &format!("{pointer}/spec"),
                    format!("Deployment {name}: {why}"),
                );
            }
        }
    }

    fn accounts(&mut self) {
        let deployments = self.csv.list("/spec/install/spec/deployments").iter();
        let used: BTreeSet<&str> = deployments
            .map(|deployment| text(deployment, "/spec/template/spec/serviceAccountName"))
            .collect();
        let accounts = self
            .bundle
            .objects
            .iter()
            .filter(|object| object.is("", "ServiceAccount"));
        for account in accounts.filter(|account| used.contains(account.name())) {
            let message = format!(
                "a Deployment of the ClusterServiceVersion runs as {}",
                account.name()
            );
            self.found
                .push(account.finding(&codes::CSV_SERVICE_ACCOUNT, "/metadata/name", message));
        }
    }

    fn webhooks(&mut self) {
        if self.csv.list("/spec/webhookdefinitions").is_empty() {
            return;
        }
        let deployments = self
            .csv
            .list("/spec/install/spec/deployments")
            .iter()
            .map(|deployment| {
                json!({
                    "apiVersion": "apps/v1",
                    "kind": "Deployment",
                    "metadata": {"name": deployment["name"]},
                    "spec": deployment["spec"],
                })
            });
        let others = self.bundle.objects.iter().map(|object| object.body.clone());
        let all = Manifests::of(deployments.chain(others).map(|body| Manifest {
            source: self.csv.file.clone(),
            body,
        }));
        for (index, error) in webhooks::refused(&all, &self.csv.body) {
            let pointer = format!("/spec/webhookdefinitions/{index}");
            self.found(&codes::CSV_WEBHOOK, &pointer, error.to_string());
        }
    }
}

/// Whether there is nothing, for whoever reads it as text.
fn is_unset(csv: &Object, pointer: &str) -> bool {
    match csv.body.pointer(pointer) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.trim().is_empty(),
        Some(_) => false,
    }
}

/// What is none is told by its type.
fn is_text(csv: &Object, pointer: &str) -> bool {
    csv.body.pointer(pointer).is_some_and(Value::is_string)
}

/// Whether the API server would take a Deployment with this specification, as far as the operator's authors get it wrong.
/// What is missing, or of another type, is told elsewhere.
fn spec_of(spec: &Value) -> Result<(), String> {
    let labels = spec["selector"]["matchLabels"].as_object();
    let expressions = list(spec, "/selector/matchExpressions");
    if spec["selector"].is_object() && labels.is_none_or(Map::is_empty) && expressions.is_empty() {
        return Err("spec.selector is empty".to_owned());
    }
    if !spec["template"].is_object() {
        return Ok(());
    }
    let on_pods = &spec["template"]["metadata"]["labels"];
    let lacking = labels
        .into_iter()
        .flatten()
        .find(|(key, value)| on_pods[key.as_str()] != **value);
    if let Some((key, value)) = lacking {
        return Err(format!(
            "spec.selector asks for the label {key}={value}, which its pods do not have"
        ));
    }
    let containers = list(spec, "/template/spec/containers");
    if spec["template"]["spec"]["containers"] == json!([]) {
        return Err("spec.template.spec.containers is empty".to_owned());
    }
    let mut seen = BTreeSet::new();
    for container in containers {
        let name = text(container, "/name");
        if !name.is_empty() && !seen.insert(name) {
            return Err(format!("two containers are named {name:?}"));
        }
        let image = text(container, "/image");
        Reference::of(image).map_err(|why| format!("container {name}: image is {image:?}: {why}"))?;
    }
    Ok(())
}
