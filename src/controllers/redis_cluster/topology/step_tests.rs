use rstest::rstest;

use super::super::nodes::Flags;
use super::super::scene::{Role, State};
use super::super::slots::even_shares;
use super::super::testing::{id, ip, place, said, shape, slots};
use super::*;

/// Pods of a cluster that nobody has set up.
fn new(shards: u16, replicas: u8) -> Scene {
    Scene::settled(shards, replicas).with(|scene| {
        scene.bootstrapped = false;
        for place in shape(shards, replicas).places() {
            scene.renew(place.shard, place.copy);
        }
    })
}

/// They know each other, and have epochs; nobody has slots.
fn introduced(shards: u16, replicas: u8) -> Scene {
    new(shards, replicas).with(|scene| {
        for place in shape(shards, replicas).places() {
            scene.introduce(place.shard, place.copy);
        }
        // Whoever came later did not know of those that came after it.
        for place in shape(shards, replicas).places() {
            let (mut known, own) = (
                scene.report(place.shard, place.copy).view.known.clone(),
                scene.own(place.shard, place.copy).id,
            );
            known.sort_by_key(|known| known.id);
            known.dedup_by_key(|known| known.id);
            known.retain(|known| known.id != own);
            scene.report(place.shard, place.copy).view.known = known;
        }
    })
}

#[rstest]
#[case(1, 0)]
#[case(1, 2)]
#[case(3, 1)]
#[case(7, 2)]
fn where_all_is_as_it_should_be_nothing_is_done(#[case] shards: u16, #[case] replicas: u8) {
    assert_eq!(said(&Scene::settled(shards, replicas)), "settled");
}

#[rstest]
#[case::two_have_another_address(|scene: &mut Scene| {
    for shard in 0..2 {
        let new = ip(shard + 50, 0);
        scene.member(shard, 0).ip = Some(new);
        scene.own(shard, 0).ip = Some(new);
    }
}, "heal 0/0>1/0 2/0>0/0 2/0>1/0")]
#[case::one_has_lost_an_address(|scene: &mut Scene| scene.report(1, 0).view.known[0].ip = None, "heal 1/0>0/0")]
#[case::before_a_failover(|scene: &mut Scene| {
    scene.report(1, 0).view.known[0].ip = None;
    scene.say(2, 0, State::Silent);
}, "heal 1/0>0/0")]
fn whoever_has_a_wrong_address_is_told_before_all_else(
    #[case] change: fn(&mut Scene),
    #[case] expected: &str,
) {
    assert_eq!(said(&Scene::settled(3, 0).with(change)), expected);
}

#[test]
fn a_new_cluster_comes_to_be_step_by_step() {
    assert_eq!(said(&new(3, 1)), "epochs 0/0=1 0/1=2 1/0=3 1/1=4 2/0=5 2/1=6");
    let with_epochs = new(3, 1).with(|scene| {
        for place in shape(3, 1).places() {
            scene.report(place.shard, place.copy).current_epoch = 3;
        }
    });
    assert_eq!(said(&with_epochs), "meet 0/0>0/1 0/0>1/0 0/0>1/1 0/0>2/0 0/0>2/1");
    let mut scene = introduced(3, 1);
    assert_eq!(said(&scene), "assign 0/0:0-5461 1/0:5462-10922 2/0:10923-16383");
    let ids: Vec<_> = (0..3).map(|shard| scene.own(shard, 0).id).collect();
    for (id, share) in ids.iter().zip(even_shares(3)) {
        scene.give(*id, &share);
    }
    assert_eq!(said(&scene), "record");
    scene.bootstrapped = true;
    assert_eq!(said(&scene), "replicate 0/1>0/0");
}

#[test]
fn an_interrupted_bootstrap_goes_on_with_what_is_missing_even_if_the_spec_changed_since() {
    let mut scene = introduced(3, 0);
    let first = scene.own(0, 0).id;
    scene.give(first, &slots("0-5461"));
    assert_eq!(said(&scene), "assign 1/0:5462-10922 2/0:10923-16383");
    scene.wanted.shards = 1;
    assert_eq!(
        said(&scene),
        "assign 1/0:5462-10922 2/0:10923-16383",
        "of three shards, as before"
    );
    let second = scene.own(1, 0).id;
    scene.give(second, &slots("5462-10922"));
    assert_eq!(said(&scene), "assign 2/0:10923-16383");
}

#[test]
fn slots_are_not_assigned_while_a_pod_is_silent() {
    let scene = introduced(3, 0).with(|scene| scene.say(2, 0, State::Silent));
    assert!(
        said(&scene).starts_with("wait for copy 0 of shard 2"),
        "{}",
        said(&scene)
    );
}

#[rstest]
#[case::keys_without_slots(|scene: &mut Scene| scene.report(1, 0).keys = 1)]
#[case::other_slots(|scene: &mut Scene| { let id = scene.own(1, 0).id; scene.give(id, &slots("0-100")) })]
fn what_others_set_up_is_not_touched(#[case] change: fn(&mut Scene)) {
    assert_eq!(said(&introduced(3, 0).with(change)), "AdoptionRequired");
    assert_eq!(
        said(&new(3, 0).with(|scene| scene.report(1, 0).keys = 1)),
        "AdoptionRequired"
    );
}

