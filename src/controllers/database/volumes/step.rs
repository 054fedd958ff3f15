//! What comes next until volumes are as the spec says: one thing at a time. Pure.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;

use super::{claims, is_bound, request};
use crate::api::database::ValidDatabase;
use crate::api::quantity;
use crate::controllers::database::desired::stateful_set::Volume;
use crate::controllers::database::desired::{Decided, names};
use crate::controllers::database::observe::{Observed, named};
use crate::controllers::database::step::Course;
use crate::runtime::key::controller_of;

#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// Nothing, or nothing yet.
    Rest,
    /// These claims have to grow.
    Ask(Vec<Arc<PersistentVolumeClaim>>),
    /// The StatefulSet has to be made anew.
    Renew,
}

/// What comes next.
pub(super) fn step(
    database: &ValidDatabase,
    decided: &Decided,
    observed: &Observed,
    stateful_set: Option<&StatefulSet>,
) -> Step {
    let wanted = database.storage.bytes;
    let claims = claims(&database.name, observed, decided.replicas);
    let is_small = |claim: &PersistentVolumeClaim| request(claim).is_some_and(|asked| asked < wanted);
    let small = claims.iter().filter(|claim| is_small(claim));
    let small: Vec<_> = small.filter(|claim| is_bound(claim)).cloned().collect();
    if !small.is_empty() {
        return Step::Ask(small);
    }
    let all_ask = usize::try_from(decided.replicas).is_ok_and(|count| count == claims.len())
        && claims.iter().all(|claim| request(claim) >= Some(wanted));
    match stateful_set {
        Some(set)
            if all_ask && template_is_small(set, wanted) && is_settled(database, decided, observed, set) =>
        {
            Step::Renew
        }
        _ => Step::Rest,
    }
}

fn template_is_small(set: &StatefulSet, wanted: u64) -> bool {
    let template = Volume::of(set).and_then(|volume| quantity::bytes(&volume.size.0));
    template.is_some_and(|template| template < wanted)
}

/// Whether there are as many instances as there should be, none of which is about to be made anew, and all of which run and belong to this very StatefulSet:
/// then nobody misses it for a moment, and the garbage collector, which parts it from its pods and claims, has known all of them for long.
fn is_settled(database: &ValidDatabase, decided: &Decided, observed: &Observed, set: &StatefulSet) -> bool {
    let replicas = set.spec.as_ref().and_then(|spec| spec.replicas);
    let is_as_wanted = decided.replicas == database.instances && replicas == Some(decided.replicas);
    let runs = |ordinal: i32| {
        let pod = named(&observed.pods, &names::pod(&database.name, ordinal));
        pod.is_some_and(|pod| {
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            let controller = controller_of(&**pod).map(|controller| controller.uid.as_str());
            pod.metadata.deletion_timestamp.is_none()
                && phase == Some("Running")
                && controller.is_some()
                && controller == set.metadata.uid.as_deref()
        })
    };
    is_as_wanted
        && decided.course == Course::Done
        && set.metadata.deletion_timestamp.is_none()
        && usize::try_from(decided.replicas).is_ok_and(|count| count == observed.pods.len())
        && (0..decided.replicas).all(runs)
}
