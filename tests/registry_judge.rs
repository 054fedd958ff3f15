//! `opm` is the judge of our registry: each question is answered as `opm serve` answers it, field by field; and of our verdicts on catalogs.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "support/catalogs.rs"]
mod catalogs;
#[path = "support/opm.rs"]
mod opm;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use roadstead::olm::registry::api::registry_client::RegistryClient;
use roadstead::olm::registry::{Limits, Watched, api, serve};
use tokio::time::{Instant, sleep};
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

/// `opm serve`, which ends with the value, and so does the cache that it leaves behind.
struct Upstream {
    process: Child,
    _cache: tempfile::TempDir,
}

impl Drop for Upstream {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

async fn upstream(folder: &Path) -> (Upstream, Channel) {
    let (port, cache) = (free_port(), tempfile::tempdir().unwrap());
    let process = Command::new(opm::program())
        .args([
            "serve",
            "--pprof-addr",
            "",
            "--termination-log",
            "/dev/null",
            "--port",
            &port.to_string(),
        ])
        .arg(folder)
        .env("TMPDIR", cache.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let upstream = Upstream {
        process,
        _cache: cache,
    };
    (upstream, connect(port).await)
}

async fn ours(folder: &Path) -> Channel {
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .unwrap();
    let port = listener.local_addr().unwrap().port();
    let folder = folder.to_owned();
    tokio::spawn(async move {
        serve(
            folder,
            listener,
            Limits::default(),
            Watched::default(),
            std::future::pending(),
        )
        .await
        .unwrap();
    });
    connect(port).await
}

async fn connect(port: u16) -> Channel {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let endpoint = Channel::from_shared(format!("http://{address}")).unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        match endpoint.connect().await {
            Ok(channel) => return channel,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        sleep(Duration::from_millis(50)).await;
    }
}

type Answers = BTreeMap<String, Result<Vec<String>, (Code, String)>>;

fn one<T: std::fmt::Debug>(
    answer: Result<tonic::Response<T>, Status>,
) -> Result<Vec<String>, (Code, String)> {
    let answer = answer.map_err(|status| (status.code(), status.message().to_owned()))?;
    Ok(vec![format!("{:#?}", answer.into_inner())])
}

/// All that comes, as a set.
async fn many<T: std::fmt::Debug>(
    answer: Result<tonic::Response<Streaming<T>>, Status>,
) -> Result<Vec<String>, (Code, String)> {
    let told = |status: Status| (status.code(), status.message().to_owned());
    let mut stream = answer.map_err(told)?.into_inner();
    let mut all = Vec::new();
    while let Some(item) = stream.message().await.map_err(told)? {
        all.push(format!("{item:#?}"));
    }
    all.sort();
    Ok(all)
}

/// Everything that can be asked of a catalog, and things that are not there.
async fn ask(channel: Channel) -> Answers {
    let mut client = RegistryClient::new(channel);
    let mut answers = Answers::new();
    let mut bundles = client
        .list_bundles(api::ListBundlesRequest {})
        .await
        .unwrap()
        .into_inner();
    let mut known = Vec::new();
    while let Some(bundle) = bundles.message().await.unwrap() {
        known.push(bundle);
    }
    answers.insert(
        "ListBundles".into(),
        many(client.list_bundles(api::ListBundlesRequest {}).await).await,
    );
    answers.insert(
        "ListPackages".into(),
        many(client.list_packages(api::ListPackageRequest {}).await).await,
    );
    let nothing = api::Bundle {
        package_name: "none".into(),
        channel_name: "none".into(),
        csv_name: "none".into(),
        ..Default::default()
    };
    let mut half = known[0].clone();
    half.channel_name = "none".into();
    let mut nearly = known[0].clone();
    nearly.csv_name = "none".into();
    for bundle in known.iter().chain([&nothing, &half, &nearly]) {
        let api::Bundle {
            package_name,
            channel_name,
            csv_name,
            ..
        } = bundle.clone();
        let mut note = |question: &str, answer| {
            answers.insert(
                format!("{question} {package_name} {channel_name} {csv_name}"),
                answer,
            );
        };
        let (pkg_name, name) = (package_name.clone(), package_name.clone());
        note(
            "GetPackage",
            one(client.get_package(api::GetPackageRequest { name }).await),
        );
        let request = api::GetBundleRequest {
            pkg_name: pkg_name.clone(),
            channel_name: channel_name.clone(),
            csv_name: csv_name.clone(),
        };
        note("GetBundle", one(client.get_bundle(request).await));
        let request = api::GetBundleInChannelRequest {
            pkg_name: pkg_name.clone(),
            channel_name: channel_name.clone(),
        };
        #[allow(deprecated)]
        let answer = client.get_bundle_for_channel(request).await;
        note("GetBundleForChannel", one(answer));
        let request = api::GetReplacementRequest {
            csv_name: csv_name.clone(),
            pkg_name,
            channel_name: channel_name.clone(),
        };
        note(
            "GetBundleThatReplaces",
            one(client.get_bundle_that_replaces(request).await),
        );
        let request = api::GetAllReplacementsRequest {
            csv_name: csv_name.clone(),
        };
        note(
            "GetChannelEntriesThatReplace",
            many(client.get_channel_entries_that_replace(request).await).await,
        );
    }
    let mut kinds: Vec<api::GroupVersionKind> = known
        .iter()
        .flat_map(|bundle| bundle.provided_apis.clone())
        .collect();
    kinds.push(api::GroupVersionKind {
        kind: "None".into(),
        ..Default::default()
    });
    for api::GroupVersionKind {
        group, version, kind, ..
    } in kinds
    {
        let mut note = |question: &str, answer| {
            answers.insert(format!("{question} {group} {version} {kind}"), answer);
        };
        let request = api::GetAllProvidersRequest {
            group: group.clone(),
            version: version.clone(),
            kind: kind.clone(),
            plural: String::new(),
        };
        note(
            "GetChannelEntriesThatProvide",
            many(client.get_channel_entries_that_provide(request).await).await,
        );
        let request = api::GetLatestProvidersRequest {
            group: group.clone(),
            version: version.clone(),
            kind: kind.clone(),
            plural: String::new(),
        };
        note(
            "GetLatestChannelEntriesThatProvide",
            many(client.get_latest_channel_entries_that_provide(request).await).await,
        );
        let request = api::GetDefaultProviderRequest {
            group: group.clone(),
            version: version.clone(),
            kind: kind.clone(),
            plural: String::new(),
        };
        note(
            "GetDefaultBundleThatProvides",
            one(client.get_default_bundle_that_provides(request).await),
        );
    }
    answers
}

async fn assert_the_same(folder: &Path) {
    let (_upstream, channel) = upstream(folder).await;
    let expected = ask(channel).await;
    let answers = ask(ours(folder).await).await;
    assert_eq!(
        answers.keys().collect::<Vec<_>>(),
        expected.keys().collect::<Vec<_>>()
    );
    for (question, expected) in &expected {
        let answer = &answers[question];
        if answer != expected {
            let (ours, theirs) = (told(answer), told(expected));
            let same = ours
                .bytes()
                .zip(theirs.bytes())
                .take_while(|(one, other)| one == other)
                .count();
            let around = |text: &str| {
                String::from_utf8_lossy(
                    &text.as_bytes()[same.saturating_sub(200)..(same + 100).min(text.len())],
                )
                .into_owned()
            };
            panic!(
                "{question}: ours\n{}\nupstream\n{}",
                around(&ours),
                around(&theirs)
            );
        }
    }
    assert!(expected.len() > 10);
}

fn told(answer: &Result<Vec<String>, (Code, String)>) -> String {
    match answer {
        Ok(all) => all.join("\n"),
        Err(error) => format!("{error:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_products_catalog_is_served_as_upstream_serves_it() {
    assert_the_same(&root().join("catalog")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_catalog_with_all_that_there_may_be_is_served_as_upstream_serves_it() {
    let folder = tempfile::tempdir().unwrap();
    catalogs::write(folder.path(), &catalogs::rich());
    assert_the_same(folder.path()).await;
}

/// What is read by one thing and written by another seldom stays the same text.
#[tokio::test(flavor = "multi_thread")]
async fn values_are_served_as_upstream_serves_them_however_they_are_written() {
    let deep = "[".repeat(140) + &"]".repeat(140);
    let numbers = "[100000000000000000000, 12345678901234567890, -0.0, -0, 1e21, 1.5e-7, 0.000001, 1.0, 1e2, 9007199254740993]";
    let values = [
        ("custom.numbers", numbers),
        ("custom.deep", &deep),
        ("custom.half", r#""\ud800 \u0041\u2028<&>\b\u001f\/""#),
        ("custom.null", "null"),
        (
            "custom.twice",
            r#"{"b": 1, "a": {"c": 2}, "b": {"é": 3, "e": 4}}"#,
        ),
        (
            "olm.gvk.required",
            r#"{"kind": "A", "more": 1e20, "group": "b", "version": "v1"}"#,
        ),
    ];
    let kinds: Vec<_> = values.iter().map(|(kind, _)| *kind).collect();
    let descriptors = format!(
        r#"[{{"path": "a", "value": {numbers}}}, {{"value": {deep}}}, {{"value": null}}, {{"value": "<\ud800>"}}]"#
    );
    let metadata = serde_json::json!({
        "crdDescriptions": {"owned": [null, {"specDescriptors": "DESCRIPTORS"}]}, "keywords": ["a", null], "labels": {"l": null},
        "nativeAPIs": [null], "maintainers": null, "apiServiceDefinitions": {"owned": [{"containerPort": 8443.0}]},
    });
    let mut properties: Vec<_> = kinds
        .iter()
        .map(|kind| catalogs::property(kind, serde_json::json!(format!("VALUE OF {kind}"))))
        .collect();
    properties.push(catalogs::property("olm.csv.metadata", metadata));
    let entries = serde_json::json!([{"name": "b.v1.0.0"}]);
    let documents = [
        catalogs::package("b", "stable"),
        catalogs::channel("b", "stable", entries),
        catalogs::bundle("b", "1.0.0", &properties),
    ];
    let mut text: String = documents.iter().map(ToString::to_string).collect();
    for (kind, value) in values {
        text = text.replace(&format!("\"VALUE OF {kind}\""), value);
    }
    text = text.replace("\"DESCRIPTORS\"", &descriptors);
    assert!(!text.contains("VALUE OF"), "{text}");
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("catalog.json"), text).unwrap();
    assert_the_same(folder.path()).await;
}

/// The services that a server tells of, by a version of reflection.
macro_rules! services {
    ($version:ident, $channel:expr) => {{
        use reflection::server_reflection_request::MessageRequest;
        use reflection::server_reflection_response::MessageResponse;
        use tonic_reflection::pb::$version as reflection;
        let mut client = reflection::server_reflection_client::ServerReflectionClient::new($channel);
        let request = reflection::ServerReflectionRequest {
            host: String::new(),
            message_request: Some(MessageRequest::ListServices(String::new())),
        };
        let request = futures::stream::iter([request]);
        let mut answers = client.server_reflection_info(request).await.unwrap().into_inner();
        match answers.message().await.unwrap().unwrap().message_response {
            Some(MessageResponse::ListServicesResponse(services)) => {
                let names = services.service.into_iter().map(|service| service.name);
                names.collect::<BTreeSet<String>>()
            }
            other => panic!("{other:?}"),
        }
    }};
}

/// `ExperimentalRegistry` is one that this `opm` does not have yet, so that it cannot be asked the same: `registry.rs` does.
#[tokio::test(flavor = "multi_thread")]
async fn the_services_of_upstream_are_told_by_both_versions_of_reflection() {
    let folder = root().join("catalog");
    let (_upstream, theirs) = upstream(&folder).await;
    let ours = ours(&folder).await;
    let new = "api.ExperimentalRegistry".to_owned();
    for (mut services, expected) in [
        (services!(v1, ours.clone()), services!(v1, theirs.clone())),
        (
            services!(v1alpha, ours.clone()),
            services!(v1alpha, theirs.clone()),
        ),
    ] {
        assert!(services.remove(&new) && !expected.contains(&new), "{expected:?}");
        assert_eq!(services, expected);
        assert!(services.contains("api.Registry"), "{services:?}");
    }
}
