//! The volumes of the instances: they grow when the spec says so, and never shrink.
//!
//! The claims are asked first, each by itself. What a StatefulSet says of claims to come cannot be changed, so once all of its claims have been asked it is
//! deleted without its pods, and made anew with the larger template by the next reconcile. Its pods go on meanwhile, and the new one takes them: it has the
//! same selector. Nothing of this is kept anywhere but in the objects themselves, so an operator may end at any point and another go on.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimCondition, PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus, Pod,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt;
use serde_json::json;
use tracing::debug;

use super::announce::Announcement;
use super::desired::stateful_set::{DATA, Volume};
use super::desired::{Decided, names};
use super::error::Error;
use super::observe::{Observed, named};
use super::step::Course;
use super::write::Applied;
use crate::api::database::v1::Database;
use crate::api::database::{MAX_INSTANCES, ValidDatabase};
use crate::api::quantity;
use crate::api::retention::Retention;
use crate::runtime::apply::{Applier, ApplyError};
use crate::runtime::events::EventType;
use crate::runtime::key::{ObjectKey, controller_of};

/// Volumes cannot be as the spec says.
pub const NOT_GROWN: &str = "VolumesNotGrown";
/// Volumes are on their way to what the spec says.
pub const RESIZING: &str = "Resizing";
/// The label that a StatefulSet's controller gives to its pods.
const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
/// What the API server refused is asked again after so long, then after twice as long, and so on up to the second.
const AGAIN: (SignedDuration, SignedDuration) = (SignedDuration::from_secs(30), SignedDuration::from_mins(5));

/// Of claims, only what this file reads is kept.
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

