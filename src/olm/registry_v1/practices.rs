//! What the operator framework advises (`good-practices`).

use semver::Version;

use super::metadata::channels;
use super::objects::names_any;
use super::read::{Bundle, Object};
use crate::olm::findings::{Finding, bundle as codes};
use crate::olm::manifests::{list, text};

pub(super) fn check(bundle: &Bundle, csv: &Object, found: &mut Vec<Finding>) {
    requests(csv, found);
    for relation in ["owned", "required"] {
        let at = format!("/spec/customresourcedefinitions/{relation}");
        for (index, definition) in csv.list(&at).iter().enumerate() {
            if text(definition, "/description").is_empty() {
                let message = format!("{} has no description", text(definition, "/name"));
                found.push(csv.finding(
                    &codes::PRACTICE_CRD_DESCRIPTION,
                    &format!("{at}/{index}"),
                    message,
                ));
            }
        }
    }
    if let Some(annotations) = &bundle.annotations {
        let (mut all, default) = channels(annotations);
        all.extend(default);
        all.sort_unstable();
        all.dedup();
        let is_usual = |channel: &str| {
            ["candidate", "fast", "stable"]
                .iter()
                .any(|usual| channel.starts_with(usual))
        };
        for channel in all.into_iter().filter(|channel| !is_usual(channel)) {
            let message = format!("channel {channel} begins with none of candidate, fast and stable");
            found.push(annotations.finding(&codes::PRACTICE_CHANNEL, "/annotations", message));
        }
    }
    creation(csv, found);
    let mut parts = csv.name().split(".v");
    let versioned = match (parts.next(), parts.next(), parts.next()) {
        (Some(_), Some(version), None) => version.parse::<Version>().is_ok(),
        _ => false,
    };
    if !versioned {
        let message = format!("{} is not named OPERATOR.vVERSION", csv.name());
        found.push(csv.finding(&codes::PRACTICE_NAME, "/metadata/name", message));
    }
}

fn requests(csv: &Object, found: &mut Vec<Finding>) {
    let at = "/spec/install/spec/deployments";
    for (index, deployment) in csv.list(at).iter().enumerate() {
        let containers = "/spec/template/spec/containers";
        for (number, container) in list(deployment, containers).iter().enumerate() {
            let requests = &container["resources"]["requests"];
            let lacking: Vec<&str> = ["cpu", "memory"]
                .into_iter()
                .filter(|resource| requests[resource].is_null())
                .collect();
            if !lacking.is_empty() {
                let message = format!(
                    "container {} of Deployment {} requests no {}",
                    text(container, "/name"),
                    text(deployment, "/name"),
                    lacking.join(" and no ")
                );
                let pointer = format!("{at}/{index}{containers}/{number}");
                found.push(csv.finding(&codes::PRACTICE_REQUESTS, &pointer, message));
            }
        }
    }
}

fn creation(csv: &Object, found: &mut Vec<Finding>) {
    for field in ["permissions", "clusterPermissions"] {
        let at = format!("/spec/install/spec/{field}");
        for (index, entry) in csv.list(&at).iter().enumerate() {
            for (number, rule) in list(entry, "/rules").iter().enumerate() {
                let names = |field: &str, any: &[&str]| names_any(rule, field, any);
                if names("apiGroups", &["apiextensions.k8s.io"])
                    && names("resources", &["customresourcedefinitions", "*"])
                    && names("verbs", &["create", "patch", "*"])
                {
                    let account = text(entry, "/serviceAccountName");
                    let message = format!("{account} may create CustomResourceDefinitions");
                    let pointer = format!("{at}/{index}/rules/{number}");
                    found.push(csv.finding(&codes::PRACTICE_CRD_CREATION, &pointer, message));
                }
            }
        }
    }
}
