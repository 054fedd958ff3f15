use rstest::rstest;

use super::super::scene::{Scene, State};
use super::super::slots::Slots;
use super::super::testing::{id, said, slots};

/// The primary of shard 1 says nothing, and nobody has heard of it for so many seconds.
fn silent(scene: &mut Scene, state: State, seconds: u64) {
    scene.say(1, 0, state);
    scene.miss(id(1, 0), seconds);
}

#[rstest]
#[case::others_hear_of_it(0, "wait for the primary of copy 1 of shard 1")]
#[case::for_less_than_redis_takes(10, "wait for the primary of copy 1 of shard 1")]
#[case::redis_elects(11, "wait for the election of copy 1 of shard 1")]
#[case::redis_elected_nobody(21, "force 1/1")]
fn redis_gets_its_time_to_elect_a_replica(#[case] seconds: u64, #[case] expected: &str) {
    let scene = Scene::settled(3, 1).with(|scene| silent(scene, State::Silent, seconds));
    assert!(said(&scene).starts_with(expected), "{}", said(&scene));
}

#[test]
fn the_replica_that_has_most_takes_over_and_of_equals_the_first() {
    let behind = Scene::settled(3, 2).with(|scene| {
        silent(scene, State::Silent, 60);
        scene.report(1, 1).offset = 99;
    });
    assert_eq!(said(&behind), "force 1/2");
    assert_eq!(
        said(&Scene::settled(3, 2).with(|scene| silent(scene, State::Silent, 60))),
        "force 1/1"
    );
    let started_again = behind.with(|scene| {
        scene.report(1, 1).offset = 0;
        scene.report(1, 2).syncing = true;
    });
    assert_eq!(
        said(&started_again),
        "force 1/1",
        "what it has comes from its files"
    );
}

#[rstest]
#[case::all_are_gone(State::Absent, State::Absent, "takeover 0/1")]
#[case::one_may_know_more(
    State::Absent,
    State::Silent,
    "wait for copy 0 of shard 1 to answer: most primaries"
)]
fn without_most_primaries_a_replica_takes_over_only_if_nobody_is_silent(
    #[case] first: State,
    #[case] second: State,
    #[case] expected: &str,
) {
    let scene = Scene::settled(3, 1).with(|scene| {
        for (shard, state) in [(0, first), (1, second)] {
            scene.say(shard, 0, state);
            scene.miss(id(shard, 0), 60);
        }
    });
    assert!(said(&scene).starts_with(expected), "{}", said(&scene));
}

/// It would take slots that went to another shard from whoever has them by now.
#[rstest]
#[case::a_move_that_they_missed(|scene: &mut Scene| {
    for (shard, missed) in [(0, "0-6000"), (1, "5462-11000")] {
        let mut known = scene.report(shard, 1).view.known.iter_mut();
        known.find(|known| known.id == id(shard, 0)).unwrap().slots = slots(missed);
    }
}, "wait for copy 1 of shard 0 to hear who owns the slots 5462-6000")]
#[case::an_epoch_that_they_missed(|scene: &mut Scene| {
    for shard in [0, 1] {
        scene.report(shard, 1).current_epoch = 8;
    }
}, "wait for copy 1 of shard 0 to hear of the newest epoch")]
fn nobody_takes_over_without_votes_who_may_have_missed_something(
    #[case] missed: fn(&mut Scene),
    #[case] expected: &str,
) {
    let scene = Scene::settled(3, 1).with(|scene| {
        for shard in [0, 1] {
            scene.say(shard, 0, State::Absent);
            scene.miss(id(shard, 0), 60);
        }
    });
    assert_eq!(said(&scene), "takeover 0/1");
    assert_eq!(said(&scene.with(missed)), expected);
}

#[rstest]
#[case::its_pod_may_come_back(State::Silent, "wait for copy 0 of shard 0 to answer")]
#[case::its_pod_is_not_there(State::Absent, "takeover 0/1")]
fn one_shard_has_nobody_to_vote(#[case] state: State, #[case] expected: &str) {
    let scene = Scene::settled(1, 1).with(|scene| {
        scene.say(0, 0, state);
        scene.miss(id(0, 0), 60);
    });
    assert!(said(&scene).starts_with(expected), "{}", said(&scene));
}

