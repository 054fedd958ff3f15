//! `make bench-catalog`: catalogs of 300 packages and 3,000 bundles, judged and served by this program and by `opm` in one run. Prints the table of medians.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a benchmark fails by panicking")]

#[allow(dead_code, reason = "a test needs more of this")]
#[path = "../tests/support/catalogs.rs"]
mod catalogs;
#[path = "../tests/support/opm.rs"]
mod opm;

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use roadstead::olm::registry::api;
use roadstead::olm::registry::api::experimental_registry_client::ExperimentalRegistryClient;
use roadstead::olm::registry::api::registry_client::RegistryClient;
use serde_json::{Value, json};
use tonic::transport::Channel;
use tonic::{Code, Streaming};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;

const PACKAGES: usize = 300;
const VERSIONS: usize = 10;
const RUNS: usize = 5;
/// Whatever takes longer is given up.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let configs = folder.path().join("configs");
    let bytes = write(&configs);
    let opm = opm::program();
    // As in the image of a catalog: linked statically
    let ours = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/dist/roadstead"));
    println!(
        "{PACKAGES} packages, {} bundles, {} MB of JSON; medians of {RUNS}",
        PACKAGES * VERSIONS,
        bytes / 1_000_000
    );
    println!("| figure | roadstead | opm | ratio |\n| --- | --- | --- | --- |");
    let validate = |program: &Path, arguments: &[&str]| {
        median(
            (0..RUNS)
                .map(|_| whole(Command::new(program).args(arguments).arg(&configs)))
                .collect(),
        )
    };
    let (one, other) = (
        validate(ours, &["catalog", "validate"]),
        validate(&opm, &["validate"]),
    );
    row("validate", "s", one.0, other.0);
    row("validate, memory at most", "MiB", one.1, other.1);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let cache = folder.path().join("cache");
    let cold = |port: u16| {
        let mut command = Command::new(&opm);
        command.args([
            "serve",
            "--pprof-addr",
            "",
            "--termination-log",
            "/dev/null",
            "--port",
            &port.to_string(),
        ]);
        // It leaves its cache there when it is killed
        command.arg(&configs).env("TMPDIR", folder.path());
        command
    };
    let warm = |port: u16| {
        let mut command = cold(port);
        command
            .arg("--cache-dir")
            .arg(&cache)
            .arg("--cache-enforce-integrity=false");
        command
    };
    let own = |port: u16| {
        let mut command = Command::new(ours);
        command
            .args([
                "catalog",
                "serve",
                "--metrics-address",
                "off",
                "--address",
                &format!("127.0.0.1:{port}"),
            ])
            .arg(&configs)
            // As in the image of a catalog
            .envs(roadstead::olm::oci::catalog::MEMORY);
        command
    };
    let serve = |command: &dyn Fn(u16) -> Command| {
        let all: Vec<Served> = (0..RUNS).map(|_| runtime.block_on(served(command))).collect();
        let of = |figure: fn(&Served) -> f64| {
            let mut values: Vec<f64> = all.iter().map(figure).collect();
            values.sort_by(f64::total_cmp);
            values[RUNS / 2]
        };
        Served {
            ready: of(|it| it.ready),
            resident: of(|it| it.resident),
            lists: of(|it| it.lists),
        }
    };
    let (one, from_cold) = (serve(&own), serve(&cold));
    let prepared = {
        // The first makes the cache
        runtime.block_on(served(&warm));
        serve(&warm)
    };
    row("serving after start", "s", one.ready, from_cold.ready);
    row(
        "serving after start, opm with a cache",
        "s",
        one.ready,
        prepared.ready,
    );
    row(
        "resident after all was asked",
        "MiB",
        one.resident,
        prepared.resident,
    );
    row("ListBundles", "bundles/s", one.lists, prepared.lists);
}

fn row(figure: &str, unit: &str, ours: f64, theirs: f64) {
    println!(
        "| {figure} | {ours:.2} {unit} | {theirs:.2} {unit} | {:.2} |",
        ours / theirs
    );
}

fn median(mut all: Vec<(f64, f64)>) -> (f64, f64) {
    let middle = all.len() / 2;
    all.sort_by(|one, other| one.0.total_cmp(&other.0));
    let time = all[middle].0;
    all.sort_by(|one, other| one.1.total_cmp(&other.1));
    (time, all[middle].1)
}

/// A folder for each package, as catalogs of others have it. Gives their size.
fn write(configs: &Path) -> usize {
    let mut bytes = 0;
    for number in 0..PACKAGES {
        let name = format!("package-{number}");
        let version = |minor: usize| format!("1.{minor}.0");
        let entries: Vec<Value> = (0..VERSIONS)
            .map(|minor| {
                let mut entry = json!({"name": format!("{name}.v{}", version(minor))});
                if minor > 0 {
                    entry["replaces"] = json!(format!("{name}.v{}", version(minor - 1)));
                }
                entry
            })
            .collect();
        let mut documents = vec![
            catalogs::package(&name, "stable"),
            catalogs::channel(&name, "stable", json!(entries)),
        ];
        for minor in 0..VERSIONS {
            let mut metadata = catalogs::metadata(&version(minor));
            metadata["description"] =
                json!("What an operator says of itself takes some thousand characters. ".repeat(110));
            metadata["annotations"]["alm-examples"] =
                json!("[{\"apiVersion\": \"example.org/v1\"}]".repeat(120));
            documents.push(catalogs::bundle(
                &name,
                &version(minor),
                &[catalogs::property("olm.csv.metadata", metadata)],
            ));
        }
        let folder = configs.join(&name);
        catalogs::write(&folder, &documents);
        bytes += std::fs::metadata(folder.join("catalog.json")).unwrap().len() as usize;
    }
    bytes
}

