//! What is said of volumes that are not as the spec says.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimCondition};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt;

use super::{Volumes, asks, condition, grows, has, is_bound, is_error, request};
use crate::api::database::ValidDatabase;
use crate::api::quantity;
use crate::controllers::database::desired::Decided;
use crate::controllers::database::desired::stateful_set::DATA;

/// Why volumes are not as the spec says and will not be before somebody does something.
pub fn not_grown(database: &ValidDatabase, decided: &Decided, volumes: &Volumes) -> Option<String> {
    let size = &database.storage.size.0;
    if let Some(refused) = &volumes.refused {
        return Some(format!(
            "spec.storage.size: volumes do not grow to {size}: {refused}"
        ));
    }
    let stuck = volumes.claims.iter().find_map(|claim| {
        let condition = condition(claim).filter(|condition| grows(claim) && is_error(condition))?;
        Some(format!(
            "claim {} does not grow: {}",
            claim.name_any(),
            told(condition)
        ))
    });
    let template = quantity::bytes(&decided.volume.size.0);
    let is_smaller = template.is_some_and(|template| template > database.storage.bytes);
    stuck.or_else(|| {
        let stay = &decided.volume.size.0;
        is_smaller
            .then(|| format!("spec.storage.size: volumes stay at {stay}, since none can be made smaller"))
    })
}

/// What there is to wait for until volumes are as the spec says.
pub fn resizing(database: &ValidDatabase, decided: &Decided, volumes: &Volumes) -> Option<String> {
    let is_stuck = |claim: &PersistentVolumeClaim| condition(claim).is_some_and(is_error);
    let mut claims = volumes.claims.iter();
    if let Some(claim) = claims.find(|claim| grows(claim) && !is_stuck(claim)) {
        return Some(growing(claim));
    }
    if not_grown(database, decided, volumes).is_some() {
        return None;
    }
    let size = &database.storage.size.0;
    let wanted = database.storage.bytes;
    let is_small = |claim: &&Arc<PersistentVolumeClaim>| request(claim).is_some_and(|asked| asked < wanted);
    if let Some(claim) = volumes.claims.iter().find(is_small) {
        let name = claim.name_any();
        return Some(if is_bound(claim) {
            format!("claim {name} is about to be asked to grow to {size}")
        } else {
            format!("claim {name} has no volume yet, and can be asked for {size} only then")
        });
    }
    let template = quantity::bytes(&decided.volume.size.0);
    template.filter(|template| *template < wanted).map(|_| {
        format!("the StatefulSet is made anew for new volumes of {size} as soon as all wanted instances run")
    })
}

/// How far a claim is that grows, and what the storage says of it.
fn growing(claim: &PersistentVolumeClaim) -> String {
    let name = claim.name_any();
    let text = |quantity: Option<&Quantity>| quantity.map(|quantity| quantity.0.clone()).unwrap_or_default();
    let (is, asked) = (text(has(claim)), text(asks(claim)));
    let begun = format!("claim {name} grows from {is} to {asked}");
    let Some(condition) = condition(claim) else {
        return begun;
    };
    let pod = name.strip_prefix(DATA).unwrap_or(&name).trim_start_matches('-');
    let remedy = match condition.type_.as_str() {
        "FileSystemResizePending" => {
            format!(
                "; unless the storage can do it before, its file system grows when pod {pod} is started again"
            )
        }
        _ => String::new(),
    };
    format!("{begun}: {}{remedy}", told(condition))
}

fn told(condition: &PersistentVolumeClaimCondition) -> String {
    let message = condition.message.as_deref().unwrap_or_default();
    format!("{}: {message}", condition.type_)
        .trim_end_matches(": ")
        .to_owned()
}
