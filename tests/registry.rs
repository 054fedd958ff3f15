//! The registry over a real connection: what becomes of it when the files change, and what is told of it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "each binary uses what it needs of this")]
#[path = "support/catalogs.rs"]
mod catalogs;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use catalogs::{bundle, channel, package};
use roadstead::olm::registry::api::experimental_registry_client::ExperimentalRegistryClient;
use roadstead::olm::registry::api::registry_client::RegistryClient;
use roadstead::olm::registry::{Limits, Patience, Watched, api, serve};
use roadstead::telemetry::metrics::Metrics;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tonic::transport::Channel;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

const SOON: Duration = Duration::from_secs(10);

/// Versions in a row.
fn versions(all: &[&str]) -> Vec<Value> {
    let name = |version: &str| format!("a.v{version}");
    let entries = all.iter().enumerate().map(|(at, version)| match at {
        0 => json!({"name": name(version)}),
        _ => json!({"name": name(version), "replaces": name(all[at - 1])}),
    });
    let mut documents = vec![package("a", "stable"), channel("a", "stable", entries.collect())];
    documents.extend(all.iter().map(|version| bundle("a", version, &[])));
    documents
}

/// Puts a catalog in the place of another, as whoever cares does it.
fn replace(folder: &Path, documents: &[Value]) {
    let aside = folder.with_extension("new");
    catalogs::write(&aside, documents);
    std::fs::rename(aside.join("catalog.json"), folder.join("catalog.json")).unwrap();
}

struct Running {
    address: SocketAddr,
    channel: Channel,
    metrics: Metrics,
    served: JoinHandle<Result<(), String>>,
    stop: oneshot::Sender<()>,
}

async fn running(folder: &Path) -> Running {
    running_within(folder, quick()).await
}

fn quick() -> Limits {
    Limits {
        look: Duration::from_millis(50),
        ..Limits::default()
    }
}

async fn running_within(folder: &Path, limits: Limits) -> Running {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let metrics = Metrics::new();
    let watched = Watched::register(&metrics);
    let (stop, stopped) = oneshot::channel();
    let folder = folder.to_owned();
    let served = tokio::spawn(async move {
        let stopped = async { drop(stopped.await) };
        serve(folder, listener, limits, watched, stopped)
            .await
            .map_err(|error| error.to_string())
    });
    // It connects anew whenever it is asked to
    let channel = Channel::from_shared(format!("http://{address}"))
        .unwrap()
        .connect_lazy();
    Running {
        address,
        channel,
        metrics,
        served,
        stop,
    }
}

impl Running {
    async fn head(&self) -> Result<String, tonic::Status> {
        let request = api::GetPackageRequest { name: "a".to_owned() };
        let package = RegistryClient::new(self.channel.clone())
            .get_package(request)
            .await?
            .into_inner();
        Ok(package.channels[0].csv_name.clone())
    }

    async fn until_head_is(&self, name: &str) {
        let end = Instant::now() + SOON;
        while self.head().await.ok().as_deref() != Some(name) {
            assert!(Instant::now() < end, "{name} is not served");
            sleep(Duration::from_millis(20)).await;
        }
    }

