//! A database that is changed while it is written to: every change arrives at every instance, and nobody waits for long.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::stream::{StreamExt, TryStreamExt, iter};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::database::{Database, Observed, REJOINED, REPLACED, SERVING, answer};
use crate::ledger;
use crate::objects::{DATABASE, LEASE, POD, PVC, SECRET, SERVICE, condition, text};
use crate::olm;
use crate::outcome::{Failure, Outcome, ensure};
use crate::wait::{Seen, until};
use crate::world::World;

/// A planned change keeps nobody from writing for longer.
const PAUSE: Duration = Duration::from_secs(3);
/// By how much what the status tells may be more than what clients saw, and less: the Service has to lead to another pod, which may take nodes a second, and
/// an attempt to connect may take another.
const TOLD_MORE: Duration = Duration::from_secs(1);
const TOLD_LESS: Duration = Duration::from_secs(2);
/// A pause counts as one of the next change too, if that begins less than 5 s after it. Times in the status are whole seconds, and when a change began is told
/// by the API server's clock, of which operators know whole seconds, too: it may be told more than a second too early.
const APART: SignedDuration = SignedDuration::from_secs(8);
/// While all is well the operator asks every 30 s.
const TOLD: Duration = Duration::from_secs(45);
/// So many databases, so many of them made at a time after the first, and what each of these may cost the operator, in KiB.
const MANY: u64 = 10;
const AT_ONCE: usize = 3;
const EACH: u64 = 256;
/// What the operator may have resident with so many, in KiB.
const RESIDENT: u64 = 24 << 10;
/// Every instance was stopped and started again, one by one.
const ROLLED_OUT: Duration = Duration::from_secs(240);

pub async fn changes_reach_every_instance_with_one_short_pause_each(world: Arc<World>) -> Outcome {
    olm::installed(&world, "0.3.0").await?;
    let database = Database::serving(&world, "changes", json!({})).await?;
    let observed = database.observed().await?;
    let mut spec = json!({});
    for round in 0..world.settings.rounds {
        // There and back again, so that every round changes something.
        let there = round.is_multiple_of(2);
        another_leads(&observed).await?;

        let settings = if there {
            ["shared_buffers 48MB", "max_connections 60", "work_mem 5MB"]
        } else {
            ["shared_buffers 32MB", "max_connections 50", "work_mem 4MB"]
        };
        let pairs = settings.iter().filter_map(|it| it.split_once(' '));
        spec["parameters"] = pairs.collect();
        let earlier = at_rest(&database).await?;
        let begun = Instant::now();
        database.apply(spec.clone()).await?;
        rolled_out(&database).await?;
        for setting in settings {
            everywhere(&database, setting).await?;
        }
        let pause = paused(&observed, "parameters", begun).await?;
        told(&database, "parameters", &earlier, pause).await?;

        let memory = if there { "600Mi" } else { "512Mi" };
        spec["resources"] =
            json!({"requests": {"cpu": "20m", "memory": "64Mi"}, "limits": {"memory": memory}});
        other_pods(&observed, &spec, "pods").await?;

        let images = &world.settings;
        spec["image"] = if there {
            &images.postgres_updated
        } else {
            &images.postgres
        }
        .as_str()
        .into();
        other_pods(&observed, &spec, "image").await?;
    }
    observed.finish().await
}

/// Another instance is asked for, and leads.
async fn another_leads(observed: &Observed) -> Outcome {
    let database = &observed.database;
    let primary = database.primary().await?;
    let all = database.instances().await?;
    let to = all.iter().find(|it| it.uid != primary.uid);
    let to = to.map(|it| it.name.as_str()).unwrap_or_default();
    let earlier = at_rest(database).await?;
    let begun = Instant::now();
    wish(database, "roadstead.dev/switch-over-to", to).await?;
    let now = database.primary_other_than(&primary.uid).await?;
    ensure!(now.name == to, "{to} was asked for, and {} leads", now.name);
    let pause = paused(observed, "switchover", begun).await?;
    told(database, "switchover", &earlier, pause).await?;
    database.all_stream().await
}

