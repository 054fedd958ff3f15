//! `roadstead run` as a process: probes, metrics, log level, standby, and the end in order.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    missing_docs,
    reason = "a test says what is wrong by a panic"
)]

#[path = "support/apiserver.rs"]
mod apiserver;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use apiserver::{ApiServer, within};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::PostParams;
use roadstead::api::database::v1::Database;
use roadstead::api::my_proxy::MyProxy;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

const LIMIT: Duration = Duration::from_secs(30);

/// The operator, gone with the test.
struct Operator {
    child: Child,
    log: Log,
    metrics: String,
    health: String,
    admin: String,
}

impl Operator {
    fn start(namespace: &str, pod: &str) -> Self {
        Self::start_with(namespace, pod, &[])
    }

    /// The same with these variables for its traces.
    fn start_with(namespace: &str, pod: &str, traces: &[(&str, &str)]) -> Self {
        let [metrics, health, admin] = addresses();
        let mut command = Command::new("setpriv");
        command.args([
            "--pdeathsig",
            "KILL",
            env!("CARGO_BIN_EXE_roadstead"),
            "run",
            "--log-format=json",
        ]);
        command
            .arg(format!("--metrics-address={metrics}"))
            .arg(format!("--health-address={health}"));
        command
            .arg(format!("--admin-address={admin}"))
            .arg(format!("--watch-namespace={namespace}"));
        command.env("KUBECONFIG", ApiServer::shared().kubeconfig());
        command.env("POD_NAMESPACE", namespace).env("POD_NAME", pod);
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "");
        command.env("OTEL_EXPORTER_OTLP_PROTOCOL", "");
        command.envs(traces.iter().copied());
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = Log::of(child.stderr.take().unwrap());
        Self {
            child,
            log,
            metrics,
            health,
            admin,
        }
    }

    async fn until_ready(&self) {
        within(LIMIT, "the operator is ready", async || {
            get(&self.health, "/readyz").is_some_and(|(code, _)| code == 200)
        })
        .await;
    }

    fn metric(&self, name: &str) -> Option<String> {
        let (_, text) = get(&self.metrics, "/metrics")?;
        text.lines()
            .find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()))
    }

    fn leads(&self) -> bool {
        self.metric("leader_election_master_status{name=\"roadstead-operator\"}")
            .as_deref()
            == Some("1")
    }

    fn log_level(&self, level: Option<&str>) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_roadstead"));
        command
            .arg("log-level")
            .arg(format!("--admin-address={}", self.admin))
            .args(level);
        command.output().unwrap()
    }

    /// Tells it to stop and returns its exit code and what it logged.
    async fn stop(mut self) -> (Option<i32>, String) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        let mut code = None;
        within(LIMIT, "the operator has ended", async || {
            let ended = self.child.try_wait().unwrap();
            code = ended.and_then(|status| status.code());
            ended.is_some()
        })
        .await;
        (code, self.log.whole())
    }
}

/// What a process says, while it runs.
struct Log {
    text: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl Log {
    fn of(stderr: ChildStderr) -> Self {
        let text = Arc::<Mutex<String>>::default();
        let sink = Arc::clone(&text);
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines() {
                let line = line.unwrap();
                sink.lock().unwrap().push_str(&format!("{line}\n"));
            }
        });
        Self {
            text,
            reader: Some(reader),
        }
    }

    /// What it has said so far.
    fn so_far(&self) -> String {
        self.text.lock().unwrap().clone()
    }

    /// All that it said, once it has ended.
    fn whole(&mut self) -> String {
        self.reader.take().unwrap().join().unwrap();
        self.so_far()
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Addresses that were free a moment ago.
fn addresses<const N: usize>() -> [String; N] {
    let held: [TcpListener; N] = std::array::from_fn(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    held.map(|listener| listener.local_addr().unwrap().to_string())
}

/// Status and body; `None` while nobody listens.
fn get(address: &str, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\nHost: test\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split_whitespace().nth(1)?.parse().ok()?, body.to_owned()))
}

