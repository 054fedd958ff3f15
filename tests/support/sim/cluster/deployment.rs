//! The Deployment controller: which ReplicaSets there are, and how many pods each is to have. As in `pkg/controller/deployment` of Kubernetes,
//! but for Deployments that are paused, or have another strategy than a rolling update.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::rollout;
use super::{controlled, controller, count, delete, every, is_deleting, patch, text, writer};
use crate::sim::kinds::named;
use crate::sim::store::{Id, Store};
use crate::sim::write;

const TEMPLATE: &str = "pod-template-hash";
/// The number of a ReplicaSet: that of the present template has the highest, which its Deployment has too.
pub const REVISION: &str = "deployment.kubernetes.io/revision";
/// How many pods its Deployment was to have when the size of a ReplicaSet was decided.
const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
/// How many it might have in a rollout.
const MAX: &str = "deployment.kubernetes.io/max-replicas";

/// Does what is due, and says when to look again though nothing happened.
pub fn step(store: &mut Store) -> Option<Instant> {
    let all = every(store, "Deployment");
    all.into_iter()
        .filter_map(|(id, deployment)| one(store, &id, &deployment))
        .min()
}

fn one(store: &mut Store, id: &Id, deployment: &Value) -> Option<Instant> {
    let size = Size::of(deployment);
    let mut sets = Sets::of(store, deployment);
    if is_deleting(deployment) {
        rollout::tell_counts(store, id, &size, &sets);
        return None;
    }
    if sets
        .active()
        .any(|set| set.note(DESIRED).is_some_and(|desired| desired != size.wanted))
    {
        scale(store, &size, &mut sets);
        rollout::tell_counts(store, id, &size, &sets);
        return None;
    }
    if !choose(store, id, deployment, &size, &mut sets) {
        return None;
    }
    let moves = grow(store, &size, &mut sets) || shrink(store, &size, &mut sets);
    if !moves && rollout::is_complete(&store.get(id)?["status"], deployment, &size) {
        forget(store, deployment, &sets);
    }
    rollout::tell(store, id, &size, &sets)
}

/// How many pods a Deployment is to have.
pub struct Size {
    pub wanted: i64,
    /// How many more there may be in a rollout.
    surge: i64,
    /// How many of them may be missing.
    missing: i64,
}

impl Size {
    fn of(deployment: &Value) -> Self {
        let spec = &deployment["spec"];
        assert_eq!(
            spec["strategy"]["type"], "RollingUpdate",
            "other strategies are not simulated"
        );
        let (wanted, strategy) = (
            spec["replicas"].as_i64().unwrap_or(1),
            &spec["strategy"]["rollingUpdate"],
        );
        let surge = share(&strategy["maxSurge"], wanted, true);
        let missing = match share(&strategy["maxUnavailable"], wanted, false) {
            // Otherwise nothing could ever be replaced.
            0 if surge == 0 => 1,
            missing => missing,
        };
        Self {
            wanted,
            surge,
            missing: missing.min(wanted),
        }
    }

    fn most(&self) -> i64 {
        self.wanted + self.surge
    }

    /// How many have to be available.
    pub fn fewest(&self) -> i64 {
        self.wanted - self.missing
    }
}

/// A number of pods, or a share of those that are wanted.
fn share(amount: &Value, wanted: i64, up: bool) -> i64 {
    let Some(percent) = amount.as_str() else {
        return count(amount);
    };
    let percent: i64 = percent.trim_end_matches('%').parse().unwrap_or(0);
    (wanted * percent + if up { 99 } else { 0 }) / 100
}

/// A ReplicaSet.
pub struct Set {
    id: Id,
    object: Arc<Value>,
}

impl Set {
    pub fn wanted(&self) -> i64 {
        count(&self.object["spec"]["replicas"])
    }

    pub fn status(&self, field: &str) -> i64 {
        count(&self.object["status"][field])
    }

    /// A number in its annotations.
    fn note(&self, annotation: &str) -> Option<i64> {
        self.object["metadata"]["annotations"][annotation]
            .as_str()?
            .parse()
            .ok()
    }

