//! A database under faults that do more than take the primary away: what is lost or damaged is made good without a hand on it, disks that are full or hang
//! cost no write, and neither does any of it in a row.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use roadstead::api::database::agent::Lsn;
use serde_json::{Value, json};

use crate::database::{Database, INSTANCES, Observed, REJOINED, REPLACED, SERVING};
use crate::disk::{self, Disks};
use crate::fault::{Fault, Ill, a_replica, sequence};
use crate::harm::{Mended, refuses_writes, tell};
use crate::instance::Instance;
use crate::objects::condition;
use crate::olm;
use crate::outcome::{Failure, Outcome, ensure};
use crate::wait::{Seen, until};
use crate::world::World;

/// The size of a disk that is filled: some data and a few files of the write-ahead log have room.
const SMALL: u32 = 384;
/// What each timeline leaves there: a segment of the log goes once the log has gone on from it, on whichever timeline.
const SEGMENT: u32 = 16;
/// No disk stays frozen for longer.
const FROZEN: Duration = Duration::from_secs(60);
/// How long a volume stays full: long enough for a few attempts at whatever does not help.
const FULL: Duration = Duration::from_secs(20);
/// For how long the only standby hangs: PostgreSQL drops whoever does not answer for 5 s.
const ALONE: Duration = Duration::from_secs(7);
/// What a standby had confirmed before is acknowledged within this time.
const ANSWERED: Duration = Duration::from_millis(500);
/// A pod is replaced once it is a minute old, if its container is held back then.
const HELD_BACK: Duration = Duration::from_secs(120);
/// `spec.maximumLagOnFailover`, unless it says otherwise.
const MAXIMUM_LAG: u64 = 1 << 20;

pub async fn all_pods_deleted_at_once_come_back_with_every_write(world: Arc<World>) -> Outcome {
    repeated(&world, "all-pods", Fault::AllPods).await
}

pub async fn a_replica_whose_data_is_damaged_is_copied_anew(world: Arc<World>) -> Outcome {
    repeated(&world, "damaged", Fault::Replica(Ill::SpoilData)).await
}

pub async fn a_replica_whose_volume_is_deleted_is_copied_anew(world: Arc<World>) -> Outcome {
    repeated(&world, "volume", Fault::Replica(Ill::DeleteVolume)).await
}

/// The kubelet waits twice as long each time before it starts the container again, up to five minutes: the operator ends that.
pub async fn a_container_that_is_killed_again_and_again_gets_another_pod(world: Arc<World>) -> Outcome {
    olm::installed(&world, "0.3.0").await?;
    let database = with_no_hand(&world, "held-back", json!({})).await?;
    database.all_stream().await?;
    let mut observed = database.observed().await?;
    let before = a_replica(&database).await?;
    let begun = Instant::now();
    until(
        "another pod in the place of the one that is held back",
        HELD_BACK,
        || async {
            let all = database.instances().await?;
            let now = all.into_iter().find(|it| it.name == before.name);
            let Some(now) = now else {
                return Ok(Seen::NotYet(format!("{} is gone", before.name)));
            };
            if now.uid == before.uid {
                // Nothing is there to be killed while it is held back.
                let killed = now.kill_container();
                return Ok(Seen::NotYet(format!("{} restarts, {killed:?}", now.restarts)));
            }
            Ok(Seen::There(()))
        },
    )
    .await?;
    let replaced = begun.elapsed();
    database.all_stream().await?;
    world.note(format!(
        "{} has another pod after {:.1} s, and all streamed {:.1} s later",
        before.name,
        replaced.as_secs_f64(),
        (begun.elapsed() - replaced).as_secs_f64()
    ));
    observed.nothing_is_lost().await?;
    database.ready(SERVING).await?;
    observed.finish().await
}

