//! What a cluster goes through, from the beginning to the end.

use std::collections::BTreeMap;

use rstest::rstest;

use super::super::scene::{Place, Shape};
use super::super::slots::{Slot, Slots};
use super::super::step::{Step, Trouble, next};
use super::drive::Budget;
use super::{World, slot, slot_of};

fn place(shard: u16, copy: u8) -> Place {
    Place { shard, copy }
}

impl World {
    fn want(&mut self, shards: u16, replicas_per_shard: u8) {
        self.wanted = Shape {
            shards,
            replicas_per_shard,
        };
    }

    /// Until such a step was taken; fails if it never is.
    fn until(&mut self, is_it: impl Fn(&Step) -> bool) {
        for _ in 0..300 {
            if is_it(&self.reconcile(Budget::ENDLESS)) {
                return;
            }
        }
        self.fail("it does not come to that");
    }

    /// Slots are another's from now on, with all their keys, and everybody knows.
    fn hand_over(&mut self, slots: &Slots, from: Place, to: Place) {
        let id = self.servers[&to].id;
        for server in self.servers.values_mut() {
            server.owners.give(slots, id);
        }
        let all = std::mem::take(&mut self.server(from).data).into_iter();
        let (handed_over, kept): (BTreeMap<_, _>, _) =
            all.partition(|(key, _)| slots.contains(slot_of(*key)));
        self.server(from).data = kept;
        self.server(to).data.extend(handed_over);
        for place in [from, to] {
            self.server(place).offset += 1;
        }
        self.replicate();
    }
}

#[rstest]
#[case::one_shard(1, 0)]
#[case::one_shard_with_a_replica(1, 1)]
#[case::three(3, 0)]
#[case::three_with_replicas(3, 2)]
#[case::five(5, 1)]
fn a_new_cluster_gets_even_shares_and_replicas(#[case] shards: u16, #[case] replicas: u8) {
    let mut world = World::settled(1, shards, replicas);
    assert!(world.bootstrapped && !world.acknowledged.is_empty());
    world.assert_sound();
    assert!(world.at_risk.is_empty() && world.lost().is_empty());
}

/// The operator falls after each single command, again and again.
#[test]
fn a_bootstrap_that_is_interrupted_after_each_command_goes_on() {
    let mut world = World::new(2, 3, 1);
    world.has_clients = false;
    for _ in 0..200 {
        world.reconcile(Budget::of(1));
    }
    assert_eq!(next(&world.observe()), Step::Settled);
    world.assert_sound();
}

#[test]
fn a_bootstrap_whose_size_is_changed_half_way_goes_on() {
    let mut world = World::new(3, 3, 0);
    world.until(|step| matches!(step, Step::Meet(_)));
    world.until(|step| !matches!(step, Step::Wait(_)));
    let counts: Vec<usize> = world
        .servers
        .values()
        .map(|server| server.count_owned(server.id))
        .collect();
    assert!(
        counts.iter().sum::<usize>() > 0,
        "slots are being assigned: {counts:?}"
    );
    world.bootstrapped = false;
    world.at_mut(2, 0).owners = Default::default();
    world.want(5, 0);
    world.settle(200);
    world.assert_sound();
}

#[rstest]
#[case::without_replicas(0)]
#[case::with_replicas(1)]
fn three_shards_become_five_and_three_again_while_clients_write_and_no_key_is_lost(#[case] replicas: u8) {
    let mut world = World::settled(4, 3, replicas);
    world.want(5, replicas);
    world.settle(300);
    world.assert_sound();
    world.want(3, replicas);
    world.settle(300);
    world.assert_sound();
    assert!(world.at_risk.is_empty() && world.lost().is_empty());
}

#[test]
fn a_cluster_of_one_shard_becomes_one_of_three_and_of_one_again() {
    let mut world = World::settled(5, 1, 1);
    for shards in [3, 1] {
        world.want(shards, 1);
        world.settle(400);
        world.assert_sound();
    }
    assert!(world.lost().is_empty());
}

