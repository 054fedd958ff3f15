//! Replicas of real PostgreSQL: what they say of how far they are, and what becomes of them. On loopback, of one major version, as `postgres_programs.rs`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test fails by panicking

#[allow(dead_code, reason = "each binary uses what it needs of this")]
#[path = "support/postgres.rs"]
mod postgres;

use std::time::Duration;

use postgres::two;
use rstest::rstest;
use tokio::time::sleep;

/// Whoever elects a primary goes by how far such a one is, be its last primary as busy as can be.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_is_told_to_follow_nobody_receives_nothing_from_when_it_says_so() {
    let [mut zero, mut one] = two().await;
    zero.initialise().await;
    one.join(0).await;
    one.observe_until("to stream", |seen| seen.streaming && seen.receiving)
        .await;
    let person = zero.connect("postgres", "postgres").await.unwrap();
    let writing = tokio::spawn(async move {
        let write = "SELECT pg_logical_emit_message(true, 'test', 'entry')";
        while person.batch_execute(write).await.is_ok() {}
    });
    assert!(one.configure(None, None));
    one.postmaster.as_ref().unwrap().reload();
    let seen = one.observe_until("nobody to send", |seen| !seen.receiving).await;
    for _ in 0..30 {
        let later = one.local.observe(&[]).await.unwrap();
        assert_eq!((later.receiving, later.received), (false, seen.received));
        sleep(Duration::from_millis(50)).await;
    }
    let there = zero.local.observe(&[]).await.unwrap().received;
    assert!(there > seen.received, "nothing was written meanwhile");
    assert!(one.configure(Some(0), None));
    one.postmaster.as_ref().unwrap().reload();
    one.observe_until("to stream again", |seen| seen.streaming && seen.received >= there)
        .await;
    writing.abort();
}

/// It reads what the primary has deleted, and may hold up replay for ever.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_reads_from_a_replica_does_not_hold_up_its_promotion() {
    let [mut zero, mut one] = two().await;
    zero.initialise().await;
    let delay = ("max_standby_streaming_delay".to_owned(), "-1".to_owned());
    one.settings.parameters.extend([delay]);
    one.join(0).await;
    let person = zero.connect("postgres", "postgres").await.unwrap();
    let table = "CREATE TABLE public.read AS SELECT generate_series(1, 1000) AS n";
    person.batch_execute(table).await.unwrap();
    let end = zero.local.observe(&[]).await.unwrap().received;
    one.observe_until("the table", |seen| seen.replayed >= end).await;
    // As anybody may call themselves.
    let reader = one.connect("orders", "postgres").await.unwrap();
    let begin = "SET application_name = 'roadstead'; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1";
    reader.batch_execute(begin).await.unwrap();
    let superuser = one.connect("postgres", "postgres").await.unwrap();
    superuser
        .batch_execute(begin.split_once(';').unwrap().1)
        .await
        .unwrap();
    person.batch_execute("DELETE FROM public.read").await.unwrap();
    person.batch_execute("VACUUM public.read").await.unwrap();
    let end = zero.local.observe(&[]).await.unwrap().received;
    one.observe_until("all of it", |seen| seen.received >= end).await;
    sleep(Duration::from_secs(2)).await;
    let seen = one.local.observe(&[]).await.unwrap();
    assert!(seen.replayed < end, "nobody holds it up");
    zero.kill().await;
    one.local.promote().await.unwrap();
    one.observe_until("its promotion", |seen| seen.primary).await;
    for ended in [reader, superuser] {
        assert!(ended.batch_execute("SELECT 1").await.is_err());
    }
    // Nobody is ended on a primary.
    let writer = one.connect("orders", "orders").await.unwrap();
    one.local.end_readers().await.unwrap();
    writer.batch_execute("SELECT 1").await.unwrap();
}

/// It was started again, and nobody answers it: what it has on disk and has not applied is a part of what it has.
#[rstest]
#[case::whom_it_follows_is_away(Some(0))]
#[case::it_follows_nobody(None)]
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_whose_replay_stands_still_does_not_take_that_for_its_end(#[case] upstream: Option<usize>) {
    let [mut zero, mut one] = two().await;
    let delay = |delay: &str| ("recovery_min_apply_delay".to_owned(), delay.to_owned());
    zero.initialise().await;
    one.settings.parameters.extend([delay("1h")]);
    one.join(0).await;
    let person = zero.connect("postgres", "postgres").await.unwrap();
    person.batch_execute("CREATE TABLE public.some ()").await.unwrap();
    let end = zero.local.observe(&[]).await.unwrap().received;
    one.observe_until("all of it", |seen| seen.received >= end).await;
    zero.kill().await;
    assert!(one.stop().await.success());
    one.configure(upstream, None);
    one.start().await;
    for _ in 0..30 {
        let seen = one.local.observe(&[]).await.unwrap();
        assert!(seen.replaying && seen.replayed < end, "{seen:?}");
        sleep(Duration::from_millis(100)).await;
    }
    one.settings.parameters.extend([delay("0")]);
    assert!(one.configure(upstream, None));
    one.postmaster.as_ref().unwrap().reload();
    let seen = one.observe_until("its end", |seen| !seen.replaying).await;
    assert!(seen.received >= end && seen.replayed >= end, "{seen:?}");
}
