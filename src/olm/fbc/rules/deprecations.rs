//! Rules of `olm.deprecations`.

use std::collections::{BTreeMap, BTreeSet};

use super::super::blob;
use super::super::contents::{Contents, Deprecation};
use super::super::locate::Places;
use super::{Belongings, Packages};
use crate::olm::findings::{Code, Finding, Place, catalog as codes, listed};

/// What all documents show together.
pub(super) fn all<T>(
    contents: &Contents<T>,
    packages: &Packages<'_, T>,
    places: &mut Places<'_, T>,
    findings: &mut Vec<Finding>,
) {
    let mut seen: BTreeMap<&str, Place> = BTreeMap::new();
    for document in &contents.deprecations {
        let place = contents.place(document.at);
        let name = document.package.as_str();
        let Some(its) = packages.get(name) else {
            let message = format!("the deprecations are of package {name:?}, which is not there");
            findings.push(Finding::new(&codes::PACKAGE_UNKNOWN, &place, message));
            continue;
        };
        if let Some(first) = seen.insert(name, place.clone()) {
            let message = format!("there are deprecations of package {name} in {first}, too");
            findings.push(Finding::new(&codes::DEPRECATION_DUPLICATE, &place, message));
        }
        let mut references = BTreeSet::new();
        for (index, entry) in document.entries.iter().enumerate() {
            let mut found = |code: &'static Code, field: &str, message| {
                let place = places.field(document.at, &format!("/entries/{index}/{field}"));
                findings.push(Finding::new(code, &place, message));
            };
            if !references.insert((&entry.schema, &entry.name)) {
                let message = format!(
                    "{} {:?} of package {name} is deprecated twice",
                    entry.schema, entry.name
                );
                found(&codes::DEPRECATION_DUPLICATE, "reference", message);
            }
            if let Err(why) = check_reference(entry, its) {
                let message = format!("package {name}: {why}");
                found(&codes::DEPRECATION_REFERENCE, "reference", message);
            }
            if entry.message.is_empty() {
                let message = format!(
                    "package {name}: the deprecation of {} {:?} has no message",
                    entry.schema, entry.name
                );
                found(&codes::DEPRECATION_MESSAGE, "message", message);
            }
        }
    }
}

fn check_reference<T>(entry: &Deprecation, its: &Belongings<'_, T>) -> Result<(), String> {
    let Deprecation { schema, name, .. } = entry;
    let known = |there: bool, what: &str, all: &mut dyn Iterator<Item = &str>| {
        if there {
            Ok(())
        } else {
            Err(format!(
                "there is no {what} {name:?} to deprecate; there are {}",
                listed(all)
            ))
        }
    };
    match schema.as_str() {
        blob::PACKAGE if name.is_empty() => Ok(()),
        blob::PACKAGE => Err(format!(
            "reference.name is {name:?}; of a package none is accepted, since the document says which"
        )),
        blob::CHANNEL => known(
            its.channels.contains_key(name.as_str()),
            "channel",
            &mut its.channels.keys().copied(),
        ),
        blob::BUNDLE => known(
            its.bundles.contains_key(name.as_str()),
            "bundle",
            &mut its.bundles.keys().copied(),
        ),
        other => Err(format!(
            "reference.schema is {other:?}; accepted are {}, {} and {}",
            blob::PACKAGE,
            blob::CHANNEL,
            blob::BUNDLE
        )),
    }
}