/// A foreign cluster is heard of; a pod that came back as another node in the midst of a bootstrap is not.
#[rstest]
#[case::somebody_has_just_heard_of_it(0, "wait for the node 0a0a")]
#[case::nobody_has(11, "forget 1")]
fn slots_of_a_stranger_keep_a_cluster_from_being_set_up(#[case] seconds: u64, #[case] expected: &str) {
    let scene = introduced(3, 0).with(|scene| {
        let mut known = scene.report(1, 0).view.known[0].clone();
        (known.id, known.slots) = (id(9, 9), slots("0-16383"));
        scene.report(1, 0).view.known.push(known);
        scene.miss(id(9, 9), seconds);
    });
    assert!(said(&scene).starts_with(expected), "{}", said(&scene));
    let other = scene.with(|scene| scene.lines(id(9, 9), |line| line.slots = slots("7-16383")));
    assert_eq!(said(&other), "AdoptionRequired");
}

#[test]
fn clients_may_be_faster_than_the_record_of_a_bootstrap() {
    let scene = Scene::settled(3, 0).with(|scene| scene.bootstrapped = false);
    assert_eq!(said(&scene), "record");
}

#[rstest]
#[case::pods(|scene: &mut Scene| scene.wanted = shape(5, 1), "grow 5/1")]
#[case::replicas(|scene: &mut Scene| scene.wanted = shape(3, 2), "grow 3/2")]
#[case::more_of_one_and_less_of_the_other(|scene: &mut Scene| scene.wanted = shape(5, 0), "grow 5/1")]
#[case::a_new_node(|scene: &mut Scene| { scene.renew(2, 1); }, "epochs 2/1=10")]
#[case::a_stranger(|scene: &mut Scene| { scene.renew(2, 1); scene.report(2, 1).current_epoch = 10 }, "meet 0/0>2/1")]
#[case::two_who_do_not_know_each_other(|scene: &mut Scene| scene.report(1, 1).view.known.retain(|known| known.id != id(2, 1)), "meet 0/0>")]
#[case::one_with_data(|scene: &mut Scene| { scene.renew(2, 1); scene.report(2, 1).keys = 4 }, "ForeignData")]
#[case::one_with_others_of_its_own(|scene: &mut Scene| {
    let mut other = scene.own(1, 0).clone();
    (other.id, other.flags.myself) = (id(9, 9), false);
    scene.renew(2, 1);
    scene.report(2, 1).view.known.push(other);
}, "ForeignData")]
#[case::two_with_one_id(|scene: &mut Scene| scene.own(2, 1).id = id(0, 0), "SameId")]
fn pods_join(#[case] change: fn(&mut Scene), #[case] expected: &str) {
    let said = said(&Scene::settled(3, 1).with(change));
    let expected = if expected == "meet 0/0>" {
        "meet 1/1>2/1"
    } else {
        expected
    };
    assert_eq!(said, expected);
}

#[rstest]
#[case::a_new_node(|scene: &mut Scene| { scene.renew(1, 1); scene.introduce(1, 1) }, "replicate 1/1>1/0")]
#[case::one_that_follows_another_shard(|scene: &mut Scene| scene.lines(id(1, 1), |line| line.primary = Some(id(0, 0))), "replicate 1/1>1/0")]
#[case::one_with_keys_of_its_own(|scene: &mut Scene| { scene.renew(1, 1); scene.introduce(1, 1); scene.report(1, 1).keys = 3 }, "StrayKeys")]
#[case::not_while_its_shard_is_silent(|scene: &mut Scene| {
    scene.renew(1, 1);
    scene.introduce(1, 1);
    scene.say(1, 2, State::Silent);
}, "wait for copy 2 of shard 1 to answer, before")]
fn copies_follow_the_primary_of_their_shard(#[case] change: fn(&mut Scene), #[case] expected: &str) {
    let said = said(&Scene::settled(3, 2).with(change));
    assert!(said.starts_with(expected), "{said}");
}

/// Its primary never had a slot, and came back as another node.
#[rstest]
#[case::with_keys(3, "wait for the former primary of copy 1 of shard 2")]
#[case::without(0, "replicate 2/1>2/0")]
fn a_replica_that_may_have_the_last_copy_is_not_emptied(#[case] keys: u64, #[case] expected: &str) {
    let scene = Scene::settled(3, 1).with(|scene| {
        scene.give(id(0, 0), &slots("10923-16383"));
        scene.renew(2, 0);
        scene.introduce(2, 0);
        scene.report(2, 1).keys = keys;
    });
    assert!(said(&scene).starts_with(expected), "{}", said(&scene));
}

