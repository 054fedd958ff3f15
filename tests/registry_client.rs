//! The client of registries, asked of one in memory that does everything wrong that registries do: credentials go to nobody else, nothing is taken that is not
//! what was meant, and nothing is waited for without end.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "each binary uses what it needs of this")]
#[path = "support/broken_bundles.rs"]
mod broken_bundles;
#[path = "support/played_registry.rs"]
mod played_registry;

use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use broken_bundles::plain;
use http::Method;
use played_registry::{Played, Reply, Seen, Tls};
use roadstead::olm::oci::credentials::{Credentials, Secret};
use roadstead::olm::oci::registry::{Limits, Options, Registry};
use roadstead::olm::oci::{Content, Created, Name, Platform, bundle};
use rstest::rstest;

const PASSWORD: &str = "geheim-17";

fn image() -> Content {
    let folder = tempfile::tempdir().unwrap();
    plain().write(folder.path());
    bundle::image(folder.path(), &[Platform::linux("amd64")], Created::default()).unwrap()
}

fn name(host: &str) -> Name {
    Name::of("IMAGE", &format!("{host}/me/widgets-bundle:v1")).unwrap()
}

fn hasty() -> Options {
    Options {
        limits: Limits {
            answer: Duration::from_millis(700),
            attempts: 3,
            pause: Duration::from_millis(5),
            ..Limits::default()
        },
        ..Options::default()
    }
}

fn password() -> Option<Credentials> {
    Some(Credentials::Password {
        user: "me".to_owned(),
        password: Secret::new(PASSWORD),
    })
}

struct Client {
    options: Options,
    credentials: Option<Credentials>,
    host: String,
}

impl Client {
    fn of(played: &Played) -> Self {
        Self {
            options: hasty(),
            credentials: None,
            host: played.host.clone(),
        }
    }

    fn with(mut self, credentials: Option<Credentials>) -> Self {
        self.credentials = credentials;
        self
    }

    fn registry(&self) -> Registry {
        let credentials = self.credentials.clone();
        Registry::new(&name(&self.host), credentials, &self.options, Arc::new(())).unwrap()
    }

    /// The image's digest, or what a person would be told.
    async fn push(&self) -> Result<String, String> {
        let pushed = self.registry().push(&image()).await;
        pushed.map(|digest| digest.to_string()).map_err(told)
    }

    async fn pull(&self) -> Result<Content, String> {
        let folder = tempfile::tempdir().unwrap();
        let pulled = self.registry().pull(None, folder.path()).await.map_err(told)?;
        pulled.verify().map_err(|error| error.to_string())?;
        Ok(pulled)
    }
}

/// Whatever goes wrong, a secret is not told.
fn told(error: roadstead::olm::oci::Error) -> String {
    let text = format!("{error} {error:?}");
    let encoded = STANDARD.encode(format!("me:{PASSWORD}"));
    assert!(!text.contains(PASSWORD) && !text.contains(&encoded), "{text}");
    error.to_string()
}

/// A registry with the image in it.
async fn filled() -> Played {
    let played = Played::start(None).await;
    Client::of(&played).push().await.unwrap();
    played.forget();
    played
}

fn basic() -> String {
    format!("Basic {}", STANDARD.encode(format!("me:{PASSWORD}")))
}

/// Lets nobody in without `wanted`, and says that it wants `challenge`.
fn guarded(wanted: String, challenge: String) -> impl FnMut(&Seen) -> Option<Reply> + Send {
    move |seen: &Seen| {
        let is_known = seen.authorization.as_deref() == Some(&*wanted);
        let is_let_in = is_known || !seen.path.starts_with("/v2/");
        (!is_let_in).then(|| Reply::new(401, "").with("www-authenticate", challenge.clone()))
    }
}