/// A spec for which every pod has to be another one.
async fn other_pods(observed: &Observed, spec: &Value, what: &str) -> Outcome {
    let database = &observed.database;
    let earlier = at_rest(database).await?;
    let (begun, before) = (Instant::now(), uids(database).await?);
    database.apply(spec.clone()).await?;
    rolled_out(database).await?;
    let after = uids(database).await?;
    ensure!(
        before.iter().all(|uid| !after.contains(uid)),
        "pods were {before:?}, are {after:?}"
    );
    let pause = paused(observed, what, begun).await?;
    told(database, what, &earlier, pause).await
}

pub async fn fewer_instances_and_more_again_cost_nothing_that_was_acknowledged(world: Arc<World>) -> Outcome {
    olm::installed(&world, "0.3.0").await?;
    let database = Database::serving(&world, "scaled", json!({"synchronous": "preferred"})).await?;
    let observed = database.observed().await?;
    for (instances, leads) in [(2, Some("orders-2")), (1, Some("orders-1")), (3, None)] {
        // Whoever leads has to go.
        if let Some(leads) = leads {
            switched_over(&database, leads).await?;
            database.stream(instances + 1).await?;
        }
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

/// Volumes stay unless the author says otherwise. The password goes with the Secret that was the database's own.
pub async fn a_database_that_is_made_anew_takes_up_its_data_with_a_new_password(
    world: Arc<World>,
) -> Outcome {
    olm::installed(&world, "0.3.0").await?;
    let spec = json!({"instances": 2, "storage": {"size": "1Gi"}});
    let database = Database::serving(&world, "kept", spec.clone()).await?;
    database.observed().await?.finish().await?;
    let earlier = database.config(database.name).await?;
    let rows = ledger::rows(&earlier).await.map_err(Failure::new)?;
    ensure!(!rows.is_empty(), "nothing was written");
    let volumes = claims(&database).await?;
    ensure!(volumes.len() == 2, "the claims are {volumes:?}");

    deleted(&database).await?;
    database.apply(spec).await?;
    // By the password of the new Secret
    database.comes_up().await?;
    let config = database.config(database.name).await?;
    ensure!(
        config.get_password() != earlier.get_password(),
        "the password is the same"
    );
    let found = ledger::rows(&config).await.map_err(Failure::new)?;
    ensure!(
        found == rows,
        "{} rows were left, and {} are there",
        rows.len(),
        found.len()
    );
    let mut outdated = config.clone();
    outdated.password(earlier.get_password().unwrap_or_default());
    let answer = answer(&outdated, &["SELECT 'in'"]).await;
    ensure!(answer.is_err(), "the earlier password works");
    let now = claims(&database).await?;
    ensure!(now == volumes, "the claims were {volumes:?}, are {now:?}");
    // It takes writes, and both instances have them
    database.observed().await?.finish().await?;
    fewer_than_before_begin_with_the_latest_data(&database).await
}

/// The last primary is none of those that are asked for, and the one that is has older data.
async fn fewer_than_before_begin_with_the_latest_data(database: &Database) -> Outcome {
    let world = &database.world;
    let spec = |instances: i32| json!({"instances": instances, "synchronous": "preferred", "storage": {"size": "1Gi"}});
    database.apply(spec(2)).await?;
    rolled_out(database).await?;
    switched_over(database, "orders-1").await?;
    database.stream(2).await?;
    let all = database.instances().await?;
    let older = all.iter().find(|it| it.name == "orders-0");
    let older = older.ok_or_else(|| Failure::new("there is no orders-0"))?;
    let frozen = older.freeze()?;
    let config = database.config(database.name).await?;
    // Acknowledged once commits wait no more for one that hangs
    let late = ["CREATE TABLE IF NOT EXISTS late AS SELECT 1"];
    until("a write without the replica", REJOINED, || async {
        match answer(&config, &late).await {
            Ok(_) => Ok(Seen::There(())),
            Err(failure) => Ok(Seen::NotYet(failure.to_string())),
        }
    })
    .await?;
    deleted(database).await?;
    drop(frozen);

    database.apply(spec(1)).await?;
    database.comes_up().await?;
    rolled_out(database).await?;
    until("one instance alone", REPLACED, || async {
        let left = database.instances().await?;
        let left: Vec<_> = left.iter().map(|it| it.name.as_str()).collect();
        Ok(Seen::equal(&left, &vec!["orders-0"]))
    })
    .await?;
    let config = database.config(database.name).await?;
    let found = answer(&config, &["SELECT count(*) FROM late"]).await?;
    ensure!(found == "1", "what was acknowledged last is {found}");
    world.note("fewer instances than before began with the data of the last primary");
    Ok(())
}

/// Deletes the database, and waits until nothing of it is left but its volumes.
async fn deleted(database: &Database) -> Outcome {
    let (world, namespace, name) = (&database.world, database.namespace.as_str(), database.name);
    let delete = ["-n", namespace, "delete", "database", name, "--wait=false"];
    world.run("kubectl", &delete).await?;
    world.wait_gone(DATABASE, namespace, name, SERVING).await?;
    for kind in [SECRET, SERVICE, LEASE] {
        world.wait_gone(kind, namespace, name, REJOINED).await?;
    }
    until("every pod to be gone", REJOINED, || async {
        let left = database.instances().await?;
        Ok(Seen::when(left.is_empty(), (), format!("{left:?}")))
    })
    .await
}

/// The claims with their UIDs.
async fn claims(database: &Database) -> Outcome<Vec<(String, String)>> {
    let claims = database.world.list(PVC, &database.namespace, "").await?;
    let claims = claims.iter();
    let mut claims: Vec<_> = claims
        .map(|it| (it.name_any(), it.uid().unwrap_or_default()))
        .collect();
    claims.sort();
    Ok(claims)
}

/// How many instances there are and what each may use, by one word; replicas are brought up to date and made as for any other change.
pub async fn another_size_scales_and_keeps_nobody_from_writing_for_long(world: Arc<World>) -> Outcome {
    olm::installed(&world, "0.3.0").await?;
    // What a size says of limits counts, but three large ones at once are more than others leave of a small machine.
    let spec = json!({
        "size": "medium", "instances": null, "synchronous": "preferred",
        "resources": {"requests": {"cpu": "20m", "memory": "64Mi"}},
    });
    let database = Database::serving(&world, "sized", spec).await?;
    has_size(&database, 2, "1Gi").await?;
    let observed = database.observed().await?;
    for (size, instances, memory) in [("large", 3, "2Gi"), ("medium", 2, "1Gi")] {
        let earlier = at_rest(&database).await?;
        let begun = Instant::now();
        let patch = format!(r#"{{"spec":{{"size":"{size}"}}}}"#);
        let namespace = database.namespace.as_str();
        let arguments = ["-n", namespace, "patch", "database", database.name, "-p", &patch];
        world
            .run("kubectl", &[&arguments[..], &["--type=merge"]].concat())
            .await?;
        rolled_out(&database).await?;
        has_size(&database, instances, memory).await?;
        let what = format!("size_{size}");
        let pause = paused(&observed, &what, begun).await?;
        told(&database, &what, &earlier, pause).await?;
    }
    observed.finish().await
}

/// Waits until there are so many instances, and all may use so much memory.
async fn has_size(database: &Database, instances: usize, memory: &str) -> Outcome {
    until(
        format!("{instances} instances of {memory}"),
        ROLLED_OUT,
        || async {
            let mut limits = Vec::new();
            for instance in database.instances().await? {
                let pod = database.world.get(POD, &instance.namespace, &instance.name);
                let pod = pod.await?;
                limits.push(text(&pod, "/spec/containers/0/resources/limits/memory").to_owned());
            }
            Ok(Seen::equal(&limits, &vec![memory.to_owned(); instances]))
        },
    )
    .await
}

/// Ten of them, small ones, with one instance each.
pub async fn ten_databases_cost_the_operator_little(world: Arc<World>) -> Outcome {
    olm::installed(&world, "0.3.0").await?;
    let one = |number| {
        let world = Arc::clone(&world);
        async move {
            let spec = json!({"instances": 1, "synchronous": "preferred"});
            Database::serving(&world, &format!("ten-{number}"), spec).await?;
            Ok::<_, Failure>(world.memory.resident())
        }
    };
    let mut sizes = vec![one(0).await?];
    let others = iter(1..MANY).map(one).buffer_unordered(AT_ONCE);
    sizes.extend(others.try_collect::<Vec<_>>().await?);
    let resident = sizes.last().copied().unwrap_or_default();
    let first = sizes.first().copied().unwrap_or_default();
    let each = resident.saturating_sub(first) / (MANY - 1);
    world.note(format!("resident memory of the operator, in KiB: {sizes:?}"));
    world.figure("database.ten.operator_resident", resident as f64 / 1024.0, "MiB");
    world.figure("database.ten.operator_each", each as f64, "KiB");
    ensure!(resident > 0, "the operator's processes were not seen");
    ensure!(
        resident <= RESIDENT,
        "the operator has {resident} KiB resident, and may have {RESIDENT}: {sizes:?}"
    );
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

/// Asks for another primary, and waits until it leads.
async fn switched_over(database: &Database, to: &str) -> Outcome {
    wish(database, "roadstead.dev/switch-over-to", to).await?;
    until(format!("{to} to lead"), REPLACED, || async {
        let primary = database.primary().await?;
        Ok(Seen::equal(&primary.name.as_str(), &to))
    })
    .await
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
        let found = instance.query("postgres", &[&show]).await?;
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

/// For how long no write was acknowledged since then; fails if that was too long.
async fn paused(observed: &Observed, what: &str, begun: Instant) -> Outcome<Duration> {
    observed.writes_since(Instant::now()).await?;
    let world = &observed.database.world;
    let pause = observed.ledger.pause(begun, Instant::now());
    world.note(format!(
        "{what}: done {:.1} s after it was asked for; no write for {:.2} s",
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
    Ok(pause)
}

/// Waits until nothing is under way, and what the last pause was part of is over; tells that pause.
async fn at_rest(database: &Database) -> Outcome<Value> {
    until("nothing to be under way", REJOINED, || async {
        let object = database.get().await?;
        let (progressing, pause) = (condition(&object, "Progressing"), last_pause(&object));
        let ended = pause["endedAt"].as_str().map(str::parse::<Timestamp>);
        let is_over = match ended.transpose()? {
            Some(ended) => Timestamp::now().duration_since(ended) > APART,
            None => true,
        };
        let instead = format!("{progressing:?}, {pause}");
        Ok(Seen::when(
            progressing.status == "False" && is_over,
            pause,
            instead,
        ))
    })
    .await
}

/// Waits until the status tells of another pause than an earlier one, and fails unless that is the one which clients saw.
async fn told(database: &Database, what: &str, earlier: &Value, seen: Duration) -> Outcome {
    let pause = until("the status to tell of the pause", TOLD, || async {
        let pause = last_pause(&database.get().await?);
        let is_new = !pause.is_null() && pause["endedAt"] != earlier["endedAt"];
        let instead = pause.to_string();
        Ok(Seen::when(is_new, pause, instead))
    })
    .await?;
    let milliseconds = pause["milliseconds"].as_u64().unwrap_or_default();
    let told = Duration::from_millis(milliseconds);
    database
        .world
        .note(format!("{what}: the status tells of {told:?}"));
    ensure!(
        told > Duration::ZERO && told <= seen + TOLD_MORE && told + TOLD_LESS >= seen,
        "{what}: no write was acknowledged for {seen:?}, and the status tells {pause}"
    );
    Ok(())
}

/// What the status says of the last pause; null where it says nothing.
fn last_pause(object: &DynamicObject) -> Value {
    let pause = object.data.pointer("/status/lastWritePause");
    pause.cloned().unwrap_or_default()
}
