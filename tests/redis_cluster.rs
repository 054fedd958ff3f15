//! The protocol of a Redis Cluster, against real Redis.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "support/redis_load.rs"]
mod load;
#[path = "support/redis_nodes.rs"]
#[allow(dead_code, reason = "each test uses what it needs of this")]
mod nodes;

use std::sync::Arc;
use std::time::Duration;

use load::{Client, Ledger, Load};
use nodes::{Faulty, Ground, NODE_TIMEOUT};
use roadstead::controllers::redis_cluster::client::RedisClient;
use roadstead::controllers::redis_cluster::topology::scene::{Node, Place, Role, Shape, State};
use roadstead::controllers::redis_cluster::topology::step::{FailOver, Step, Trouble};
use tokio::time::{Instant, sleep, timeout};

const SOON: Duration = Duration::from_secs(60);

fn shape(shards: u16, replicas_per_shard: u8) -> Shape {
    Shape {
        shards,
        replicas_per_shard,
    }
}

async fn assert_all_there(ground: &Ground, keys: u64) {
    let seed = ground.addresses()[0];
    let mut client = Client::new(ground.client.clone(), seed);
    for number in 0..keys {
        assert_eq!(
            client.get(&format!("k{number}")).await,
            Ok(Some(number)),
            "k{number}"
        );
    }
}

/// That a cluster of this shape is there, and the way to its nodes.
async fn created(wanted: Shape) -> (Ground, Arc<RedisClient>) {
    let mut ground = Ground::new(wanted);
    let wire = ground.client.clone();
    ground.settle(&*wire, SOON).await;
    (ground, wire)
}

