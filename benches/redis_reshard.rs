//! How fast slots go over, beside `redis-cli --cluster reshard` in one run: the same number of slots with the same keys, to an empty shard of a cluster of real Redis.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a benchmark fails by panicking")]

#[path = "../tests/support/redis_load.rs"]
#[allow(dead_code, reason = "the tests use the rest of it")]
mod load;
#[path = "../tests/support/redis_nodes.rs"]
#[allow(dead_code, reason = "the tests use the rest of it")]
mod nodes;

use std::process::{Command, Stdio};
use std::time::Duration;

use nodes::{Ground, PASSWORD};
use roadstead::controllers::redis_cluster::topology::scene::{Shape, State};
use roadstead::controllers::redis_cluster::topology::step::Step;
use tokio::time::Instant;

const KEYS: u64 = 200_000;
/// As many as four shards have each, one of which had none.
const SLOTS: u16 = 4096;
const RUNS: usize = 3;
const SOON: Duration = Duration::from_secs(120);

/// Three shards with keys, and a fourth without slots.
async fn grown() -> Ground {
    let shape = |shards| Shape {
        shards,
        replicas_per_shard: 0,
    };
    let mut ground = Ground::new(shape(3));
    let wire = ground.client.clone();
    ground.settle(&*wire, SOON).await;
    let seed = ground.addresses()[0];
    load::fill(&wire, seed, KEYS).await;
    ground.wanted = shape(4);
    let end = Instant::now() + SOON;
    loop {
        let step = ground.next(&*wire).await;
        if matches!(step, Step::Move(_)) {
            return ground;
        }
        ground.carry_out(&step, &*wire).await.unwrap();
        assert!(Instant::now() < end, "not grown: {step}");
    }
}

async fn ours() -> Duration {
    let mut ground = grown().await;
    let (wire, begun) = (ground.client.clone(), Instant::now());
    while ground.next(&*wire).await != Step::Settled {
        ground.step(&*wire).await.1.unwrap();
    }
    begun.elapsed()
}

async fn theirs() -> Duration {
    let ground = grown().await;
    let scene = ground.scene(&*ground.client).await;
    let fourth = scene.members.iter().find(|it| it.place.shard == 3).unwrap();
    let State::Answered(report) = &fourth.state else {
        panic!("the fourth shard is silent");
    };
    let address = format!("{}:{}", ground.addresses()[0], ground.port());
    let (id, slots) = (report.view.myself.id.to_string(), SLOTS.to_string());
    let begun = Instant::now();
    let resharded = Command::new("redis-cli")
        .args([
            "-a",
            PASSWORD,
            "--no-auth-warning",
            "--cluster",
            "reshard",
            &address,
        ])
        .args([
            "--cluster-from",
            "all",
            "--cluster-to",
            &id,
            "--cluster-slots",
            &slots,
            "--cluster-yes",
        ])
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(resharded.success());
    begun.elapsed()
}

fn main() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut ratios = Vec::new();
    for run in 1..=RUNS {
        let (ours, theirs) = runtime.block_on(async { (ours().await, theirs().await) });
        let ratio = theirs.as_secs_f64() / ours.as_secs_f64();
        println!(
            "run {run}: {SLOTS} slots of {KEYS} keys in all: {:.2} s, redis-cli {:.2} s, {ratio:.2} times as fast",
            ours.as_secs_f64(),
            theirs.as_secs_f64()
        );
        ratios.push(ratio);
    }
    ratios.sort_by(f64::total_cmp);
    println!(
        "figure redis.reshard_beside_redis_cli {:.2} ratio",
        ratios[RUNS / 2]
    );
}
