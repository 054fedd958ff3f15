//! People who do anything at any time: random actions over a few objects and their children, and what has to be true once they stop.
//!
//! Actions are data that say nothing of the state in which they are done (a child is the n-th of those that there are), so that a sequence
//! that fails can be made shorter and still be done. They are done wherever there is a [`Ground`]: a simulated cluster or a real API server.

#![allow(dead_code, reason = "each test binary uses what it needs of this")]

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::people::People;
use crate::sim::faults::Chance;
use crate::sim::store::{Id, Objects};
use crate::sim::world::{OPERATORS, oracles};
use crate::subjects::{Kind, Subject};

/// An annotation of what is nobody's business.
const STRANGER: &str = "test/stranger";

/// Something that somebody does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Action {
    /// Creates it, or changes the fields of its spec.
    Put {
        kind: String,
        name: String,
        spec: Value,
    },
    /// The API server refuses it.
    Invalid {
        kind: String,
        name: String,
        spec: Value,
    },
    Relabel {
        kind: String,
        name: String,
    },
    Delete {
        kind: String,
        name: String,
    },
    DropFinalizers {
        kind: String,
        name: String,
    },
    /// Takes away what the operator says of it.
    DropStatus {
        kind: String,
        name: String,
    },
    /// Somebody else has a name that a child is to have.
    Squat {
        nth: usize,
    },
    DeleteChild {
        nth: usize,
    },
    EditChild {
        nth: usize,
        how: usize,
    },
    /// From here on it is somebody else's.
    TakeChild {
        nth: usize,
    },
    RestartOperator,
    SetClock {
        seconds: i64,
    },
    Wait {
        seconds: u32,
    },
}

/// Where people act.
pub trait Ground {
    fn subject(&self) -> &'static Subject;
    fn people(&self) -> &People;
    /// What there is in the namespace.
    async fn look(&self) -> Objects;
    async fn wait(&mut self, seconds: u32);
    /// Waits until `holds` says yes of what there is.
    async fn until(&mut self, what: &str, holds: impl Fn(&Objects) -> bool);
    async fn restart_operator(&mut self);
    /// Waits until nothing happens; an operator that starts anew writes nothing then.
    async fn nothing_is_left_to_write(&mut self);
    /// Sets the operator's clock forward, or back.
    fn set_clock(&mut self, seconds: i64);
    /// Has what was missing be there from now on.
    fn mend(&mut self);
}

/// So many actions upon the kinds of a subject: first a few objects, then anything.
pub fn draw(subject: &Subject, chance: &mut Chance, count: usize) -> Vec<Action> {
    let has_children = subject.kinds.iter().any(|kind| !kind.tampering("").is_empty());
    (0..count)
        .map(|nth| one(subject, chance, nth < 3, has_children))
        .collect()
}

fn one(subject: &Subject, chance: &mut Chance, first: bool, has_children: bool) -> Action {
    let mut index = |limit: usize| usize::try_from(chance.below(limit as u64)).unwrap_or(0);
    let of = subject.kinds[index(subject.kinds.len())];
    let (kind, name) = (
        of.name().to_owned(),
        of.names()[index(of.names().len())].to_owned(),
    );
    let (nth, how) = (index(1000), index(10));
    let action = if first {
        0
    } else {
        index(if has_children { 23 } else { 17 })
    };
    match action {
        0..=4 => Action::Put {
            kind,
            name,
            spec: of.valid(chance),
        },
        5 => Action::Invalid {
            kind,
            name,
            spec: of.invalid(chance),
        },
        6 | 7 => Action::Delete { kind, name },
        8 => Action::DropFinalizers { kind, name },
        9 => Action::Relabel { kind, name },
        10 => Action::SetClock {
            seconds: i64::try_from(chance.below(7200)).unwrap_or(0) - 3600,
        },
        11 => Action::RestartOperator,
        12 => Action::DropStatus { kind, name },
        13..=16 => Action::Wait {
            seconds: u32::try_from(chance.below(40)).unwrap_or(0),
        },
        17 => Action::Squat { nth },
        18 => Action::TakeChild { nth },
        19 | 20 => Action::DeleteChild { nth },
        _ => Action::EditChild { nth, how },
    }
}

