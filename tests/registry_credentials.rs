//! Credentials at a registry in memory: they go to the registry and to its token service, and to nobody else, whatever a registry says; and no message tells them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "each binary uses what it needs of this")]
#[path = "support/broken_bundles.rs"]
mod broken_bundles;
#[path = "support/registry_client.rs"]
mod client;
#[path = "support/played_registry.rs"]
mod played_registry;

use std::sync::{Arc, Mutex};

use client::{Client, PASSWORD, basic, bearer, filled, guarded, password};
use http::Method;
use played_registry::{Played, Reply, Tls};
use roadstead::olm::oci::credentials::{Credentials, Secret};
use roadstead::olm::oci::registry::Proxies;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

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

/// Of a proxy that connects to one address, whatever it is asked for: what it was asked, line by line.
async fn proxy(to: String) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let heard = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (to, heard) = (to.clone(), Arc::clone(&heard));
            tokio::spawn(async move {
                let mut client = BufReader::new(client);
                let mut line = String::new();
                while client.read_line(&mut line).await.unwrap() > 2 {
                    heard
                        .lock()
                        .unwrap()
                        .push(std::mem::take(&mut line).trim().to_owned());
                }
                let mut server = TcpStream::connect(to).await.unwrap();
                client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
                // Whoever ends first, the other is told by the end of the connection
                let _ = copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    (address, asked)
}

#[tokio::test]
async fn a_registry_is_reached_through_the_proxy_that_is_named_and_this_machine_without() {
    let tls = Tls::of("registry.test");
    let played = Played::start(Some(&tls)).await;
    let (address, asked) = proxy(played.host.clone()).await;
    let proxies =
        Proxies::of(|name| (name == "HTTPS_PROXY").then(|| format!("http://a:b@{address}"))).unwrap();

    let mut client = Client::of(&played);
    client.host = "registry.test:443".to_owned();
    client.options.authorities = Some(tls.authority.clone().into_bytes());
    client.options.proxies = proxies.clone();
    client.push().await.unwrap();
    client.pull().await.unwrap();
    let said = asked.lock().unwrap().clone();
    assert!(said[0].starts_with("CONNECT registry.test:443 "), "{said:?}");
    let password = |line: &String| line.eq_ignore_ascii_case("proxy-authorization: Basic YTpi");
    assert!(said.iter().any(password), "{said:?}");

    asked.lock().unwrap().clear();
    let near = Tls::new();
    let played = Played::start(Some(&near)).await;
    let mut client = Client::of(&played);
    client.options.authorities = Some(near.authority.clone().into_bytes());
    client.options.proxies = proxies;
    client.push().await.unwrap();
    assert!(asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_proxy_that_does_not_answer_is_named() {
    let played = Played::start(None).await;
    let mut client = Client::of(&played);
    client.host = "registry.test".to_owned();
    // Nobody listens there once this is gone
    let address = TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap();
    let named = move |name: &str| (name == "ALL_PROXY").then(|| format!("http://a:secret@{address}"));
    client.options.proxies = Proxies::of(named).unwrap();
    let error = client.push().await.unwrap_err();
    assert!(
        error.contains(&format!("through the proxy {address}: ")),
        "{error}"
    );
    assert!(!error.contains("secret"), "{error}");
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
