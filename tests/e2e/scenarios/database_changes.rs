//! A database that is changed while it is written to: every change arrives at every instance, and nobody waits for long.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::database::{Database, Observed, REPLACED};
use crate::objects::{DATABASE, condition};
use crate::olm;
use crate::outcome::{Outcome, ensure};
use crate::wait::{Seen, until};
use crate::world::World;

/// A planned change keeps nobody from writing for longer.
const PAUSE: Duration = Duration::from_secs(3);
/// So many databases, and what each of them after the first may cost the operator, in KiB.
const MANY: u64 = 10;
const EACH: u64 = 256;
/// Every instance was stopped and started again, one by one.
const ROLLED_OUT: Duration = Duration::from_secs(240);

pub async fn changes_reach_every_instance_with_one_short_pause_each(world: Arc<World>) -> Outcome {
    olm::installed(&world, "0.3.0").await?;
    let database = Database::serving(&world, "changes", json!({})).await?;
    let observed = database.observed().await?;

    let begun = Instant::now();
    let to = database.instances().await?;
    let primary = database.primary().await?;
    let to = to
        .iter()
        .find(|it| it.uid != primary.uid)
        .map(|it| it.name.clone());
    let to = to.unwrap_or_default();
    wish(&database, "roadstead.dev/switch-over-to", &to).await?;
    let now = database.primary_other_than(&primary.uid).await?;
    ensure!(now.name == to, "{to} was asked for, and {} leads", now.name);
    paused(&observed, "switchover", begun).await?;

    let begun = Instant::now();
    let spec = json!({"parameters": {"shared_buffers": "48MB", "max_connections": "60", "work_mem": "5MB"}});
    database.apply(spec.clone()).await?;
    rolled_out(&database).await?;
    for setting in ["shared_buffers 48MB", "max_connections 60", "work_mem 5MB"] {
        everywhere(&database, setting).await?;
    }
    paused(&observed, "parameters", begun).await?;

    let (begun, before) = (Instant::now(), uids(&database).await?);
    let mut whole = spec;
    whole["resources"] = json!({"requests": {"cpu": "20m", "memory": "64Mi"}, "limits": {"memory": "600Mi"}});
    database.apply(whole).await?;
    rolled_out(&database).await?;
    let after = uids(&database).await?;
    ensure!(
        before.iter().all(|uid| !after.contains(uid)),
        "pods were {before:?}, are {after:?}"
    );
    paused(&observed, "pods", begun).await?;
    observed.finish().await
}

pub async fn fewer_instances_and_more_again_cost_nothing_that_was_acknowledged(world: Arc<World>) -> Outcome {
    olm::installed(&world, "0.3.0").await?;
    let database = Database::serving(&world, "scaled", json!({"synchronous": "preferred"})).await?;
    let observed = database.observed().await?;
    // Whoever leads has to go.
    wish(&database, "roadstead.dev/switch-over-to", "orders-2").await?;
    until("orders-2 to lead", REPLACED, || async {
        let primary = database.primary().await?;
        Ok(Seen::equal(&primary.name.as_str(), &"orders-2"))
    })
    .await?;
    database.all_stream().await?;
    for instances in [2, 1, 3] {
        let begun = Instant::now();
        let spec = json!({"synchronous": "preferred", "instances": instances});
        database.apply(spec).await?;
        rolled_out(&database).await?;
        until(format!("{instances} instances"), ROLLED_OUT, || async {
            Ok(Seen::equal(&database.instances().await?.len(), &instances))
        })
        .await?;
        paused(&observed, &format!("to_{instances}"), begun).await?;
    }
    database.all_stream().await?;
    observed.finish().await
}

/// Ten of them, small ones, with one instance each.
pub async fn ten_databases_cost_the_operator_little(world: Arc<World>) -> Outcome {
    olm::installed(&world, "0.3.0").await?;
    let mut sizes = Vec::new();
    for number in 0..MANY {
        let spec = json!({"instances": 1, "synchronous": "preferred"});
        Database::serving(&world, &format!("ten-{number}"), spec).await?;
        sizes.push(world.memory.resident());
    }
    let resident = sizes.last().copied().unwrap_or_default();
    let first = sizes.first().copied().unwrap_or_default();
    let each = resident.saturating_sub(first) / (MANY - 1);
    world.note(format!("resident memory of the operator, in KiB: {sizes:?}"));
    world.figure("database.ten.operator_resident", resident as f64 / 1024.0, "MiB");
    world.figure("database.ten.operator_each", each as f64, "KiB");
    ensure!(resident > 0, "the operator's processes were not seen");
    ensure!(
        each <= EACH,
        "each database after the first costs the operator {each} KiB, and may cost {EACH}: {sizes:?}"
    );
    Ok(())
}

/// Asks for something by an annotation.
async fn wish(database: &Database, name: &str, value: &str) -> Outcome {
    let patch = json!({"metadata": {"annotations": {name: value}}});
    let merged = database
        .world
        .merge(DATABASE, &database.namespace, database.name, patch);
    merged.await.map(drop)
}

/// Waits until the spec is what every instance goes by.
async fn rolled_out(database: &Database) -> Outcome {
    until("the spec to be rolled out", ROLLED_OUT, || async {
        let object = database.get().await?;
        let observed = object
            .data
            .pointer("/status/observedGeneration")
            .and_then(Value::as_i64);
        let seen = condition(&object, "ConfigurationApplied");
        let is_current = observed == object.metadata.generation;
        let instead = format!(
            "{observed:?}: {:?} ({}: {})",
            seen.status, seen.reason, seen.message
        );
        Ok(Seen::when(is_current && seen.status == "True", (), instead))
    })
    .await?;
    database.ready(REPLACED * 2).await
}

async fn everywhere(database: &Database, setting: &str) -> Outcome {
    let (name, value) = setting.split_once(' ').unwrap_or_default();
    for instance in database.instances().await? {
        let show = format!("SHOW {name}");
        let found = instance.query(&database.world, "postgres", &[&show]).await?;
        ensure!(
            found == value,
            "{name} is {found} on {}, not {value}",
            instance.name
        );
    }
    Ok(())
}

async fn uids(database: &Database) -> Outcome<Vec<String>> {
    Ok(database.instances().await?.into_iter().map(|it| it.uid).collect())
}

/// For how long no write was acknowledged since then.
async fn paused(observed: &Observed, what: &str, begun: Instant) -> Outcome {
    observed.writes_since(Instant::now()).await?;
    let world = &observed.database.world;
    let pause = observed.ledger.pause(begun, Instant::now());
    let object = observed.database.get().await?;
    let told = object
        .data
        .pointer("/status/lastWritePause/milliseconds")
        .and_then(Value::as_i64);
    world.note(format!(
        "{what}: done {:.1} s after it was asked for; no write for {:.2} s, and the status says {told:?} ms",
        begun.elapsed().as_secs_f64(),
        pause.as_secs_f64()
    ));
    world.figure(
        &format!("database.changes.{what}.pause"),
        pause.as_secs_f64(),
        "s",
    );
    ensure!(
        pause <= PAUSE,
        "{what}: no write for {pause:?}: {:?}",
        observed.ledger.errors()
    );
    Ok(())
}