#[tokio::test]
async fn one_leads_and_the_other_stands_by_ready_until_it_takes_over() {
    let server = ApiServer::shared();
    server.install_crds().await;
    let namespace = server.namespace("process").await;
    let first = Operator::start(&namespace, "first");
    first.until_ready().await;
    within(LIMIT, "the first leads", async || first.leads()).await;
    let second = Operator::start(&namespace, "second");
    second.until_ready().await;
    assert!(!second.leads());
    for operator in [&first, &second] {
        assert_eq!(get(&operator.health, "/healthz"), Some((200, "ok\n".to_owned())));
        assert_eq!(
            get(&operator.health, "/metrics").unwrap().0,
            404,
            "metrics have an address of their own"
        );
    }
    for name in [
        "roadstead_build_info{",
        "rest_client_requests_total{",
        "leader_election_master_status{",
    ] {
        assert!(first.metric(name).is_some(), "{name}");
    }

    let stopped = Instant::now();
    let (code, log) = first.stop().await;
    assert_eq!(code, Some(0), "{log}");
    assert!(!log.contains("trace"), "nobody asked for traces: {log}");
    within(LIMIT, "the second leads", async || second.leads()).await;
    assert!(
        stopped.elapsed() < Duration::from_secs(5),
        "{:?}",
        stopped.elapsed()
    );
    for line in log.lines() {
        assert!(
            serde_json::from_str::<serde_json::Value>(line).is_ok(),
            "not JSON: {line}"
        );
    }

    let (code, log) = second.stop().await;
    assert_eq!(code, Some(0), "{log}");
    let leases: Api<Lease> = Api::namespaced(server.client().await, &namespace);
    let spec = leases.get("roadstead-operator").await.unwrap().spec.unwrap();
    assert_eq!(
        spec.holder_identity.as_deref(),
        Some(""),
        "the lease is given back"
    );
}

#[tokio::test]
async fn the_log_level_changes_while_it_runs() {
    let server = ApiServer::shared();
    let namespace = server.namespace("log-level").await;
    let operator = Operator::start(&namespace, "only");
    within(LIMIT, "the operator lives", async || {
        get(&operator.health, "/healthz").is_some()
    })
    .await;
    assert_eq!(operator.log_level(None).stdout, b"info\n");
    assert_eq!(operator.log_level(Some("debug")).stdout, b"debug\n");
    assert_eq!(operator.log_level(None).stdout, b"debug\n");
    // What is no level is refused before it is sent, and changes nothing.
    let refused = operator.log_level(Some("loud"));
    assert!(!refused.status.success());
    assert!(
        String::from_utf8(refused.stderr)
            .unwrap()
            .contains("is not a log level; accepted are off, error")
    );
    assert_eq!(operator.log_level(None).stdout, b"debug\n");
    operator.stop().await;
}

#[tokio::test]
async fn an_address_that_is_taken_is_named_and_ends_it() {
    let server = ApiServer::shared();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_roadstead"))
        .args([
            "run",
            "--log-level=off",
            "--admin-address=off",
            "--health-address=off",
            "--leader-elect=false",
        ])
        .arg(format!("--metrics-address={address}"))
        .env("KUBECONFIG", server.kubeconfig())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(
        message.starts_with(&format!(
            "roadstead: cannot listen on {address} for metrics: Address already in use"
        )),
        "{message}"
    );
}

/// A collector that notes what it is sent and answers nothing but that it speaks HTTP/2.
fn collector() -> (String, Arc<Mutex<Vec<u8>>>) {
    const EMPTY_SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let received = Arc::<Mutex<Vec<u8>>>::default();
    let sink = Arc::clone(&received);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, sink) = (stream.unwrap(), Arc::clone(&sink));
            std::thread::spawn(move || {
                let _ = stream.write_all(&EMPTY_SETTINGS);
                let mut part = [0; 4096];
                while let Ok(length @ 1..) = stream.read(&mut part) {
                    sink.lock().unwrap().extend_from_slice(&part[..length]);
                }
            });
        }
    });
    (endpoint, received)
}

async fn make_proxy(namespace: &str) {
    let proxy =
        json!({"apiVersion": "roadstead.dev/v1", "kind": "MyProxy", "metadata": {"name": "web"}, "spec": {}});
    let proxies: Api<MyProxy> = Api::namespaced(ApiServer::shared().client().await, namespace);
    let proxy = serde_json::from_value(proxy).unwrap();
    proxies.create(&PostParams::default(), &proxy).await.unwrap();
}

/// And not only taken hold of, which is the first reconcile.
async fn until_reconciled(operator: &Operator) {
    within(LIMIT, "the proxy is reconciled", async || {
        let count =
            operator.metric("controller_runtime_reconcile_time_seconds_count{controller=\"myproxy\"}");
        count.is_some_and(|count| count.parse::<f64>().is_ok_and(|count| count > 1.0))
    })
    .await;
}

