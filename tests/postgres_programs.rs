//! The edge to PostgreSQL against real PostgreSQL, on loopback. One major version, the newest that is installed or that `ROADSTEAD_TEST_POSTGRES_MAJOR` names.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test fails by panicking

#[path = "support/postgres.rs"]
mod postgres;

use std::time::Duration;

use postgres::{Authority, Instance, PASSWORD, SOON, lock, two};
use roadstead::api::database::agent::{Lsn, Quorum};
use roadstead::api::database::settings_of;
use roadstead::instance::postgres::canary::{Beat, Canary};
use roadstead::instance::postgres::history::{placeholder_history, remove_placeholders};
use roadstead::instance::postgres::postmaster::{Postmaster, kill_all};
use roadstead::instance::postgres::protocol::{Data, Stored};
use roadstead::instance::postgres::sql::{Local, SqlError};
use roadstead::instance::postgres::volume::{Volume, VolumeError};
use rustix::process::{Signal, kill_process};
use tokio::time::{Instant, timeout};

async fn stored_or_nothing(instance: &Instance) -> Data {
    let programs = &instance.programs;
    let data = instance.volume().data(&programs.bin, programs.major);
    data.await.unwrap()
}

async fn stored(instance: &Instance) -> Stored {
    match stored_or_nothing(instance).await {
        Data::Present(stored) => stored,
        other => panic!("{other:?}"),
    }
}

/// A database's whole life: two histories part, and the one that was given up is taken back to where they parted.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_takes_over_and_the_old_primary_follows_it() {
    let [mut zero, mut one] = two().await;
    assert_eq!(stored_or_nothing(&zero).await, Data::Empty);
    zero.initialise().await;
    one.join(0).await;
    let replica = one
        .observe_until("streaming", |seen| {
            seen.streaming && seen.received > Lsn::default()
        })
        .await;
    assert_eq!(
        (replica.primary, replica.timeline, replica.upstream.as_deref()),
        (false, 1, Some("orders-0"))
    );

    // Commits wait for it from the next reload on.
    let quorum = Quorum {
        standbys: ["orders-1".to_owned()].into(),
        need: 1,
    };
    assert!(zero.configure(None, Some(&quorum)));
    zero.postmaster.as_ref().unwrap().reload();
    let primary = zero
        .observe_until("a synchronous replica", |seen| {
            seen.quorum.is_some() && seen.standbys.iter().any(|standby| standby.synchronous)
        })
        .await;
    assert_eq!(primary.quorum, Some(quorum));
    assert_eq!(primary.standbys[0].name, "orders-1");
    let person = zero.connect("postgres", "postgres").await.unwrap();
    person
        .batch_execute("CREATE TABLE public.kept (n int); INSERT INTO public.kept VALUES (1)")
        .await
        .unwrap();

    // The primary dies, and what it wrote after that is nobody else's.
    one.kill().await;
    zero.configure(None, None);
    zero.postmaster.as_ref().unwrap().reload();
    zero.observe_until("no quorum", |seen| seen.quorum.is_none())
        .await;
    person
        .batch_execute("INSERT INTO public.kept VALUES (2)")
        .await
        .unwrap();
    zero.kill().await;
    assert!(!stored(&zero).await.clean);
    assert!(stored(&one).await.standby);
    one.start().await;
    one.local.promote().await.unwrap();
    let primary = one.observe_until("its promotion", |seen| seen.primary).await;
    assert_eq!((primary.timeline, primary.upstream), (2, None));
    one.local.checkpoint().await.unwrap();
    let settings = one.settings.clone();
    one.local.prepare(&settings, Some(PASSWORD)).await.unwrap();

    zero.configure(Some(1), None);
    zero.programs
        .rewind(&zero.options, zero.volume(), "127.0.0.3")
        .await
        .unwrap();
    assert!(stored(&zero).await.standby);
    zero.start().await;
    let replica = zero.observe_until("streaming", |seen| seen.streaming).await;
    assert_eq!(
        (replica.timeline, replica.upstream.as_deref()),
        (2, Some("orders-1"))
    );
    let end = one.local.observe(&settings.members).await.unwrap().received;
    zero.observe_until("the end", |seen| seen.replayed >= end).await;
    let person = zero.connect("postgres", "postgres").await.unwrap();
    let rows = person.query("SELECT n FROM public.kept", &[]).await.unwrap();
    assert_eq!(
        rows.iter().map(|row| row.get(0)).collect::<Vec<i32>>(),
        [1],
        "what only the old primary had is gone"
    );

    // A replica that stops in order says so.
    assert!(zero.stop().await.success());
    let stored = stored(&zero).await;
    assert_eq!((stored.timeline, stored.standby, stored.clean), (2, true, true));
}