#[test]
fn slots_come_back_to_a_shard_that_is_wanted_again_in_the_midst_of_its_drain() {
    let mut world = World::settled(6, 5, 1);
    world.want(3, 1);
    world.until(|step| matches!(step, Step::Move(_)));
    world.until(|step| matches!(step, Step::Move(_)));
    world.reconcile(Budget::of(500));
    world.want(5, 1);
    world.settle(300);
    world.assert_sound();
    assert!(world.lost().is_empty());
}

/// Nodes are reset, forgotten and replaced one command at a time.
#[test]
fn a_shard_that_comes_and_goes_does_so_though_the_operator_falls_after_each_command() {
    let mut world = World::settled(22, 3, 1);
    for shards in [4, 3] {
        world.want(shards, 1);
        for _ in 0..200 {
            world.reconcile_with(|step| match step {
                Step::Move(_) => Budget::ENDLESS,
                _ => Budget::of(1),
            });
        }
        world.settle(1);
        world.assert_sound();
    }
    assert!(world.lost().is_empty());
}

/// Some of it has left already, and joins as another node.
#[test]
fn a_shard_that_has_left_joins_again_when_it_is_wanted_again() {
    let mut world = World::settled(7, 4, 1);
    world.want(3, 1);
    world.until(|step| matches!(step, Step::Reset { .. }));
    world.want(4, 1);
    world.settle(300);
    world.assert_sound();
}

#[test]
fn pods_that_were_added_and_never_joined_are_taken_away_again() {
    let mut world = World::settled(8, 3, 0);
    world.want(6, 0);
    world.until(|step| matches!(step, Step::Grow { .. }));
    for shard in 3..6 {
        world.kill(place(shard, 0), true, 10_000_000);
    }
    world.want(3, 0);
    world.settle(50);
    world.assert_sound();
}

#[rstest]
#[case::more(1, 2)]
#[case::fewer(2, 0)]
fn the_number_of_replicas_can_change(#[case] before: u8, #[case] after: u8) {
    let mut world = World::settled(9, 3, before);
    // A copy that is to go is the primary of its shard.
    world.kill(place(1, 0), false, 30_000);
    world.settle(100);
    assert!(!world.at(1, 0).is_primary());
    world.want(3, after);
    world.settle(200);
    world.assert_sound();
}

#[rstest]
#[case::without_replicas(0)]
#[case::with_replicas(1)]
fn a_cluster_comes_back_after_all_its_pods_got_other_addresses_at_once(#[case] replicas: u8) {
    let mut world = World::settled(10, 3, replicas);
    world.has_clients = false;
    for place in world.present.places() {
        world.kill(place, true, 10_000);
    }
    world.settle(100);
    world.assert_sound();
}

#[rstest]
#[case::its_volume_is_kept(false)]
#[case::its_volume_is_lost(true)]
fn a_primary_that_fails_is_replaced_by_its_replica_and_follows_it(#[case] is_lost: bool) {
    let mut world = World::settled(11, 3, 1);
    if is_lost {
        world.destroy(place(1, 0), 3_000);
    } else {
        world.kill(place(1, 0), false, 30_000);
    }
    world.settle(100);
    world.assert_sound();
    assert!(world.at(1, 1).is_primary() && !world.at(1, 0).is_primary());
    assert!(world.lost().is_empty(), "all was replicated");
}

/// Most primaries go at once, so that no replica is elected.
#[test]
fn replicas_take_over_without_votes_where_most_primaries_are_gone_for_good() {
    let mut world = World::settled(12, 3, 1);
    world.has_clients = false;
    for shard in 0..2 {
        world.destroy(place(shard, 0), 1_000);
    }
    world.settle(100);
    world.assert_sound();
    assert!(world.lost().is_empty());
    assert!(world.at(0, 1).is_primary() && world.at(1, 1).is_primary());
}

#[test]
fn the_replica_of_the_only_shard_takes_over_once_the_volume_of_its_primary_is_lost_and_not_before() {
    let mut world = World::settled(13, 1, 1);
    world.kill(place(0, 0), false, 60_000);
    for _ in 0..55 {
        assert!(matches!(world.reconcile(Budget::ENDLESS), Step::Wait(_)));
    }
    world.settle(50);
    assert!(world.at(0, 0).is_primary());
    world.destroy(place(0, 0), 1_000);
    world.settle(100);
    world.assert_sound();
    assert!(world.at(0, 1).is_primary() && world.lost().is_empty());
}