/// What is wrong, and what a person can do about it, stands in the status; and that helps. Meanwhile no drain of a node takes a second instance.
pub async fn a_replica_that_cannot_be_started_says_why_and_what_helps(world: Arc<World>) -> Outcome {
    olm::installed(&world, "0.3.0").await?;
    let database = Database::serving(&world, "refused", json!({})).await?;
    database.all_stream().await?;
    let observed = database.observed().await?;
    let replica = a_replica(&database).await?;
    let all = database.instances().await?;
    drains_may_take(&all, true).await?;
    replica.confuse()?;
    let command = until("the status to say what helps", REPLACED, || async {
        let object = database.get().await?;
        let degraded = condition(&object, "Degraded");
        let message = degraded.message.to_owned();
        let command = message
            .split_once("copied anew: ")
            .map(|(_, command)| command.to_owned());
        Ok(match command {
            Some(command) if degraded.status == "True" && message.contains("backup_label") => {
                Seen::There(command)
            }
            _ => Seen::NotYet(format!("Degraded {}: {message}", degraded.status)),
        })
    })
    .await?;
    world.note(&command);
    let others: Vec<Instance> = all.into_iter().filter(|it| it.uid != replica.uid).collect();
    drains_may_take(&others, false).await?;
    for command in command.split(" && ") {
        let command = command.strip_prefix("kubectl ").unwrap_or(command);
        world
            .kubectl(&format!("-n {} {command}", database.namespace))
            .await?;
    }
    database.all_stream().await?;
    database.ready(SERVING).await?;
    observed.finish().await
}

/// Waits until a drain of its node may take each of these, or none of them: the budget is counted anew a moment after a pod has changed.
async fn drains_may_take(instances: &[Instance], wanted: bool) -> Outcome {
    until("the PodDisruptionBudget to be counted", REPLACED, || async {
        let mut answers = Vec::new();
        for instance in instances {
            answers.push(instance.may_be_evicted().await?);
        }
        Ok(Seen::equal(&answers, &vec![wanted; instances.len()]))
    })
    .await
}

/// Writes stop, or another instance takes over, once. Nothing goes back and forth, and nobody's hand is needed but to make room.
pub async fn a_full_volume_costs_no_write_and_no_series_of_failovers(world: Arc<World>) -> Outcome {
    olm::installed(&world, "0.3.0").await?;
    let (disks, database) = on_disks(&world, "full", SMALL).await?;
    let observed = database.observed().await?;
    let primary = database.primary().await?;
    let (_, before) = database.lease().await?;
    let begun = Instant::now();
    primary.fill(&world).await?;
    until(
        "PostgreSQL to want more room",
        Duration::from_secs(60),
        || async {
            // The rest of a file of the log is left empty, and the next one begun
            let switched = primary.query("postgres", &["SELECT pg_switch_wal()"]).await;
            let silent = observed.ledger.pause(begun, Instant::now()) > Duration::from_secs(2);
            Ok(Seen::when(
                silent,
                (),
                format!("{switched:?}, {:?}", observed.ledger.errors()),
            ))
        },
    )
    .await?;
    tokio::time::sleep(FULL).await;
    let object = database.get().await?;
    let available = condition(&object, "Available");
    world.note(format!(
        "while it is full: {}: {}",
        available.reason, available.message
    ));
    let same = database.instances().await?;
    let same = same.iter().find(|it| it.name == primary.name);
    let same = same.unwrap_or(&primary);
    same.make_room(&world).await?;
    observed.writes_since(Instant::now()).await?;
    database.all_stream().await?;
    let (_, after) = database.lease().await?;
    world.note(format!(
        "no write for {:.2} s, {} failovers",
        observed.ledger.pause(begun, Instant::now()).as_secs_f64(),
        after - before
    ));
    ensure!(
        after - before <= 1,
        "the Lease changed hands {} times",
        after - before
    );
    database.ready(SERVING).await?;
    observed.finish().await?;
    disks.forget(&world).await
}

