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
use crate::sim::world::oracles;
use crate::subjects::{Kind, Subject};

/// An annotation of what is nobody's business.
const STRANGER: &str = "test/stranger";

/// Something that somebody does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Action {
    Create {
        kind: String,
        name: String,
        spec: Value,
    },
    Change {
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

/// So many actions upon the kinds of a subject.
pub fn draw(subject: &Subject, chance: &mut Chance, count: usize) -> Vec<Action> {
    (0..count).map(|_| one(subject, chance)).collect()
}

fn one(subject: &Subject, chance: &mut Chance) -> Action {
    let mut index = |limit: usize| usize::try_from(chance.below(limit as u64)).unwrap_or(0);
    let of = subject.kinds[index(subject.kinds.len())];
    let (kind, name) = (
        of.name().to_owned(),
        of.names()[index(of.names().len())].to_owned(),
    );
    let (nth, how, action) = (index(1000), index(10), index(19));
    match action {
        0..=2 => Action::Create {
            kind,
            name,
            spec: of.valid(chance),
        },
        3..=5 => Action::Change {
            kind,
            name,
            spec: of.valid(chance),
        },
        6 => Action::Invalid {
            kind,
            name,
            spec: of.invalid(chance),
        },
        7 => Action::Delete { kind, name },
        8 => Action::DropFinalizers { kind, name },
        9 | 10 => Action::DeleteChild { nth },
        11 | 12 => Action::EditChild { nth, how },
        13 => Action::Squat { nth },
        14 => Action::Relabel { kind, name },
        15 => Action::SetClock {
            seconds: i64::try_from(chance.below(7200)).unwrap_or(0) - 3600,
        },
        16 => Action::RestartOperator,
        _ => Action::Wait {
            seconds: u32::try_from(chance.below(40)).unwrap_or(0),
        },
    }
}

/// What somebody else has, as it was made.
pub type Strangers = Vec<(&'static str, Value)>;

/// Does one action. It may be refused: the object may be gone, or the field may not be changed.
pub async fn act(ground: &mut impl Ground, strangers: &mut Strangers, action: &Action) {
    match action {
        Action::Create { kind, name, spec } => drop(ground.people().create(kind, name, spec.clone()).await),
        Action::Change { kind, name, spec } => {
            drop(ground.people().patch(kind, name, json!({"spec": spec})).await);
        }
        Action::Invalid { kind, name, spec } => {
            let is_there = ground
                .look()
                .await
                .keys()
                .any(|id| id.kind == kind && id.name == *name);
            let refused = if is_there {
                ground.people().patch(kind, name, json!({"spec": spec})).await
            } else {
                ground.people().create(kind, name, spec.clone()).await
            };
            assert!(refused.is_err(), "{kind} {name}: {spec} was accepted");
        }
        Action::Relabel { kind, name } => {
            let patch = json!({"metadata": {"labels": {"team": "any"}}});
            drop(ground.people().patch(kind, name, patch).await);
        }
        Action::Delete { kind, name } => drop(ground.people().delete(kind, name).await),
        Action::DropFinalizers { kind, name } => {
            let patch = json!({"metadata": {"finalizers": null}});
            drop(ground.people().patch(kind, name, patch).await);
        }
        Action::Squat { nth } => squat(ground, strangers, *nth).await,
        Action::DeleteChild { nth } => {
            if let Some(child) = child(ground, *nth).await {
                drop(ground.people().delete(child.kind, &child.name).await);
            }
        }
        Action::EditChild { nth, how } => {
            if let Some(child) = child(ground, *nth).await {
                let kinds = ground.subject().kinds.iter();
                let all: Vec<Value> = kinds.flat_map(|kind| kind.tampering(child.kind)).collect();
                let patch = how.checked_rem(all.len()).map(|how| all[how].clone());
                drop(
                    ground
                        .people()
                        .patch(child.kind, &child.name, patch.unwrap_or_default())
                        .await,
                );
            }
        }
        Action::RestartOperator => ground.restart_operator().await,
        Action::SetClock { seconds } => ground.set_clock(*seconds),
        Action::Wait { seconds } => ground.wait(*seconds).await,
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
        !of_people && !stranger && !["Event", "Lease"].contains(&id.kind)
    });
    let children: Vec<&Id> = children.map(|(id, _)| id).collect();
    Some((*children.get(nth.checked_rem(children.len())?)?).clone())
}

/// Nobody does anything any more, and all that has to be true then is.
pub async fn all_comes_right(ground: &mut impl Ground, strangers: Strangers) {
    ground.mend();
    all_is_told(ground, strangers).await;
    all_gets_well(ground).await;
    ground.nothing_is_left_to_write().await;
}

/// Each object is well or says why not. What nobody owns is as it was made, and goes.
async fn all_is_told(ground: &mut impl Ground, strangers: Strangers) {
    for kind in ground.subject().kinds {
        for name in kind.names() {
            let what = format!("{} {name} is well, says why not, or is gone", kind.name());
            ground
                .until(&what, |objects| {
                    find(objects, kind.name(), name).is_none_or(|object| kind.is_told(objects, object))
                })
                .await;
        }
    }
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

/// Every object gets a spec with which it is well, and is.
async fn all_gets_well(ground: &mut impl Ground) {
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
        .until("everything is well", |objects| {
            of_people(subject, objects).all(|(kind, object)| kind.is_well(objects, object))
        })
        .await;
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
        Some((*kind, object))
    })
}

fn find<'a>(objects: &'a Objects, kind: &str, name: &str) -> Option<&'a Value> {
    let found = objects.iter().find(|(id, _)| id.kind == kind && id.name == name);
    found.map(|(_, object)| object)
}
