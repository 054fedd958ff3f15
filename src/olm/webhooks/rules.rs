//! The rules that OLM has for `spec.webhookdefinitions`. A ClusterServiceVersion that breaks one fails when it is installed, or
//! waits for ever.
//!
//! They are those of `ValidWebhookRules` and `createOrUpdateWebhook` in operator-lifecycle-manager, of the validators of
//! `registryv1` in operator-controller (OLM v1), and of the API server for the configurations that OLM makes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Definition;
use crate::olm::Error;
use crate::olm::csv;
use crate::olm::manifests::{Manifests, list, name, text};
use crate::olm::names::{LONGEST_LABEL, LONGEST_SUBDOMAIN, is_dns_1035_label, is_dns_subdomain};

/// Groups of OLM and OLM v1: a webhook that fails could keep them from mending it.
const OF_OLM: [&str; 2] = ["operators.coreos.com", "olm.operatorframework.io"];

/// The first breach.
pub(super) fn check(definitions: &[Definition], manifests: &Manifests, base: &Value) -> Result<(), Error> {
    match all(definitions, manifests, base).into_iter().next() {
        Some((_, error)) => Err(error),
        None => Ok(()),
    }
}

/// Every breach, with the index of the definition.
pub(super) fn all(definitions: &[Definition], manifests: &Manifests, base: &Value) -> Vec<(usize, Error)> {
    let mut names = BTreeMap::new();
    let mut converted = BTreeMap::new();
    let mut ports = BTreeMap::new();
    let mut refused = Vec::new();
    for (index, definition) in definitions.iter().enumerate() {
        let mut judge =
            |checked: Result<(), Error>| refused.extend(checked.err().map(|error| (index, error)));
        judge(check_type(definition));
        judge(check_name(definition));
        judge(check_versions(definition));
        judge(check_side_effects(definition));
        judge(check_deployment(definition, manifests));
        if definition.is_conversion() {
            judge(check_install_modes(definition, base));
            judge(check_crds(definition, manifests));
        } else {
            judge(check_rules(definition));
        }
        judge(check_once(
            definition,
            "generateName",
            definition.text("generateName"),
            &mut names,
        ));
        for crd in definition.crds() {
            judge(check_once(definition, "conversionCRDs", crd, &mut converted));
        }
        judge(check_port(definition, &mut ports));
    }
    refused
}

fn check_type(definition: &Definition) -> Result<(), Error> {
    let of_admission = super::CONFIGURATIONS.map(|(_, of_admission)| of_admission);
    let said = definition.text("type");
    if definition.is_conversion() || of_admission.contains(&said) {
        return Ok(());
    }
    let accepted = format!(
        "accepted are {} and {}",
        of_admission.join(", "),
        super::CONVERSION
    );
    Err(definition.error("type", accepted))
}

/// A name of Kubernetes, and of an admission webhook one of three parts.
fn check_name(definition: &Definition) -> Result<(), Error> {
    let name = definition.text("generateName");
    let (parts, longest) = if definition.is_conversion() {
        (1, LONGEST_SUBDOMAIN)
    } else {
        // What OLM puts it into is a label
        (3, LONGEST_LABEL)
    };
    let is_fit = name.len() <= longest && name.split('.').count() >= parts && is_dns_subdomain(name);
    if is_fit {
        return Ok(());
    }
    let accepted = format!(
        "it must be lower-case letters, digits and dashes, in at least {parts} parts with dots between, and at most {longest} characters"
    );
    Err(definition.error("generateName", accepted))
}

fn check_versions(definition: &Definition) -> Result<(), Error> {
    let is_v1 = |version: &Value| version == "v1";
    if definition.list("admissionReviewVersions").iter().any(is_v1) {
        return Ok(());
    }
    let accepted = "v1 must be among them, the only version that API servers speak by now";
    Err(definition.error("admissionReviewVersions", accepted))
}

fn check_side_effects(definition: &Definition) -> Result<(), Error> {
    match definition.text("sideEffects") {
        "None" | "NoneOnDryRun" => Ok(()),
        // The API server wants it to be there, and nobody goes by it
        said if definition.is_conversion() && !said.is_empty() => Ok(()),
        _ => Err(definition.error("sideEffects", "accepted are None and NoneOnDryRun")),
    }
}

/// What a rule may not reach, so that a webhook that fails can be taken away again.
fn check_rules(definition: &Definition) -> Result<(), Error> {
    for (index, rule) in definition.list("rules").iter().enumerate() {
        let error = |field: &str, accepted: &str| {
            let field = format!("rules[{index}].{field}");
            let value = rule
                .pointer(&format!("/{}", field.rsplit('.').next().unwrap_or_default()))
                .unwrap_or(&Value::Null);
            Error::webhook(&definition.place, &field, value, accepted)
        };
        for group in list(rule, "/apiGroups").iter().filter_map(Value::as_str) {
            if group == "*" {
                return Err(error("apiGroups", "OLM forbids a rule for all groups; name each"));
            }
            if OF_OLM.contains(&group) {
                return Err(error("apiGroups", "OLM forbids rules for its own groups"));
            }
            let resources = list(rule, "/resources").iter().filter_map(Value::as_str);
            if group == super::ADMISSION && resources.into_iter().any(is_configuration) {
                return Err(error(
                    "resources",
                    "OLM forbids rules for webhook configurations; name other resources of admissionregistration.k8s.io",
                ));
            }
        }
    }
    Ok(())
}

