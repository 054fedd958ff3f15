//! The supervisor with programs that are played by scripts, and with an API server that knows pods and nothing else.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request as HttpRequest, Response};
use http_body_util::{BodyExt, Full};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::super::floors::Floors;
use super::super::protocol::{Running, Server};
use super::super::sql::Configuration;
use super::senses::{Beats, Labels, Observed};
use super::*;
use crate::api::database::agent::{Member, RECORD, ROLE_LABEL, Record, Role, State};

const LIMIT: Duration = Duration::from_secs(20);

/// The roles that pods are labelled with, and the names of those that were labelled, in that order.
type Labelled = (BTreeMap<String, String>, Vec<String>);

#[derive(Clone, Default)]
struct Pods(Arc<Mutex<Labelled>>);

impl Pods {
    fn of(roles: &[(&str, &str)]) -> Self {
        let roles = roles.iter().map(|(name, role)| ((*name).into(), (*role).into()));
        Self(Arc::new(Mutex::new((roles.collect(), Vec::new()))))
    }

    fn client(&self) -> Client {
        let pods = self.clone();
        let answer = move |request: HttpRequest<Body>| {
            let pods = pods.clone();
            async move { Ok::<_, Infallible>(pods.answer(request).await) }
        };
        Client::new(tower::service_fn(answer), "ns")
    }

    async fn answer(&self, request: HttpRequest<Body>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let name = head.uri.path().rsplit('/').next().unwrap().to_owned();
        let body = body.collect().await.unwrap().to_bytes();
        let mut pods = self.0.lock().unwrap();
        if head.method == Method::PATCH {
            let patch: Value = serde_json::from_slice(&body).unwrap();
            match patch["metadata"]["labels"][ROLE_LABEL].as_str() {
                Some(role) => drop(pods.0.insert(name.clone(), role.to_owned())),
                None => drop(pods.0.remove(&name)),
            }
            pods.1.push(name.clone());
        }
        let labels: BTreeMap<_, _> = pods
            .0
            .get(&name)
            .map(|role| (ROLE_LABEL, role))
            .into_iter()
            .collect();
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "uid": name, "labels": labels}});
        Response::new(Full::new(Bytes::from(pod.to_string())))
    }

    fn roles(&self) -> BTreeMap<String, String> {
        self.0.lock().unwrap().0.clone()
    }

    fn labelled(&self) -> Vec<String> {
        self.0.lock().unwrap().1.clone()
    }
}

