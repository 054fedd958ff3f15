//! The protocol in a world in memory, under whatever can happen to it.

mod alone;
mod beginning;
mod ending;
mod primary;
mod replica;
mod silent;
mod world;

use std::collections::BTreeMap;
use std::time::Duration;

use rstest::rstest;

use super::{Data, Moment, Peer, Seen, Server, Situation};
use crate::api::database::agent::{Settings, Synchronous};
use world::{Volume, World};

fn whole(world: &mut World, within: Duration) {
    until(world, within, "whole", World::is_whole);
}

fn until(world: &mut World, within: Duration, what: &str, is_so: impl Fn(&World) -> bool) {
    let end = world.now + within;
    while !is_so(world) {
        assert!(
            world.now < end,
            "not {what} within {within:?}\n{}\n{}",
            world.told(),
            world.states()
        );
        world.tick();
    }
}

/// What the instance a-0 knows, whom the API server answers, of a PostgreSQL that was just looked at, with nothing under way.
fn situation<'a>(
    now: Moment,
    settings: &'a Settings,
    lease: &'a Seen,
    (data, server): (&'a Data, &'a Server),
    peers: &'a BTreeMap<String, Peer>,
) -> Situation<'a> {
    Situation {
        now,
        me: "a-0",
        identity: "u-1",
        settings,
        lease: Some(lease),
        api: Some(now),
        data,
        server,
        peers,
        canary: None,
        looked: now,
        writing: false,
        pleading: false,
        work: None,
    }
}

/// Each a life of some minutes.
const SEEDS: std::ops::Range<u64> = 0..30;

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
    storm_with(seed, instances, synchronous, stoppages, |_| {})
}

