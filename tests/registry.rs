//! The registry over a real connection: what becomes of it when the files change, and what is told of it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "each binary uses what it needs of this")]
#[path = "support/catalogs.rs"]
mod catalogs;

use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use catalogs::{bundle, channel, package};
use roadstead::olm::registry::api::experimental_registry_client::ExperimentalRegistryClient;
use roadstead::olm::registry::api::registry_client::RegistryClient;
use roadstead::olm::registry::{Limits, Watched, api, serve};
use roadstead::telemetry::metrics::Metrics;
use serde_json::{Value, json};
use tokio::net::TcpListener;
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
    channel: Channel,
    metrics: Metrics,
    served: JoinHandle<Result<(), String>>,
    stop: oneshot::Sender<()>,
}

async fn running(folder: &Path) -> Running {
    let limits = Limits {
        look: Duration::from_millis(50),
        ..Limits::default()
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
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
    let channel = Channel::from_shared(address).unwrap().connect_lazy();
    Running {
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
