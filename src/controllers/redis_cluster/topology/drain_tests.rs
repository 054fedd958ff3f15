use rstest::rstest;

use super::super::scene::{Scene, State};
use super::super::slots::{Slots, even_shares};
use super::super::testing::{id, said, shape, slot};

/// Four shards, of which the last is to go.
fn shrinking(replicas: u8) -> Scene {
    Scene::settled(4, replicas).with(|scene| scene.wanted.shards = 3)
}

/// It has given away all slots.
fn drained(replicas: u8) -> Scene {
    shrinking(replicas).with(|scene| {
        for (shard, share) in (0..).zip(even_shares(3)) {
            scene.give(id(shard, 0), &share);
        }
        for copy in 0..=replicas {
            scene.report(3, copy).keys = 0;
        }
    })
}

/// A node has left, and knows nobody.
fn leave(scene: &mut Scene, copy: u8) {
    scene.renew(3, copy);
}

#[test]
fn a_shard_that_goes_gives_its_lowest_slots_to_the_first_that_lacks_some() {
    assert_eq!(said(&shrinking(0)), "hot 3/0>0/0 drain 12288-13653");
}

#[rstest]
#[case::the_one_that_goes(3, 0)]
#[case::its_replica(3, 1)]
#[case::one_that_stays(1, 1)]
fn a_shard_whose_pods_did_not_answer_once_is_not_a_shard_without_slots(#[case] shard: u16, #[case] copy: u8) {
    for state in [State::Silent, State::Absent] {
        for scene in [shrinking(1), drained(1)] {
            let scene = scene.with(|scene| scene.say(shard, copy, state.clone()));
            assert!(said(&scene).starts_with("wait for"), "{}", said(&scene));
        }
    }
}

#[test]
fn replicas_leave_then_the_primary_then_all_are_forgotten_and_only_then_pods_go() {
    let mut scene = drained(1);
    assert_eq!(said(&scene), "reset 3/1");
    leave(&mut scene, 1);
    assert_eq!(said(&scene), "reset 3/0");
    leave(&mut scene, 0);
    assert!(
        said(&scene).starts_with("wait for all to miss the node"),
        "{}",
        said(&scene)
    );
    for copy in 0..2 {
        scene.miss(id(3, copy), 11);
    }
    assert_eq!(said(&scene), "forget 12");
    let half = scene
        .clone()
        .with(|scene| scene.report(1, 0).view.known.retain(|known| known.id != id(3, 0)));
    assert_eq!(said(&half), "forget 11", "by those who still know it");
    for copy in 0..2 {
        scene.forget(id(3, copy));
    }
    assert_eq!(said(&scene), "shrink 3/1");
    scene.members.retain(|member| member.place.shard < 3);
    scene.present = shape(3, 1);
    assert_eq!(said(&scene), "settled");
}

#[rstest]
#[case::keys_are_left(|scene: &mut Scene| scene.report(3, 0).keys = 1, "StrayKeys")]
#[case::a_mark_is_left(|scene: &mut Scene| { scene.own(3, 0).importing.insert(slot(7), id(0, 0)); }, "cold 3/0>0/0 finish 7")]
#[case::a_mark_is_left_that_cannot_be_ended(|scene: &mut Scene| {
    scene.own(3, 0).importing.insert(slot(7), id(0, 0));
    scene.report(3, 0).cluster_state_ok = false;
}, "wait for the move of slots at copy 0 of shard 3")]
#[case::somebody_thinks_it_has_slots(|scene: &mut Scene| {
    let known = &mut scene.report(1, 0).view.known;
    known.iter_mut().filter(|known| known.id == id(3, 0)).for_each(|known| known.slots.insert(slot(9)));
}, "wait for copy 0 of shard 1 to know who owns which slots")]
fn a_node_does_not_leave_while_anything_of_it_is_left(
    #[case] change: fn(&mut Scene),
    #[case] expected: &str,
) {
    let scene = drained(0).with(change);
    assert!(said(&scene).starts_with(expected), "{}", said(&scene));
}

#[rstest]
#[case::it_fits(Some(4_000), None, 1_000, "hot")]
#[case::it_does_not(Some(1_400), None, 1_000, "ScaleInBlocked")]
#[case::just(Some(2_250), None, 3_000, "hot")]
#[case::not_quite(Some(2_250), None, 3_001, "ScaleInBlocked")]
#[case::the_container_is_the_limit(None, Some(1_400), 1_000, "ScaleInBlocked")]
#[case::there_is_no_limit(None, None, 1 << 60, "hot")]
fn what_is_drained_has_to_fit_elsewhere(
    #[case] maxmemory: Option<u64>,
    #[case] container: Option<u64>,
    #[case] drained: u64,
    #[case] expected: &str,
) {
    let scene = shrinking(0).with(|scene| {
        for shard in 0..3 {
            scene.report(shard, 0).maxmemory = maxmemory;
        }
        scene.report(3, 0).used_memory = drained;
        scene.memory_limit = container;
    });
    assert!(said(&scene).starts_with(expected), "{}", said(&scene));
}

#[test]
fn pods_that_never_came_to_be_go_again_but_not_if_they_might_be_somebody() {
    let never = Scene::settled(3, 0).with(|scene| scene.present.shards = 4);
    assert_eq!(said(&never), "shrink 3/0");
    let known = drained(0).with(|scene| scene.say(3, 0, State::Absent));
    assert!(
        said(&known).starts_with("wait for copy 0 of shard 3"),
        "{}",
        said(&known)
    );
}

#[test]
fn slots_come_back_to_a_shard_that_is_wanted_again() {
    let scene = shrinking(0).with(|scene| {
        let share: Slots = "12288-13653".parse().unwrap();
        scene.give(id(0, 0), &share);
        scene.wanted.shards = 4;
    });
    assert_eq!(said(&scene), "hot 0/0>3/0 rebalance 0-1365");
}

#[rstest]
#[case::a_replica(|_: &mut Scene| (), "reset 0/2")]
#[case::a_primary(|scene: &mut Scene| {
    scene.lines(id(0, 0), |line| (line.flags.primary, line.flags.replica, line.primary) = (false, true, Some(id(0, 2))));
    scene.lines(id(0, 1), |line| line.primary = Some(id(0, 2)));
    scene.lines(id(0, 2), |line| (line.flags.primary, line.flags.replica, line.primary) = (true, false, None));
    scene.give(id(0, 2), &even_shares(3)[0]);
}, "planned 0/1")]
#[case::a_primary_whose_replicas_are_behind(|scene: &mut Scene| {
    scene.lines(id(0, 0), |line| (line.flags.primary, line.flags.replica, line.primary) = (false, true, Some(id(0, 2))));
    scene.lines(id(0, 2), |line| (line.flags.primary, line.flags.replica, line.primary) = (true, false, None));
    scene.give(id(0, 2), &even_shares(3)[0]);
    scene.report(0, 0).primary_link_up = false;
}, "replicate 0/1>0/2")]
fn fewer_replicas_leave_their_shard_with_its_slots(#[case] change: fn(&mut Scene), #[case] expected: &str) {
    let scene = Scene::settled(3, 2)
        .with(|scene| scene.wanted.replicas_per_shard = 1)
        .with(change);
    let expected = if expected == "planned 0/1" {
        "planned 0/0"
    } else {
        expected
    };
    // Copy 0 was a primary, so that its link is not up by itself.
    let scene = if expected == "planned 0/0" {
        scene.with(|scene| scene.report(0, 0).primary_link_up = true)
    } else {
        scene
    };
    assert_eq!(said(&scene), expected);
}
