//! The nginx agent against a real nginx, on loopback.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

#[path = "support/nginx_agent.rs"]
mod agent;
#[path = "support/load.rs"]
mod load;

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use agent::{
    Agent, ask, backend, command, eventually, get, proxy_to, render_spec, self_signed, served_name,
    slow_backend, unused_port,
};
use load::Load;
use roadstead::api::my_proxy::agent::config_hash;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[tokio::test(flavor = "multi_thread")]
async fn reloads_under_keep_alive_load_fail_no_request() {
    let (one, two) = (backend("one").await, backend("two").await);
    let agent = Agent::start(proxy_to(&[one]), None).await;
    let load = Load::to(agent.http).start();
    for round in 0..4 {
        tokio::time::sleep(Duration::from_millis(300)).await;
        agent.write_config(&proxy_to(&[if round % 2 == 0 { two } else { one }]));
        agent
            .wait_until("a reload", |config| config["reloads"] == round + 1)
            .await;
    }
    let report = load.stop().await;
    report.print_figures("proxy.reload");
    report.assert_nothing_failed("reload");
    assert!(report.closed > 0, "nothing was drained: {report:?}");
    assert_eq!(agent.terminate().await.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_pods_stopping_under_load_fails_no_request() {
    let backend = backend("one").await;
    let (going, staying) = (
        Agent::start(proxy_to(&[backend]), None).await,
        Agent::start(proxy_to(&[backend]), None).await,
    );
    // As a Service does: new connections go to pods that are ready, and it hears of a change a moment later.
    let ready = Arc::new(std::sync::Mutex::new(vec![going.http, staying.http]));
    let turn = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let endpoints = Arc::clone(&ready);
    let mut load = Load::to(going.http);
    load.target = Arc::new(move || {
        let endpoints = endpoints.lock().unwrap();
        let turn = turn.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        endpoints.get(turn % endpoints.len().max(1)).copied()
    });
    let load = load.start();
    tokio::time::sleep(Duration::from_millis(300)).await;
    going.signal(Signal::TERM);
    eventually("unready", || async {
        get(going.probes, "/readyz").await.0 == 503
    })
    .await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    ready.lock().unwrap().retain(|address| *address != going.http);
    assert_eq!(going.exit().await.code(), Some(0));
    let report = load.stop().await;
    report.print_figures("proxy.stop");
    report.assert_nothing_failed("stop");
    assert_eq!(
        report.lost_reused, 0,
        "drained clients had left by themselves: {report:?}"
    );
}

/// nginx's own image asks with SIGQUIT, most others with SIGTERM.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_in_flight_ends_before_the_container_does() {
    let slow = slow_backend(Duration::from_secs(3)).await;
    for signal in [Signal::TERM, Signal::QUIT] {
        let agent = Agent::start(proxy_to(&[slow]), None).await;
        let request = tokio::spawn(get(agent.http, "/"));
        tokio::time::sleep(Duration::from_millis(300)).await;
        agent.signal(signal);
        let status = agent.exit().await;
        assert_eq!((request.await.unwrap().0, status.code()), (200, Some(0)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_that_nginx_refuses_leaves_the_old_one_serving() {
    let backend = backend("one").await;
    let agent = Agent::start(proxy_to(&[backend]), None).await;
    agent.write_config("include main.conf;\nevents {}\nhttp { include http.conf; nonsense on; }\n");
    let config = agent
        .wait_until("a refusal", |config| config["refused"].is_string())
        .await;
    assert_eq!(
        config["refused"],
        "[emerg] unknown directive \"nonsense\" in nginx.conf:3"
    );
    assert_eq!(get(agent.http, "/").await.0, 200);
    assert_eq!(get(agent.probes, "/readyz").await.0, 200);
    agent.write_config(&proxy_to(&[backend]));
    agent
        .wait_until("the refusal to be over", |config| config["refused"].is_null())
        .await;
}

/// `nginx -t` does not see that an address is taken; the reload does.
#[tokio::test(flavor = "multi_thread")]
async fn a_reload_that_fails_is_undone() {
    let backend = backend("one").await;
    let agent = Agent::start(proxy_to(&[backend]), None).await;
    let before = agent.config().await["generation"].clone();
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let listen = format!(
        "http {{\n    server {{ listen {}; }}",
        taken.local_addr().unwrap()
    );
    agent.write_config(&proxy_to(&[backend]).replacen("http {", &listen, 1));
    let config = agent
        .wait_until("a refusal", |config| config["refused"].is_string())
        .await;
    assert_eq!(config["refused"], "nginx did not take the new configuration");
    assert_eq!((&config["generation"], &config["reloads"]), (&before, &json!(0)));
    let active = std::fs::read_link(agent.folder.path().join("run/active")).unwrap();
    assert_eq!(active.file_name().unwrap().to_str(), before.as_str());
    assert!(!agent.folder.path().join("run/drain").exists());
    assert_eq!(get(agent.http, "/").await.0, 200);
    drop(taken);
    agent.write_config(&proxy_to(&[backend, backend]));
    agent
        .wait_until("the next reload", |config| config["reloads"] == 1)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_ends_requests_in_flight_even_if_clients_cannot_be_asked_to_leave() {
    let slow = slow_backend(Duration::from_secs(3)).await;
    let agent = Agent::start(proxy_to(&[slow]), None).await;
    // As a full folder would do, and for root too: the flag cannot be written.
    std::fs::create_dir(agent.folder.path().join("run/drain")).unwrap();
    let request = tokio::spawn(get(agent.http, "/"));
    tokio::time::sleep(Duration::from_millis(300)).await;
    agent.signal(Signal::TERM);
    let status = agent.exit().await;
    assert_eq!((request.await.unwrap().0, status.code()), (200, Some(0)));
}

/// An nginx that has too much to do answers late: it loses new connections, not those that it has.
#[tokio::test(flavor = "multi_thread")]
async fn an_nginx_that_does_not_answer_is_unready_and_lives() {
    let agent = Agent::start(proxy_to(&[]), None).await;
    let pid = std::fs::read_to_string(agent.folder.path().join("run/nginx.pid")).unwrap();
    let group = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    rustix::process::kill_process_group(group, Signal::STOP).unwrap();
    assert_eq!(get(agent.probes, "/readyz").await.0, 503);
    assert_eq!(get(agent.probes, "/healthz").await.0, 200);
    rustix::process::kill_process_group(group, Signal::CONT).unwrap();
    eventually("ready", || async { get(agent.probes, "/readyz").await.0 == 200 }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_container_falls_back_to_the_last_good_configuration() {
    let backend = backend("one").await;
    let agent = Agent::start(proxy_to(&[backend]), None).await;
    let ports = [agent.http.port(), agent.https.port(), agent.probes.port()];
    let folder = agent.kill().await;
    let mounted = folder.path().join("config/nginx.conf");
    let good = std::fs::read_to_string(&mounted).unwrap();
    std::fs::write(&mounted, "nonsense;").unwrap();
    let agent = Agent::again(folder, None, ports).await;
    assert_eq!(get(agent.http, "/").await.0, 200);
    let report = agent.config().await;
    for _ in 0..20 {
        assert!(
            agent.config().await["refused"].is_string(),
            "it is refused all the time"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(
        (&report["config"], &report["mounted"]),
        (&json!(config_hash(&good)), &json!(config_hash("nonsense;")))
    );

    std::fs::write(&mounted, &good).unwrap();
    let report = agent
        .wait_until("the good one is mounted again", |config| {
            config["refused"].is_null()
        })
        .await;
    assert_eq!(
        (&report["config"], &report["mounted"]),
        (&json!(config_hash(&good)), &json!(config_hash(&good)))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_cannot_be_read_is_told_with_the_configuration_that_is_mounted() {
    let folder = tempfile::tempdir().unwrap();
    let certificate = folder.path().join("first");
    self_signed(&certificate, "first");
    let agent = Agent::start(
        render_spec(json!({"tls": {"secretName": "edge"}})),
        Some(&certificate),
    )
    .await;
    std::fs::remove_file(agent.folder.path().join("tls/tls.key")).unwrap();
    let report = agent
        .wait_until("a refusal", |config| config["refused"].is_string())
        .await;
    assert!(
        report["refused"].as_str().unwrap().contains("tls.key"),
        "{report}"
    );
    assert!(
        report["mounted"].is_string() && report["mounted"] == report["config"],
        "{report}"
    );
    assert_eq!(served_name(agent.https), "first");
}

#[tokio::test(flavor = "multi_thread")]
async fn when_nginx_dies_the_container_ends_with_its_code() {
    let agent = Agent::start(proxy_to(&[]), None).await;
    let pid = std::fs::read_to_string(agent.folder.path().join("run/nginx.pid")).unwrap();
    kill_process(Pid::from_raw(pid.trim().parse().unwrap()).unwrap(), Signal::KILL).unwrap();
    assert_eq!(agent.exit().await.code(), Some(128 + 9));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewed_certificate_is_served_and_a_broken_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let certificate = |name: &str| {
        let path = folder.path().join(name);
        self_signed(&path, name);
        path
    };
    let (first, second) = (certificate("first"), certificate("second"));
    let agent = Agent::start(render_spec(json!({"tls": {"secretName": "edge"}})), Some(&first)).await;
    assert_eq!(served_name(agent.https), "first");
    agent.copy_tls(&second);
    agent
        .wait_until("the renewal", |config| config["reloads"] == 1)
        .await;
    assert_eq!(served_name(agent.https), "second");
    std::fs::copy(first.join("tls.key"), agent.folder.path().join("tls/tls.key")).unwrap();
    let config = agent
        .wait_until("a refusal", |config| config["refused"].is_string())
        .await;
    assert!(
        config["refused"]
            .as_str()
            .unwrap()
            .contains("key values mismatch"),
        "{config}"
    );
    assert_eq!(served_name(agent.https), "second");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_be_reached_is_passed_over() {
    let (alive, dead) = (backend("alive").await, unused_port());
    let agent = Agent::start(proxy_to(&[dead, alive]), None).await;
    let load = Load::to(agent.http).start();
    tokio::time::sleep(Duration::from_millis(500)).await;
    load.stop().await.assert_nothing_failed("one of two servers down");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_may_have_had_an_effect_is_not_sent_twice() {
    // Reads a request and closes without an answer.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mute = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 4096]).await;
        }
    });
    let alive = backend("alive").await;
    // The first server gets nearly all requests, whichever it is.
    let spec = |first: u16, second: u16| {
        let server = |port, weight| json!({"host": "127.0.0.1", "port": port, "weight": weight});
        let upstream = json!({"name": "up", "servers": [server(first, 100), server(second, 1)]});
        render_spec(json!({"upstreams": [upstream], "routes": [{"path": "/", "upstream": "up"}]}))
    };
    let agent = Agent::start(spec(mute, alive), None).await;
    let mut posts = Vec::new();
    for _ in 0..20 {
        assert_eq!(
            get(agent.http, "/").await.0,
            200,
            "a GET goes on to the second server"
        );
        posts.push(ask(agent.http, "POST", "/").await.0);
    }
    assert!(
        posts.contains(&502),
        "a POST that was sent is not sent again: {posts:?}"
    );
    drop(agent);
    let agent = Agent::start(spec(unused_port(), alive), None).await;
    assert_eq!(
        ask(agent.http, "POST", "/").await.0,
        200,
        "one that reached nobody goes to the second server"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_that_does_not_resolve_costs_its_own_route_only() {
    let port = backend("one").await;
    let spec = json!({
        "upstreams": [
            {"name": "here", "servers": [{"host": "127.0.0.1", "port": port}]},
            {"name": "nowhere", "servers": [{"host": "nowhere.invalid", "port": 80}]},
        ],
        "routes": [{"path": "/", "upstream": "here"}, {"path": "/nowhere", "upstream": "nowhere"}],
    });
    let agent = Agent::start(render_spec(spec), None).await;
    assert_eq!(get(agent.http, "/").await.0, 200);
    assert_eq!(get(agent.http, "/nowhere").await.0, 502);
    assert_eq!(get(agent.http, "/nowhereelse").await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_behind_learns_who_asked_for_what() {
    let port = backend("one").await;
    let agent = Agent::start(proxy_to(&[port]), None).await;
    let (_, body) = get(agent.http, "/a%2Fb/../c?d=e%20f").await;
    let seen: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(seen["uri"], "/a%2Fb/../c?d=e%20f");
    let headers = &seen["headers"];
    assert_eq!(headers["host"], "example.com:8888");
    assert_eq!(headers["x-forwarded-host"], "example.com:8888");
    assert_eq!(headers["x-forwarded-for"], "127.0.0.1");
    assert_eq!(headers["x-forwarded-proto"], "http");
    assert_eq!(headers["x-forwarded-port"], "80");
    assert_eq!(headers["x-request-id"].as_str().map(str::len), Some(32));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_web_socket_is_upgraded() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = vec![0; 4096];
        let length = stream.read(&mut head).await.unwrap();
        let head = String::from_utf8_lossy(&head[..length]).to_ascii_lowercase();
        assert!(
            head.contains("upgrade: websocket") && head.contains("connection: upgrade"),
            "{head}"
        );
        let answer = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
        stream.write_all(answer.as_bytes()).await.unwrap();
        let mut echo = [0; 4];
        stream.read_exact(&mut echo).await.unwrap();
        stream.write_all(&echo).await.unwrap();
    });
    let agent = Agent::start(proxy_to(&[port]), None).await;
    let mut stream = TcpStream::connect(agent.http).await.unwrap();
    let request = "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = vec![0; 4096];
    let length = stream.read(&mut answer).await.unwrap();
    assert!(answer[..length].starts_with(b"HTTP/1.1 101 "));
    stream.write_all(b"ping").await.unwrap();
    let mut echo = [0; 4];
    stream.read_exact(&mut echo).await.unwrap();
    assert_eq!(&echo, b"ping");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_routes_the_answer_says_so_and_the_pod_is_well() {
    let agent = Agent::start(proxy_to(&[]), None).await;
    assert_eq!(
        get(agent.http, "/x").await,
        (404, "MyProxy edge has no routes.\n".to_owned())
    );
    assert_eq!(get(agent.probes, "/readyz").await.0, 200);
    assert!(get(agent.probes, "/metrics").await.1.contains("nginx_up 1"));
}

#[test]
fn a_check_tells_a_refused_configuration_from_one_that_it_could_not_check() {
    let check = |config: Option<&str>| {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("config")).unwrap();
        if let Some(config) = config {
            std::fs::write(folder.path().join("config/nginx.conf"), config).unwrap();
        }
        let status = command(folder.path(), &[8080, 8443, 8081])
            .arg("--check")
            .stderr(Stdio::null())
            .status()
            .unwrap();
        (
            status.code(),
            std::fs::read_to_string(folder.path().join("termination")).unwrap_or_default(),
        )
    };
    assert_eq!(check(Some(&proxy_to(&[80, 81]))), (Some(0), String::new()));
    assert_eq!(
        check(Some("nonsense;")),
        (
            Some(3),
            "[emerg] unknown directive \"nonsense\" in nginx.conf:1".to_owned()
        )
    );
    let (code, message) = check(None);
    assert!(
        code == Some(1) && message.starts_with("cannot read"),
        "{code:?} {message}"
    );
}

#[test]
fn nginx_accepts_the_largest_proxy_that_validation_does() {
    let label = |i: usize| format!("{}{i:03}", "u".repeat(60));
    let servers = |i: usize| -> Vec<_> {
        (0..16).map(|j| json!({"host": format!("h{i}-{j}.{}.com", ["a".repeat(60).as_str(); 3].join(".")), "port": 80})).collect()
    };
    let upstreams: Vec<_> = (0..64)
        .map(|i| json!({"name": label(i), "servers": servers(i)}))
        .collect();
    let routes: Vec<_> = (0..128)
        .map(|i| {
            json!({
                "path": format!("/{}{i:03}", "p".repeat(252)), "upstream": label(i % 64),
                "host": format!("h{i}.{}.com", ["h".repeat(60).as_str(); 3].join(".")),
            })
        })
        .collect();
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("config")).unwrap();
    let config = render_spec(json!({"upstreams": upstreams, "routes": routes}));
    std::fs::write(folder.path().join("config/nginx.conf"), config).unwrap();
    let output = command(folder.path(), &[8080, 8443, 8081])
        .arg("--check")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