/// What somebody else has, as it was made.
pub type Strangers = Vec<(&'static str, Value)>;

/// Fails unless it was done, or refused with one of these codes.
fn unless(outcome: kube::Result<()>, codes: &[u16], what: &Action) {
    match outcome {
        Ok(()) => {}
        Err(kube::Error::Api(refusal)) if codes.contains(&refusal.code) => {}
        Err(error) => panic!("{what:?}: {error}"),
    }
}

/// Does one action. What it is about may be gone.
pub async fn act(ground: &mut impl Ground, strangers: &mut Strangers, action: &Action) {
    const GONE: [u16; 1] = [404];
    match action {
        Action::Put { kind, name, spec } => {
            let done = put(ground, kind, name, spec).await;
            // Somebody was faster: the operator with a finalizer, or the last of those with the object itself.
            unless(done, &[404, 409], action);
        }
        Action::Invalid { kind, name, spec } => match put(ground, kind, name, spec).await {
            Err(kube::Error::Api(refusal)) if [400, 404, 422].contains(&refusal.code) => {}
            other => panic!("{kind} {name}: {spec} was not refused as invalid: {other:?}"),
        },
        Action::Relabel { kind, name } => {
            let patch = json!({"metadata": {"labels": {"team": "any"}}});
            unless(ground.people().patch(kind, name, patch).await, &GONE, action);
        }
        Action::Delete { kind, name } => unless(ground.people().delete(kind, name).await, &GONE, action),
        Action::DropFinalizers { kind, name } => {
            let patch = json!({"metadata": {"finalizers": null}});
            unless(ground.people().patch(kind, name, patch).await, &GONE, action);
        }
        Action::DropStatus { kind, name } => {
            unless(ground.people().drop_status(kind, name).await, &GONE, action);
        }
        Action::Squat { nth } => squat(ground, strangers, *nth).await,
        Action::TakeChild { nth } => take(ground, strangers, *nth).await,
        Action::DeleteChild { nth } => {
            if let Some(child) = child(ground, *nth).await {
                let deleted = ground.people().delete(child.kind, &child.name).await;
                unless(deleted, &GONE, action);
            }
        }
        Action::EditChild { nth, how } => edit(ground, *nth, *how).await,
        Action::RestartOperator => ground.restart_operator().await,
        Action::SetClock { seconds } => ground.set_clock(*seconds),
        Action::Wait { seconds } => ground.wait(*seconds).await,
    }
}

async fn put(ground: &impl Ground, kind: &str, name: &str, spec: &Value) -> kube::Result<()> {
    match find(&ground.look().await, kind, name) {
        Some(_) => ground.people().patch(kind, name, json!({"spec": spec})).await,
        None => ground.people().create(kind, name, spec.clone()).await,
    }
}

async fn edit(ground: &impl Ground, nth: usize, how: usize) {
    let Some(child) = child(ground, nth).await else {
        return;
    };
    let kinds = ground.subject().kinds.iter();
    let all: Vec<Value> = kinds.flat_map(|kind| kind.tampering(child.kind)).collect();
    if let Some(how) = how.checked_rem(all.len()) {
        // The API server may refuse it, and the child be gone.
        drop(
            ground
                .people()
                .patch(child.kind, &child.name, all[how].clone())
                .await,
        );
    }
}

/// Takes a child for somebody else: nobody owns it then.
async fn take(ground: &impl Ground, strangers: &mut Strangers, nth: usize) {
    let Some(child) = child(ground, nth).await else {
        return;
    };
    // Kubernetes' own controllers take what looks like theirs back. And whose StatefulSet was taken, his database stays until the pods are gone, which go
    // on by themselves then.
    if ["Pod", "ReplicaSet", "StatefulSet"].contains(&child.kind) {
        return;
    }
    let taken = json!({"metadata": {"ownerReferences": null, "annotations": {STRANGER: "yes"}}});
    if ground
        .people()
        .patch(child.kind, &child.name, taken)
        .await
        .is_ok()
        && let Some(taken) = find(&ground.look().await, child.kind, &child.name)
    {
        strangers.push((child.kind, taken.clone()));
    }
}

async fn squat(ground: &mut impl Ground, strangers: &mut Strangers, nth: usize) {
    let kinds = ground.subject().kinds.iter();
    let of_kind = |kind: &&'static dyn Kind| {
        let names = kind.names().iter();
        names.flat_map(|name| kind.strangers(name)).collect::<Vec<_>>()
    };
    let all: Vec<Value> = kinds.flat_map(of_kind).collect();
    let Some(which) = nth.checked_rem(all.len()) else {
        return;
    };
    let mut stranger = all[which].clone();
    stranger["metadata"]["annotations"] = json!({STRANGER: "yes"});
    let kind = crate::sim::kinds::named(stranger["kind"].as_str().unwrap_or_default());
    if let Ok(made) = ground.people().put(kind.kind, stranger).await {
        strangers.push((kind.kind, made));
    }
}

