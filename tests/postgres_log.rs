//! How far the log of a stopped PostgreSQL goes, as its own program reads it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test fails by panicking

#[allow(dead_code, reason = "each binary uses what it needs of this")]
#[path = "support/postgres.rs"]
mod postgres;

use postgres::{Instance, two};
use roadstead::api::database::agent::Lsn;
use roadstead::instance::postgres::protocol::Data;

const SEGMENT: u64 = 16 << 20;

/// What a query says of a position.
async fn position(zero: &Instance, query: &str) -> Lsn {
    let person = zero.connect("postgres", "postgres").await.unwrap();
    let row = person.query_one(query, &[]).await.unwrap();
    row.get::<_, String>(0).parse().unwrap()
}

/// Writes a record of so many bytes, and gives where it ends.
async fn write(zero: &Instance, bytes: u64) -> Lsn {
    let record = format!("SELECT pg_logical_emit_message(false, 'test', repeat('x', {bytes}))::text");
    position(zero, &record).await
}

async fn goes_to(zero: &Instance, end: (u32, Lsn), checkpoint: Option<Lsn>) -> bool {
    let goes = zero
        .programs
        .log_goes_to(&zero.options, zero.volume(), end, (checkpoint, SEGMENT));
    goes.await.unwrap()
}

async fn end(zero: &Instance, from: (u32, Lsn)) -> Option<Lsn> {
    let end = zero.programs.log_end(&zero.options, zero.volume(), from, SEGMENT);
    end.await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_of_a_killed_primary_goes_up_to_what_was_flushed_wherever_that_is() {
    let [mut zero, _] = two().await;
    zero.initialise().await;
    let checkpoint = position(&zero, "SELECT checkpoint_lsn::text FROM pg_control_checkpoint()").await;
    let mut ends = vec![write(&zero, 100).await];
    // The first record ends a page, and the next two go on in another file.
    ends.push(write(&zero, 3 * 8192).await);
    for _ in 0..2 {
        let here = position(&zero, "SELECT pg_current_wal_insert_lsn()::text").await;
        write(&zero, SEGMENT - here.0 % SEGMENT - 200_000).await;
        ends.push(write(&zero, 300_000).await);
    }
    assert_eq!(ends[3].0 / SEGMENT, ends[1].0 / SEGMENT + 2, "{ends:?}");
    // All of it is on disk, and the last flush ends within a page.
    let person = zero.connect("postgres", "postgres").await.unwrap();
    person.batch_execute("CREATE TABLE flushed ()").await.unwrap();
    ends.push(position(&zero, "SELECT pg_current_wal_flush_lsn()::text").await);
    let last = *ends.last().unwrap();
    zero.kill().await;
    // Within a record that goes on in the next file.
    let ends_from = Lsn(ends[3].0 - 150_000);
    for end in ends {
        for checkpoint in [None, Some(checkpoint)] {
            assert!(
                goes_to(&zero, (1, end), checkpoint).await,
                "{end} from {checkpoint:?}"
            );
        }
    }
    // A file that was made for later is there, and holds nothing.
    let later = Lsn((last.0 / SEGMENT + 1) * SEGMENT);
    let name = format!(
        "00000001{:08X}{:08X}",
        (later.0 / SEGMENT) >> 8,
        (later.0 / SEGMENT) & 0xFF
    );
    std::fs::write(
        zero.options.data().join("pg_wal").join(name),
        vec![0; SEGMENT as usize],
    )
    .unwrap();
    for from in [checkpoint, ends_from] {
        assert_eq!(end(&zero, (1, from)).await, Some(last), "from {from}");
    }
    assert_eq!(
        end(&zero, (2, checkpoint)).await,
        None,
        "nobody led on that timeline"
    );
    let beyond = [last.0 + 100_000, later.0, later.0 + 100, later.0 + SEGMENT + 100];
    for end in beyond.map(Lsn) {
        assert!(!goes_to(&zero, (1, end), Some(checkpoint)).await, "{end}");
    }
    assert!(
        !goes_to(&zero, (2, last), None).await,
        "nobody led on that timeline"
    );
    // What is looked at is as it was.
    zero.start().await;
    zero.observe_until("the primary", |seen| seen.primary).await;
    assert!(zero.stop().await.success());
    let data = zero
        .volume()
        .data(&zero.programs.bin, zero.programs.major)
        .await
        .unwrap();
    let Data::Present(stored) = data else {
        panic!("{data:?}")
    };
    assert!(stored.end > last && goes_to(&zero, (1, stored.end), None).await);
}