    fn resize(&mut self, store: &mut Store, size: &Size, wanted: i64) {
        let notes = json!({DESIRED: size.wanted.to_string(), MAX: size.most().to_string()});
        let resized = json!({"metadata": {"annotations": notes}, "spec": {"replicas": wanted}});
        patch(store, &self.id, &resized);
        self.object = store.get(&self.id).cloned().unwrap_or_default();
    }
}

/// The ReplicaSets of a Deployment.
pub struct Sets {
    /// That of the present template.
    pub new: Option<Set>,
    /// The others, in the order in which they were new. A real controller goes by the time when they were made, which is another one after a
    /// return to an earlier template.
    pub old: Vec<Set>,
}

impl Sets {
    fn of(store: &Store, deployment: &Value) -> Self {
        let hash = hash(&deployment["spec"]["template"]);
        let sets = controlled(store, "ReplicaSet", text(deployment, "/metadata/uid"));
        let sets = sets.into_iter().map(|(id, object)| Set { id, object });
        let (mut new, mut old): (Vec<_>, Vec<_>) =
            sets.partition(|set| set.object["metadata"]["labels"][TEMPLATE] == hash);
        old.sort_by_key(|set| set.note(REVISION));
        Self { new: new.pop(), old }
    }

    pub fn all(&self) -> impl Iterator<Item = &Set> {
        self.old.iter().chain(&self.new)
    }

    fn active(&self) -> impl Iterator<Item = &Set> {
        self.all().filter(|set| set.wanted() > 0)
    }

    /// How many pods there are to be.
    fn wanted(&self) -> i64 {
        self.all().map(Set::wanted).sum()
    }

    pub fn status(&self, field: &str) -> i64 {
        self.all().map(|set| set.status(field)).sum()
    }
}

/// Ten hex digits that differ when the template does (FNV-1a).
fn hash(template: &Value) -> String {
    let hash = template
        .to_string()
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    format!("{:010x}", hash & 0xff_ffff_ffff)
}

/// Has the present template have a ReplicaSet, which is the newest; false when it cannot yet.
fn choose(store: &mut Store, id: &Id, deployment: &Value, size: &Size, sets: &mut Sets) -> bool {
    let newest = sets.old.iter().filter_map(|set| set.note(REVISION)).max();
    let revision = newest.unwrap_or(0) + 1;
    if let Some(new) = &mut sets.new {
        if new.note(REVISION) < Some(revision) {
            let note = json!({"metadata": {"annotations": {REVISION: revision.to_string()}}});
            patch(store, &new.id, &note);
            new.object = store.get(&new.id).cloned().unwrap_or_default();
        }
        let revision = text(
            &new.object["metadata"]["annotations"],
            "/deployment.kubernetes.io~1revision",
        );
        rollout::note(store, id, revision, false);
        return true;
    }
    let spec = &deployment["spec"];
    let hash = hash(&spec["template"]);
    let name = format!("{}-{hash}", id.name);
    let mut template = spec["template"].clone();
    template["metadata"]["labels"][TEMPLATE] = json!(hash);
    let mut selector = spec["selector"].clone();
    selector["matchLabels"][TEMPLATE] = json!(hash);
    let notes = json!({
        REVISION: revision.to_string(), DESIRED: size.wanted.to_string(), MAX: size.most().to_string(),
    });
    let room = (size.most() - sets.wanted()).max(0);
    let set = json!({
        "metadata": {
            "name": name, "labels": template["metadata"]["labels"], "annotations": notes,
            "ownerReferences": controller(id, deployment),
        },
        "spec": {"replicas": room.min(size.wanted), "selector": selector, "template": template},
    });
    let kind = named("ReplicaSet");
    if store.get(&Id::new(kind, &id.namespace, &name)).is_some() {
        // That of a Deployment of the same name that is gone; a real controller would take another name.
        return false;
    }
    let created = write::create(store, kind, &id.namespace, &set, &writer(false));
    let object = created.unwrap_or_else(|refusal| panic!("{name}: {}", refusal.message));
    sets.new = Some(Set {
        id: Id::new(kind, &id.namespace, &name),
        object,
    });
    rollout::note(store, id, &revision.to_string(), true);
    true
}

