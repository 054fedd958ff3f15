//! Instances that do not hear from the API server, or from each other, with a real one and real PostgreSQL.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test fails by panicking

#[path = "support/apiserver.rs"]
mod apiserver;
#[allow(dead_code, reason = "each binary uses what it needs of this")]
#[path = "support/database_processes.rs"]
mod database_processes;
#[path = "support/database_writers.rs"]
mod database_writers;
#[allow(dead_code, reason = "each binary uses what it needs of this")]
#[path = "support/ledger.rs"]
mod ledger;

use std::sync::Arc;
use std::time::{Duration, Instant};

use database_processes::{Database, LIMIT};
use database_writers::Writers;
use roadstead::api::database::agent::{Lsn, Record, Role, Synchronous, Timing};
use rustix::process::{Pid, Signal, kill_process};

fn figure(name: &str, pause: Duration) {
    println!("figure {name} {:.1} s", pause.as_secs_f64());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_loses_the_api_server_alone_yields_and_there_are_never_two() {
    let database = Arc::new(Database::serving("alone", 60, 3, Synchronous::Required).await);
    let writers = Writers::start(&database).await;
    let primary = database.primary().await.unwrap();
    let cut = Instant::now();
    database.cut_off_api(primary, true);
    let lookout = {
        let database = Arc::clone(&database);
        tokio::spawn(async move {
            let mut twice = Vec::new();
            while cut.elapsed() < Duration::from_secs(15) {
                let mut primaries = Vec::new();
                for index in 0..3 {
                    if database.ask(index, "SELECT pg_is_in_recovery()::text").await == Ok("false".to_owned())
                    {
                        primaries.push(index);
                    }
                }
                if primaries.len() > 1 {
                    twice.push(primaries);
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            twice
        })
    };
    database.another_primary(primary).await;
    let pause = writers.resume(&database, cut).await;
    figure("alone_without_api", pause);
    assert!(
        lookout.await.unwrap().is_empty(),
        "two primaries\n{}",
        database.logs()
    );
    database.cut_off_api(primary, false);
    database.whole().await;
    writers.finish(&database).await;
}

/// The token of a pod that was deleted is worth nothing any more, so the Lease cannot be given back. The others hear that its PostgreSQL has ended from itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_ends_without_the_api_server_is_replaced_before_its_lease_runs_out() {
    let database = Arc::new(Database::serving("last-words", 140, 3, Synchronous::Required).await);
    let writers = Writers::start(&database).await;
    let primary = database.primary().await.unwrap();
    let cut = Instant::now();
    database.cut_off_api(primary, true);
    database.instances[primary].ask_to_stop();
    database.another_primary(primary).await;
    let pause = writers.resume(&database, cut).await;
    figure("ended_without_api", pause);
    assert!(pause < Duration::from_secs(4), "{pause:?}\n{}", database.logs());
    writers.finish(&database).await;
}

/// By the usual one it would stop after 4 s: the other hears from the API server, and promises nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_longer_lease_lets_a_primary_through_a_longer_time_without_the_api_server() {
    let database = Arc::new(Database::serving("patient", 160, 2, Synchronous::Required).await);
    let writers = Writers::start(&database).await;
    let primary = database.primary().await.unwrap();
    database.configure(|settings| settings.timing = Timing::of(18));
    // Only whoever has heard the answer to a renewal renews once more, and a renewal counts for nothing before its answer is heard.
    let mut first = None;
    database
        .until(LIMIT, "the Lease is renewed twice for 18 s", async || {
            let (renewed, seconds) = database.renewal().await;
            seconds == Some(18) && *first.get_or_insert_with(|| renewed.clone()) != renewed
        })
        .await;
    let (before, cut) = (database.lease().await, Instant::now());
    database.cut_off_api(primary, true);
    tokio::time::sleep(Duration::from_secs(8)).await;
    database.cut_off_api(primary, false);
    tokio::time::sleep(Duration::from_secs(8)).await;
    let pause = writers.ledger.pause(cut, Instant::now());
    assert!(pause < Duration::from_secs(2), "{pause:?}\n{}", database.logs());
    let after = database.lease().await;
    assert_eq!((after.0, after.2), (before.0, before.2), "{}", database.logs());
    writers.finish(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_nobody_reaches_costs_no_write() {
    let database = Arc::new(Database::serving("outage", 70, 3, Synchronous::Required).await);
    let writers = Writers::start(&database).await;
    let (primary, before) = (database.primary().await.unwrap(), database.lease().await);
    let cut = Instant::now();
    (0..3).for_each(|index| database.cut_off_api(index, true));
    tokio::time::sleep(Duration::from_secs(20)).await;
    let pause = writers.ledger.pause(cut, Instant::now());
    figure("api_outage", pause);
    assert!(pause < Duration::from_secs(2), "{pause:?}\n{}", database.logs());
    (0..3).for_each(|index| database.cut_off_api(index, false));
    tokio::time::sleep(Duration::from_secs(8)).await;
    assert_eq!(database.primary().await, Some(primary));
    let after = database.lease().await;
    assert_eq!(
        (after.0, after.2),
        (before.0, before.2),
        "the Lease never changed hands"
    );
    writers.finish(&database).await;
}

/// One fault keeps the primary and the replica that has the most from the API server. The other one gets what it lacks from that replica, and leads.
#[tokio::test(flavor = "multi_thread")]
async fn what_an_instance_without_the_api_server_has_more_is_had_from_it() {
    let database = Arc::new(Database::serving("further", 190, 3, Synchronous::Preferred).await);
    let writers = Writers::start(&database).await;
    database.settled().await;
    let primary = database.primary().await.unwrap();
    let (further, last) = ((primary + 1) % 3, (primary + 2) % 3);
    let receiver = "SELECT pid::text FROM pg_stat_wal_receiver";
    let receiver = database.ask(last, receiver).await.unwrap().parse().unwrap();
    let receiver = Pid::from_raw(receiver).unwrap();
    kill_process(receiver, Signal::STOP).unwrap();
    writers.some(&database).await;
    let cut = Instant::now();
    for index in [primary, further] {
        database.cut_off_api(index, true);
    }
    let has_given_way = async || {
        let report = database.report(primary).await;
        report.is_ok_and(|report| report.role != Role::Primary)
    };
    database
        .until(LIMIT, "the primary has given way", has_given_way)
        .await;
    // With it goes whatever it was sent and has not read yet.
    kill_process(receiver, Signal::KILL).unwrap();
    assert_eq!(
        database.another_primary(primary).await,
        last,
        "{}",
        database.logs()
    );
    let pause = writers.resume(&database, cut).await;
    figure("further_without_api", pause);
    for index in [primary, further] {
        database.cut_off_api(index, false);
    }
    database.whole().await;
    let follows = format!("Follow(Some(\\\"further-{further}\\\"))");
    assert!(database.has_logged(&follows), "{}", database.logs());
    writers.finish(&database).await;
}

/// Commits waited for nobody, the last of them went no further than the primary's own disk, and then its container ended.
#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_comes_back_says_where_the_log_ended_that_the_next_began_without() {
    let database = Arc::new(Database::serving("left", 210, 2, Synchronous::Off).await);
    let primary = database.primary().await.unwrap();
    let replica = 1 - primary;
    database.settled().await;
    let receiver = database.instances[replica].process("walreceiver");
    kill_process(receiver, Signal::STOP).unwrap();
    let write = "SELECT pg_logical_emit_message(true, 'test', repeat('x', 20000))::text";
    database.ask(primary, write).await.unwrap();
    let flushed = "SELECT pg_current_wal_flush_lsn()::text";
    let flushed: Lsn = database.ask(primary, flushed).await.unwrap().parse().unwrap();
    database.kill(primary, true).await;
    // It ends before it reads what was sent meanwhile.
    kill_process(receiver, Signal::TERM).unwrap();
    kill_process(receiver, Signal::CONT).unwrap();
    database.another_primary(primary).await;
    database.start(primary);
    database.whole().await;
    let (_, record, _) = database.lease().await;
    let record: Record = serde_json::from_value(record).unwrap();
    let (from, _) = record.missing.unwrap();
    let (since, end) = database.report(primary).await.unwrap().wrote_up_to.unwrap();
    assert_eq!(since, record.missing_since);
    // What it wrote of its own in its last moments is little.
    let rest = end.ahead_of(flushed);
    assert!(
        end >= flushed && rest < 8192,
        "{end} is {rest} bytes after {flushed}"
    );
    assert!(flushed.ahead_of(from) > 20_000, "{from} to {flushed}");
}