/// orders-1 has heard of timeline 1 alone, and the Lease says that 4 was begun.
#[tokio::test(flavor = "multi_thread")]
async fn a_timeline_that_was_begun_elsewhere_is_not_begun_again() {
    let [mut zero, mut one] = two().await;
    zero.initialise().await;
    one.join(0).await;
    one.observe_until("streaming", |seen| seen.streaming).await;
    placeholder_history(&one.options, 1, 4).unwrap();
    // It looks for newer timelines whenever its connection breaks, and goes on with its own.
    zero.stop().await;
    one.observe_until("the end of the stream", |seen| !seen.streaming)
        .await;
    zero.start().await;
    one.observe_until("streaming", |seen| seen.streaming && seen.timeline == 1)
        .await;

    // Its start never comes to an end beside them.
    assert!(one.stop().await.success());
    one.volume().clean().unwrap();
    one.postmaster = Some(Postmaster::start(&one.programs, &one.options, one.volume()).unwrap());
    tokio::time::sleep(Duration::from_secs(2)).await;
    let error = one.local.observe(&[]).await.unwrap_err();
    assert!(
        matches!(&error, SqlError::Answered { code, .. } if code == "57P03"),
        "{error}"
    );
    one.kill().await;
    remove_placeholders(&one.options, 1).unwrap();
    one.start().await;
    placeholder_history(&one.options, 1, 4).unwrap();
    one.local.promote().await.unwrap();
    let primary = one.observe_until("its promotion", |seen| seen.primary).await;
    assert_eq!(primary.timeline, 5);

    // Who comes from before gets all of them from it, and again after a restart of either.
    one.local.checkpoint().await.unwrap();
    assert!(zero.stop().await.success());
    zero.configure(Some(1), None);
    zero.programs
        .rewind(&zero.options, zero.volume(), "127.0.0.3")
        .await
        .unwrap();
    zero.start().await;
    zero.observe_until("streaming", |seen| seen.streaming && seen.timeline == 5)
        .await;
    assert!(zero.stop().await.success());
    assert!(one.stop().await.success());
    remove_placeholders(&one.options, 5).unwrap();
    one.start().await;
    zero.start().await;
    zero.observe_until("streaming", |seen| seen.streaming && seen.timeline == 5)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lock_is_held_while_a_stray_backend_lives() {
    let [mut zero, _] = two().await;
    zero.initialise().await;
    let person = zero.connect("postgres", "postgres").await.unwrap();
    let row = person.query_one("SELECT pg_backend_pid()", &[]).await.unwrap();
    let backend = rustix::process::Pid::from_raw(row.get(0)).unwrap();
    kill_process(backend, Signal::STOP).unwrap();
    let mut postmaster = zero.postmaster.take().unwrap();
    kill_process(postmaster.pid(), Signal::KILL).unwrap();
    postmaster.wait().await.unwrap();
    drop(postmaster);
    // The manager is gone as well, or so it is to the kernel.
    let held = zero.volume.take().unwrap();
    let holders = held.holders().unwrap();
    drop(held);
    assert!(holders.contains(&backend), "{holders:?}");
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(matches!(Volume::lock(&zero.options), Err(VolumeError::Held(_))));
    kill_process(backend, Signal::KILL).unwrap();
    zero.volume = Some(lock(&zero.options).await);
    assert_eq!(zero.volume().holders().unwrap(), []);
    // What it has left behind does not keep it from starting, whoever has its process id now.
    let pid_file = zero.options.data().join("postmaster.pid");
    let text = std::fs::read_to_string(&pid_file).unwrap();
    let own = std::process::id().to_string();
    let rest = text.split_once('\n').unwrap().1;
    std::fs::write(&pid_file, format!("{own}\n{rest}")).unwrap();
    zero.start().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_of_a_server_whose_processes_were_stopped() {
    let [mut zero, _] = two().await;
    zero.initialise().await;
    let mut canary = Canary::new(&zero.options);
    assert_eq!(canary.beat().await, Beat::Committed);
    for pid in zero.volume().holders().unwrap() {
        kill_process(pid, Signal::STOP).unwrap();
    }
    let began = Instant::now();
    let error = zero.local.observe(&[]).await.unwrap_err();
    assert!(matches!(error, SqlError::Silent(_)), "{error}");
    assert!(began.elapsed() < Duration::from_secs(7), "{:?}", began.elapsed());
    let began = Instant::now();
    assert!(matches!(canary.beat().await, Beat::Silent(_)));
    assert!(began.elapsed() < Duration::from_secs(11), "{:?}", began.elapsed());
    let began = Instant::now();
    assert!(kill_all(zero.volume(), SOON).await.unwrap());
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    let status = zero.postmaster.as_mut().unwrap().wait().await.unwrap();
    assert!(!status.success());
    zero.start().await;
    assert_eq!(canary.beat().await, Beat::Committed);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_process_stopped_alone_is_noticed() {
    let [mut zero, _] = two().await;
    zero.initialise().await;
    let postmaster = zero.postmaster.as_ref().unwrap().pid();
    kill_process(postmaster, Signal::STOP).unwrap();
    let mut canary = Canary::new(&zero.options);
    assert!(matches!(canary.beat().await, Beat::Silent(_)));
    zero.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_are_reloaded_and_those_that_wait_for_a_restart_are_named() {
    let [mut zero, _] = two().await;
    zero.initialise().await;
    zero.settings.parameters.extend([
        ("max_connections".to_owned(), "50".to_owned()),
        ("work_mem".to_owned(), "a lot".to_owned()),
    ]);
    assert!(zero.configure(None, None));
    assert!(!zero.configure(None, None));
    zero.postmaster.as_ref().unwrap().reload();
    let until = Instant::now() + SOON;
    let configuration = loop {
        let configuration = zero.local.configuration().await.unwrap();
        if !configuration.refused.is_empty() || Instant::now() > until {
            break configuration;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(configuration.refused.len(), 1, "{configuration:?}");
    assert!(
        configuration.refused[0]
            .starts_with(r#"work_mem is "a lot": setting could not be applied; accepted: integer from 64"#),
        "{configuration:?}"
    );
    zero.settings.parameters.remove("work_mem");
    zero.configure(None, None);
    zero.postmaster.as_ref().unwrap().reload();
    let until = Instant::now() + SOON;
    let pending = [("max_connections".to_owned(), "100".to_owned())].into();
    while zero.local.configuration().await.unwrap().pending_restart != pending {
        assert!(Instant::now() < until);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // It would not start with this.
    let nonsense = ("shared_buffers".to_owned(), "banana".to_owned());
    zero.settings.parameters.extend([nonsense]);
    zero.configure(None, None);
    zero.postmaster.as_ref().unwrap().reload();
    let until = Instant::now() + SOON;
    loop {
        let refused = zero.local.configuration().await.unwrap().refused;
        if refused
            .iter()
            .any(|refused| refused.starts_with(r#"shared_buffers is "banana": "#))
        {
            break;
        }
        assert!(Instant::now() < until, "{refused:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// What validation lets pass, PostgreSQL starts with.
#[tokio::test(flavor = "multi_thread")]
async fn the_settings_that_a_spec_may_name_are_those_that_postgresql_knows() {
    let [mut zero, _] = two().await;
    zero.initialise().await;
    let client = zero.connect("postgres", "postgres").await.unwrap();
    let table: Vec<_> = settings_of(zero.programs.major).collect();
    assert!(table.len() > 300, "{table:?}");
    // Also of settings that the view leaves out, and by former names.
    let unknown = "SELECT name FROM unnest($1::text[]) AS name WHERE current_setting(name, true) IS NULL";
    let unknown = client.query(unknown, &[&table]).await.unwrap();
    // Minor releases of late 2026 brought these.
    let recent = ["composite_type_mismatch", "output_plugin_libraries"];
    let unknown: Vec<String> = unknown.iter().map(|row| row.get(0)).collect();
    let unknown: Vec<_> = unknown
        .iter()
        .filter(|name| !recent.contains(&name.as_str()))
        .collect();
    assert!(unknown.is_empty(), "PostgreSQL does not know {unknown:?}");
    // What only Debian's builds have is left out.
    let missing = "SELECT name FROM pg_settings WHERE context <> 'internal' AND name NOT LIKE '%.%' \
        AND name <> 'extension_destdir' AND lower(name) <> ALL ($1::text[])";
    let missing = client.query(missing, &[&table]).await.unwrap();
    let missing: Vec<String> = missing.iter().map(|row| row.get(0)).collect();
    assert!(missing.is_empty(), "the table lacks {missing:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_logs_in_as_they_may_and_nobody_else() {
    let [mut zero, _] = two().await;
    zero.initialise().await;
    // Once more, as each new primary does.
    let settings = zero.settings.clone();
    zero.local.prepare(&settings, Some(PASSWORD)).await.unwrap();
    let owner = zero.connect("orders", "orders").await.unwrap();
    owner
        .batch_execute("CREATE TABLE a (n int); INSERT INTO a VALUES (1)")
        .await
        .unwrap();
    let elsewhere = zero.connect("orders", "postgres").await.unwrap();
    let refused = elsewhere.batch_execute("DELETE FROM roadstead.heartbeat").await;
    let refused = refused
        .unwrap_err()
        .as_db_error()
        .unwrap()
        .code()
        .code()
        .to_owned();
    assert_eq!(refused, "42501");
    zero.local.set_owner_password("orders", "another").await.unwrap();
    let refused = zero.connect("orders", "orders").await.unwrap_err();
    assert_eq!(refused.as_db_error().unwrap().code().code(), "28P01");
    let replication = zero.connect("roadstead_replication", "postgres").await;
    let refused = replication.unwrap_err();
    assert_eq!(refused.as_db_error().unwrap().code().code(), "28000");
}

/// The operator's certificate, say, is of the same authority.
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_of_another_name_copies_nothing_and_the_error_says_why() {
    let [mut zero, one] = two().await;
    zero.initialise().await;
    one.authority.mount(&one.options.tls, "operator", "orders-0");
    one.configure(Some(0), None);
    let copy = one.programs.base_backup(&one.options, one.volume(), "127.0.0.2");
    let error = copy.await.unwrap_err().to_string();
    assert!(error.contains("certificate authentication failed"), "{error}");
    assert_eq!(stored_or_nothing(&one).await, Data::Empty);
}

/// Whether a client that trusts this authority alone is let in.
async fn verifies(instance: &Instance, authority: &Authority) -> bool {
    let trusted = instance.options.volume.with_file_name("clients-ca.crt");
    std::fs::write(&trusted, authority.certificate()).unwrap();
    let conninfo = format!(
        "host={} port={} user=orders dbname=orders sslmode=verify-ca sslrootcert={} connect_timeout=5",
        instance.options.address.unwrap(),
        instance.options.port,
        trusted.display()
    );
    let mut psql = tokio::process::Command::new(instance.programs.bin.join("psql"));
    let psql = psql
        .args([&conninfo, "-Atc", "SELECT 1"])
        .env("PGPASSWORD", PASSWORD);
    psql.output().await.unwrap().stdout == b"1\n"
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_and_replicas_verify_the_certificate_that_the_author_names_and_its_renewal() {
    let [mut zero, mut one] = two().await;
    let named = Authority::named("the author's");
    named.mount(&zero.options.server_tls, "orders", "orders.example.com");
    zero.initialise().await;
    one.told = named.certificate().to_owned();
    one.join(0).await;
    one.observe_until("streaming", |seen| seen.streaming).await;
    assert!(verifies(&zero, &named).await);
    let own = zero.authority.clone();
    assert!(!verifies(&zero, &own).await);

    // Another authority, without a restart.
    let later = Authority::named("the author's next");
    later.mount(&zero.options.server_tls, "orders", "orders.example.com");
    zero.configure(None, None);
    zero.postmaster.as_ref().unwrap().reload();
    let until = Instant::now() + SOON;
    while !verifies(&zero, &later).await {
        assert!(Instant::now() < until);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    one.kill().await;
    one.told = later.certificate().to_owned();
    one.configure(Some(0), None);
    one.start().await;
    one.observe_until("streaming", |seen| seen.streaming).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_base_backup_that_nobody_waits_for_leaves_no_process() {
    let [mut zero, mut one] = two().await;
    zero.initialise().await;
    one.configure(Some(0), None);
    // It waits for a checkpoint that never comes.
    for pid in zero.volume().holders().unwrap() {
        kill_process(pid, Signal::STOP).unwrap();
    }
    let copy = one.programs.base_backup(&one.options, one.volume(), "127.0.0.2");
    assert!(timeout(Duration::from_secs(1), copy).await.is_err());
    let until = Instant::now() + SOON;
    while !one.volume().holders().unwrap().is_empty() {
        assert!(Instant::now() < until);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    zero.kill().await;
    zero.start().await;
    one.join(0).await;
    one.observe_until("streaming", |seen| seen.streaming).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_is_refused_shows_that_postgresql_lives() {
    let [mut zero, mut one] = two().await;
    zero.initialise().await;
    one.join(0).await;
    let beat = Canary::new(&one.options).beat().await;
    assert!(
        matches!(&beat, Beat::Answered { code, .. } if code == "25006"),
        "{beat:?}"
    );
    let mut nobody = Local::new(&one.options);
    one.kill().await;
    assert!(matches!(nobody.observe(&[]).await, Err(SqlError::Gone(_))));
    let beat = Canary::new(&one.options).beat().await;
    assert!(matches!(beat, Beat::Silent(_)), "{beat:?}");
    // A server that finds no configuration ends, and its end is seen.
    std::fs::remove_file(one.options.postgresql_conf()).unwrap();
    one.volume().clean().unwrap();
    let mut postmaster = Postmaster::start(&one.programs, &one.options, one.volume()).unwrap();
    let status = timeout(SOON, postmaster.wait()).await.unwrap().unwrap();
    assert!(!status.success());
}

/// Without a rewind: a replica that was behind, whose primary comes back on a timeline three further.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_follows_over_timelines_that_were_skipped() {
    let [mut zero, mut one] = two().await;
    zero.initialise().await;
    one.join(0).await;
    one.observe_until("streaming", |seen| seen.streaming).await;
    // orders-0 becomes a replica of nobody, and is promoted again.
    assert!(zero.stop().await.success());
    roadstead::instance::postgres::programs::follow(&zero.options).unwrap();
    zero.start().await;
    placeholder_history(&zero.options, 1, 3).unwrap();
    zero.local.promote().await.unwrap();
    let primary = zero.observe_until("its promotion", |seen| seen.primary).await;
    assert_eq!(primary.timeline, 4);
    one.observe_until("streaming", |seen| seen.streaming && seen.timeline == 4)
        .await;

    // A replica that was killed can be rewound as well.
    one.kill().await;
    assert!(zero.stop().await.success());
    roadstead::instance::postgres::programs::follow(&zero.options).unwrap();
    zero.start().await;
    zero.local.promote().await.unwrap();
    zero.observe_until("its promotion", |seen| seen.primary && seen.timeline == 5)
        .await;
    zero.local.checkpoint().await.unwrap();
    assert!(!stored(&one).await.clean);
    one.programs
        .rewind(&one.options, one.volume(), "127.0.0.2")
        .await
        .unwrap();
    one.start().await;
    one.observe_until("streaming", |seen| seen.streaming && seen.timeline == 5)
        .await;
}

/// Else a database whose clients use up its connections would be taken for one that hangs.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_of_our_own_has_a_connection_when_clients_have_all_others() {
    let [mut zero, _] = two().await;
    let few = ("max_connections".to_owned(), "12".to_owned());
    zero.settings.parameters.extend([few]);
    zero.initialise().await;
    let mut clients = Vec::new();
    let refused = loop {
        match zero.connect("orders", "orders").await {
            Ok(client) => clients.push(client),
            Err(error) => break error,
        }
        assert!(clients.len() < 12);
    };
    assert_eq!(refused.code().map(|code| code.code()), Some("53300"), "{refused}");
    let beat = Canary::new(&zero.options).beat().await;
    assert!(!matches!(beat, Beat::Silent(_)), "{beat:?}");
}
