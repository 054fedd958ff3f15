//! `roadstead bundle validate --with multiarch`: what images are for is judged by a table, and asked of registries as somebody uses the command. Nothing else asks anybody.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "each binary uses what it needs of this")]
#[path = "support/broken_bundles.rs"]
mod broken_bundles;
#[path = "support/platform_bundles.rs"]
mod platform_bundles;
#[path = "support/played_registry.rs"]
mod played_registry;
#[path = "support/registry_client.rs"]
mod registry_client;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use broken_bundles::{Files, put};
use http::Method;
use platform_bundles::{all, sound};
use played_registry::{Played, Reply, Tls, digest_of};
use registry_client::{basic, guarded, hasty};
use roadstead::olm::oci::Name;
use roadstead::olm::oci::registry::Registry;
use roadstead::olm::registry_v1::{Bundle, Platforms, validate_platforms};
use rstest::rstest;
use serde_json::{Value, json};

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";

fn judged(files: &Files, platforms: &Platforms) -> Vec<(&'static str, String)> {
    let folder = tempfile::tempdir().unwrap();
    files.write(folder.path());
    let (bundle, found) = Bundle::read(folder.path()).unwrap();
    assert_eq!(found, []);
    let asked: Vec<String> = bundle.images().into_iter().map(str::to_owned).collect();
    let known: Vec<String> = platforms.keys().cloned().collect();
    assert_eq!(asked, known, "each image is asked for, once");
    let found = validate_platforms(&bundle, platforms);
    found
        .into_iter()
        .map(|finding| (finding.code, finding.message))
        .collect()
}

#[test]
fn each_rule_is_kept_and_each_exception_made() {
    for case in all() {
        let found = judged(&case.files, &case.platforms());
        let mut codes: Vec<&str> = found.iter().map(|(code, _)| *code).collect();
        codes.sort_unstable();
        assert_eq!(codes, case.codes, "{}: {found:#?}", case.name);
    }
}

#[rstest]
#[case(
    "the-default-is-lacking",
    "registry.example.org/widgets:v1 is for linux/arm64, and not for linux/amd64, which the ClusterServiceVersion supports"
)]
#[case(
    "two-architectures-without-a-label",
    "no label operatorframework.io/arch.* names amd64, arm64, for which images of the operator are"
)]
#[case(
    "a-system-without-a-label",
    "no label operatorframework.io/os.* names linux, windows, for which images of the operator are"
)]
#[case(
    "a-related-image-is-behind",
    "registry.example.org/other:v1 is for linux/amd64, and not for linux/arm64, for which images of the operator are"
)]
#[case(
    "no-affinity",
    "Deployment widgets asks for nodes of no platform; all of its images are for linux/amd64, linux/arm64"
)]
#[case("unseen-without-affinity", "Deployment widgets asks for nodes of no platform")]
#[case(
    "nodes-too-many",
    "Deployment widgets asks for nodes of linux/s390x, for which registry.example.org/widgets:v1 is not"
)]
#[case(
    "nodes-too-few",
    "Deployment widgets asks for no nodes of linux/arm64, for which all of its images are"
)]
#[case(
    "no-image-at-all",
    "registry.example.org/widgets:v1 is for no platform, and not for linux/amd64, linux/arm64, which the ClusterServiceVersion supports"
)]
#[case(
    "unseen",
    "registry.example.org/widgets:v1 could not be looked at: there is none"
)]
fn what_is_wrong_is_told_with_names_and_platforms(#[case] name: &str, #[case] told: &str) {
    let case = all().into_iter().find(|case| case.name == name).unwrap();
    let found = judged(&case.files, &case.platforms());
    assert!(found.iter().any(|(_, message)| message == told), "{found:#?}");
}

/// Nothing that is missing keeps from judging the rest, and nothing is made up.
#[test]
fn without_a_cluster_service_version_there_is_nothing_to_ask() {
    let mut files = sound();
    files.csv = Value::Null;
    assert_eq!(judged(&files, &Platforms::new()), []);
}