#[test]
fn an_emptied_primary_never_becomes_the_primary_of_the_replica_that_has_its_data() {
    let mut scene = Scene::settled(1, 1).with(|scene| {
        scene.renew(0, 0);
        scene.miss(id(0, 0), 3);
    });
    assert!(
        said(&scene).starts_with("wait for the primary of copy 1"),
        "{}",
        said(&scene)
    );
    scene.miss(id(0, 0), 11);
    assert_eq!(said(&scene), "takeover 0/1");
    // And after that.
    let share = Slots::all();
    scene.lines(id(0, 1), |line| {
        (line.flags.primary, line.flags.replica, line.primary) = (true, false, None)
    });
    scene.give(id(0, 1), &share);
    scene.report(0, 0).current_epoch = 3;
    scene.introduce(0, 0);
    assert_eq!(said(&scene), "replicate 0/0>0/1");
}

#[rstest]
#[case::as_long_as_a_pod_may_have_it(|scene: &mut Scene| silent(scene, State::Absent, 60), "wait for copy 0 of shard 1")]
#[case::even_if_data_may_be_lost(|scene: &mut Scene| { silent(scene, State::Absent, 60); scene.allow_data_loss = true }, "wait for copy 0 of shard 1")]
#[case::or_any_other_pod_may(|scene: &mut Scene| {
    scene.renew(1, 0);
    scene.allow_data_loss = true;
    scene.say(2, 0, State::Silent);
}, "wait for copy 0 of shard 2")]
#[case::its_volume_is_lost(|scene: &mut Scene| { scene.renew(1, 0); }, "ShardLost")]
#[case::and_that_is_allowed(|scene: &mut Scene| { scene.renew(1, 0); scene.allow_data_loss = true }, "give up 5462-10922 at 2")]
fn a_shard_without_replicas_is_waited_for(#[case] change: fn(&mut Scene), #[case] expected: &str) {
    let scene = Scene::settled(3, 0).with(change);
    assert!(said(&scene).starts_with(expected), "{}", said(&scene));
}

#[rstest]
#[case::not_allowed(false, "SlotsUncovered")]
#[case::allowed(true, "assign lost 1/0:5462-10922")]
fn slots_of_nobody_are_assigned_only_where_data_may_be_lost(#[case] allowed: bool, #[case] expected: &str) {
    let scene = Scene::settled(3, 0).with(|scene| {
        scene.give(id(8, 8), &slots("5462-10922"));
        scene.allow_data_loss = allowed;
    });
    assert_eq!(said(&scene), expected);
    let silent = scene.with(|scene| scene.say(2, 0, State::Silent));
    assert!(
        said(&silent).starts_with("wait for copy 0 of shard 2"),
        "{}",
        said(&silent)
    );
}

/// The replica was asked before it was elected, and the primary after that.
#[test]
fn slots_that_changed_hands_between_two_questions_are_not_lost() {
    let scene = Scene::settled(3, 1).with(|scene| {
        scene.allow_data_loss = true;
        let share = scene.own(1, 0).slots.clone();
        scene.give(id(1, 1), &share);
        let own = scene.own(1, 0);
        (own.flags.primary, own.flags.replica, own.primary) = (false, true, Some(id(1, 1)));
        scene.lines(id(1, 1), |line| line.config_epoch = 30);
        let own = scene.own(1, 1);
        (own.slots, own.config_epoch) = (Slots::none(), 2);
    });
    assert!(
        said(&scene).starts_with("wait for all to agree"),
        "{}",
        said(&scene)
    );
}

#[test]
fn the_shard_that_can_be_helped_comes_before_one_that_is_waited_for() {
    let scene = Scene::settled(5, 1).with(|scene| {
        for (shard, seconds) in [(1, 5), (2, 60)] {
            scene.say(shard, 0, State::Silent);
            scene.miss(id(shard, 0), seconds);
        }
    });
    assert_eq!(said(&scene), "force 2/1");
}
