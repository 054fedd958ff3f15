//! Whether lists of the ClusterServiceVersion hold something that may not be empty. What may not be missing [`super::types`] looks at.

use serde_json::json;

use super::read::Object;
use crate::olm::findings::{Finding, bundle as codes};
use crate::olm::manifests::list;
use crate::olm::pointer::dotted;

pub(super) fn check(csv: &Object, found: &mut Vec<Finding>) {
    let empty = json!([]);
    // An error of upstream's, too
    let deployments = "/spec/install/spec/deployments";
    if csv.body.pointer(deployments) == Some(&empty) {
        let message = format!("{} is empty", dotted(deployments));
        found.push(csv.finding(&codes::CSV_FIELD, deployments, message));
    }
    for field in ["permissions", "clusterPermissions"] {
        let at = format!("/spec/install/spec/{field}");
        for (index, entry) in csv.list(&at).iter().enumerate() {
            for (number, rule) in list(entry, "/rules").iter().enumerate() {
                if rule.get("verbs") == Some(&empty) {
                    let pointer = format!("{at}/{index}/rules/{number}/verbs");
                    let message = format!("{} is empty", dotted(&pointer));
                    found.push(csv.finding(&codes::CSV_FIELD, &pointer, message));
                }
            }
        }
    }
}