/// Its processes cannot be killed before the disk answers again.
pub async fn a_primary_whose_disk_hangs_is_replaced_and_comes_back(world: Arc<World>) -> Outcome {
    olm::installed(&world, "0.3.0").await?;
    let (disks, database) = on_disks(
        &world,
        "disk-hangs",
        SMALL + SEGMENT * world.settings.rounds as u32,
    )
    .await?;
    let observed = database.observed().await?;
    let mut each = Vec::new();
    for _ in 0..world.settings.rounds {
        let primary = database.primary().await?;
        let begun = Instant::now();
        let frost = disks.freeze(&primary.name, FROZEN).await?;
        let now = database.primary_other_than(&primary.uid).await?;
        observed.writes_since(Instant::now()).await?;
        let pause = observed.ledger.pause(begun, Instant::now());
        ensure!(pause < REPLACED, "no write was acknowledged for {pause:?}");
        refuses_writes(&primary, &now).await?;
        drop(frost);
        let over = Instant::now();
        database.all_stream().await?;
        let rejoined = over.elapsed();
        world.note(format!(
            "the disk of {} hung: no write for {:.2} s; all streamed {:.1} s after it answered again",
            primary.name,
            pause.as_secs_f64(),
            rejoined.as_secs_f64()
        ));
        observed.writes_since(over).await?;
        each.push(Mended {
            pause,
            rejoined,
            promoted: Some(true),
        });
    }
    database.ready(SERVING).await?;
    tell(&world, "disk-hangs", &each);
    observed.finish().await?;
    disks.forget(&world).await
}

/// In an order that the seed decides, one after the other.
pub async fn random_faults_in_a_row_cost_no_write_and_all_comes_back(world: Arc<World>) -> Outcome {
    olm::installed(&world, "0.3.0").await?;
    let database = with_no_hand(&world, "faults", json!({})).await?;
    database.all_stream().await?;
    let mut observed = database.observed().await?;
    let (seed, count) = (world.settings.seed, world.settings.faults);
    world.note(format!("the same again: E2E_SEED={seed} E2E_FAULTS={count}"));
    world.note(format!("figure database.faults.seed {seed} seed"));
    let mut each = Vec::new();
    for fault in sequence(seed, count) {
        each.push(fault.done_to(&observed).await?);
        observed.nothing_is_lost().await?;
    }
    database.ready(SERVING).await?;
    tell(&world, "faults", &each);
    world.figure("database.faults.done", each.len() as f64, "faults");
    observed.finish().await
}

/// Where commits wait for no replica, what is lost is little.
pub async fn without_synchronous_commits_a_fault_loses_no_more_than_may_be_lost(
    world: Arc<World>,
) -> Outcome {
    olm::installed(&world, "0.3.0").await?;
    let database = with_no_hand(&world, "asynchronous", json!({"synchronous": "off"})).await?;
    database.all_stream().await?;
    let mut observed = database.observed().await?;
    let (seed, count) = (world.settings.seed, world.settings.faults);
    world.note(format!("the same again: E2E_SEED={seed} E2E_FAULTS={count}"));
    let bytes = bytes_of_a_write(&observed).await?;
    let mut each = Vec::new();
    let mut lost = BTreeMap::new();
    let mut since = database.record().await?["missingSince"].clone();
    for fault in sequence(seed, count) {
        each.push(fault.done_to(&observed).await?);
        let writes = observed.lost_since().await?.len() as u64;
        ensure!(
            writes * bytes <= MAXIMUM_LAG,
            "{fault:?} lost {writes} acknowledged writes of some {bytes} bytes each"
        );
        let now = database.record().await?["missingSince"].clone();
        let told = if now == since {
            0
        } else {
            measured(&database, &now).await?
        };
        since = now;
        ensure!(
            told <= MAXIMUM_LAG && (told > 0 || writes == 0),
            "{fault:?} lost {writes} acknowledged writes, and the status tells of the loss of {told} bytes"
        );
        if writes > 0 {
            *lost.entry(format!("{fault:?}")).or_insert(0) += writes;
        }
    }
    world.note(format!("acknowledged and lost, of {bytes} bytes each: {lost:?}"));
    database.ready(SERVING).await?;
    let told = database.get().await?.data.pointer("/status/lastLoss").cloned();
    ensure!(lost.is_empty() || told.is_some(), "the status tells of no loss");
    world.note(format!("the status tells of the last loss: {told:?}"));
    tell(&world, "asynchronous", &each);
    world.figure(
        "database.asynchronous.lost",
        lost.values().sum::<u64>() as f64,
        "writes",
    );
    observed.finish().await
}