#[rstest]
#[case::nobody_has_heard_of_it(|_: &mut Scene| (), "forget 6")]
#[case::somebody_has(|scene: &mut Scene| scene.miss(id(7, 0), 10), "wait for all to miss")]
#[case::somebody_follows_it(|scene: &mut Scene| scene.lines(id(1, 1), |line| line.primary = Some(id(7, 0))), "replicate 1/1>1/0")]
#[case::somebody_gives_it_slots(|scene: &mut Scene| scene.report(1, 1).view.known[5].slots = slots("1"), "wait for all to miss")]
#[case::a_pod_is_silent(|scene: &mut Scene| scene.say(1, 1, State::Silent), "wait for copy 1 of shard 1 to answer: it may be")]
#[case::a_pod_is_gone(|scene: &mut Scene| scene.say(1, 1, State::Absent), "wait for copy 1 of shard 1 to answer: it may be")]
fn an_id_is_forgotten_only_if_it_is_nobody_s(#[case] change: fn(&mut Scene), #[case] expected: &str) {
    let scene = Scene::settled(3, 1).with(|scene| {
        for place in shape(3, 1).places() {
            let mut ghost = scene.report(place.shard, place.copy).view.known[0].clone();
            (ghost.id, ghost.slots, ghost.config_epoch) = (id(7, 0), Slots::none(), 0);
            scene.report(place.shard, place.copy).view.known.push(ghost);
        }
        scene.miss(id(7, 0), 11);
    });
    let scene = scene.with(change);
    assert!(said(&scene).starts_with(expected), "{}", said(&scene));
}

#[rstest]
#[case::all_of_it("5462-10922", "hot 0/0>1/0 rebalance 0-5460")]
#[case::a_few("5462-5465", "hot 0/0>1/0 rebalance 0-3")]
fn slots_go_from_whoever_has_too_many_to_whoever_has_too_few(#[case] moved: &str, #[case] expected: &str) {
    let mut scene = Scene::settled(3, 0).with(|scene| scene.give(id(0, 0), &slots(moved)));
    assert_eq!(said(&scene), expected);
    scene.report(1, 0).cluster_state_ok = false;
    assert!(
        said(&scene).starts_with("wait for copy 0 of shard 1 to serve"),
        "{}",
        said(&scene)
    );
}

#[test]
fn one_slot_more_stays_with_whoever_has_it() {
    let scene = Scene::settled(3, 0).with(|scene| scene.give(id(2, 0), &slots("0")));
    assert_eq!(said(&scene), "settled");
}

#[test]
fn slots_of_two_nodes_of_one_shard_are_brought_together() {
    let scene = Scene::settled(3, 1).with(|scene| {
        scene.lines(id(1, 1), |line| {
            (line.flags, line.primary) = (
                Flags {
                    primary: true,
                    myself: line.flags.myself,
                    ..Flags::default()
                },
                None,
            );
        });
        scene.give(id(1, 1), &slots("6000-6100"));
    });
    assert_eq!(said(&scene), "hot 1/1>1/0 drain 6000-6100");
}

#[rstest]
#[case::a_pod(|scene: &mut Scene| scene.say(1, 1, State::Silent), "wait for copy 1 of shard 1 to answer")]
#[case::a_pod_that_is_not_listed(|scene: &mut Scene| scene.members.retain(|member| member.place != place(1, 1)), "wait for copy 1 of shard 1")]
#[case::agreement(|scene: &mut Scene| scene.report(1, 1).view.known[0].slots = slots("1"), "wait for copy 1 of shard 1 to know who owns")]
#[case::data(|scene: &mut Scene| scene.report(1, 1).primary_link_up = false, "wait for copy 1 of shard 1 to have the data")]
#[case::service(|scene: &mut Scene| scene.report(2, 0).cluster_state_ok = false, "wait for copy 0 of shard 2 to serve")]
#[case::a_role(|scene: &mut Scene| scene.report(2, 0).role = Role::Replica, "wait for copy 0 of shard 2 to be either")]
fn nothing_is_settled_before_all_are_well(#[case] change: fn(&mut Scene), #[case] expected: &str) {
    let said = said(&Scene::settled(3, 1).with(change));
    assert!(said.starts_with(expected), "{said}");
}

#[test]
fn people_are_told_what_is_done_and_why() {
    let blocked = Step::Degraded(Trouble::ScaleInBlocked {
        needed: 5,
        available: 4,
    });
    assert_eq!(
        blocked.to_string(),
        "5 bytes are to go to shards that have room for 4"
    );
    let lost = Trouble::ShardLost {
        shard: Some(1),
        id: id(1, 0),
        slots: slots("1-2"),
    };
    let expected = format!(
        "the node {} of shard 1 is lost with all data of the slots 1-2",
        id(1, 0)
    );
    assert_eq!(lost.to_string(), expected);
    let drain = next(&Scene::settled(4, 0).with(|scene| scene.wanted.shards = 3)).to_string();
    assert_eq!(
        drain,
        "1366 slots go to copy 0 of shard 0 from copy 0 of shard 3, which is to go"
    );
}
