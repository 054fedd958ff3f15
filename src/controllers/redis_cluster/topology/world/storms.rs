//! Faults at random, one after another, with an operator that falls after any command; then they stop, and all has to be well.

use proptest::prelude::*;

use super::super::scene::Shape;
use super::World;
use super::drive::Budget;

/// What may go wrong.
#[derive(Clone, Copy, Debug)]
struct Weather {
    kills: bool,
    losses: bool,
    resizes: bool,
}

/// So many rounds of it.
fn storm(world: &mut World, weather: Weather, rounds: usize) {
    for _ in 0..rounds {
        match world.random.below(24) {
            0 | 1 if weather.kills => {
                let (place, absent) = (world.some_place(), world.random.one_in(2));
                let down_for = 1_000 * (1 + world.random.below(25)) as u64;
                world.kill(place, absent, down_for);
            }
            2 if weather.kills => {
                let (place, until) = (
                    world.some_place(),
                    world.now + 1_000 * world.random.below(8) as u64,
                );
                world.servers.get_mut(&place).unwrap().silent_until = until;
            }
            3 if weather.losses && world.bootstrapped => {
                let place = world.some_place();
                world.destroy(place, 4_000);
            }
            4 if weather.kills && world.random.one_in(6) => {
                for place in world.present.places() {
                    world.kill(place, true, 3_000);
                }
            }
            5 if weather.resizes => {
                let shards = [1, 3, 4, 5][world.random.below(4)];
                let replicas_per_shard = world.wanted.replicas_per_shard;
                world.wanted = Shape {
                    shards,
                    replicas_per_shard,
                };
            }
            _ => (),
        }
        let commands = world.random.below(1_000);
        world.reconcile(Budget::of(commands));
    }
}

fn weather(seed: u64, shards: u16, replicas: u8, weather: Weather) -> World {
    let mut world = World::new(seed, shards, replicas);
    storm(&mut world, weather, 60);
    world.settle(600);
    world.assert_sound();
    world
}

/// Few of them in everyday life; PROPTEST_CASES asks for more.
fn cases(few: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok());
    ProptestConfig {
        cases: asked.unwrap_or(few),
        max_shrink_iters: 0,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases(3))]

    #[test]
    fn an_operator_that_falls_after_any_command_loses_no_key_however_often_the_size_changes(seed in any::<u64>(), replicas in 0u8..2) {
        let sky = Weather { kills: false, losses: false, resizes: true };
        let world = weather(seed, 3, replicas, sky);
        prop_assert!(world.at_risk.is_empty() && world.lost().is_empty());
    }

    #[test]
    fn without_replicas_no_key_is_lost_whatever_pods_restart(seed in any::<u64>()) {
        let sky = Weather { kills: true, losses: false, resizes: true };
        let world = weather(seed, 3, 0, sky);
        prop_assert!(world.lost().iter().all(|key| world.at_risk.contains(key)));
    }

    #[test]
    fn with_replicas_only_those_keys_are_lost_that_redis_had_not_replicated(seed in any::<u64>(), replicas in 1u8..3) {
        let sky = Weather { kills: true, losses: false, resizes: true };
        let world = weather(seed, 3, replicas, sky);
        prop_assert!(world.lost().iter().all(|key| world.at_risk.contains(key)));
    }

    #[test]
    fn where_data_may_be_lost_a_cluster_always_comes_back(seed in any::<u64>(), replicas in 0u8..2) {
        let mut world = World::new(seed, 3, replicas);
        world.allow_data_loss = true;
        storm(&mut world, Weather { kills: true, losses: true, resizes: true }, 60);
        world.settle(600);
        world.assert_sound();
    }
}