/// All instances stream again, so whoever wrote what the timeline `since` began without has said where that ended; and an Event names it. Gives how many
/// bytes it is.
async fn measured(database: &Database, since: &Value) -> Outcome<u64> {
    let loss = until("where what was lost ended", REJOINED, || async {
        let status = database.get().await?.data;
        let loss = status.pointer("/status/lastLoss").cloned().unwrap_or_default();
        let is_measured = loss["measured"] == true && loss["timeline"] == *since;
        Ok(Seen::when(is_measured, loss.clone(), loss))
    });
    let loss = loss.await?;
    let bytes = length(&loss)?;
    let timeline = format!("timeline {} began", loss["timeline"]);
    let position = |field: &str| loss[field].as_str().unwrap_or_default().to_owned();
    let range = [timeline, position("from"), position("to")];
    until("an Event that names it", REJOINED, || async {
        let events = database.events().await?;
        let named = events
            .iter()
            .any(|(_, _, note)| range.iter().all(|part| note.contains(part)));
        Ok(Seen::when(
            named || bytes == 0,
            (),
            format_args!("{loss}, {events:?}"),
        ))
    })
    .await?;
    Ok(bytes)
}

/// How much of the write-ahead log the status says was lost at least, in bytes.
fn length(loss: &Value) -> Outcome<u64> {
    if loss["to"].is_null() {
        return Ok(0);
    }
    let position = |field: &str| {
        let text = loss[field].as_str().unwrap_or_default();
        let position: Result<Lsn, _> = text.parse();
        position.map_err(|error| Failure::new(format!("{field} of {loss} is no position: {error}")))
    };
    Ok(position("to")?.ahead_of(position("from")?))
}

/// An acknowledged commit is on both, so nobody acknowledges one while there is one alone; and nobody but the primary may go on.
pub async fn with_two_instances_writes_wait_for_the_only_standby(world: Arc<World>) -> Outcome {
    olm::installed(&world, "0.3.0").await?;
    let spec = json!({"instances": 2, "synchronous": "required"});
    let database = Database::serving(&world, "two", spec).await?;
    database.stream(2).await?;
    let mut observed = database.observed().await?;
    let (primary, lease) = (database.primary().await?, database.lease().await?);
    let mut pauses = Vec::new();
    for round in 0..world.settings.rounds {
        let replica = until("the replica to be labelled", REPLACED, || async {
            a_replica(&database).await.map(Seen::There)
        });
        let replica = replica.await?;
        let begun = Instant::now();
        let (how, acknowledged) = if round.is_multiple_of(2) {
            let frozen = replica.freeze()?;
            tokio::time::sleep(ANSWERED).await;
            let alone = Instant::now();
            tokio::time::sleep(ALONE).await;
            let acknowledged = observed.ledger.acknowledged_since(alone);
            drop(frozen);
            ("hung", acknowledged)
        } else {
            replica.delete_at_once(&world).await?;
            ("was deleted", acknowledged_alone(&observed, &primary).await?)
        };
        ensure!(
            acknowledged == 0,
            "{acknowledged} writes were acknowledged while the only standby {how}"
        );
        database.stream(2).await?;
        observed.writes_since(Instant::now()).await?;
        let pause = observed.ledger.pause(begun, Instant::now());
        world.note(format!(
            "the only standby {how}: no write for {:.2} s",
            pause.as_secs_f64()
        ));
        pauses.push(pause);
        observed.nothing_is_lost().await?;
    }
    let now = (database.primary().await?.uid, database.lease().await?);
    let before = (primary.uid, lease);
    ensure!(
        now == before,
        "the primary and its Lease were {before:?}, are {now:?}"
    );
    database.ready(SERVING).await?;
    world.seconds("database.two.pause", &pauses);
    observed.finish().await
}

