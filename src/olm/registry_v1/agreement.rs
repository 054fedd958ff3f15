//! Whether the ClusterServiceVersion and the definitions of the bundle say the same.

use std::collections::BTreeSet;

use super::read::{Bundle, Object};
use crate::olm::findings::{Finding, bundle as codes};
use crate::olm::manifests::text;

pub(super) fn check(bundle: &Bundle, csv: &Object, found: &mut Vec<Finding>) {
    let at = "/spec/customresourcedefinitions/owned";
    let (mut owned_names, mut seen) = (BTreeSet::new(), BTreeSet::new());
    for (index, owned) in csv.list(at).iter().enumerate() {
        let (name, version, kind) = (
            text(owned, "/name"),
            text(owned, "/version"),
            text(owned, "/kind"),
        );
        let pointer = format!("{at}/{index}");
        owned_names.insert(name);
        if !seen.insert((name, version, kind)) {
            let message = format!("{name} is owned in version {version} twice");
            found.push(csv.finding(&codes::CRD_OWNED, &pointer, message));
            continue;
        }
        if !name.contains('.') {
            let message = format!("{name:?} is owned, which is no PLURAL.GROUP");
            found.push(csv.finding(&codes::CRD_OWNED, &pointer, message));
            continue;
        }
        let Some(crd) = definition(bundle, name) else {
            // It may be in what could not be read
            if bundle.has_unread {
                continue;
            }
            let message = format!("{name} is owned, and not defined in manifests/");
            found.push(csv.finding(&codes::CRD_OWNED, &pointer, message));
            continue;
        };
        let defined = crd.text("/spec/names/kind");
        if defined != kind {
            let message = format!("{name} is owned as {kind:?}, and defines {defined:?}");
            found.push(csv.finding(&codes::CRD_OWNED, &pointer, message));
        }
        served(csv, &pointer, crd, version, found);
    }
    for crd in definitions(bundle).filter(|crd| !owned_names.contains(crd.name())) {
        let message = format!("{} is defined, and not owned by {}", crd.name(), csv.name());
        found.push(crd.finding(&codes::CRD_OWNED, "/metadata/name", message));
    }
}

fn served(csv: &Object, pointer: &str, crd: &Object, version: &str, found: &mut Vec<Finding>) {
    // Those of former versions are told of as that
    if crd.list("/spec/versions").is_empty() {
        return;
    }
    let known = crd.list("/spec/versions").iter();
    let known: Vec<_> = known.filter(|known| text(known, "/name") == version).collect();
    let name = crd.name();
    if known.is_empty() {
        let message = format!("{name} is owned in version {version:?}, which is not defined");
        found.push(csv.finding(&codes::CRD_OWNED, pointer, message));
    } else if known.iter().all(|known| known["served"] != true) {
        let message = format!("{name} is owned in version {version}, which is not served");
        found.push(csv.finding(&codes::CRD_OWNED_VERSION, pointer, message));
    }
}

/// Those of versions that Kubernetes took away among them.
fn definitions(bundle: &Bundle) -> impl Iterator<Item = &Object> {
    bundle.objects.iter().filter(|object| object.is_crd())
}

fn definition<'a>(bundle: &'a Bundle, name: &str) -> Option<&'a Object> {
    definitions(bundle).find(|crd| crd.name() == name)
}
