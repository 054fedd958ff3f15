//! People who do anything at any time: random actions over a few proxies and their children, and what has to be true once they stop.
//!
//! Actions are data that say nothing of the state in which they are done (a child is the n-th of those that there are), so that a sequence
//! that fails can be made shorter and still be done.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::cases;
use crate::pretence::REFUSED_HOST;
use crate::sim::faults::Chance;
use crate::sim::world::{NAMESPACE, World, condition, is_ready, oracles, spec};

/// Few names, so that they are used again and taken from each other.
const NAMES: [&str; 3] = ["a", "b", "c"];
const STEPS: u64 = 12;
/// How often a sequence that fails is tried with less in it.
const ATTEMPTS: usize = 40;

/// Something that somebody does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Action {
    Create {
        proxy: usize,
        spec: Value,
    },
    Change {
        proxy: usize,
        spec: Value,
    },
    /// The API server refuses it.
    Invalid {
        proxy: usize,
        spec: Value,
    },
    Delete {
        proxy: usize,
    },
    DropFinalizers {
        proxy: usize,
    },
    DeleteChild {
        nth: usize,
    },
    EditChild {
        nth: usize,
        how: usize,
    },
    RestartOperator,
    Wait {
        seconds: u64,
    },
}

/// A seed, or the actions themselves.
#[derive(Clone, Debug)]
pub enum Case {
    Seed(u64),
    Actions(Vec<Action>),
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Seed(seed) => write!(f, "{seed}"),
            Self::Actions(actions) => {
                write!(f, "'{}'", serde_json::to_string(actions).map_err(|_| fmt::Error)?)
            }
        }
    }
}

impl FromStr for Case {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(seed) => Ok(Self::Seed(seed)),
            Err(_) => serde_json::from_str(text)
                .map(Self::Actions)
                .map_err(|error| error.to_string()),
        }
    }
}

impl Case {
    fn actions(&self) -> Vec<Action> {
        match self {
            Self::Actions(actions) => actions.clone(),
            Self::Seed(seed) => {
                let mut chance = Chance::new(*seed);
                (0..STEPS).map(|_| draw(&mut chance)).collect()
            }
        }
    }
}

fn draw(chance: &mut Chance) -> Action {
    let mut index = |limit: usize| usize::try_from(chance.below(limit as u64)).unwrap_or(0);
    let (proxy, nth, how, kind) = (index(NAMES.len()), index(1000), index(3), index(16));
    match kind {
        0..=2 => Action::Create {
            proxy,
            spec: a_spec(chance),
        },
        3..=5 => Action::Change {
            proxy,
            spec: a_spec(chance),
        },
        6 => Action::Invalid {
            proxy,
            spec: json!({"replicas": -1}),
        },
        7 => Action::Delete { proxy },
        8 => Action::DropFinalizers { proxy },
        9 | 10 => Action::DeleteChild { nth },
        11 | 12 => Action::EditChild { nth, how },
        13 => Action::RestartOperator,
        _ => Action::Wait {
            seconds: chance.below(40),
        },
    }
}

/// A spec that is valid, though nginx may refuse it, its image may be missing, or its name be taken.
fn a_spec(chance: &mut Chance) -> Value {
    let mut drawn = spec(u16::try_from(80 + chance.below(3)).unwrap_or(80));
    drawn["replicas"] = json!(chance.below(4));
    match chance.below(8) {
        0 => drawn["upstreams"][0]["servers"][0]["host"] = json!(REFUSED_HOST),
        1 => drawn["image"] = json!("nginx-missing:1"),
        2 => drawn["tls_secret"] = json!("missing"),
        3 => drawn["name"] = json!(NAMES[0]), // not any of them: see two_proxies_can_swap_names
        4 => drawn["name"] = json!("another"),
        5 => drawn["resources"] = json!({"limits": {"cpu": "1000m"}}),
        6 => drawn["resources"] = json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
        _ => {}
    }
    drawn
}

/// Does the actions of a case and looks at what comes of them. One that fails is tried again with less in it, and the shortest that still
/// fails is told.
pub async fn go_through(case: Case) {
    // Simulations in a simulation need a thread of their own.
    let actions = case.actions();
    if std::thread::spawn(move || fails(&actions))
        .join()
        .is_ok_and(|fails| !fails)
    {
        return;
    }
    let shortest = std::thread::spawn(move || shortened(case.actions())).join();
    let shortest = shortest.expect("a sequence that fails");
    for action in &shortest {
        eprintln!("  {action:?}");
    }
    panic!(
        "these {} actions are enough: REPLAY={}",
        shortest.len(),
        Case::Actions(shortest)
    );
}

fn fails(actions: &[Action]) -> bool {
    catch_unwind(AssertUnwindSafe(|| cases::on_a_paused_clock(act(actions)))).is_err()
}