/// How many writes were acknowledged while nobody streamed from the primary; returns once somebody does again.
async fn acknowledged_alone(observed: &Observed, primary: &Instance) -> Outcome<usize> {
    let end = Instant::now() + REJOINED;
    let streaming = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'";
    let mut alone = None;
    loop {
        let asked = Instant::now();
        let count = primary.query("postgres", &[streaming]).await?;
        alone = match (count.as_str(), alone) {
            ("0", None) => {
                let since = Instant::now() + ANSWERED;
                Some((since, since))
            }
            ("0", Some((since, _))) => Some((since, asked.max(since))),
            (_, Some((since, until))) => {
                let book = observed.ledger.book();
                return Ok(book.acknowledged_since(since) - book.acknowledged_since(until));
            }
            (_, None) => None,
        };
        ensure!(
            asked < end,
            "{count} replicas stream, and for {REJOINED:?} that has not changed"
        );
        tokio::time::sleep(ANSWERED / 2).await;
    }
}

/// A database that has to come back by itself each time, whatever befell it before.
async fn with_no_hand(world: &Arc<World>, scenario: &str, spec: Value) -> Outcome<Database> {
    Ok(Database {
        with_no_hand: true,
        ..Database::serving(world, scenario, spec).await?
    })
}

/// The same a few times, with writers at work.
async fn repeated(world: &Arc<World>, scenario: &str, fault: Fault) -> Outcome {
    olm::installed(world, "0.3.0").await?;
    let database = Database::serving(world, scenario, json!({})).await?;
    database.all_stream().await?;
    let mut observed = database.observed().await?;
    let mut each = Vec::new();
    for _ in 0..world.settings.rounds {
        each.push(fault.done_to(&observed).await?);
        observed.nothing_is_lost().await?;
    }
    database.ready(SERVING).await?;
    tell(world, scenario, &each);
    observed.finish().await
}

/// A database whose instances have small disks of their own.
async fn on_disks(world: &Arc<World>, scenario: &str, mebibytes: u32) -> Outcome<(Disks, Database)> {
    let disks = Disks::make(world, scenario, "orders", INSTANCES, mebibytes).await?;
    let spec = json!({
        "storage": {"size": "1Gi", "storageClassName": disk::CLASS, "whenDeleted": "Delete"},
        "parameters": {
            "shared_buffers": "32MB", "max_wal_size": "64MB", "min_wal_size": "32MB", "wal_keep_size": "32MB",
        },
    });
    let database = Database::serving(world, scenario, spec).await?;
    database.all_stream().await?;
    Ok((disks, database))
}

/// How much of the write-ahead log there is for each acknowledged write, everything else in it included.
async fn bytes_of_a_write(observed: &Observed) -> Outcome<u64> {
    let primary = observed.database.primary().await?;
    let begun = position(&primary).await?;
    let writes = observed.ledger.acknowledged();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let bytes = position(&primary).await? - begun;
    let writes = (observed.ledger.acknowledged() - writes) as u64;
    ensure!(writes > 0, "nothing was written");
    Ok(bytes.div_ceil(writes))
}

async fn position(primary: &Instance) -> Outcome<u64> {
    let position = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')";
    Ok(primary.query("postgres", &[position]).await?.parse()?)
}
