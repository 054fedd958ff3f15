//! The client of registries, asked of one in memory that does everything wrong that registries do: nothing is taken that is not what was meant, and nothing
//! is waited for without end.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "each binary uses what it needs of this")]
#[path = "support/broken_bundles.rs"]
mod broken_bundles;
#[path = "support/registry_client.rs"]
mod client;
#[path = "support/played_registry.rs"]
mod played_registry;

use std::path::Path;
use std::time::{Duration, Instant};

use client::{Client, filled, hasty};
use http::Method;
use played_registry::{Played, Reply};
use rstest::rstest;

#[tokio::test]
async fn what_was_pushed_is_pulled_and_is_not_sent_twice() {
    let played = Played::start(None).await;
    let first = Client::of(&played).push().await.unwrap();
    assert_eq!(played.count(Method::POST, "/uploads/"), 2);
    played.forget();
    assert_eq!(Client::of(&played).push().await.unwrap(), first);
    assert_eq!(played.count(Method::POST, "/uploads/"), 0);
    assert_eq!(
        Client::of(&played).pull().await.unwrap().root.digest.to_string(),
        first
    );
}

#[tokio::test]
async fn redirects_end() {
    let played = filled().await;
    played.on(|seen| {
        let is_it = seen.path.contains("/blobs/");
        is_it.then(|| Reply::new(302, "").with("location", seen.path.clone()))
    });
    let error = Client::of(&played).pull().await.err().unwrap();
    assert!(error.contains("redirects more than 5 times"), "{error}");
}