#[test]
fn a_shard_that_is_lost_stays_so_until_that_is_allowed() {
    let mut world = World::settled(14, 3, 0);
    world.destroy(place(1, 0), 5_000);
    for _ in 0..40 {
        let step = world.reconcile(Budget::ENDLESS);
        assert!(!matches!(
            step,
            Step::Assign(_) | Step::AssignLost(_) | Step::GiveUp { .. } | Step::Forget(_)
        ));
    }
    let step = next(&world.observe());
    assert!(
        matches!(step, Step::Degraded(Trouble::ShardLost { .. })),
        "{step:?}"
    );
    world.allow_data_loss = true;
    world.settle(100);
    world.assert_sound();
    let lost = world.lost();
    assert!(
        !lost.is_empty() && lost.len() < world.acknowledged.len() / 2,
        "one shard of three: {}",
        lost.len()
    );
}

#[test]
fn a_shard_whose_pod_comes_back_with_its_volume_is_waited_for_even_if_data_may_be_lost() {
    let mut world = World::settled(15, 3, 0);
    world.allow_data_loss = true;
    world.kill(place(1, 0), true, 60_000);
    for _ in 0..50 {
        assert!(matches!(world.reconcile(Budget::ENDLESS), Step::Wait(_)));
    }
    world.settle(50);
    world.assert_sound();
    assert!(world.lost().is_empty());
}

#[test]
fn a_cluster_that_is_lost_as_a_whole_begins_anew_only_if_that_is_allowed() {
    let mut world = World::settled(16, 3, 1);
    for place in world.present.places() {
        world.destroy(place, 1_000);
    }
    for _ in 0..30 {
        world.reconcile(Budget::ENDLESS);
    }
    let step = next(&world.observe());
    assert!(
        matches!(step, Step::Degraded(Trouble::SlotsUncovered { .. })),
        "{step:?}"
    );
    world.allow_data_loss = true;
    world.settle(100);
    world.assert_sound();
}

/// What happens to whom in the midst of a move.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Nothing,
    Restart(Place),
    FailsOver(Place),
    BothFailOver,
}

/// Four shards, of which the last one is still to get these slots of the first one; each has keys. They are few, as each goes through all of it.
fn nearly_rebalanced(replicas: u8) -> (World, Slots) {
    let (first, last) = (place(0, 0), place(3, 0));
    let mut world = World::settled(17, 4, replicas);
    let with_keys: Slots = world.at(0, 0).data.keys().map(|key| slot_of(*key)).collect();
    let moving = with_keys.lowest(4);
    // The lowest slots move, so that those between have to be elsewhere.
    let to_highest = Slots::range(slot(0), moving.iter().last().unwrap());
    let between = to_highest.difference(&moving);
    let instead = world.at(3, 0).owned().lowest(to_highest.len());
    world.hand_over(&between, first, last);
    world.hand_over(&instead, last, first);
    (world, moving)
}

/// For a replica to be elected, in ms.
const LONG_ENOUGH: u64 = 12_000;

