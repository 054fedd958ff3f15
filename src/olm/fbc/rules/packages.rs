//! Rules of `olm.package`, and of documents of somebody's own.

use std::collections::BTreeMap;

use super::super::blob::{self, Icon};
use super::super::bytes;
use super::super::contents::Contents;
use super::super::read::Scene;
use super::{Packages, messages};
use crate::olm::findings::{Finding, catalog as codes, listed};
use crate::olm::json::check_numbers;
use crate::olm::names::is_dns_label;

/// What the document itself shows.
pub(in super::super) fn one(package: &blob::Package<'_>, scene: &Scene<'_>, findings: &mut Vec<Finding>) {
    let name = &*package.name;
    if !is_dns_label(name) {
        let message = format!("the package's name is {name:?}, which is no DNS label");
        findings.push(scene.found(&codes::PACKAGE_NAME, "/name", message));
    }
    if package.default_channel.is_empty() {
        let message = format!("package {name} names no default channel");
        findings.push(scene.found(&codes::DEFAULT_CHANNEL, "/defaultChannel", message));
    }
    if let Some(icon) = &package.icon
        && let Err(why) = check_icon(icon)
    {
        // What is no base64 keeps upstream from reading the document
        let code = match bytes(&icon.base64data) {
            Ok(_) => &codes::ICON,
            Err(_) => &codes::FIELD_TYPE,
        };
        let message = format!("the icon of package {name} {why}");
        findings.push(scene.found(code, "/icon", message));
    }
}

/// What its server files a document of somebody's own under, and what it sends of it.
pub(in super::super) fn other(
    other: &blob::Other<'_>,
    json: &str,
    scene: &Scene<'_>,
    findings: &mut Vec<Finding>,
) {
    for (field, value) in [("schema", &other.schema), ("package", &other.package)] {
        let is_needed = field == "schema" || !value.is_empty();
        if is_needed && !is_key(value) {
            let message = format!("{field} is {:?}", &**value);
            findings.push(scene.found(&codes::SCHEMA_NAME, &format!("/{field}"), message));
        }
    }
    if let Err(why) = check_numbers(json) {
        findings.push(scene.found(&codes::FIELD_TYPE, "", why));
    }
    messages::other(other, json, scene, findings);
}

/// What all documents show together.
pub(super) fn all<T>(contents: &Contents<T>, packages: &Packages<'_, T>, findings: &mut Vec<Finding>) {
    let mut seen: BTreeMap<&str, _> = BTreeMap::new();
    for package in &contents.packages {
        let place = contents.place(package.at);
        let mut found = |code, message| findings.push(Finding::new(code, &place, message));
        let name = package.name.as_str();
        if let Some(first) = seen.insert(name, place.clone()) {
            found(
                &codes::PACKAGE_DUPLICATE,
                format!("package {name} is also in {first}"),
            );
            continue;
        }
        let Some(its) = packages.get(name) else { continue };
        if its.channels.is_empty() {
            found(
                &codes::PACKAGE_WITHOUT_CHANNEL,
                format!("package {name} has no channel"),
            );
        } else if !package.default_channel.is_empty()
            && !its.channels.contains_key(package.default_channel.as_str())
        {
            let known = listed(its.channels.keys().copied());
            let message = format!(
                "the default channel of package {name} is {:?}; its channels are {known}",
                package.default_channel
            );
            found(&codes::DEFAULT_CHANNEL, message);
        }
    }
}

fn is_key(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|byte| byte.is_ascii_alphanumeric())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

/// Whether the first bytes of an icon are those of its type.
pub(in crate::olm) fn check_icon(icon: &Icon<'_>) -> Result<(), String> {
    let data = bytes(&icon.base64data).map_err(|error| format!("is no base64: {error}"))?;
    let begins = |with: &[u8]| data.starts_with(with);
    let fits = match &*icon.mediatype {
        "image/png" => begins(b"\x89PNG\r\n\x1a\n"),
        "image/jpeg" => begins(b"\xff\xd8\xff"),
        "image/gif" => begins(b"GIF8"),
        "image/svg+xml" => {
            let head = String::from_utf8_lossy(&data[..data.len().min(4096)]);
            head.contains("<svg")
        }
        other => return Err(format!("is of type {other:?}")),
    };
    if fits {
        Ok(())
    } else {
        Err(format!("is no {}", &*icon.mediatype))
    }
}
