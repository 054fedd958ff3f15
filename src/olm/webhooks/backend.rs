//! Where a webhook leads: through a Service to a Deployment.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::{ADMISSION, CONFIGURATIONS, converting, of_kind, place};
use crate::olm::Error;
use crate::olm::manifests::{Manifest, Manifests, api_group, list, name, text};

/// The port of a Service where a webhook names none.
const DEFAULT_PORT: u64 = 443;

/// What serves a webhook.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Backend {
    deployment: String,
    port: u64,
    target_port: Port,
    path: Option<String>,
}

/// A port of a pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Port {
    Number(u64),
    Name(String),
}

impl Backend {
    /// Follows a `clientConfig`, which stands in the field `field` of the object that `place` names.
    pub(super) fn of(manifests: &Manifests, at: &str, field: &str, config: &Value) -> Result<Self, Error> {
        if let Some(url) = config.get("url") {
            let accepted = "OLM sets up webhooks of the bundle's own Deployments alone; name the Service of one in clientConfig.service";
            return Err(Error::webhook(at, &format!("{field}.url"), url, accepted));
        }
        let service = service_of(manifests, at, field, config)?;
        let port = port_of(config);
        let known = list(&service.body, "/spec/ports");
        let Some(entry) = known.iter().find(|entry| entry["port"].as_u64() == Some(port)) else {
            let ports: Vec<String> = known.iter().map(|entry| entry["port"].to_string()).collect();
            let accepted = format!("Service {} has {}", name(&service.body), some_of("port", &ports));
            return Err(Error::webhook(
                at,
                &format!("{field}.service.port"),
                &json!(port),
                accepted,
            ));
        };
        let target = entry.get("targetPort").unwrap_or(&entry["port"]);
        Ok(Self {
            deployment: deployment_of(manifests, service)?,
            port,
            target_port: match target.as_u64() {
                Some(number) => Port::Number(number),
                None => Port::Name(text(target, "").to_owned()),
            },
            path: config
                .pointer("/service/path")
                .and_then(Value::as_str)
                .map(str::to_owned),
        })
    }

    /// Says it in the words of a ClusterServiceVersion.
    pub(super) fn describe(self, body: &mut Map<String, Value>) {
        body.insert("deploymentName".into(), json!(self.deployment));
        body.insert("containerPort".into(), json!(self.port));
        let target_port = match self.target_port {
            Port::Number(number) => json!(number),
            Port::Name(name) => json!(name),
        };
        body.insert("targetPort".into(), target_port);
        if let Some(path) = self.path {
            body.insert("webhookPath".into(), json!(path));
        }
    }
}

fn port_of(config: &Value) -> u64 {
    let port = config.pointer("/service/port").and_then(Value::as_u64);
    port.unwrap_or(DEFAULT_PORT)
}

fn service_of<'a>(
    manifests: &'a Manifests,
    at: &str,
    field: &str,
    config: &Value,
) -> Result<&'a Manifest, Error> {
    let wanted = text(config, "/service/name");
    let mut services = of_kind(manifests, "", "Service");
    services
        .find(|service| name(&service.body) == wanted)
        .ok_or_else(|| {
            let mut names: Vec<String> = manifests
                .of_kind("", "Service")
                .map(|body| name(body).to_owned())
                .collect();
            names.sort();
            let accepted = format!(
                "it must name a Service of the manifests, which have {}",
                some_of("Service", &names)
            );
            Error::webhook(at, &format!("{field}.service.name"), &json!(wanted), accepted)
        })
}

/// The only Deployment whose pods the Service selects.
fn deployment_of(manifests: &Manifests, service: &Manifest) -> Result<String, Error> {
    let selector = service.body.pointer("/spec/selector").unwrap_or(&Value::Null);
    let wanted = selector
        .as_object()
        .filter(|wanted| !wanted.is_empty())
        .into_iter();
    let wanted: Vec<_> = wanted.flatten().collect();
    let is_selected = |deployment: &&Value| {
        let labels = &deployment["spec"]["template"]["metadata"]["labels"];
        !wanted.is_empty() && wanted.iter().all(|(key, value)| labels.get(*key) == Some(*value))
    };
    let deployments = manifests.of_kind("apps", "Deployment").filter(is_selected);
    let mut selected: Vec<String> = deployments.map(|body| name(body).to_owned()).collect();
    selected.sort();
    match &selected[..] {
        [only] => Ok(only.clone()),
        _ => {
            let accepted = format!(
                "it must select the pods of exactly one Deployment, which serves the webhooks, and selects those of {}",
                some_of("Deployment", &selected)
            );
            Err(Error::webhook(
                &place(service),
                "spec.selector",
                selector,
                accepted,
            ))
        }
    }
}

fn some_of(noun: &str, names: &[String]) -> String {
    match names {
        [] => format!("no {noun}"),
        [one] => format!("the {noun} {one}"),
        _ => format!("the {noun}s {}", names.join(", ")),
    }
}

/// The Services that nothing needs under OLM: all of their ports are for webhooks, and nothing else in the manifests names them.
/// OLM's certificate is for its own Service.
pub(super) fn only_for_webhooks(manifests: &Manifests) -> BTreeSet<String> {
    let mut used: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    for config in client_configs(manifests) {
        let ports = used.entry(text(config, "/service/name")).or_default();
        ports.insert(port_of(config));
    }
    let is_free = |service: &&Value| {
        used.get(name(service)).is_some_and(|ports| {
            let is_used = |entry: &Value| entry["port"].as_u64().is_some_and(|port| ports.contains(&port));
            list(service, "/spec/ports").iter().all(is_used) && !is_named(manifests, name(service))
        })
    };
    let services = manifests.of_kind("", "Service").filter(is_free);
    services.map(|service| name(service).to_owned()).collect()
}

fn client_configs(manifests: &Manifests) -> impl Iterator<Item = &Value> {
    let configurations = CONFIGURATIONS
        .iter()
        .flat_map(|(kind, _)| manifests.of_kind(ADMISSION, kind));
    let admission = configurations.flat_map(|body| list(body, "/webhooks"));
    let admission = admission.filter_map(|webhook| webhook.get("clientConfig"));
    let conversion = converting(manifests)
        .filter_map(|manifest| manifest.body.pointer("/spec/conversion/webhook/clientConfig"));
    admission.chain(conversion)
}

/// Whether an object other than those about webhooks leads to a Service, as a ConsolePlugin does.
fn is_named(manifests: &Manifests, service: &str) -> bool {
    let others = manifests
        .iter()
        .map(|manifest| &manifest.body)
        .filter(|body| ![ADMISSION, "apiextensions.k8s.io"].contains(&api_group(body)));
    others.into_iter().any(|body| leads_to(body, service))
}

fn leads_to(value: &Value, service: &str) -> bool {
    match value {
        Value::Object(fields) => fields.iter().any(|(field, inner)| match field.as_str() {
            "service" if inner["name"] == service => true,
            "serviceName" if inner == service => true,
            _ => leads_to(inner, service),
        }),
        Value::Array(items) => items.iter().any(|item| leads_to(item, service)),
        _ => false,
    }
}
