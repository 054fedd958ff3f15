//! The webhooks of a ClusterServiceVersion, `spec.webhookdefinitions`, from what the manifests say: webhook configurations, and the
//! `spec.conversion` of definitions.
//!
//! OLM makes the configurations, a Service `DEPLOYMENT-service` and its certificate from there, so all that the manifests have for
//! the same purpose stays out of the bundle.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::Error;
use super::manifests::{Manifest, Manifests, is_kind, list, name, text};

mod backend;
mod certificates;
mod rules;

use backend::Backend;

/// The webhooks of an operator, and which objects they stand for.
#[derive(Debug, Default, PartialEq)]
pub struct Webhooks {
    /// `spec.webhookdefinitions`, sorted by name.
    pub definitions: Vec<Value>,
    /// Kind and name of objects that OLM makes itself, so the bundle must not ship them.
    pub covered: BTreeSet<(String, String)>,
    /// The Secrets of the covered certificates. Under OLM they do not exist.
    secrets: BTreeSet<String>,
}

/// An entry of `spec.webhookdefinitions`, and where it comes from, for messages.
struct Definition {
    place: String,
    body: Map<String, Value>,
}

impl Definition {
    fn text(&self, field: &str) -> &str {
        self.body.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    fn list(&self, field: &str) -> &[Value] {
        self.body.get(field).map_or(&[], |value| list(value, ""))
    }

    fn is_conversion(&self) -> bool {
        self.text("type") == CONVERSION
    }

    fn crds(&self) -> impl Iterator<Item = &str> {
        self.list("conversionCRDs").iter().filter_map(Value::as_str)
    }

    fn error(&self, field: &str, accepted: impl Into<String>) -> Error {
        let value = self.body.get(field).unwrap_or(&Value::Null);
        Error::webhook(&self.place, field, value, accepted)
    }
}

const ADMISSION: &str = "admissionregistration.k8s.io";
const CONVERSION: &str = "ConversionWebhook";

/// Kinds of configurations, and the types of their webhooks in a ClusterServiceVersion.
const CONFIGURATIONS: [(&str, &str); 2] = [
    ("MutatingWebhookConfiguration", "MutatingAdmissionWebhook"),
    ("ValidatingWebhookConfiguration", "ValidatingAdmissionWebhook"),
];

/// What a ClusterServiceVersion says of an admission webhook in the same words.
const CARRIED: [&str; 8] = [
    "admissionReviewVersions",
    "failurePolicy",
    "matchPolicy",
    "objectSelector",
    "reinvocationPolicy",
    "rules",
    "sideEffects",
    "timeoutSeconds",
];

impl Webhooks {
    /// Follows every configuration and every converting definition to the Deployment that serves it.
    ///
    /// An entry of the base's own `spec.webhookdefinitions` stands for the webhook of its name, or the definitions that it lists, and
    /// is taken as it is. All entries must meet the rules of OLM, of OLM v1 too.
    ///
    /// # Errors
    /// [`Error::Webhook`] names the object, the field, the value, and what would be accepted.
    pub fn of(manifests: &Manifests, base: &Value) -> Result<Self, Error> {
        let mut definitions = told(base);
        let admission = admission(manifests, &definitions)?;
        let conversion = conversion(manifests, &definitions)?;
        definitions.extend(admission);
        definitions.extend(conversion);
        definitions.sort_by(|one, other| one.text("generateName").cmp(other.text("generateName")));
        rules::check(&definitions, manifests, base)?;

        let mut webhooks = Self::default();
        for (kind, _) in CONFIGURATIONS {
            let configurations = manifests.of_kind(ADMISSION, kind);
            let reference = |body| (kind.to_owned(), name(body).to_owned());
            webhooks.covered.extend(configurations.map(reference));
        }
        let services = backend::only_for_webhooks(manifests);
        let certificates = certificates::only_for_webhooks(manifests, &services);
        webhooks.covered.extend(certificates.covered);
        webhooks.secrets = certificates.secrets;
        let reference = |service| ("Service".to_owned(), service);
        webhooks.covered.extend(services.into_iter().map(reference));
        rules::check_services(&definitions, manifests, &webhooks.covered)?;
        let entries = definitions
            .into_iter()
            .map(|definition| Value::Object(definition.body));
        webhooks.definitions = entries.collect();
        Ok(webhooks)
    }