/// A registry with images that it serves to everybody.
struct Place {
    played: Played,
    folder: tempfile::TempDir,
}

impl Place {
    /// With a bundle of which the operator is `HOST/operator:v1`, and another image `HOST/other:v1`.
    async fn start(tls: Option<&Tls>) -> Self {
        let (played, folder) = (Played::start(tls).await, tempfile::tempdir().unwrap());
        let mut files = sound();
        let operator = json!(format!("{}/me/operator:v1", played.host));
        let other = json!({"name": "other", "image": format!("{}/me/other:v1", played.host)});
        let deployment = "/spec/install/spec/deployments/0/spec/template/spec";
        put(
            &mut files.csv,
            &format!("{deployment}/containers/0/image"),
            operator.clone(),
        );
        put(&mut files.csv, "/spec/relatedImages/0/image", operator);
        files.csv["spec"]["relatedImages"]
            .as_array_mut()
            .unwrap()
            .push(other);
        files.write(folder.path());
        Self { played, folder }
    }

    fn has(&self, part: &'static str, media_type: &'static str, document: &Value) {
        let bytes = document.to_string();
        self.played.on(move |seen| {
            let is_it = seen.path.ends_with(part);
            is_it.then(|| Reply::new(200, bytes.clone()).with("content-type", media_type))
        });
    }

    /// An image without a list, of this configuration.
    fn has_alone(&self, part: &'static str, config: &Value) {
        let bytes = config.to_string();
        let digest = digest_of(bytes.as_bytes());
        let config = json!({"mediaType": CONFIG, "digest": digest, "size": bytes.len()});
        self.has(
            part,
            MANIFEST,
            &json!({"schemaVersion": 2, "config": config, "layers": []}),
        );
        self.played.on(move |seen| {
            seen.path
                .ends_with(&digest)
                .then(|| Reply::new(200, bytes.clone()))
        });
    }

    /// What the command finds, by code and message. In a pipe it tells nothing else.
    async fn found(&self, arguments: &[&str]) -> Vec<(String, String)> {
        let folder = self.folder.path().to_owned();
        let arguments: Vec<String> = arguments.iter().map(|it| (*it).to_owned()).collect();
        let told = tokio::task::spawn_blocking(move || validate(&folder, &arguments));
        let report: Value = serde_json::from_str(&told.await.unwrap()).unwrap();
        let text = |finding: &Value, field: &str| finding[field].as_str().unwrap().to_owned();
        let findings = report["findings"].as_array().unwrap().iter();
        findings
            .map(|finding| (text(finding, "code"), text(finding, "message")))
            .filter(|(code, _)| code != "image-by-tag")
            .collect()
    }

    fn registry(&self, image: &str) -> Registry {
        let name = Name::of("IMAGE", &format!("{}/me/{image}:v1", self.played.host)).unwrap();
        Registry::new(&name, None, &hasty(), Arc::new(())).unwrap()
    }
}

fn validate(folder: &Path, arguments: &[String]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_roadstead"))
        .args(["bundle", "validate", "--output", "json"])
        .arg(folder)
        .args(arguments)
        .env_remove("REGISTRY_AUTH_FILE")
        .env("HOME", "/nonexistent")
        .env("XDG_RUNTIME_DIR", "/nonexistent")
        .output()
        .unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(
        told.is_empty() || told.starts_with("roadstead: ") && told.contains("is not valid"),
        "{told}"
    );
    String::from_utf8(output.stdout).unwrap()
}

fn entry(os: &str, architecture: &str) -> Value {
    let digest = digest_of(architecture.as_bytes());
    json!({"mediaType": MANIFEST, "digest": digest, "size": 1, "platform": {"os": os, "architecture": architecture}})
}

fn list(entries: &[Value]) -> Value {
    json!({"schemaVersion": 2, "manifests": entries})
}

fn both() -> Value {
    list(&[entry("linux", "amd64"), entry("linux", "arm64")])
}