fn bearer(realm: &str) -> String {
    format!(r#"Bearer realm="{realm}",service="the registry",scope="repository:me/widgets-bundle:pull""#)
}

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
async fn a_password_goes_to_the_token_service_and_the_registry_sees_the_token_alone() {
    let played = Played::start(None).await;
    let realm = format!("http://{}/token?kind=short", played.host);
    played.on(guarded("Bearer t1".to_owned(), bearer(&realm)));
    played.on(|seen| {
        let is_it = seen.path.starts_with("/token") && seen.authorization == Some(basic());
        is_it.then(|| Reply::new(200, r#"{"token":"t1"}"#))
    });
    Client::of(&played).with(password()).push().await.unwrap();
    let asked = played
        .seen()
        .into_iter()
        .find(|seen| seen.path.starts_with("/token"));
    assert_eq!(
        asked.unwrap().path,
        "/token?kind=short&service=the%20registry&scope=repository%3Ame%2Fwidgets-bundle%3Apull%2Cpush&account=me"
    );
    assert_eq!(played.count(Method::GET, "/token"), 1);
    let shown = played.seen();
    let mut shown = shown.iter().filter(|seen| seen.path.starts_with("/v2/"));
    assert!(shown.all(|seen| seen.authorization != Some(basic())));
}

#[tokio::test]
async fn an_identity_token_is_exchanged_by_a_form() {
    let played = Played::start(None).await;
    played.on(guarded(
        "Bearer t2".to_owned(),
        bearer(&format!("http://{}/token", played.host)),
    ));
    played.on(|seen| {
        let form = String::from_utf8_lossy(&seen.body).into_owned();
        let is_it = seen.is(Method::POST, "/token")
            && form.contains("grant_type=refresh_token")
            && form.ends_with(&format!("refresh_token={PASSWORD}"));
        is_it.then(|| Reply::new(200, r#"{"access_token":"t2"}"#))
    });
    let identity = Some(Credentials::Identity(Secret::new(PASSWORD)));
    Client::of(&played).with(identity).push().await.unwrap();
    let seen = played.seen();
    assert!(
        seen.iter().all(|seen| !seen.path.contains(PASSWORD)),
        "in no address"
    );
}

#[tokio::test]
async fn a_password_is_shown_where_the_registry_wants_to_see_it_itself() {
    let played = Played::start(None).await;
    played.on(guarded(basic(), r#"Basic realm="a""#.to_owned()));
    Client::of(&played).with(password()).push().await.unwrap();
    let error = Client::of(&played).pull().await.err().unwrap();
    assert!(error.contains("podman login 127.0.0.1"), "{error}");
}

#[tokio::test]
async fn a_token_that_runs_out_meanwhile_is_asked_for_again() {
    let played = filled().await;
    let realm = bearer(&format!("http://{}/token", played.host));
    let mut asked = 0;
    // Each token lets in twice
    played.on(move |seen| {
        let is_guarded = seen.path.starts_with("/v2/");
        asked += usize::from(is_guarded);
        (is_guarded && asked % 3 == 1).then(|| Reply::new(401, "").with("www-authenticate", realm.clone()))
    });
    played.on(|seen| {
        seen.path
            .starts_with("/token")
            .then(|| Reply::new(200, r#"{"token":"t"}"#))
    });
    Client::of(&played).pull().await.unwrap();
}

#[tokio::test]
async fn whoever_a_redirect_leads_to_is_shown_nothing() {
    let (played, elsewhere) = (filled().await, filled().await);
    played.on(guarded(basic(), "Basic".to_owned()));
    let to = elsewhere.host.clone();
    played.on(move |seen| {
        let is_it = seen.path.contains("/blobs/") && seen.authorization == Some(basic());
        is_it.then(|| Reply::new(307, "").with("location", format!("http://{to}{}", seen.path)))
    });
    Client::of(&played).with(password()).pull().await.unwrap();
    let seen = elsewhere.seen();
    assert!(!seen.is_empty() && seen.iter().all(|seen| seen.authorization.is_none()));
    // Not even if it asks for it
    elsewhere.on(guarded(basic(), "Basic".to_owned()));
    let error = Client::of(&played).with(password()).pull().await.err().unwrap();
    assert!(error.contains("401"), "{error}");
    assert!(elsewhere.seen().iter().all(|seen| seen.authorization.is_none()));
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

#[tokio::test]
async fn an_authority_that_was_given_is_trusted_and_no_other() {
    let tls = Tls::new();
    let played = Played::start(Some(&tls)).await;
    let mut client = Client::of(&played);
    client.options.authorities = Some(tls.authority.clone().into_bytes());
    client.push().await.unwrap();
    client.options.authorities = Some(Tls::new().authority.into_bytes());
    let error = client.push().await.unwrap_err();
    assert!(error.contains("--ca"), "{error}");
    assert_eq!(
        error.matches("tried").count(),
        0,
        "it is not tried again: {error}"
    );
}

#[tokio::test]
async fn credentials_never_go_without_tls_from_a_registry_with_it() {
    let (tls, plain) = (Tls::new(), Played::start(None).await);
    let played = Played::start(Some(&tls)).await;
    played.on(guarded(
        "never".to_owned(),
        bearer(&format!("http://{}/token", plain.host)),
    ));
    let mut client = Client::of(&played).with(password());
    client.options.authorities = Some(tls.authority.clone().into_bytes());
    let error = client.push().await.unwrap_err();
    assert!(
        error.contains("without TLS") && plain.seen().is_empty(),
        "{error}"
    );
    // Nor by a redirect
    let to = plain.host.clone();
    played.on(move |seen| {
        let is_it = seen.is(Method::HEAD, "/blobs/");
        is_it.then(|| Reply::new(307, "").with("location", format!("http://{to}/")))
    });
    let error = client.push().await.unwrap_err();
    assert!(
        error.contains("from TLS to 127.0.0.1 without") && plain.seen().is_empty(),
        "{error}"
    );
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
async fn a_refusal_is_told_with_the_registrys_words_and_what_to_do() {
    let played = Played::start(None).await;
    played.on(|_| {
        Some(Reply::new(
            403,
            r#"{"errors":[{"code":"DENIED","message":"not yours"}]}"#,
        ))
    });
    let error = Client::of(&played).with(password()).push().await.unwrap_err();
    for part in ["HEAD http://127.0.0.1", "403 Forbidden", "not allowed to do this"] {
        assert!(error.contains(part), "{error}");
    }
    let error = Client::of(&played).pull().await.err().unwrap();
    assert!(
        error.contains("DENIED: not yours") && error.contains("podman login"),
        "{error}"
    );
}

#[tokio::test]
async fn the_secrets_that_a_registry_puts_into_addresses_are_not_told() {
    let played = Played::start(None).await;
    played.on(|seen| seen.is(Method::PUT, "/uploads/").then(|| Reply::new(400, "no")));
    let error = Client::of(&played).push().await.unwrap_err();
    assert!(
        error.contains("a-session: answered 400") && !error.contains("geheim"),
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
