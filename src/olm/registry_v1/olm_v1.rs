//! What keeps a bundle from being installed by OLM v1, or from working as it does under OLM, beside what any OLM refuses.

use super::metadata::needs;
use super::read::{Bundle, Object};
use crate::olm::findings::{Finding, bundle as codes};
use crate::olm::manifests::text;
use crate::olm::opened::named;

pub(super) fn check(bundle: &Bundle, csv: &Object, found: &mut Vec<Finding>) {
    let modes = csv.list("/spec/installModes");
    let all = modes.iter().find(|mode| text(mode, "/type") == "AllNamespaces");
    if all.is_none_or(|mode| mode["supported"] != true) {
        let message = "AllNamespaces is not supported";
        found.push(csv.finding(&codes::V1_INSTALL_MODE, "/spec/installModes", message));
    }
    for (index, owned) in csv.list("/spec/apiservicedefinitions/owned").iter().enumerate() {
        let message = format!("the APIService of {} is owned", text(owned, "/kind"));
        let pointer = format!("/spec/apiservicedefinitions/owned/{index}");
        found.push(csv.finding(&codes::V1_API_SERVICE, &pointer, message));
    }
    for crd in bundle.crds() {
        closed_versions(crd, found);
    }
    if !csv.list("/spec/webhookdefinitions").is_empty() {
        let message = "the bundle has webhooks";
        found.push(csv.finding(&codes::V1_WEBHOOK, "/spec/webhookdefinitions", message));
    }
    for (object, pointer, kind) in needs(bundle) {
        let message = format!("it depends on another by {kind}");
        found.push(object.finding(&codes::V1_DEPENDENCY, &pointer, message));
    }
}

fn closed_versions(crd: &Object, found: &mut Vec<Finding>) {
    for (index, version) in crd.list("/spec/versions").iter().enumerate() {
        let version_name = text(version, "/name");
        let is_the_operators = named(&crd.body).any(|named| named == version_name);
        if is_the_operators && version["served"] != true {
            let message = format!(
                "{version_name} of {} is closed for the operator to open it",
                crd.name()
            );
            let pointer = format!("/spec/versions/{index}/served");
            found.push(crd.finding(&codes::V1_CLOSED_VERSION, &pointer, message));
        }
    }
}
