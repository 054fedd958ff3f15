//! How a definition's versions are converted, as the API server takes it.

use std::collections::BTreeSet;

use serde_json::Value;

use super::crds::Judge;
use crate::olm::findings::bundle as codes;
use crate::olm::manifests::list;
use crate::olm::names::{is_dns_1035_label, is_dns_subdomain};
use crate::olm::opened::is_seen_to;

const AT: &str = "/spec/conversion";

pub(super) fn check(judge: &mut Judge<'_>) {
    let crd = judge.crd;
    let conversion = &crd.body["spec"]["conversion"];
    if conversion.is_null() {
        return;
    }
    let webhook = &conversion["webhook"];
    let has_webhook =
        !webhook["clientConfig"].is_null() || !list(webhook, "/conversionReviewVersions").is_empty();
    let wrong = match crd.text("/spec/conversion/strategy") {
        "None" if !has_webhook => return,
        "None" => Some(("/webhook", "None has no webhook")),
        "Webhook" => None,
        _ => Some(("/strategy", "accepted are None and Webhook")),
    };
    if let Some((field, accepted)) = wrong {
        return judge.wrong(&codes::CRD_CONVERSION, &format!("{AT}{field}"), accepted);
    }
    client(judge);
    review_versions(judge);
    if !is_seen_to(&crd.body) {
        let message = format!("{} comes with a conversion webhook", crd.name());
        judge
            .found
            .push(crd.finding(&codes::CRD_CONVERSION_LEFT, AT, message));
    }
}

fn client(judge: &mut Judge<'_>) {
    let at = format!("{AT}/webhook/clientConfig");
    let client = &judge.crd.body["spec"]["conversion"]["webhook"]["clientConfig"];
    let mut wrong =
        |field: &str, accepted| judge.wrong(&codes::CRD_CONVERSION, &format!("{at}{field}"), accepted);
    match (client["url"].as_str(), &client["service"]) {
        (Some(url), Value::Null) if !is_plain_https(url) => {
            wrong(
                "/url",
                "it must be like https://host/path, without a user, a query and a fragment",
            );
        }
        (Some(_), Value::Null) => {}
        (None, service @ Value::Object(_)) => {
            for field in ["name", "namespace"] {
                if service[field].as_str().is_none_or(str::is_empty) {
                    wrong(&format!("/service/{field}"), "it must be set");
                }
            }
            if !service["port"].is_null()
                && !service["port"]
                    .as_u64()
                    .is_some_and(|port| (1..=65535).contains(&port))
            {
                wrong("/service/port", "it must be from 1 to 65535");
            }
            if service["path"]
                .as_str()
                .is_some_and(|path| !path.is_empty() && !is_path(path))
            {
                wrong(
                    "/service/path",
                    "it must begin with / and be of lower-case letters, digits, dashes and dots",
                );
            }
        }
        _ => wrong("", "it must have either url or service"),
    }
}

fn is_plain_https(url: &str) -> bool {
    let Some(rest) = url.strip_prefix("https://") else {
        return false;
    };
    let host = rest.split('/').next().unwrap_or_default();
    !host.is_empty() && !rest.contains(['@', '?', '#', ' '])
}

/// Segments between slashes; the last one may be empty.
fn is_path(path: &str) -> bool {
    let Some(path) = path.strip_prefix('/') else {
        return false;
    };
    path.is_empty()
        || path
            .strip_suffix('/')
            .unwrap_or(path)
            .split('/')
            .all(is_dns_subdomain)
}

fn review_versions(judge: &mut Judge<'_>) {
    let at = format!("{AT}/webhook/conversionReviewVersions");
    let versions: Vec<&str> = judge.crd.list(&at).iter().filter_map(Value::as_str).collect();
    let mut seen = BTreeSet::new();
    for (index, version) in versions.iter().enumerate() {
        let accepted = if !is_dns_1035_label(version) {
            "it must be like v1"
        } else if !seen.insert(version) {
            "it is there twice"
        } else {
            continue;
        };
        judge.wrong(&codes::CRD_CONVERSION, &format!("{at}/{index}"), accepted);
    }
    if !versions.iter().any(|version| ["v1", "v1beta1"].contains(version)) {
        judge.wrong(&codes::CRD_CONVERSION, &at, "v1 must be among them");
    }
}