    /// Takes the certificate out of the pods of a Deployment that serves webhooks: OLM mounts its own at a fixed place.
    ///
    /// # Errors
    /// [`Error::Webhook`] when OLM's certificate would not be where the pods expect theirs.
    pub fn unmount(&self, deployment: &mut Value) -> Result<(), Error> {
        let serves = |definition: &Value| text(definition, "/deploymentName") == name(deployment);
        if self.definitions.iter().any(serves) {
            certificates::unmount(deployment, &self.secrets)?;
        }
        Ok(())
    }
}

/// What OLM, or the API server for it, refuses of the webhooks of a finished ClusterServiceVersion, each with its index. The manifests hold the
/// Deployments, and what the bundle ships.
pub(super) fn refused(manifests: &Manifests, csv: &Value) -> Vec<(usize, Error)> {
    let definitions = told(csv);
    let mut refused = rules::all(&definitions, manifests, csv);
    for (index, definition) in definitions.iter().enumerate() {
        let services = rules::check_services(std::slice::from_ref(definition), manifests, &BTreeSet::new());
        refused.extend(services.err().map(|error| (index, error)));
    }
    refused
}

/// What a base says itself. OLM v1 does not fill in the port that the API server would.
fn told(base: &Value) -> Vec<Definition> {
    let definition = |entry: &Value| {
        let mut body = entry.as_object().cloned().unwrap_or_default();
        body.entry("containerPort").or_insert_with(|| json!(443));
        let place = format!(
            "webhook {} of the ClusterServiceVersion",
            text(entry, "/generateName")
        );
        Definition { place, body }
    };
    list(base, "/spec/webhookdefinitions")
        .iter()
        .map(definition)
        .collect()
}

fn admission(manifests: &Manifests, told: &[Definition]) -> Result<Vec<Definition>, Error> {
    let mut found = Vec::new();
    for (kind, webhook_type) in CONFIGURATIONS {
        for manifest in of_kind(manifests, ADMISSION, kind) {
            for webhook in list(&manifest.body, "/webhooks") {
                let name = text(webhook, "/name");
                let same = |told: &Definition| {
                    told.text("type") == webhook_type && told.text("generateName") == name
                };
                if !told.iter().any(same) {
                    let place = format!("{}, webhook {name}", place(manifest));
                    found.push(describe(manifests, place, webhook_type, webhook)?);
                }
            }
        }
    }
    Ok(found)
}

fn describe(
    manifests: &Manifests,
    place: String,
    webhook_type: &str,
    webhook: &Value,
) -> Result<Definition, Error> {
    let mut body = Map::new();
    for (field, value) in webhook.as_object().into_iter().flatten() {
        match field.as_str() {
            "name" | "clientConfig" => {}
            field if CARRIED.contains(&field) => {
                body.insert(field.to_owned(), value.clone());
            }
            _ if is_empty(value) => {}
            _ => return Err(Error::webhook(&place, field, value, cannot_hold(field))),
        }
    }
    body.insert("type".into(), json!(webhook_type));
    body.insert("generateName".into(), json!(text(webhook, "/name")));
    Backend::of(manifests, &place, "clientConfig", &webhook["clientConfig"])?.describe(&mut body);
    Ok(Definition { place, body })
}

/// A part of the webhook that went missing would widen what it sees.
fn cannot_hold(field: &str) -> &'static str {
    match field {
        "namespaceSelector" => {
            "leave it out: OLM selects the namespaces of the OperatorGroup, and a ClusterServiceVersion can say only objectSelector"
        }
        "matchConditions" => {
            "leave it out and decide in the webhook: a ClusterServiceVersion can say only rules and objectSelector"
        }
        _ => "leave it out: a ClusterServiceVersion has no such field",
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// One entry for all definitions that the same webhook converts, named `c` and the first of them: the group is in the name, so
/// definitions of one plural in two groups do not meet.
fn conversion(manifests: &Manifests, told: &[Definition]) -> Result<Vec<Definition>, Error> {
    let mut groups: BTreeMap<(Backend, Vec<String>), Vec<&Manifest>> = BTreeMap::new();
    for manifest in converting(manifests) {
        let crd = &manifest.body;
        if told
            .iter()
            .any(|told| told.crds().any(|listed| listed == name(crd)))
        {
            continue;
        }
        let (field, webhook) = ("spec.conversion.webhook", &crd["spec"]["conversion"]["webhook"]);
        let config = &webhook["clientConfig"];
        let backend = Backend::of(
            manifests,
            &place(manifest),
            &format!("{field}.clientConfig"),
            config,
        )?;
        let versions = list(webhook, "/conversionReviewVersions").iter();
        let versions = versions.filter_map(Value::as_str).map(str::to_owned).collect();
        groups.entry((backend, versions)).or_default().push(manifest);
    }
    let definition = |((backend, versions), mut crds): ((Backend, Vec<String>), Vec<&Manifest>)| {
        crds.sort_by_key(|manifest| name(&manifest.body));
        let names: Vec<&str> = crds.iter().map(|manifest| name(&manifest.body)).collect();
        let mut body = Map::new();
        body.insert("type".into(), json!(CONVERSION));
        body.insert(
            "generateName".into(),
            json!(names.first().map(|first| format!("c{first}"))),
        );
        body.insert("conversionCRDs".into(), json!(names));
        body.insert("admissionReviewVersions".into(), json!(versions));
        body.insert("sideEffects".into(), json!("None"));
        backend.describe(&mut body);
        let place = crds.first().map(|manifest| place(manifest)).unwrap_or_default();
        Definition { place, body }
    };
    Ok(groups.into_iter().map(definition).collect())
}

fn converting(manifests: &Manifests) -> impl Iterator<Item = &Manifest> {
    of_kind(manifests, "apiextensions.k8s.io", "CustomResourceDefinition")
        .filter(|manifest| text(&manifest.body, "/spec/conversion/strategy") == "Webhook")
}

fn of_kind<'a>(
    manifests: &'a Manifests,
    group: &'a str,
    kind: &'a str,
) -> impl Iterator<Item = &'a Manifest> {
    manifests
        .iter()
        .filter(move |manifest| is_kind(&manifest.body, group, kind))
}

/// The file and the object, for messages.
fn place(manifest: &Manifest) -> String {
    format!(
        "{}: {} {}",
        manifest.source.display(),
        text(&manifest.body, "/kind"),
        name(&manifest.body)
    )
}