#[tokio::test]
async fn reconciles_are_traced_to_a_collector_even_to_one_that_never_answers() {
    let server = ApiServer::shared();
    server.install_crds().await;
    let namespace = server.namespace("traces").await;
    let (endpoint, received) = collector();
    let traces = [("OTEL_EXPORTER_OTLP_ENDPOINT", &*endpoint)];
    let operator = Operator::start_with(&namespace, "traced", &traces);
    make_proxy(&namespace).await;
    until_reconciled(&operator).await;
    let stopped = Instant::now();
    let (code, log) = operator.stop().await;
    assert_eq!(code, Some(0), "{log}");
    assert!(
        stopped.elapsed() < Duration::from_secs(6),
        "{:?}",
        stopped.elapsed()
    );
    assert!(log.contains("\"trace_id\":"), "logs lead to traces: {log}");
    let received = received.lock().unwrap();
    assert!(received.starts_with(b"PRI * HTTP/2.0"));
    for part in ["roadstead-operator", "reconcile"] {
        let found = received
            .windows(part.len())
            .any(|window| window == part.as_bytes());
        assert!(found, "{part} was not sent");
    }
}

#[tokio::test]
async fn a_collector_that_is_dead_or_out_of_reach_disturbs_nothing() {
    let server = ApiServer::shared();
    server.install_crds().await;
    let [nobody] = addresses();
    for (name, endpoint, protocol, said) in [
        ("dead-collector", format!("http://{nobody}"), "grpc", 0),
        ("tls-collector", format!("https://{nobody}"), "grpc", 1),
        ("odd-collector", "http://[".to_owned(), "grpc", 1),
        ("http-collector", format!("http://{nobody}"), "http/protobuf", 1),
    ] {
        let namespace = server.namespace(name).await;
        let traces = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &*endpoint),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", protocol),
        ];
        let operator = Operator::start_with(&namespace, "traced", &traces);
        operator.until_ready().await;
        make_proxy(&namespace).await;
        until_reconciled(&operator).await;
        let (code, log) = operator.stop().await;
        assert_eq!(code, Some(0), "{log}");
        assert_eq!(log.matches("going on without traces").count(), said, "{log}");
    }
}

/// A collector that speaks HTTP/1.1 alone, as those of OTLP over HTTP do.
fn http_collector() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        }
    });
    endpoint
}

#[tokio::test]
async fn that_a_collector_does_not_speak_grpc_is_logged_while_the_operator_works() {
    let server = ApiServer::shared();
    server.install_crds().await;
    let namespace = server.namespace("deaf-collector").await;
    let traces = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &*http_collector()),
        ("OTEL_BSP_SCHEDULE_DELAY", "100"),
    ];
    let operator = Operator::start_with(&namespace, "traced", &traces);
    make_proxy(&namespace).await;
    within(LIMIT, "the loss of spans is logged", async || {
        operator.log.so_far().contains("spans are lost")
    })
    .await;
    until_reconciled(&operator).await;
    let (code, log) = operator.stop().await;
    assert_eq!(code, Some(0), "{log}");
    let line = log.lines().find(|line| line.contains("spans are lost")).unwrap();
    assert!(
        line.contains("\"level\":\"WARN\"") && line.contains("gRPC"),
        "{line}"
    );
}

#[tokio::test]
async fn a_database_is_made_of_the_image_that_the_environment_names() {
    let server = ApiServer::shared();
    server.install_crds().await;
    let namespace = server.namespace("databases").await;
    let image = "registry.example/postgres:17";
    let images = [("RELATED_IMAGE_POSTGRES_17", image)];
    let operator = Operator::start_with(&namespace, "only", &images);
    let database = json!({
        "apiVersion": "roadstead.dev/v1", "kind": "Database",
        "metadata": {"name": "orders"}, "spec": {"version": "17"},
    });
    let databases: Api<Database> = Api::namespaced(server.client().await, &namespace);
    let database = serde_json::from_value(database).unwrap();
    databases.create(&PostParams::default(), &database).await.unwrap();
    let sets: Api<StatefulSet> = Api::namespaced(server.client().await, &namespace);
    let mut found = None;
    within(LIMIT, "the database is made", async || {
        let set = sets.get("orders").await.ok();
        let pod = set.and_then(|set| set.spec?.template.spec);
        found = pod.and_then(|pod| pod.containers.into_iter().next()?.image);
        found.is_some()
    })
    .await;
    assert_eq!(found.as_deref(), Some(image));
    within(LIMIT, "it is counted", async || {
        operator
            .metric("roadstead_objects{kind=\"Database\"}")
            .is_some_and(|count| count == "1")
    })
    .await;
    let (code, log) = operator.stop().await;
    assert_eq!(code, Some(0), "{log}");
}