#[tokio::test]
async fn registries_are_asked_once_for_each_image_and_on_request_alone() {
    let place = Place::start(None).await;
    assert_eq!(place.found(&["--with", "all"]).await, []);
    assert_eq!(place.played.seen().len(), 0);
    let mut attested = both();
    let attestations = attested["manifests"].as_array_mut().unwrap();
    attestations.push(entry("unknown", "unknown"));
    place.has("/operator/manifests/v1", INDEX, &attested);
    place.has("/other/manifests/v1", DOCKER_LIST, &both());
    assert_eq!(place.found(&["--with", "multiarch"]).await, []);
    assert_eq!(place.played.count(Method::GET, "/operator/"), 1);
    assert_eq!(place.played.seen().len(), 2);
}

#[tokio::test]
async fn an_image_without_a_list_is_for_what_its_configuration_says() {
    let place = Place::start(None).await;
    place.has("/operator/manifests/v1", INDEX, &both());
    place.has_alone(
        "/other/manifests/v1",
        &json!({"os": "linux", "architecture": "arm64", "variant": "v8"}),
    );
    let found = place.found(&["--with", "multiarch"]).await;
    let told = format!(
        "{}/me/other:v1 is for linux/arm64, and not for linux/amd64, which the ClusterServiceVersion supports",
        place.played.host
    );
    assert_eq!(found, [("multiarch-unsupported".to_owned(), told)]);
}

#[tokio::test]
async fn an_image_that_is_not_there_is_told_and_lacks_nothing() {
    let place = Place::start(None).await;
    place.has("/operator/manifests/v1", INDEX, &both());
    let found = place.found(&["--with", "multiarch"]).await;
    let [(code, message)] = &found[..] else {
        panic!("{found:#?}")
    };
    let image = format!("{}/me/other:v1", place.played.host);
    assert_eq!(code, "multiarch-unseen");
    assert!(
        message.starts_with(&format!("{image} could not be looked at: GET ")),
        "{message}"
    );
    assert!(
        message.contains("404") && message.contains("MANIFEST_UNKNOWN"),
        "{message}"
    );
}

