//! The protocol in a world in memory, under whatever can happen to it.

mod world;

use std::time::Duration;

use rstest::rstest;

use crate::api::database::agent::Synchronous;
use world::World;

fn whole(world: &mut World, within: Duration) {
    let end = world.now + within;
    while !world.is_whole() {
        assert!(
            world.now < end,
            "not whole within {within:?}\n{}\n{}",
            world.told(),
            world.states()
        );
        world.tick();
    }
}

/// Each a life of some minutes.
const SEEDS: std::ops::Range<u64> = 0..25;

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[rstest]
#[case(1, Synchronous::Off)]
#[case(1, Synchronous::Preferred)]
#[case(2, Synchronous::Required)]
#[case(3, Synchronous::Preferred)]
#[case(3, Synchronous::Required)]
fn a_new_database_gets_a_primary_and_replicas(#[case] instances: usize, #[case] synchronous: Synchronous) {
    for seed in 0..20 {
        let mut world = World::new(seed, instances, synchronous);
        whole(&mut world, secs(60));
        world.run(secs(10));
        assert!(!world.acknowledged.is_empty(), "{}", world.told());
    }
}

/// What may happen, at random, and then nothing any more.
fn storm(seed: u64, instances: usize, synchronous: Synchronous, stoppages: u64) -> World {
    let mut world = World::new(seed, instances, synchronous);
    whole(&mut world, secs(60));
    let count = instances as u64;
    for _ in 0..stoppages {
        let someone = world.chance.below(count) as usize;
        let victim = match world.chance.below(3) {
            0 => someone,
            _ => world.primary().unwrap_or(someone),
        };
        let other = world.chance.below(count) as usize;
        match world.chance.below(11) {
            0 => world.kill(victim),
            1 => world.delete(victim),
            2 => world.kill_postgres(victim),
            3 => world.hang(victim),
            4 => world.stop(victim),
            5 => world.hand_over(victim),
            6 => drop(world.api_cut.insert(victim)),
            7 if other != victim => drop(world.cut.insert((victim.min(other), victim.max(other)))),
            8 => world.api_cut = (0..instances).collect(),
            // A second loss would be one too many.
            9 if world.is_whole() && synchronous == Synchronous::Required => world.wipe(victim),
            _ => {
                world.cut.clear();
                world.api_cut.clear();
            }
        }
        let cut = format!("no API for {:?}, no way between {:?}", world.api_cut, world.cut);
        world.say(cut);
        let pause = world.chance.millis(100, 15_000);
        world.run(pause);
    }
    world.cut.clear();
    world.api_cut.clear();
    world.say("the storm is over".to_owned());
    world
}

#[rstest]
#[case(2)]
#[case(3)]
fn no_acknowledged_commit_is_lost_where_commits_wait_whatever_happens(#[case] instances: usize) {
    for seed in SEEDS {
        let mut world = storm(seed, instances, Synchronous::Required, 12);
        whole(&mut world, secs(120));
        assert_eq!(world.lost(), [], "seed {seed}\n{}", world.told());
    }
}

#[rstest]
#[case(1, Synchronous::Preferred)]
#[case(2, Synchronous::Preferred)]
#[case(3, Synchronous::Preferred)]
#[case(3, Synchronous::Off)]
fn there_is_never_a_second_primary_and_all_heals(#[case] instances: usize, #[case] synchronous: Synchronous) {
    for seed in SEEDS {
        let mut world = storm(seed, instances, synchronous, 12);
        whole(&mut world, secs(120));
    }
}