    async fn whole(&self, name: &str) -> Result<api::Bundle, tonic::Status> {
        let request = api::GetBundleRequest {
            pkg_name: "a".into(),
            channel_name: "stable".into(),
            csv_name: name.into(),
        };
        Ok(RegistryClient::new(self.channel.clone())
            .get_bundle(request)
            .await?
            .into_inner())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_catalog_is_served_once_it_is_there_and_what_is_invalid_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("configs");
    catalogs::write(&folder, &versions(&["1.0.0"]));
    let running = running(&folder).await;
    running.until_head_is("a.v1.0.0").await;
    replace(&folder, &versions(&["1.0.0", "1.1.0"]));
    running.until_head_is("a.v1.1.0").await;
    // Two heads
    let mut invalid = versions(&["1.0.0", "1.1.0", "1.2.0"]);
    invalid[1]["entries"][2] = json!({"name": "a.v1.2.0"});
    replace(&folder, &invalid);
    let end = Instant::now() + SOON;
    while !running
        .metrics
        .encode()
        .unwrap()
        .contains("roadstead_catalog_refusals_total 1")
    {
        assert!(Instant::now() < end, "{}", running.metrics.encode().unwrap());
        sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(running.head().await.unwrap(), "a.v1.1.0");
    assert_eq!(
        running.whole("a.v1.0.0").await.unwrap().version,
        "1.0.0",
        "what is read from disk is of before, too"
    );
    replace(&folder, &versions(&["1.0.0", "1.1.0", "1.2.0"]));
    running.until_head_is("a.v1.2.0").await;
    let told = running.metrics.encode().unwrap();
    for line in [
        "roadstead_catalog_bundles 3",
        "roadstead_catalog_packages 1",
        "roadstead_catalog_loads_total 3",
    ] {
        assert!(told.contains(line), "{line} is not in\n{told}");
    }
    assert!(
        told.contains(r#"roadstead_catalog_requests_total{method="GetPackage"}"#),
        "{told}"
    );
    running.stop.send(()).unwrap();
    timeout(SOON, running.served).await.unwrap().unwrap().unwrap();
}

/// OLM looks anew when its connection has to be made anew, and otherwise every half hour.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_connected_is_asked_to_connect_again_for_another_catalog() {
    let folder = tempfile::tempdir().unwrap();
    catalogs::write(folder.path(), &versions(&["1.0.0"]));
    let running = running(folder.path()).await;
    running.until_head_is("a.v1.0.0").await;
    let mut watch = HealthClient::new(running.channel.clone());
    let request = HealthCheckRequest {
        service: "api.Registry".to_owned(),
    };
    let mut health = watch.watch(request).await.unwrap().into_inner();
    let first = timeout(SOON, health.message()).await.unwrap().unwrap().unwrap();
    assert_eq!(first.status(), ServingStatus::Serving);
    catalogs::write(folder.path(), &versions(&["1.0.0", "1.1.0"]));
    running.until_head_is("a.v1.1.0").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_served_to_begin_with_is_told_and_not_served() {
    let folder = tempfile::tempdir().unwrap();
    catalogs::write(folder.path(), &versions(&["1.0.0"])[1..]);
    let running = running(folder.path()).await;
    let error = timeout(SOON, running.served).await.unwrap().unwrap().unwrap_err();
    assert!(
        error.contains("catalog.json:1: ") && error.contains("[package-unknown]"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_of_somebodys_own_are_told_to_those_who_know_that_this_may_change() {
    let folder = tempfile::tempdir().unwrap();
    catalogs::write(folder.path(), &catalogs::rich());
    let running = running(folder.path()).await;
    let mut client = ExperimentalRegistryClient::new(running.channel.clone());
    let request = api::ExperimentalListPackageCustomSchemasRequest {
        schema: "example.org.note".to_owned(),
        package_name: "widgets".to_owned(),
    };
    let unaware = client
        .experimental_list_package_custom_schemas(request.clone())
        .await
        .unwrap();
    assert_eq!(unaware.into_inner().message().await.unwrap(), None);
    let mut request = tonic::Request::new(request);
    request
        .metadata_mut()
        .insert("x-acknowledge-experimental", "true".parse().unwrap());
    let mut told = client
        .experimental_list_package_custom_schemas(request)
        .await
        .unwrap()
        .into_inner();
    let document = told.message().await.unwrap().unwrap();
    let kind = document.fields["text"].kind.clone();
    assert_eq!(
        kind,
        Some(prost_types::value::Kind::StringValue("kept".to_owned()))
    );
    assert_eq!(told.message().await.unwrap(), None);
}

/// The kubelet and `grpc_health_probe` ask for no service in particular.
#[tokio::test(flavor = "multi_thread")]
async fn it_says_that_it_serves_and_refuses_what_is_too_long_to_be_a_question() {
    let folder = tempfile::tempdir().unwrap();
    catalogs::write(folder.path(), &versions(&["1.0.0"]));
    let running = running(folder.path()).await;
    let request = HealthCheckRequest {
        service: String::new(),
    };
    let health = HealthClient::new(running.channel.clone())
        .check(request)
        .await
        .unwrap();
    assert_eq!(health.into_inner().status(), ServingStatus::Serving);
    let request = api::GetPackageRequest {
        name: "a".repeat(1 << 20),
    };
    let refused = RegistryClient::new(running.channel.clone())
        .get_package(request)
        .await
        .unwrap_err();
    assert_eq!(refused.code(), tonic::Code::OutOfRange, "{refused}");
    running.until_head_is("a.v1.0.0").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_say_nothing_keep_nobody_out() {
    let folder = tempfile::tempdir().unwrap();
    catalogs::write(folder.path(), &versions(&["1.0.0"]));
    let limits = Limits {
        connections: 4,
        begin: Duration::from_millis(200),
        // Only because of the silence
        patience: Patience {
            idle: SOON * 100,
            stalled: SOON * 100,
        },
        ..quick()
    };
    let running = running_within(folder.path(), limits).await;
    let mut silent = Vec::new();
    for _ in 0..limits.connections {
        silent.push(TcpStream::connect(running.address).await.unwrap());
    }
    timeout(SOON, running.until_head_is("a.v1.0.0")).await.unwrap();
    for stream in &mut silent {
        let heard = timeout(SOON, stream.read(&mut [0])).await.unwrap();
        assert_eq!(heard.unwrap_or_default(), 0, "it is open still");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_ask_nothing_make_room_for_others() {
    let folder = tempfile::tempdir().unwrap();
    catalogs::write(folder.path(), &versions(&["1.0.0"]));
    let limits = Limits {
        connections: 4,
        patience: Patience {
            idle: Duration::from_millis(200),
            stalled: SOON * 100,
        },
        ..quick()
    };
    let running = running_within(folder.path(), limits).await;
    running.until_head_is("a.v1.0.0").await;
    let endpoint = Channel::from_shared(format!("http://{}", running.address)).unwrap();
    let mut idle = Vec::new();
    for _ in 1..limits.connections {
        idle.push(endpoint.connect().await.unwrap());
    }
    // Who listens is not idle, and stays
    let mut health = HealthClient::new(running.channel.clone())
        .watch(HealthCheckRequest::default())
        .await
        .unwrap()
        .into_inner();
    timeout(SOON, health.message()).await.unwrap().unwrap().unwrap();
    for _ in 0..2 {
        let another = endpoint.connect().await.unwrap();
        let request = api::GetPackageRequest { name: "a".to_owned() };
        let mut client = RegistryClient::new(another.clone());
        let answer = client.get_package(request).await.unwrap().into_inner();
        assert_eq!(answer.default_channel_name, "stable");
        idle.push(another);
    }
    let ended = timeout(limits.patience.idle, health.message()).await;
    assert!(ended.is_err(), "whoever listened was sent away: {ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_only_listen_keep_nobody_out() {
    let folder = tempfile::tempdir().unwrap();
    catalogs::write(folder.path(), &versions(&["1.0.0"]));
    let limits = Limits {
        connections: 4,
        patience: Patience {
            idle: Duration::from_millis(200),
            stalled: Duration::from_millis(500),
        },
        ..quick()
    };
    let running = running_within(folder.path(), limits).await;
    let endpoint = Channel::from_shared(format!("http://{}", running.address)).unwrap();
    let mut listening = Vec::new();
    for _ in 0..limits.connections {
        let mut health = HealthClient::new(endpoint.connect().await.unwrap());
        let watch = health.watch(HealthCheckRequest::default()).await.unwrap();
        listening.push(watch.into_inner());
    }
    timeout(SOON, running.until_head_is("a.v1.0.0")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_does_not_end_for_another_catalog_is_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    catalogs::write(folder.path(), &versions(&["1.0.0"]));
    let limits = Limits {
        leave: Duration::from_millis(200),
        ..quick()
    };
    let running = running_within(folder.path(), limits).await;
    let mut health = HealthClient::new(running.channel.clone())
        .watch(HealthCheckRequest::default())
        .await
        .unwrap()
        .into_inner();
    timeout(SOON, health.message()).await.unwrap().unwrap().unwrap();
    catalogs::write(folder.path(), &versions(&["1.0.0", "1.1.0"]));
    let end = timeout(SOON, health.message()).await;
    assert!(!matches!(end, Ok(Ok(Some(_)))), "{end:?}");
    end.expect("it is listened to for ever").unwrap_err();
    running.until_head_is("a.v1.1.0").await;
}

/// As the program itself, for what it has of the system. It ends with the value.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Serves on every address, in a shell that has been told something first.
async fn program(folder: &Path, told: &str) -> (Process, u16) {
    let port = {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await.unwrap();
        listener.local_addr().unwrap().port()
    };
    let command =
        format!("{told} && exec \"$0\" catalog serve --metrics-address off --address :{port} \"$1\"");
    let child = Command::new("sh")
        .args(["-c", &command, env!("CARGO_BIN_EXE_roadstead")])
        .arg(folder)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    (Process(child), port)
}

async fn connected(address: &str) -> Channel {
    let endpoint = Channel::from_shared(format!("http://{address}")).unwrap();
    let end = Instant::now() + SOON * 3;
    loop {
        match endpoint.connect().await {
            Ok(channel) => return channel,
            Err(error) => assert!(Instant::now() < end, "{address}: {error:?}"),
        }
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_catalog_has_more_files_than_may_be_open() {
    let folder = tempfile::tempdir().unwrap();
    let name = |number: usize| format!("p{number}");
    for number in 0..200 {
        let name = name(number);
        let documents = [
            package(&name, "stable"),
            channel(&name, "stable", json!([{"name": format!("{name}.v1.0.0")}])),
            bundle(&name, "1.0.0", &[]),
        ];
        catalogs::write(&folder.path().join(&name), &documents);
    }
    let (_process, port) = program(folder.path(), "ulimit -n 64").await;
    let mut client = RegistryClient::new(connected(&format!("127.0.0.1:{port}")).await);
    let request = api::GetBundleRequest {
        pkg_name: name(199),
        channel_name: "stable".into(),
        csv_name: "p199.v1.0.0".into(),
    };
    let bundle = client.get_bundle(request).await.unwrap().into_inner();
    assert_eq!(bundle.version, "1.0.0");
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_files_may_be_open_as_the_system_allows() {
    let folder = tempfile::tempdir().unwrap();
    catalogs::write(folder.path(), &versions(&["1.0.0"]));
    let (process, port) = program(folder.path(), "ulimit -Sn 64 && ulimit -Hn 700").await;
    connected(&format!("127.0.0.1:{port}")).await;
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", process.0.id())).unwrap();
    let files = limits
        .lines()
        .find(|line| line.starts_with("Max open files"))
        .unwrap();
    assert_eq!(files.split_whitespace().nth(3), Some("700"), "{files}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_address_it_serves_on_those_of_both_protocols() {
    let folder = tempfile::tempdir().unwrap();
    catalogs::write(folder.path(), &versions(&["1.0.0"]));
    let (_process, port) = program(folder.path(), "true").await;
    for host in ["127.0.0.1", "[::1]"] {
        let mut client = HealthClient::new(connected(&format!("{host}:{port}")).await);
        let health = client.check(HealthCheckRequest::default()).await.unwrap();
        assert_eq!(health.into_inner().status(), ServingStatus::Serving, "{host}");
    }
}