// ---- What there is -----------------------------------------------------------------------------------------------

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
fn asks(claim: &PersistentVolumeClaim) -> Option<&Quantity> {
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

// ---- What is to be done ------------------------------------------------------------------------------------------

/// One thing at a time.
#[derive(Debug, PartialEq)]
enum Step {
    /// Nothing, or nothing yet.
    Rest,
    /// These claims have to grow.
    Ask(Vec<Arc<PersistentVolumeClaim>>),
    /// The StatefulSet has to be made anew.
    Renew,
}

fn step(
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

/// Whether there are as many instances as there should be, none of which is about to be made anew, and all of which run and belong to this very StatefulSet: then nobody misses it for a moment, and
/// the garbage collector, which parts it from its pods and claims, has known all of them for long.
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

// ---- The doing ---------------------------------------------------------------------------------------------------

/// Brings the volumes of databases on their way, and remembers what the API server refused: it is asked again later, not at each change.
#[derive(Debug, Default)]
pub struct Growth {
    refused: Mutex<HashMap<ObjectKey, Refusal>>,
}

/// What the API server refused.
#[derive(Clone, Debug)]
struct Refusal {
    /// How large the volumes should have become, in bytes, and whether the StatefulSet was to be made anew for that.
    asked: (u64, bool),
    /// In its words.
    said: String,
    at: Timestamp,
    /// How often, one after the other.
    times: u32,
}

impl Refusal {
    /// Whether it is too early to ask for the same again.
    fn holds(&self, now: Timestamp) -> bool {
        let (first, most) = AGAIN;
        let factor = 1_i32
            .checked_shl(self.times.min(8).saturating_sub(1))
            .unwrap_or(1);
        let wait = first.saturating_mul(factor).min(most);
        (SignedDuration::ZERO..wait).contains(&now.duration_since(self.at))
    }
}

impl Growth {
    /// Forgets a database that is no more.
    pub fn forget(&self, key: &ObjectKey) {
        self.refused().remove(key);
    }

    fn refused(&self) -> MutexGuard<'_, HashMap<ObjectKey, Refusal>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does what is to be done next, after all children are written. What the API server refuses is in `volumes`, and no error: nothing else waits for it.
    ///
    /// # Errors
    /// When the API server could not be asked.
    pub async fn step(
        &self,
        apply: &Applier,
        database: &Database,
        (valid, decided, observed): (&ValidDatabase, &Decided, &Observed),
        applied: &mut Applied,
        volumes: &mut Volumes,
        now: Timestamp,
    ) -> Result<(), Error> {
        let key = ObjectKey::of(database);
        volumes.claims = claims(&valid.name, observed, decided.replicas);
        let step = step(valid, decided, observed, applied.stateful_set.as_deref());
        if step == Step::Rest {
            self.forget(&key);
            return Ok(());
        }
        let asked = (valid.storage.bytes, step == Step::Renew);
        let before = self.refused().get(&key).cloned();
        let before = before.filter(|before| before.asked == asked);
        if let Some(refusal) = before.as_ref().filter(|refusal| refusal.holds(now)) {
            volumes.refused = Some(refusal.said.clone());
            return Ok(());
        }
        match step {
            Step::Ask(small) => ask(apply, valid, &small, applied, volumes).await?,
            _ => renew(apply, database, applied, volumes).await?,
        }
        match &volumes.refused {
            Some(said) => {
                let refusal = Refusal {
                    asked,
                    said: said.clone(),
                    at: now,
                    times: before.map_or(0, |before| before.times).saturating_add(1),
                };
                self.refused().insert(key, refusal);
            }
            None => self.forget(&key),
        }
        Ok(())
    }
}

/// Whether the API server, or whom it asks, answered and did not do it. Otherwise whether it can do anything at all is not known.
fn is_refusal(error: &ApplyError) -> bool {
    match error {
        ApplyError::Rejected { .. } => true,
        ApplyError::Api { source, .. } => matches!(**source, kube::Error::Api(_)),
        _ => false,
    }
}

/// Asks each of them to grow: that one is refused is no reason to leave the others as they are.
async fn ask(
    apply: &Applier,
    valid: &ValidDatabase,
    small: &[Arc<PersistentVolumeClaim>],
    applied: &mut Applied,
    volumes: &mut Volumes,
) -> Result<(), Error> {
    let size = &valid.storage.size;
    for claim in small {
        match apply
            .amend(&**claim, json!({"resources": {"requests": {"storage": size}}}))
            .await
        {
            Ok(Some(asked)) => {
                let name = asked.name_any();
                let note = format!("claim {name} is asked to grow to {}", size.0);
                applied.announcements.push(announcement("VolumeGrows", note));
                let mut known = volumes.claims.iter_mut();
                if let Some(known) = known.find(|known| known.metadata.name == asked.metadata.name) {
                    *known = asked;
                }
            }
            Err(error) if is_refusal(&error) => {
                volumes.refused.get_or_insert(error.to_string());
            }
            // What has changed, or gone, comes as a change of its own.
            Ok(None) | Err(ApplyError::Conflict { .. }) => {
                debug!(claim = claim.name_any(), "it has changed meanwhile")
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Deletes the StatefulSet and nothing that it has made. Its disappearance is a change, upon which it is made anew.
async fn renew(
    apply: &Applier,
    database: &Database,
    applied: &mut Applied,
    volumes: &mut Volumes,
) -> Result<(), Error> {
    let Some(set) = &applied.stateful_set else {
        return Ok(());
    };
    match apply.release(database, &**set).await {
        Ok(true) => {
            let note = format!(
                "StatefulSet {} is made anew, for larger volumes of new instances; the pods go on",
                set.name_any()
            );
            applied.announcements.push(announcement("Renewing", note));
            Ok(())
        }
        Ok(false) | Err(ApplyError::Conflict { .. }) => Ok(()),
        Err(error) if is_refusal(&error) => {
            volumes.refused = Some(error.to_string());
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

fn announcement(reason: &str, note: String) -> Announcement {
    Announcement {
        type_: EventType::Normal,
        reason: reason.to_owned(),
        action: "Resize",
        note,
    }
}

// ---- What is said ------------------------------------------------------------------------------------------------

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

#[cfg(test)]
#[path = "volumes_tests.rs"]
mod tests;
