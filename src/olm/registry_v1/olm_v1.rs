//! What keeps a bundle from being installed by OLM v1, beside what any OLM refuses.

use super::metadata::needs;
use super::read::{Bundle, Object};
use crate::olm::findings::{Finding, bundle as codes};
use crate::olm::manifests::text;

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
    for (object, pointer, kind) in needs(bundle) {
        let message = format!("it depends on another by {kind}");
        found.push(object.finding(&codes::V1_DEPENDENCY, &pointer, message));
    }
}