/// Whether all that was acknowledged is there, but for so many keys of those that replicas had not got yet.
async fn assert_kept(ground: &Ground, ledgers: Vec<Ledger>, admitted: usize) {
    let mut client = Client::new(ground.client.clone(), ground.addresses()[0]);
    let (mut lost, mut keys) = (Vec::new(), 0);
    for ledger in ledgers {
        for (key, entry) in ledger.keys {
            keys += 1;
            let found = client.get(&key).await.unwrap();
            if !entry.allows(found) {
                lost.push(format!("{key} is {found:?}"));
            }
        }
    }
    println!("figure redis.lost {} of {keys} keys", lost.len());
    assert!(lost.len() <= admitted, "{} of {keys}: {lost:#?}", lost.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn it_grows_and_shrinks_while_clients_write_and_nothing_is_lost() {
    let keys = std::env::var("REDIS_KEYS").ok();
    let keys = keys.and_then(|keys| keys.parse().ok()).unwrap_or(20_000);
    let (mut ground, wire) = created(shape(3, 0)).await;
    load::fill(&wire, ground.addresses()[0], keys).await;
    let load = Load::start(&ground.client, ground.addresses()[0], 4, 2_000);
    let before = load.rate(Duration::from_secs(3)).await;
    for shards in [5, 3] {
        ground.wanted = shape(shards, 0);
        let (count, begun) = (load.count(), Instant::now());
        let done = ground.settle(&*wire, 4 * SOON).await;
        let ratio = load.since(count, begun) / before;
        let took = begun.elapsed().as_secs_f64();
        println!(
            "{done:#?}\nfigure redis.to_{shards}_shards {took:.1} s\nfigure redis.throughput {ratio:.2} ratio"
        );
    }
    let ledgers = load.end().await;
    for ledger in &ledgers {
        assert_eq!((&ledger.errors, &ledger.wrong), (&vec![], &vec![]));
    }
    assert_kept(&ground, ledgers, 0).await;
    assert_all_there(&ground, keys).await;
}

/// Each turn ends at some moment or other, and commands and answers are lost.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_changes_it_may_be_killed_at_any_moment_and_the_next_one_goes_on() {
    let seed = std::env::var("REDIS_SEED").ok();
    let seed = seed.and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let (mut ground, wire) = created(shape(3, 0)).await;
    let faulty = Faulty::new(&wire, seed);
    let load = Load::start(&ground.client, ground.addresses()[0], 2, 2_000);
    for shards in [5, 3, 4, 3] {
        ground.wanted = shape(shards, 0);
        for _ in 0..25 {
            let moment = Duration::from_millis(20 + faulty.below(400));
            let _ = timeout(moment, ground.step(&faulty)).await;
        }
    }
    ground.settle(&*wire, 2 * SOON).await;
    let ledgers = load.end().await;
    for ledger in &ledgers {
        assert_eq!(ledger.wrong, [""; 0]);
    }
    assert_kept(&ground, ledgers, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_is_killed_is_replaced_by_its_replica_and_comes_back_as_one_elsewhere() {
    let (mut ground, wire) = created(shape(3, 1)).await;
    let load = Load::start(&ground.client, ground.addresses()[0], 2, 2_000);
    load.rate(Duration::from_secs(2)).await;
    let primary = Place { shard: 1, copy: 0 };
    ground.kill(primary);
    let killed = Instant::now();
    let scene_is_served = async |ground: &Ground| {
        let scene = ground.scene(&*wire).await;
        let of = |copy| {
            scene
                .members
                .iter()
                .find(|it| it.place == Place { shard: 1, copy })
        };
        matches!(of(1).map(|it| &it.state), Some(State::Answered(report)) if report.role == Role::Primary && report.cluster_state_ok)
    };
    while !scene_is_served(&ground).await {
        assert!(
            killed.elapsed() < NODE_TIMEOUT + Duration::from_secs(4),
            "nobody took over"
        );
        sleep(Duration::from_millis(50)).await;
    }
    println!(
        "figure redis.primary_replaced {:.1} s",
        killed.elapsed().as_secs_f64()
    );
    ground.start(primary);
    ground.settle(&*wire, SOON).await;
    let ledgers = load.end().await;
    // What clients were told in the moment before, and the replica was not
    assert_kept(&ground, ledgers, 20).await;
    let scene = ground.scene(&*wire).await;
    let back = scene.members.iter().find(|it| it.place == primary).unwrap();
    assert!(
        matches!(&back.state, State::Answered(report) if report.role == Role::Replica && report.primary_link_up)
    );
}

/// Nobody has an address that another one knows.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_of_which_every_node_has_another_address_finds_together_again() {
    let (mut ground, wire) = created(shape(3, 1)).await;
    load::fill(&wire, ground.addresses()[0], 2_000).await;
    // As they sync their files
    sleep(Duration::from_secs(2)).await;
    let places = ground.running();
    places.iter().for_each(|place| ground.kill(*place));
    places.iter().for_each(|place| ground.start(*place));
    let begun = Instant::now();
    ground.settle(&*wire, SOON).await;
    println!(
        "figure redis.all_restarted {:.1} s",
        begun.elapsed().as_secs_f64()
    );
    assert_all_there(&ground, 2_000).await;
}

/// The new owner of a slot has replicas, which have to know of it, and what leaves is in part a replica.
#[tokio::test(flavor = "multi_thread")]
async fn shards_with_replicas_come_and_go_and_replicas_go_although_one_of_them_leads() {
    let (mut ground, wire) = created(shape(3, 1)).await;
    let load = Load::start(&ground.client, ground.addresses()[0], 2, 2_000);
    for shards in [4, 3] {
        ground.wanted = shape(shards, 1);
        ground.settle(&*wire, 2 * SOON).await;
    }
    // Another copy leads one shard when replicas are to go
    let leads = Place { shard: 0, copy: 1 };
    let scene = ground.scene(&*wire).await;
    let node = |place: Place| {
        let member = scene.members.iter().find(|it| it.place == place).unwrap();
        let State::Answered(report) = &member.state else {
            panic!("{place} is silent");
        };
        let (id, ip) = (report.view.myself.id, member.ip.unwrap());
        Node { place, id, ip }
    };
    let over = Step::FailOver {
        replica: node(leads),
        primary: node(Place { shard: 0, copy: 0 }).id,
        how: FailOver::Planned,
        why: "a test".to_owned(),
    };
    ground.carry_out(&over, &*wire).await.unwrap();
    ground.wanted = shape(3, 0);
    ground.settle(&*wire, SOON).await;
    assert_eq!(ground.running().len(), 3);
    let ledgers = load.end().await;
    for ledger in &ledgers {
        assert_eq!(ledger.wrong, [""; 0]);
    }
    assert_kept(&ground, ledgers, 0).await;
}

/// It would be asked for its slots as their owner, and have none of their keys.
#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_comes_back_empty_follows_the_replica_that_has_its_keys() {
    let (mut ground, wire) = created(shape(3, 1)).await;
    load::fill(&wire, ground.addresses()[0], 2_000).await;
    sleep(Duration::from_secs(1)).await;
    let primary = Place { shard: 2, copy: 0 };
    ground.kill(primary);
    ground.lose_volume(primary);
    ground.start(primary);
    ground.settle(&*wire, SOON).await;
    assert_all_there(&ground, 2_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_that_is_lost_with_all_copies_stays_lost_until_somebody_allows_it() {
    let (mut ground, wire) = created(shape(3, 0)).await;
    load::fill(&wire, ground.addresses()[0], 2_000).await;
    let lost = Place { shard: 1, copy: 0 };
    ground.kill(lost);
    ground.lose_volume(lost);
    ground.start(lost);
    let is_told = |step: &Step| matches!(step, Step::Degraded(Trouble::ShardLost { .. }));
    ground.until(&*wire, is_told, SOON).await;
    for _ in 0..10 {
        let (step, _) = ground.step(&*wire).await;
        assert!(is_told(&step), "{step}");
    }
    ground.allow_data_loss = true;
    ground.settle(&*wire, SOON).await;
    let mut client = Client::new(ground.client.clone(), ground.addresses()[0]);
    let mut there = 0;
    for number in 0..2_000 {
        let found = client.get(&format!("k{number}")).await.unwrap();
        there += usize::from(found == Some(number));
    }
    assert!(
        (1_100..1_500).contains(&there),
        "{there}: those of the other two shards"
    );
}