/// How long a program takes, in seconds, and what it holds at most, in MiB.
fn whole(command: &mut Command) -> (f64, f64) {
    let begun = Instant::now();
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut most: f64 = 0.0;
    loop {
        most = most.max(memory(&child, "VmHWM"));
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success(), "{command:?}: {status}");
            return (begun.elapsed().as_secs_f64(), most);
        }
        assert!(begun.elapsed() < PATIENCE, "{command:?} takes too long");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn memory(child: &Child, field: &str) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(field));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
    kib.unwrap_or_default() / 1024.0
}

struct Served {
    ready: f64,
    resident: f64,
    lists: f64,
}

/// The server ends with it.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn served(command: &dyn Fn(u16) -> Command) -> Served {
    let port = {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.local_addr().unwrap().port()
    };
    let begun = Instant::now();
    let child = command(port)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let process = Process(child);
    let endpoint = Channel::from_shared(format!("http://127.0.0.1:{port}")).unwrap();
    let channel = loop {
        if let Ok(channel) = endpoint.connect().await {
            let request = HealthCheckRequest::default();
            let health = HealthClient::new(channel.clone()).check(request).await;
            if health.is_ok_and(|health| health.into_inner().status() == ServingStatus::Serving) {
                break channel;
            }
        }
        assert!(begun.elapsed() < PATIENCE, "nothing is served");
        tokio::time::sleep(Duration::from_millis(2)).await;
    };
    let ready = begun.elapsed().as_secs_f64();
    let mut client = RegistryClient::new(channel.clone());
    let (mut best, mut last) = (0.0_f64, api::Bundle::default());
    for _ in 0..3 {
        let (begun, mut count) = (Instant::now(), 0);
        let mut bundles = client
            .list_bundles(api::ListBundlesRequest {})
            .await
            .unwrap()
            .into_inner();
        while let Some(bundle) = bundles.message().await.unwrap() {
            (count, last) = (count + 1, bundle);
        }
        assert_eq!(count, PACKAGES * VERSIONS);
        best = best.max(count as f64 / begun.elapsed().as_secs_f64());
    }
    ask_the_rest(&mut client, last).await;
    ask_what_few_do(channel).await;
    Served {
        ready,
        resident: memory(&process.0, "VmRSS"),
        lists: best,
    }
}

/// Reads an answer to its end.
async fn read<T>(answer: Result<tonic::Response<Streaming<T>>, tonic::Status>) {
    let mut answer = answer.unwrap().into_inner();
    while answer.message().await.unwrap().is_some() {}
}

async fn ask_the_rest(client: &mut RegistryClient<Channel>, bundle: api::Bundle) {
    let api::Bundle {
        package_name: pkg_name,
        channel_name,
        csv_name,
        replaces,
        ..
    } = bundle;
    let (group, version, kind) = ("example.org".to_owned(), "v1".to_owned(), "Widget".to_owned());
    let mut packages = client
        .list_packages(api::ListPackageRequest {})
        .await
        .unwrap()
        .into_inner();
    while let Some(package) = packages.message().await.unwrap() {
        let name = package.name;
        let request = api::GetBundleInChannelRequest {
            pkg_name: name.clone(),
            channel_name: channel_name.clone(),
        };
        #[allow(deprecated)]
        client.get_bundle_for_channel(request).await.unwrap();
        client.get_package(api::GetPackageRequest { name }).await.unwrap();
    }
    let request = api::GetBundleRequest {
        pkg_name: pkg_name.clone(),
        channel_name: channel_name.clone(),
        csv_name,
    };
    client.get_bundle(request).await.unwrap();
    let request = api::GetReplacementRequest {
        csv_name: replaces.clone(),
        pkg_name,
        channel_name,
    };
    client.get_bundle_that_replaces(request).await.unwrap();
    let request = api::GetAllReplacementsRequest { csv_name: replaces };
    read(client.get_channel_entries_that_replace(request).await).await;
    let request = api::GetLatestProvidersRequest {
        group: group.clone(),
        version: version.clone(),
        kind: kind.clone(),
        plural: String::new(),
    };
    read(client.get_latest_channel_entries_that_provide(request).await).await;
    let request = api::GetDefaultProviderRequest {
        group: group.clone(),
        version: version.clone(),
        kind: kind.clone(),
        plural: String::new(),
    };
    client.get_default_bundle_that_provides(request).await.unwrap();
    let request = api::GetAllProvidersRequest {
        group,
        version,
        kind,
        plural: String::new(),
    };
    read(client.get_channel_entries_that_provide(request).await).await;
}

/// What is no part of OLM's own questions: documents of somebody's own, which not every `opm` tells, and what the services are.
async fn ask_what_few_do(channel: Channel) {
    let mut request = tonic::Request::new(api::ExperimentalListPackageCustomSchemasRequest {
        schema: "example.org.note".to_owned(),
        package_name: "package-0".to_owned(),
    });
    let known = "true".parse().unwrap();
    request.metadata_mut().insert("x-acknowledge-experimental", known);
    let mut client = ExperimentalRegistryClient::new(channel.clone());
    match client.experimental_list_package_custom_schemas(request).await {
        Err(status) if status.code() == Code::Unimplemented => {}
        answer => read(answer).await,
    }
    let question = |message_request| ServerReflectionRequest {
        host: String::new(),
        message_request: Some(message_request),
    };
    let questions = [
        question(MessageRequest::ListServices(String::new())),
        question(MessageRequest::FileContainingSymbol("api.Registry".to_owned())),
    ];
    let mut client = ServerReflectionClient::new(channel);
    let questions = futures::stream::iter(questions);
    read(client.server_reflection_info(questions).await).await;
}
