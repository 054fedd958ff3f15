//! The life of one proxy, from its creation to its end: what simulations go through with and without faults.

use std::sync::OnceLock;

use serde_json::{Value, json};

use crate::cases;
use crate::sim::world::snapshot::{self, Snapshot};
use crate::sim::world::{World, condition, is_ready, oracles, refused_spec, spec};

/// How it is when nothing goes wrong.
pub struct Undisturbed {
    pub snapshots: Vec<Snapshot>,
    /// How often the operator writes in it, its lease aside.
    pub writes: usize,
}

/// Lived once, and remembered.
pub fn without_faults() -> &'static Undisturbed {
    static UNDISTURBED: OnceLock<Undisturbed> = OnceLock::new();
    UNDISTURBED.get_or_init(|| {
        // On a thread of its own, since whoever asks may be in a simulation already.
        let lived = std::thread::spawn(|| {
            cases::on_a_paused_clock(async {
                let mut world = World::new();
                let snapshots = live(&mut world, None).await;
                Undisturbed {
                    snapshots,
                    writes: oracles::writes(&world),
                }
            })
        });
        lived.join().expect("a life without faults")
    })
}

/// Takes a proxy through its life. After each step the cluster has to be as it is in `expected`; gives how it was.
pub async fn live(world: &mut World, expected: Option<&[Snapshot]>) -> Vec<Snapshot> {
    let mut taken = Vec::new();
    let mut compare = |world: &World, step: &str| {
        let snapshot = snapshot::take(world);
        if let Some(expected) = expected {
            snapshot::assert_same(&expected[taken.len()], &snapshot, step);
        }
        taken.push(snapshot);
    };

    world.create("edge", spec(80)).await.unwrap();
    until_it_serves(world).await;
    compare(world, "after the creation");
    world.sim.always(oracles::keeps_serving("edge"));

    change(world, spec(81)).await;
    until_it_serves(world).await;
    compare(world, "after a change");
    let good = world.get("ConfigMap", "edge-config");

    change(world, refused_spec()).await;
    world
        .until_proxy("edge", "refused", |proxy| {
            condition(proxy, "ConfigValid")["reason"] == "Refused" && is_about_its_spec(proxy)
        })
        .await;
    let proxy = world.proxy("edge").unwrap();
    let message = condition(&proxy, "ConfigValid")["message"].as_str().unwrap();
    assert!(message.contains("[emerg] invalid host"), "{message}");
    assert_eq!(
        condition(&proxy, "Available")["status"],
        "True",
        "what serves goes on serving"
    );
    assert_eq!(world.get("ConfigMap", "edge-config"), good);

    change(world, spec(81)).await;
    until_it_serves(world).await;
    compare(world, "good again");
    assert_eq!(
        world.get("ConfigMap", "edge-config"),
        good,
        "good, bad, good again gives the first state back"
    );

    for replicas in [3, 1] {
        change(world, json!({"replicas": replicas})).await;
        until_it_serves(world).await;
        compare(world, "after scaling");
        assert_eq!(world.names("PodDisruptionBudget").is_empty(), replicas == 1);
    }

    world.delete("MyProxy", "edge").await.unwrap();
    world.until_gone("edge").await;
    world.until_quiet().await;
    compare(world, "at the end");
    oracles::deletes_name_a_uid(world);
    oracles::stays_within_its_role(world);
    taken
}

fn is_about_its_spec(proxy: &Value) -> bool {
    proxy["status"]["observed_generation"] == proxy["metadata"]["generation"]
}

async fn change(world: &World, spec: Value) {
    world
        .patch("MyProxy", "edge", json!({"spec": spec}))
        .await
        .unwrap();
}

async fn until_it_serves(world: &mut World) {
    world.until_proxy("edge", "ready", is_ready).await;
    world.until_quiet().await;
    oracles::status_says_what_is(world, "edge");
}