/// Each command of the first slots that move is the last one of the operator, and then somebody falls.
#[rstest]
#[case::nothing_else(1, Fault::Nothing)]
#[case::the_giver_restarts(0, Fault::Restart(place(0, 0)))]
#[case::the_taker_restarts(0, Fault::Restart(place(3, 0)))]
#[case::the_giver_fails_over(1, Fault::FailsOver(place(0, 0)))]
#[case::the_taker_fails_over(1, Fault::FailsOver(place(3, 0)))]
#[case::both_fail_over(1, Fault::BothFailOver)]
fn a_move_that_is_interrupted_after_any_command_comes_to_its_end(#[case] replicas: u8, #[case] fault: Fault) {
    let (start, moving) = nearly_rebalanced(replicas);
    let mut gone = Vec::new();
    for commands in 0..25 {
        let mut world = start.clone();
        let step = world.reconcile(Budget::of(commands));
        assert!(
            matches!(&step, Step::Move(plan) if plan.slots == moving),
            "{step:?}"
        );
        gone.push(moving.intersection(world.at(3, 0).owned()).len());
        match fault {
            Fault::Nothing => (),
            Fault::Restart(place) => world.kill(place, false, 2_000),
            Fault::FailsOver(place) => world.kill(place, true, LONG_ENOUGH),
            Fault::BothFailOver => {
                world.kill(place(0, 0), true, LONG_ENOUGH);
                world.kill(place(3, 0), true, LONG_ENOUGH);
            }
        }
        world.settle(200);
        if let Fault::FailsOver(place) = fault {
            assert!(!world.servers[&place].is_primary(), "its replica took over");
        }
        world.assert_sound();
        assert!(
            world.lost().len() <= 2,
            "after {commands} commands: {:?} of {:?}",
            world.lost(),
            world.at_risk
        );
    }
    assert!(
        gone.starts_with(&[0]) && gone.ends_with(&[2]),
        "all of two slots: {gone:?}"
    );
}

/// SETSLOT NODE reached the new owner alone, and the former one still has keys: what a careless operator, or redis-cli, leaves behind.
#[test]
fn keys_that_were_left_with_a_former_owner_go_to_the_present_one_which_is_right_about_those_it_has() {
    let mut world = World::settled(18, 3, 0);
    world.has_clients = false;
    let (keys, slot): (Vec<u16>, Slot) = {
        let first = world.at(0, 0);
        let slot = first
            .data
            .keys()
            .map(|key| slot_of(*key))
            .find(|slot| first.keys_in(*slot).len() > 1);
        (first.keys_in(slot.unwrap()), slot.unwrap())
    };
    let (old, new) = (world.at(0, 0).id, world.at(1, 0).id);
    world.at_mut(1, 0).data.insert(keys[0], 7);
    world.acknowledged.insert(keys[0], 7);
    for server in world.servers.values_mut() {
        server.owners.give_one(slot, new);
    }
    world.at_mut(1, 0).config_epoch = 50;
    world.at_mut(1, 0).current_epoch = 50;
    world.at_mut(0, 0).migrating.insert(slot, new);
    assert!(world.at(1, 0).id != old);
    world.settle(100);
    world.assert_sound();
    assert!(world.lost().is_empty());
}

#[test]
fn a_restarted_node_that_has_keys_of_a_slot_of_another_gives_them_up() {
    let mut world = World::settled(19, 3, 0);
    world.has_clients = false;
    let (key, value) = world
        .at(0, 0)
        .data
        .iter()
        .next()
        .map(|(key, value)| (*key, *value))
        .unwrap();
    world.at_mut(1, 0).data.insert(key, value + 1);
    world.kill(place(1, 0), false, 1_000);
    world.settle(100);
    world.assert_sound();
    assert!(world.lost().is_empty(), "the owner's copy is the right one");
}

#[test]
fn shards_do_not_go_while_what_they_hold_does_not_fit_elsewhere() {
    let mut world = World::settled(20, 5, 0);
    for server in world.servers.values_mut() {
        server.maxmemory = Some(1_000 * server.data.len() as u64 + 10_000);
    }
    world.has_clients = false;
    world.want(3, 0);
    let step = world.reconcile(Budget::ENDLESS);
    assert!(
        matches!(step, Step::Degraded(Trouble::ScaleInBlocked { .. })),
        "{step:?}"
    );
    world
        .servers
        .values_mut()
        .for_each(|server| server.maxmemory = Some(10_000_000));
    world.settle(100);
    world.assert_sound();
}

#[test]
fn a_cluster_that_others_set_up_is_not_touched() {
    let mut world = World::settled(21, 3, 1);
    world.want(4, 1);
    world.settle(100);
    world.bootstrapped = false;
    // Its shares are no more those of a new cluster.
    let changes = world.changes;
    let step = world.reconcile(Budget::ENDLESS);
    assert!(
        matches!(step, Step::Degraded(Trouble::AdoptionRequired { .. })),
        "{step:?}"
    );
    assert_eq!(world.changes, changes);
}