fn shortened(mut actions: Vec<Action>) -> Vec<Action> {
    let mut attempts = 0;
    let mut at = 0;
    while at < actions.len() && attempts < ATTEMPTS {
        let mut fewer = actions.clone();
        fewer.remove(at);
        attempts += 1;
        if fails(&fewer) {
            actions = fewer;
        } else {
            at += 1;
        }
    }
    actions
}

async fn act(actions: &[Action]) {
    let mut world = World::new();
    for action in actions {
        one(&mut world, action).await;
        world.watch_over();
    }
    all_is_well(&mut world).await;
}

async fn one(world: &mut World, action: &Action) {
    // What somebody does may be refused: the object may be gone, or the field may not be changed.
    match action {
        Action::Create { proxy, spec } => drop(world.create(NAMES[*proxy], spec.clone()).await),
        Action::Change { proxy, spec } => {
            drop(world.patch("MyProxy", NAMES[*proxy], json!({"spec": spec})).await);
        }
        Action::Invalid { proxy, spec } => {
            let name = NAMES[*proxy];
            let refused = match world.proxy(name) {
                Some(_) => world.patch("MyProxy", name, json!({"spec": spec})).await,
                None => world.create(name, spec.clone()).await,
            };
            assert!(refused.is_err(), "{spec} was accepted");
        }
        Action::Delete { proxy } => drop(world.delete("MyProxy", NAMES[*proxy]).await),
        Action::DropFinalizers { proxy } => {
            let patch = json!({"metadata": {"finalizers": null}});
            drop(world.patch("MyProxy", NAMES[*proxy], patch).await);
        }
        Action::DeleteChild { nth } => {
            if let Some((kind, name)) = child(world, *nth) {
                drop(world.delete(kind, &name).await);
            }
        }
        Action::EditChild { nth, how } => {
            if let Some((kind, name)) = child(world, *nth) {
                drop(world.patch(kind, &name, edit(kind, *how)).await);
            }
        }
        Action::RestartOperator => world.crash(),
        Action::Wait { seconds } => sleep(Duration::from_secs(*seconds)).await,
    }
}

/// The n-th child of those that there are, counted in a circle.
fn child(world: &World, nth: usize) -> Option<(&'static str, String)> {
    world.sim.with(|store| {
        let children = store
            .all()
            .filter(|(id, _)| id.namespace == NAMESPACE && !["MyProxy", "Event", "Lease"].contains(&id.kind));
        let children: Vec<_> = children.map(|(id, _)| (id.kind, id.name.clone())).collect();
        children.get(nth.checked_rem(children.len())?).cloned()
    })
}

fn edit(kind: &str, how: usize) -> Value {
    match (kind, how) {
        (_, 0) => json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": null}}}),
        ("Service", 1) => json!({"spec": {"selector": {"app": "stranger"}}}),
        ("Deployment", 1) => json!({"spec": {"replicas": 5}}),
        ("Deployment", 2) => json!({"spec": {"template": {"metadata": {"annotations": {"by": "hand"}}}}}),
        ("ConfigMap", 1) => json!({"data": {"nginx.conf": "# by hand"}}),
        ("ConfigMap", 2) => json!({"data": null}),
        _ => json!({"metadata": {"annotations": {"roadstead.dev/applied": null}}}),
    }
}

/// What has to be true once nobody does anything any more.
async fn all_is_well(world: &mut World) {
    world.cluster.mend();
    let names: Vec<&str> = NAMES
        .into_iter()
        .filter(|name| world.proxy(name).is_some())
        .collect();
    for name in &names {
        // Each either serves or says why not; one that is being deleted goes.
        let what = format!("{name} serves, says why not, or is gone");
        world
            .until(&what, |world| {
                world.proxy(name).is_none_or(|proxy| is_told(&proxy))
            })
            .await;
    }
    let names: Vec<&str> = names
        .into_iter()
        .filter(|name| world.proxy(name).is_some())
        .collect();
    for name in &names {
        let good = json!({"spec": {"name": null, "image": null, "tls_secret": null, "resources": null, "upstreams": null, "routes": null}});
        world.patch("MyProxy", name, good).await.unwrap();
    }
    for name in &names {
        world.until_proxy(name, "ready", is_ready).await;
    }
    oracles::a_further_reconcile_writes_nothing(world).await;
    for name in &names {
        oracles::status_says_what_is(world, name);
    }
    for name in &names {
        world.delete("MyProxy", name).await.unwrap();
    }
    for name in NAMES {
        world.until_gone(name).await;
    }
    oracles::deletes_name_a_uid(world);
    oracles::stays_within_its_role(world);
}

/// Whether the status is about the present spec, and either all is well or it says what is not.
fn is_told(proxy: &Value) -> bool {
    let ready = condition(proxy, "Ready");
    let reason = ready["reason"].as_str().unwrap_or_default();
    let lasts = ["Refused", "NameTaken", "Rejected", "InvalidSpec"].contains(&reason);
    let current = proxy["status"]["observed_generation"] == proxy["metadata"]["generation"];
    is_ready(proxy) || (current && ready["status"] == "False" && lasts)
}