#[rstest]
#[case(429, Some("0"), 2, true)]
#[case(503, None, 2, true)]
#[case(503, None, 3, false)]
#[case(429, Some("3600"), 1, false)]
#[case(400, None, 1, false)]
#[tokio::test]
async fn what_may_go_well_the_next_time_is_tried_again_a_few_times(
    #[case] status: u16,
    #[case] retry_after: Option<&'static str>,
    #[case] failures: usize,
    #[case] goes_well: bool,
) {
    let played = filled().await;
    let mut left = failures;
    played.on(move |seen| {
        let is_it = seen.path.contains("/manifests/") && left > 0;
        left -= usize::from(is_it);
        is_it.then(|| {
            let reply = Reply::new(status, r#"{"errors":[{"code":"BUSY","message":"not now"}]}"#);
            retry_after
                .into_iter()
                .fold(reply, |reply, time| reply.with("retry-after", time))
        })
    });
    let begun = Instant::now();
    let pulled = Client::of(&played).pull().await;
    assert_eq!(pulled.is_ok(), goes_well, "{:?}", pulled.err());
    if let Err(error) = pulled {
        assert!(
            error.contains(&status.to_string())
                && error.contains("BUSY: not now")
                && error.contains("/manifests/v1"),
            "{error}"
        );
        assert_eq!(played.count(Method::GET, "/manifests/"), failures);
    }
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn an_answer_that_is_cut_off_is_asked_for_again() {
    let played = filled().await;
    let mut is_first = true;
    played.on(move |seen| {
        if !seen.is(Method::GET, "/blobs/") || !is_first {
            return None;
        }
        is_first = false;
        Some(Reply::new(200, "half").with("content-length", "100"))
    });
    Client::of(&played).pull().await.unwrap();
}

#[rstest]
#[case("/blobs/")]
#[case("/manifests/")]
#[tokio::test]
async fn what_is_not_what_was_meant_is_not_taken(#[case] what: &'static str) {
    let played = filled().await;
    played.on(move |seen| {
        let is_it = seen.is(Method::GET, what);
        is_it.then(|| {
            let reply = Reply::new(200, "x".repeat(300));
            reply.with("docker-content-digest", played_registry::digest_of(b"another"))
        })
    });
    let error = Client::of(&played).pull().await.err().unwrap();
    let is_told = ["what came has the digest", "more came than", "are missing"];
    assert!(is_told.iter().any(|why| error.contains(why)), "{error}");
}

#[tokio::test]
async fn a_registry_that_keeps_something_else_than_was_sent_is_told() {
    let played = Played::start(None).await;
    played.on(|seen| {
        let is_it = seen.is(Method::PUT, "/manifests/");
        is_it.then(|| {
            Reply::new(201, "").with("docker-content-digest", played_registry::digest_of(b"another"))
        })
    });
    let error = Client::of(&played).push().await.unwrap_err();
    assert!(error.contains("the registry keeps sha256:"), "{error}");
}

#[rstest]
#[case("/manifests/")]
#[case("/blobs/")]
#[tokio::test]
async fn a_registry_that_says_nothing_is_not_waited_for_without_end(#[case] what: &'static str) {
    let played = filled().await;
    played.on(move |seen| {
        let is_it = seen.is(Method::GET, what);
        is_it.then(|| Reply {
            after: Duration::from_secs(600),
            ..Reply::new(200, "")
        })
    });
    let begun = Instant::now();
    let error = Client::of(&played).pull().await.err().unwrap();
    assert!(
        error.contains("there was no answer within 0.7 s; it was tried 3 times"),
        "{error}"
    );
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn a_body_that_never_ends_is_given_up() {
    let played = filled().await;
    played.on(|seen| {
        let is_it = seen.is(Method::GET, "/manifests/");
        is_it.then(|| Reply::new(200, vec![b'x'; 5 << 20]))
    });
    let error = Client::of(&played).pull().await.err().unwrap();
    assert!(
        error.contains("the answer has more than 4194304 bytes"),
        "{error}"
    );
}

#[tokio::test]
async fn nobody_who_listens_is_told_as_people_know_it() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    drop(listener);
    let client = Client {
        options: hasty(),
        credentials: None,
        host: host.clone(),
    };
    let error = client.push().await.unwrap_err();
    assert!(
        error.contains(&host) && error.contains("Connection refused"),
        "{error}"
    );
}

/// Of the hello example's manifests with one more image that the operator is told of.
fn generate(folder: &Path, image: &str, told: &str) -> assert_cmd::assert::Assert {
    let manifests = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/hello/manifests");
    let manifests = ["crd", "operator", "sample"].map(|file| {
        let text = std::fs::read_to_string(manifests.join(file).with_extension("yaml")).unwrap();
        let told =
            format!("image: hello-operator\n          env: [{{name: RELATED_IMAGE_TOOL, value: '{told}'}}]");
        text.replace("image: hello-operator", &told)
    });
    let mut command = assert_cmd::Command::cargo_bin("roadstead").unwrap();
    command
        .current_dir(folder)
        .args(["bundle", "generate", "--input", "-", "--package", "hello"]);
    command.args(["--version", "1.0.0", "--image", image, "--digests"]);
    command.write_stdin(manifests.join("---\n")).assert()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_names_every_image_by_the_digest_that_its_tag_has_now() {
    let played = filled().await;
    let (image, digest) = {
        let root = Client::of(&played).pull().await.unwrap().root;
        (format!("{}/me/widgets-bundle", played.host), root.digest)
    };
    let pinned = format!("registry.example.com/tool:v2@{digest}");
    let folder = tempfile::tempdir().unwrap();
    let (path, tag) = (folder.path().to_owned(), format!("{image}:v1"));
    let (told, missing) = (pinned.clone(), format!("{image}:v7"));
    let generated = tokio::task::spawn_blocking(move || {
        generate(&path, &tag, &told).success();
        generate(&path, &missing, &told).failure()
    });
    let refused = generated.await.unwrap();
    let refused = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
    assert!(
        refused.contains(&format!("look whether {image}:v7 is its name")),
        "{refused}"
    );
    let csv = folder
        .path()
        .join("bundle/manifests/hello.clusterserviceversion.yaml");
    let csv = std::fs::read_to_string(csv).unwrap();
    let named = format!("image: {image}@{digest}\n");
    assert_eq!(
        csv.matches(&named).count(),
        2,
        "in the Deployment and among relatedImages: {csv}"
    );
    assert!(
        csv.contains(&format!("containerImage: {image}@{digest}\n")),
        "{csv}"
    );
    assert!(
        csv.contains(&format!("image: {pinned}\n")),
        "it is asked for nowhere, and stays: {csv}"
    );
    assert!(!csv.contains(":v1\n"), "{csv}");
}