/// Waits until it is so.
pub(super) async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let waited = timeout(LIMIT, async {
        while !done() {
            sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(waited.await.is_ok(), "not within {LIMIT:?}: {what}");
}

/// The instance a-0 of two, with nothing on its volume.
pub(super) struct Fixture {
    pub(super) supervisor: Supervisor,
    pub(super) options: Options,
    /// Where a-1 takes connections, and answers none of them.
    pub(super) primary: Option<std::net::TcpListener>,
    _tasks: JoinSet<()>,
    _folder: tempfile::TempDir,
}

impl Fixture {
    pub(super) fn new(scripts: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(&path).unwrap();
            path
        };
        let bin = at("bin");
        for (name, script) in scripts {
            let path = bin.join(name);
            std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        }
        let primary = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = primary.local_addr().unwrap().port();
        let options = Options {
            name: "a-0".to_owned(),
            namespace: "ns".to_owned(),
            port,
            uid: "a-0".to_owned(),
            volume: at("volume"),
            run: at("run"),
            settings: at("settings"),
            tls: at("tls"),
            credentials: at("credentials"),
            ..Options::default()
        };
        let member = |name: &str| Member {
            name: name.to_owned(),
            host: "127.0.0.1".to_owned(),
        };
        let settings = Settings {
            database: "a".to_owned(),
            major: 15,
            members: vec![member("a-0"), member("a-1")],
            ..Settings::default()
        };
        let mounted = Mounted {
            settings,
            hash: String::new(),
        };
        let programs = Programs {
            bin,
            version: "15.0".to_owned(),
            major: 15,
        };
        let tools = Tools {
            options: options.clone(),
            programs,
            volume: Arc::new(Volume::lock(&options).unwrap()),
        };
        let watchdog = Watchdog::begin(tools.volume.holders_of_lock()).unwrap();
        let (shown, _) = watch::channel(Shown::default());
        let (_, requests) = mpsc::channel(1);
        let mut tasks = JoinSet::new();
        let supervisor = Supervisor::new(
            options.clone(),
            Identity::new("a-0").unwrap(),
            (Pods::default().client(), Clock::system()),
            Tls::default(),
            (mounted, tools, watchdog),
            (shown, requests),
            &mut tasks,
        );
        Self {
            supervisor,
            options,
            primary: Some(primary),
            _tasks: tasks,
            _folder: folder,
        }
    }

    /// Has what is under way come to its end.
    pub(super) async fn work(&mut self) {
        let done = timeout(LIMIT, work_of(&mut self.supervisor.work)).await.unwrap();
        self.supervisor.take(Event::Worked(done));
    }

    pub(super) fn join(&mut self) {
        self.supervisor.carry_out(Command::Join("a-1".to_owned()));
    }

    /// The Lease is seen to say this.
    pub(super) fn see(&mut self, record: &Record) {
        let record = serde_json::to_string(record).unwrap();
        let mut lease = Lease::default();
        lease.metadata.annotations = Some([(RECORD.to_owned(), record)].into());
        let mut seen = lease::Seen::default();
        seen.lease = Some(lease);
        self.supervisor.seen = watch::channel(seen).1;
    }

    pub(super) fn report(&mut self) -> Report {
        self.supervisor.tell();
        self.supervisor.shown.borrow().report.clone()
    }

    pub(super) fn message(&mut self) -> String {
        self.report().message.unwrap_or_default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn between_two_looks_at_a_volume_that_cannot_be_read_nothing_is_under_way() {
    let mut fixture = Fixture::new(&[]);
    let data = fixture.options.data();
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("PG_VERSION"), "14\n").unwrap();
    fixture.supervisor.kill();
    fixture.work().await;
    let supervisor = &mut fixture.supervisor;
    assert!(matches!(supervisor.data, Data::Unreadable(_)));
    supervisor.take(Event::Tick);
    assert!(
        supervisor.work.is_none(),
        "whoever holds the Lease could not give it back, nor end"
    );
    supervisor.look = Some(Instant::now());
    supervisor.take(Event::Tick);
    assert!(matches!(supervisor.work, Some((Work::Other, _))));
    std::fs::remove_dir_all(&data).unwrap();
    fixture.work().await;
    assert_eq!(fixture.supervisor.data, Data::Empty);
    assert_eq!(fixture.supervisor.look, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promoted_primary_is_ready_before_its_checkpoint_and_the_very_first_once_it_has_all() {
    let supervisor = &mut Fixture::new(&[]).supervisor;
    let now = Instant::now();
    let observed = Observed {
        running: Some((Default::default(), now)),
        ..Observed::default()
    };
    let (_observe, observed) = watch::channel(observed);
    supervisor.senses.observed = observed;
    let server = Server::Running(Default::default());
    let later = |seconds| now + Duration::from_secs(seconds);
    let ready = |supervisor: &Supervisor, at| supervisor.readiness(Role::Primary, &server, at).is_ok();
    assert!(!ready(supervisor, now), "there is no owner and no database");
    supervisor.senses.leads.send_replace(Some(now));
    assert!(!ready(supervisor, now), "nor are there now");
    supervisor.take(Event::Worked(Done::Promoted(Ok(()))));
    assert!(ready(supervisor, later(4)));
    assert!(!ready(supervisor, later(6)), "it commits nothing");
    let (_beat, beats) = watch::channel(Beats {
        alive: Some(later(5)),
        ..Beats::default()
    });
    supervisor.senses.beats = beats;
    assert!(ready(supervisor, later(6)));
    // The one that is started again has to show it anew.
    supervisor.take(Event::Ended(Ok(std::process::ExitStatus::default())));
    assert_eq!(supervisor.promoted, None);
}

/// Its checkpoint may take minutes, and for ever where the disk hangs. What it answers needs no disk.
#[tokio::test(flavor = "multi_thread")]
async fn a_primary_has_to_commit_from_its_first_moment_on_whatever_it_answers() {
    let mut fixture = Fixture::new(&[("postgres", "exec sleep 600")]);
    std::fs::create_dir_all(fixture.options.data().join("pg_wal")).unwrap();
    let (observe, observed) = watch::channel(Observed::default());
    let (beat, beats) = watch::channel(Beats::default());
    fixture.supervisor.carry_out(Command::Lead(None));
    fixture.work().await;
    let supervisor = &mut fixture.supervisor;
    (supervisor.senses.observed, supervisor.senses.beats) = (observed, beats);
    supervisor.tell();
    assert_eq!(
        (supervisor.canary(), *supervisor.senses.leads.borrow()),
        (None, None)
    );
    let answers = |supervisor: &mut Supervisor| {
        let running = Running {
            primary: true,
            ..Running::default()
        };
        observe.send_replace(Observed {
            start: supervisor.process.starts,
            running: Some((running, Instant::now())),
            configuration: None,
        });
        supervisor.tell();
    };
    supervisor.protocol.renewed(supervisor.began.elapsed());
    answers(supervisor);
    let began = *supervisor.senses.leads.borrow();
    assert!(began.is_some(), "it writes");
    sleep(Duration::from_millis(20)).await;
    answers(supervisor);
    assert_eq!(supervisor.canary(), began);
    assert_eq!(supervisor.furnishing.since, None);
    let alive = Some(Instant::now());
    beat.send_replace(Beats {
        alive,
        ..Beats::default()
    });
    assert_eq!(supervisor.canary(), alive);
    // It commits and answers nothing else: that is the primary as it was.
    let turn =
        |supervisor: &mut Supervisor| drop(supervisor.with(|protocol, situation| protocol.step(situation)));
    turn(supervisor);
    let silent = Instant::now().checked_sub(SILENT + Duration::from_secs(1));
    observe.send_modify(|observed| {
        let running = observed.running.take().map(|(running, _)| running);
        observed.running = running.zip(silent);
    });
    turn(supervisor);
    supervisor.tell();
    assert_eq!(supervisor.canary(), alive);
    assert_eq!(supervisor.shown.borrow().report.role, Role::Primary);
    answers(supervisor);
    // It starts again in place, and clients need not be led elsewhere and back.
    let labelled = |supervisor: &mut Supervisor| {
        supervisor.tell();
        supervisor.senses.labels.borrow().role
    };
    supervisor.furnishing.since = alive;
    assert_eq!(labelled(supervisor), Role::Primary);
    assert_eq!(supervisor.shown.borrow().ready, Ok(()));
    supervisor.process.starts += 1;
    assert_eq!(labelled(supervisor), Role::Primary);
    assert_eq!(supervisor.shown.borrow().report.role, Role::None);
    assert_eq!(
        supervisor.shown.borrow().ready,
        Ok(()),
        "it was of use a moment ago"
    );
    supervisor.of_use = alive.and_then(|alive| alive.checked_sub(Duration::from_secs(6)));
    assert_eq!(labelled(supervisor), Role::Primary);
    assert!(supervisor.shown.borrow().ready.is_err(), "it takes too long");
    supervisor.of_use = alive;
    supervisor.protocol = Protocol::default();
    assert_eq!(
        labelled(supervisor),
        Role::None,
        "the Lease is not its own any more"
    );
    assert!(supervisor.shown.borrow().ready.is_err());
}

/// What it saw or did would not be seen or done any more, and nobody would know.
#[tokio::test]
async fn an_instance_does_not_outlive_a_task_of_its_own() {
    let mut tasks = JoinSet::new();
    tasks.spawn(async { panic!("a defect") });
    let life = until_one_ends(std::future::pending(), &mut tasks);
    let ended = timeout(Duration::from_secs(5), life).await.unwrap();
    let why = ended.unwrap_err().to_string();
    assert!(
        why.starts_with("a task of the instance manager has ended: ") && why.contains("panicked"),
        "{why}"
    );
    tasks.spawn(std::future::pending());
    until_one_ends(async {}, &mut tasks).await.unwrap();
}

/// Else the operator would say in between that all is brought about.
#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_a_restart_is_told_until_that_whatever_postgresql_reads_meanwhile() {
    let mut fixture = Fixture::new(&[("postgres", "exec sleep 600")]);
    std::fs::create_dir_all(fixture.options.data().join("pg_wal")).unwrap();
    fixture.supervisor.floors = Floors::parse(&BTreeMap::from([("max_connections setting", "200")]));
    fixture.supervisor.configured.follows = true;
    fixture.supervisor.start_postgres(None, None);
    fixture.work().await;
    let supervisor = &mut fixture.supervisor;
    let told = |supervisor: &mut Supervisor| {
        supervisor.tell();
        let report = supervisor.shown.borrow().report.clone();
        (report.settings.unwrap_or_default(), report.pending_restart)
    };
    let held_up = vec!["max_connections".to_owned()];
    assert_eq!(told(supervisor), (String::new(), held_up), "while it starts");

    let configuration = Configuration {
        pending_restart: [("shared_buffers".to_owned(), "16384".to_owned())].into(),
        ..Configuration::default()
    };
    let now = Instant::now();
    let (_observe, observed) = watch::channel(Observed {
        start: supervisor.process.starts,
        running: Some((Running::default(), now)),
        configuration: Some((configuration, now + LIMIT)),
    });
    supervisor.senses.observed = observed;
    let both = vec!["max_connections".to_owned(), "shared_buffers".to_owned()];
    assert_eq!(told(supervisor), (String::new(), both.clone()));
    // As for another quorum, or another primary to follow.
    supervisor.senses.reloaded.send_replace(now + LIMIT);
    assert_eq!(told(supervisor), (String::new(), both));
    // Of other settings it is not known yet.
    supervisor.mounted.hash = "another".to_owned();
    assert_eq!(told(supervisor).0, "");
    supervisor.senses.reloaded.send_replace(now);
    assert_eq!(told(supervisor).0, "another");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_replica_complains_about_before_it_answers_is_told() {
    let removed = "FATAL:  could not receive data from WAL stream: ERROR:  requested WAL segment 000000010000000000000003 has already been removed";
    let script = format!("echo '2026-11-22 12:00:00 UTC [9] {removed}' >&2; exec sleep 600");
    let mut fixture = Fixture::new(&[("postgres", &script)]);
    std::fs::create_dir_all(fixture.options.data().join("pg_wal")).unwrap();
    fixture
        .supervisor
        .carry_out(Command::Follow(Some("a-1".to_owned())));
    fixture.work().await;
    let supervisor = &mut fixture.supervisor;
    until("it complains", || !supervisor.words().is_empty()).await;
    supervisor.take(Event::Tick);
    assert!(format!("{:?}", supervisor.protocol).contains("starved: Some(\"a-1\")"));
    let message = fixture.message();
    assert!(message.ends_with(removed), "{message}");
    assert_eq!(fixture.supervisor.shown.borrow().report.state, State::Starting);
}

#[tokio::test]
async fn whoever_takes_the_lease_takes_the_label_from_the_one_before_and_says_what_it_is_itself_once_it_is() {
    let pods = Pods::of(&[("a-0", "replica"), ("a-1", "primary"), ("a-2", "replica")]);
    let client = PodClient::new(pods.client(), "ns", Duration::from_secs(2));
    let options = Options {
        name: "a-0".to_owned(),
        uid: "a-0".to_owned(),
        ..Options::default()
    };
    let promoting = Labels {
        role: Role::None,
        holds: true,
        others: vec!["a-1".to_owned(), "a-2".to_owned()],
    };
    let (wanted, labels) = watch::channel(promoting.clone());
    let mut tasks = JoinSet::new();
    tasks.spawn(senses::label(options, client, labels));
    until("both are labelled", || pods.labelled().len() == 2).await;
    assert_eq!(pods.labelled(), ["a-1", "a-0"], "the one before first of all");
    let replica = BTreeMap::from([("a-2".to_owned(), "replica".to_owned())]);
    assert_eq!(pods.roles(), replica);
    wanted.send_replace(Labels {
        role: Role::Primary,
        ..promoting
    });
    until("it is labelled", || pods.labelled().len() == 3).await;
    assert_eq!(pods.roles().get("a-0").map(String::as_str), Some("primary"));
}
