use rstest::rstest;

use super::super::scene::{Scene, State};
use super::super::testing::{id, said, slot, slots};

fn migrating(scene: &mut Scene, giver: (u16, u8), taker: (u16, u8)) {
    let mark = (slot(7), id(taker.0, taker.1));
    scene.own(giver.0, giver.1).migrating.extend([mark]);
}

fn importing(scene: &mut Scene, taker: (u16, u8), giver: (u16, u8)) {
    let mark = (slot(7), id(giver.0, giver.1));
    scene.own(taker.0, taker.1).importing.extend([mark]);
}

/// Copy 1 of a shard is its primary by now, and copy 0 its replica.
fn failed_over(scene: &mut Scene, shard: u16) {
    let share = scene.own(shard, 0).slots.clone();
    let (old, new) = (id(shard, 0), id(shard, 1));
    scene.lines(old, |line| {
        (line.flags.primary, line.flags.replica, line.primary) = (false, true, Some(new));
    });
    scene.lines(new, |line| {
        (line.flags.primary, line.flags.replica, line.primary) = (true, false, None);
        line.config_epoch = 20;
    });
    scene.give(new, &share);
    for (copy, is_primary) in [(0, false), (1, true)] {
        let report = scene.report(shard, copy);
        report.primary_link_up = !is_primary;
        let primary = super::super::scene::Role::Primary;
        report.role = if is_primary {
            primary
        } else {
            super::super::scene::Role::Replica
        };
    }
}

/// Slot 7 is of shard 0.
#[rstest]
#[case::both_marks(|scene: &mut Scene| { migrating(scene, (0, 0), (1, 0)); importing(scene, (1, 0), (0, 0)) }, "hot 0/0>1/0 finish 7")]
#[case::the_giver_alone(|scene: &mut Scene| migrating(scene, (0, 0), (1, 0)), "hot 0/0>1/0 finish 7")]
#[case::the_taker_alone(|scene: &mut Scene| importing(scene, (1, 0), (0, 0)), "hot 0/0>1/0 finish 7")]
#[case::to_a_node_that_is_a_replica_by_now(|scene: &mut Scene| { failed_over(scene, 1); migrating(scene, (0, 0), (1, 0)) }, "hot 0/0>1/1 finish 7")]
#[case::from_a_node_that_is_a_replica_by_now(|scene: &mut Scene| { failed_over(scene, 0); importing(scene, (1, 0), (0, 0)) }, "hot 0/1>1/0 finish 7")]
#[case::the_taker_does_not_know_of_the_failover(|scene: &mut Scene| {
    failed_over(scene, 0);
    importing(scene, (1, 0), (0, 0));
    scene.report(1, 0).view.known.iter_mut().for_each(|line| line.slots.remove(slot(7)));
}, "tell 1/0 7 01020000")]
#[case::the_taker_owns_it(|scene: &mut Scene| { scene.give(id(1, 0), &slots("7")); migrating(scene, (0, 0), (1, 0)) }, "cold 0/0>1/0 finish 7")]
#[case::two_own_it(|scene: &mut Scene| scene.own(1, 0).slots.insert(slot(7)), "cold 0/0>1/0 finish 7")]
#[case::to_a_node_that_is_gone(|scene: &mut Scene| migrating(scene, (0, 0), (8, 8)), "close 0/0 7")]
#[case::to_itself(|scene: &mut Scene| migrating(scene, (0, 0), (0, 0)), "close 0/0 7")]
#[case::the_owner_imports(|scene: &mut Scene| importing(scene, (0, 0), (1, 0)), "close 0/0 7")]
#[case::nobody_owns_it(|scene: &mut Scene| { scene.give(id(8, 8), &slots("7")); migrating(scene, (0, 0), (1, 0)) }, "claim 0/0>1/0 finish 7")]
#[case::the_taker_is_to_go(|scene: &mut Scene| { scene.wanted.shards = 2; importing(scene, (2, 0), (0, 0)) }, "cold 2/0>0/0 finish 7")]
fn an_open_slot_is_brought_to_an_end(#[case] change: fn(&mut Scene), #[case] expected: &str) {
    assert_eq!(said(&Scene::settled(3, 1).with(change)), expected);
}

#[rstest]
#[case::of_the_marked_shard(1, "wait for the node 0909")]
#[case::of_another_shard(2, "wait for the node 0909")]
fn a_mark_that_names_an_unknown_node_stays_while_anybody_is_silent(
    #[case] shard: u16,
    #[case] expected: &str,
) {
    let scene = Scene::settled(3, 1).with(|scene| {
        migrating(scene, (0, 0), (8, 8));
        scene.say(shard, 1, State::Silent);
    });
    assert!(said(&scene).starts_with(expected), "{}", said(&scene));
}

#[test]
fn slots_that_are_open_alike_go_together() {
    let scene = Scene::settled(3, 0).with(|scene| {
        for number in [3, 4, 9] {
            scene.own(0, 0).migrating.insert(slot(number), id(1, 0));
        }
        scene.own(0, 0).migrating.insert(slot(5), id(2, 0));
    });
    assert_eq!(said(&scene), "hot 0/0>1/0 finish 3-4,9");
}

#[test]
fn keys_do_not_move_while_redis_does_not_serve_them_but_what_ails_it_is_looked_at() {
    let scene = Scene::settled(3, 0).with(|scene| {
        migrating(scene, (0, 0), (1, 0));
        scene.report(0, 0).cluster_state_ok = false;
        scene.say(2, 0, State::Silent);
    });
    assert!(
        said(&scene).starts_with("wait for copy 0 of shard 2"),
        "{}",
        said(&scene)
    );
}

#[test]
fn two_owners_in_one_shard_are_left_to_redis_which_makes_one_follow_the_other() {
    let scene = Scene::settled(3, 1).with(|scene| {
        failed_over(scene, 0);
        let share = scene.own(0, 1).slots.clone();
        let own = scene.own(0, 0);
        (own.slots, own.flags.primary, own.flags.replica, own.primary) = (share, true, false, None);
    });
    assert!(
        said(&scene).starts_with("wait for copy 0 of shard 0"),
        "{}",
        said(&scene)
    );
}