#[rstest]
#[case::right("geheim-17", &[])]
#[case::wrong("another", &["multiarch-unseen", "multiarch-unseen"])]
#[tokio::test]
async fn credentials_are_those_of_pull(#[case] password: &str, #[case] expected: &[&str]) {
    let place = Place::start(None).await;
    place.has("/operator/manifests/v1", INDEX, &both());
    place.has("/other/manifests/v1", INDEX, &both());
    place.played.on(guarded(basic(), r#"Basic realm="a""#.to_owned()));
    let file = place.folder.path().join("auth.json");
    let auth = json!({"auths": {&place.played.host: {"username": "me", "password": password}}});
    std::fs::write(&file, auth.to_string()).unwrap();
    let file = file.display().to_string();
    let found = place.found(&["--with", "multiarch", "--auth-file", &file]).await;
    let codes: Vec<&str> = found.iter().map(|(code, _)| &**code).collect();
    assert_eq!(codes, expected, "{found:#?}");
    for (_, message) in &found {
        assert!(
            message.contains("401") && !message.contains(password),
            "{message}"
        );
        assert!(message.contains("too old, or not allowed"), "{message}");
    }
}

#[tokio::test]
async fn an_authority_is_given_as_to_pull_and_one_that_is_none_fails_the_command() {
    let tls = Tls::new();
    let place = Place::start(Some(&tls)).await;
    place.has("/operator/manifests/v1", INDEX, &both());
    place.has("/other/manifests/v1", INDEX, &both());
    let file = place.folder.path().join("ca.pem");
    std::fs::write(&file, &tls.authority).unwrap();
    let ca = file.display().to_string();
    assert_eq!(place.found(&["--with", "multiarch", "--ca", &ca]).await, []);
    let folder = place.folder.path().to_owned();
    let output = Command::new(env!("CARGO_BIN_EXE_roadstead"))
        .args([
            "bundle",
            "validate",
            "--with",
            "multiarch",
            "--ca",
            "/nowhere/ca.pem",
        ])
        .arg(folder)
        .output()
        .unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success() && told.contains("--ca is \"/nowhere/ca.pem\""),
        "{told}"
    );
}

/// What the client makes of an image, or what a person would be told.
async fn platforms(place: &Place, image: &str) -> Result<Vec<String>, String> {
    let platforms = place.registry(image).platforms().await;
    let platforms = platforms.map_err(registry_client::told)?;
    Ok(platforms.iter().map(ToString::to_string).collect())
}

/// An index need not name platforms, and holds things that are no images.
#[tokio::test]
async fn what_an_index_does_not_say_its_images_do() {
    let place = Place::start(None).await;
    let config = json!({"os": "linux", "architecture": "s390x"}).to_string();
    let described = |bytes: &str, media_type: &str| json!({"mediaType": media_type, "digest": digest_of(bytes.as_bytes()), "size": bytes.len()});
    let manifest = |config: &str| {
        json!({"schemaVersion": 2, "config": described(config, CONFIG), "layers": []}).to_string()
    };
    let (image, artifact) = (manifest(&config), manifest("{}"));
    let entries = [
        described(&image, MANIFEST),
        described(&artifact, MANIFEST),
        described("something", "application/vnd.example+json"),
    ];
    place.has("/operator/manifests/v1", INDEX, &list(&entries));
    for (bytes, media_type) in [
        (image, MANIFEST),
        (artifact, MANIFEST),
        (config, CONFIG),
        ("{}".to_owned(), CONFIG),
    ] {
        let digest = digest_of(bytes.as_bytes());
        place.played.on(move |seen| {
            let reply = || Reply::new(200, bytes.clone()).with("content-type", media_type);
            seen.path.ends_with(&digest).then(reply)
        });
    }
    assert_eq!(platforms(&place, "operator").await.unwrap(), ["linux/s390x"]);
}

#[rstest]
#[case(json!({"architecture": "amd64"}))]
#[case(json!({"architecture": "", "os": ""}))]
#[case(json!("linux/amd64"))]
#[tokio::test]
async fn a_configuration_that_does_not_say_what_it_is_for_is_told(#[case] config: Value) {
    let place = Place::start(None).await;
    place.has_alone("/operator/manifests/v1", &config);
    let why = platforms(&place, "operator").await.unwrap_err();
    assert!(
        why.ends_with("its configuration names no architecture and OS"),
        "{why}"
    );
}

#[tokio::test]
async fn a_configuration_that_is_not_what_was_meant_is_not_taken() {
    let place = Place::start(None).await;
    place.has_alone(
        "/operator/manifests/v1",
        &json!({"architecture": "amd64", "os": "linux"}),
    );
    place.played.on(|seen| {
        let other = json!({"architecture": "arm64", "os": "linux"}).to_string();
        seen.path.contains("/blobs/").then(|| Reply::new(200, other))
    });
    let why = platforms(&place, "operator").await.unwrap_err();
    assert!(why.contains("has the digest sha256:"), "{why}");
}

#[rstest]
#[case("/manifests/")]
#[case("/blobs/")]
#[tokio::test]
async fn a_registry_that_says_nothing_is_not_waited_for_without_end(#[case] what: &'static str) {
    let place = Place::start(None).await;
    place.has_alone(
        "/operator/manifests/v1",
        &json!({"architecture": "amd64", "os": "linux"}),
    );
    place.played.on(move |seen| {
        let silent = Reply {
            after: Duration::from_secs(600),
            ..Reply::new(200, "")
        };
        seen.path.contains(what).then_some(silent)
    });
    let why = platforms(&place, "operator").await.unwrap_err();
    assert!(
        why.contains("there was no answer within 0.7 s; it was tried 3 times"),
        "{why}"
    );
}