/// Brings the new ReplicaSet nearer to its size, as far as there may be more pods.
fn grow(store: &mut Store, size: &Size, sets: &mut Sets) -> bool {
    let room = (size.most() - sets.wanted()).max(0);
    let Some(new) = &mut sets.new else { return false };
    let wanted = size.wanted.min(new.wanted() + room);
    let grows = new.wanted() != wanted;
    if grows {
        new.resize(store, size, wanted);
    }
    grows
}

/// Takes from the old ReplicaSets what is not needed: first pods that are not available, then as many as can be spared.
fn shrink(store: &mut Store, size: &Size, sets: &mut Sets) -> bool {
    let new = sets.new.as_ref();
    let on_their_way = new.map_or(0, |new| new.wanted() - new.status("availableReplicas"));
    let mut spare = sets.wanted() - size.fewest() - on_their_way;
    let mut shrinks = false;
    for set in &mut sets.old {
        let broken = (set.wanted() - set.status("availableReplicas")).min(spare);
        if broken > 0 {
            spare -= broken;
            set.resize(store, size, set.wanted() - broken);
            shrinks = true;
        }
    }
    if spare <= 0 && !shrinks {
        return false;
    }
    let mut spare = sets.status("availableReplicas") - size.fewest();
    for set in &mut sets.old {
        let fewer = set.wanted().min(spare);
        if fewer > 0 {
            spare -= fewer;
            set.resize(store, size, set.wanted() - fewer);
            shrinks = true;
        }
    }
    shrinks
}

/// Follows another number of replicas. In a rollout each ReplicaSet gets its share of what comes or goes.
fn scale(store: &mut Store, size: &Size, sets: &mut Sets) {
    let is_saturated = |set: &Set| [set.wanted(), set.status("availableReplicas")] == [size.wanted; 2];
    let (new_is_full, active) = (sets.new.as_ref().is_some_and(is_saturated), sets.active().count());
    let mut all: Vec<&mut Set> = sets.old.iter_mut().rev().collect();
    if new_is_full && active > 1 {
        all.iter_mut().for_each(|set| set.resize(store, size, 0));
        return;
    }
    all.splice(0..0, &mut sets.new);
    all.retain(|set| set.wanted() > 0);
    if let [one] = all.as_mut_slice() {
        return one.resize(store, size, size.wanted);
    }
    let allowed = if size.wanted > 0 { size.most() } else { 0 };
    let change = allowed - all.iter().map(|set| set.wanted()).sum::<i64>();
    // The largest first; of those of one size the newest when pods come, the oldest when they go.
    if change < 0 {
        all.reverse();
    }
    all.sort_by_key(|set| -set.wanted());
    let mut left = change;
    let mut sizes: Vec<i64> = all.iter().map(|set| set.wanted()).collect();
    for (set, new) in all.iter().zip(&mut sizes) {
        let before = set.note(MAX).unwrap_or(allowed).max(1);
        // To the nearest whole number.
        let fair = (2 * set.wanted() * allowed + before) / (2 * before) - set.wanted();
        let gets = if change > 0 {
            fair.min(left)
        } else {
            fair.max(left)
        };
        left -= gets;
        *new += gets;
    }
    if let Some(largest) = sizes.first_mut() {
        *largest = (*largest + left).max(0);
    }
    for (set, new) in all.into_iter().zip(sizes) {
        set.resize(store, size, new);
    }
}

/// Deletes the oldest ReplicaSets of more than it may keep.
fn forget(store: &mut Store, deployment: &Value, sets: &Sets) {
    let limit = usize::try_from(count(&deployment["spec"]["revisionHistoryLimit"])).unwrap_or(0);
    let many = sets.old.len().saturating_sub(limit);
    for set in &sets.old[..many] {
        let is_empty = set.wanted() == 0 && set.status("replicas") == 0;
        if is_empty && !is_deleting(&set.object) {
            delete(store, &set.id, "Background");
        }
    }
}