/// OLM looks for the kinds, OLM v1 for the resources too.
fn is_configuration(resource: &str) -> bool {
    let resource = resource
        .split('/')
        .next()
        .unwrap_or_default()
        .to_ascii_lowercase();
    let kinds = ["mutatingwebhookconfiguration", "validatingwebhookconfiguration"];
    resource == "*" || kinds.contains(&resource.trim_end_matches('s'))
}

/// OLM names a Service after the Deployment and gives it the Deployment's `matchLabels`.
fn check_deployment(definition: &Definition, manifests: &Manifests) -> Result<(), Error> {
    let wanted = definition.text("deploymentName");
    let mut deployments = manifests.of_kind("apps", "Deployment");
    let Some(deployment) = deployments.find(|deployment| name(deployment) == wanted) else {
        return Err(definition.error("deploymentName", "it must name a Deployment of the manifests"));
    };
    let service = service_of(definition);
    if !is_dns_1035_label(&service) {
        let accepted = format!(
            "OLM makes the Service {service} for it, so it must begin with a letter, have no dot, and at most {} characters",
            LONGEST_LABEL - "-service".len()
        );
        return Err(definition.error("deploymentName", accepted));
    }
    let labels = deployment.pointer("/spec/selector/matchLabels");
    if labels
        .and_then(Value::as_object)
        .is_none_or(|labels| labels.is_empty())
    {
        let accepted = "OLM's Service for the webhooks selects the pods by it, so it needs a label";
        let field = "spec.selector.matchLabels";
        let value = labels.unwrap_or(&Value::Null);
        return Err(Error::webhook(
            &format!("Deployment {wanted}"),
            field,
            value,
            accepted,
        ));
    }
    Ok(())
}

fn service_of(definition: &Definition) -> String {
    format!("{}-service", definition.text("deploymentName"))
}

/// OLM refuses a conversion webhook of an operator that may be there twice: a definition belongs to the whole cluster.
fn check_install_modes(definition: &Definition, base: &Value) -> Result<(), Error> {
    let modes = list(base, "/spec/installModes").iter();
    let supported: Vec<&str> = modes
        .filter(|mode| mode["supported"] == true)
        .map(|mode| text(mode, "/type"))
        .collect();
    if supported == ["AllNamespaces"] {
        return Ok(());
    }
    let accepted = format!(
        "a conversion webhook ({}) needs AllNamespaces as the only one that is supported",
        definition.text("generateName")
    );
    Err(Error::webhook(
        "the ClusterServiceVersion",
        "supported spec.installModes",
        &supported.into(),
        accepted,
    ))
}

fn check_crds(definition: &Definition, manifests: &Manifests) -> Result<(), Error> {
    if definition.list("conversionCRDs").is_empty() {
        return Err(definition.error(
            "conversionCRDs",
            "it must name the definitions that the webhook converts",
        ));
    }
    for wanted in definition.crds() {
        let Some(crd) = csv::crds(manifests).find(|crd| name(crd) == wanted) else {
            let accepted = format!("{wanted} must be a CustomResourceDefinition of the manifests");
            return Err(definition.error("conversionCRDs", accepted));
        };
        let kept = &crd["spec"]["preserveUnknownFields"];
        if kept == true {
            let place = format!("CustomResourceDefinition {wanted}");
            let accepted = "only false is accepted of a definition that a webhook converts";
            return Err(Error::webhook(
                &place,
                "spec.preserveUnknownFields",
                kept,
                accepted,
            ));
        }
    }
    Ok(())
}

/// OLM fails a ClusterServiceVersion with one name for two webhooks, and of two that convert one definition the last would win.
fn check_once<'a>(
    definition: &'a Definition,
    field: &str,
    value: &'a str,
    seen: &mut BTreeMap<&'a str, &'a str>,
) -> Result<(), Error> {
    match seen.insert(value, &definition.place) {
        None => Ok(()),
        Some(first) => {
            let accepted = format!("{value} is taken already by {first}; each may be there once");
            Err(definition.error(field, accepted))
        }
    }
}

/// A port of OLM's Service is named by its number, so it can lead to one port of the pods only.
fn check_port<'a>(
    definition: &'a Definition,
    seen: &mut BTreeMap<(&'a str, u64), &'a Definition>,
) -> Result<(), Error> {
    let port = definition.body.get("containerPort").and_then(Value::as_u64);
    let port = port.unwrap_or_default();
    let target = |definition: &Definition| match definition.body.get("targetPort") {
        Some(target) => target.to_string(),
        None => port.to_string(),
    };
    let first = *seen
        .entry((definition.text("deploymentName"), port))
        .or_insert(definition);
    if target(first) == target(definition) {
        return Ok(());
    }
    let accepted = format!(
        "{} has {} behind the same port {port}, and OLM makes one Service port of both; give them one targetPort, or two ports",
        first.place,
        target(first)
    );
    Err(definition.error("targetPort", accepted))
}

/// OLM would take over a shipped Service that has the name of its own.
pub(super) fn check_services(
    definitions: &[Definition],
    manifests: &Manifests,
    covered: &BTreeSet<(String, String)>,
) -> Result<(), Error> {
    let own: BTreeSet<String> = definitions.iter().map(service_of).collect();
    for service in manifests.of_kind("", "Service") {
        let name = name(service).to_owned();
        if own.contains(&name) && !covered.contains(&("Service".to_owned(), name.clone())) {
            return Err(Error::webhook(
                &format!("Service {name}"),
                "metadata.name",
                &name.clone().into(),
                "OLM makes a Service of this name for the webhooks; choose another",
            ));
        }
    }
    Ok(())
}
