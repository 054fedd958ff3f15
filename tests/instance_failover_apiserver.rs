//! Failover between real instances, with a real API server and real PostgreSQL; nobody but the instances themselves acts. Clients write all the time, and a
//! ledger knows what was acknowledged to them.

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

use database_processes::{Authority, Database, LIMIT};
use database_writers::Writers;
use roadstead::api::database::agent::{RESTART, Report, SWITCHOVER, Synchronous, User};
use roadstead::api::reference::KeyReference;
use rustix::process::{Signal, kill_process};
use serde_json::json;

fn figure(name: &str, pause: Duration) {
    println!("figure {name} {:.1} s", pause.as_secs_f64());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_whose_container_ended_is_replaced_and_comes_back_as_a_replica() {
    let database = Arc::new(Database::serving("ended", 10, 3, Synchronous::Required).await);
    let writers = Writers::start(&database).await;
    let primary = database.primary().await.unwrap();
    let killed = Instant::now();
    database.kill(primary, true).await;
    let next = database.another_primary(primary).await;
    let pause = writers.resume(&database, killed).await;
    figure("container_ended", pause);
    assert!(pause < Duration::from_secs(10), "{pause:?}\n{}", database.logs());
    database.start(primary);
    database.whole().await;
    assert_eq!(database.primary().await, Some(next), "nobody takes it back");
    writers.finish(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_merely_vanished_is_replaced_once_its_lease_has_run_out() {
    let database = Arc::new(Database::serving("vanished", 20, 2, Synchronous::Required).await);
    let writers = Writers::start(&database).await;
    let primary = database.primary().await.unwrap();
    let killed = Instant::now();
    database.replace(primary).await;
    let next = database.another_primary(primary).await;
    assert!(
        killed.elapsed() > Duration::from_secs(5),
        "{:?}: its lease had not run out",
        killed.elapsed()
    );
    // The new pod has the old one's volume.
    database.start(primary);
    let pause = writers.resume(&database, killed).await;
    figure("pod_vanished", pause);
    database.whole().await;
    assert_eq!(database.primary().await, Some(next));
    writers.finish(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_postmaster_that_was_killed_is_started_again_in_place() {
    let database = Arc::new(Database::serving("postmaster", 30, 2, Synchronous::Preferred).await);
    let writers = Writers::start(&database).await;
    let primary = database.primary().await.unwrap();
    let killed = Instant::now();
    kill_process(database.instances[primary].postmaster(), Signal::KILL).unwrap();
    let pause = writers.resume(&database, killed).await;
    figure("postmaster_killed", pause);
    assert!(pause < Duration::from_secs(8), "{pause:?}\n{}", database.logs());
    // Sessions outlive it for a moment, and may have been what answered.
    database.whole().await;
    assert_eq!(database.primary().await, Some(primary));
    writers.finish(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_hangs_is_killed_and_replaced() {
    let database = Arc::new(Database::serving("hung", 40, 2, Synchronous::Required).await);
    let writers = Writers::start(&database).await;
    let primary = database.primary().await.unwrap();
    let stopped = Instant::now();
    database.instances[primary].signal_all(Signal::STOP);
    database.another_primary(primary).await;
    database.whole().await;
    let pause = writers.resume(&database, stopped).await;
    figure("hung", pause);
    assert!(pause < Duration::from_secs(40), "{pause:?}\n{}", database.logs());
    writers.finish(&database).await;
}

/// PostgreSQL ends, and nothing can be told of its data.
#[tokio::test(flavor = "multi_thread")]
async fn a_primary_whose_volume_cannot_be_read_gives_way_and_ends_when_it_is_asked_to() {
    let database = Arc::new(Database::serving("unreadable", 120, 2, Synchronous::Preferred).await);
    let writers = Writers::start(&database).await;
    let primary = database.primary().await.unwrap();
    database.settled().await;
    let version = database.instances[primary].version_file();
    let broken = Instant::now();
    std::fs::write(&version, "14\n").unwrap();
    kill_process(database.instances[primary].postmaster(), Signal::KILL).unwrap();
    let next = database.another_primary(primary).await;
    let pause = writers.resume(&database, broken).await;
    figure("volume_unreadable", pause);
    assert!(pause < Duration::from_secs(10), "{pause:?}\n{}", database.logs());
    let report = database.report(primary).await.unwrap();
    let message = report.message.unwrap_or_default();
    assert!(message.contains("PostgreSQL 14"), "{message}");

    let asked = Instant::now();
    database.instances[primary].ask_to_stop();
    database
        .until(LIMIT, "it has ended", async || {
            !database.instances[primary].is_running()
        })
        .await;
    assert!(asked.elapsed() < Duration::from_secs(8), "{:?}", asked.elapsed());
    std::fs::write(&version, "15\n").unwrap();
    database.start(primary);
    database.whole().await;
    assert_eq!(database.primary().await, Some(next));
    writers.finish(&database).await;
}

/// Commits wait for nobody, so nothing but its own end keeps the earlier primary from acknowledging what will be lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_manager_that_hangs_costs_its_postgresql_its_life_before_another_takes_over() {
    let database = Arc::new(Database::serving("stuck", 130, 2, Synchronous::Off).await);
    let primary = database.primary().await.unwrap();
    let other = 1 - primary;
    database.settled().await;
    let stuck = Instant::now();
    let settings = database.instances[primary].hang_the_manager();
    let instance = &database.instances[primary];
    let mut ended = None;
    database
        .until(LIMIT, "there is another primary", async || {
            if ended.is_none() && instance.processes().is_empty() {
                ended = Some(stuck.elapsed());
            }
            let leads = database.ask(other, "SELECT pg_is_in_recovery()::text").await;
            let leads = leads == Ok("false".to_owned());
            assert!(
                !leads || ended.is_some() || instance.processes().is_empty(),
                "two primaries\n{}",
                database.logs()
            );
            leads
        })
        .await;
    let ended = ended.unwrap();
    figure("manager_stuck", ended);
    assert!(ended < Duration::from_secs(7), "{ended:?}");
    assert!(instance.is_running(), "the manager itself still hangs");
    settings.let_go();
    database.whole().await;
    assert_eq!(database.primary().await, Some(other));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_is_asked_to_stop_hands_over_at_once() {
    let database = Arc::new(Database::serving("handed", 50, 2, Synchronous::Required).await);
    let writers = Writers::start(&database).await;
    let primary = database.primary().await.unwrap();
    let asked = Instant::now();
    database.instances[primary].ask_to_stop();
    database.another_primary(primary).await;
    let pause = {
        // With two instances commits wait until the other one is back.
        let started = Instant::now();
        while database.instances[primary].is_running() {
            assert!(started.elapsed() < LIMIT, "{}", database.logs());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        database.start(primary);
        writers.resume(&database, asked).await
    };
    figure("asked_to_stop", pause);
    database.whole().await;
    writers.finish(&database).await;
}

/// Its first write, as clients write, waits for as long; its sign of life must not wait for that.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_took_over_is_left_alone_however_long_the_only_standby_is_away() {
    let database = Arc::new(Database::serving("lonely", 170, 2, Synchronous::Required).await);
    let primary = database.primary().await.unwrap();
    database.settled().await;
    database.instances[primary].ask_to_stop();
    let next = database.another_primary(primary).await;
    let state = async || {
        let begun = database
            .ask(next, "SELECT pg_postmaster_start_time()::text")
            .await;
        let (holder, _, transitions) = database.lease().await;
        (holder, transitions, begun.unwrap_or_default())
    };
    let before = state().await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(state().await, before, "{}", database.logs());
    database.start(primary);
    database.whole().await;
    assert_eq!(database.primary().await, Some(next));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_lost_its_volume_is_made_anew() {
    let database = Arc::new(Database::serving("wiped", 80, 2, Synchronous::Required).await);
    let writers = Writers::start(&database).await;
    let primary = database.primary().await.unwrap();
    let other = 1 - primary;
    for victim in [other, primary] {
        let from = Instant::now();
        database.replace(victim).await;
        database.instances[victim].lose_volume();
        database.start(victim);
        writers.resume(&database, from).await;
        database.whole().await;
    }
    assert_eq!(database.primary().await, Some(other));
    writers.finish(&database).await;
}

/// What it said that it had written, another one has.
#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_comes_back_on_an_older_volume_gives_way_and_is_copied_anew() {
    let database = Arc::new(Database::serving("older", 180, 2, Synchronous::Required).await);
    let writers = Writers::start(&database).await;
    let primary = database.primary().await.unwrap();
    database.settled().await;
    let instance = &database.instances[primary];
    database.kill(primary, false).await;
    instance.keep_volume();
    // In less than the lease duration, so that it goes on.
    database.start(primary);
    writers.some(&database).await;
    assert_eq!(database.primary().await, Some(primary), "{}", database.logs());
    database.whole().await;
    database.settled().await;
    let killed = Instant::now();
    database.kill(primary, false).await;
    instance.return_to_kept_volume();
    database.start(primary);
    let next = database.another_primary(primary).await;
    let pause = writers.resume(&database, killed).await;
    figure("older_volume", pause);
    database.whole().await;
    assert_eq!(database.primary().await, Some(next));
    assert!(
        database.has_logged("its volume is an older one"),
        "{}",
        database.logs()
    );
    writers.finish(&database).await;
}

/// Of what it had written nobody can tell whether it is there. Another one has it.
#[tokio::test(flavor = "multi_thread")]
async fn a_primary_whose_log_cannot_be_read_gives_way() {
    let database = Arc::new(Database::serving("blind", 200, 2, Synchronous::Required).await);
    let writers = Writers::start(&database).await;
    let primary = database.primary().await.unwrap();
    let killed = Instant::now();
    database.kill(primary, false).await;
    database.instances[primary].cannot_read_its_log();
    database.start(primary);
    let next = database.another_primary(primary).await;
    let pause = writers.resume(&database, killed).await;
    figure("unreadable_log", pause);
    database.whole().await;
    assert_eq!(database.primary().await, Some(next));
    assert!(
        database.has_logged("cannot tell whether the log goes up to"),
        "{}",
        database.logs()
    );
    writers.finish(&database).await;
}

/// All have this many connections, and no setting waits for anything.
async fn has_connections(database: &Database, connections: &str) {
    database
        .until(
            LIMIT,
            &format!("all have {connections} connections"),
            async || {
                for index in 0..database.instances.len() {
                    let there = database
                        .ask(index, "SELECT current_setting('max_connections')")
                        .await;
                    let waits = database.report(index).await.map(|report| report.pending_restart);
                    if (there, waits) != (Ok(connections.to_owned()), Ok(Vec::new())) {
                        return false;
                    }
                }
                true
            },
        )
        .await;
}

async fn until_it_waits(database: &Database, index: usize) -> Report {
    let mut found = Report::default();
    database
        .until(LIMIT, "a setting waits for a restart", async || {
            found = database.report(index).await.unwrap_or_default();
            found.pending_restart == ["max_connections"]
        })
        .await;
    found
}

/// Has a replica start PostgreSQL again, once a setting waits for that and all are well.
async fn start_again(database: &Database, replica: usize) {
    database.whole().await;
    until_it_waits(database, replica).await;
    let begun = database.order(replica, RESTART, json!({"why": "a test"}));
    begun.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_setting_that_needs_a_restart_is_lowered_and_raised_with_one_short_pause_each() {
    let database = Arc::new(Database::serving("restarted", 90, 3, Synchronous::Required).await);
    let writers = Writers::start(&database).await;
    let primary = database.primary().await.unwrap();
    let replicas: Vec<usize> = (0..3).filter(|index| *index != primary).collect();
    let nothing = database.order(primary, RESTART, json!({"why": "a test"})).await;
    assert!(nothing.unwrap_err().contains("no setting waits"));

    let connections = |value: &str| {
        database.configure(|settings| {
            settings.parameters.insert("max_connections".into(), value.into());
        });
    };
    connections("60");
    assert!(until_it_waits(&database, primary).await.lowered);
    // A replica that has to start before its primary did goes by what that has.
    kill_process(database.instances[replicas[0]].postmaster(), Signal::KILL).unwrap();
    database.whole().await;
    assert!(!until_it_waits(&database, replicas[0]).await.lowered);

    let asked = Instant::now();
    database
        .order(primary, RESTART, json!({"why": "a test"}))
        .await
        .unwrap();
    let mut told = None;
    database
        .until(LIMIT, "the primary tells how long the pause was", async || {
            told = database
                .report(primary)
                .await
                .ok()
                .and_then(|report| report.pause);
            told.is_some()
        })
        .await;
    let again = database.order(primary, RESTART, json!({"why": "a test"})).await;
    assert!(again.is_err(), "whoever asks twice gets one restart");
    let pause = writers.resume(&database, asked).await;
    figure("restarted_in_place", pause);
    let told = Duration::from_millis(told.unwrap().milliseconds);
    assert!(
        pause < Duration::from_secs(8) && told <= pause + Duration::from_secs(1),
        "{pause:?}, said to be {told:?}"
    );
    assert_eq!(database.primary().await, Some(primary));
    for replica in &replicas {
        start_again(&database, *replica).await;
        database
            .until(LIMIT, "it was started again", async || {
                database
                    .report(*replica)
                    .await
                    .is_ok_and(|report| report.pending_restart.is_empty())
            })
            .await;
    }
    has_connections(&database, "60").await;

    connections("80");
    for replica in &replicas {
        start_again(&database, *replica).await;
    }
    database.whole().await;
    assert!(!until_it_waits(&database, primary).await.lowered);
    let asked = hand_over(&database, primary, replicas[0]).await;
    let pause = writers.resume(&database, asked).await;
    figure("handed_over", pause);
    assert!(pause < Duration::from_secs(8), "{pause:?}\n{}", database.logs());
    database.whole().await;
    has_connections(&database, "80").await;
    let told = database.report(replicas[0]).await.unwrap().pause.unwrap();
    assert!(
        Duration::from_millis(told.milliseconds) <= pause + Duration::from_secs(1),
        "{told:?}, and it was {pause:?}"
    );
    writers.finish(&database).await;
}

/// Has the one take over from the other; gives the moment in which that began. It is refused until the one is known to be able to, and asked again, as
/// the operator does.
async fn hand_over(database: &Database, from: usize, to: usize) -> Instant {
    let order = json!({"to": database.instances[to].name, "why": "a test"});
    database
        .until(LIMIT, "the handover begins", async || {
            database.order(from, SWITCHOVER, order.clone()).await.is_ok()
        })
        .await;
    let begun = Instant::now();
    assert_eq!(database.another_primary(from).await, to);
    begun
}

/// As a rollout makes pods anew for another Secret: one by one, and each knows its own alone.
#[tokio::test(flavor = "multi_thread")]
async fn instances_follow_each_other_whoever_vouches_for_what_they_show() {
    let database = Arc::new(Database::serving("certified", 110, 2, Synchronous::Required).await);
    let writers = Writers::start(&database).await;
    let [first, second] = ["the author's", "the author's next"].map(Authority::named);
    for named in [Some(&first), Some(&second), None] {
        let primary = database.primary().await.unwrap();
        let replica = 1 - primary;
        database.replace(replica).await;
        database.instances[replica].name_certificate(named);
        database.start(replica);
        database.whole().await;
        hand_over(&database, primary, replica).await;
        database.whole().await;
        writers.some(&database).await;
    }
    let refused = 1 - database.primary().await.unwrap();
    database.instances[refused].spoil_certificate();
    database
        .until(LIMIT, "it says why it does not show it", async || {
            let report = database.report(refused).await.unwrap_or_default();
            report.certificate.is_some_and(|why| why.contains("tls.crt"))
        })
        .await;
    database.whole().await;
    writers.finish(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_logs_in_with_what_the_secret_says_whoever_is_the_primary() {
    let database = Database::serving("users", 100, 2, Synchronous::Preferred).await;
    let password_secret = KeyReference {
        name: "app-password".to_owned(),
        key: "password".to_owned(),
    };
    database.configure(|settings| {
        settings.users.push(User {
            name: "app".to_owned(),
            password_secret: Some(password_secret),
            login: true,
            ..User::default()
        });
        // Whatever there is that has PostgreSQL log statements.
        let all = [
            ("log_statement", "all"),
            ("log_min_duration_statement", "0"),
            ("log_min_duration_sample", "0"),
            ("log_statement_sample_rate", "1"),
            ("log_transaction_sample_rate", "1"),
            ("debug_print_parse", "on"),
            ("debug_print_rewritten", "on"),
            ("debug_print_plan", "on"),
        ];
        let all = all.map(|(name, value)| (name.to_owned(), value.to_owned()));
        settings.parameters.extend(all);
    });
    let primary = database.primary().await.unwrap();
    database
        .until(LIMIT, "it says what is missing", async || {
            let report = database.report(primary).await.unwrap_or_default();
            report.made.is_none() && report.unmade == ["spec.users[app]: there is no Secret app-password"]
        })
        .await;
    database.put_password("app-password", "staple-1").await;
    let logs_in = async |index: usize, password: &str| {
        database
            .until(LIMIT, "the user logs in", async || {
                database.log_in(index, "app", password).await.is_ok()
            })
            .await;
        database
            .until(LIMIT, "it says that all is there", async || {
                let report = database.report(index).await.unwrap_or_default();
                report.made.is_some() && report.made == report.settings && report.unmade.is_empty()
            })
            .await;
    };
    logs_in(primary, "staple-1").await;
    let other = database.report(1 - primary).await.unwrap();
    assert_eq!(other.made, None, "a replica makes nothing");
    let changed = Instant::now();
    database.put_password("app-password", "staple-2").await;
    logs_in(primary, "staple-2").await;
    figure("password_rotated", changed.elapsed());
    let old = database.log_in(primary, "app", "staple-1").await;
    assert_eq!(old, Err("28P01".to_owned()));

    // The owner's is in a file.
    database.tell_password("staple-0");
    database
        .until(LIMIT, "the owner logs in", async || {
            let owner = database.log_in(primary, "users", "staple-0");
            owner.await.is_ok()
        })
        .await;

    // It changes while nobody leads.
    database.kill(primary, true).await;
    database.put_password("app-password", "staple-3").await;
    let next = database.another_primary(primary).await;
    logs_in(next, "staple-3").await;
    // Somebody's statements are, by which one knows where to look.
    database.ask(next, "SELECT 'of somebody'").await.unwrap();
    database
        .until(LIMIT, "it is logged", async || database.has_logged("of somebody"))
        .await;
    for secret in ["staple-", "SCRAM-SHA-256$"] {
        assert!(!database.has_logged(secret), "{secret} is in a log");
    }
}
