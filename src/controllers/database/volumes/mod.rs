//! The volumes of the instances: they grow when the spec says so, and never shrink.
//!
//! The claims are asked first, each by itself. What a StatefulSet says of claims to come cannot be changed, so once all of its claims have been asked it is
//! deleted without its pods, and made anew with the larger template by the next reconcile. Its pods go on meanwhile, and the new one takes them: it has the
//! same selector. Nothing of this is kept anywhere but in the objects themselves, so an operator may end at any point and another go on.

mod growth;
mod step;
#[cfg(test)]
mod tests;
mod told;

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimCondition, PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus, Pod,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt;

pub use self::growth::Growth;
pub use self::told::{not_grown, resizing};
use super::desired::names;
use super::desired::stateful_set::DATA;
use super::observe::{Observed, named};
use crate::api::database::v1::Database;
use crate::api::database::{MAX_INSTANCES, ValidDatabase};
use crate::api::quantity;
use crate::api::retention::Retention;
use crate::runtime::key::controller_of;

/// The label that a StatefulSet's controller gives to its pods.
const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";

/// Of claims, only what is read here is kept.
pub fn trim(claim: &mut PersistentVolumeClaim) {
    claim.metadata.annotations = None;
    claim.spec = claim.spec.take().map(|spec| PersistentVolumeClaimSpec {
        resources: spec.resources,
        ..PersistentVolumeClaimSpec::default()
    });
    claim.status = claim.status.take().map(|status| PersistentVolumeClaimStatus {
        capacity: status.capacity,
        conditions: status.conditions,
        phase: status.phase,
        ..PersistentVolumeClaimStatus::default()
    });
}

/// The claims of the present instances, and what the API server said to whoever asked them to grow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Volumes {
    /// In the order of their instances.
    pub claims: Vec<Arc<PersistentVolumeClaim>>,
    /// Why they may not grow.
    pub refused: Option<String>,
}

/// Before anybody has looked at them.
pub static UNKNOWN: Volumes = Volumes {
    claims: Vec::new(),
    refused: None,
};

/// The claim of an instance.
fn claim_name(database: &str, ordinal: i32) -> String {
    format!("{DATA}-{}", names::pod(database, ordinal))
}

/// The claims of so many instances. One that goes is as good as gone, and those that are left of earlier instances stay as they are until there are such
/// instances again.
fn claims(name: &str, observed: &Observed, replicas: i32) -> Vec<Arc<PersistentVolumeClaim>> {
    let of_instances =
        (0..replicas).filter_map(|ordinal| named(&observed.claims, &claim_name(name, ordinal)));
    let stays = |claim: &&Arc<PersistentVolumeClaim>| claim.metadata.deletion_timestamp.is_none();
    of_instances.filter(stays).cloned().collect()
}

/// How large a claim asks to be.
pub fn asks(claim: &PersistentVolumeClaim) -> Option<&Quantity> {
    let requests = claim.spec.as_ref()?.resources.as_ref()?.requests.as_ref()?;
    requests.get("storage")
}

/// How large its volume is; none before there is one.
fn has(claim: &PersistentVolumeClaim) -> Option<&Quantity> {
    claim.status.as_ref()?.capacity.as_ref()?.get("storage")
}

/// What a claim asks for, in bytes.
fn request(claim: &PersistentVolumeClaim) -> Option<u64> {
    quantity::bytes(&asks(claim)?.0)
}

/// What it has, in bytes.
fn capacity(claim: &PersistentVolumeClaim) -> Option<u64> {
    quantity::bytes(&has(claim)?.0)
}

/// Whether it has a volume: before, it cannot be asked for more.
fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
    phase == Some("Bound")
}

/// Whether its volume is not as large yet as it asks for.
fn grows(claim: &PersistentVolumeClaim) -> bool {
    matches!((capacity(claim), request(claim)), (Some(is), Some(asked)) if is < asked)
}

/// What the storage says of the growth of a claim.
fn condition(claim: &PersistentVolumeClaim) -> Option<&PersistentVolumeClaimCondition> {
    let conditions = claim.status.as_ref()?.conditions.as_ref()?;
    let holds = |condition: &&PersistentVolumeClaimCondition| condition.status == "True";
    // An error says more than that something is under way.
    let error = conditions
        .iter()
        .filter(holds)
        .find(|condition| is_error(condition));
    error.or_else(|| conditions.iter().rfind(holds))
}

/// `ControllerResizeError` and `NodeResizeError`.
fn is_error(condition: &PersistentVolumeClaimCondition) -> bool {
    condition.type_.ends_with("ResizeError")
}

/// What the smallest volume holds, and no more than the spec says: by this go settings of how much WAL is kept, which must not fill a volume that does not
/// grow. Bytes.
pub fn room(database: &ValidDatabase, observed: &Observed, replicas: i32) -> u64 {
    let claims = claims(&database.name, observed, replicas);
    let capacities = claims.iter().filter_map(|claim| capacity(claim));
    capacities.fold(database.storage.bytes, u64::min)
}

/// The instances, of as many as there may be, that have a claim from before the database: it may hold the data of an earlier one of that name.
pub fn retained(database: &ValidDatabase, observed: &Observed) -> BTreeSet<String> {
    let is_older = |claim: &Arc<PersistentVolumeClaim>| {
        let made = claim.metadata.creation_timestamp.as_ref().map(|made| made.0);
        made.zip(database.created)
            .is_some_and(|(made, created)| made < created)
    };
    let claims = claims(&database.name, observed, MAX_INSTANCES);
    let older = claims.iter().filter(|claim| is_older(claim));
    older
        .filter_map(|claim| names::ordinal(&claim.name_any()))
        .map(|ordinal| names::pod(&database.name, ordinal))
        .collect()
}

/// The claims that are deleted with a database, since its author says so: those of all its instances, of earlier ones too. One that somebody controls goes
/// with that.
pub fn going<'a>(database: &Database, observed: &'a Observed) -> Vec<&'a Arc<PersistentVolumeClaim>> {
    if database.spec.storage.when_deleted == Retention::Retain {
        return Vec::new();
    }
    let is_own = |claim: &PersistentVolumeClaim| {
        let name = claim.name_any();
        names::ordinal(&name).is_some_and(|ordinal| claim_name(&database.name_any(), ordinal) == name)
    };
    let goes = |claim: &&Arc<PersistentVolumeClaim>| {
        is_own(claim) && controller_of(&***claim).is_none() && claim.metadata.deletion_timestamp.is_none()
    };
    observed.claims.iter().filter(goes).collect()
}

/// The pods that a StatefulSet has made, of which there is none any more, and that nobody controls.
pub fn strays<'a>(stateful_sets: &[Arc<StatefulSet>], pods: &'a [Arc<Pod>]) -> Vec<&'a Arc<Pod>> {
    let is_stray = |pod: &&Arc<Pod>| {
        let made_for = pod.labels().get(POD_NAME);
        made_for == pod.metadata.name.as_ref() && made_for.is_some() && controller_of(&***pod).is_none()
    };
    let pods = pods.iter().filter(|_| stateful_sets.is_empty());
    pods.filter(is_stray).collect()
}
