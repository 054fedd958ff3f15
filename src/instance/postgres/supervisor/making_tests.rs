//! How data is made, taken back and put aside, with programs that are played by scripts.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rstest::rstest;
use tokio::time::timeout;

use super::super::protocol::{How, Stored};
use super::tests::{Fixture, until};
use super::*;
use crate::api::database::agent::{Record, State};

fn lines(path: &Path) -> usize {
    std::fs::read_to_string(path).unwrap_or_default().lines().count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_cuts_off_the_copy_that_is_being_made_with_all_its_processes() {
    let mut fixture = Fixture::new(&[("pg_basebackup", "exec 3<&0; sleep 600 <&3 & wait")]);
    let volume = Arc::clone(&fixture.supervisor.tools.volume);
    fixture.join();
    let made = timeout(Duration::from_millis(100), work_of(&mut fixture.supervisor.work));
    assert!(made.await.is_err(), "it takes long");
    until("the copy is made", || volume.holders().unwrap().len() == 2).await;
    fixture.supervisor.carry_out(Command::Stop(How::Fast));
    fixture.work().await;
    assert!(fixture.supervisor.work.is_none());
    assert_eq!(volume.holders().unwrap(), []);
    assert!(matches!(fixture.supervisor.data, Data::Broken(_)));
}

#[rstest]
#[case::rewound_from_one_that_takes_no_connection(Command::Rewind("a-1".to_owned()), false)]
#[case::rewound_from_one_that_refuses_this_one(Command::Rewind("a-1".to_owned()), true)]
#[case::copied_from_one_that_takes_no_connection(Command::Join("a-1".to_owned()), false)]
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_could_not_be_mended_for_want_of_a_primary_is_the_replica_that_it_was(
    #[case] mend: Command,
    #[case] takes: bool,
) {
    let refused = "echo 'pg_rewind: error: connection to server at \"a-1\" (127.0.0.1), port 5432 failed: FATAL: no' >&2; exit 1";
    let mut fixture = Fixture::new(&[("pg_rewind", refused), ("pg_basebackup", refused)]);
    if !takes {
        fixture.primary = None;
    }
    let data = fixture.options.data();
    std::fs::create_dir(&data).unwrap();
    for name in ["PG_VERSION", "standby.signal"] {
        std::fs::write(data.join(name), "15\n").unwrap();
    }
    fixture.supervisor.carry_out(mend);
    fixture.work().await;
    assert!(data.join("standby.signal").exists());
    assert!(!fixture.options.unfinished().exists());
    let message = fixture.message();
    assert!(message.contains("connect"), "{message}");
}

/// It may be the only one that has what was committed without waiting for anybody.
#[tokio::test(flavor = "multi_thread")]
async fn data_that_could_not_be_rewound_is_put_aside_and_what_a_copy_left_is_not() {
    let fails = "echo 'pg_rewind: error: could not find previous WAL record at 0/2000028' >&2; exit 1";
    let mut fixture = Fixture::new(&[("pg_rewind", fails), ("pg_basebackup", "exit 1")]);
    let (data, volume) = (fixture.options.data(), fixture.options.volume.clone());
    std::fs::create_dir(&data).unwrap();
    for name in ["PG_VERSION", "what nobody else has"] {
        std::fs::write(data.join(name), "15\n").unwrap();
    }
    fixture.supervisor.carry_out(Command::Rewind("a-1".to_owned()));
    fixture.work().await;
    assert_eq!(
        fixture.supervisor.data,
        Data::Broken("unfinished: rewind".to_owned())
    );
    for _ in 0..2 {
        fixture.supervisor.attempts = Attempts::default();
        fixture.join();
        fixture.work().await;
        std::fs::create_dir_all(&data).unwrap();
        std::fs::write(data.join("what a copy left"), "").unwrap();
    }
    assert!(volume.join("data.1.old/what nobody else has").exists());
    assert!(!volume.join("data.2.old").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_fails_is_tried_more_and_more_seldom_and_the_report_says_why() {
    let script = "echo once >>../tries; echo 'pg_basebackup: error: the dog ate it' >&2; exit 1";
    let mut fixture = Fixture::new(&[("pg_basebackup", script)]);
    let tries = fixture.options.volume.join("../tries");
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(2500) {
        fixture.join();
        if fixture.supervisor.work.is_some() {
            fixture.work().await;
        }
        sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(
        lines(&tries),
        2,
        "at once, and after a second; then after two more"
    );
    let message = fixture.message();
    assert!(
        message.contains("the dog ate it") && message.contains("a-1"),
        "{message}"
    );
    assert_ne!(fixture.supervisor.shown.borrow().report.state, State::Joining);
}

#[tokio::test(flavor = "multi_thread")]
async fn where_there_is_no_room_beside_what_was_put_aside_it_stays_and_a_person_is_told_which_it_is() {
    let script = "echo 'pg_basebackup: error: could not write to file: No space left on device' >&2; exit 1";
    let mut fixture = Fixture::new(&[("pg_basebackup", script)]);
    let options = fixture.options.clone();
    std::fs::create_dir(options.data()).unwrap();
    std::fs::write(options.data().join("PG_VERSION"), "15\n").unwrap();
    fixture.join();
    fixture.work().await;
    let aside = options.volume.join("data.1.old");
    assert!(aside.join("PG_VERSION").exists());
    let message = fixture.message();
    let command = format!("kubectl exec a-0 -c postgres -- rm -r {}", aside.display());
    assert!(message.contains(&command), "{message}");
    // A copy that was whole and yet of no use.
    std::fs::create_dir_all(options.data()).unwrap();
    std::fs::remove_file(options.unfinished()).unwrap();
    fixture.supervisor.attempts.succeeded();
    fixture.join();
    fixture.work().await;
    assert!(aside.join("PG_VERSION").exists());
    assert!(
        !options.volume.join("data.2.old").exists(),
        "each of those would fill the volume"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_of_data_that_was_being_removed_shields_nothing_and_goes_before_the_next_copy() {
    let mut fixture = Fixture::new(&[("pg_basebackup", "exit 1")]);
    let options = fixture.options.clone();
    // The process ended while it removed this.
    let remains = options.volume.join("data.1.removing");
    std::fs::create_dir(&remains).unwrap();
    std::fs::write(remains.join("half"), "").unwrap();
    std::fs::create_dir(options.data()).unwrap();
    std::fs::write(options.data().join("PG_VERSION"), "15\n").unwrap();
    fixture.join();
    fixture.work().await;
    assert!(options.volume.join("data.1.old/PG_VERSION").exists());
    assert!(!remains.exists());
}

/// It is found before anything is made of the data, and told whatever becomes of that, also by the process after this one.
#[tokio::test(flavor = "multi_thread")]
async fn up_to_where_a_primary_wrote_is_told_while_its_data_is_copied_and_after_that_was_cut_off() {
    let ends = "echo 'pg_waldump: error: error in WAL record at 0/3000140: invalid record length at 0/30001A8: wanted 24, got 0' >&2; exit 1";
    let mut fixture = Fixture::new(&[("pg_waldump", ends), ("pg_basebackup", "sleep 600")]);
    let wal = fixture.options.data().join("pg_wal");
    std::fs::create_dir_all(&wal).unwrap();
    std::fs::write(wal.join("000000020000000000000003"), "").unwrap();
    fixture.supervisor.data = Data::Present(Stored {
        timeline: 2,
        end: Lsn(0x300_0028),
        segment: 16 << 20,
        ..Stored::default()
    });
    let record = Record {
        missing: Some((Lsn(0x300_0100), Lsn(0x300_0100))),
        missing_since: 3,
        missing_on: 2,
        ..Record::default()
    };
    fixture.see(&record);
    fixture.join();
    fixture.work().await;
    fixture.join();
    assert!(matches!(fixture.supervisor.work, Some((Work::Joining, _))));
    let told = Some((3, Lsn(0x300_01A8)));
    assert_eq!(fixture.report().wrote_up_to, told);
    fixture.supervisor.carry_out(Command::Stop(How::Fast));
    fixture.work().await;
    assert_eq!(fixture.report().wrote_up_to, told);
    assert_eq!(
        left::kept(&fixture.options).map(|found| (found.since, found.end)),
        told.map(|(since, end)| (since, Some(end)))
    );
}
