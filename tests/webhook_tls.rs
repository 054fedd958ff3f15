//! The webhook server over real TLS: certificates are replaced without a request lost, and nobody at the other end keeps others waiting.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test fails by panicking

#[path = "support/reviews.rs"]
mod reviews;
#[path = "support/webhook_tls.rs"]
mod webhook_tls;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use reviews::{conversion, proxy, router};
use roadstead::webhook::Limits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use webhook_tls::{Authority, Client, Served};

/// As always, but that the server does not linger.
fn quick() -> Limits {
    Limits {
        linger: Duration::ZERO,
        ..Limits::default()
    }
}

fn body() -> String {
    conversion("roadstead.dev/v1", &[proxy("v1alpha1", "a", 1000)]).to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_request_is_answered_while_the_certificate_is_replaced() {
    let authority = Authority::new();
    let server = Served::begin(&authority, quick(), router(quick())).await;
    let answered = std::sync::Arc::new(AtomicUsize::new(0));
    let first = server.certificate();
    let mut client = Client::connect(&authority, server.address).await.unwrap();
    assert_eq!(client.certificate(), first);
    let counter = std::sync::Arc::clone(&answered);
    let (authority_, address) = (authority.clone(), server.address);
    let sending = tokio::spawn(async move {
        for at in 0..200 {
            let (status, body) = client.post("/convert", &body()).await.unwrap();
            assert_eq!(status, 200);
            assert!(body.contains(r#""status":"Success""#));
            counter.fetch_add(1, Ordering::SeqCst);
            // Some keep their connection, some have a new one for each request.
            if at % 3 == 0 {
                client = Client::connect(&authority_, address).await.unwrap();
            }
        }
    });
    let mut replaced = 0;
    while !sending.is_finished() {
        server.replace(&authority);
        replaced += 1;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    sending.await.unwrap();
    assert_eq!(answered.load(Ordering::SeqCst), 200);
    assert!(replaced > 2, "{replaced}");
    let client = Client::connect(&authority, server.address).await.unwrap();
    assert_eq!(client.certificate(), server.certificate());
    assert_ne!(client.certificate(), first);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handshakes_that_hang_keep_nobody_waiting_and_are_given_up() {
    let authority = Authority::new();
    let limits = Limits {
        handshake: Duration::from_secs(1),
        ..quick()
    };
    let server = Served::begin(&authority, limits, router(limits)).await;
    let mut silent = Vec::new();
    for _ in 0..50 {
        silent.push(TcpStream::connect(server.address).await.unwrap());
    }
    let started = Instant::now();
    let mut client = Client::connect(&authority, server.address).await.unwrap();
    assert_eq!(client.post("/convert", &body()).await.unwrap().0, 200);
    assert!(
        started.elapsed() < Duration::from_millis(900),
        "{:?}",
        started.elapsed()
    );
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(10), silent[0].read_to_end(&mut rest)).await;
    assert!(matches!(ended, Ok(Ok(0) | Err(_))), "it was hung up on");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_are_never_more_connections_than_the_limit_and_a_place_that_is_free_is_taken() {
    let authority = Authority::new();
    let limits = Limits {
        connections: 2,
        handshake: Duration::from_millis(500),
        ..quick()
    };
    let server = Served::begin(&authority, limits, router(limits)).await;
    let _silent = [
        TcpStream::connect(server.address).await.unwrap(),
        TcpStream::connect(server.address).await.unwrap(),
    ];
    let started = Instant::now();
    let mut client = Client::connect(&authority, server.address).await.unwrap();
    assert!(
        started.elapsed() > Duration::from_millis(300),
        "it had to wait for a place"
    );
    assert_eq!(client.post("/convert", &body()).await.unwrap().0, 200);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_header_that_does_not_end_and_a_body_that_does_not_come_are_given_up() {
    let authority = Authority::new();
    let limits = Limits {
        header: Duration::from_millis(300),
        body: Duration::from_millis(300),
        ..quick()
    };
    let server = Served::begin(&authority, limits, router(limits)).await;
    let mut slow = webhook_tls::handshake(&authority, server.address).await.unwrap();
    slow.write_all(b"POST /convert HTTP/1.1\r\nHost: a\r\nX-A: ")
        .await
        .unwrap();
    let mut answer = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(10), slow.read_to_end(&mut answer)).await;
    assert!(ended.is_ok(), "it was hung up on");

    let mut slow = webhook_tls::handshake(&authority, server.address).await.unwrap();
    let head = "POST /convert HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{";
    slow.write_all(head.as_bytes()).await.unwrap();
    let mut answer = vec![0; 1000];
    let length = tokio::time::timeout(Duration::from_secs(10), slow.read(&mut answer))
        .await
        .unwrap()
        .unwrap();
    let answer = String::from_utf8_lossy(&answer[..length]);
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_too_long_is_refused_before_it_is_sent() {
    let authority = Authority::new();
    let limits = Limits {
        memory: 1000,
        ..quick()
    };
    let server = Served::begin(&authority, limits, router(limits)).await;
    let mut client = webhook_tls::handshake(&authority, server.address).await.unwrap();
    let head = "POST /convert HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n";
    client.write_all(head.as_bytes()).await.unwrap();
    let mut answer = vec![0; 1000];
    let length = client.read(&mut answer).await.unwrap();
    let answer = String::from_utf8_lossy(&answer[..length]);
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    server.stop().await;
}

/// A list of many objects is under way when the server is told to stop.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_under_way_is_answered_when_the_server_stops_and_each_answer_ends_its_connection() {
    let authority = Authority::new();
    let limits = Limits {
        linger: Duration::from_millis(300),
        ..quick()
    };
    let server = Served::begin(&authority, limits, router(limits)).await;
    let many = conversion("roadstead.dev/v1", &vec![proxy("v1alpha1", "a", 2000); 1000]).to_string();
    let mut busy = Client::connect(&authority, server.address).await.unwrap();
    let mut late = Client::connect(&authority, server.address).await.unwrap();
    let mut idle = Client::connect(&authority, server.address).await.unwrap();
    assert_eq!(idle.post("/convert", &body()).await.unwrap().0, 200);
    let under_way = tokio::spawn(async move { busy.post("/convert", &many).await });
    tokio::time::sleep(Duration::from_millis(30)).await;
    let address = server.address;
    let stopping = tokio::spawn(server.stop());
    tokio::time::sleep(Duration::from_millis(30)).await;
    let (status, _) = late.post("/convert", &body()).await.unwrap();
    assert_eq!(status, 200, "requests are taken for a while");
    assert!(
        late.post("/convert", &body()).await.is_err(),
        "on another connection"
    );
    let (status, body) = under_way.await.unwrap().unwrap();
    assert_eq!(status, 200);
    assert!(body.ends_with(r#""result":{"status":"Success"}}}"#));
    tokio::time::timeout(Duration::from_secs(8), stopping)
        .await
        .unwrap()
        .unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}