/// The n-th child of those that there are, counted in a circle.
async fn child(ground: &impl Ground, nth: usize) -> Option<Id> {
    let kinds = ground.subject().kinds;
    let objects = ground.look().await;
    let children = objects.iter().filter(|(id, object)| {
        let of_people = kinds.iter().any(|kind| kind.name() == id.kind);
        let stranger = !object["metadata"]["annotations"][STRANGER].is_null();
        // The operator's own Lease is elsewhere, and who deletes volumes wants to lose what is on them.
        let is_other = ["Event", "PersistentVolumeClaim"].contains(&id.kind) || id.namespace == OPERATORS;
        !of_people && !stranger && !is_other
    });
    let children: Vec<&Id> = children.map(|(id, _)| id).collect();
    Some((*children.get(nth.checked_rem(children.len())?)?).clone())
}

/// Nobody does anything any more: each object is well or says why not. What nobody owns is as it was made, and goes.
pub async fn all_is_told(ground: &mut impl Ground, strangers: Strangers) {
    ground.mend();
    let subject = ground.subject();
    ground
        .until("everything is well, or says why not", |objects| {
            of_people(subject, objects).all(|(kind, object)| {
                let is_going = !object["metadata"]["deletionTimestamp"].is_null();
                !is_going && kind.is_told(objects, object)
            })
        })
        .await;
    let objects = ground.look().await;
    for (kind, made) in strangers {
        let name = made["metadata"]["name"].as_str().unwrap_or_default();
        let now = find(&objects, kind, name).cloned().unwrap_or_default();
        for part in [
            "/metadata/uid",
            "/metadata/labels",
            "/metadata/ownerReferences",
            "/data",
            "/spec/selector",
        ] {
            assert_eq!(
                now.pointer(part),
                made.pointer(part),
                "{part} of {kind} {name}, which is somebody else's"
            );
        }
        ground.people().delete(kind, name).await.expect("a deletion");
    }
}

/// Every object gets a spec with which it is well, and is; nothing is left to be written then.
pub async fn all_gets_well(ground: &mut impl Ground) {
    let objects = ground.look().await;
    for kind in ground.subject().kinds {
        for name in kind.names() {
            if find(&objects, kind.name(), name).is_some() {
                let remedy = json!({"spec": kind.remedy()});
                ground
                    .people()
                    .patch(kind.name(), name, remedy)
                    .await
                    .expect("a remedy");
            }
        }
    }
    let subject = ground.subject();
    ground
        .until("everything is well", |objects| is_all_well(subject, objects))
        .await;
    ground.nothing_is_left_to_write().await;
}

pub fn is_all_well(subject: &'static Subject, objects: &Objects) -> bool {
    of_people(subject, objects).all(|(kind, object)| kind.is_well(objects, object))
}

/// Everything is deleted, and nothing is left.
pub async fn all_goes(ground: &mut impl Ground) {
    for kind in ground.subject().kinds {
        for name in kind.names() {
            drop(ground.people().delete(kind.name(), name).await);
        }
    }
    for kind in ground.subject().kinds {
        for name in kind.names() {
            let what = format!("{} {name} and all that belongs to it are gone", kind.name());
            ground
                .until(&what, |objects| {
                    oracles::leftovers(objects, kind.name(), name).is_empty()
                })
                .await;
        }
    }
}

/// The objects of people, each with what is known of its kind.
pub fn of_people<'a>(
    subject: &'static Subject,
    objects: &'a Objects,
) -> impl Iterator<Item = (&'static dyn Kind, &'a Value)> {
    objects.iter().filter_map(|(id, object)| {
        let kind = subject.kinds.iter().find(|kind| kind.name() == id.kind)?;
        Some((*kind, &**object))
    })
}

fn find<'a>(objects: &'a Objects, kind: &str, name: &str) -> Option<&'a Value> {
    let found = objects.iter().find(|(id, _)| id.kind == kind && id.name == name);
    found.map(|(_, object)| &**object)
}