/// The same, with something else before each.
fn storm_with(
    seed: u64,
    instances: usize,
    synchronous: Synchronous,
    stoppages: u64,
    besides: impl Fn(&mut World),
) -> World {
    let mut world = World::new(seed, instances, synchronous);
    whole(&mut world, secs(60));
    let count = instances as u64;
    for _ in 0..stoppages {
        besides(&mut world);
        let someone = world.chance.below(count) as usize;
        let victim = match world.chance.below(3) {
            0 => someone,
            _ => world.primary().unwrap_or(someone),
        };
        let other = world.chance.below(count) as usize;
        match world.chance.below(17) {
            0 => world.kill(victim),
            1 => world.delete(victim),
            2 => world.kill_postgres(victim),
            3 => world.hang(victim),
            4 => world.stop(victim),
            5 => world.hand_over(victim),
            6 => drop(world.api_cut.insert(victim)),
            7 if other != victim => drop(world.cut.insert((victim.min(other), victim.max(other)))),
            // It may come back for all but one.
            8 if world.api_cut.len() == instances => world.api_cut = [victim].into(),
            8 => world.api_cut = (0..instances).collect(),
            10 => {
                let time = world.chance.millis(500, 40_000);
                world.freeze(victim, time);
            }
            11 if world.primary().is_some_and(|primary| primary != victim) => world.spoil(victim),
            12 => world.restart(victim),
            13 => world.excuse(someone),
            14 => world.slow_down(other),
            15 if world.chance.below(2) == 0 => world.blind(victim),
            16 => world.stop_without_the_api_server(victim),
            // A second loss would be one too many, before the first is made good and the Lease says so.
            9 if synchronous == Synchronous::Required => {
                let (primary, older) = (world.primary(), world.instances[victim].volume.clone());
                world.run(secs(5));
                if world.is_whole() && world.is_settled() {
                    match world.chance.below(3) {
                        0 => world.spoil(victim),
                        1 if primary == Some(victim) && world.primary() == primary => {
                            world.roll_back(victim, older);
                        }
                        _ => world.wipe(victim),
                    }
                }
            }
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
    world.speed_up();
    world.say("the storm is over".to_owned());
    world
}

#[rstest]
#[case(2)]
#[case(3)]
#[case(4)]
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

/// An instance that goes by a shorter time than the holder must not take the Lease before that one has stopped, nor may a promise end before.
#[rstest]
#[case(2)]
#[case(3)]
fn other_times_of_the_lease_make_no_second_primary_and_lose_nothing(#[case] instances: usize) {
    for seed in SEEDS {
        let mut world = storm_with(seed, instances, Synchronous::Required, 12, |world| {
            if world.chance.below(2) == 0 {
                world.retime();
            }
        });
        whole(&mut world, secs(240));
        assert_eq!(world.lost(), [], "seed {seed}\n{}", world.told());
    }
}

#[rstest]
#[case(2)]
#[case(3)]
fn a_disk_that_hangs_costs_its_instance_the_lease_although_nothing_can_be_killed(#[case] instances: usize) {
    for seed in 0..8 {
        let mut world = World::new(seed, instances, Synchronous::Required);
        whole(&mut world, secs(60));
        world.run(secs(5));
        let primary = world.primary().unwrap();
        world.freeze(primary, secs(120));
        world.run(secs(30));
        let now = world.primary();
        assert!(
            now.is_some_and(|now| now != primary),
            "seed {seed}: {now:?}\n{}",
            world.told()
        );
        world.run(secs(90));
        whole(&mut world, secs(60));
        assert_eq!(world.lost(), [], "seed {seed}\n{}", world.told());
    }
}

/// The token of a pod that is deleted is worth nothing any more, so whoever it was cannot give the Lease back. It says to the others that it has ended.
#[rstest]
#[case(2, Synchronous::Required)]
#[case(3, Synchronous::Required)]
#[case(3, Synchronous::Preferred)]
#[case(3, Synchronous::Off)]
fn a_primary_that_ends_without_the_api_server_is_replaced_before_its_lease_runs_out(
    #[case] instances: usize,
    #[case] synchronous: Synchronous,
) {
    for seed in 0..20 {
        let mut world = World::new(seed, instances, synchronous);
        whole(&mut world, secs(60));
        world.run(secs(10));
        let primary = world.primary().unwrap();
        world.stop_without_the_api_server(primary);
        let is_another = |world: &World| world.primary().is_some_and(|now| now != primary);
        until(&mut world, secs(3), "led by another", is_another);
        world.delete(primary);
        world.api_cut.clear();
        whole(&mut world, secs(60));
        if synchronous != Synchronous::Off {
            assert_eq!(world.lost(), [], "seed {seed}\n{}", world.told());
        }
    }
}

/// Its clients reach it, and nobody else does.
#[test]
fn a_primary_that_writes_alone_for_a_while_loses_no_more_than_may_be_lost() {
    let mut most = 0;
    for seed in 0..20 {
        let mut world = World::new(seed, 3, Synchronous::Off);
        whole(&mut world, secs(60));
        world.run(secs(10));
        let primary = world.primary().unwrap();
        world.api_cut.insert(primary);
        let others = (0..3).filter(|other| *other != primary);
        world.cut = others
            .map(|other| (primary.min(other), primary.max(other)))
            .collect();
        let is_another = |world: &World| world.primary().is_some_and(|now| now != primary);
        until(&mut world, secs(10), "led by another", is_another);
        (world.api_cut, world.cut) = Default::default();
        whole(&mut world, secs(60));
        let lost = world.lost().len() as u64;
        assert!(
            lost <= world.settings.maximum_lag,
            "seed {seed}: {lost}\n{}",
            world.told()
        );
        most = most.max(lost);
    }
    assert!(most > 0, "nothing was written alone");
}

/// The primary comes back on an older volume, leaves the Lease to another, and nothing that was acknowledged is lost.
fn goes_back_and_is_succeeded(world: &mut World, primary: usize, older: Volume, seed: u64) {
    // What was written since the Lease was renewed the others alone know.
    let later = world.chance.millis(500, 5000);
    world.run(later);
    world.roll_back(primary, older);
    let is_another = |world: &World| world.primary().is_some_and(|now| now != primary);
    until(world, secs(60), "led by another", is_another);
    whole(world, secs(60));
    assert_eq!(world.lost(), [], "seed {seed}\n{}", world.told());
}

/// What it said it had written, somebody else has.
#[rstest]
#[case(2)]
#[case(3)]
fn a_primary_whose_volume_is_an_older_one_loses_the_lease_and_nothing_else(#[case] instances: usize) {
    for seed in 0..20 {
        let mut world = World::new(seed, instances, Synchronous::Required);
        whole(&mut world, secs(60));
        let primary = world.primary().unwrap();
        let older = world.instances[primary].volume.clone();
        goes_back_and_is_succeeded(&mut world, primary, older, seed);
    }
}

/// As before, from before it led: nothing in the data says that it ever did.
#[rstest]
#[case(2)]
#[case(3)]
fn a_primary_whose_volume_is_that_of_a_replica_loses_the_lease_and_nothing_else(#[case] instances: usize) {
    for seed in 0..20 {
        let mut world = World::new(seed, instances, Synchronous::Required);
        whole(&mut world, secs(60));
        let before = world.primary().unwrap();
        let mut older: Vec<_> = world.instances.iter().map(|it| it.volume.clone()).collect();
        world.run(secs(5));
        world.delete(before);
        let is_next = |world: &World| world.primary().is_some_and(|now| now != before);
        until(&mut world, secs(60), "led by the next", is_next);
        whole(&mut world, secs(60));
        let next = world.primary().unwrap();
        goes_back_and_is_succeeded(&mut world, next, older.swap_remove(next), seed);
    }
}

/// Whether its log goes as far as it did nobody can tell: the disk has faults. Another one leads, unless none has more than it has for certain.
#[rstest]
#[case(2)]
#[case(3)]
fn a_primary_whose_log_cannot_be_read_costs_nothing_that_was_acknowledged(#[case] instances: usize) {
    for seed in 0..20 {
        let mut world = World::new(seed, instances, Synchronous::Required);
        whole(&mut world, secs(60));
        let primary = world.primary().unwrap();
        let older = world.instances[primary].volume.clone();
        world.blind(primary);
        let later = world.chance.millis(500, 5000);
        world.run(later);
        world.roll_back(primary, older);
        world.run(secs(1));
        whole(&mut world, secs(120));
        assert_eq!(world.lost(), [], "seed {seed}\n{}", world.told());
    }
}

#[test]
fn a_primary_whose_log_could_not_be_read_goes_on_once_it_can_be() {
    for seed in 0..8 {
        let mut world = World::new(seed, 2, Synchronous::Required);
        whole(&mut world, secs(60));
        world.run(secs(5));
        let primary = world.primary().unwrap();
        world.api_cut = [1 - primary].into();
        world.blind(primary);
        world.kill_postgres(primary);
        world.run(secs(60));
        assert_eq!(world.primary(), None, "seed {seed}\n{}", world.told());
        world.blind(primary);
        until(&mut world, secs(60), "led", |world| {
            world.primary() == Some(primary)
        });
        assert_eq!(world.lost(), [], "seed {seed}\n{}", world.told());
    }
}

/// That is the only data that is left, and a person says so.
#[test]
fn an_older_volume_is_served_once_nobody_else_has_more_and_the_lease_is_deleted() {
    for seed in 0..8 {
        let mut world = World::new(seed, 2, Synchronous::Required);
        whole(&mut world, secs(60));
        let primary = world.primary().unwrap();
        let older = world.instances[primary].volume.clone();
        world.run(secs(10));
        world.wipe(1 - primary);
        world.roll_back(primary, older);
        world.run(secs(30));
        assert_eq!(world.primary(), None, "seed {seed}\n{}", world.told());
        world.forget_the_lease();
        whole(&mut world, secs(60));
        assert_eq!(world.primary(), Some(primary), "seed {seed}\n{}", world.told());
    }
}

/// The one that has more is there, and a person who lost a third one deletes the Lease.
#[test]
fn whoever_has_more_than_an_older_volume_leads_once_the_lease_is_deleted() {
    for seed in 0..8 {
        let mut world = World::new(seed, 3, Synchronous::Required);
        whole(&mut world, secs(60));
        let primary = world.primary().unwrap();
        let older = world.instances[primary].volume.clone();
        world.run(secs(10));
        let (lost, other) = ((primary + 1) % 3, (primary + 2) % 3);
        world.wipe(lost);
        world.roll_back(primary, older);
        world.run(secs(30));
        assert_eq!(world.primary(), None, "seed {seed}\n{}", world.told());
        world.forget_the_lease();
        whole(&mut world, secs(90));
        assert_eq!(world.primary(), Some(other), "seed {seed}\n{}", world.told());
        assert_eq!(world.lost(), [], "seed {seed}\n{}", world.told());
    }
}

/// Its last checkpoint alone, which is older than what a replica has, says nothing of how far its log goes.
#[test]
fn an_older_volume_that_has_more_than_a_replica_is_served_once_the_lease_is_deleted() {
    for seed in 0..20 {
        let mut world = World::new(seed, 3, Synchronous::Required);
        whole(&mut world, secs(60));
        let primary = world.primary().unwrap();
        let (lost, slow) = ((primary + 1) % 3, (primary + 2) % 3);
        world.slow_down(slow);
        world.run(secs(10));
        let older = world.instances[primary].volume.clone();
        let kept = older.log.len();
        world.run(secs(3));
        world.wipe(lost);
        world.roll_back(primary, older);
        world.run(secs(30));
        assert_eq!(world.primary(), None, "seed {seed}\n{}", world.told());
        assert!(world.instances[slow].volume.log.len() < kept, "seed {seed}");
        world.forget_the_lease();
        world.speed_up();
        whole(&mut world, secs(90));
        assert_eq!(world.primary(), Some(primary), "seed {seed}\n{}", world.told());
        assert!(world.instances[slow].volume.log.len() >= kept, "seed {seed}");
    }
}

/// The replica may not lead, since it is too far behind, and where it is the older volume never was.
#[test]
fn an_older_volume_and_a_replica_on_a_later_timeline_do_not_wait_for_each_other() {
    for seed in 0..20 {
        let mut world = World::new(seed, 2, Synchronous::Preferred);
        whole(&mut world, secs(60));
        let first = world.primary().unwrap();
        world.run(secs(5));
        let older = world.instances[first].volume.clone();
        for next in [1 - first, first] {
            while world.primary() != Some(next) {
                assert!(world.now < secs(300), "{}", world.told());
                if world.primary().is_some() {
                    world.hand_over(1 - next);
                }
                world.run(secs(3));
            }
            whole(&mut world, secs(60));
        }
        world.run(secs(5));
        world.roll_back(first, older);
        world.run(secs(1));
        world.forget_the_lease();
        whole(&mut world, secs(120));
    }
}

/// Whoever has the most leads, whatever else befalls: a person may delete the Lease at any time.
#[rstest]
#[case(2)]
#[case(3)]
fn a_lease_that_is_deleted_costs_nothing_that_was_acknowledged(#[case] instances: usize) {
    for seed in SEEDS {
        let mut world = storm_with(seed, instances, Synchronous::Required, 25, |world| {
            if world.chance.below(5) == 0 {
                world.forget_the_lease();
            }
        });
        for index in 0..instances {
            world.kill(index);
        }
        world.forget_the_lease();
        whole(&mut world, secs(300));
        assert_eq!(world.lost(), [], "seed {seed}\n{}", world.told());
    }
}

/// It has nobody to take its place, and is served as it is.
#[test]
fn a_single_instance_whose_volume_is_an_older_one_goes_on() {
    let mut world = World::new(0, 1, Synchronous::Preferred);
    whole(&mut world, secs(60));
    let older = world.instances[0].volume.clone();
    world.run(secs(10));
    world.roll_back(0, older);
    world.run(secs(1));
    whole(&mut world, secs(60));
}

/// One fault keeps the primary and whoever has the most from the API server: the last one gets what it lacks from them, and leads.
#[test]
fn what_an_instance_without_the_api_server_has_more_is_had_from_it() {
    for seed in 0..20 {
        let mut world = World::new(seed, 3, Synchronous::Required);
        whole(&mut world, secs(60));
        world.run(secs(5));
        let primary = world.primary().unwrap();
        let (further, last) = ((primary + 1) % 3, (primary + 2) % 3);
        world.instances[last].slow = true;
        world.run(secs(5));
        world.api_cut = [primary, further].into();
        let leads = |world: &World| world.primary() == Some(last);
        until(&mut world, secs(60), "led by the last", leads);
        assert_eq!(world.lost(), [], "seed {seed}\n{}", world.told());
        world.api_cut.clear();
        world.speed_up();
        whole(&mut world, secs(60));
        assert_eq!(world.lost(), [], "seed {seed}\n{}", world.told());
    }
}

/// The one before waited for it alone, and it has nobody to wait for.
#[test]
fn where_commits_need_not_wait_the_last_of_two_takes_writes_as_soon_as_it_leads() {
    for seed in 0..8 {
        let mut world = World::new(seed, 2, Synchronous::Preferred);
        whole(&mut world, secs(60));
        world.run(secs(10));
        let primary = world.primary().unwrap();
        world.cut.insert((0, 1));
        world.api_cut.insert(primary);
        let is_another = |world: &World| world.primary().is_some_and(|now| now != primary);
        until(&mut world, secs(60), "led by another", is_another);
        let begun = world.now;
        world.run(secs(1));
        let (_, last) = world.acknowledged.last().unwrap();
        assert!(*last > begun, "seed {seed}\n{}", world.told());
    }
}

#[test]
fn a_replica_of_whose_data_nothing_can_be_made_is_copied_anew() {
    for seed in 0..8 {
        let mut world = World::new(seed, 3, Synchronous::Required);
        whole(&mut world, secs(60));
        let primary = world.primary().unwrap();
        world.spoil((primary + 1) % 3);
        world.run(secs(1));
        whole(&mut world, secs(60));
        assert_eq!(world.primary(), Some(primary));
        assert_eq!(world.lost(), [], "seed {seed}\n{}", world.told());
    }
}

#[test]
fn a_primary_whose_postgresql_does_not_start_any_more_leaves_the_lease_to_others() {
    for seed in 0..8 {
        let mut world = World::new(seed, 3, Synchronous::Required);
        whole(&mut world, secs(60));
        world.run(secs(5));
        let primary = world.primary().unwrap();
        world.spoil(primary);
        world.run(secs(30));
        let now = world.primary();
        assert!(
            now.is_some_and(|now| now != primary),
            "seed {seed}\n{}",
            world.told()
        );
        whole(&mut world, secs(60));
        assert_eq!(world.lost(), [], "seed {seed}\n{}", world.told());
    }
}

/// The Lease says nothing any more, and the primary's volume is lost: whoever has the most goes on, whatever its name.
#[test]
fn without_a_lease_whoever_has_the_most_goes_on() {
    for seed in 0..8 {
        let mut world = World::new(seed, 3, Synchronous::Preferred);
        whole(&mut world, secs(60));
        let primary = world.primary().unwrap();
        let (slow, other) = ((primary + 1) % 3, (primary + 2) % 3);
        world.slow_down(slow);
        world.run(secs(20));
        world.wipe(primary);
        world.forget_the_lease();
        world.speed_up();
        world.run(secs(60));
        assert_eq!(world.primary(), Some(other), "seed {seed}\n{}", world.told());
        whole(&mut world, secs(60));
    }
}
